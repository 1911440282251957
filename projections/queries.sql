-- What is read from the projections. Times leave as the log's milliseconds: the product counts
-- time in integers everywhere. $1 is the tenant wherever an answer goes to a door; null there
-- means every tenant, which only operators may ask for.

-- name: streams
-- One without a row that has actions, or is a gate that stands, comes without a state: its row was
-- deleted. In one statement, or a commit in between would look like that.
select stream_key, next_offset, fold_version, action_keys, state
from actionledger.streams
where stream_key = any ($1::text[])
union all
select wanted.stream_key, null, null, null, null
from unnest($1::text[]) as wanted (stream_key)
where not exists (
      select from actionledger.streams as one
      where one.stream_key = wanted.stream_key
      offset 0
  )
  and (
      exists (
          select from actionledger.actions as one
          where one.stream_key = wanted.stream_key
          offset 0
      )
      or exists (
          select from actionledger.gates as one
          where one.gate_key = wanted.stream_key
          offset 0
      )
  )

-- name: facts
-- All stored facts of some actions, those of a stream in the order of the log.
select
    action_key,
    ledger_offset,
    (extract(epoch from decided_at) * 1000)::bigint as decided_at,
    data
from actionledger.action_events
where action_key = any ($1::text[])
order by ledger_offset, ordinal

-- name: gate_facts
-- All stored facts of a gate, in the order of the log; served by gate_events_version.
select
    ledger_offset,
    (extract(epoch from decided_at) * 1000)::bigint as decided_at,
    data
from actionledger.gate_events
where gate_key = $1
order by version

-- name: all_streams
select stream_key, next_offset, fold_version, action_keys, state
from actionledger.streams
where partition = any ($1::integer[])
order by stream_key collate "C"

-- name: fold_versions
-- How many states each version of the fold wrote.
select fold_version, count(*) as count
from actionledger.streams
group by fold_version

-- name: offsets
select
    partition,
    next_offset,
    epoch,
    (extract(epoch from decided_at) * 1000)::bigint as decided_at,
    void_count,
    generation,
    cluster,
    adopted_hash,
    positions,
    holds
from actionledger.projection_offsets
order by partition

-- name: streams_due
-- By timer, earliest first; served by actions_due and gates_due.
select stream_key, (extract(epoch from min(next_due_at)) * 1000)::bigint as due_at
from (
    select stream_key, next_due_at
    from actionledger.actions
    where ledger_partition = $1
      and next_due_at <= timestamptz 'epoch' + $2::bigint * interval '1 millisecond'
    union all
    select gate_key, next_due_at
    from actionledger.gates
    where partition = $1
      and next_due_at <= timestamptz 'epoch' + $2::bigint * interval '1 millisecond'
) as due
group by stream_key
order by min(next_due_at), stream_key
limit $3

-- name: actions
-- How actions stand, those recorded first first.
select
    tenant_id,
    action_key,
    operation,
    stream_key,
    status,
    version,
    request_hash,
    target,
    amount_minor,
    currency,
    principal,
    environment,
    provider,
    account,
    reliability,
    attempts,
    holder,
    (extract(epoch from lease_until) * 1000)::bigint as lease_until,
    (extract(epoch from next_due_at) * 1000)::bigint as next_due_at,
    (extract(epoch from step_deadline_at) * 1000)::bigint as step_deadline_at,
    provider_reference,
    result,
    proof,
    code,
    review,
    ledger_partition,
    ledger_offset,
    (extract(epoch from created_at) * 1000)::bigint as created_at,
    (extract(epoch from updated_at) * 1000)::bigint as updated_at,
    (
        -- The first hold, as the action's own partition has adopted it, by which it may not start.
        select hold
        from actionledger.projection_offsets as stood,
            json_array_elements(stood.holds) with ordinality as held (hold, place)
        where stood.partition = actions.ledger_partition
          and actions.status in ('proposed', 'ready', 'unknown')
          and coalesce(hold -> 'scope' ->> 'provider', actions.provider) = actions.provider
          and coalesce(hold -> 'scope' ->> 'tenant', actions.tenant_id) = actions.tenant_id
          and coalesce(hold -> 'scope' ->> 'operation', actions.operation) = actions.operation
        order by place
        limit 1
    ) as held,
    (
        -- What people were asked last, where they are asked at all.
        select json_build_object(
            'round', round,
            'expires_at', (extract(epoch from expires_at) * 1000)::bigint,
            'quorum', quorum,
            'granted', granted,
            'groups', groups,
            'ended', ended
        )
        from actionledger.approvals as asked
        where asked.action_key = actions.action_key
        order by round desc
        limit 1
    ) as approval,
    case when actions.status = 'denied' then coalesce(
        -- A person who said no, or else the table.
        (
            select json_build_object('by', 'person', 'person', person, 'comment', comment)
            from actionledger.approval_decisions as said
            where said.action_key = actions.action_key and said.decision = 'deny'
            limit 1
        ),
        json_build_object('by', 'policy')
    ) end as denied,
    run,
    occurrence,
    batch,
    revises,
    compensates,
    saga,
    saga_step,
    saga_steps,
    saga_role,
    blocked_reason,
    blocked_by,
    blocked_version,
    case_version,
    case when actions.status = 'needs_review' then (
        -- The ceiling, or the other action, that its newest case is about.
        select names
        from actionledger.review_cases as cases
        where cases.action_key = actions.action_key
        order by version desc
        limit 1
    ) end as review_names,
    case when actions.status not in ('completed', 'failed') then (
        -- Who carries it out, where that is its caller: its first fact says so.
        select data ->> 'performer'
        from actionledger.action_events as first
        where first.action_key = actions.action_key
        order by version
        limit 1
    ) end as performer
