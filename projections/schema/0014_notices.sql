-- Who is to be told that an action waits for people, and what became of telling them.
--
-- Owned by the reconciler, the only writer. Outside the checksum of a rebuild: rows follow from the
-- topic `attention` and the operator's file of destinations; nothing is decided by them.

-- migrate:up

create table actionledger.notices (
    -- Where the fact that asks people stands in the ledger: being told twice makes no second row.
    notice_id      text        not null,
    -- A webhook or a person, by name. Addresses and secrets are in the operator's file alone.
    destination    text        not null,
    tenant_id      text        not null,
    action_key     text        not null,
    action_version bigint      not null,
    kind           text        not null,
    policy_row     text        not null,
    groups         text[]      not null,
    quorum         bigint,
    expires_at     timestamptz,
    amount_minor   bigint,
    currency       text,
    target         text,
    raised_at      timestamptz not null,
    -- The message that it goes out with; the same at every try, so that a receiver can tell.
    message_id     text,
    tries          integer     not null default 0,
    try_after      timestamptz,
    sent_at        timestamptz,
    ended_at       timestamptz,
    -- Why the last try failed, or why it was not told at all: over, expired, given_up.
    trouble        text,
    constraint notices_notice primary key (notice_id, destination),
    constraint notices_money check ((amount_minor is null) = (currency is null)),
    constraint notices_over check (sent_at is null or ended_at is not null)
)
with (fillfactor = 80);

-- What is still to be told, oldest first: few rows, looked at every second.
create index notices_waiting on actionledger.notices (destination, raised_at)
    where ended_at is null;

-- When a destination was told last.
create index notices_sent on actionledger.notices (destination, sent_at)
    where sent_at is not null;

-- What may be forgotten.
create index notices_raised on actionledger.notices (raised_at);

-- migrate:down

drop table actionledger.notices;
