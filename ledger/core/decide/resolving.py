"""The review desk: which moves settle a case, what each would do, and what comes of the one that a
person signs.

A resolution is bound to one case as its person saw it: whatever became known since makes it count
for nothing. What a person says that there was no effect of counts only once nothing of an attempt
can leave or take effect any more, and never against a provider that has confirmed one to us.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, assert_never

from ledger.core.blocking import blocking
from ledger.core.catalogue import Operation
from ledger.core.config import Config
from ledger.core.decide.approvals import lapse, no_later, transplanted, unfit
from ledger.core.decide.asking import ask, end, preview_is_under_way
from ledger.core.decide.draft import Decided, Draft, refused_by, replayed
from ledger.core.decide.ending import call_off
from ledger.core.decide.gating import reached_alone
from ledger.core.decide.ruling import needs_ruling, rule_anew, ruling_on
from ledger.core.decide.schedule import (
    Bar,
    ask_later_or_review,
    bar,
    find_out,
    is_disputed,
)
from ledger.core.facts import (
    ActionCompleted,
    ActionFailed,
    AttemptAbsent,
    ReviewResolved,
)
from ledger.core.ids import stream_key_of
from ledger.core.inputs import Judged
from ledger.core.limits import RESOLUTION_VALID_MS_MAX, RESUMES_MAX
from ledger.core.rejections import Rejection
from ledger.core.reversals import AMOUNT_DIFFERS, RETURNED_ALREADY
from ledger.core.state import OPEN, Action, AttemptStatus, Case, Resolved, Status
from ledger.core.statement import Move, Resolution

PERSON_SOURCE: Final = "person:"
"""Before the number of the case, where a person's word closed an attempt."""

NO_EFFECT_CODE: Final = "resolved_no_effect"

_EFFECT_WAS_SEEN: Final = frozenset({"effect_without_attempt", "amount_differs"})
"""Reviews that were opened by an effect, whether or not anything was sent for it."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A move that is safe now, and in one sentence what it would do."""

    move: Move
    sentence: str


# --- what is safe --------------------------------------------------------------------------------


def moves(
    action: Action, operation: Operation | None, config: Config, now: int
) -> tuple[Offered, ...]:
    """The moves by which a person may settle the case of an action at a time, or let pass what it
    is blocked by; none where there is neither. `operation` is its declaration in force, None where
    it has none any more.
    """
    case = action.case
    if case is None:
        return _of_blocked(action)
    if action.is_final:
        return (Offered(Move.ACKNOWLEDGE, _NOTED),)
    return tuple(_of_unsettled(action, case, operation, config, now))


def _of_blocked(action: Action) -> tuple[Offered, ...]:
    waits = blocking(action)
    if waits is None or not waits.may_be_allowed or action.resumes >= RESUMES_MAX:
        return ()
    return (Offered(Move.ALLOW, _ALLOWED_RISK.format(waits.by)),)


def _of_unsettled(
    action: Action, case: Case, operation: Operation | None, config: Config, now: int
) -> Iterator[Offered]:
    is_confirmed = any(one.status is AttemptStatus.SUCCEEDED for one in action.attempts)
    is_over = _is_over(action, operation, config, now)
    if action.counted_attempts or case.reason in _EFFECT_WAS_SEEN:
        yield Offered(Move.EFFECT_EXISTS, _EXISTS)
    if is_over and not is_confirmed:
        yield Offered(Move.NO_EFFECT, _NOTHING if action.counted_attempts else _NEVER_BEGAN)
    if operation is None or is_disputed(action) or is_confirmed or action.resumes >= RESUMES_MAX:
        return
    if case.reason in _ALLOWABLE and case.names is not None:
        said = _ALLOWABLE[case.reason].format(case.names)
        if not action.is_open:
            yield Offered(Move.ALLOW, said)
        elif case.reason in _KEPT_BACK and _may_go_on(action, operation, config, now):
            yield Offered(Move.ALLOW, f"{said} {_SENT_AGAIN}")
    if is_over and not _comes_back(action, case, operation, config):
        stopped = bar(_closed(action, operation, now), operation, now, config)
        if stopped is None:
            yield Offered(Move.TRY_AGAIN, _AGAIN if action.counted_attempts else _ANEW)
        elif stopped is Bar.APPROVAL:
            yield Offered(
                Move.TRY_AGAIN, _AGAIN_IF_AGREED if action.counted_attempts else _ANEW_IF_AGREED
            )
    if action.is_open and action.running is None and operation.lookups:
        yield Offered(Move.LOOK_AGAIN, _LOOK)