from actionledger.actions
where action_key = any ($2::text[]) and ($1::text is null or tenant_id = $1)
order by created_at, ledger_partition, intent_offset, action_key

-- name: actions_of
-- Which actions a run, a batch or a saga has, those recorded first first; served by actions_of_run,
-- actions_of_batch and actions_of_saga. Only the branch of $2 is looked at.
select action_key
from (
    select action_key, created_at, ledger_partition, intent_offset
    from actionledger.actions
    where $2 = 'run' and run = $3 and ($1::text is null or tenant_id = $1)
    union all
    select action_key, created_at, ledger_partition, intent_offset
    from actionledger.actions
    where $2 = 'batch' and batch = $3 and ($1::text is null or tenant_id = $1)
    union all
    select action_key, created_at, ledger_partition, intent_offset
    from actionledger.actions
    where $2 = 'saga' and saga = $3 and ($1::text is null or tenant_id = $1)
) as members
order by created_at, ledger_partition, intent_offset, action_key
limit $4

-- name: gate
select
    tenant_id,
    gate_key,
    kind,
    name,
    version,
    used,
    reserved,
    granted,
    queued,
    holder,
    (extract(epoch from opened_at) * 1000)::bigint as opened_at,
    (extract(epoch from updated_at) * 1000)::bigint as updated_at,
    partition,
    ledger_offset
from actionledger.gates
where gate_key = $2 and ($1::text is null or tenant_id = $1)

-- name: gates_of_kind
-- Runs or windows, the newest first; served by gates_opened.
select
    tenant_id,
    gate_key,
    kind,
    name,
    version,
    used,
    reserved,
    granted,
    queued,
    holder,
    (extract(epoch from opened_at) * 1000)::bigint as opened_at,
    (extract(epoch from updated_at) * 1000)::bigint as updated_at,
    partition,
    ledger_offset
from actionledger.gates
where kind = $2 and kind <> 'target' and ($1::text[] is null or tenant_id = any ($1))
order by opened_at desc, gate_key
limit $3

-- name: reservations
-- What a gate holds and who waits for it, in its order; served by gate_reservations_open.
select
    gate_key,
    version,
    action_key,
    round,
    status,
    grant_number,
    demand,
    over,
    forced,
    (extract(epoch from asked_at) * 1000)::bigint as asked_at,
    (extract(epoch from granted_at) * 1000)::bigint as granted_at
from actionledger.gate_reservations
where gate_key = $2 and status <> 'closed' and ($1::text is null or tenant_id = $1)
order by version
limit $3

-- name: timeline
select
    version,
    type,
    (extract(epoch from decided_at) * 1000)::bigint as decided_at,
    data,
    actionledger.event_id(
        tenant_id, action_key, version, type, cause_topic, cause_partition, cause_offset, ordinal
    ) as event_id,
    partition,
    ledger_offset,
    ordinal,
    cause_topic,
    cause_partition,
    cause_offset
from actionledger.action_events
where action_key = $2 and ($1::text is null or tenant_id = $1) and version > $3
order by version
limit $4

