-- What people have signed to settle cases, and with it whether a case still waits.

-- migrate:up

-- One row each time a case was settled. A row of its own, not columns of the case: what opened a
-- case never changes, and everything of the action that was open until then is settled with it.
create table actionledger.review_resolutions (
    action_key    text        not null,
    version       bigint      not null,
    tenant_id     text        not null,
    -- The fact that opened the case, as the person was shown it.
    case_version  bigint      not null,
    move          text        not null,
    person        text        not null,
    key_id        text        not null,
    reference     text,
    comment       text        not null,
    signed        json        not null,
    resolved_at   timestamptz not null,
    partition     integer     not null,
    ledger_offset bigint      not null,
    constraint review_resolutions_fact primary key (action_key, version)
);

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
comment on column actionledger_api_v1.review_cases.is_open is 'Whether it still waits for a person. Evidence may settle a case too: then nobody has signed anything, and this is false.';
comment on column actionledger_api_v1.review_cases.resolved_at is 'Log time at which a person settled it. Null while nobody has.';
comment on column actionledger_api_v1.review_cases.move is 'What they said: effect_exists, no_effect, try_again, look_again or acknowledge.';
comment on column actionledger_api_v1.review_cases.person is 'Who signed.';
comment on column actionledger_api_v1.review_cases.key_id is 'With which of their keys.';
comment on column actionledger_api_v1.review_cases.reference is 'The name that the effect has at the provider, as they gave it. Null where they gave none.';
comment on column actionledger_api_v1.review_cases.comment is 'What they said about it, in their words.';
comment on column actionledger_api_v1.review_cases.signed is 'The resolution with its proof, as it was given: anybody can verify it again.';

-- migrate:down

drop view actionledger_api_v1.review_cases;
create view actionledger_api_v1.review_cases with (security_invoker = true) as
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
drop table actionledger.review_resolutions;
