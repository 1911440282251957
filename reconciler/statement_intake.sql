-- Lines of statements that were brought: what became of each. `reconciler.statement_intake` is the
-- only reader of this file; it changes nothing.

-- name: lines
-- What is known of lines by their event ids: the row that decides, what it says, the action that it
-- matches as the tables have it, whether the ledger has recorded its evidence (of a line that only
-- confirms there is none), and the case that the same decision opened.
select
    w.event_id, w.effect, w.reference, w.reverses, w.claimed_key, w.provider_key, w.amount_minor,
    w.currency, w.classification, w.reason, w.action_key, w.seen_at,
    a.status, a.provider_reference,
    a.amount_minor as action_minor, a.currency as action_currency,
    e.ledger_offset is not null as is_recorded,
    c.reason as case_reason
from unnest($3::text[], $4::text[]) as wanted (event_id, source_id)
join lateral (
    -- One row at most, and by the index whatever the planner believes of a table that grows.
    select *
    from actionledger.webhooks as one
    where one.provider = $1
      and one.account = $2
      and one.event_id = wanted.event_id
      and one.classification in ('matched', 'parked')
    limit 1
) as w on true
left join lateral (
    select * from actionledger.actions as one where one.action_key = w.action_key limit 1
) as a on true
left join lateral (
    select f.partition, f.ledger_offset
    from actionledger.action_events as f
    where f.action_key = w.action_key
      and w.reason is null
      and f.type = 'evidence.recorded'
      and f.data ->> 'source_id' = wanted.source_id
    limit 1
) as e on true
left join lateral (
    select r.reason
    from actionledger.review_cases as r
    where r.action_key = w.action_key
      and r.partition = e.partition
      and r.ledger_offset = e.ledger_offset
    order by r.version
    limit 1
) as c on true;

-- name: there
-- Which lines have a row, for who may not read what the ledger recorded.
select w.event_id, w.effect, w.reference, w.reverses, w.claimed_key, w.provider_key, w.amount_minor,
    w.currency
from unnest($3::text[]) as wanted (event_id)
join lateral (
    select *
    from actionledger.webhooks as one
    where one.provider = $1
      and one.account = $2
      and one.event_id = wanted.event_id
      and one.classification in ('matched', 'parked')
    limit 1
) as w on true;
