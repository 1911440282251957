-- Gates: budgets and targets that actions share, what each has used, holds and was told; and how
-- actions hang together: runs, batches, sagas, what blocks what.

-- migrate:up

-- One row a gate, as it stands.
create table actionledger.gates (
    gate_key      text        not null,
    tenant_id     text        not null,
    kind          text        not null,
    name          text        not null,
    version       bigint      not null,
    -- Whole numbers by dimension.
    used          json        not null,
    reserved      json        not null,
    granted       bigint      not null,
    queued        bigint      not null,
    -- Of a target: the action that has it.
    holder        text,
    next_due_at   timestamptz,
    epoch         bigint      not null,
    partition     integer     not null,
    ledger_offset bigint      not null,
    opened_at     timestamptz not null,
    updated_at    timestamptz not null,
    constraint gates_key primary key (gate_key)
)
with (fillfactor = 70);

-- Grants that nobody has answered, by time: read back beside actions_due.
create index gates_due on actionledger.gates (partition, next_due_at)
    where next_due_at is not null;

-- Runs and windows of a tenant, newest first. Targets are as many as orders and stand elsewhere.
create index gates_opened on actionledger.gates (tenant_id, kind, opened_at)
    where kind <> 'target';

-- Every fact of a gate, in the words of the log: what it is folded from.
create table actionledger.gate_events (
    partition       integer     not null,
    ledger_offset   bigint      not null,
    ordinal         integer     not null,
    tenant_id       text        not null,
    gate_key        text        not null,
    version         bigint      not null,
    type            text        not null,
    -- The action that it is about; an agent's report is about none.
    action_key      text,
    decided_at      timestamptz not null,
    cause_topic     text        not null,
    cause_partition integer     not null,
    cause_offset    bigint      not null,
    data            json        not null,
    constraint gate_events_place primary key (partition, ledger_offset, ordinal),
    constraint gate_events_version unique (gate_key, version)
);

create index gate_events_cause
    on actionledger.gate_events (cause_topic, cause_partition, cause_offset)
    where ordinal = 0;

-- One row a reservation, open or closed: what a gate has used is the sum over those that were spent
-- and over reported steps, what it reserves that over those granted.
create table actionledger.gate_reservations (
    gate_key      text        not null,
    -- The fact by which the gate took it in. An action may ask once more in the same round when its
    -- reservation is closed already, so the round alone names none.
    version       bigint      not null,
    tenant_id     text        not null,
    action_key    text        not null,
    round         bigint      not null,
    status        text        not null,
    grant_number  bigint,
    demand        json        not null,
    over          text[]      not null,
    forced        boolean     not null,
    spent         boolean,
    asked_at      timestamptz not null,
    granted_at    timestamptz,
    closed_at     timestamptz,
    partition     integer     not null,
    ledger_offset bigint      not null,
    constraint gate_reservations_fact primary key (gate_key, version),
    constraint gate_reservations_closed check ((spent is null) = (closed_at is null))
)
with (fillfactor = 80);

-- What a gate holds and who waits for it.
create index gate_reservations_open on actionledger.gate_reservations (gate_key, version)
    where status <> 'closed';

-- What an action has taken of which gates.
create index gate_reservations_action on actionledger.gate_reservations (action_key);

alter table actionledger.actions
    add column run text,
    add column occurrence text,
    add column batch text,
    add column revises text,
    add column compensates text,
    add column saga text,
    add column saga_step bigint,
    add column saga_steps bigint,
    add column saga_role text,
    add column saga_reads boolean,
    add column blocked_reason text,
    add column blocked_by text,
    add column blocked_version bigint,
    add column case_version bigint;

create index actions_of_run on actionledger.actions (tenant_id, run) where run is not null;
create index actions_of_batch on actionledger.actions (tenant_id, batch) where batch is not null;
create index actions_of_saga on actionledger.actions (tenant_id, saga) where saga is not null;
create index actions_revising on actionledger.actions (revises) where revises is not null;

-- What waits for another action or for a gate, oldest news first.
create index actions_blocked on actionledger.actions (updated_at) where status = 'blocked';

alter table actionledger.review_cases add column names text;

