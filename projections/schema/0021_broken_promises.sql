-- Providers that do not keep what they promise: one key or reference, and more than one effect.

-- migrate:up

create view actionledger_api_v1.broken_promises with (security_invoker = true) as
select
    actions.tenant_id,
    actions.provider,
    actions.account,
    actions.operation,
    case actions.reliability when 'keyed' then 'keys' else 'references' end as promise,
    count(distinct actions.action_key) as actions,
    min(cases.opened_at) as first_seen,
    max(cases.opened_at) as last_seen
from actionledger.review_cases as cases
join actionledger.actions on actions.action_key = cases.action_key
where cases.reason = 'second_effect'
  and actions.reliability in ('keyed', 'reference')
group by
    actions.tenant_id, actions.provider, actions.account, actions.operation, actions.reliability;
comment on view actionledger_api_v1.broken_promises is 'Each promise of a provider that was seen broken: one key or reference had more than one effect.';
comment on column actionledger_api_v1.broken_promises.tenant_id is 'Whose actions showed it.';
comment on column actionledger_api_v1.broken_promises.provider is 'The provider.';
comment on column actionledger_api_v1.broken_promises.account is 'The account at it.';
comment on column actionledger_api_v1.broken_promises.operation is 'The operation whose effects came twice.';
comment on column actionledger_api_v1.broken_promises.promise is 'What it had promised. keys: one effect for a key. references: one effect for a reference.';
comment on column actionledger_api_v1.broken_promises.actions is 'How many actions had more than one effect.';
comment on column actionledger_api_v1.broken_promises.first_seen is 'Log time at which it was first seen.';
comment on column actionledger_api_v1.broken_promises.last_seen is 'Log time at which it was seen last.';

-- migrate:down

drop view actionledger_api_v1.broken_promises;
