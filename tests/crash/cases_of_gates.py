"""An action that passes gates, added to the small run, and every way in which that can be wrong:
the proof that the laws of gates find something.
"""

from collections.abc import Callable, Iterator

from tests.crash import laws_of_gates as gates
from tests.crash import laws_of_rows as rows
from tests.crash.evidence import Finding, Json, Run
from tests.crash.plain_fold import Folded
from tests.crash.small_run import T0, SmallRun, build, start, stream_of

Broken = Callable[[Run], Run]
Law = Callable[[Run, Folded], Iterator[Finding]]
PAYS = "charge:v1:acme:event-7"
OTHER = "charge:v1:acme:event-8"
RUN, TARGET = "acme/run:nightly", "acme/target:order:7"
POLICY = """
[[ceiling]]
name = "run"
per = "run"
side_effects = 1
"""
ONE: Json = {"side_effects": 1}


def granted(version: int, action: str = PAYS, **changes: object) -> Json:
    """A gate reserves what an action asks for."""
    named = {"action": action, "round": 3, "grant": 1, "demand": ONE}
    return {"type": "reservation.granted", "version": version, **named, **changes}


def closed(version: int, *, spent: bool, **changes: object) -> Json:
    """A gate takes back what it reserved."""
    named = {"action": PAYS, "round": 3, "grant": 1, "spent": spent}
    return {"type": "reservation.closed", "version": version, **named, **changes}


def claimed(kind: str, gate: str, round_: int, **more: object) -> Json:
    """What the action asks of a gate or hears from it."""
    return {"type": f"gate.{kind}", "action": PAYS, "gate": gate, "round": round_, **more}


ASKED: Json = {"sends": 1, "demand": ONE, "ceilings": ["run"]}
LET_IN: Json = {"outcome": "granted", "grant": 1}
BACK: Json = {"sends": 1, "grant": 1, "spent": True}


def passes(run_gate: tuple[Json, ...], *, is_let_in: bool = True, is_over: bool = True) -> Broken:
    """The small run, and an action that passes the gates of its run and of its target; `run_gate`
    is what the gate of its run says.
    """

    def broken(_run: Run) -> Run:
        one = build()
        adopted = {"kind": "policy", "content": POLICY, "content_hash": "sha256:p", "offset": 9}
        one.decide("config", 9, adopted=adopted)
        _asks(one)
        for fact in run_gate[:1]:
            one.decide("internal", 50, stream=RUN, gate=[fact])
        one.decide("internal", 51, stream=TARGET, gate=[granted(1, round=4, demand={})])
        if is_let_in:
            _is_told(one)
        one.decide("attempts", 90, start(PAYS, 1, T0), stream=stream_of(PAYS))
        _ends(one, is_over=is_over)
        for fact in run_gate[1:]:
            one.decide("internal", 60, stream=RUN, gate=[fact])
        one.decide("internal", 61, stream=TARGET, gate=[closed(2, spent=True, round=4)])
        return one.run()

    return broken


def _asks(one: SmallRun) -> None:
    recorded = {
        "type": "intent.recorded",
        "action": PAYS,
        "request": {"operation": "charge", "version": 1, "target": "order:7"},
        "request_hash": "hash",
        "provider": "simulated",
        "account": "main",
        "reliability": "keyed",
        "step_deadline_at": T0 + 60_000,
        "run": "nightly",
    }
    ruled = {"row": "gated", "policy_hash": "sha256:p", "outcome": "automatic"}
    has = {"gates": {"ceilings": ["run"], "target": True}}
    policy = {"type": "policy.decided", "action": PAYS, **ruled, **has}
    one.decide(
        "intents",
        90,
        recorded,
        policy,
        claimed("asked", RUN, 3, **ASKED),
        claimed("asked", TARGET, 4, **ASKED),
        stream=stream_of(PAYS),
    )


def _is_told(one: SmallRun) -> None:
    for gate, round_ in ((RUN, 3), (TARGET, 4)):
        answered = claimed("answered", gate, round_, **LET_IN)
        one.decide("internal", 52, answered, stream=stream_of(PAYS))


def _ends(one: SmallRun, *, is_over: bool) -> None:
    completed = {"type": "action.completed", "action": PAYS, "proof": "report", "reference": "x"}
    back = [
        claimed("closing", gate, round_, **BACK)
        for gate, round_ in ((RUN, 3), (TARGET, 4))
        if is_over
    ]
    one.decide("attempts", 91, completed, *back, stream=stream_of(PAYS))


def without_gates(run: Run) -> Run:
    """Everything as it should be, and the tables know of no gate."""
    right = RIGHT(run)
    right.tables = {**right.tables, "gates": [], "gate_reservations": []}
    return right


RIGHT = passes((granted(1), closed(2, spent=True)))
"""What keeps every law of gates."""

CASES_OF_GATES: tuple[tuple[Law, str, Broken], ...] = (
    (gates.s19_accounts, "a number again", passes((granted(1), granted(2, OTHER)))),
    (gates.s19_accounts, "a number left out", passes((granted(1, grant=2),))),
    (gates.s19_accounts, "twice", passes((granted(1), granted(2, grant=2)))),
    (
        gates.s19_accounts,
        "back twice",
        passes((granted(1), closed(2, spent=True), closed(3, spent=False))),
    ),
    (gates.s19_accounts, "a gap", passes((granted(1), closed(3, spent=True)))),
    (
        gates.s19_accounts,
        "a step twice",
        passes(
            (
                granted(1),
                *(
                    {"type": "step.reported", "version": n, "reporter": "a", "step": 1}
                    | {"principal": "agent:a", "amounts": {"steps": 1}}
                    for n in (2, 3)
                ),
            )
        ),
    ),
    (
        gates.s19_accounts,
        "a step of another reporter",
        passes(
            (
                granted(1),
                *(
                    {"type": "step.reported", "version": n, "reporter": "a", "step": n}
                    | {"principal": f"agent:{n}", "amounts": {"steps": 1}}
                    for n in (2, 3)
                ),
            )
        ),
    ),
    (
        gates.s19_accounts,
        "a start that was not let in",
        passes((granted(1), closed(2, spent=True)), is_let_in=False),
    ),
    (
        gates.s19_ceilings,
        "one more than there may be",
        passes((granted(1), granted(2, OTHER, grant=2))),
    ),
    (gates.s19_nothing_left, "held for what has ended", passes((granted(1),))),
    (
        gates.s19_nothing_left,
        "in the queue of nobody",
        passes(
            (
                granted(1),
                closed(2, spent=True),
                {"type": "reservation.queued", "version": 3, "action": OTHER, "round": 3}
                | {"demand": {}, "behind": PAYS},
            )
        ),
    ),
    (rows.s19_rows_of_gates, "no rows", without_gates),
)