create or replace view actionledger_api_v1.actions with (security_invoker = true) as
select
    tenant_id,
    action_key,
    action_id,
    operation,
    operation_version,
    status,
    target,
    amount_minor,
    currency,
    principal,
    environment,
    provider,
    account,
    reliability,
    provider_reference,
    result,
    proof,
    code,
    review,
    attempts,
    holder,
    lease_until,
    next_due_at,
    step_deadline_at,
    policy_row,
    request_hash,
    created_at,
    updated_at,
    version,
    stream_key,
    ledger_partition,
    ledger_offset,
    epoch,
    run,
    occurrence,
    batch,
    revises,
    compensates,
    saga,
    saga_step,
    saga_steps,
    saga_role,
    saga_reads,
    blocked_reason,
    blocked_by,
    blocked_version,
    case_version
from actionledger.actions;
comment on column actionledger_api_v1.actions.run is 'The run of an agent that it belongs to. Null where it named none.';
comment on column actionledger_api_v1.actions.occurrence is 'What tells an intended second one from the first, in the words of its caller.';
comment on column actionledger_api_v1.actions.batch is 'The batch that it belongs to.';
comment on column actionledger_api_v1.actions.revises is 'The earlier revision whose place it takes.';
comment on column actionledger_api_v1.actions.compensates is 'The action whose effect it undoes.';
comment on column actionledger_api_v1.actions.saga is 'The saga that it belongs to.';
comment on column actionledger_api_v1.actions.saga_step is 'Which step of the saga it is, or compensates; from 1.';
comment on column actionledger_api_v1.actions.saga_steps is 'How many steps the saga has.';
comment on column actionledger_api_v1.actions.saga_role is 'step, or compensation: planned to undo that step.';
comment on column actionledger_api_v1.actions.saga_reads is 'Whether the step has no effect on the world, so that there is nothing to undo.';
comment on column actionledger_api_v1.actions.blocked_reason is 'Why it waits while it is blocked. revised_open, original_open, saga_order, planned: for another action of its business event. target: for the action that holds its target. unanswered: for the answer of a gate.';
comment on column actionledger_api_v1.actions.blocked_by is 'The action that it waits for, or the gate. Null while nothing blocks it.';
comment on column actionledger_api_v1.actions.blocked_version is 'Which fact of its own blocked it.';
comment on column actionledger_api_v1.actions.case_version is 'Which fact of its own opened the case that waits for a person. Null while none does.';

create or replace view actionledger_api_v1.review_cases with (security_invoker = true) as
select
    cases.tenant_id,
    cases.action_key,
    cases.version,
    cases.kind,
    cases.reason,
    cases.opened_at,
    settled.resolved_at is null
        and (cases.kind = 'alarm' or actions.status = 'needs_review') as is_open,
    actions.status,
    cases.partition,
    cases.ledger_offset,
    settled.resolved_at,
    settled.move,
    settled.person,
    settled.key_id,
    settled.reference,
    settled.comment,
    settled.signed,
    cases.names
from actionledger.review_cases as cases
join actionledger.actions on actions.action_key = cases.action_key
left join lateral (
    select *
    from actionledger.review_resolutions as later
    where later.action_key = cases.action_key and later.version > cases.version
    order by later.version
    limit 1
) as settled on true;
comment on column actionledger_api_v1.review_cases.names is 'What the case is about where that is not the action itself: the ceiling that was reached, or the action that it looks like.';

create or replace view actionledger_api_v1.inputs with (security_invoker = true) as
select
    cause_topic as topic,
    cause_partition as partition,
    cause_offset as "offset",
    'facts' as outcome,
    type as reason,
    tenant_id,
    action_key,
    decided_at,
    partition as ledger_partition,
    ledger_offset,
    data as details
from actionledger.action_events
where ordinal = 0
union all
select
    cause_topic,
    cause_partition,
    cause_offset,
    'facts',
    type,
    tenant_id,
    action_key,
    decided_at,
    partition,
    ledger_offset,
    data
from actionledger.gate_events
where ordinal = 0
union all
select
    cause_topic,
    cause_partition,
    cause_offset,
    outcome,
    reason,
    tenant_id,
    action_key,
    decided_at,
    partition,
    ledger_offset,
    details
