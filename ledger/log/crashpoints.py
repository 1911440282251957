"""Named places at which a test may end or freeze the process: the moments between which a crash has
different consequences.

`POINTS` is the one list: name, process, and what has and has not happened there. A test compares it
with the code both ways; `docs/decisions/0007-crash-points.md` says what is not a point, and why. A
point does nothing unless ACTIONLEDGER_CRASH_AT names it, as `NAME[:NTH][:freeze]`: at the NTH time
it is passed (the first by default) the process kills itself without a word, as a machine does that
loses power, or stops itself until somebody sends it SIGCONT, as one does that is suspended.

Not armed, a point is one comparison, 40 ns, and none is passed more than a few times an action.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple, TypeVar

_Answer = TypeVar("_Answer")


class Point(NamedTuple):
    """A place in the code of one process, and what stands and what does not when it is reached."""

    name: str
    process: str
    moment: str


POINTS: Final[tuple[Point, ...]] = (
    # An intent's way in.
    Point("intent_parsed", "gateway", "An intent is understood, and nothing of it is sent."),
    Point("intent_sent", "gateway", "An intent is on its way to the log, not acknowledged."),
    Point("intent_acked", "gateway", "An intent is durable, and its caller knows nothing."),
    Point("intent_decided", "gateway", "An intent has its decision, and its caller no answer."),
    # A person's decision on its way in. What is signed and not sent is on the person's machine.
    Point("judgement_read", "gateway", "A signature is proven, and nothing of it is sent."),
    Point("judgement_sent", "gateway", "A person's decision is on its way, not acknowledged."),
    Point("judgement_acked", "gateway", "A person's decision is durable; they know nothing of it."),
    Point("judgement_decided", "gateway", "It is known what a decision counts; its person waits."),
    # A webhook's way in.
    Point("webhook_read", "gateway", "A webhook's body is read and not believed yet."),
    Point("webhook_verified", "gateway", "A webhook is believed, and nothing of it is sent."),
    Point("webhook_sent", "gateway", "A webhook is on its way to the log, not acknowledged."),
    Point("webhook_acked", "gateway", "A webhook is in the log, and its sender has no answer."),
    # Becoming the owner of partitions, and ceasing to be.
    Point("partitions_assigned", "processor", "Partitions are given; nothing of them is read."),
    Point("checkpoint_read", "processor", "Where the tables stand is known; nothing is folded."),
    Point("ledger_half_read", "processor", "A part of a ledger partition is folded."),
    Point("barrier_sent", "processor", "An epoch's barrier is on its way, not acknowledged."),
    Point("barrier_acked", "processor", "An epoch is open, and nothing is decided in it."),
    Point("revoke_in_batch", "processor", "Partitions are asked back while a batch is at work."),
    Point("partitions_revoked", "processor", "Partitions are given up, inside the callback."),
    # Deciding.
    Point("inputs_read", "processor", "Inputs are fetched and not decided."),
    Point("cold_asked", "processor", "Streams that inputs need are asked for, not answered."),
    Point("cold_taken_in", "processor", "Streams that inputs need are held; nothing is decided."),
    Point("config_read", "processor", "A new configuration is read and nobody has adopted it."),
    Point("decisions_made", "processor", "Decisions are made and nothing of them is sent."),
    Point("quarantine_acked", "processor", "What is set aside is kept, its decision not sent."),
    Point("decisions_sent", "processor", "Decisions are on their way, not acknowledged."),
    Point("decisions_acked", "processor", "Decisions are in the log and not taken over."),
    Point("config_adopted", "processor", "A configuration is adopted in the log, not in memory."),
    Point("decisions_landed", "processor", "Decisions are the state; the next round is to come."),
    Point("messages_made", "processor", "Actions and gates have something to say; it is not sent."),
    Point("messages_sent", "processor", "What they say to each other is on its way, unanswered."),
    Point("messages_acked", "processor", "What they say is in the inbox, and nobody has decided."),
    Point("positions_shown", "processor", "Group offsets, which are a hint only, are committed."),
    Point("tick_sent", "processor", "A tick is on its way, not acknowledged."),
    Point("tick_acked", "processor", "A tick is written and not decided."),
    # Acting.
    Point("offer_sent", "executor", "An offer is on its way, not acknowledged."),
    Point("offer_spent", "executor", "The start that spends an offer is fetched, not taken in."),
    Point("connection_open", "executor", "The connection is open; the last check is to come."),
    Point("before_first_byte", "executor", "The last check has consented; no byte is sent."),
    Point("request_sent", "executor", "The whole request has left; no byte of an answer is in."),
    Point("answer_half_read", "executor", "The answer has begun and is not read to its end."),
    Point("answer_read", "executor", "The outcome is known here and nowhere else."),
    Point("report_sent", "executor", "The outcome is on its way to the log, not acknowledged."),
    Point("report_acked", "executor", "The outcome is durable; its slot is still taken."),
    Point("start_declined", "executor", "A start will not be acted on, and nobody is told."),
    Point("offers_withdrawn", "executor", "Asked to stop: offers are taken back, calls at work."),
    # Finding out.
    Point("lookup_taken", "inquirer", "A question to a provider is read and not put."),
    Point("lookup_asked", "inquirer", "A question is put and not answered."),
    Point("lookup_answered", "inquirer", "A question's answer is known here and nowhere else."),
    Point("evidence_sent", "inquirer", "Evidence is on its way to the log, not acknowledged."),
    Point("evidence_acked", "inquirer", "Evidence is durable; the position stays before it."),
    Point("attention_sent", "inquirer", "Notices are on their way, the position before them."),
    Point("sweep_evidence_acked", "inquirer", "A parked webhook's evidence is in, its row open."),
    Point("events_pulled", "inquirer", "Events that never came are in, the position before them."),
    Point("webhooks_taken", "reconciler", "Webhooks are read and not understood."),
    Point("webhook_evidence_acked", "reconciler", "Webhooks are evidence and have no row."),
    Point("webhook_rows_written", "reconciler", "Webhooks have rows and are not acknowledged."),
    # Projecting.
    Point("records_read", "projector", "Ledger records are read and not folded."),
    Point("offsets_claimed", "projector", "Offsets are moved, rows not written, none committed."),
    Point("rows_written", "projector", "Rows and offsets are written and not committed."),
    Point("batch_committed", "projector", "A batch is committed; memory does not know it."),
    # Bringing lines of settlement files and listings.
    Point("lines_sent", "import", "Lines are on their way to the log, not acknowledged."),
    Point("lines_acked", "import", "Lines are in the log; the rest of their file is not."),
    # Putting rebuilt tables in the place of the live ones.
    Point("rebuild_caught_up", "rebuild", "Rebuilt tables are level with the live ones, beside."),
    Point("tables_swapped", "rebuild", "Rebuilt tables are in their place and not committed."),
)

COMMANDS: Final = frozenset({"import", "rebuild"})
"""Not processes that run on but commands that end: their points have tests of their own."""

_SENT_SECONDS: Final = 0.001
"""Long enough for what was begun to leave this process, shorter than most answers take."""

_LOOK_SECONDS: Final = 0.01
_LOOKS: Final = 1_000
"""How often `crash_when` looks before it lets its caller go. Only in a process that is armed."""

_FREEZE: Final = "freeze"

_armed, *_how = os.environ.get("ACTIONLEDGER_CRASH_AT", "").split(":")
_left = next((int(word) for word in _how if word.isdecimal()), 1)
_signal = signal.SIGSTOP if _FREEZE in _how else signal.SIGKILL


def crash_point(name: str) -> None:
    """End or freeze the process here if this point is armed and was passed often enough."""
    if name == _armed:
        _pass()


def crash_while(name: str, begun: Coroutine[Any, Any, _Answer]) -> Coroutine[Any, Any, _Answer]:
    """The same coroutine; where the point is armed, one that ends or freezes the process after it
    was begun and before it is answered.
    """
    return begun if name != _armed else _begin_and_pass(begun)


async def crash_when(name: str, holds: Callable[[], bool]) -> None:
    """Where the point is armed, wait a while for its moment to come, and pass it then."""
    if name != _armed:
        return
    for _ in range(_LOOKS):
        if holds():
            _pass()
            break
        await asyncio.sleep(_LOOK_SECONDS)


async def _begin_and_pass(begun: Coroutine[Any, Any, _Answer]) -> _Answer:
    task = asyncio.ensure_future(begun)
    try:
        await asyncio.wait({task}, timeout=_SENT_SECONDS)
        _pass()
        return await task
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise


def _pass() -> None:
    global _left  # noqa: PLW0603 - one process, one armed point
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), _signal)
