-- What a webhook names may be as long as a text of the log, and a B-tree takes no entry of more than
-- 2,704 bytes: such a webhook was set aside as a fault of ours. As with references of actions, what
-- decides stands in its index as a hash, and what is looked for is found by a hash index.

-- migrate:up

drop index actionledger.webhooks_event;
create unique index webhooks_event on actionledger.webhooks (
    sha256(decode(replace(event_id, '\', '\\'), 'escape')), account, provider
)
    where classification in ('matched', 'parked');
create index webhooks_decided on actionledger.webhooks using hash (event_id)
    where classification in ('matched', 'parked');

drop index actionledger.webhooks_undecided;
create index webhooks_undecided on actionledger.webhooks using hash (event_id)
    where classification in ('unrecognised', 'duplicate');

drop index actionledger.webhooks_waiting;
create index webhooks_waiting on actionledger.webhooks using hash (reference)
    where classification = 'parked';

drop index actionledger.webhooks_claims;
create index webhooks_claims on actionledger.webhooks using hash (claimed_key)
    where classification = 'parked' and reason = 'orphan_effect' and claimed_key is not null;

-- migrate:down

drop index actionledger.webhooks_claims;
create index webhooks_claims on actionledger.webhooks (claimed_key)
    where classification = 'parked' and reason = 'orphan_effect' and claimed_key is not null;

drop index actionledger.webhooks_waiting;
create index webhooks_waiting on actionledger.webhooks (reference, account)
    where classification = 'parked';

drop index actionledger.webhooks_undecided;
create index webhooks_undecided on actionledger.webhooks (event_id, account, provider)
    where classification in ('unrecognised', 'duplicate');

drop index actionledger.webhooks_decided;
drop index actionledger.webhooks_event;
create unique index webhooks_event on actionledger.webhooks (event_id, account, provider)
    where classification in ('matched', 'parked');