_ALLOWABLE: Final = {
    "ceiling_reached": (
        "The ceiling {} is passed once, for this action; for all others it stands. Should it reach "
        "another ceiling, a person is asked about that one by its name."
    ),
    "suspected_duplicate": (
        "The action goes ahead although {} asked for the same: if both have their effect, there "
        "are two. It lets pass this one alone: should another look like it too, a person is asked "
        "about that one by its name."
    ),
    RETURNED_ALREADY: (
        "It goes ahead although so much was given back elsewhere ({}): more comes back than was "
        "taken."
    ),
    AMOUNT_DIFFERS: (
        "It goes ahead although {} had its effect with another amount than was asked for: more may "
        "come back than was taken."
    ),
}
_KEPT_BACK: Final = frozenset({RETURNED_ALREADY, AMOUNT_DIFFERS})
"""Cases of what undoes something that stay as they are until a person lets it pass."""

_SENT_AGAIN: Final = (
    "It is sent again with the same key, which has the effect where it was not there before."
)
_ALLOWED_RISK: Final = (
    "The action goes ahead although {} is not settled: if both have their effect, there are two."
)
_EXISTS: Final = (
    "The action is completed under the reference that you give; nothing more is sent for it."
)
_NOTHING: Final = (
    "Every open attempt is closed as without effect, and the action has failed for good."
)
_NEVER_BEGAN: Final = "The action is cancelled: nothing of it was ever sent, and nothing will be."
_AGAIN: Final = (
    "Every open attempt is closed as without effect, and the action is sent once more with the "
    "same key: if there was an effect after all, there may be two."
)
_ANEW: Final = (
    "The action goes on as if it were asked for now, through every gate: nothing of it was ever "
    "sent."
)
_ANEW_IF_AGREED: Final = (
    "People are asked to agree, and then the action goes on: nothing of it was ever sent."
)
_AGAIN_IF_AGREED: Final = (
    "Every open attempt is closed as without effect, and people are asked to agree before the "
    "action is sent once more: if there was an effect after all, there may be two."
)
_LOOK: Final = (
    "The provider is asked again what became of it, from the beginning of its schedule; then the "
    "action goes on by the rules of its class."
)
_NOTED: Final = "The alarm is settled; the status of the action stays as it is."


def _is_over(action: Action, operation: Operation | None, config: Config, now: int) -> bool:
    """Whether nothing open can leave, take effect or come to light any more. How long its provider
    takes says its declaration; without one nobody knows.
    """
    if not action.is_open:
        return True
    if operation is None or action.running is not None:
        return False
    over_ms = config.timing.skew_ms + operation.search_lag_ms + operation.settle_horizon_ms
    return all(now > one.lease_until + over_ms for one in action.attempts if one.status in OPEN)


def _may_go_on(action: Action, operation: Operation, config: Config, now: int) -> bool:
    """Whether an open action may be sent again with the same key, as soon as a person says so."""
    until = no_later(action, now + operation.deadlines.step_ms)
    again = replace(action, step_deadline_at=until)
    return action.running is None and bar(again, operation, now, config) is None


