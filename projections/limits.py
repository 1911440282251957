"""Every maximum of the read side in one place, and how they relate."""

SCHEMA_NAME_CHARS_MAX = 40
"""With `_api_v1` behind it a schema's name stays below the 63 bytes that Postgres keeps."""

MIGRATION_LOCK_MS_MAX = 60_000
"""How long one process waits for another that is migrating the same schema."""

BATCH_RECORDS_MAX = 4_000
"""Ledger records in one transaction: some twenty thousand rows, a third of a second. Who is behind
writes an action once whose start and end are in one batch."""

BATCH_BYTES_MAX = 8 * 1_024 * 1_024
"""What the records of one transaction take together, in bytes, and a slice more: twice what so many
take whose texts are short. Two batches are under way, and their rows take about as much again."""

SLICE_RECORDS_MAX = 20
"""Records read and folded in one go, before the batch that is being written may take its next step.
So few that what is read is folded before the memory it took has gone cold: a tenth faster."""

SLICE_BYTES_MAX = 256 * 1_024
"""Where records are large a slice has no more of them than that, and one at least."""

COMMIT_EVERY_MS = 100
"""How long after the last commit records are gathered for the next, where they come one by one: a
commit costs what thirty records do. The first after a pause is written at once."""

STREAMS_HELD_MAX = 16_000
"""Folded streams that a projector keeps in memory, some 4 KiB each; those that are settled leave it
with the commit. At least what the two batches under way can touch, so that eviction always finds a
stream that is already written."""

STREAMS_HELD_BYTES_MAX = 128 * 1_024 * 1_024
"""What those streams may take together, in bytes of their states: 8 KiB of each. Where intents are
long there are fewer; those of the two batches under way are held in any case, and not counted."""

READ_WAIT_MS = 250
"""How long a read of the log waits for records, and so how late a stop is noticed."""

DATABASE_TRIES_MAX = 30
"""Failures in a row of the database before a projector gives up and its process ends."""

DATABASE_WAIT_MS_MIN = 100
"""The first wait after a failure of the database; it doubles."""

DATABASE_WAIT_MS_MAX = 5_000
"""Waits grow to this, so that the tries together take two minutes: a restart or a failover."""

DATABASE_CALL_MS_MAX = 60_000
"""One statement or COPY of a batch. Behind it another writer holds the rows, or nothing answers."""

WRITER_FROZEN_MS_MAX = 5_000
"""A writer that does nothing in a transaction for so long is frozen: Postgres ends its connection,
or its claims would keep every other projector from beginning for as long as it is."""

ROWS_READ_MAX = 1_000
"""Rows in one answer of a query for a list."""

ACTION_FACTS_MAX = 10_000
"""Facts of which one action is folded for whoever looks at it whole: more than any can have."""

STREAMS_ASKED_MAX = 50_000
"""Keys in one query for cold states: those of one batch of any size that is used."""

DAMAGED_LOOK_MS = 10_000
"""How long a partition waits before it is seen whether damaged rows of a stream were made anew."""

DAMAGED_TOLD_MAX = 10_000
"""Streams with damaged rows of which is kept that they were told."""

FOLDED_AGAIN_MAX = 1_000
"""Actions whose facts are read in one query, where another version of the fold wrote their rows."""

FACTS_AT_ONCE_MAX = 500
"""Facts of such a query that are folded before others have their turn: some 10 ms."""

COLD_CALL_MS_MAX = 2_000
"""One question of an owner for streams it does not hold. What needs them waits, other inputs wait
with them for a fraction of this, and then go on. Folding again what another version wrote may take
longer, and is never begun anew for that.
"""

CATCH_UP_ROUNDS_MAX = 5
"""How often a rebuild that found a difference tries to stand exactly where the live schema does."""

SWAP_LAG_RECORDS_MAX = 1_000
"""So close behind the live tables a rebuild stops their writer for the rest: some hundredths of a
second of folding, and the time that it takes to open a reader."""

SWAP_WRITER_MS_MAX = 10_000
"""How long a swap waits for the batch that is being written. No reader waits behind it for that."""

SWAP_LOCK_MS_MAX = 500
"""How long a swap waits for whoever reads a table. Others wait behind it meanwhile, and Postgres
would search for deadlocks after a second, and might end them."""

SWAP_FROZEN_MS_MAX = 30_000
"""After so long without a word from the one who swaps, Postgres undoes the swap. Below the time
that the projector gives its statements, so that it notices a wait and no more."""

SWAP_TRIES_MAX = 120
"""Tries to get hold of all tables; with the pauses they outlast the longest query of an analyst."""

SWAP_PAUSE_MS = 1_000
"""Between two tries, so that readers pass."""

DIFFERING_ROWS_MAX = 5
"""Rows of one table that a comparison shows; the digests say whether there are more."""

GENESIS_WAIT_MS_MAX = 30_000
"""How long the first records of all partitions may take to be read at a start."""

SAGAS_READ_MAX = 50
"""Sagas of one list: each is folded from everything that was recorded of its business event."""
