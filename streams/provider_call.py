"""One call for one start, from the last checks to what the ledger is told of it.

In order: what people saw is read again, the adapter opens its connection, the last check consents
between the open connection and the first byte, and the call ends by a hard deadline. Guarantees
that nothing is told that is not known: without the last check's consent nothing was sent, after it
only the provider's answer proves anything. Whatever an adapter does (raises, asks twice, never
returns) becomes a report or a decline here. Called by the executor, once for every start.
"""

import asyncio
import hashlib
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from pydantic import JsonValue
from pydantic_core import to_json

from ledger.core import inputs as i
from ledger.core.facts import AttemptStarted, IntentRecorded, PreviewStarted
from ledger.core.limits import TEXT_CHARS_MAX
from ledger.core.operation import Operation
from ledger.core.preview import moved
from ledger.core.request import RecordedRequest, normal_params
from ledger.core.strict_json import MalformedJson, parse
from ledger.log.crashpoints import crash_point
from reconciler.providers import port
from reconciler.providers.limits import ANSWER_BYTES_MAX
from streams.assignments import Assignment, objection, untimely
from streams.clock import mono_ms

logger = logging.getLogger("actionledger")

HARD_STOP_GRACE_MS = 250
"""How far a call may run over its own deadlines before it is cut off and counted as unresolved."""

RECHECK_FAILED = "recheck_failed:"
"""Before the code of what kept the volatile facts from being read again."""


@dataclass(slots=True)
class _LastCheck:
    """Asked with the connection open and no byte sent. It consents once, and never after `close`:
    what an adapter left running, in a thread or a task of its own, may not send any more.
    """

    assignment: Assignment
    request: RecordedRequest
    margin_ms: int
    refuses: Callable[[], str | None]
    is_request_known: bool = False
    has_passed: bool = False
    was_asked_again: bool = False
    is_closed: bool = False
    # Adapters may ask from threads: whoever asks has consented before it is closed, or has not.
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self) -> None:
        """Raise `Declined` where the holder must not send now."""
        with self.lock:
            if self.is_closed:
                raise port.Declined("call_over")
            if self.has_passed:
                self.was_asked_again = True
                raise port.Declined("asked_twice")
            code = self.objection()
            if code is not None:
                raise port.Declined(code)
            crash_point("before_first_byte")
            self.has_passed = True

    def close(self) -> None:
        """Consent to nothing from now on: `has_passed` stays as it is."""
        with self.lock:
            self.is_closed = True

    def objection(self) -> str | None:
        """Why not, or None. What is published counts from then on: where the ledger had adopted it,
        it would not have started this.
        """
        refused = self.refuses()
        if refused is not None:
            return refused
        # Nobody can change a request once it was read: its hash is taken once.
        if self.is_request_known:
            return untimely(self.assignment, mono_ms(), margin_ms=self.margin_ms)
        code = objection(self.assignment, self.request, mono_ms(), margin_ms=self.margin_ms)
        self.is_request_known = code is None
        return code


async def act(
    assignment: Assignment,
    request: RecordedRequest,
    performer: port.Performer,
    *,
    margin_ms: int,
    refuses: Callable[[], str | None],
    previewer: port.Previewer | None = None,
    declared: Operation | None = None,
) -> i.Report | i.Decline:
    """Make the one call that a start allows, unless `refuses` says by which rule it is not to be,
    or what people saw does not hold any more by what is `declared` of it. Raises nothing but
    cancellation.
    """
    check = _LastCheck(assignment, request, margin_ms, refuses)
    try:
        came = await _perform(assignment, request, performer, check, previewer, declared)
    except TimeoutError:
        came = _BrokenOff(assignment.decline("deadline_over"), "hard_deadline")
    except port.Declined as declined:
        # Of two tries the first may have reached the provider, and the second was not let out.
        came = _BrokenOff(_decline(assignment, declined.code), "asked_twice")
    except Exception as fault:  # noqa: BLE001 - no adapter may end the calls of all the others
        _log_fault(assignment, fault)
        came = _BrokenOff(assignment.decline("fault_in_adapter"), "fault_in_adapter")
    finally:
        # Whatever is told from here on stays true: nobody may send any more.
        check.close()
    match came:
        case i.Decline():
            return came
        case _BrokenOff(unsent, code):
            return assignment.report(i.NoAnswer(code=code)) if check.has_passed else unsent
        case _:
            return _answer(assignment, came, check)


