"""Bounds of the processes around Faust and of the inquirer, and how they relate.

An event's deadline plus the commit before a revocation stay below half of the rebalance timeout, so
that one slow event never costs a member its place; the stall limit is above the event's deadline,
so that the agent's own word comes first.
"""

from typing import Final

SESSION_TIMEOUT_MS: Final = 15_000
HEARTBEAT_MS: Final = 3_000
REBALANCE_TIMEOUT_MS: Final = 60_000
POLL_INTERVAL_MS_MAX: Final = 600_000
"""A partition whose buffer is full is not polled: more than a full buffer of the slowest events."""

EVENT_DEADLINE_MS: Final = 20_000
"""How long an agent tries one batch of events again while something it needs is away."""

EVENT_BACKOFF_FIRST_MS: Final = 50
EVENT_BACKOFF_MAX_MS: Final = 2_000

COMMIT_BEFORE_REVOKE_MS: Final = 5_000

COMMIT_INTERVAL_MS: Final = 500
"""How much a crash repeats; every repeat is a source that the ledger knows already."""

STREAM_BUFFER_EVENTS_MAX: Final = 1_024
POLL_RECORDS_MAX: Final = 500

METADATA_AGE_MS_MAX: Final = 5_000
"""How old a group member's picture of the topics may be. Whoever shares partitions out while a
broker comes back may not see all topics yet and gives some to nobody; with the next picture that is
set right. Kafka's own 5 min would leave them unread for as long.
"""

READY_DEADLINE_MS: Final = 60_000
"""From the start of the app to membership of its group."""

STALLED_AFTER_MS: Final = 60_000
"""No event handled for so long while there are some: the process ends."""

STOP_DEADLINE_MS: Final = 20_000
"""From asking the app to stop to ending the process without its consent."""

EVENTS_AT_STOP_MS: Final = 1_000
"""How long events that are at work when the app is to stop may go on. What they wait for may be
away, and they are read again.
"""

BROKER_AT_STOP_MS: Final = 1_000
"""How long a stop waits for what it asks the broker for, such as the last commit, and then for a
broker that has let it wait. With the above, and with a producer that gives up what it has not sent,
less than what a process has to end in.
"""

THREAD_LOOK_MS: Final = 20
"""How often is looked whether the thread of a stopped consumer is over; for as long as a stop may
take.
"""

EVENTS_AT_ONCE_MAX: Final = 200
"""Events that an agent handles as one batch: two queries, one transaction, few appends."""

HANDED_OVER_AT_ONCE_MAX: Final = 100
"""Events that are handed to an agent before others have their turn."""

POLL_PAUSE_MS: Final = 5
"""Before more is asked for while an agent is at work: each time takes two hops between threads."""

FETCH_WAIT_MS: Final = 50
"""How long the broker keeps a fetch of a Faust app that finds nothing, and so how long what comes
to a partition may wait that the fetch has left out.
"""

FULL_LOOK_MS: Final = 20
"""How often is looked whether an agent that had more than enough has room again."""

ATTENTION_WINDOW_MS: Final = 3_600_000
ATTENTION_REMEMBERED_MAX: Final = 10_000
"""Notices whose ids are remembered, and that a window holds: more in an hour is one long alarm."""

SHOWN_EVERY_MS: Final = 3_000
"""How old the windows of a member may be for whoever watches; read as fresh for some times that."""

UNMATCHED_COUNTED_MS: Final = 30_000
"""How often is counted what waits in the tables: each time all of it is looked at."""

LOOKUPS_AT_ONCE_MAX: Final = 16
"""Questions at work at one time for one provider, so that finding out never looks like an attack.
Each provider has its own, so that none waits for another.
"""

LOOKUPS_WAITING_MAX: Final = 10_000
"""Questions of one partition that wait; while there are more its ledger is not read on."""

INTENTS_KEPT_MAX: Final = 256
"""Previews of one partition that wait with the intent they are about, of 64 KiB at most; behind so
many it is read from the ledger when its turn comes."""

LOOKUP_TIMEOUT_MS: Final = 10_000
"""How long a provider may take to answer one lookup."""

LOOKUP_GRACE_MS: Final = 1_000
"""What a finder may run over its own time before it is cut off."""