from actionledger.decisions;

create view actionledger_api_v1.gates with (security_invoker = true) as
select
    tenant_id,
    gate_key,
    kind,
    name,
    used,
    reserved,
    granted,
    queued,
    holder,
    opened_at,
    updated_at,
    next_due_at,
    version,
    partition,
    ledger_offset,
    epoch
from actionledger.gates;
comment on view actionledger_api_v1.gates is 'One row a gate: a budget of a run or of a window of time, or a target that one action at a time may act on.';
comment on column actionledger_api_v1.gates.tenant_id is 'Whose gate it is.';
comment on column actionledger_api_v1.gates.gate_key is 'The identity of the gate: tenant/kind:name.';
comment on column actionledger_api_v1.gates.kind is 'run, window or target.';
comment on column actionledger_api_v1.gates.name is 'The run; the ceiling and its window, such as daily:2026-11-30; or the target. A name that a key cannot hold stands here as = and its hash.';
comment on column actionledger_api_v1.gates.used is 'What is used for good, by dimension: side_effects, spend.EUR in minor units, steps, tool_calls, tokens.';
comment on column actionledger_api_v1.gates.reserved is 'What is granted to actions that are not over, by dimension.';
comment on column actionledger_api_v1.gates.granted is 'How many reservations are granted.';
comment on column actionledger_api_v1.gates.queued is 'How many actions wait for it.';
comment on column actionledger_api_v1.gates.holder is 'The action that holds the target. Null for budgets, and while nobody holds it.';
comment on column actionledger_api_v1.gates.opened_at is 'Log time of its first fact.';
comment on column actionledger_api_v1.gates.updated_at is 'Log time of its newest fact.';
comment on column actionledger_api_v1.gates.next_due_at is 'When a grant that nobody has answered is sent again. Null when it waits for nothing.';
comment on column actionledger_api_v1.gates.version is 'Number of its facts.';
comment on column actionledger_api_v1.gates.partition is 'Partition of the ledger topic that holds it.';
comment on column actionledger_api_v1.gates.ledger_offset is 'Offset of the decision that holds its newest fact.';
comment on column actionledger_api_v1.gates.epoch is 'Epoch of the partition''s owner that made that decision.';

create view actionledger_api_v1.gate_events with (security_invoker = true) as
select
    tenant_id,
    gate_key,
    version,
    type,
    action_key,
    decided_at,
    data,
    actionledger.event_id(
        tenant_id, gate_key, version, type, cause_topic, cause_partition, cause_offset, ordinal
    ) as event_id,
    partition,
    ledger_offset,
    ordinal,
    cause_topic,
    cause_partition,
    cause_offset
from actionledger.gate_events;
comment on view actionledger_api_v1.gate_events is 'The timeline of every gate, never edited.';
comment on column actionledger_api_v1.gate_events.tenant_id is 'Whose gate it is about.';
comment on column actionledger_api_v1.gate_events.gate_key is 'The gate it is about.';
comment on column actionledger_api_v1.gate_events.version is 'Its place in the life of the gate, from 1 without a gap.';
comment on column actionledger_api_v1.gate_events.type is 'What happened, such as reservation.granted.';
comment on column actionledger_api_v1.gate_events.action_key is 'The action it is about. Null for what an agent reported of its run.';
comment on column actionledger_api_v1.gate_events.decided_at is 'Log time of the decision that holds it.';
comment on column actionledger_api_v1.gate_events.data is 'The fact in the words of the log.';
comment on column actionledger_api_v1.gate_events.event_id is 'Derived from what it says and what caused it: the same in every replay.';
comment on column actionledger_api_v1.gate_events.partition is 'Partition of the ledger topic.';
comment on column actionledger_api_v1.gate_events.ledger_offset is 'Offset of the decision.';
comment on column actionledger_api_v1.gate_events.ordinal is 'Place of the fact in its decision, from 0.';
comment on column actionledger_api_v1.gate_events.cause_topic is 'Inbox that held the input which led to it.';
comment on column actionledger_api_v1.gate_events.cause_partition is 'Partition of that inbox.';
comment on column actionledger_api_v1.gate_events.cause_offset is 'Offset of that input.';

