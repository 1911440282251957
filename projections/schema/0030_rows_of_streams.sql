-- Whether a stream that has no row has actions: then somebody deleted the row, and its owner took the
-- stream for new and made every effect of it a second time. With the partition behind the key, pages
-- of keys are read from the index alone; neither column ever changes.

-- migrate:up

create index actions_stream on actionledger.actions (stream_key, ledger_partition);

-- migrate:down

drop index actionledger.actions_stream;
