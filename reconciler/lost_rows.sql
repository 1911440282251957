-- How far the rows of webhooks go.
-- Each statement stands behind its name; `reconciler.lost_rows` is the only reader of this file.

-- name: last_rows
-- The offset of the last row of each partition, -1 where there is none; one look each into the
-- primary key, before and after every batch.
select p.partition, coalesce(
    (
        select w.topic_offset
        from actionledger.webhooks as w
        where w.partition = p.partition
        order by w.topic_offset desc
        limit 1
    ),
    -1
) as last_row
from unnest($1::integer[]) as p (partition);
