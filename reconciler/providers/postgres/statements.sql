-- What the adapter `postgres` says around the statement of an operation. Each stands behind its
-- name; the word actionledger_effects is replaced by the table that the description names.

-- name: check_table
-- Whether the table is there with the column that the promise rests on as its whole primary key.
-- Asked once on each connection: without it the same key twice would be two effects.
select count(*) = 1
from pg_index as i
join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
where i.indrelid = to_regclass('actionledger_effects')
  and i.indisprimary and i.indnkeyatts = 1 and a.attname = 'provider_key';

-- name: bound
-- Nothing of this transaction outlives the call's deadline by itself: no wait for a lock, no
-- statement, and no transaction whose client has gone.
select
    set_config('lock_timeout', $1, true),
    set_config('statement_timeout', $1, true),
    set_config('idle_in_transaction_session_timeout', $1, true);

-- name: hold_key
-- One transaction a key: who comes second waits here, and then reads what the first one did.
-- The lock ends with the transaction, whichever way it ends.
select pg_advisory_xact_lock(hashtextextended($1, 6160438));

-- name: key_is_free
-- Whether no transaction with this key is under way; where one is, absence proves nothing.
select pg_try_advisory_xact_lock(hashtextextended($1, 6160438));

-- name: effect_of_key
select action_key, request_hash, account, reference, result
from actionledger_effects
where provider_key = $1;

-- name: record_effect
-- A conflict is not ignored: it ends the transaction, and the change with it.
insert into actionledger_effects (
    provider_key, action_key, request_hash, account, operation, reference,
    amount_minor, currency, result
)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: now
-- A standby may be behind, so that absence there proves nothing.
select
    pg_is_in_recovery() as is_standby,
    (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms;

-- name: effects_of_action
-- By the key and by the marker; by the reference on its own, to see whose it is.
select provider_key, action_key, reference, amount_minor, currency, result
from actionledger_effects
where account = $1 and (provider_key = $2 or action_key = $3)
order by committed_at, provider_key
limit $4;

-- name: effect_of_reference
select action_key
from actionledger_effects
where account = $1 and reference = $2
limit 1;

-- name: list_effects
-- One page, after the place where the last one ended.
select
    provider_key, action_key, request_hash, account, operation, reference, amount_minor, currency,
    (extract(epoch from committed_at) * 1000)::bigint as committed_ms
from actionledger_effects
where account = $1
  and (committed_at, provider_key) > (timestamptz 'epoch' + $2 * interval '1 millisecond', $3)
order by committed_at, provider_key
limit $4;
