-- A webhook may bear nothing of ours but the key that the provider was given, and where that has to be
-- shorter than the action's key it is no action's name: it is looked for among the attempts. A key
-- that is the action's own is not, so most attempts stand in no index.

-- migrate:up

create index attempts_provider_key on actionledger.attempts using hash (provider_key)
    where provider_key <> action_key;

-- migrate:down

drop index actionledger.attempts_provider_key;
