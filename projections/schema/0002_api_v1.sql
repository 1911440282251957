-- What analysts and their tools may build on: views whose names, columns and meanings stay.
--
-- A change that would break a query is a second set of views (`api_v2`) beside this one. The views
-- run with their owner's rights, so a reader needs none on the tables behind them.

-- migrate:up

create schema actionledger_api_v1;
comment on schema actionledger_api_v1 is
    'Read models of the action ledger for analysts, version 1. Derived from the ledger topic; never written by hand.';

create view actionledger_api_v1.actions as
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

create view actionledger_api_v1.action_events as
select
    tenant_id,
    action_key,
    version,
    type,
    decided_at,
    data,
    event_id,
    partition,
    ledger_offset,
    ordinal,
    cause_topic,
    cause_partition,
    cause_offset
from actionledger.action_events;
comment on view actionledger_api_v1.action_events is 'The timeline: every fact, never edited.';
comment on column actionledger_api_v1.action_events.tenant_id is 'Whose action it is about.';
comment on column actionledger_api_v1.action_events.action_key is 'The action it is about.';
comment on column actionledger_api_v1.action_events.version is 'Its place in the life of the action, from 1 without a gap.';
comment on column actionledger_api_v1.action_events.type is 'What happened, such as attempt.started.';
comment on column actionledger_api_v1.action_events.decided_at is 'Log time of the decision that holds it.';
comment on column actionledger_api_v1.action_events.data is 'The fact in the words of the log.';
comment on column actionledger_api_v1.action_events.event_id is 'Derived from what it says and what caused it: the same in every replay.';
comment on column actionledger_api_v1.action_events.partition is 'Partition of the ledger topic.';
comment on column actionledger_api_v1.action_events.ledger_offset is 'Offset of the decision.';
comment on column actionledger_api_v1.action_events.ordinal is 'Place of the fact in its decision, from 0.';
comment on column actionledger_api_v1.action_events.cause_topic is 'Inbox that held the input which led to it.';
comment on column actionledger_api_v1.action_events.cause_partition is 'Partition of that inbox.';
comment on column actionledger_api_v1.action_events.cause_offset is 'Offset of that input.';

create view actionledger_api_v1.inputs as
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
comment on view actionledger_api_v1.inputs is 'Which input became what: one row a decision.';
comment on column actionledger_api_v1.inputs.topic is 'Inbox that held the input.';
comment on column actionledger_api_v1.inputs.partition is 'Partition of that inbox.';
comment on column actionledger_api_v1.inputs."offset" is 'Offset of the input.';
comment on column actionledger_api_v1.inputs.outcome is 'facts, refused, unchanged, quarantined or adopted.';
comment on column actionledger_api_v1.inputs.reason is 'Type of the first fact, code of the refusal, or why nothing changed.';
comment on column actionledger_api_v1.inputs.tenant_id is 'Whose input it was. Null where that cannot be told.';
comment on column actionledger_api_v1.inputs.action_key is 'The action that the answer is about, if there is one.';
comment on column actionledger_api_v1.inputs.decided_at is 'Log time of the decision.';
comment on column actionledger_api_v1.inputs.ledger_partition is 'Partition of the ledger topic that holds the decision.';
comment on column actionledger_api_v1.inputs.ledger_offset is 'Offset of the decision.';
comment on column actionledger_api_v1.inputs.details is 'The first fact, or the whole answer, in the words of the log.';

create view actionledger_api_v1.attempts as
select
    tenant_id,
    action_key,
    number,
    status,
    code,
    provider,
    account,
    provider_key,
    holder,
    fencing_token,
    started_at,
    lease_until,
    ended_at
from actionledger.attempts;
comment on view actionledger_api_v1.attempts is 'Each try at a provider, and what became of it.';
comment on column actionledger_api_v1.attempts.tenant_id is 'Whose action it is.';
comment on column actionledger_api_v1.attempts.action_key is 'The action that was tried.';
comment on column actionledger_api_v1.attempts.number is 'Which try, from 1.';
comment on column actionledger_api_v1.attempts.status is 'running, unresolved (may have had its effect), succeeded, refused, not_sent, declined, absent or settled (closed by proof from elsewhere).';
comment on column actionledger_api_v1.attempts.code is 'The reason, where it did not succeed.';
comment on column actionledger_api_v1.attempts.provider is 'Who was called.';
comment on column actionledger_api_v1.attempts.account is 'The account at the provider.';
comment on column actionledger_api_v1.attempts.provider_key is 'The idempotency key that the provider saw: the same for every try of an action.';
comment on column actionledger_api_v1.attempts.holder is 'The incarnation of the executor that acted.';
comment on column actionledger_api_v1.attempts.fencing_token is 'A number that only grows: a report with an older one comes too late.';
comment on column actionledger_api_v1.attempts.started_at is 'Log time of the start, before the first byte.';
comment on column actionledger_api_v1.attempts.lease_until is 'When the right to act ended.';
comment on column actionledger_api_v1.attempts.ended_at is 'Log time of its outcome. Null while it is open.';

