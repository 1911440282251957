-- The projector's tables: what the ledger topic says, as rows.
--
-- Every row follows from the log alone, so that dropping and projecting again gives the same bytes
-- (`actionledger rebuild`). Times are log times, never the time of the database. Counts and offsets
-- are bigint because the log's are. No constraint spans partitions: each partition is projected on
-- its own. `json`, not `jsonb`, wherever text of the log is kept: jsonb reorders keys.
--
-- The schema is named in full everywhere; `projections.migrate` can put these tables into another.

-- migrate:up

-- Where the projector stands in each ledger partition. Changes in the transaction of the rows it
-- accounts for, and only from the value it was read with: of two projectors one finds 0 rows.
create table actionledger.projection_offsets (
    partition       integer     not null primary key,
    next_offset     bigint      not null,
    epoch           bigint      not null,
    decided_at      timestamptz not null,
    -- by inbox topic, the offset of the next input to decide
    positions       json        not null,
    void_count      bigint      not null,
    generation      text,
    partitions      bigint,
    cluster         text,
    -- the configuration in force, with its place on the config topic
    adopted_kind    text,
    adopted_hash    text,
    adopted_offset  bigint,
    adopted_content text
);

-- One business event, with the exact bytes of its folded state: what owners load when they have
-- let go of a stream. A fold_version other than the program's is folded again from action_events.
-- A decision below next_offset is in the state already.
create table actionledger.streams (
    stream_key   text    not null primary key,
    tenant_id    text    not null,
    partition    integer not null,
    next_offset  bigint  not null,
    fold_version integer not null,
    action_keys  text[]  not null,
    state        bytea   not null
)
-- A stream is written two to ten times in its first minute; with room on its page, and no index on
-- what changes, Postgres does not touch the indexes again.
with (fillfactor = 70);

-- The record by which a caller's act is found for ever (tenant, action id, operation).
create table actionledger.actions (
    tenant_id          text        not null,
    action_id          text        not null,
    operation          text        not null,
    operation_version  bigint      not null,
    action_key         text        not null,
    stream_key         text        not null,
    request_hash       text        not null,
    target             text,
    amount_minor       bigint,
    currency           text,
    principal          text        not null,
    environment        text        not null,
    provider           text        not null,
    account            text        not null,
    reliability        text        not null,
    status             text        not null,
    version            bigint      not null,
    policy_row         text,
    attempts           bigint      not null,
    holder             text,
    lease_until        timestamptz,
    next_due_at        timestamptz,
    step_deadline_at   timestamptz not null,
    provider_reference text,
    result             json,
    proof              text,
    code               text,
    review             text,
    intent_offset      bigint      not null,
    epoch              bigint      not null,
    ledger_partition   integer     not null,
    ledger_offset      bigint      not null,
    created_at         timestamptz not null,
    updated_at         timestamptz not null,
    -- One act under one identity: the database says so too, whatever races before it.
    constraint actions_identity primary key (tenant_id, action_id, operation),
    -- Doors, people and other tables name an action by its key.
    constraint actions_key unique (action_key)
)
with (fillfactor = 80);

-- Timers: what is due in a partition, by time. Holds only what waits for something.
create index actions_due on actionledger.actions (ledger_partition, next_due_at)
    where next_due_at is not null;

-- The short lists that people look at: uncertain, or waiting for a person; oldest first.
create index actions_unsettled on actionledger.actions (status, updated_at)
    where status in ('unknown', 'needs_review');

-- The timeline: every fact of every accepted decision, in the words of the log.
create table actionledger.action_events (
    partition       integer     not null,
    ledger_offset   bigint      not null,
    ordinal         integer     not null,
    tenant_id       text        not null,
    action_key      text        not null,
    version         bigint      not null,
    type            text        not null,
    decided_at      timestamptz not null,
    cause_topic     text        not null,
    cause_partition integer     not null,
    cause_offset    bigint      not null,
    event_id        text        not null,
    data            json        not null,
    constraint action_events_place primary key (partition, ledger_offset, ordinal),
    -- An action's facts are numbered without a gap or a repeat; also what a timeline is read by.
    constraint action_events_version unique (action_key, version)
);

-- "Which input became what". One entry a decision; new entries go to the right edge of each inbox.
create index action_events_cause
    on actionledger.action_events (cause_topic, cause_partition, cause_offset)
    where ordinal = 0;

-- Decisions that led to no fact: refused, unchanged, quarantined, or a configuration adopted.
create table actionledger.decisions (
    partition       integer     not null,
    ledger_offset   bigint      not null,
    decided_at      timestamptz not null,
    tenant_id       text,
    stream_key      text,
    action_key      text,
    outcome         text        not null,
    reason          text        not null,
    details         json        not null,
    cause_topic     text        not null,
    cause_partition integer     not null,
    cause_offset    bigint      not null,
    -- inputs of the internal topic do not live for ever, so the log copies what they said
    cause_copied    text,
    constraint decisions_place primary key (partition, ledger_offset)
);

-- Not unique: one configuration record is adopted in every partition.
create index decisions_cause
    on actionledger.decisions (cause_topic, cause_partition, cause_offset);

-- "What else was asked about this action": refused and repeated proposals beside the timeline.
create index decisions_action
    on actionledger.decisions (action_key, partition, ledger_offset)
    where action_key is not null;

-- Each try at a provider, with what became of it.
create table actionledger.attempts (
    action_key    text        not null,
    number        bigint      not null,
    tenant_id     text        not null,
    provider      text        not null,
    account       text        not null,
    fencing_token bigint      not null,
    holder        text        not null,
    provider_key  text        not null,
    status        text        not null,
    code          text,
    started_at    timestamptz not null,
    lease_until   timestamptz not null,
    ended_at      timestamptz,
    constraint attempts_number primary key (action_key, number)
)
with (fillfactor = 80);

-- By which of the provider's names an action is known. Several actions under one name are a case
-- for whoever matches, not an error here: they may live on different partitions.
create table actionledger.provider_references (
    account       text        not null,
    reference     text        not null,
    action_key    text        not null,
    tenant_id     text        not null,
    stream_key    text        not null,
    provider      text        not null,
    seen_at       timestamptz not null,
    partition     integer     not null,
    ledger_offset bigint      not null,
    constraint provider_references_name primary key (account, reference, action_key)
);

-- Each time a person was asked for. `alarm` is a case about an action that is final and stays so.
create table actionledger.review_cases (
    action_key    text        not null,
    version       bigint      not null,
    tenant_id     text        not null,
    kind          text        not null,
    reason        text        not null,
    opened_at     timestamptz not null,
    partition     integer     not null,
    ledger_offset bigint      not null,
    constraint review_cases_opening primary key (action_key, version)
);

-- Alarms stay on the list; other cases are listed by their action's status.
create index review_cases_alarms on actionledger.review_cases (opened_at)
    where kind = 'alarm';

-- migrate:down

drop table actionledger.review_cases;
drop table actionledger.provider_references;
drop table actionledger.attempts;
drop table actionledger.decisions;
drop table actionledger.action_events;
drop table actionledger.actions;
drop table actionledger.streams;
drop table actionledger.projection_offsets;
