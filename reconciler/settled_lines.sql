-- Lines that were moving first: with which content each was settled.
-- Each statement stands behind its name; `reconciler.settled_lines` is the only reader of this file.

-- name: settled_lines
-- For each line the first row before it that settled it: under its event id with a hash behind it.
-- Found by the action that both match (webhooks_action), or among what waits by the name that both
-- bear (webhooks_waiting), so that no index on the beginnings of event ids is kept for a few lines.
select
    wanted.partition, wanted.topic_offset,
    w.effect, w.reference, w.reverses, w.claimed_key, w.provider_key, w.amount_minor, w.currency
from unnest($1::int[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
    as wanted (partition, topic_offset, provider, account, event_id, action_key, reference)
join lateral (
    select one.*
    from (
        (
            select * from actionledger.webhooks
            where action_key = wanted.action_key
            offset 0
        )
        union all
        (
            select * from actionledger.webhooks
            where classification = 'parked'
              and reference = wanted.reference
              and action_key is null
            offset 0
        )
    ) as one
    where one.provider = wanted.provider
      and one.account = wanted.account
      and starts_with(one.event_id, wanted.event_id || '~')
      and length(one.event_id) = length(wanted.event_id) + 1 + $8
      and one.classification in ('matched', 'parked')
      and one.reason is distinct from 'line_changed'
      and one.effect <> 'pending'
      and one.partition = wanted.partition
      and one.topic_offset < wanted.topic_offset
    order by one.topic_offset
    limit 1
) as w on true;