-- name: attempts
select
    number,
    status,
    code,
    provider,
    account,
    provider_key,
    holder,
    fencing_token,
    (extract(epoch from started_at) * 1000)::bigint as started_at,
    (extract(epoch from lease_until) * 1000)::bigint as lease_until,
    (extract(epoch from ended_at) * 1000)::bigint as ended_at
from actionledger.attempts
where action_key = $2 and ($1::text is null or tenant_id = $1)
order by number

-- name: why_input
-- What one input became: its facts, or the one answer without any.
select
    partition,
    ledger_offset,
    ordinal,
    (extract(epoch from decided_at) * 1000)::bigint as decided_at,
    'facts' as outcome,
    type as reason,
    action_key,
    data as details,
    cause_topic,
    cause_partition,
    cause_offset,
    null as cause_copied
from actionledger.action_events
where (partition, ledger_offset) in (
    -- the index on causes has the first fact of each decision
    select partition, ledger_offset
    from actionledger.action_events
    where cause_topic = $2 and cause_partition = $3 and cause_offset = $4 and ordinal = 0
)
  and ($1::text is null or tenant_id = $1)
union all
select
    partition,
    ledger_offset,
    ordinal,
    (extract(epoch from decided_at) * 1000)::bigint,
    'facts',
    type,
    action_key,
    data,
    cause_topic,
    cause_partition,
    cause_offset,
    null
from actionledger.gate_events
where (partition, ledger_offset) in (
    select partition, ledger_offset
    from actionledger.gate_events
    where cause_topic = $2 and cause_partition = $3 and cause_offset = $4 and ordinal = 0
)
  and ($1::text is null or tenant_id = $1)
union all
select
    partition,
    ledger_offset,
    0,
    (extract(epoch from decided_at) * 1000)::bigint,
    outcome,
    reason,
    action_key,
    details,
    cause_topic,
    cause_partition,
    cause_offset,
    cause_copied
from actionledger.decisions
where cause_topic = $2 and cause_partition = $3 and cause_offset = $4
  and ($1::text is null or tenant_id = $1)
order by partition, ledger_offset, ordinal

-- name: why_action
-- Every decision about one action: its facts, and what was refused or changed nothing.
select
    partition,
    ledger_offset,
    ordinal,
    (extract(epoch from decided_at) * 1000)::bigint as decided_at,
    'facts' as outcome,
    type as reason,
    action_key,
    data as details,
    cause_topic,
    cause_partition,
    cause_offset,
    null as cause_copied
from actionledger.action_events
where action_key = $2 and ($1::text is null or tenant_id = $1)
union all
select
    partition,
    ledger_offset,
    0,
    (extract(epoch from decided_at) * 1000)::bigint,
    outcome,
    reason,
    action_key,
    details,
    cause_topic,
    cause_partition,
    cause_offset,
    cause_copied
from actionledger.decisions
where action_key = $2 and ($1::text is null or tenant_id = $1)
order by partition, ledger_offset, ordinal
limit $3

-- name: unknowns
-- Oldest news first; served by actions_unsettled. What is beside each is looked up in its own
-- timeline: since when its key is used and until when it may be, what was last set or asked, and the
-- newest pieces of evidence.
select
    actions.tenant_id,
    actions.action_key,
    actions.target,
    actions.amount_minor,
    actions.currency,
    actions.provider,
    actions.account,
    actions.attempts,
    (extract(epoch from opened.since) * 1000)::bigint as unknown_since,
    (extract(epoch from actions.next_due_at) * 1000)::bigint as next_due_at,
    (extract(epoch from actions.updated_at) * 1000)::bigint as updated_at,
    next_step.step as next_step,
    (extract(epoch from first.started_at) * 1000)::bigint as key_used_at,
    first.key_until,
    coalesce(evidence.count, 0) as evidence_count,
    evidence.pieces as evidence