@dataclass(frozen=True, slots=True)
class _BrokenOff:
    """A call without an outcome of the adapter."""

    unsent: i.Decline
    """What the ledger is told where nothing was sent."""
    code: str
    """The code of the unknown outcome where something may have been sent."""


async def _perform(
    assignment: Assignment,
    request: RecordedRequest,
    performer: port.Performer,
    check: _LastCheck,
    previewer: port.Previewer | None,
    declared: Operation | None,
) -> port.Outcome | i.Decline | _BrokenOff:
    """What the adapter answered, or why it was not asked."""
    early = check.objection()
    if early is not None:
        return assignment.decline(early)
    if assignment.start.approval is not None:
        declined = await _recheck(assignment, request, previewer, declared)
        if declined is not None:
            return declined
    async with asyncio.timeout(_limit_ms(assignment, check.margin_ms) / 1_000):
        return await performer.perform(
            provider_request(assignment.start, request),
            provider_key=assignment.start.provider_key,
            deadlines=port.Deadlines(assignment.start.connect_ms, assignment.start.response_ms),
            before_first_byte=check,
        )


def _decline(assignment: Assignment, code: str) -> i.Decline:
    """A decline in the words of an adapter, where the log can hold them."""
    try:
        return assignment.decline(code)
    except ValueError as fault:
        _log_fault(assignment, fault)
        return assignment.decline("unreportable_decline")


async def _recheck(
    assignment: Assignment,
    request: RecordedRequest,
    previewer: port.Previewer | None,
    declared: Operation | None,
) -> i.Decline | None:
    """Read the volatile facts that people agreed to again; None where they hold, or the decline
    where one has moved by more than its tolerance or cannot be read.
    """
    start = assignment.start
    if not has_to_hold(start, declared):
        return None
    if previewer is None:
        return assignment.decline("no_previewer_here")
    left_ms = assignment.until(start.deadline_at) - mono_ms()
    timeout_ms = min(start.connect_ms + start.response_ms, left_ms)
    try:
        async with asyncio.timeout(timeout_ms / 1_000):
            read = await previewer.recheck(provider_request(start, request), timeout_ms=timeout_ms)
    except TimeoutError:
        return assignment.decline(f"{RECHECK_FAILED}timed_out")
    if isinstance(read, port.Unforeseen):
        return assignment.decline(f"{RECHECK_FAILED}{read.code}"[:TEXT_CHARS_MAX])
    return not_holding(assignment, read, declared)


def has_to_hold(start: AttemptStarted, declared: Operation | None) -> bool:
    """Whether facts are read again before a start is acted on: those that people saw, and those
    that the newest declaration calls volatile, though nobody was shown them when they were asked.
    """
    approval = start.approval
    if approval is None or not approval.is_of_what_holds:
        return False
    return approval.observed is not None or (declared is not None and bool(declared.read_again))


def not_holding(
    assignment: Assignment, read: Mapping[str, JsonValue], declared: Operation | None
) -> i.Decline | None:
    """The decline for what was read again and is not what people saw, or None where it all holds. A
    volatile fact that is not there cannot be read: nobody knows whether it holds.
    """
    approval = assignment.start.approval
    shown = None if approval is None else approval.observed
    changes = moved(shown or {}, read, {} if declared is None else declared.tolerances)
    if changes:
        return assignment.decline("volatile_changed", changes)
    unread = declared is not None and not read.keys() >= set(declared.read_again)
    return assignment.decline(f"{RECHECK_FAILED}volatile_missing") if unread else None


