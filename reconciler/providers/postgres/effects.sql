-- The table that makes a change of rows happen once: create it in the database that the adapter
-- `postgres` changes, as its owner. The adapter inserts one row here in the same transaction as the
-- change, and never updates or deletes any.
--
-- The role that acts needs INSERT and SELECT here beside its rights on your own tables; the role
-- that looks up needs SELECT here and nothing else.
--
-- Rows older than `key_window_ms` of the description may be deleted by whoever keeps the database,
-- never younger ones: a key that is forgotten is a second effect.
create table actionledger_effects (
    -- What the ledger calls the one effect. The primary key is what the promise rests on: of two
    -- transactions with the same key only one can commit.
    provider_key text primary key,
    action_key text not null,
    -- Of the whole request: the same key with another one is refused instead of answered.
    request_hash text not null,
    account text not null,
    operation text not null,
    reference text not null,
    amount_minor bigint,
    currency text,
    -- What the change returned, as JSON text: it is given again as it was.
    result text not null,
    -- By the database's clock just before the commit, in the milliseconds that are listed.
    committed_at timestamptz (3) not null
        default date_trunc('milliseconds', clock_timestamp()),
    check ((amount_minor is null) = (currency is null))
);

-- An effect is looked up by its marker, and by the reference that somebody else names.
create index actionledger_effects_by_action on actionledger_effects (account, action_key);
create index actionledger_effects_by_reference on actionledger_effects (account, reference);
-- The list of an account's effects, oldest first, read by pages.
create index actionledger_effects_by_time
    on actionledger_effects (account, committed_at, provider_key);
