-- Webhooks: what arrived, what the mapping made of it, and whose it is.
--
-- Owned by the reconciler and the inquirer, the only writers. Outside the checksum of a rebuild:
-- rows follow from the topic `webhooks`, the mapping in force and the references known at the time,
-- and are made again by reading the topic from its beginning.

-- migrate:up

create table actionledger.webhooks (
    -- Where the webhook stands on its topic: reading a record twice changes nothing.
    partition       integer     not null,
    topic_offset    bigint      not null,
    -- Who sent it, by the secret that verified it, and the provider's own id of the event.
    provider        text        not null,
    account         text        not null,
    event_id        text        not null,
    -- The broker's append time, and the provider's word for when it happened.
    received_at     timestamptz not null,
    occurred_at     timestamptz,
    sha256          text        not null,
    -- The mapping that read it, by the hash of its code: what another one would read differently
    -- can be found.
    mapping_hash    text        not null,
    -- What the mapping made of it; null where it understood nothing.
    event_type      text,
    meaning         text,
    effect          text,
    speaks_for      text,
    reference       text,
    claimed_key     text,
    provider_key    text,
    amount_minor    bigint,
    currency        text,
    -- What became of it. `duplicate`: the same event as another row, which decides.
    classification  text        not null,
    reason          text,
    -- The action it is evidence about, once that evidence is durable.
    action_key      text,
    matched_by      text,
    matched_at      timestamptz,
    constraint webhooks_place primary key (partition, topic_offset),
    constraint webhooks_money check ((amount_minor is null) = (currency is null)),
    constraint webhooks_classified check (
        classification in ('matched', 'parked', 'irrelevant', 'unrecognised', 'duplicate')
    ),
    constraint webhooks_matched check (
        (classification = 'matched') = (action_key is not null)
        and (action_key is null) = (matched_by is null)
        and (action_key is null) = (matched_at is null)
    ),
    constraint webhooks_explained check (
        classification not in ('parked', 'unrecognised') or reason is not null
    )
);

-- One event counts once, whoever reads its deliveries and however close together: this index
-- decides, not a look before the insert. What no mapping understood decides nothing: the next
-- delivery may meet a mapping that does.
create unique index webhooks_event on actionledger.webhooks (provider, account, event_id)
    where classification in ('matched', 'parked');

-- What waits for its reference. Few rows, looked for every few seconds.
create index webhooks_waiting on actionledger.webhooks (account, reference)
    where classification = 'parked';

-- The webhooks of one action, for its timeline.
create index webhooks_action on actionledger.webhooks (action_key)
    where action_key is not null;

-- What was received, is relevant and is nobody's yet, as of a moment: after 30 days a webhook no
-- longer waits. Derived with the time as a parameter, so that nothing has to expire it.
create function actionledger.parked_webhooks(as_of timestamptz)
returns setof actionledger.webhooks
language sql stable parallel safe
as $$
    select w.*
    from actionledger.webhooks as w
    where w.classification in ('parked', 'unrecognised')
      and w.received_at <= as_of
      and w.received_at > as_of - interval '30 days'
    order by w.received_at, w.partition, w.topic_offset;
$$;

-- How far the inquirer has acted on each partition of the ledger: the point from which it reads
-- again after a restart, with the epoch that is current there.
create table actionledger.inquirer_positions (
    partition    integer     not null primary key,
    next_offset  bigint      not null,
    epoch        bigint      not null,
    generation   text        not null,
    saved_at     timestamptz not null
);

-- migrate:down

drop table actionledger.inquirer_positions;
drop function actionledger.parked_webhooks(timestamptz);
drop table actionledger.webhooks;
