-- Webhooks as rows: recorded once, parked until somebody's, matched when a reference is known.
-- Each statement stands behind its name; `reconciler.parking` is the only reader of this file.
--
-- What is looked up for each row of a batch stands in a subquery that ends with `limit` or `offset`:
-- so it is found by its index. Joined, it was read whole for every batch in a table that had grown
-- since it was last analysed, as that of a new installation has.

-- name: known_references
-- The actions known under provider references, for a batch of webhooks. Reads the projector's
-- table by its index on names; the provider is compared because account names are per provider.
select r.provider, r.account, r.reference, r.action_key
from unnest($1::text[], $2::text[], $3::text[]) as wanted (provider, account, reference)
join lateral (
    select *
    from actionledger.provider_references as one
    where one.account = wanted.account
      and one.reference = wanted.reference
      and one.provider = wanted.provider
    offset 0
) as r on true;

-- name: known_keys
-- The actions whose attempts gave a provider these keys, where the keys are not their own, for a
-- batch of webhooks. The condition is that of the index on keys.
select r.provider, r.account, r.provider_key, r.action_key
from unnest($1::text[], $2::text[], $3::text[]) as wanted (provider, account, provider_key)
join lateral (
    select distinct one.provider, one.account, one.provider_key, one.action_key
    from actionledger.attempts as one
    where one.provider_key = wanted.provider_key
      and one.provider_key <> one.action_key
      and one.account = wanted.account
      and one.provider = wanted.provider
    offset 0
) as r on true;

-- name: decided_events
-- Which events of a batch have a row that decides for them already, where it stands and what it
-- says. The condition is that of the index on events.
select
    w.provider, w.account, w.event_id, w.partition, w.topic_offset,
    w.effect, w.reference, w.reverses, w.claimed_key, w.provider_key, w.amount_minor, w.currency
from unnest($1::text[], $2::text[], $3::text[]) as wanted (provider, account, event_id)
join lateral (
    select *
    from actionledger.webhooks as one
    where one.provider = wanted.provider
      and one.account = wanted.account
      and one.event_id = wanted.event_id
      and one.classification in ('matched', 'parked')
    limit 1
) as w on true;

-- name: named_actions
-- What the projector's table says of actions that webhooks and lines of a statement name.
select
    a.action_key, a.provider, a.account, a.status, a.provider_reference, a.amount_minor, a.currency
from unnest($1::text[]) as wanted (action_key)
join lateral (
    select * from actionledger.actions as one where one.action_key = wanted.action_key limit 1
) as a on true;

-- name: record_first
-- The first row of each event. Conflicts are of three kinds and all are nobody's fault: the record
-- was read before (its place), the event was (the index on events, which waits for a concurrent
-- insert of the same event and then decides), or what it says was told under another event id (the
-- index on facts, which does the same).
insert into actionledger.webhooks
select * from unnest($1::actionledger.webhooks[])
on conflict do nothing
returning partition, topic_offset;

-- name: record_duplicates
-- What of a batch was no first row was read before, or repeats a row: another delivery of its event,
-- or the same fact under another event id. It points to the row that decides.
insert into actionledger.webhooks (
    partition, topic_offset, provider, account, event_id, received_at, occurred_at, sha256,
    mapping_hash, event_type, meaning, effect, speaks_for, reference, claimed_key, provider_key,
    amount_minor, currency, classification, reason, reverses, source, fact,
    repeats_partition, repeats_offset
)
select
    g.partition, g.topic_offset, g.provider, g.account, g.event_id, g.received_at, g.occurred_at,
    g.sha256, g.mapping_hash, g.event_type, g.meaning, g.effect, g.speaks_for, g.reference,
    g.claimed_key, g.provider_key, g.amount_minor, g.currency, 'duplicate',
    case when e.partition is null and f.partition is not null then 'same_fact' end,
    g.reverses, g.source, g.fact,
    coalesce(e.partition, f.partition), coalesce(e.topic_offset, f.topic_offset)
from unnest($1::actionledger.webhooks[]) as g
left join lateral (
    select one.partition, one.topic_offset
    from actionledger.webhooks as one
    where one.provider = g.provider
      and one.account = g.account
      and one.event_id = g.event_id
      and one.classification in ('matched', 'parked')
    limit 1
) as e on true
left join lateral (
    select one.partition, one.topic_offset
    from actionledger.webhooks as one
    where one.provider = g.provider
      and one.account = g.account
      and one.fact = g.fact
      and one.classification in ('matched', 'parked')
    limit 1
) as f on true
on conflict (partition, topic_offset) do nothing
returning partition, topic_offset;

