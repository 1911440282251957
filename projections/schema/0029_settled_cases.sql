-- A case is settled by the person who was shown it. Where evidence had settled one and an alarm was
-- opened later, whoever took note of the alarm stood beside both. And the words of columns are those
-- of now: what can prove an effect, what people say, and what an unknown action is not.

-- migrate:up

create or replace view actionledger_api_v1.review_cases with (security_invoker = true) as
select
    cases.tenant_id,
    cases.action_key,
    cases.version,
    cases.kind,
    cases.reason,
    cases.opened_at,
    settled.resolved_at is null
        and (cases.kind = 'alarm' or actions.status = 'needs_review') as is_open,
    actions.status,
    cases.partition,
    cases.ledger_offset,
    settled.resolved_at,
    settled.move,
    settled.person,
    settled.key_id,
    settled.reference,
    settled.comment,
    settled.signed,
    cases.names
from actionledger.review_cases as cases
join actionledger.actions on actions.action_key = cases.action_key
left join lateral (
    -- All that was asked for since the fact that opened the case is settled with it, and nothing
    -- before.
    select *
    from actionledger.review_resolutions as later
    where later.action_key = cases.action_key
      and later.version > cases.version
      and later.case_version <= cases.version
    order by later.version
    limit 1
) as settled on true;
comment on column actionledger_api_v1.review_cases.move is 'What they said: effect_exists, no_effect, try_again, look_again, allow or acknowledge.';
comment on column actionledger_api_v1.review_cases.names is 'What the case is about where that is not the action itself: the ceiling that was reached, the action that it looks like, or how much was given back and under which names.';
comment on column actionledger_api_v1.actions.proof is 'What proved the effect: report, webhook, lookup, settlement, listing or person. Null until it is proven.';
comment on view actionledger_api_v1.unknown_actions is 'Actions whose effect may have happened and is not proven either way, while the ledger finds out. What it could not find out is with people (status needs_review) and not here; attempts that are running or unresolved are both.';

-- migrate:down

create or replace view actionledger_api_v1.review_cases with (security_invoker = true) as
select
    cases.tenant_id,
    cases.action_key,
    cases.version,
    cases.kind,
    cases.reason,
    cases.opened_at,
    settled.resolved_at is null
        and (cases.kind = 'alarm' or actions.status = 'needs_review') as is_open,
    actions.status,
    cases.partition,
    cases.ledger_offset,
    settled.resolved_at,
    settled.move,
    settled.person,
    settled.key_id,
    settled.reference,
    settled.comment,
    settled.signed,
    cases.names
from actionledger.review_cases as cases
join actionledger.actions on actions.action_key = cases.action_key
left join lateral (
    select *
    from actionledger.review_resolutions as later
    where later.action_key = cases.action_key and later.version > cases.version
    order by later.version
    limit 1
) as settled on true;
comment on column actionledger_api_v1.review_cases.move is 'What they said: effect_exists, no_effect, try_again, look_again or acknowledge.';
comment on column actionledger_api_v1.review_cases.names is 'What the case is about where that is not the action itself: the ceiling that was reached, or the action that it looks like.';
comment on column actionledger_api_v1.actions.proof is 'What proved the effect: report, webhook or lookup. Null until it is proven.';
comment on view actionledger_api_v1.unknown_actions is 'Actions whose effect may have happened and is not proven either way.';
