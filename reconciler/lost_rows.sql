-- How far the rows of webhooks go.
-- Each statement stands behind its name; `reconciler.lost_rows` is the only reader of this file.

-- name: last_rows
-- The offset of the last row of each partition below an offset, -1 where there is none; one look each
-- into the primary key, before and after every batch. What stands behind that offset is left out: a
-- batch that is handled a second time has rows there, and hides what was lost before it.
select p.partition, coalesce(
    (
        select w.topic_offset
        from actionledger.webhooks as w
        where w.partition = p.partition and w.topic_offset < p.below
        order by w.topic_offset desc
        limit 1
    ),
    -1
) as last_row
from unnest($1::integer[], $2::bigint[]) as p (partition, below);