from actionledger.actions
left join lateral (
    select min(attempts.ended_at) as since
    from actionledger.attempts
    where attempts.action_key = actions.action_key and attempts.status = 'unresolved'
) as opened on true
left join lateral (
    select
        started.decided_at as started_at,
        (started.data ->> 'key_expires_at')::bigint as key_until
    from actionledger.action_events as started
    where started.action_key = actions.action_key and started.type = 'attempt.started'
    order by started.version
    limit 1
) as first on true
left join lateral (
    select case newest.type when 'lookup.started' then 'asked' else newest.data ->> 'purpose' end
        as step
    from actionledger.action_events as newest
    where newest.action_key = actions.action_key and newest.type in ('lookup.started', 'timer.set')
    order by newest.version desc
    limit 1
) as next_step on true
left join lateral (
    select
        max(piece.of_all) as count,
        json_agg(
            json_build_object(
                'kind', piece.data ->> 'kind',
                'meaning', piece.data ->> 'meaning',
                'recorded_at', (extract(epoch from piece.decided_at) * 1000)::bigint,
                'reference', piece.data ->> 'reference',
                'code', piece.data ->> 'code'
            )
            order by piece.version
        ) as pieces
    from (
        select recorded.*, count(*) over () as of_all
        from actionledger.action_events as recorded
        where recorded.action_key = actions.action_key and recorded.type = 'evidence.recorded'
        order by recorded.version desc
        limit 8
    ) as piece
) as evidence on true
where actions.status = 'unknown' and ($1::text[] is null or actions.tenant_id = any ($1))
order by actions.updated_at, actions.action_key
limit $2

-- name: unknown_ages
-- How many are uncertain at each provider, by how long their outcome has been missing; served by
-- actions_unsettled.
select
    actions.provider,
    case
        when $2 - opened.since < interval '1 minute' then '1m'
        when $2 - opened.since < interval '10 minutes' then '10m'
        when $2 - opened.since < interval '1 hour' then '1h'
        when $2 - opened.since < interval '6 hours' then '6h'
        when $2 - opened.since < interval '1 day' then '1d'
        else 'older'
    end as below,
    count(*) as actions
from actionledger.actions
left join lateral (
    select coalesce(min(attempts.ended_at), actions.updated_at) as since
    from actionledger.attempts
    where attempts.action_key = actions.action_key and attempts.status = 'unresolved'
) as opened on true
where actions.status = 'unknown' and ($1::text[] is null or actions.tenant_id = any ($1))
group by 1, 2
order by 1, 2

-- name: cases
-- What waits for a person: the newest case of each action that needs one and each alarm, until
-- somebody settles it. Oldest first.
select
    cases.tenant_id,
    cases.action_key,
    cases.version,
    cases.kind,
    cases.reason,
    actions.status,
    actions.operation,
    actions.target,
    actions.amount_minor,
    actions.currency,
    actions.principal,
    actions.environment,
    actions.provider,
    actions.account,
    (extract(epoch from cases.opened_at) * 1000)::bigint as opened_at,
    cases.partition,
    cases.ledger_offset,
    cases.names
from actionledger.review_cases as cases
join actionledger.actions on actions.action_key = cases.action_key
where (cases.kind = 'alarm' or actions.status = 'needs_review')
  and not exists (
      -- A person who settles an action settles every case of it that was open.
      select from actionledger.review_resolutions as later
      where later.action_key = cases.action_key and later.version > cases.version
  )
  and not exists (
      select from actionledger.review_cases as newer
      where newer.action_key = cases.action_key and newer.version > cases.version
  )
  and ($1::text[] is null or cases.tenant_id = any ($1))
order by cases.opened_at, cases.action_key, cases.version
limit $2

-- name: blocked
-- What waits for another action although a person may let it pass: oldest news first; served by
-- actions_blocked.
select tenant_id, action_key
from actionledger.actions
where status = 'blocked' and blocked_reason in ('target', 'revised_open')
  and ($1::text[] is null or tenant_id = any ($1))
order by updated_at, action_key
limit $2

-- name: actions_by_reference
-- Across tenants and partitions: whoever matches a webhook has the provider's name only.
select action_key
from actionledger.provider_references
where account = $1 and reference = $2
order by action_key
limit $3

-- name: waiting
-- Who was asked longest ago comes first, and what ran out behind all others: it waits for as long as
-- nobody asks again, and in a list that is cut what has ten minutes would never be seen behind it.
-- Served by actions_waiting. $1 are tenants, or null.
select
    actions.tenant_id,
    actions.action_key,
    actions.operation,
    actions.target,
    actions.amount_minor,
    actions.currency,
    actions.principal,
    actions.environment,
    actions.provider,
    actions.account,
    actions.version,
    actions.policy_row,
    asked.policy_hash,
    asked.round,
    asked.nonce,
    (extract(epoch from asked.requested_at) * 1000)::bigint as requested_at,
    (extract(epoch from asked.expires_at) * 1000)::bigint as expires_at,
    asked.quorum,
    coalesce(asked.groups, '{}') as groups,
    coalesce(asked.granted, 0) as granted,
    coalesce(agreed.people, '{}') as granted_by,
    asked.ended,
    shown.content as preview,
    asked.preview_hash,
    (extract(epoch from actions.step_deadline_at) * 1000)::bigint as step_deadline_at,
    (extract(epoch from actions.created_at) * 1000)::bigint as created_at,
    (extract(epoch from actions.updated_at) * 1000)::bigint as updated_at
