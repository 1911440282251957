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
-- Streams of several partitions in one question: it is asked before every batch of new intents.
select
    offsets.partition,
    offsets.next_offset as projected_offset,
    streams.stream_key,
    streams.next_offset,
    streams.fold_version,
    streams.action_keys,
    streams.state
from actionledger.projection_offsets as offsets
left join actionledger.streams
    on streams.stream_key = any ($2::text[]) and streams.partition = offsets.partition
where offsets.partition = any ($1::integer[])

-- name: keys
-- A page of the streams of several partitions, in the order of the primary key, with how far the
-- projection of each partition has come: a page of a partition without streams is a row too.
select
    offsets.partition,
    offsets.next_offset as projected_offset,
    page.stream_key
from actionledger.projection_offsets as offsets
left join (
    select streams.partition, streams.stream_key
    from actionledger.streams
    where streams.partition = any ($1::integer[]) and streams.stream_key > $2
    order by streams.stream_key
    limit $3
) as page
    on page.partition = offsets.partition
where offsets.partition = any ($1::integer[])
order by page.stream_key

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
-- Actions that wait for capacity, who waits longest first; served by actions_ready.
select stream_key
from actionledger.actions
where ledger_partition = $1
  and status = 'ready'
order by updated_at
limit $2
