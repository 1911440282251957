-- The role that analysts log in with: reads the versioned views and nothing else, never for long.
--
-- It has no password until an operator gives it one, so nobody can log in with it before. Roles
-- belong to the whole server: where this connection may not make one, or another database has made
-- it already, what can be done is done and the rest is said in a notice. Its settings are those of
-- this database alone.

-- migrate:up

do $$
begin
    if not exists (select from pg_roles where rolname = 'actionledger_analyst') then
        create role actionledger_analyst login connection limit 16;
    end if;
exception
    -- The second and third are two databases on one server doing this at the same moment.
    when insufficient_privilege or duplicate_object or unique_violation then
        raise notice 'role actionledger_analyst: %', sqlerrm;
end
$$;

do $$
begin
    execute format(
        'alter role actionledger_analyst in database %I set default_transaction_read_only = on',
        current_database()
    );
    execute format(
        'alter role actionledger_analyst in database %I set statement_timeout = ''30s''',
        current_database()
    );
    execute format(
        'alter role actionledger_analyst in database %I'
        ' set idle_in_transaction_session_timeout = ''60s''',
        current_database()
    );
exception
    when insufficient_privilege or undefined_object then
        raise notice 'settings of role actionledger_analyst: %', sqlerrm;
end
$$;

do $$
begin
    grant usage on schema actionledger_api_v1 to actionledger_analyst;
    grant select on all tables in schema actionledger_api_v1 to actionledger_analyst;
exception
    when undefined_object then
        raise notice 'role actionledger_analyst is not there: grant it usage on the schema and'
            ' select on its views once it is';
end
$$;

-- migrate:down

do $$
begin
    revoke all on all tables in schema actionledger_api_v1 from actionledger_analyst;
    revoke all on schema actionledger_api_v1 from actionledger_analyst;
exception
    when undefined_object then
        raise notice 'role actionledger_analyst is not there';
end
$$;
