"""Seeded bugs at gates: what is asked, granted, queued and given back, on either side."""

from typing import Final

from ledger.core import evolve_claims
from ledger.core import gates as gate_state
from ledger.core import inputs as i
from ledger.core.ceilings import Ceiling
from ledger.core.config import Config
from ledger.core.decide import gates, gating
from ledger.core.decide import time as ticking
from ledger.core.decide.draft import Decided, Draft
from ledger.core.decide.gate_demands import Wanted, target_gates
from ledger.core.facts import GateAnswered
from ledger.core.gates import Claim, ClaimStatus, Gate, Reaching
from ledger.core.ids import GateKind, gate_kind
from ledger.core.state import Action, Status
from tests.simulation.sabotage import Saboteur, no_invariants

# --- the action's side ---------------------------------------------------------------------------

_original_is_over = gating._is_over


def _dead_actions_hold(action: Action, claim: Claim, config: Config) -> bool:
    """What was taken back or has expired keeps what it was granted."""
    return action.status is Status.COMPLETED or (
        not action.is_final and _original_is_over(action, claim, config)
    )


def _reviewed_actions_hold(action: Action, claim: Claim, config: Config) -> bool:
    """What waits for a person without an effect keeps its other budgets when one is refused."""
    if action.status is Status.NEEDS_REVIEW:
        return False
    return _original_is_over(action, claim, config)


def _open_actions_give_back(action: Action, claim: Claim, config: Config) -> bool:
    """What nobody knows the end of gives back what it holds as if nothing had happened."""
    is_unknown = action.status in {Status.UNKNOWN, Status.NEEDS_REVIEW}
    return is_unknown or _original_is_over(action, claim, config)


def _spends_what_has_completed(draft: Draft, key: str, claim: Claim) -> None:
    spent = claim.grant is not None and draft.action(key).status is Status.COMPLETED
    gating._close(draft, key, claim, spent=spent, sends=1)


_original_missing = gating.missing


def _targets_as_they_are_named(action: Action, config: Config, now: int) -> tuple[Wanted, ...]:
    """Targets are asked in the order in which the request names them."""
    wanted = _original_missing(action, config, now)
    if not wanted or gate_kind(wanted[0].gate) is not GateKind.TARGET:
        return wanted
    operation = config.operation(action.request.operation, action.request.version)
    taken = {one.gate for one in action.claims if one.is_held}
    named = [gate for gate in target_gates(action, operation) if gate not in taken]
    return tuple(Wanted(gate, identity=wanted[0].identity) for gate in named[:1])


_original_answered = gating.answered


def _takes_every_answer(draft: Draft, given: i.GateAnswer) -> Decided:
    """A grant that comes a second time is taken a second time."""
    action = draft.stream.action(given.key)
    claim = None if action is None else action.claim(given.gate, given.round)
    if claim is None or claim.status is not ClaimStatus.GRANTED or given.outcome != "granted":
        return _original_answered(draft, given)
    draft.add(
        GateAnswered(
            action=given.key,
            version=draft.version(given.key),
            gate=given.gate,
            round=given.round,
            outcome="granted",
            grant=given.grant,
        )
    )
    return draft.decided()


def _ignores_what_is_not_wanted(draft: Draft, given: i.GateAnswer) -> Decided:
    """A grant that nobody waits for any more is nobody's affair."""
    decided = _original_answered(draft, given)
    if decided.unchanged is not None and decided.unchanged.reason == "not_wanted":
        return Decided(unchanged=decided.unchanged)
    return decided


def _any_round(self: Action, gate: str, round_: int) -> Claim | None:
    """An answer counts for whatever was asked of that gate last."""
    return next((one for one in reversed(self.claims) if one.gate == gate), None)


def _says_nothing(draft: Draft, claim: Claim, given: i.GateAnswer) -> None:
    """The gate is never told that a grant is kept."""


def _sends_once(draft: Draft, key: str) -> None:
    """What no gate has answered is not said again."""


def _is_never_uncounted(draft: Draft, action: Action) -> tuple[Wanted, ...]:
    """An effect that comes to light after the end is no gate's affair."""
    return ()


def _passes_every_ceiling(action: Action) -> tuple[str, ...]:
    """What a person lets pass of one is let pass of all."""
    return () if action.gates is None else (*action.allowed, *action.gates.ceilings)


def _windows_of_greenwich(self: Ceiling, at: int) -> str:
    """A day is a day in Greenwich, wherever its ceiling is."""
    utc = self.model_copy(update={"zone": "UTC"})
    return _original_window_at(utc, at)


_original_window_at = Ceiling.window_at

# --- the gate's side -----------------------------------------------------------------------------

_original_closed = gates.closed


def _releases_what_there_is(draft: Draft, given: i.GateClose) -> Decided:
    """Whatever an action gives back, it is what it has now: a word that comes late takes a grant
    that is at work.
    """
    gate = draft.gate
    held = None
    if gate is not None:
        held = next((one for one in gate.granted if one.action == given.action), None)
    if held is not None:
        given = given.model_copy(update={"round": held.round, "grant": held.grant})
    return _original_closed(draft, given)


def _nothing_is_spent(draft: Draft, given: i.GateClose) -> Decided:
    """What comes back is free again, whatever became of it."""
    return _original_closed(draft, given.model_copy(update={"spent": False}))


def _lets_nobody_in(draft: Draft, gate_key: str) -> None:
    """Nobody wakes who waits."""


_original_serve = gates._serve_queue


