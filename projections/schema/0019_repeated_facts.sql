-- One thing that happened, told under several event ids, counts once: the first row of it decides,
-- the others point to it. And how far each provider's own list of events has been read.

-- migrate:up

alter table actionledger.webhooks
    -- What an event says happened to which object when, as a hash: the same under any event id.
    -- Null for lines of files and lists, whose days and amounts may well be equal, and for rows
    -- that are older than this column.
    add column fact text,
    -- Of a duplicate, the row that decides for it.
    add column repeats_partition integer,
    add column repeats_offset bigint,
    add constraint webhooks_repeats check (
        (repeats_partition is null) = (repeats_offset is null)
    );

-- As the index on events does for one event, this one decides which of several is the first.
create unique index webhooks_fact on actionledger.webhooks (provider, account, fact)
    where classification in ('matched', 'parked');

-- Whether an event of a list came by itself, where its row does not decide; rows that do have an
-- index of their own.
create index webhooks_undecided on actionledger.webhooks (provider, account, event_id)
    where classification in ('unrecognised', 'duplicate');

-- How far a provider's list of events was read, and who may read it next and when: of several
-- inquirers one reads an account at a time, and a reading that was broken off is begun again.
create table actionledger.event_pulls (
    provider   text        not null,
    account    text        not null,
    -- The provider's time of the last event that is on the topic `webhooks`.
    seen_at    timestamptz not null,
    next_at    timestamptz not null,
    -- What the last reading found, for people.
    pulled_at  timestamptz,
    events     bigint      not null default 0,
    missed     bigint      not null default 0,
    trouble    text,
    constraint event_pulls_account primary key (provider, account)
);

-- migrate:down

drop table actionledger.event_pulls;
drop index actionledger.webhooks_undecided;
drop index actionledger.webhooks_fact;
alter table actionledger.webhooks
    drop column repeats_offset,
    drop column repeats_partition,
    drop column fact;
