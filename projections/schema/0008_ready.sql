-- What an owner of a partition reads back when it has let go of it: who waits for capacity.

-- migrate:up

-- In the order in which they came to wait. Holds only what waits: most actions never stand here,
-- because they start in the decision that records them.
create index actions_ready on actionledger.actions (ledger_partition, updated_at)
    where status = 'ready';

-- migrate:down

drop index actionledger.actions_ready;
