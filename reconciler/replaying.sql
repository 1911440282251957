-- Looking again at webhooks that have a row.
-- Each statement stands behind its name; `reconciler.replaying` is the only reader of this file.

-- name: standing
-- What became of one record so far.
select w.classification, w.reason
from actionledger.webhooks as w
where w.partition = $1 and w.topic_offset = $2;

-- name: lock_open
-- Hold a row that another look may change, until the caller's transaction ends.
select 1
from actionledger.webhooks as w
where w.partition = $1 and w.topic_offset = $2 and w.classification = any ($3::text[])
for update;

-- name: reclassify
-- What the record is now. The indexes on events and facts refuse it where another row decides. Who
-- has looked at it, and how it came, stays.
update actionledger.webhooks as w
set event_id = g.event_id, occurred_at = g.occurred_at, mapping_hash = g.mapping_hash,
    event_type = g.event_type, meaning = g.meaning, effect = g.effect, speaks_for = g.speaks_for,
    reference = g.reference, claimed_key = g.claimed_key, provider_key = g.provider_key,
    amount_minor = g.amount_minor, currency = g.currency, classification = g.classification,
    reason = g.reason, action_key = g.action_key, matched_by = g.matched_by,
    matched_at = g.matched_at, reverses = g.reverses, fact = g.fact,
    about_operation = g.about_operation, about_target = g.about_target
from unnest($1::actionledger.webhooks[]) as g
where w.partition = g.partition and w.topic_offset = g.topic_offset;

-- name: reclassify_repeated
-- It repeats a row that decides: points to it, as a repetition does that arrives now.
update actionledger.webhooks as w
set event_id = g.event_id, occurred_at = g.occurred_at, mapping_hash = g.mapping_hash,
    event_type = g.event_type, meaning = g.meaning, effect = g.effect, speaks_for = g.speaks_for,
    reference = g.reference, claimed_key = g.claimed_key, provider_key = g.provider_key,
    amount_minor = g.amount_minor, currency = g.currency, classification = 'duplicate',
    reason = case when e.partition is null then 'same_fact' end, action_key = null,
    matched_by = null, matched_at = null, reverses = g.reverses, fact = g.fact,
    repeats_partition = coalesce(e.partition, f.partition),
    repeats_offset = coalesce(e.topic_offset, f.topic_offset)
from unnest($1::actionledger.webhooks[]) as g
left join actionledger.webhooks as e
  on e.provider = g.provider
 and e.account = g.account
 and e.event_id = g.event_id
 and e.classification in ('matched', 'parked')
left join actionledger.webhooks as f
  on f.provider = g.provider
 and f.account = g.account
 and f.fact = g.fact
 and f.classification in ('matched', 'parked')
where w.partition = g.partition and w.topic_offset = g.topic_offset;