create view actionledger_api_v1.unknown_actions as
select
    actions.tenant_id,
    actions.action_key,
    actions.target,
    actions.amount_minor,
    actions.currency,
    actions.provider,
    actions.account,
    actions.attempts,
    opened.unknown_since,
    actions.next_due_at,
    actions.updated_at
from actionledger.actions
left join lateral (
    select min(attempts.ended_at) as unknown_since
    from actionledger.attempts
    where attempts.action_key = actions.action_key and attempts.status = 'unresolved'
) as opened on true
where actions.status = 'unknown';
comment on view actionledger_api_v1.unknown_actions is 'Actions whose effect may have happened and is not proven either way.';
comment on column actionledger_api_v1.unknown_actions.tenant_id is 'Whose action it is.';
comment on column actionledger_api_v1.unknown_actions.action_key is 'The uncertain action.';
comment on column actionledger_api_v1.unknown_actions.target is 'What it acts on.';
comment on column actionledger_api_v1.unknown_actions.amount_minor is 'The amount in minor units of the currency.';
comment on column actionledger_api_v1.unknown_actions.currency is 'ISO 4217 code of the amount.';
comment on column actionledger_api_v1.unknown_actions.provider is 'Who was called.';
comment on column actionledger_api_v1.unknown_actions.account is 'The account at the provider.';
comment on column actionledger_api_v1.unknown_actions.attempts is 'Starts so far.';
comment on column actionledger_api_v1.unknown_actions.unknown_since is 'Log time at which the first of its open attempts lost its answer.';
comment on column actionledger_api_v1.unknown_actions.next_due_at is 'When the next lookup or attempt is due.';
comment on column actionledger_api_v1.unknown_actions.updated_at is 'Log time of its newest fact.';

create view actionledger_api_v1.review_cases as
select
    cases.tenant_id,
    cases.action_key,
    cases.version,
    cases.kind,
    cases.reason,
    cases.opened_at,
    cases.kind = 'alarm' or actions.status = 'needs_review' as is_open,
    actions.status,
    cases.partition,
    cases.ledger_offset
from actionledger.review_cases as cases
join actionledger.actions on actions.action_key = cases.action_key;
comment on view actionledger_api_v1.review_cases is 'Each time a person was asked for.';
comment on column actionledger_api_v1.review_cases.tenant_id is 'Whose action it is.';
comment on column actionledger_api_v1.review_cases.action_key is 'The action to look at.';
comment on column actionledger_api_v1.review_cases.version is 'Which fact of the action opened the case.';
comment on column actionledger_api_v1.review_cases.kind is 'review: the action waits for a person. alarm: it is final, and something contradicts that.';
comment on column actionledger_api_v1.review_cases.reason is 'Why a person is needed.';
comment on column actionledger_api_v1.review_cases.opened_at is 'Log time at which the case was opened.';
comment on column actionledger_api_v1.review_cases.is_open is 'Whether it still waits for a person.';
comment on column actionledger_api_v1.review_cases.status is 'How the action stands now.';
comment on column actionledger_api_v1.review_cases.partition is 'Partition of the ledger topic.';
comment on column actionledger_api_v1.review_cases.ledger_offset is 'Offset of the decision that opened the case.';

create view actionledger_api_v1.provider_references as
select
    tenant_id,
    provider,
    account,
    reference,
    action_key,
    seen_at,
    partition,
    ledger_offset
from actionledger.provider_references;
comment on view actionledger_api_v1.provider_references is 'By which of the provider''s names an action is known.';
comment on column actionledger_api_v1.provider_references.tenant_id is 'Whose action it is.';
comment on column actionledger_api_v1.provider_references.provider is 'Whose name it is.';
comment on column actionledger_api_v1.provider_references.account is 'The account at the provider.';
comment on column actionledger_api_v1.provider_references.reference is 'The name, such as ch_1.';
comment on column actionledger_api_v1.provider_references.action_key is 'The action known under it. Two actions under one name are a case for a person.';
comment on column actionledger_api_v1.provider_references.seen_at is 'Log time at which the ledger first heard the name for this action.';
comment on column actionledger_api_v1.provider_references.partition is 'Partition of the ledger topic.';
comment on column actionledger_api_v1.provider_references.ledger_offset is 'Offset of the decision that first held it.';

create view actionledger_api_v1.progress as
select
    partition,
    next_offset,
    decided_at,
    epoch,
    void_count,
    adopted_hash
from actionledger.projection_offsets;
comment on view actionledger_api_v1.progress is 'How far these views have read each partition of the ledger topic.';
comment on column actionledger_api_v1.progress.partition is 'Partition of the ledger topic.';
comment on column actionledger_api_v1.progress.next_offset is 'Everything below this offset is in the views.';
comment on column actionledger_api_v1.progress.decided_at is 'Log time of the newest decision in the views.';
comment on column actionledger_api_v1.progress.epoch is 'Epoch of the partition''s owner.';
comment on column actionledger_api_v1.progress.void_count is 'Records that an overtaken owner wrote and that count for nobody.';
comment on column actionledger_api_v1.progress.adopted_hash is 'Hash of the operation catalogue in force in the partition.';

-- migrate:down

drop schema actionledger_api_v1 cascade;