from actionledger.actions
left join lateral (
    select *
    from actionledger.approvals
    where approvals.action_key = actions.action_key
    order by round desc
    limit 1
) as asked on true
left join lateral (
    select content
    from actionledger.previews
    where previews.action_key = actions.action_key and previews.preview_hash = asked.preview_hash
    order by version desc
    limit 1
) as shown on true
left join lateral (
    -- Each person's newest word in this round; a yes that was taken back is none.
    select array_agg(said.person order by said.version) as people
    from (
        select distinct on (person) person, decision, version
        from actionledger.approval_decisions
        where approval_decisions.action_key = actions.action_key
          and approval_decisions.round = asked.round
        order by person, version desc
    ) as said
    where said.decision = 'approve'
) as agreed on true
where actions.status = 'awaiting_approval'
  and ($1::text[] is null or actions.tenant_id = any ($1))
order by
    asked.ended is not null, coalesce(asked.requested_at, actions.created_at), actions.action_key
limit $2

-- name: waiting_keys
-- For how many answers a principal waits: counted before it may ask for more. Served by
-- actions_waiting.
select action_key
from actionledger.actions
where status = 'awaiting_approval'
  and principal = $2
  and ($1::text is null or tenant_id = $1)
limit $3

-- name: paused
-- What of a run waits for a person because a ceiling is reached, oldest first: asked before more of
-- the run is let in. Served by actions_of_run.
select
    cases.action_key,
    cases.names
from actionledger.actions
join actionledger.review_cases as cases on cases.action_key = actions.action_key
where actions.run = $2
  and actions.status = 'needs_review'
  and cases.reason = 'ceiling_reached'
  and cases.names is not null
  and ($1::text is null or actions.tenant_id = $1)
  and not exists (
      select from actionledger.review_cases as newer
      where newer.action_key = cases.action_key and newer.version > cases.version
  )
order by cases.opened_at, cases.action_key
limit $3

-- name: saga_facts
-- All facts of the actions of sagas, in order: what those are folded from; served by
-- actions_of_saga.
select
    actions.stream_key,
    action_events.ledger_offset,
    (extract(epoch from action_events.decided_at) * 1000)::bigint as decided_at,
    action_events.data
from actionledger.actions
join actionledger.action_events using (action_key)
where actions.saga = any ($3::text[])
  and actions.stream_key = any ($2::text[])
  and ($1::text[] is null or actions.tenant_id = any ($1))
order by actions.stream_key, action_events.ledger_offset, action_events.ordinal
limit $4

-- name: sagas
-- Sagas by the first step of each, the newest first; served by actions_of_saga.
select stream_key, saga
from actionledger.actions
where saga is not null
  and saga_role = 'step'
  and saga_step = 1
  and ($1::text[] is null or tenant_id = any ($1))
order by created_at desc, stream_key, saga
limit $2

-- name: tenants
-- Tenants that have an action, by one look into the primary key for each: they are few, and actions
-- are many.
with recursive found (tenant_id) as (
    (select tenant_id from actionledger.actions order by tenant_id limit 1)
    union all
    select (
        select actions.tenant_id
        from actionledger.actions
        where actions.tenant_id > found.tenant_id
        order by actions.tenant_id
        limit 1
    )
    from found
    where found.tenant_id is not null
)
select tenant_id
from found
where tenant_id is not null and ($1::text is null or tenant_id = $1)
limit $2

-- name: revised_by
-- The action that takes the place of another one; served by actions_revising.
select action_key
from actionledger.actions
where revises = $2 and ($1::text is null or tenant_id = $1)
limit 1

-- name: resolutions
select
    version,
    case_version,
    move,
    person,
    key_id,
    reference,
    comment,
    (extract(epoch from resolved_at) * 1000)::bigint as resolved_at
from actionledger.review_resolutions
where action_key = $2 and ($1::text is null or tenant_id = $1)
order by version
limit $3

-- name: signed
select
    version,
    round,
    decision,
    person,
    key_id,
    comment,
    (extract(epoch from decided_at) * 1000)::bigint as decided_at
from actionledger.approval_decisions
where action_key = $2 and ($1::text is null or tenant_id = $1)
order by version
limit $3
