-- The id of a fact follows from what the fact says and what caused it, so it is derived where it is
-- read. It was a tenth of the bytes of the largest table, and a hash for every fact ever projected.

-- migrate:up

-- As `ledger.core.ids.event_id` has it; a test compares the two.
create function actionledger.event_id(
    tenant_id       text,
    action_key      text,
    version         bigint,
    type            text,
    cause_topic     text,
    cause_partition integer,
    cause_offset    bigint,
    ordinal         integer
)
returns text
language sql immutable strict parallel safe
as $$
    select left(
        encode(
            sha256(
                convert_to(
                    -- In two parts, because the word alone is replaced by the name of the schema.
                    'action' || 'ledger.event.v1' || e'\n' || tenant_id || e'\n' || action_key
                    || e'\n' || version || e'\n' || type || e'\n' || cause_topic || e'\n'
                    || cause_partition || e'\n' || cause_offset || e'\n' || ordinal,
                    'UTF8'
                )
            ),
            'hex'
        ),
        32
    )
$$;

create or replace view actionledger_api_v1.action_events as
select
    tenant_id,
    action_key,
    version,
    type,
    decided_at,
    data,
    actionledger.event_id(
        tenant_id, action_key, version, type, cause_topic, cause_partition, cause_offset, ordinal
    ) as event_id,
    partition,
    ledger_offset,
    ordinal,
    cause_topic,
    cause_partition,
    cause_offset
from actionledger.action_events;

alter table actionledger.action_events drop column event_id;

-- migrate:down

alter table actionledger.action_events add column event_id text;
update actionledger.action_events
set event_id = actionledger.event_id(
    tenant_id, action_key, version, type, cause_topic, cause_partition, cause_offset, ordinal
);
alter table actionledger.action_events alter column event_id set not null;
create or replace view actionledger_api_v1.action_events as
select
    tenant_id,
    action_key,
    version,
    type,
    decided_at,
    data,
    event_id,
    partition,
    ledger_offset,
    ordinal,
    cause_topic,
    cause_partition,
    cause_offset
from actionledger.action_events;
drop function actionledger.event_id(text, text, bigint, text, text, integer, bigint, integer);
