-- Who waits for capacity is read back operation by operation: a hundred thousand that wait for an
-- operation which nobody offers stood before everybody else of their partition.

-- migrate:up

drop index actionledger.actions_ready;
create index actions_ready on actionledger.actions (
    ledger_partition, operation, updated_at, stream_key collate "C"
)
    where status = 'ready';

-- migrate:down

drop index actionledger.actions_ready;
create index actions_ready on actionledger.actions (ledger_partition, updated_at)
    where status = 'ready';
