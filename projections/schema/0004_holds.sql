-- Holds in force, as each partition has adopted them: what operators keep from starting.

-- migrate:up

-- Beside the catalogue in force, because it is configuration like that: an owner's decisions follow
-- from both. At most a hundred or so, in the order in which they were given.
alter table actionledger.projection_offsets add column holds json not null default '[]';

create view actionledger_api_v1.holds as
select
    hold -> 'scope' ->> 'provider' as provider,
    hold -> 'scope' ->> 'tenant' as tenant_id,
    hold -> 'scope' ->> 'operation' as operation,
    hold ->> 'by' as held_by,
    hold ->> 'reason' as reason,
    timestamptz 'epoch' + min((hold ->> 'since')::bigint) * interval '1 millisecond' as since,
    count(*) as partitions,
    (hold ->> 'offset')::bigint as config_offset
from actionledger.projection_offsets, json_array_elements(holds) as held (hold)
group by 1, 2, 3, 4, 5, 8;
comment on view actionledger_api_v1.holds is 'What operators keep from starting. An action starts only when no hold covers it.';
comment on column actionledger_api_v1.holds.provider is 'Only actions at this provider. Null where any is meant.';
comment on column actionledger_api_v1.holds.tenant_id is 'Only actions of this tenant. Null where any is meant.';
comment on column actionledger_api_v1.holds.operation is 'Only this operation, in every version. Null where any is meant.';
comment on column actionledger_api_v1.holds.held_by is 'The operator who gave the hold.';
comment on column actionledger_api_v1.holds.reason is 'Why, in the operator''s words.';
comment on column actionledger_api_v1.holds.since is 'Log time at which the first partition adopted it.';
comment on column actionledger_api_v1.holds.partitions is 'In how many partitions it is in force.';
comment on column actionledger_api_v1.holds.config_offset is 'Offset of the hold on the config topic.';

do $$
begin
    grant select on actionledger_api_v1.holds to actionledger_analyst;
exception
    when undefined_object then
        raise notice 'role actionledger_analyst is not there';
end
$$;

-- migrate:down

drop view actionledger_api_v1.holds;
alter table actionledger.projection_offsets drop column holds;
