"""A gate decides: reserve, refuse, queue, take back; and what a run's agent reports of its steps.

A gate knows nothing of actions but what they asked. It grants under the ceilings in force when it
was asked; what it granted it sends again until the action has answered.
"""

from ledger.core.config import Config
from ledger.core.decide.draft import Decided, Draft, refused_by
from ledger.core.gates import (
    REPORTED,
    STEPS,
    Gate,
    Identity,
    Reaching,
    Recent,
    RefusalReason,
    Reservation,
    ReservationClosed,
    ReservationGranted,
    ReservationKept,
    ReservationQueued,
    ReservationRefused,
    ReservationSentAgain,
    StepReported,
    evolve_gate,
)
from ledger.core.ids import GateKind, MalformedId, gate_kind
from ledger.core.inputs import GateAnswer, GateAsk, GateClose, GateKeep, GateTaken, ReportStep
from ledger.core.limits import REPORTERS_MAX, RESERVATIONS_MAX
from ledger.core.rejections import Detail, Refused, Rejection


def asked(draft: Draft, given: GateAsk) -> Decided:
    """Reserve what an action asks for, queue it, or refuse it by name."""
    gate = draft.gate
    held = None if gate is None else gate.reservation(given.action, given.round)
    if held is not None and held.grant is not None:
        _say_granted(draft, given.gate, held)
        return draft.decided(unchanged="granted_already")
    if given.forced:
        _grant(draft, given)
        return draft.decided()
    if _is_ahead(given, draft.config):
        return draft.decided(unchanged="ceiling_unknown")
    refused = None if held is not None else _refusal(gate, given, draft)
    if refused is not None:
        _refuse(draft, given, refused)
        return draft.decided()
    behind = _holder(gate, given)
    if behind is None:
        _grant(draft, given)
        return draft.decided()
    if held is None:
        draft.add_to_gate(
            ReservationQueued(
                version=_next(draft),
                action=given.action,
                round=given.round,
                demand=given.demand,
                behind=behind,
                identity=given.identity,
            )
        )
    draft.send(
        GateAnswer(
            key=given.action, gate=given.gate, round=given.round, outcome="queued", behind=behind
        )
    )
    return draft.decided(unchanged="queued_already")


def _is_ahead(given: GateAsk, config: Config) -> bool:
    """Whether a ceiling is named that was not adopted here yet: each partition adopts by itself.
    Nobody answers before it is; the action asks again.
    """
    names = set(given.ceilings).difference(given.over or ())
    return any(config.policy.ceiling(name) is None for name in names)


def _next(draft: Draft) -> int:
    return 1 if draft.gate is None else draft.gate.version + 1


_Refusal = tuple[RefusalReason, Reaching | None, str | None]


def _refusal(gate: Gate | None, given: GateAsk, draft: Draft) -> _Refusal | None:
    """Why the gate does not take an action in at all, or None."""
    reached = _reached(gate, given, draft.config, draft.now)
    if reached is not None:
        return ("ceiling_reached", reached, None)
    if gate is None:
        return None
    if given.identity is not None:
        like = _look_alike(gate, given, given.identity, draft.now)
        if like is not None:
            return ("suspected_duplicate", None, like)
    if len(gate.reservations) >= RESERVATIONS_MAX:
        return ("gate_full", None, None)
    return None


def _look_alike(gate: Gate, given: GateAsk, identity: Identity, now: int) -> str | None:
    """An action that asked for the same at this target under another key a short while ago, or had
    its effect then, or for something like it in the same run. One that is not settled, or waits in
    the queue, counts however long ago that was: who asks again has waited for it, and would be
    served after it.
    """
    if not identity.look_alike_ms:
        return None
    under_way = {one.action for one in gate.reservations}
    waiting = (
        Recent(one.action, one.asked_at, one.identity)
        for one in gate.queue
        if one.identity is not None
    )
    for recent in reversed((*gate.recent, *waiting)):
        other = recent.identity
        if recent.action == given.action or recent.action in (given.over or ()):
            continue
        if other.operation != identity.operation or other.occurrence != identity.occurrence:
            continue
        is_long_ago = now - recent.last_at >= identity.look_alike_ms
        if is_long_ago and recent.action not in under_way:
            continue
        if identity.plan is not None and other.plan == identity.plan:
            continue
        same_run = identity.run is not None and other.run == identity.run
        if other.request_hash == identity.request_hash or same_run:
            return recent.action
    return None


def _reached(gate: Gate | None, given: GateAsk, config: Config, now: int) -> Reaching | None:
    """The first ceiling that the demand would pass, but for those that a person lets it pass."""
    for name in given.ceilings:
        ceiling = config.policy.ceiling(name)
        if ceiling is None or name in (given.over or ()):
            continue
        reached = ceiling.reached(gate, given.demand, now)
        if reached is not None:
            return reached
    return None


def _holder(gate: Gate | None, given: GateAsk) -> str | None:
    """The action that holds the target, unless a person accepts the risk of both."""
    if gate is None or gate_kind(given.gate) is not GateKind.TARGET:
        return None
    over = given.over or ()
    return next((one.action for one in gate.granted if one.action not in over), None)


def _grant(draft: Draft, given: GateAsk) -> None:
    gate = draft.gate
    draft.add_to_gate(
        ReservationGranted(
            version=_next(draft),
            action=given.action,
            round=given.round,
            grant=1 if gate is None else gate.next_grant,
            demand=given.demand,
            identity=given.identity,
            over=given.over,
            forced=given.forced,
        )
    )
    _say_held(draft, given.gate, given.action, given.round)