def _comes_back(action: Action, case: Case, operation: Operation, config: Config) -> bool:
    """Whether it would come back to a person with the same question if it were tried again: what is
    in its way stands in its own business event or in the table. What a gate says may be otherwise.
    What else was in its way comes back as a question of its own, with an answer that lets it pass.
    """
    if case.reason in _KEPT_BACK:
        return True
    if case.reason == "suspected_duplicate" and action.compensates is not None:
        return case.names is not None and stream_key_of(case.names) == stream_key_of(action.key)
    if case.reason != "ceiling_reached" or action.has_begun:
        return False
    ruled = replace(action, gates=ruling_on(action, operation, config).gates)
    return reached_alone(ruled, config) is not None


def _closed(action: Action, operation: Operation, now: int) -> Action:
    """The action as it would be once a person has it tried again."""
    return replace(
        action,
        attempts=tuple(
            replace(one, status=AttemptStatus.ABSENT) if one.status in OPEN else one
            for one in action.attempts
        ),
        step_deadline_at=no_later(action, now + operation.deadlines.step_ms),
        resolved=Resolved(0, Move.TRY_AGAIN, "", attempts_before=len(action.attempts)),
    )


# --- settling ------------------------------------------------------------------------------------


def resolve(draft: Draft, given: Judged, said: Resolution) -> Decided:
    """Settle a case as a person has signed, or say by which rule it settles nothing."""
    action = draft.stream.action(given.key)
    if action is None:
        return refused_by(Rejection.UNKNOWN_ACTION)
    person = draft.config.people.signer(given.key_id, given.appended_at)
    refused = transplanted(action, said, given.ledger) or unfit(action, said, person)
    if refused is not None or person is None:
        return refused_by(refused or Rejection.UNKNOWN_SIGNER, action)
    if _said_before(action, said):
        return replayed(action, "resolved_already")
    shown = _as_shown(action)
    if shown is None:
        return refused_by(Rejection.NO_CASE, action)
    if (said.case, said.moved) != shown[:2]:
        return refused_by(Rejection.CASE_MOVED, action)
    untimely = _untimely(draft, given, said)
    if untimely is not None:
        return refused_by(untimely, action)
    if not person.is_in_one_of(draft.config.policy.review_groups):
        return refused_by(Rejection.NOT_IN_GROUP, action)
    if not _names_what_it_must(said):
        return refused_by(Rejection.REFERENCE_UNFIT, action)
    if said.accepts != (shown[2] if said.move is Move.ALLOW else None):
        return refused_by(Rejection.ACCEPTS_UNFIT, action)
    if not _is_safe(draft, action, said):
        return refused_by(Rejection.MOVE_NOT_SAFE, action)
    _settle(draft, action, given, said)
    return draft.decided()


def _said_before(action: Action, said: Resolution) -> bool:
    """Whether this person has settled that case so already: a double click is one resolution."""
    before = action.resolved
    return before is not None and (before.case, before.move, before.person) == (
        said.case,
        said.move,
        said.approver,
    )


def _as_shown(action: Action) -> tuple[int, int, str | None] | None:
    """The case as it is shown: which it is, the newest that is known of it, and what it names. Of
    an action without one, what blocks it.
    """
    case = action.case
    if case is not None:
        return (case.opened_version, case.moved_version, case.names)
    waits = blocking(action)
    return None if waits is None else (waits.version, waits.version, waits.by)


def _untimely(draft: Draft, given: Judged, said: Resolution) -> Rejection | None:
    """Why the resolution does not count at the time of its own append, or None."""
    if given.appended_at >= said.expires_at:
        return Rejection.APPROVAL_EXPIRED
    if said.expires_at > said.issued_at + RESOLUTION_VALID_MS_MAX:
        return Rejection.EXPIRY_BEYOND_REQUEST
    if said.issued_at > given.appended_at + draft.config.timing.skew_ms:
        return Rejection.ISSUED_IN_FUTURE
    return None


