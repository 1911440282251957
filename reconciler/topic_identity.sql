-- Whether rows of webhooks came from the topic that is there.
-- Each statement stands behind its name; `reconciler.topic_identity` is the only reader of this file.

-- name: newest_rows
-- The last row of each partition; one look each into the primary key.
select w.partition, w.topic_offset, w.sha256
from unnest($1::integer[]) as p (partition)
join lateral (
    select one.partition, one.topic_offset, one.sha256
    from actionledger.webhooks as one
    where one.partition = p.partition
    order by one.topic_offset desc
    limit 1
) as w on true;

-- name: other_rows
-- One of these places whose row has another body.
select w.partition, w.topic_offset
from unnest($1::integer[], $2::bigint[], $3::text[]) as wanted (partition, topic_offset, sha256)
join lateral (
    select one.partition, one.topic_offset, one.sha256
    from actionledger.webhooks as one
    where one.partition = wanted.partition and one.topic_offset = wanted.topic_offset
    limit 1
) as w on w.sha256 <> wanted.sha256
limit 1;