create view actionledger_api_v1.gate_reservations with (security_invoker = true) as
select
    tenant_id,
    gate_key,
    action_key,
    round,
    status,
    grant_number,
    demand,
    over,
    forced,
    spent,
    asked_at,
    granted_at,
    closed_at,
    version,
    partition,
    ledger_offset
from actionledger.gate_reservations;
comment on view actionledger_api_v1.gate_reservations is 'What each action asked of a gate and was not refused, open or closed.';
comment on column actionledger_api_v1.gate_reservations.tenant_id is 'Whose gate it is.';
comment on column actionledger_api_v1.gate_reservations.gate_key is 'The gate that holds it.';
comment on column actionledger_api_v1.gate_reservations.action_key is 'The action that it is for.';
comment on column actionledger_api_v1.gate_reservations.round is 'Which fact of the action asked for it.';
comment on column actionledger_api_v1.gate_reservations.status is 'queued: behind another action. granted: the action''s own until it closes it. closed: over.';
comment on column actionledger_api_v1.gate_reservations.grant_number is 'The number of the grant, never given again. Null while it has none.';
comment on column actionledger_api_v1.gate_reservations.demand is 'What it takes, by dimension.';
comment on column actionledger_api_v1.gate_reservations.over is 'Ceilings, or actions, that it passes because a person has signed it.';
comment on column actionledger_api_v1.gate_reservations.forced is 'Whether it counts whatever the ceilings say, because its effect was there already.';
comment on column actionledger_api_v1.gate_reservations.spent is 'Once closed: whether its effect is there, so that what it took is used. Null while it is open.';
comment on column actionledger_api_v1.gate_reservations.asked_at is 'Log time at which the gate took it in.';
comment on column actionledger_api_v1.gate_reservations.granted_at is 'Log time of the grant. Null while it has none.';
comment on column actionledger_api_v1.gate_reservations.closed_at is 'Log time at which it was over. Null while it is open.';
comment on column actionledger_api_v1.gate_reservations.version is 'The fact of the gate by which it was taken in.';
comment on column actionledger_api_v1.gate_reservations.partition is 'Partition of the ledger topic.';
comment on column actionledger_api_v1.gate_reservations.ledger_offset is 'Offset of the decision that changed it last.';

create view actionledger_api_v1.runs with (security_invoker = true) as
select
    tenant_id,
    name as run,
    gate_key,
    used,
    reserved,
    granted,
    opened_at,
    updated_at,
    version,
    partition,
    ledger_offset
from actionledger.gates
where kind = 'run';
comment on view actionledger_api_v1.runs is 'Runs of agents, as far as a ceiling or a report counts them: what each has used and reserved.';
comment on column actionledger_api_v1.runs.tenant_id is 'Whose run it is.';
comment on column actionledger_api_v1.runs.run is 'The name of the run. One that a key cannot hold stands here as = and its hash.';
comment on column actionledger_api_v1.runs.gate_key is 'The gate that counts for it.';
comment on column actionledger_api_v1.runs.used is 'What is used for good, by dimension. side_effects and spend are the ledger''s own count; steps, tool_calls and tokens are the agent''s word.';
comment on column actionledger_api_v1.runs.reserved is 'What is granted to actions of the run that are not over, by dimension.';
comment on column actionledger_api_v1.runs.granted is 'How many of its actions hold a grant.';
comment on column actionledger_api_v1.runs.opened_at is 'Log time at which the run was first heard of.';
comment on column actionledger_api_v1.runs.updated_at is 'Log time of its newest fact.';
comment on column actionledger_api_v1.runs.version is 'Number of its facts.';
comment on column actionledger_api_v1.runs.partition is 'Partition of the ledger topic that holds it.';
comment on column actionledger_api_v1.runs.ledger_offset is 'Offset of the decision that holds its newest fact.';

