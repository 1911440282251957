"""Sagas: planned whole or not at all, then led on by what becomes of their actions.

Every step and every compensation is checked as a proposal is, before the first begins; the first
refusal refuses the plan and names the step. From then on a saga has no state but its actions:
whoever decides anything about one of them draws here what follows for the others. Nothing is undone
before every step has come to its end, and then in reverse, each once the one after it is undone.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from ledger.core.catalogue import Operation
from ledger.core.decide.asking import end
from ledger.core.decide.draft import Decided, Draft, refused_by, replayed
from ledger.core.decide.ending import LEDGER, NOT_BEGUN, NOTHING_TO_UNDO, call_off, review
from ledger.core.decide.gate_demands import leaves_target_out
from ledger.core.decide.gating import follow_gates
from ledger.core.decide.intake import record, refusal_of_key, refusal_of_new, refused_for_target
from ledger.core.decide.room import without_room
from ledger.core.decide.ruling import lacks_run, needs_ruling, rule_ahead, rule_anew, rule_at_last
from ledger.core.decide.schedule import start
from ledger.core.facts import ActionBlocked, SagaPlace
from ledger.core.ids import ActionKey
from ledger.core.inputs import CancelSaga, OpenSaga, Planned, Propose
from ledger.core.limits import DIFFERENCES_MAX
from ledger.core.money import format_money
from ledger.core.order import GIVEN_UP, is_without_effect
from ledger.core.policy import Outcome
from ledger.core.rejections import MEANINGS, Detail, Refused, Rejection
from ledger.core.request import differences, recorded, request_hash
from ledger.core.sagas import NO_EFFECT, Saga, SagaStep, is_compensation, names_of, saga_of
from ledger.core.state import Action, Status

CALLED_OFF: Final = "saga_called_off"

_WAITS_FOR_ITS_TURN: Final = frozenset({"saga_order", "planned"})
"""What a saga ends; whatever else blocks an action of one ends by itself."""


@dataclass(frozen=True, slots=True)
class _Place:
    """One action of a plan, where it stands in it, and its path in the input."""

    planned: Planned
    step: int
    role: Literal["step", "compensation"]

    @property
    def path(self) -> str:
        path = f"/steps/{self.step - 1}"
        return path if self.role == "step" else f"{path}/compensation"


# --- opening -------------------------------------------------------------------------------------


def open_saga(draft: Draft, given: OpenSaga) -> Decided:
    """Record a plan with all of its actions, and go on with the first; the same again is a
    replay.
    """
    known = saga_of(draft.stream, given.saga)
    if known is not None:
        return _again(known, given)
    for place in _places(given):
        refused = _refusal_of(draft, given, place)
        if refused is not None:
            return _naming(refused, place.path)
        _record(draft, given, place)
    _block(draft, given)
    saga = saga_of(draft.stream, given.saga)
    assert saga is not None  # noqa: S101 - recorded above
    _go_on(draft, saga, saga.steps[0])
    first = draft.action(given.steps[0].key)
    operation = draft.operation(first)
    if operation is not None:
        start(draft, first.key, operation)
    return draft.decided()


def _places(given: OpenSaga) -> Iterator[_Place]:
    """Every action of the plan: the steps in order, then what undoes them."""
    for number, step in enumerate(given.steps, start=1):
        yield _Place(step, number, "step")
    for number, step in enumerate(given.steps, start=1):
        if step.compensation is not None:
            yield _Place(step.compensation, number, "compensation")


def _refusal_of(draft: Draft, given: OpenSaga, place: _Place) -> Decided | None:
    """Why an action of the plan may not be, or None: what refuses a proposal, and what holds a
    plan together.
    """
    asked = _proposal(given, place)
    refused = refusal_of_key(asked)
    if refused is not None:
        return refused
    key = ActionKey.parse(asked.key)
    if key.stream_key != given.stream:
        return _unfit("other_stream", f"{asked.key} is of another business event")
    if asked.request.principal != given.principal:
        return _unfit("other_principal", f"it is asked for by {asked.request.principal}")
    if draft.stream.action(asked.key) is not None:
        return refused_by(Rejection.CONFLICTED, draft.stream.action(asked.key))
    operation = draft.config.operation(key.operation, key.version)
    refused = refusal_of_new(draft, key, asked, operation)
    if refused is None and place.role == "compensation":
        refused = _not_whole(given, place)
    if refused is not None or operation is None:
        return refused
    return _ruled_out(draft, key, asked, operation)


def _proposal(given: OpenSaga, place: _Place) -> Propose:
    """The action as its caller would propose it alone."""
    is_step, own = place.role == "step", given.steps[place.step - 1]
    return Propose(
        key=place.planned.key,
        request=place.planned.request,
        request_hash=place.planned.request_hash,
        # Nothing bounds an undo in time: it is called off, done, or a person's.
        step_ms=given.step_ms if is_step else None,
        compensates=own.compensates if is_step else own.key,
        run=given.run,
        occurrence=place.planned.occurrence,
        behalf=given.behalf,
    )


def _not_whole(given: OpenSaga, place: _Place) -> Decided | None:
    """Whether a compensation would leave part of the money of its step where it went."""
    money, undone = given.steps[place.step - 1].request.money, place.planned.request.money
    if money is None or undone is None or money == undone:
        return None
    text = f"the step moves {format_money(money)}, and this {format_money(undone)}"
    return _unfit("not_whole", f"{text}: what is planned undoes all of it")


def _ruled_out(
    draft: Draft, key: ActionKey, asked: Propose, operation: Operation
) -> Decided | None:
    """Whether the policy in force would deny the action, or counts it per run without one."""
    request = recorded(asked.request)
    ruling = draft.config.policy.rule(operation, request, key.tenant)
    if lacks_run(draft, ruling.gates, asked.run):
        return refused_by(Rejection.RUN_MISSING)
    if leaves_target_out(ruling.gates, draft.config, request, operation):
        return refused_for_target()
    if ruling.outcome is Outcome.DENY:
        message = MEANINGS[Rejection.STEP_DENIED].sentence
        detail = Detail(path="", code=ruling.row, message=message)
        return Decided(refused=Refused(code=Rejection.STEP_DENIED, details=(detail,)))
    return None


def _unfit(code: str, message: str) -> Decided:
    detail = Detail(path="", code=code, message=message)
    return Decided(refused=Refused(code=Rejection.SAGA_UNFIT, details=(detail,)))


def _naming(decided: Decided, path: str) -> Decided:
    """The refusal of one action as that of the plan: every detail says of which step it is."""
    refused = decided.refused
    assert refused is not None  # noqa: S101 - nothing else is handed in
    meaning = MEANINGS[refused.code].sentence
    plain = (Detail(path="", code=refused.code.value, message=meaning),)
    details = tuple(
        one.model_copy(update={"path": f"{path}/{one.path.lstrip('/')}".rstrip("/")})
        for one in refused.details or plain
    )
    return Decided(refused=refused.model_copy(update={"details": details}))


def _record(draft: Draft, given: OpenSaga, place: _Place) -> None:
    """Write down the intent of one action of the plan, so that the next is checked beside it."""
    asked = _proposal(given, place)
    key = ActionKey.parse(asked.key)
    operation = draft.config.operation(key.operation, key.version)
    assert operation is not None  # noqa: S101 - refused before
    stands = SagaPlace(
        saga=given.saga,
        step=place.step,
        steps=len(given.steps),
        role=place.role,
        reads=True if place.role == "step" and operation.kind == "read" else None,
    )
    record(draft, asked, request_hash(asked.request), operation, saga=stands)


def _block(draft: Draft, given: OpenSaga) -> None:
    """Every action but the first waits: a step for the one before it, a compensation until it is
    needed; but room for that is reserved before anything begins.
    """
    for place in _places(given):
        key, own = place.planned.key, given.steps[place.step - 1].key
        if place.role == "compensation":
            operation = draft.operation(draft.action(key))
            assert operation is not None  # noqa: S101 - refused above
            rule_ahead(draft, key, operation)
            _wait(draft, key, "planned", own)
        elif place.step > 1:
            _wait(draft, key, "saga_order", given.steps[place.step - 2].key)


def _wait(draft: Draft, key: str, reason: Literal["saga_order", "planned"], by: str) -> None:
    draft.add(
        ActionBlocked(
            action=key,
            version=draft.version(key),
            reason=reason,
            by=by,
            wait_until=draft.action(key).caller_deadline_at,
        )
    )


def _again(known: Saga, given: OpenSaga) -> Decided:
    """The plan under its name once more: as it stands, or in what it differs."""
    details = tuple(_told_apart(known, given))[:DIFFERENCES_MAX]
    if details:
        first = known.steps[0].action.key
        refused = Refused(code=Rejection.CONFLICTED, action=first, details=details)
        return Decided(refused=refused)
    return replayed(known.steps[0].action, "replayed")


def _told_apart(known: Saga, given: OpenSaga) -> Iterator[Detail]:
    """In what a plan differs from the one that was recorded under its name."""
    before: dict[tuple[int, str], Action] = {}
    for action in known.actions:
        if action.saga is not None:
            before[action.saga.step, action.saga.role] = action
    for place in _places(given):
        was = before.pop((place.step, place.role), None)
        if was is None:
            yield _differs(place.path, "nothing", place.planned.key)
        elif was.key != place.planned.key:
            yield _differs(f"{place.path}/key", was.key, place.planned.key)
        elif was.compensates != _proposal(given, place).compensates:
            undone = _proposal(given, place).compensates
            yield _differs(f"{place.path}/compensates", was.compensates, undone)
        else:
            for one in differences(was.request, recorded(place.planned.request)):
                yield _differs(f"{place.path}/request{one.path}", one.was, one.now)
    for (step, role), action in before.items():
        path = f"/steps/{step - 1}" if role == "step" else f"/steps/{step - 1}/compensation"
        yield _differs(path, action.key, "nothing")


def _differs(path: str, was: object, now: object) -> Detail:
    return Detail(path=path, code="differs", message=f"{was} -> {now}")


# --- calling off ---------------------------------------------------------------------------------


def cancel_saga(draft: Draft, given: CancelSaga) -> Decided:
    """Call off what of a saga has not begun; what is done is undone, once what is open is
    settled.
    """
    saga = saga_of(draft.stream, given.saga)
    if saga is None:
        return refused_by(Rejection.UNKNOWN_SAGA)
    first = saga.steps[0].action
    if saga.is_unwinding:
        return replayed(first, "already_cancelled")
    if saga.is_completed:
        return refused_by(Rejection.ALREADY_FINAL, first)
    _call_off(draft, saga, given.principal, given.reason)
    if draft.facts:
        return draft.decided()
    last = saga.steps[-1].action
    is_in_review = last.status is Status.NEEDS_REVIEW and not last.is_open
    return refused_by(Rejection.IN_REVIEW if is_in_review else Rejection.ATTEMPT_OPEN, last)


def _call_off(draft: Draft, saga: Saga, principal: str, reason: str | None) -> None:
    """End every step of which nothing can have had an effect."""
    for step in saga.steps:
        action = draft.action(step.action.key)
        if action.status in NOT_BEGUN and not action.is_open:
            call_off(draft, action.key, reason, principal=principal)


# --- what follows --------------------------------------------------------------------------------


def follow_sagas(draft: Draft) -> None:
    """Lead every saga of the stream on, as far as it goes by itself."""
    for name in names_of(draft.stream):
        before = -1
        while len(draft.facts) != before:
            before = len(draft.facts)
            saga = saga_of(draft.stream, name)
            if saga is not None:
                _lead_on(draft, saga)


def _lead_on(draft: Draft, saga: Saga) -> None:
    """What follows for the others from how the actions of a saga stand."""
    if saga.is_unwinding:
        _call_off(draft, saga, LEDGER, CALLED_OFF)
        idle = [one for one in saga.steps if is_without_effect(draft.action(one.action.key))]
        _end_undos(draft, idle)
    if saga.awaits_person:
        _hold_back(draft, saga)
        return
    undo, step = saga.to_undo, saga.to_do
    if undo is not None:
        _undo(draft, undo)
    elif step is not None:
        _go_on(draft, saga, step)
    elif saga.is_completed:
        _end_undos(draft, saga.steps)


def _end_undos(draft: Draft, steps: Iterable[SagaStep]) -> None:
    """End what was planned to undo steps of which there is nothing to undo."""
    for step in steps:
        undo = step.compensation
        if undo is not None and draft.action(undo.key).status in NOT_BEGUN:
            call_off(draft, undo.key, NOTHING_TO_UNDO)


def _go_on(draft: Draft, saga: Saga, step: SagaStep) -> None:
    """Begin a step, once there is room for everything that may have to be undone. Where an undo has
    come to its end before that, by a person, the saga comes to nothing.
    """
    undos = [one.compensation for one in saga.steps if one.compensation is not None]
    for undo in undos:
        operation = draft.operation(undo)
        if operation is not None and needs_ruling(undo, draft.config):
            rule_anew(draft, undo.key, operation)
            return
        # What it needs no more must be given back before anybody asks whether it has its room.
        follow_gates(draft, undo.key)
    waits = without_room(saga, draft.config, draft.now)
    if any(one.is_final for one in undos):
        _call_off(draft, saga, LEDGER, CALLED_OFF)
    elif waits is None:
        _unblock(draft, step.action)
    else:
        _hold(draft, step.action, waits.key)


def _hold_back(draft: Draft, saga: Saga) -> None:
    """A person has to settle something of the saga: what has its turn and has not begun waits."""
    case = next(one for one in saga.actions if one.case is not None)
    for one in saga.actions:
        action = draft.action(one.key)
        if action.case is None:
            _hold(draft, action, case.key)


def _hold(draft: Draft, action: Action, by: str) -> None:
    """Have an action that has its turn, and has not begun, wait for it once more: it is ruled again
    then, people are asked again, and its step begins then.
    """
    if action.status not in NOT_BEGUN or action.has_begun or action.blocked is not None:
        return
    end(draft, action.key, "volatile_changed")
    _wait(draft, action.key, "planned" if is_compensation(action) else "saga_order", by)


def _undo(draft: Draft, step: SagaStep) -> None:
    """Go on with what undoes a step. Where nothing is planned to, or it came to nothing for good,
    a person takes over: an effect that is to be undone is never passed over in silence.
    """
    done, undo = step.action, step.compensation
    if undo is None:
        review(draft, done.key, GIVEN_UP)
    elif undo.status in NO_EFFECT:
        review(draft, undo.key, GIVEN_UP, done.key)
    else:
        _unblock(draft, undo)


def _unblock(draft: Draft, action: Action) -> None:
    """It is the action's turn: rule about it now, for as long as it waited that could change."""
    blocked = action.blocked if action.status is Status.BLOCKED else None
    waits = blocked is not None and blocked.reason in _WAITS_FOR_ITS_TURN
    if not waits and action.status is not Status.PROPOSED:
        return
    operation = draft.operation(action)
    if operation is None:
        review(draft, action.key, "operation_withdrawn")
    else:
        rule_at_last(draft, action.key, operation)
