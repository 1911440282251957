-- What the projector writes, a batch in one transaction, in this order: `claim`, for each table with
-- rows COPY into its stage, `merge`. Few statements, because each waits for its answer.

-- name: stage
-- Rows are copied here first: Postgres refuses COPY into a table with row-level security, and some
-- rows may be there already. Temporary tables are the connection's own and write no WAL; they are
-- emptied by every commit and rollback.
create temporary table if not exists stage_action_events
    (like actionledger.action_events) on commit delete rows;
create temporary table if not exists stage_decisions
    (like actionledger.decisions) on commit delete rows;
create temporary table if not exists stage_review_cases
    (like actionledger.review_cases) on commit delete rows;
create temporary table if not exists stage_review_resolutions
    (like actionledger.review_resolutions) on commit delete rows;
create temporary table if not exists stage_previews
    (like actionledger.previews) on commit delete rows;
create temporary table if not exists stage_approval_decisions
    (like actionledger.approval_decisions) on commit delete rows;
create temporary table if not exists stage_approvals
    (like actionledger.approvals) on commit delete rows;
create temporary table if not exists stage_gate_events
    (like actionledger.gate_events) on commit delete rows;
create temporary table if not exists stage_gates
    (like actionledger.gates) on commit delete rows;
create temporary table if not exists stage_gate_reservations
    (like actionledger.gate_reservations) on commit delete rows;
create temporary table if not exists stage_streams
    (like actionledger.streams) on commit delete rows;
create temporary table if not exists stage_actions
    (like actionledger.actions) on commit delete rows;
create temporary table if not exists stage_attempts
    (like actionledger.attempts) on commit delete rows;
create temporary table if not exists stage_provider_references
    (like actionledger.provider_references) on commit delete rows;

-- name: begin_partition
-- A partition that was never projected begins at 0; the genesis record fills in the rest.
insert into actionledger.projection_offsets
    (partition, next_offset, epoch, decided_at, positions, void_count)
select partition, 0, 0, 'epoch', '{}', 0
from unnest($1::integer[]) as wanted (partition)
order by partition
on conflict (partition) do nothing

-- name: load_offsets
select
    partition,
    next_offset,
    epoch,
    (extract(epoch from decided_at) * 1000)::bigint as decided_at,
    positions,
    void_count,
    generation,
    partitions,
    cluster,
    adopted_kind,
    adopted_hash,
    adopted_offset,
    adopted_content,
    holds,
    policy,
    people
from actionledger.projection_offsets
where partition = any ($1::integer[])

-- name: claim
-- Takes the row of each partition and moves it on, if it stands where it was read. A second
-- projector waits here for the first to commit and then finds no row: it is behind. Whoever listens
-- is told by the commit, if there is one.
with claimed as (
update actionledger.projection_offsets as stored
set
    next_offset     = moved.next_offset,
    epoch           = moved.epoch,
    decided_at      = moved.decided_at,
    positions       = moved.positions::json,
    void_count      = moved.void_count,
    generation      = moved.generation,
    partitions      = moved.partitions,
    cluster         = moved.cluster,
    adopted_kind    = moved.adopted_kind,
    adopted_hash    = moved.adopted_hash,
    adopted_offset  = moved.adopted_offset,
    -- The text can be long and changes rarely: it is sent only when it does.
    adopted_content = coalesce(moved.adopted_content, stored.adopted_content),
    holds           = moved.holds::json,
    policy          = coalesce(moved.policy::json, stored.policy),
    people          = coalesce(moved.people::json, stored.people)
from unnest(
    $1::integer[], $2::bigint[], $3::bigint[], $4::bigint[], $5::timestamptz[], $6::text[],
    $7::bigint[], $8::text[], $9::bigint[], $10::text[], $11::text[], $12::text[], $13::bigint[],
    $14::text[], $15::text[], $16::text[], $17::text[]
) as moved (
    partition, was_offset, next_offset, epoch, decided_at, positions, void_count, generation,
    partitions, cluster, adopted_kind, adopted_hash, adopted_offset, adopted_content, holds,
    policy, people
)
where stored.partition = moved.partition and stored.next_offset = moved.was_offset
returning stored.partition, stored.next_offset
)
select
    partition,
    case when $18 then pg_notify('actionledger_changed', partition || ':' || next_offset) end