create view actionledger_api_v1.batches with (security_invoker = true) as
select
    tenant_id,
    batch,
    count(*) as actions,
    count(*) filter (where status in ('proposed', 'ready', 'attempting')) as in_progress,
    count(*) filter (where status = 'completed') as completed,
    count(*) filter (where status = 'failed') as failed,
    count(*) filter (where status = 'denied') as denied,
    count(*) filter (where status = 'expired') as expired,
    count(*) filter (where status = 'cancelled') as cancelled,
    count(*) filter (where status = 'superseded') as superseded,
    count(*) filter (where status = 'needs_review') as needs_review,
    count(*) filter (where status = 'unknown') as unknown,
    count(*) filter (where status = 'awaiting_approval') as awaiting_approval,
    count(*) filter (where status = 'blocked') as blocked,
    min(created_at) as created_at,
    max(updated_at) as updated_at
from actionledger.actions
where batch is not null
group by tenant_id, batch;
comment on view actionledger_api_v1.batches is 'One row a batch: how many of its actions stand where.';
comment on column actionledger_api_v1.batches.tenant_id is 'Whose batch it is.';
comment on column actionledger_api_v1.batches.batch is 'The name that its actions were proposed with.';
comment on column actionledger_api_v1.batches.actions is 'How many there are.';
comment on column actionledger_api_v1.batches.in_progress is 'How many are proposed, ready or attempting.';
comment on column actionledger_api_v1.batches.completed is 'How many whose effect is proven.';
comment on column actionledger_api_v1.batches.failed is 'How many definitely without an effect.';
comment on column actionledger_api_v1.batches.denied is 'How many to which policy or a person said no.';
comment on column actionledger_api_v1.batches.expired is 'How many that came too late to start.';
comment on column actionledger_api_v1.batches.cancelled is 'How many that were taken back.';
comment on column actionledger_api_v1.batches.superseded is 'How many whose place a revision took.';
comment on column actionledger_api_v1.batches.needs_review is 'How many that wait for a person to settle them.';
comment on column actionledger_api_v1.batches.unknown is 'How many whose effect may have happened.';
comment on column actionledger_api_v1.batches.awaiting_approval is 'How many about which people are asked.';
comment on column actionledger_api_v1.batches.blocked is 'How many that wait for another action or for a gate.';
comment on column actionledger_api_v1.batches.created_at is 'Log time of the first intent.';
comment on column actionledger_api_v1.batches.updated_at is 'Log time of the newest fact of any of them.';

create view actionledger_api_v1.sagas with (security_invoker = true) as
with steps as (
    select
        step.tenant_id,
        step.stream_key,
        step.saga,
        step.saga_step,
        step.saga_steps,
        step.action_key,
        step.status,
        step.status
            in ('failed', 'denied', 'expired', 'cancelled', 'superseded') as has_no_effect,
        step.status = 'completed' as is_completed,
        step.case_version is not null as has_case,
        undo.case_version is not null as undo_has_case,
        undo.action_key as undo_key,
        undo.status as undo_status,
        -- Whether nothing of it is left to undo, or a person has taken over what is.
        case
            when undo.action_key is null then
                step.saga_reads
                or (step.review = 'compensation_failed' and step.case_version is null)
            else
                undo.case_version is null
                and (
                    undo.status = 'completed'
                    or (
                        undo.status
                            in ('failed', 'denied', 'expired', 'cancelled', 'superseded')
                        and undo.review = 'compensation_failed'
                    )
                )
        end as is_undone,
        step.created_at,
        greatest(step.updated_at, undo.updated_at) as updated_at
    from actionledger.actions as step
    left join actionledger.actions as undo
        on undo.tenant_id = step.tenant_id
        and undo.saga = step.saga
        and undo.stream_key = step.stream_key
        and undo.saga_step = step.saga_step
        and undo.saga_role = 'compensation'
    where step.saga_role = 'step' and step.saga is not null
)
select
    tenant_id,
    saga,
    case
        when bool_and(is_completed) then 'completed'
        when not bool_or(has_no_effect) then 'running'
        when bool_or(undo_has_case or (has_case and (is_completed or has_no_effect))) then 'stuck'
        when bool_and(has_no_effect or (is_completed and coalesce(is_undone, false)))
            then 'compensated'
        else 'compensating'
    end as status,
    max(saga_steps) as steps,
    count(*) filter (where is_completed) as completed,
    count(*) filter (where is_completed and undo_status = 'completed') as undone,
    json_agg(
        json_build_object(
            'step', saga_step,
            'action_key', action_key,
            'status', status,
            'compensation', undo_key,
            'compensation_status', undo_status
        )
        order by saga_step
    ) as step_statuses,
    min(created_at) as created_at,
    max(updated_at) as updated_at,
    stream_key
