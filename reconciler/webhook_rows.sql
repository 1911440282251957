-- Webhooks for people: lists by what became of them, one in full, and whose it might be.
-- Each statement stands behind its name; `reconciler.webhook_rows` is the only reader of this file.

-- name: list_rows
-- Rows of one state, the newest first. What waits for more than 30 days has expired: it is matched
-- no more, and stays. Served by webhooks_waiting and the primary key; a command for people.
select w.*
from actionledger.webhooks as w
where w.classification = any ($1::text[])
  and ($2::text is null or w.provider = $2)
  and ($3::text is null or w.account = $3)
  and ($4::timestamptz is null or w.received_at > $4)
  and ($5::timestamptz is null or w.received_at <= $5)
order by w.received_at desc, w.partition, w.topic_offset
limit $6;

-- name: one_row
-- One row by its place.
select w.* from actionledger.webhooks as w where w.partition = $1 and w.topic_offset = $2;

-- name: row_of_body
-- The newest row of an account with this body.
select w.*
from actionledger.webhooks as w
where w.provider = $1 and w.account = $2 and w.sha256 = $3 and w.received_at >= $4
order by w.received_at desc
limit 1;

-- name: unmatched
-- What is nobody's and no person has looked at: how much, since when, and what has expired. A test
-- that was sent on purpose is none of it. In two parts, each with an index of its own.
select
    w.provider,
    w.account,
    w.classification,
    w.reason,
    count(*) filter (where w.received_at > $1) as waiting,
    min(w.received_at) filter (where w.received_at > $1) as oldest_at,
    count(*) filter (where w.received_at <= $1) as expired
from (
    select * from actionledger.webhooks where classification = 'parked' and seen_at is null
    union all
    select * from actionledger.webhooks where classification = 'unrecognised'
) as w
where w.event_type is distinct from $2
group by w.provider, w.account, w.classification, w.reason
order by w.provider, w.account, w.classification, w.reason;

-- name: open_places
-- Where everything stands that another look may settle, the oldest first.
select w.partition, w.topic_offset
from actionledger.webhooks as w
where w.classification in ('parked', 'unrecognised')
  and ($1::text is null or w.provider = $1)
order by w.partition, w.topic_offset
limit $2;

-- name: suggestions
-- Actions of the same account, amount and currency whose outcome is open, near the time of an event:
-- a hint for a person and never a match, for two customers may owe the same. Served by
-- actions_unsettled.
select
    a.action_key, a.tenant_id, a.operation, a.target, a.status, a.created_at
from actionledger.actions as a
where a.status in ('unknown', 'needs_review')
  and a.provider = $1
  and a.account = $2
  and a.amount_minor = $3
  and a.currency = $4
  and a.created_at between $5::timestamptz - interval '3 days'
                       and $5::timestamptz + interval '1 hour'
order by abs(extract(epoch from a.created_at - $5::timestamptz)), a.action_key
limit $6;
