"""Every maximum of the HTTP door, and how they relate.

A body is bounded in bytes and in time before anything reads it; whoever waits is bounded in time
and in number, so that waiting callers never keep new intents out. A stopping process ends every
wait within one slice.
"""

from typing import Final

BODY_MS_MAX: Final = 10_000
"""From the head of a request to the last byte of its body; slower senders are sent away."""

BODY_HELD_BYTES: Final = 64 * 1_024
"""What the server takes of the body of any request before somebody reads it."""

BODY_PACE_AFTER_MS: Final = 2_000
"""After so long a body that holds a place others wait for has to be on its way to being whole in
BODY_MS_MAX: one of which less than half is there of what would be by then gives its place up.
"""

CANCEL_BYTES_MAX: Final = 4 * 1_024
"""The body of a cancellation holds a reason and nothing else."""

JUDGEMENT_BYTES_MAX: Final = 96 * 1_024
"""The body of a person's decision: a key and a signature, the largest of five parts of 16 KiB."""

JUDGEMENTS_IN_FLIGHT_MAX: Final = 64
"""Decisions of people between their last byte and their answer. Nobody has to log in to send one,
so what strangers send may take no more of the door than this. A body that is still on its way takes
no place: strangers that send slowly would have them all."""

JUDGEMENTS_A_MINUTE_MAX: Final = 60
"""Proven decisions of one person in a minute: faster than anybody looks at what they sign."""

REPEATS_A_MINUTE_MAX: Final = 20
"""The very same decision in a minute: more than any client tries again whose answer was lost."""

JUDGEMENTS_COUNTED_MAX: Final = 100_000
"""Decisions that are told apart: more than people can make in a minute."""

SIGNERS_COUNTED_MAX: Final = 10_000
"""People whose decisions are counted at a time; there are fewer."""

SHEETS_MAX: Final = 200
"""What waits in one list, the oldest; whoever works it off sees the next."""

DECISION_MS_MAX: Final = 8_000
"""From a durable intent to its decision; without one by then the answer says that it is durable."""

ASK_MS_MAX: Final = 12_000
"""From a request to any answer of the ledger. Above a decision's time, so that a slow append alone
leaves room for it; beyond this it is not known whether the intent was recorded.
"""

WAIT_MS_MAX: Final = 30_000
"""The longest that one request waits for an action to move; below the patience of proxies."""

OFFER_MS_MAX: Final = 60_000
"""The longest that a caller offers to perform its own action: it has to wait as long."""

WAIT_SLICE_MS: Final = 1_000
"""A wait is made of slices of this length, and a stopping process ends it between two."""

READ_AGAIN_MS: Final = 500
"""How often a waiting request asks the read model about an action that nobody follows in memory."""

WAITERS_MAX: Final = 10_000
"""Requests that wait for an action to move; one more is answered at once with what is known."""

REPEAT_LINE_SECONDS: Final = 10.0
"""Between two log lines that a stranger can cause as often as he likes: six a minute of a kind."""

KINDS_TOLD_MAX: Final = 1_024
"""Kinds of such lines that are told apart; more in one while are told as one kind."""

WEBHOOK_BYTES_IN_FLIGHT_MAX: Final = 128 * 1_024 * 1_024
"""Bodies of webhooks between their last byte and their acknowledgement, each counted as
BODY_HELD_BYTES at least: 2,048 webhooks as they mostly are, which a door appends in a second or two
and so within WEBHOOK_APPEND_MS_MAX, or 128 of the largest. What is held of one meanwhile is its
record, a third larger, and the producer's copy of that: up to 350 MiB of memory. Strangers that
send slowly take no room of these.
"""

WEBHOOKS_ARRIVING_MAX: Final = 64
"""Webhooks on their way whose bodies are larger than what the server holds of any: 64 MiB more. One
that is far behind gives its place to the next, see BODY_PACE_AFTER_MS.
"""

WEBHOOK_APPEND_MS_MAX: Final = 8_000
"""From a verified webhook to its acknowledgement; providers give up after about ten seconds."""

CHECK_MS_MAX: Final = 2_000
"""One check of readiness."""

LOOKED_S_MIN: Final = 5.0
"""Between two questions to the read model for metrics, however often those are read."""

READ_MS_MAX: Final = 2_000
"""One question to the read model."""

NAMES_COMPARED_MAX: Final = 200
"""Names of operations that a misspelt one is compared with: some milliseconds at most."""

VERSIONS_NAMED_MAX: Final = 5
"""Versions of an operation, the newest, that an answer names."""

RUN_ACTIONS_MAX: Final = 1_000
"""Actions of a run, and windows of ceilings, that one question reads."""

SAGAS_LISTED_MAX: Final = 50
"""Sagas of one list, the newest: each is folded from everything that was recorded of it."""

TIMELINE_ENTRIES_MAX: Final = 1_000
"""Entries of one timeline; an action with more is looked at in the log."""

REQUESTS_IN_FLIGHT_MAX: Final = 20_000
"""Open requests of the process: twice the waiters, so that waiting alone cannot fill it."""

CONNECTIONS_MAX: Final = 25_000
"""Open connections, idle ones included: above the requests, so that ours is the answer to those."""

STOP_S_MAX: Final = 5
"""A stopping process gives open requests this long, below the deadline of the process itself. Who
is cut off asks another one again, with the same key.
"""

RETRY_AFTER_S: Final = 1
"""What a caller is told to wait before it asks again."""