from steps
group by tenant_id, stream_key, saga;
comment on view actionledger_api_v1.sagas is 'One row a saga: how far its steps are, and how far what was done is undone.';
comment on column actionledger_api_v1.sagas.tenant_id is 'Whose saga it is.';
comment on column actionledger_api_v1.sagas.saga is 'Its name.';
comment on column actionledger_api_v1.sagas.status is 'running; completed: every step is; compensating: a step had no effect for good, and what was done before it is being undone; compensated: all of that is undone; stuck: a compensation needs a person.';
comment on column actionledger_api_v1.sagas.steps is 'How many steps it has.';
comment on column actionledger_api_v1.sagas.completed is 'How many of them have had their effect.';
comment on column actionledger_api_v1.sagas.undone is 'How many of those a compensation has undone.';
comment on column actionledger_api_v1.sagas.step_statuses is 'Each step in order, with its action, its status, and those of its compensation where one is planned.';
comment on column actionledger_api_v1.sagas.created_at is 'Log time at which it was recorded.';
comment on column actionledger_api_v1.sagas.updated_at is 'Log time of the newest fact of any of its actions.';
comment on column actionledger_api_v1.sagas.stream_key is 'The business event that orders it: tenant/event.';

create view actionledger_api_v1.blocked_actions with (security_invoker = true) as
select
    actions.tenant_id,
    actions.action_key,
    actions.operation,
    actions.target,
    actions.amount_minor,
    actions.currency,
    actions.blocked_reason as reason,
    actions.blocked_by as waits_for,
    since.decided_at as blocked_since,
    actions.next_due_at,
    actions.blocked_version,
    actions.run,
    actions.saga,
    actions.updated_at
from actionledger.actions
left join actionledger.action_events as since
    on since.action_key = actions.action_key and since.version = actions.blocked_version
where actions.status = 'blocked';
comment on view actionledger_api_v1.blocked_actions is 'Actions that wait for another one or for a gate: for what, and since when.';
comment on column actionledger_api_v1.blocked_actions.tenant_id is 'Whose action it is.';
comment on column actionledger_api_v1.blocked_actions.action_key is 'The action that waits.';
comment on column actionledger_api_v1.blocked_actions.operation is 'What it would do.';
comment on column actionledger_api_v1.blocked_actions.target is 'What it acts on.';
comment on column actionledger_api_v1.blocked_actions.amount_minor is 'The amount in minor units of the currency.';
comment on column actionledger_api_v1.blocked_actions.currency is 'ISO 4217 code of the amount.';
comment on column actionledger_api_v1.blocked_actions.reason is 'revised_open, original_open, saga_order, planned: another action of its business event comes first. target: another action holds its target. unanswered: a gate has yet to answer.';
comment on column actionledger_api_v1.blocked_actions.waits_for is 'The action that it waits for, or the gate.';
comment on column actionledger_api_v1.blocked_actions.blocked_since is 'Log time since which it waits for that.';
comment on column actionledger_api_v1.blocked_actions.next_due_at is 'When time alone next moves it.';
comment on column actionledger_api_v1.blocked_actions.blocked_version is 'Which fact of its own blocked it: what a person who lets it pass names.';
comment on column actionledger_api_v1.blocked_actions.run is 'The run that it belongs to.';
comment on column actionledger_api_v1.blocked_actions.saga is 'The saga that it belongs to.';
comment on column actionledger_api_v1.blocked_actions.updated_at is 'Log time of its newest fact.';

-- migrate:down

