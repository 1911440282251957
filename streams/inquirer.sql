-- The inquirer's own position in the ledger, and what it must know to begin.
-- Each statement stands behind its name; `streams.positions` is the only reader of this file.

-- name: inquirer_positions
-- Where to read the ledger from: the inquirer's own positions, and the projector's where it has
-- none yet. Both know the epoch that is current there.
select o.partition, o.next_offset, o.epoch, o.generation
from actionledger.inquirer_positions as o
union all
select p.partition, p.next_offset, p.epoch, p.generation
from actionledger.projection_offsets as p
where not exists (
    select from actionledger.inquirer_positions as o where o.partition = p.partition
);

-- name: save_position
-- Forward only: of two inquirers on one partition the one that is behind changes nothing.
insert into actionledger.inquirer_positions as o (partition, next_offset, epoch, generation, saved_at)
values ($1, $2, $3, $4, $5)
on conflict (partition) do update
set next_offset = excluded.next_offset, epoch = excluded.epoch, saved_at = excluded.saved_at
where o.next_offset < excluded.next_offset and o.generation = excluded.generation;

-- name: unknown_actions
-- The actions of a partition that are uncertain now, newest first, so that their settlement is told
-- after a restart too. Served by actions_unsettled.
select a.action_key, a.stream_key
from actionledger.actions as a
where a.status = 'unknown' and a.ledger_partition = $1
order by a.updated_at desc
limit $2;
