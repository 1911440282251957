"""Gates and what is said to them and by them: a run, a window, a target, every fact of each kind
and every message, with everything filled in that a test does not care about.

Times are milliseconds after T0, as in `tests.examples`. Nothing here decides anything.
"""

from typing import Final

from ledger.core import facts as f
from ledger.core import gates as g
from ledger.core import inputs as i
from ledger.core.ids import GateKind, gate_key
from ledger.core.policy import Gates
from ledger.core.request import request_hash
from tests import examples as e

RUN: Final = "run-7"
RUN_GATE: Final = gate_key("acme", GateKind.RUN, RUN)
WINDOW_GATE: Final = gate_key("acme", GateKind.WINDOW, "day:2027-01-15")
TARGET_GATE: Final = gate_key("acme", GateKind.TARGET, "order:A-1842")

DEMAND: Final = {g.SIDE_EFFECTS: 1, g.spend("EUR"): 4_990}
PASSES: Final = Gates(ceilings=("run",), target=True)
REACHED: Final = g.Reaching(ceiling="run", dimension=g.spend("EUR"), taken=9_000, limit=10_000)


def identity(key: str = e.CHARGE, *, run: str | None = RUN, window_ms: int = 60_000) -> g.Identity:
    """What is asked for at a target."""
    asked = e.request(key)
    return g.Identity(
        operation=asked.operation,
        request_hash=request_hash(asked),
        run=run,
        look_alike_ms=window_ms,
    )


# --- facts of an action --------------------------------------------------------------------------


def blocked(
    reason: str = "revised_open", *, by: str = f"{e.CHARGE}~2", key: str = e.CHARGE, until: int = 9
) -> f.ActionBlocked:
    """The action waits for another one of its stream."""
    said = {"reason": reason, "by": by, "wait_until": e.T0 + until}
    return f.ActionBlocked.model_validate({"action": key, "version": 0, **said})


def superseded(*, key: str = e.CHARGE) -> f.ActionSuperseded:
    """A revision took its place."""
    return f.ActionSuperseded(action=key, version=0, by=f"{key}~2")


def asks_gate(
    gate: str = RUN_GATE, *, key: str = e.CHARGE, asked_at: int = 3, sends: int = 1
) -> f.GateAsked:
    """The action asks a gate, under the version `asked_at` at which it first did."""
    of_target = gate == TARGET_GATE
    return f.GateAsked(
        action=key,
        version=0,
        gate=gate,
        round=asked_at,
        sends=sends,
        demand={} if of_target else DEMAND,
        ceilings=() if of_target else ("run",),
        identity=identity(key) if of_target else None,
        wait_until=e.T0 + e.STEP_MS,
    )


def answered(
    outcome: str = "granted", gate: str = RUN_GATE, *, key: str = e.CHARGE, asked_at: int = 3
) -> f.GateAnswered:
    """What the gate said."""
    said: dict[str, object] = {}
    match outcome:
        case "granted":
            said = {"grant": 1}
        case "queued":
            said = {"behind": e.PAYOUT}
        case _:
            said = {"reason": "ceiling_reached", "reached": REACHED}
    place = {"action": key, "version": 0, "gate": gate, "round": asked_at}
    return f.GateAnswered.model_validate({**place, "outcome": outcome, **said})


def keeps(
    gate: str = RUN_GATE, *, key: str = e.CHARGE, asked_at: int = 3, grant: int = 1
) -> f.GateKept:
    """The action has told the gate that it has the grant."""
    return f.GateKept(action=key, version=0, gate=gate, round=asked_at, grant=grant)


def gives_back(
    gate: str = RUN_GATE,
    *,
    key: str = e.CHARGE,
    asked_at: int = 3,
    grant: int | None = 1,
    spent: bool = False,
    sends: int = 1,
) -> f.GateClosing:
    """The action needs it no more."""
    place = {"action": key, "version": 0, "gate": gate, "round": asked_at, "sends": sends}
    return f.GateClosing.model_validate({**place, "grant": grant, "spent": spent})


