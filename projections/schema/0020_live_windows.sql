-- What each member of the reconciler saw lately, for whoever watches an installation.
--
-- Owned by the reconciler, the only writer. Outside the checksum of a rebuild: a member writes its
-- windows anew every few seconds and nothing is decided by them.

-- migrate:up

create table actionledger.live_windows (
    -- Drawn when the member starts; one that has ended is forgotten by the others.
    member     text        not null,
    written_at timestamptz not null,
    -- Counts of a few minutes: see `reconciler.windows`.
    windows    json        not null,
    constraint live_windows_member primary key (member)
);

-- How much is unmatched, by reason: counted every half minute, with any number of rows beside it.
create index webhooks_unmatched on actionledger.webhooks (classification, reason, received_at)
    where classification in ('parked', 'unrecognised');

-- migrate:down

drop index actionledger.webhooks_unmatched;
drop table actionledger.live_windows;
