-- Webhooks as rows: recorded once, parked until somebody's, matched when a reference is known.
-- Each statement stands behind its name; `reconciler.parking` is the only reader of this file.

-- name: known_references
-- The actions known under provider references, for a batch of webhooks. Reads the projector's
-- table by its primary key; the provider is compared because account names are per provider.
select r.provider, r.account, r.reference, r.action_key
from unnest($1::text[], $2::text[], $3::text[]) as wanted (provider, account, reference)
join actionledger.provider_references as r
  on r.account = wanted.account
 and r.reference = wanted.reference
 and r.provider = wanted.provider;

-- name: decided_events
-- Which events of a batch have a row that decides for them already, and where it stands. The
-- condition is that of the index on events.
select w.provider, w.account, w.event_id, w.partition, w.topic_offset
from unnest($1::text[], $2::text[], $3::text[]) as wanted (provider, account, event_id)
join actionledger.webhooks as w
  on w.provider = wanted.provider
 and w.account = wanted.account
 and w.event_id = wanted.event_id
 and w.classification in ('matched', 'parked');

-- name: record_first
-- The first row of each event. Conflicts are of two kinds and both are nobody's fault: the record
-- was read before (its place), or the event was (the index on events, which waits for a concurrent
-- insert of the same event and then decides).
insert into actionledger.webhooks
select * from unnest($1::actionledger.webhooks[])
on conflict do nothing;

-- name: record_duplicates
-- What of the batch is still without a row is a further delivery of an event that has one.
insert into actionledger.webhooks (
    partition, topic_offset, provider, account, event_id, received_at, occurred_at, sha256,
    mapping_hash, event_type, meaning, effect, speaks_for, reference, claimed_key, provider_key,
    amount_minor, currency, classification, reason, reverses, source
)
select
    g.partition, g.topic_offset, g.provider, g.account, g.event_id, g.received_at, g.occurred_at,
    g.sha256, g.mapping_hash, g.event_type, g.meaning, g.effect, g.speaks_for, g.reference,
    g.claimed_key, g.provider_key, g.amount_minor, g.currency, 'duplicate', null,
    g.reverses, g.source
from unnest($1::actionledger.webhooks[]) as g
on conflict (partition, topic_offset) do nothing
returning partition, topic_offset;

-- name: lock_matchable
-- Parked webhooks whose reference has become known, with the actions known under it. Driven from
-- the few rows that wait. Locked, so that of two sweeps each takes its own rows and none waits.
select
    w.*,
    array(
        select r.action_key
        from actionledger.provider_references as r
        where r.account = w.account
          and r.reference = coalesce(w.reverses, w.reference)
          and r.provider = w.provider
        order by r.action_key
    ) as known
from actionledger.webhooks as w
where w.classification = 'parked'
  and w.reason = any ($1::text[])
  and w.received_at > $2
  and exists (
      select from actionledger.provider_references as r
      where r.account = w.account
        and r.reference = coalesce(w.reverses, w.reference)
        and r.provider = w.provider
  )
order by w.partition, w.topic_offset
limit $3
for update of w skip locked;

-- name: settle_matched
-- A parked webhook is evidence now; `and classification` keeps a row that was settled meanwhile.
update actionledger.webhooks
set classification = 'matched', reason = null, action_key = $3, matched_by = $4, matched_at = $5
where partition = $1 and topic_offset = $2 and classification = 'parked';

-- name: settle_parked
-- A parked webhook waits on, for another reason.
update actionledger.webhooks
set reason = $3
where partition = $1 and topic_offset = $2 and classification = 'parked';

-- name: parked_counts
-- What is parked as of a moment, by reason.
select p.classification, p.reason, count(*) as webhooks
from actionledger.parked_webhooks($1) as p
group by p.classification, p.reason;
