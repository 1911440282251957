-- What the owner of a partition reads back: where the projection stands, streams it has let go of,
-- and what is due among them. All of it is as of one snapshot, and comes with the offset up to which
-- the rows speak: "no row" means "new" only for who knows that.

-- name: checkpoints
select
    partition,
    next_offset,
    epoch,
    (extract(epoch from decided_at) * 1000)::bigint as decided_at,
    positions,
    void_count,
    generation,
    partitions,
    adopted_kind,
    adopted_hash,
    adopted_offset,
    adopted_content,
    holds,
    policy,
    people
from actionledger.projection_offsets
where partition = any ($1::integer[])

-- name: cold
-- Streams of several partitions in one question: it is asked before every batch of new intents. A
-- stream without a row that has actions, or is a gate that stands, comes without a state: its row was
-- deleted, and it is not new. Served by actions_stream and gates_key.
select
    offsets.partition,
    offsets.next_offset as projected_offset,
    found.stream_key,
    found.next_offset,
    found.fold_version,
    found.action_keys,
    found.state
from actionledger.projection_offsets as offsets
left join (
    select partition, stream_key, next_offset, fold_version, action_keys, state
    from actionledger.streams
    where stream_key = any ($2::text[])
    union all
    select coalesce(a.ledger_partition, g.partition), wanted.stream_key, null, null, null, null
    from unnest($2::text[]) as wanted (stream_key)
    left join lateral (
        select one.ledger_partition
        from actionledger.actions as one
        where one.stream_key = wanted.stream_key
        limit 1
    ) as a on true
    left join lateral (
        select one.partition
        from actionledger.gates as one
        where one.gate_key = wanted.stream_key
        limit 1
    ) as g on true
    where coalesce(a.ledger_partition, g.partition) is not null
      and not exists (
          select from actionledger.streams as one
          where one.stream_key = wanted.stream_key
          offset 0
      )
) as found on found.partition = offsets.partition
where offsets.partition = any ($1::integer[])

-- name: keys
-- Of a page of all streams, in the order of the primary key, those of several partitions, with how far
-- the projection of each has come, how long the page is and where it ends: a partition without
-- streams in it is a row too. What is read is the same however few partitions are asked for. Streams
-- of which only actions or a gate are left are among them: whoever takes them for new must ask.
with page as materialized (
    select partition, stream_key
    from (
        (
            select partition, stream_key
            from actionledger.streams
            where stream_key > $2
            order by stream_key
            limit $3
        )
        union
        (
            select distinct on (stream_key, ledger_partition) ledger_partition, stream_key
            from actionledger.actions
            where stream_key > $2
            order by stream_key, ledger_partition
            limit $3
        )
        union
        (
            select partition, gate_key
            from actionledger.gates
            where gate_key > $2
            order by gate_key
            limit $3
        )
    ) as keys
    order by stream_key
    limit $3
)
select
    offsets.partition,
    offsets.next_offset as projected_offset,
    page.stream_key,
    (select count(*) from page) as length,
    (select stream_key from page order by stream_key desc limit 1) as last_key
from actionledger.projection_offsets as offsets
left join page on page.partition = offsets.partition
where offsets.partition = any ($1::integer[])

-- name: projected
select partition, next_offset
from actionledger.projection_offsets
where partition = any ($1::integer[])

-- name: due
-- By timer, behind a given one: actions and gates in one order, which is that of the owner, by code
-- points. Served by actions_due and gates_due.
select
    (extract(epoch from next_due_at) * 1000)::bigint as due_at,
    stream_key
from (
    (
        select next_due_at, stream_key
        from actionledger.actions
        where ledger_partition = $1
          and next_due_at is not null
          and next_due_at >= timestamptz 'epoch' + $2::bigint * interval '1 millisecond'
          and (next_due_at, stream_key collate "C")
              > (timestamptz 'epoch' + $2::bigint * interval '1 millisecond', $3::text)
          and next_due_at <= timestamptz 'epoch' + $4::bigint * interval '1 millisecond'
        order by next_due_at, stream_key collate "C"
        limit $5
    )
    union all
    (
        select next_due_at, gate_key
        from actionledger.gates
        where partition = $1
          and next_due_at is not null
          and next_due_at >= timestamptz 'epoch' + $2::bigint * interval '1 millisecond'
          and (next_due_at, gate_key collate "C")
              > (timestamptz 'epoch' + $2::bigint * interval '1 millisecond', $3::text)
          and next_due_at <= timestamptz 'epoch' + $4::bigint * interval '1 millisecond'
        order by next_due_at, gate_key collate "C"
        limit $5
    )
) as due
order by next_due_at, stream_key collate "C"
limit $5

-- name: ready
-- Actions of one operation that wait for capacity, who waits longest first, behind a given place, by
-- code points; served by actions_ready. So many of another operation that nobody offers, or that a
-- hold stops, are never read before them.
select
    (extract(epoch from updated_at) * 1000)::bigint as since,
    stream_key
from actionledger.actions
where ledger_partition = $1
  and status = 'ready'
  and operation = $2
  and updated_at >= timestamptz 'epoch' + $3::bigint * interval '1 millisecond'
  and (updated_at, stream_key collate "C")
      > (timestamptz 'epoch' + $3::bigint * interval '1 millisecond', $4::text)
order by updated_at, stream_key collate "C"
limit $5
