-- What people are shown, what they were asked, and what each of them has signed.

-- migrate:up

-- One row each time a dry run is there to be shown.
create table actionledger.previews (
    action_key    text        not null,
    version       bigint      not null,
    tenant_id     text        not null,
    preview_hash  text        not null,
    content       json        not null,
    recorded_at   timestamptz not null,
    partition     integer     not null,
    ledger_offset bigint      not null,
    constraint previews_fact primary key (action_key, version)
);

-- One row each time people are asked. What was asked never changes; who may answer, how many have
-- agreed and how it ended do.
create table actionledger.approvals (
    action_key    text        not null,
    -- Which time they were asked, from 1: every round has a nonce of its own.
    round         bigint      not null,
    tenant_id     text        not null,
    nonce         text        not null,
    requested_at  timestamptz not null,
    expires_at    timestamptz not null,
    policy_hash   text        not null,
    policy_row    text        not null,
    preview_hash  text        not null,
    quorum        bigint      not null,
    -- Empty: anybody who is registered for the tenant.
    groups        text[]      not null,
    escalate_at   timestamptz,
    granted       bigint      not null,
    ended         text,
    ended_at      timestamptz,
    partition     integer     not null,
    ledger_offset bigint      not null,
    constraint approvals_round primary key (action_key, round),
    constraint approvals_ended check ((ended is null) = (ended_at is null))
)
with (fillfactor = 80);

-- One row each time a person has signed something that counted, with what they signed.
create table actionledger.approval_decisions (
    action_key    text        not null,
    version       bigint      not null,
    tenant_id     text        not null,
    round         bigint      not null,
    nonce         text        not null,
    decision      text        not null,
    person        text        not null,
    key_id        text,
    comment       text,
    signed        json        not null,
    decided_at    timestamptz not null,
    partition     integer     not null,
    ledger_offset bigint      not null,
    constraint approval_decisions_fact primary key (action_key, version),
    constraint approval_decisions_kind check (decision in ('approve', 'deny', 'withdraw'))
);

-- What waits for people; oldest news first. Few rows, looked at all day.
create index actions_waiting on actionledger.actions (updated_at)
    where status = 'awaiting_approval';

create view actionledger_api_v1.approvals with (security_invoker = true) as
select
    asked.tenant_id,
    asked.action_key,
    asked.round,
    case
        when asked.ended is not null then asked.ended
        when asked.granted >= asked.quorum then 'granted'
        when actions.status = 'awaiting_approval' then 'waiting'
        else actions.status
    end as outcome,
    asked.requested_at,
    asked.expires_at,
    asked.ended_at,
    asked.quorum,
    asked.granted,
    asked.groups,
    asked.escalate_at,
    asked.policy_row,
    asked.policy_hash,
    shown.content as preview,
    asked.preview_hash,
    asked.nonce,
    asked.partition,
    asked.ledger_offset
from actionledger.approvals as asked
join actionledger.actions on actions.action_key = asked.action_key
left join lateral (
    select previews.content
    from actionledger.previews
    where previews.action_key = asked.action_key and previews.preview_hash = asked.preview_hash
    order by previews.version desc
    limit 1
) as shown on true;
comment on view actionledger_api_v1.approvals is 'Each time people were asked about an action, and what came of it.';
comment on column actionledger_api_v1.approvals.tenant_id is 'Whose action it is.';
comment on column actionledger_api_v1.approvals.action_key is 'The action that they were asked about.';
comment on column actionledger_api_v1.approvals.round is 'Which time they were asked, from 1.';
comment on column actionledger_api_v1.approvals.outcome is 'waiting, granted, denied, expired, volatile_changed (what was shown no longer holds), policy_changed, signer_revoked; or how the action ended before anybody decided, such as cancelled. Expired is no denial.';
comment on column actionledger_api_v1.approvals.requested_at is 'Log time at which they were asked.';
comment on column actionledger_api_v1.approvals.expires_at is 'Until when they could answer.';
comment on column actionledger_api_v1.approvals.ended_at is 'Log time at which it was over without a start. Null while it stands, and where the action went ahead.';
comment on column actionledger_api_v1.approvals.quorum is 'How many people have to agree.';
comment on column actionledger_api_v1.approvals.granted is 'How many have agreed and not taken it back.';
comment on column actionledger_api_v1.approvals.groups is 'Groups whose members may decide, those escalated to included. Empty: anybody who is registered for the tenant.';
comment on column actionledger_api_v1.approvals.escalate_at is 'When further groups may decide too. Null where there are none, and once they may.';
comment on column actionledger_api_v1.approvals.policy_row is 'The row of the policy for which they were asked.';
comment on column actionledger_api_v1.approvals.policy_hash is 'Hash of that policy.';
comment on column actionledger_api_v1.approvals.preview is 'The dry run that they were shown.';
comment on column actionledger_api_v1.approvals.preview_hash is 'Its hash, which each of them signed.';
comment on column actionledger_api_v1.approvals.nonce is 'What a decision had to name to count in this round.';
comment on column actionledger_api_v1.approvals.partition is 'Partition of the ledger topic.';
comment on column actionledger_api_v1.approvals.ledger_offset is 'Offset of the newest decision about this round.';

create view actionledger_api_v1.approval_decisions with (security_invoker = true) as
select
    tenant_id,
    action_key,
    version,
    round,
    decision,
    person,
    key_id,
    comment,
    signed,
    nonce,
    decided_at,
    partition,
    ledger_offset
from actionledger.approval_decisions;
comment on view actionledger_api_v1.approval_decisions is 'Each decision of a person that counted, with what they signed.';
comment on column actionledger_api_v1.approval_decisions.tenant_id is 'Whose action it is about.';
comment on column actionledger_api_v1.approval_decisions.action_key is 'The action that they decided about.';
comment on column actionledger_api_v1.approval_decisions.version is 'Which fact of the action it is.';
comment on column actionledger_api_v1.approval_decisions.round is 'Which time they had been asked.';
comment on column actionledger_api_v1.approval_decisions.decision is 'approve, deny, or withdraw: an earlier approval taken back.';
comment on column actionledger_api_v1.approval_decisions.person is 'Who signed.';
comment on column actionledger_api_v1.approval_decisions.key_id is 'With which of their keys. Null where they took something back.';
comment on column actionledger_api_v1.approval_decisions.comment is 'What they said about it, in their words.';
comment on column actionledger_api_v1.approval_decisions.signed is 'The statement with its proof, as it was given: anybody can verify it again.';
comment on column actionledger_api_v1.approval_decisions.nonce is 'Which request it answers.';
comment on column actionledger_api_v1.approval_decisions.decided_at is 'Log time at which it counted.';
comment on column actionledger_api_v1.approval_decisions.partition is 'Partition of the ledger topic.';
comment on column actionledger_api_v1.approval_decisions.ledger_offset is 'Offset of the decision that counted it.';

-- migrate:down

drop view actionledger_api_v1.approval_decisions;
drop view actionledger_api_v1.approvals;
drop index actionledger.actions_waiting;
drop table actionledger.approval_decisions;
drop table actionledger.approvals;
drop table actionledger.previews;
