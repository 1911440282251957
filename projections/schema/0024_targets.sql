-- Actions by what they act on, for webhooks that say what they are about. A target never changes, so
-- that a change of status leaves the index alone.

-- migrate:up

create index actions_target on actionledger.actions (target, account, amount_minor)
    where target is not null;

-- migrate:down

drop index actionledger.actions_target;