-- name: lock_matchable
-- Parked webhooks whose reference, or whose key at the provider, has become known, with the actions
-- known under either, and those that bear the key of an action, as mark or as provider key, which the
-- tables have by now. Driven from
-- the few rows that wait, in the order of their places: some may wait on, and are not looked at
-- twice by one sweep. Locked, so that of two sweeps each takes its own rows and none waits.
with matchable as (
    (
        select w.partition, w.topic_offset
        from actionledger.webhooks as w
        where w.classification = 'parked'
          and w.reason = any ($1::text[])
          and w.received_at > $3
          and (w.partition, w.topic_offset) > ($4, $5)
          and (
              exists (
                  select from actionledger.provider_references as r
                  where r.account = w.account
                    and r.reference = coalesce(w.reverses, w.reference)
                    and r.provider = w.provider
              )
              or exists (
                  select from actionledger.attempts as t
                  where t.provider_key = w.provider_key
                    and t.provider_key <> t.action_key
                    and t.account = w.account
                    and t.provider = w.provider
              )
          )
        order by w.partition, w.topic_offset
        limit $6
    )
    union
    (
        select w.partition, w.topic_offset
        from actionledger.webhooks as w
        where w.classification = 'parked'
          and w.reason = any ($2::text[])
          and w.received_at > $3
          and (w.partition, w.topic_offset) > ($4, $5)
          and exists (
              select from actionledger.actions as a
              where a.action_key = any (array[w.claimed_key, w.provider_key])
          )
        order by w.partition, w.topic_offset
        limit $6
    )
)
select
    w.*,
    array(
        select r.action_key
        from actionledger.provider_references as r
        where r.account = w.account
          and r.reference = coalesce(w.reverses, w.reference)
          and r.provider = w.provider
        order by r.action_key
    ) as known,
    array(
        select distinct t.action_key
        from actionledger.attempts as t
        where t.provider_key = w.provider_key
          and t.provider_key <> t.action_key
          and t.account = w.account
          and t.provider = w.provider
        order by t.action_key
    ) as keyed
from matchable as m
join actionledger.webhooks as w on w.partition = m.partition and w.topic_offset = m.topic_offset
where w.classification = 'parked'
order by w.partition, w.topic_offset
limit $6
for update of w skip locked;

-- name: composite_turn
-- Whether it is this transaction's turn to ask composites, until it ends: of two effects that name
-- one action each sweep has to see what the other one matched.
select pg_try_advisory_xact_lock($1, 0);

-- name: lock_composites
-- Parked webhooks without a mark that state an effect and what it is about, each with the first two
-- actions that have all of it, and whether one of these has the effect of another webhook by its
-- composite already. An action counts that was begun before the effect was made: when it was asked
-- for says nothing, for it may have waited while somebody else did the same. Its start is in the log
-- before its effect is made, hence before the webhook, by the same clock; by the provider's own clock
-- it may be a little later. What nothing can be said of is not locked: only one action, and no word
-- awaited of it, or none.
with due as (
    select w.partition, w.topic_offset, f.fitting, f.statuses, f.is_taken
    from actionledger.webhooks as w
    cross join lateral (
        select
            array_agg(two.action_key order by two.action_key) as fitting,
            array_agg(two.status order by two.action_key) as statuses,
            bool_or(two.is_taken) as is_taken
        from (
            select
                a.action_key,
                a.status,
                exists (
                    select from actionledger.webhooks as m
                    where m.action_key = a.action_key
                      and m.matched_by = 'composite'
                      and (m.reference = w.reference) is not true
                    offset 0
                ) as is_taken
            from actionledger.actions as a
            where a.target = w.about_target
              and a.account = w.account
              and a.amount_minor = w.amount_minor
              and a.currency = w.currency
              and a.provider = w.provider
              and a.operation = w.about_operation
              and exists (
                  select from actionledger.attempts as t
                  where t.action_key = a.action_key
                    and t.started_at >= coalesce(w.occurred_at, w.received_at) - $8::interval
                    and t.started_at <= least(
                        w.received_at, coalesce(w.occurred_at, w.received_at) + $9::interval
                    )
                  offset 0
              )
            limit 2
        ) as two
    ) as f
    where w.classification = 'parked'
      and w.about_target is not null
      and w.reason = any ($1::text[])
      and w.meaning = 'final'
      and w.effect = 'exists'
      and w.currency is not null
      and w.received_at > $2
      and w.received_at <= $3
      and (w.partition, w.topic_offset) > ($4, $5)
      and (cardinality(f.fitting) > 1 or f.is_taken or f.statuses[1] = any ($7::text[]))
    order by w.partition, w.topic_offset
    limit $6
)
select w.*, d.fitting, d.statuses, d.is_taken
from due as d
join actionledger.webhooks as w on w.partition = d.partition and w.topic_offset = d.topic_offset
where w.classification = 'parked'
order by w.partition, w.topic_offset
for update of w skip locked;

-- name: settle_matched
-- A parked webhook is evidence now; `and classification` keeps a row that was settled meanwhile.
update actionledger.webhooks
set classification = 'matched', reason = null, action_key = $3, matched_by = $4, matched_at = $5
where partition = $1 and topic_offset = $2 and classification = 'parked';

-- name: note_orphan
-- An operator has looked at an effect that is nobody's. It stays parked; the first word counts.
update actionledger.webhooks
set seen_by = $4, seen_note = $5, seen_at = $6
where provider = $1 and account = $2 and event_id = $3
  and classification = 'parked' and seen_at is null
returning topic_offset;

-- name: settle_parked
-- A parked webhook waits on, for another reason.
update actionledger.webhooks
set reason = $3
where partition = $1 and topic_offset = $2 and classification = 'parked';

-- name: settle_unrecognised
-- What an older mapping said of a parked webhook is nothing that could be told: it is one that no
-- mapping understands, which a replay reads again from its bytes.
update actionledger.webhooks
set classification = 'unrecognised', reason = $3
where partition = $1 and topic_offset = $2 and classification = 'parked';

-- name: parked_counts
-- What is parked as of a moment, by reason, without what a person has seen and tests sent on purpose.
select p.classification, p.reason, count(*) as webhooks
from actionledger.parked_webhooks($1) as p
where p.seen_at is null
  and p.event_type is distinct from $2
group by p.classification, p.reason;