from claimed

-- name: merge
-- Every stage at once. Rows of the first seven tables are new, because their offsets are.
with
action_events_merged as (
    insert into actionledger.action_events
    select * from stage_action_events
),
decisions_merged as (
    insert into actionledger.decisions
    select * from stage_decisions
),
review_cases_merged as (
    insert into actionledger.review_cases
    select * from stage_review_cases
),
review_resolutions_merged as (
    insert into actionledger.review_resolutions
    select * from stage_review_resolutions
),
previews_merged as (
    insert into actionledger.previews
    select * from stage_previews
),
approval_decisions_merged as (
    insert into actionledger.approval_decisions
    select * from stage_approval_decisions
),
gate_events_merged as (
    insert into actionledger.gate_events
    select * from stage_gate_events
),
gates_merged as (
    insert into actionledger.gates as stored
    select * from stage_gates
    on conflict (gate_key) do update
    set
        version       = excluded.version,
        used          = excluded.used,
        reserved      = excluded.reserved,
        granted       = excluded.granted,
        queued        = excluded.queued,
        holder        = excluded.holder,
        next_due_at   = excluded.next_due_at,
        epoch         = excluded.epoch,
        ledger_offset = excluded.ledger_offset,
        updated_at    = excluded.updated_at
),
gate_reservations_merged as (
    insert into actionledger.gate_reservations as stored
    select * from stage_gate_reservations
    on conflict (gate_key, version) do update
    set
        status        = excluded.status,
        grant_number  = excluded.grant_number,
        demand        = excluded.demand,
        over          = excluded.over,
        forced        = excluded.forced,
        spent         = excluded.spent,
        granted_at    = excluded.granted_at,
        closed_at     = excluded.closed_at,
        ledger_offset = excluded.ledger_offset
),
approvals_merged as (
    insert into actionledger.approvals as stored
    select * from stage_approvals
    on conflict (action_key, round) do update
    set
        groups        = excluded.groups,
        escalate_at   = excluded.escalate_at,
        granted       = excluded.granted,
        ended         = excluded.ended,
        ended_at      = excluded.ended_at,
        ledger_offset = excluded.ledger_offset
),
streams_merged as (
    insert into actionledger.streams as stored
    select * from stage_streams
    on conflict (stream_key) do update
    set
        next_offset  = excluded.next_offset,
        fold_version = excluded.fold_version,
        action_keys  = excluded.action_keys,
        state        = excluded.state
),
-- What an intent says never changes, so only the rest is set; the deadline of the step is put off
-- while people are asked. Another key under the same tenant,
-- action id and operation is not merged: it breaks actions_identity, and the batch with it.
actions_merged as (
    insert into actionledger.actions as stored
    select * from stage_actions
    on conflict (action_key) do update
    set
        status             = excluded.status,
        version            = excluded.version,
        policy_row         = excluded.policy_row,
        attempts           = excluded.attempts,
        holder             = excluded.holder,
        lease_until        = excluded.lease_until,
        next_due_at        = excluded.next_due_at,
        step_deadline_at   = excluded.step_deadline_at,
        provider_reference = excluded.provider_reference,
        result             = excluded.result,
        proof              = excluded.proof,
        code               = excluded.code,
        review             = excluded.review,
        blocked_reason     = excluded.blocked_reason,
        blocked_by         = excluded.blocked_by,
        blocked_version    = excluded.blocked_version,
        case_version       = excluded.case_version,
        epoch              = excluded.epoch,
        ledger_offset      = excluded.ledger_offset,
        updated_at         = excluded.updated_at
),
attempts_merged as (
    insert into actionledger.attempts as stored
    select * from stage_attempts
    on conflict (action_key, number) do update
    set
        status   = excluded.status,
        code     = excluded.code,
        ended_at = excluded.ended_at
)
insert into actionledger.provider_references
select * from stage_provider_references
on conflict do nothing