def _say_held(draft: Draft, gate_key: str, action: str, round_: int) -> None:
    held = None if draft.gate is None else draft.gate.reservation(action, round_)
    if held is not None:
        _say_granted(draft, gate_key, held)


def _say_granted(draft: Draft, gate_key: str, held: Reservation) -> None:
    draft.send(
        GateAnswer(
            key=held.action, gate=gate_key, round=held.round, outcome="granted", grant=held.grant
        )
    )


def _refuse(draft: Draft, given: GateAsk, refusal: _Refusal) -> None:
    reason, reached, like = refusal
    draft.add_to_gate(
        ReservationRefused(
            version=_next(draft),
            action=given.action,
            round=given.round,
            reason=reason,
            reached=reached,
            like=like,
        )
    )
    draft.send(
        GateAnswer(
            key=given.action,
            gate=given.gate,
            round=given.round,
            outcome="refused",
            reason=reason,
            reached=reached,
            like=like,
        )
    )


def kept(draft: Draft, given: GateKeep) -> Decided:
    """The action has its grant; it is not sent again."""
    held = None if draft.gate is None else draft.gate.reservation(given.action, given.round)
    if held is None or held.grant != given.grant or held.kept:
        return draft.decided(unchanged="known")
    draft.add_to_gate(
        ReservationKept(
            version=_next(draft), action=given.action, round=given.round, grant=given.grant
        )
    )
    return draft.decided()


def closed(draft: Draft, given: GateClose) -> Decided:
    """Take a reservation back, and let in who waits longest."""
    held = None if draft.gate is None else draft.gate.reservation(given.action, given.round)
    is_meant = held is not None and given.grant in {held.grant, None}
    if held is not None and is_meant:
        draft.add_to_gate(
            ReservationClosed(
                version=_next(draft),
                action=given.action,
                round=given.round,
                grant=held.grant,
                spent=given.spent and held.grant is not None,
            )
        )
        if gate_kind(given.gate) is GateKind.TARGET:
            _serve_queue(draft, given.gate)
    # Of what the action was never asked about it need not know that it is back.
    if held is None or held.kept:
        draft.send(GateTaken(key=given.action, gate=given.gate, round=given.round))
    return draft.decided(unchanged="closed_already")


def _serve_queue(draft: Draft, gate_key: str) -> None:
    gate = draft.gate
    if gate is None or next(gate.granted, None) is not None:
        return
    waits = next(gate.queue, None)
    if waits is None:
        return
    draft.add_to_gate(
        ReservationGranted(
            version=_next(draft),
            action=waits.action,
            round=waits.round,
            grant=gate.next_grant,
            demand=dict(waits.demand),
            identity=waits.identity,
        )
    )
    _say_held(draft, gate_key, waits.action, waits.round)


def send_grants_due(draft: Draft) -> None:
    """Send again every grant that its action has not answered in time."""
    gate = draft.gate
    for held in () if gate is None else gate.reservations:
        if held.due_at is None or held.due_at > draft.now or held.grant is None:
            continue
        draft.add_to_gate(
            ReservationSentAgain(
                version=_next(draft),
                action=held.action,
                round=held.round,
                grant=held.grant,
                sends=held.sends + 1,
            )
        )
        _say_granted(draft, draft.stream.key, held)


# --- what an agent says of its run ---------------------------------------------------------------


def report_step(draft: Draft, given: ReportStep) -> Decided:
    """Count what an agent says that a step took. It is told which ceilings it has reached."""
    try:
        is_run = gate_kind(given.gate) is GateKind.RUN
    except MalformedId:
        is_run = False
    if not is_run:
        return refused_by(Rejection.MALFORMED_KEY)
    others = sorted(given.amounts.keys() - (REPORTED - {STEPS}))
    if others:
        return Decided(refused=Refused(code=Rejection.INVALID_REQUEST, details=_foreign(others)))
    gate = draft.gate
    known = None if gate is None else gate.reporter(given.reporter)
    if known is not None and known.principal != given.principal:
        return refused_by(Rejection.OTHER_REPORTER)
    if known is not None and given.step <= known.step:
        return draft.decided(unchanged="step_known")
    if known is None and gate is not None and len(gate.reporters) >= REPORTERS_MAX:
        return refused_by(Rejection.TOO_MANY_REPORTERS)
    amounts = {STEPS: 1, **given.amounts}
    reported = StepReported(
        version=_next(draft),
        principal=given.principal,
        reporter=given.reporter,
        step=given.step,
        amounts=amounts,
    )
    reached = reached_by_run(evolve_gate(gate, reported, draft.now), draft.config, draft.now)
    draft.add_to_gate(reported.model_copy(update={"reached": reached or None}))
    return draft.decided()


def _foreign(names: list[str]) -> tuple[Detail, ...]:
    known = ", ".join(sorted(REPORTED - {STEPS}))
    return tuple(
        Detail(
            path=f"/amounts/{name}", code="not_reported", message=f"an agent reports only {known}"
        )
        for name in names
    )


def reached_by_run(gate: Gate | None, config: Config, now: int) -> tuple[Reaching, ...]:
    """Every ceiling of a run that it has used up, whether or not a row of the table names it."""
    per_run = (one for one in config.policy.ceilings if one.per == "run")
    found = (one.reached(gate, {}, now) for one in per_run)
    return tuple(one for one in found if one is not None)