drop view actionledger_api_v1.blocked_actions;
drop view actionledger_api_v1.sagas;
drop view actionledger_api_v1.batches;
drop view actionledger_api_v1.runs;
drop view actionledger_api_v1.gate_reservations;
drop view actionledger_api_v1.gate_events;
drop view actionledger_api_v1.gates;
create or replace view actionledger_api_v1.inputs with (security_invoker = true) as
select
    cause_topic as topic,
    cause_partition as partition,
    cause_offset as "offset",
    'facts' as outcome,
    type as reason,
    tenant_id,
    action_key,
    decided_at,
    partition as ledger_partition,
    ledger_offset,
    data as details
from actionledger.action_events
where ordinal = 0
union all
select
    cause_topic,
    cause_partition,
    cause_offset,
    outcome,
    reason,
    tenant_id,
    action_key,
    decided_at,
    partition,
    ledger_offset,
    details
from actionledger.decisions;
drop view actionledger_api_v1.review_cases;
create view actionledger_api_v1.review_cases with (security_invoker = true) as
select
    cases.tenant_id,
    cases.action_key,
    cases.version,
    cases.kind,
    cases.reason,
    cases.opened_at,
    settled.resolved_at is null
        and (cases.kind = 'alarm' or actions.status = 'needs_review') as is_open,
    actions.status,
    cases.partition,
    cases.ledger_offset,
    settled.resolved_at,
    settled.move,
    settled.person,
    settled.key_id,
    settled.reference,
    settled.comment,
    settled.signed
from actionledger.review_cases as cases
join actionledger.actions on actions.action_key = cases.action_key
left join lateral (
    select *
    from actionledger.review_resolutions as later
    where later.action_key = cases.action_key and later.version > cases.version
    order by later.version
    limit 1
) as settled on true;
comment on view actionledger_api_v1.review_cases is 'Each time a person was asked for.';
comment on column actionledger_api_v1.review_cases.tenant_id is 'Whose action it is.';
comment on column actionledger_api_v1.review_cases.action_key is 'The action to look at.';
comment on column actionledger_api_v1.review_cases.version is 'Which fact of the action opened the case.';
comment on column actionledger_api_v1.review_cases.kind is 'review: the action waits for a person. alarm: it is final, and something contradicts that.';
comment on column actionledger_api_v1.review_cases.reason is 'Why a person is needed.';
comment on column actionledger_api_v1.review_cases.opened_at is 'Log time at which the case was opened.';
comment on column actionledger_api_v1.review_cases.is_open is 'Whether it still waits for a person. Evidence may settle a case too: then nobody has signed anything, and this is false.';
comment on column actionledger_api_v1.review_cases.status is 'How the action stands now.';
comment on column actionledger_api_v1.review_cases.partition is 'Partition of the ledger topic.';
comment on column actionledger_api_v1.review_cases.ledger_offset is 'Offset of the decision that opened the case.';
comment on column actionledger_api_v1.review_cases.resolved_at is 'Log time at which a person settled it. Null while nobody has.';
comment on column actionledger_api_v1.review_cases.move is 'What they said: effect_exists, no_effect, try_again, look_again or acknowledge.';
comment on column actionledger_api_v1.review_cases.person is 'Who signed.';
comment on column actionledger_api_v1.review_cases.key_id is 'With which of their keys.';
comment on column actionledger_api_v1.review_cases.reference is 'The name that the effect has at the provider, as they gave it. Null where they gave none.';
comment on column actionledger_api_v1.review_cases.comment is 'What they said about it, in their words.';
comment on column actionledger_api_v1.review_cases.signed is 'The resolution with its proof, as it was given: anybody can verify it again.';
drop view actionledger_api_v1.actions;
create view actionledger_api_v1.actions with (security_invoker = true) as
select
    tenant_id,
    action_key,
    action_id,
    operation,
    operation_version,
    status,
    target,
    amount_minor,
    currency,
    principal,
    environment,
    provider,
    account,
    reliability,
    provider_reference,
    result,
    proof,
    code,
    review,
    attempts,
    holder,
    lease_until,
    next_due_at,
    step_deadline_at,
    policy_row,
    request_hash,
    created_at,
    updated_at,
    version,
    stream_key,
    ledger_partition,
    ledger_offset,
    epoch
