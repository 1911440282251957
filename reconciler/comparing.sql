-- A provider's list against the actions. `reconciler.comparing` and `reconciler.orphans` are the only
-- readers of this file; it changes nothing.

-- name: in_order
-- Which of these listed effects are those of completed actions, with the same name, money and, where
-- the effect bears one, key. What is looked up for each stands in a subquery with `limit`, so that it
-- is found by its index however new the table is.
select wanted.place
from unnest($3::int[], $4::text[], $5::bigint[], $6::text[], $7::text[])
    as wanted (place, reference, minor, currency, action_key)
join lateral (
    select one.action_key
    from actionledger.provider_references as one
    where one.provider = $1 and one.account = $2 and one.reference = wanted.reference
    limit 1
) as r on true
join lateral (
    select * from actionledger.actions as one where one.action_key = r.action_key limit 1
) as a on true
where a.provider = $1
  and a.account = $2
  and a.status = 'completed'
  and a.provider_reference = wanted.reference
  and (wanted.action_key is null or wanted.action_key = a.action_key)
  and (
      a.amount_minor is null
      or (a.amount_minor, a.currency) is not distinct from (wanted.minor, wanted.currency)
  );

-- name: completed_within
-- Actions that were asked for and completed within a time, a page at a time: their effects must be
-- in a whole list of it. Those of the named operations make none.
select a.action_key, a.provider_reference, a.operation, a.proof
from actionledger.actions as a
where a.provider = $1
  and a.account = $2
  and a.status = 'completed'
  and a.created_at >= $3
  and a.updated_at < $4
  and a.operation <> all ($5::text[])
  and a.action_key > $6
order by a.action_key
limit $7;

-- name: shown
-- What people have to look at, of every tenant or only what bears the key of an action of these, as
-- its mark or as the key at the provider; the two statements behind it go on from here. A key is
-- what looks like $2 and not like $3; what bears keys of two tenants is no tenant's. The conditions
-- are those of the index on orphans.
with shown as (
    select
        w.partition, w.topic_offset, w.reason, w.provider, w.account, w.event_id, w.source,
        w.reference, w.reverses, w.claimed_key, w.provider_key, w.event_type, w.amount_minor,
        w.currency, w.occurred_at, w.received_at, w.seen_by, w.seen_at, w.seen_note
    from actionledger.webhooks as w
    where w.classification = 'parked'
      and w.reason in ('orphan_effect', 'line_changed', 'effect_not_listed')
      and (
          $1::text[] is null
          or (
              select case when count(distinct split_part(one.key, ':', 3)) = 1
                  then min(split_part(one.key, ':', 3)) end
              from unnest(array[w.claimed_key, w.provider_key]) as one (key)
              where one.key ~ $2 and one.key !~ $3
          ) = any ($1::text[])
      )
)

-- name: orphans
-- Behind `shown`: what nobody has looked at, the oldest first, and how much that is.
select s.*, count(*) over () as orphans
from shown as s
where s.seen_at is null
order by s.received_at, s.partition, s.topic_offset
limit $4;

-- name: orphan
-- Behind `shown`: one of them by the place of its row, looked at or not.
select s.* from shown as s where s.partition = $4 and s.topic_offset = $5;
