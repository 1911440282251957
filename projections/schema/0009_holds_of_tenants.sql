-- Holds as an analyst may see them: those of no tenant in particular, and those of the tenants that
-- the login was given. Row-level security cannot say it, because all holds of a partition are one
-- value in one row; so the view does.

-- migrate:up

create or replace view actionledger_api_v1.holds with (security_invoker = true) as
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
where hold -> 'scope' ->> 'tenant' is null
   or exists (
       select
       from actionledger_access.analyst_tenants as granted
       where granted.role_name = current_user
         and granted.tenant_id = hold -> 'scope' ->> 'tenant'
   )
   -- Whoever is no analyst reads the table too, so hiding it here would hide nothing.
   or not exists (
       select
       from pg_roles as analyst, pg_roles as reader
       where analyst.rolname = 'actionledger_analyst'
         and reader.rolname = current_user
         and pg_has_role(reader.oid, analyst.oid, 'usage')
         and not reader.rolsuper
   )
group by 1, 2, 3, 4, 5, 8;

-- migrate:down

create or replace view actionledger_api_v1.holds with (security_invoker = true) as
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