def _serves_who_came_last(draft: Draft, gate_key: str) -> None:
    """Who came last is let in first."""
    gate = draft.gate
    if gate is None or next(gate.granted, None) is not None or next(gate.queue, None) is None:
        return
    last = tuple(gate.queue)[-1]
    draft.add_to_gate(
        gate_state.ReservationGranted(
            version=gate.version + 1,
            action=last.action,
            round=last.round,
            grant=gate.next_grant,
            demand=dict(last.demand),
            identity=last.identity,
        )
    )
    gates._say_held(draft, gate_key, last.action, last.round)


def _holds_no_target(gate: Gate | None, given: i.GateAsk) -> str | None:
    """A target is held by whoever asks for it."""
    return None


def _knows_no_ceiling(
    gate: Gate | None, given: i.GateAsk, config: Config, now: int
) -> Reaching | None:
    """Nothing is ever used up."""
    return None


_original_reached = gates._reached


def _passed_once_passed_for_all(
    gate: Gate | None, given: i.GateAsk, config: Config, now: int
) -> Reaching | None:
    """A ceiling that a person has let one pass is passed by everybody."""
    known = () if gate is None else gate.reservations
    over = {name for one in known for name in one.over or ()}
    passes = given.model_copy(update={"over": (*(given.over or ()), *sorted(over))})
    return _original_reached(gate, passes, config, now)


def _never_asks_again(draft: Draft) -> None:
    """A grant that nobody has answered stays where it is."""


_original_report_step = gates.report_step


def _counts_every_report(draft: Draft, given: i.ReportStep) -> Decided:
    """A step counts as often as it is said."""
    gate = draft.gate
    known = () if gate is None else gate.reporters
    if not any(one.name == given.reporter and one.step >= given.step for one in known):
        return _original_report_step(draft, given)
    assert gate is not None
    draft.add_to_gate(
        gate_state.StepReported(
            version=gate.version + 1,
            principal=given.principal,
            reporter=given.reporter,
            step=given.step,
            amounts={"steps": 1, **given.amounts},
        )
    )
    return draft.decided()


GATES: Final[dict[str, Saboteur]] = {
    "grant_to_a_dead_action": Saboteur(
        "what was taken back or has expired keeps its grants",
        13,
        ((gating, "_is_over", _dead_actions_hold),),
    ),
    "double_release": Saboteur(
        "a close that comes late releases what the action holds now",
        56,
        ((gates, "closed", _releases_what_there_is),),
    ),
    "lost_wake_up": Saboteur(
        "nobody lets in who waits for a target",
        23,
        ((gates, "_serve_queue", _lets_nobody_in),),
    ),
    "release_while_open": Saboteur(
        "what nobody knows the end of gives its budgets back",
        106,
        (
            (gating, "_is_over", _open_actions_give_back),
            (gating, "_give_back", _spends_what_has_completed),
        ),
    ),
    "order_reversed": Saboteur(
        "targets are asked as the request names them, so two actions may wait for each other",
        7,
        ((gating, "missing", _targets_as_they_are_named),),
    ),
    "answer_taken_twice": Saboteur(
        "a grant that comes twice is taken twice",
        2,
        (
            (gating, "answered", _takes_every_answer),
            (evolve_claims, "invariant", no_invariants),
        ),
    ),
    "keep_not_sent": Saboteur(
        "a gate that asks is never told that its grant is kept",
        55,
        ((gating, "_keep", _says_nothing),),
    ),
    "round_ignored": Saboteur(
        "an answer to an earlier question counts for a later one",
        55,
        ((Action, "claim", _any_round), (evolve_claims, "invariant", no_invariants)),
    ),
    "refused_budget_keeps_the_others": Saboteur(
        "one budget is refused, and the others stay reserved while a person looks",
        2,
        ((gating, "_is_over", _reviewed_actions_hold),),
    ),
    "queue_served_last_in_first_out": Saboteur(
        "who came last to a target is let in first",
        534,
        ((gates, "_serve_queue", _serves_who_came_last),),
    ),
    "late_grant_not_given_back": Saboteur(
        "a grant that nobody waits for any more is left lying",
        56,
        ((gating, "answered", _ignores_what_is_not_wanted),),
    ),
    "window_of_the_wrong_zone": Saboteur(
        "a day begins at midnight in Greenwich",
        2,
        ((Ceiling, "window_at", _windows_of_greenwich),),
    ),
    "over_applied_to_everybody": Saboteur(
        "a ceiling that a person let one action pass is passed by all",
        1239,
        ((gates, "_reached", _passed_once_passed_for_all),),
    ),
    "over_without_a_person": Saboteur(
        "an action passes the ceilings of its row by itself",
        2,
        ((gating, "_let_pass", _passes_every_ceiling),),
    ),
    "forced_not_asked_on_late_evidence": Saboteur(
        "an effect that comes to light after the end guards no target",
        395,
        ((gating, "_uncounted", _is_never_uncounted),),
    ),
    "resend_never": Saboteur(
        "what no gate has answered is not said again",
        75,
        ((ticking, "send_due", _sends_once),),
    ),
    "gate_never_asks_again": Saboteur(
        "a grant that nobody has answered is not sent again",
        55,
        ((ticking, "send_grants_due", _never_asks_again),),
    ),
    "nothing_is_spent": Saboteur(
        "what had its effect is free again",
        2,
        ((gates, "closed", _nothing_is_spent),),
    ),
    "ceiling_not_checked": Saboteur(
        "a gate reserves whatever is asked",
        2,
        ((gates, "_reached", _knows_no_ceiling),),
    ),
    "target_shared": Saboteur(
        "a target is held by whoever asks for it",
        23,
        ((gates, "_holder", _holds_no_target),),
    ),
    "step_counts_twice": Saboteur(
        "a step counts as often as it is said",
        7,
        (
            (gates, "report_step", _counts_every_report),
            (gate_state, "invariant", no_invariants),
        ),
    ),
}