def _answer(
    assignment: Assignment, outcome: port.Outcome, check: _LastCheck
) -> i.Report | i.Decline:
    """What the ledger is told of an outcome, given whether anything may have been sent."""
    if isinstance(outcome, port.NotSent):
        if check.was_asked_again:
            # The adapter speaks of its second try; the first may have reached the provider.
            return assignment.report(i.NoAnswer(code="asked_twice"))
        last = None if check.has_passed else check.objection()
        if last is not None:
            return assignment.decline(last)
    try:
        return assignment.report(reported(outcome))
    except Exception as fault:  # noqa: BLE001 - as above
        # It happened or not, and the words for it do not fit the log: let it be found out.
        _log_fault(assignment, fault)
        return assignment.report(i.NoAnswer(code="unreportable_answer"))


def _limit_ms(assignment: Assignment, margin_ms: int) -> int:
    """How long the call may take in all: its own deadlines, and never into the end of the lease."""
    start = assignment.start
    own_ms = start.connect_ms + start.response_ms + HARD_STOP_GRACE_MS
    return min(own_ms, assignment.until(start.lease_until) - margin_ms - mono_ms())


def _log_fault(assignment: Assignment, fault: Exception) -> None:
    start = assignment.start
    logger.error(
        "adapter_failed",
        extra={"provider": start.provider, "action": start.action, "attempt": start.attempt},
        exc_info=fault,
    )


def canonical_params(request: RecordedRequest) -> dict[str, object]:
    """The parameters in the form that was hashed, so that what is sent is what was approved."""
    return dict(normal_params(request))


def provider_request(start: AttemptStarted, request: RecordedRequest) -> port.ProviderRequest:
    """What the adapter is given: the recorded request, and of one that undoes another effect the
    provider's name for that.
    """
    return _provider_request(
        start.action, start.account, start.request_hash, request, start.original_reference
    )


def previewed_request(intent: IntentRecorded, started: PreviewStarted) -> port.ProviderRequest:
    """What a previewer is given: what an attempt would be given, in the same bytes."""
    return _provider_request(
        intent.action,
        intent.account,
        intent.request_hash,
        intent.request,
        started.original_reference,
    )


def _provider_request(
    action: str,
    account: str,
    digest: str,
    request: RecordedRequest,
    original_reference: str | None,
) -> port.ProviderRequest:
    return port.ProviderRequest(
        action_key=action,
        operation=request.operation,
        version=request.version,
        target=request.target,
        params=canonical_params(request),
        money=request.money,
        account=account,
        request_hash=digest,
        original_reference=original_reference,
    )


def reported(outcome: port.Outcome) -> i.ReportedOutcome:
    """An adapter's outcome in the words of the log. Raises ValueError where they do not fit it."""
    match outcome:
        case port.Succeeded(reference, result):
            return i.Success(reference=reference, result=_recordable(reference, result))
        case port.Partial(reference, result):
            return i.PartialSuccess(reference=reference, result=_recordable(reference, result))
        case port.Refused(code, retry, retry_after_ms):
            return i.Refusal(code=code, retry=i.Retry(retry), retry_after_ms=retry_after_ms)
        case port.NotSent(code, retry):
            return i.NotSent(code=code, retry=i.Retry(retry))
        case port.Unresolved(code):
            return i.NoAnswer(code=code)
        case _:
            assert_never(outcome)


def _recordable(reference: str, result: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The result as the ledger will read it. Where it would refuse it, and the success with it,
    only why, how large it was and its hash.
    """
    try:
        raw = to_json(result, inf_nan_mode="constants")
    except ValueError as unwritable:
        # Half a character, or what is no JSON at all: its hash is that of how Python shows it.
        reason, raw = "unwritable", repr(result).encode("utf-8", "backslashreplace")
        said = str(unwritable)
    else:
        try:
            parse(raw, bytes_max=ANSWER_BYTES_MAX)
        except MalformedJson as malformed:
            reason, said = malformed.code.value, str(malformed)
        else:
            return dict(result)
    logger.warning("result_left_out", extra={"reference": reference, "reason": said})
    digest = f"sha256:{hashlib.sha256(raw).hexdigest()}"
    return {"left_out": {"reason": reason, "size_bytes": len(raw), "sha256": digest}}