from actionledger.actions;
comment on view actionledger_api_v1.actions is 'One row an action: how it stands now.';
comment on column actionledger_api_v1.actions.tenant_id is 'Whose action it is.';
comment on column actionledger_api_v1.actions.action_key is 'The identity of the action for ever: operation:version:tenant:action id.';
comment on column actionledger_api_v1.actions.action_id is 'The business event, with item and revision where it has them.';
comment on column actionledger_api_v1.actions.operation is 'What is done, by its name in the operation catalogue.';
comment on column actionledger_api_v1.actions.operation_version is 'Which meaning of the operation.';
comment on column actionledger_api_v1.actions.status is 'proposed, awaiting_approval, blocked, ready, attempting, unknown, needs_review, or final: completed, failed, denied, expired, cancelled, superseded. Unknown means the effect may have happened.';
comment on column actionledger_api_v1.actions.target is 'What it acts on, such as order:A-1842. Null where the operation has no target.';
comment on column actionledger_api_v1.actions.amount_minor is 'The amount in minor units of the currency. Null where no money moves.';
comment on column actionledger_api_v1.actions.currency is 'ISO 4217 code of the amount.';
comment on column actionledger_api_v1.actions.principal is 'Who asked for it.';
comment on column actionledger_api_v1.actions.environment is 'Where it holds, such as production.';
comment on column actionledger_api_v1.actions.provider is 'Who is called to carry it out.';
comment on column actionledger_api_v1.actions.account is 'The account at the provider.';
comment on column actionledger_api_v1.actions.reliability is 'What helps when an answer is lost: keyed, reference, lookup or none.';
comment on column actionledger_api_v1.actions.provider_reference is 'The provider''s own name for the effect, once it is known.';
comment on column actionledger_api_v1.actions.result is 'What the provider answered on success, as the log has it.';
comment on column actionledger_api_v1.actions.proof is 'What proved the effect: report, webhook or lookup. Null until it is proven.';
comment on column actionledger_api_v1.actions.code is 'Why it failed or was cancelled.';
comment on column actionledger_api_v1.actions.review is 'Why a person was last asked for, if ever.';
comment on column actionledger_api_v1.actions.attempts is 'Starts so far, with those that were given back.';
comment on column actionledger_api_v1.actions.holder is 'The incarnation of the executor that may act now. Null when nobody may.';
comment on column actionledger_api_v1.actions.lease_until is 'When the right to act of the holder ends. Null when nobody may act.';
comment on column actionledger_api_v1.actions.next_due_at is 'When time alone next moves the action, before the allowance for clocks. Null when it waits for nothing.';
comment on column actionledger_api_v1.actions.step_deadline_at is 'When no further attempt may start.';
comment on column actionledger_api_v1.actions.policy_row is 'The row of the policy that decided about it.';
comment on column actionledger_api_v1.actions.request_hash is 'SHA-256 over the canonical request: same hash, same request.';
comment on column actionledger_api_v1.actions.created_at is 'Log time at which the intent was recorded.';
comment on column actionledger_api_v1.actions.updated_at is 'Log time of its newest fact.';
comment on column actionledger_api_v1.actions.version is 'Number of its facts.';
comment on column actionledger_api_v1.actions.stream_key is 'The business event that orders it: tenant/event.';
comment on column actionledger_api_v1.actions.ledger_partition is 'Partition of the ledger topic that holds it.';
comment on column actionledger_api_v1.actions.ledger_offset is 'Offset of the decision that holds its newest fact.';
comment on column actionledger_api_v1.actions.epoch is 'Epoch of the partition''s owner that made that decision.';
alter table actionledger.review_cases drop column names;
drop index actionledger.actions_blocked;
alter table actionledger.actions
    drop column run,
    drop column occurrence,
    drop column batch,
    drop column revises,
    drop column compensates,
    drop column saga,
    drop column saga_step,
    drop column saga_steps,
    drop column saga_role,
    drop column saga_reads,
    drop column blocked_reason,
    drop column blocked_by,
    drop column blocked_version,
    drop column case_version;
drop table actionledger.gate_reservations;
drop table actionledger.gate_events;
drop table actionledger.gates;
