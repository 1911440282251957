-- Which login of an analyst reads which tenants.
--
-- Outside the schema of the read models, because it does not follow from the log: a rebuild leaves
-- it alone, and every schema of this database asks the same rows. Only the owner writes it. A login
-- is found by its own name, which no setting of a session changes; who is not here sees no row.
-- Rights and row-level security, here and on every other table, are declared in
-- `projections.roles` and brought in by the same step that applies these files.

-- migrate:up

create schema if not exists actionledger_access;
comment on schema actionledger_access is
    'Who may see what in the action ledger. Written by its owner.';

create table if not exists actionledger_access.analyst_tenants (
    role_name name not null,
    tenant_id text not null,
    constraint analyst_tenants_grant primary key (role_name, tenant_id)
);

-- migrate:down

drop schema actionledger_access cascade;
