-- What tells rows apart stands first in every index on webhooks. While a table grows since it was
-- last analysed, all its indexes cost the same to the planner, and one that begins with provider and
-- account was read for a whole account to find one event.

-- migrate:up

drop index actionledger.webhooks_event;
create unique index webhooks_event on actionledger.webhooks (event_id, account, provider)
    where classification in ('matched', 'parked');

drop index actionledger.webhooks_fact;
create unique index webhooks_fact on actionledger.webhooks (fact, account, provider)
    where classification in ('matched', 'parked');

drop index actionledger.webhooks_undecided;
create index webhooks_undecided on actionledger.webhooks (event_id, account, provider)
    where classification in ('unrecognised', 'duplicate');

drop index actionledger.webhooks_waiting;
create index webhooks_waiting on actionledger.webhooks (reference, account)
    where classification = 'parked';

-- migrate:down

drop index actionledger.webhooks_waiting;
create index webhooks_waiting on actionledger.webhooks (account, reference)
    where classification = 'parked';

drop index actionledger.webhooks_undecided;
create index webhooks_undecided on actionledger.webhooks (provider, account, event_id)
    where classification in ('unrecognised', 'duplicate');

drop index actionledger.webhooks_fact;
create unique index webhooks_fact on actionledger.webhooks (provider, account, fact)
    where classification in ('matched', 'parked');

drop index actionledger.webhooks_event;
create unique index webhooks_event on actionledger.webhooks (provider, account, event_id)
    where classification in ('matched', 'parked');