def _names_what_it_must(said: Resolution) -> bool:
    """Whether a reference stands exactly where somebody says that there is an effect."""
    return (said.reference is not None) is (said.move is Move.EFFECT_EXISTS)


def _is_safe(draft: Draft, action: Action, said: Resolution) -> bool:
    """Whether the move was offered when its person looked, and still is: who looked before nothing
    could happen any more has not seen the end of it.
    """
    operation = draft.operation(action)
    looked_at = min(said.issued_at, draft.now)
    return all(
        any(one.move is said.move for one in moves(action, operation, draft.config, at))
        for at in {looked_at, draft.now}
    )


def _settle(draft: Draft, action: Action, given: Judged, said: Resolution) -> None:
    """Write down the resolution, and what follows from it."""
    key, operation = action.key, draft.operation(action)
    goes_on = said.move is Move.TRY_AGAIN or (said.move is Move.ALLOW and action.case is not None)
    is_again = goes_on and operation is not None
    step_ms = operation.deadlines.step_ms if operation is not None else 0
    people_ms = operation.deadlines.people_ms if operation is not None else 0
    waits = is_again and action.people_until is not None
    draft.add(
        ReviewResolved(
            action=key,
            version=draft.version(key),
            move=said.move,
            case=said.case,
            person=said.approver,
            key_id=given.key_id,
            signed=given.signed,
            reference=said.reference,
            accepts=said.accepts,
            comment=said.comment,
            step_deadline_at=no_later(action, draft.now + step_ms) if is_again else None,
            people_until=no_later(action, draft.now + people_ms) if waits else None,
        )
    )
    match said.move:
        case Move.EFFECT_EXISTS:
            draft.add(
                ActionCompleted(
                    action=key,
                    version=draft.version(key),
                    proof="person",
                    reference=said.reference or key,
                )
            )
        case Move.NO_EFFECT:
            _close(draft, key, said)
            _end_without_effect(draft, key, said)
        case Move.TRY_AGAIN:
            _close(draft, key, said)
            if operation is not None:
                _go_on(draft, key, operation)
        case Move.ALLOW:
            if operation is not None and action.case is not None:
                _go_on(draft, key, operation)
                find_out(draft, key)
        case Move.LOOK_AGAIN:
            if operation is not None and action.lookup is None:
                ask_later_or_review(draft, key, operation)
        case Move.ACKNOWLEDGE:
            pass
        case _:
            assert_never(said.move)


def _close(draft: Draft, key: str, said: Resolution) -> None:
    """Nothing of what is open has had an effect: a person has signed it."""
    for attempt in draft.action(key).attempts:
        if attempt.status in OPEN:
            draft.add(
                AttemptAbsent(
                    action=key,
                    version=draft.version(key),
                    attempt=attempt.number,
                    source_id=f"{PERSON_SOURCE}{said.case}",
                )
            )


def _end_without_effect(draft: Draft, key: str, said: Resolution) -> None:
    if draft.action(key).counted_attempts:
        version = draft.version(key)
        draft.add(ActionFailed(action=key, version=version, code=NO_EFFECT_CODE))
    else:
        call_off(draft, key, NO_EFFECT_CODE, principal=said.approver)


def _go_on(draft: Draft, key: str, operation: Operation) -> None:
    """What is ready starts as soon as there is capacity; what people have to agree to is asked
    about at once, because it is a person who wants it to go on.
    """
    if draft.action(key).blocked is not None:
        return
    if needs_ruling(draft.action(key), draft.config):
        rule_anew(draft, key, operation)
    action = draft.action(key)
    if action.is_final or action.is_open or preview_is_under_way(action):
        return
    over = lapse(action, draft.config, draft.now)
    if action.status is Status.READY:
        if over is None or over == "not_met":
            return
        end(draft, key, over)
    elif action.approval is not None and action.approval.ended is None:
        if draft.now < action.approval.expires_at:
            return
        end(draft, key, "expired")
    ask(draft, key, operation)