UNKNOWN_WATCHED_MAX: Final = 50_000
"""Uncertain actions of one partition whose settlement is told; older ones are in the read model."""

LEDGER_READ_MS: Final = 200
POSITIONS_SAVED_MS: Final = 1_000
"""How much of the ledger a restarted inquirer reads again, in time."""

SWEEP_MS: Final = 2_000
"""How often parked webhooks are looked at when nothing says that a reference became known."""

SWEEP_PAUSE_MS: Final = 200
"""Between two sweeps, however often the read model changes."""

SWEEP_REST: Final = 9
"""And at least so many times what the sweep before took, so that looking takes a tenth of the
database at most, however much is parked.
"""

LEDGER_ROUND_RECORDS_MAX: Final = 4_000
"""Ledger records that a follower takes in one round; most are skipped by their marks."""

STREAMS_HELD_MAX: Final = 12_000
"""Streams that one processor holds over all its partitions; one takes about 3 KiB. More only while
the projection is behind.
"""

STREAMS_HELD_BYTES_MAX: Final = 128 * 1_024 * 1_024
"""What those streams may take together, in bytes of their records: 8 KiB of each. Where intents are
long there are fewer.
"""

KEY_FILTER_BYTES: Final = 4 * 1_024 * 1_024
"""What the filters of all partitions of one processor take: three million keys at 10 bits each."""

KEYS_PAGE_MAX: Final = 4_000
"""Keys of all partitions that are read for filters at once; adding them takes 20 ms at most."""

KEYS_PAUSE_MS: Final = 50
"""Between two such pages, so that decisions hardly wait for them: a million keys in 15 s."""

DUE_AHEAD_MS: Final = 30_000
"""How far ahead timers of streams that are not held are known. Asked for again at half of it."""

DUE_PAGE_MAX: Final = 1_000
"""Timers read back at once, with their streams."""

DUE_HELD_MAX: Final = 5_000
"""No page is asked for while so many timers of one partition are known."""

READY_PAGE_MAX: Final = 1_000
"""Streams that wait for capacity read back at once, of one operation, while fewer than half as many
are known."""

AWAITING_HELD_MAX: Final = 10_000
"""Streams of one partition that are known to wait for capacity and are not held; others wait in the
projection.
"""

AWAITING_OPERATION_MIN: Final = READY_PAGE_MAX // 2
"""Of each operation so many are known although there are AWAITING_HELD_MAX: none hides another."""

COLD_PATIENCE_MS: Final = 100
"""How long a round waits for streams to be loaded, before it goes on without the inputs that need
them.
"""

COLD_STREAMS_AT_ONCE_MAX: Final = 500
"""Streams in one question to the database, and records that are folded at a start before the next
question: some 50 ms in which nobody else has a turn.
"""

WAITING_INPUTS_MAX: Final = 50_000
WAITING_BYTES_MAX: Final = 64 * 1_024 * 1_024
"""How many inputs of one processor wait in memory for streams that are not to be had, or behind
such, some 700 bytes each and what they say. At so many, or so much, nothing more is read of the
inboxes in which they wait; what is due by time waits in their partitions until there is room. As
many ticks, and what is behind them, wait for inboxes that are not read to their end yet; then
nothing more is read of `internal` in their partitions.
"""

WAITING_TRIED_MAX: Final = 2_000
"""How many that wait in one inbox have their turn in one round."""

WELL_AGAIN_MS: Final = 60_000
"""How long there has to be room for what waits before it is told anew that there is none."""

PASSED_OVER_MS: Final = 5_000
PASSED_OVER_MS_MAX: Final = 60_000
"""After how long a tick comes again that was passed over, where nothing calls it before: twice as
long each time, so that a database that is away for long is not told in thousands of records a
second; and so the timer of a stream that is there again comes this much late at most.
"""

DAMAGED_ASKED_MS: Final = 10_000
"""How long a stream whose rows lie is not asked for again."""

COLD_BACKOFF_MS_MIN: Final = 250
COLD_BACKOFF_MS_MAX: Final = 2_000
"""How long a database that did not answer is left alone."""

LET_GO_CHECK_MS: Final = 500
"""How often is looked after timers to read back and streams to let go of."""