def is_taken_back(gate: str = RUN_GATE, *, key: str = e.CHARGE, asked_at: int = 3) -> f.GateClosed:
    """The gate has it back."""
    return f.GateClosed(action=key, version=0, gate=gate, round=asked_at)


# --- facts of a gate -----------------------------------------------------------------------------


def reserved(
    grant: int = 1, *, version: int = 1, key: str = e.CHARGE, asked_at: int = 3, **changes: object
) -> g.ReservationGranted:
    """A gate holds what an action asked for."""
    place = {"version": version, "action": key, "round": asked_at, "grant": grant}
    return g.ReservationGranted.model_validate({**place, "demand": DEMAND, **changes})


def gate_facts() -> tuple[g.AnyGateFact, ...]:
    """Every fact of a gate, with everything filled in."""
    place = {"action": e.CHARGE, "round": 3}
    return (
        reserved(identity=identity(), over=("day", e.PAYOUT), forced=True),
        g.ReservationQueued.model_validate(
            {"version": 2, **place, "demand": {}, "behind": e.PAYOUT, "identity": identity()}
        ),
        g.ReservationRefused.model_validate(
            {"version": 3, **place, "reason": "ceiling_reached", "reached": REACHED}
        ),
        g.ReservationKept.model_validate({"version": 4, **place, "grant": 1}),
        g.ReservationSentAgain.model_validate({"version": 5, **place, "grant": 1, "sends": 2}),
        g.ReservationClosed.model_validate({"version": 6, **place, "grant": 1, "spent": True}),
        g.StepReported(
            version=7,
            principal="agent:billing",
            reporter="agent",
            step=4,
            amounts={g.STEPS: 1, g.TOKENS: 9_000},
            reached=(REACHED,),
        ),
    )


# --- inputs --------------------------------------------------------------------------------------


def steps(
    step: int = 1, *, run: str = RUN, reporter: str = "agent", **amounts: int
) -> i.ReportStep:
    """What an agent says that a step of its run took."""
    return i.ReportStep(
        gate=gate_key("acme", GateKind.RUN, run),
        principal="agent:billing",
        reporter=reporter,
        step=step,
        amounts=amounts,
    )


def ask(gate: str = RUN_GATE, *, key: str = e.CHARGE, asked_at: int = 3) -> i.GateAsk:
    """An action asks a gate."""
    said = asks_gate(gate, key=key, asked_at=asked_at)
    return i.GateAsk(
        gate=gate,
        action=key,
        round=asked_at,
        demand=said.demand,
        ceilings=said.ceilings,
        identity=said.identity,
    )


def messages() -> dict[str, i.Message]:
    """Every message, with everything filled in, by the name of its type."""
    where = {"gate": TARGET_GATE, "round": 3}
    to_gate, to_action = {**where, "action": e.CHARGE}, {**where, "key": e.CHARGE}
    whole = {"over": ("day", e.PAYOUT), "forced": True, "generation": "generation-1"}
    refusal = {"reason": "ceiling_reached", "reached": REACHED}
    return {
        "gate.ask": ask(TARGET_GATE).model_copy(update={"ceilings": ("run",), **whole}),
        "gate.answer": i.GateAnswer.model_validate({**to_action, "outcome": "granted", "grant": 1}),
        "gate.answer.queued": i.GateAnswer.model_validate(
            {**to_action, "outcome": "queued", "behind": e.PAYOUT}
        ),
        "gate.answer.refused": i.GateAnswer.model_validate(
            {**to_action, "outcome": "refused", **refusal}
        ),
        "gate.answer.alike": i.GateAnswer.model_validate(
            {**to_action, "outcome": "refused", "reason": "suspected_duplicate", "like": e.PAYOUT}
        ),
        "gate.keep": i.GateKeep.model_validate({**to_gate, "grant": 1}),
        "gate.close": i.GateClose.model_validate({**to_gate, "grant": 1, "spent": True}),
        "gate.taken": i.GateTaken.model_validate(to_action),
    }
