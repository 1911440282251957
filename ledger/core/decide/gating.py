"""What an action asks of gates, and what it makes of their answers.

Budgets are asked side by side, targets last and one by one in the order of their keys; a refusal
gives back whatever is held, so nothing waits in a circle. An action keeps what it was granted for
as long as its effect is there or may be. Every message follows from the claims in state: one that
is lost is sent again.
"""

from dataclasses import replace
from typing import Final

from ledger.core.config import Config
from ledger.core.decide.draft import Decided, Draft, refused_by
from ledger.core.decide.ending import review
from ledger.core.decide.gate_demands import Wanted, budgets, demand_of, identity_of, target_gates
from ledger.core.facts import (
    ActionCompleted,
    GateAnswered,
    GateAsked,
    GateClosed,
    GateClosing,
    GateKept,
)
from ledger.core.gates import Claim, ClaimStatus
from ledger.core.inputs import GateAnswer, GateAsk, GateClose, GateKeep, GateTaken
from ledger.core.order import has_something_to_undo
from ledger.core.rejections import Rejection
from ledger.core.reversals import AMOUNT_OF
from ledger.core.state import FINAL, Action, Status
from ledger.core.statement import Move

GIVES_BACK: Final = frozenset({Status.AWAITING_APPROVAL, Status.NEEDS_REVIEW}) | FINAL
"""Where an action holds nothing, unless its effect is there or may be."""


def missing(action: Action, config: Config, now: int) -> tuple[Wanted, ...]:
    """What the action has yet to ask for before it may start: its budgets; once it has all of
    them, its next target.
    """
    gates = action.gates
    if gates is None:
        return ()
    held = [one for one in action.claims if one.is_held]
    counted = tuple(budgets(action, config, now, held))
    if counted or any(one.status is not ClaimStatus.GRANTED for one in held) or not gates.target:
        return counted
    if action.blocked is not None:
        return ()
    operation = config.operation(action.request.operation, action.request.version)
    taken = {one.gate for one in held}
    targets = sorted(target_gates(action, operation))
    return tuple(
        Wanted(gate, identity=identity_of(action, operation))
        for gate in targets
        if gate not in taken
    )[:1]


def holds_its_gates(action: Action, config: Config, now: int) -> bool:
    """Whether no gate keeps the action from starting."""
    if action.gates is None:
        return True
    if action.is_open:
        # It has all it began with; what is declared since is asked of what begins.
        return not action.awaits_gates
    if not action.has_begun and reached_alone(action, config) is not None:
        return False
    return not action.awaits_gates and not missing(action, config, now)


# --- asking and giving back ----------------------------------------------------------------------


def follow_gates(draft: Draft, key: str) -> None:
    """Ask for what the action needs now, and give back what it needs no more."""
    action = draft.action(key)
    if action.gates is None and not action.claims:
        return
    uncounted = _uncounted(draft, action)
    _give_back_what_is_over(draft, key)
    for wanted in uncounted:
        _ask(draft, key, wanted, forced=True)
    if draft.action(key).status is Status.NEEDS_REVIEW:
        _force_what_waits(draft, key)
    elif _may_ask(draft.action(key)):
        _ask_for_missing(draft, key)
        _ask_with_what_was_allowed(draft, key)
        # Its own request may pass a ceiling, and then a person has it.
        _give_back_what_is_over(draft, key)


def _give_back_what_is_over(draft: Draft, key: str) -> None:
    for claim in draft.action(key).claims:
        if claim.is_held:
            action = draft.action(key)
            is_over = _is_over(action, claim, draft.config)
            if is_over or _is_too_little(draft, action, claim):
                _give_back(draft, key, claim)


def _is_too_little(draft: Draft, action: Action, claim: Claim) -> bool:
    """Whether the action has to ask anew: the gate of a budget about a further ceiling, so that it
    counts there once; or for a target that comes before the one that it has.
    """
    if claim.forced or action.has_begun:
        return False
    held = [one for one in action.claims if one.is_held]
    if not claim.ceilings:
        return _is_out_of_turn(draft, action, claim)
    wanted = budgets(action, draft.config, draft.now, held)
    return any(one.gate == claim.gate for one in wanted)


def _is_out_of_turn(draft: Draft, action: Action, claim: Claim) -> bool:
    """Whether a target comes before one that the action has: it was declared later, and is asked
    first, because everybody takes them in one order.
    """
    held = {one.gate for one in action.claims if one.is_held}
    return any(
        gate < claim.gate and gate not in held
        for gate in target_gates(action, draft.operation(action))
    )


def _may_ask(action: Action) -> bool:
    """Whether it is time to ask gates: not for what another action blocks, unless that is to undo
    it, for which there has to be room once it is needed.
    """
    is_free = action.blocked is None or action.blocked.reason in {"original_open", "planned"}
    return is_free and action.status in {Status.READY, Status.BLOCKED}


def _is_over(action: Action, claim: Claim, config: Config) -> bool:
    """Whether the action needs a claim no more."""
    if claim.forced:
        # What is there counts, so nothing of it is given back before the gate has granted it.
        is_counted = claim.grant is not None or not _is_there(action)
        return action.case is None and is_counted
    if action.is_final:
        return True
    is_reserved = action.status is Status.AWAITING_APPROVAL and _is_kept_for_undoing(action, claim)
    if action.status in GIVES_BACK and not action.has_effect and not is_reserved:
        return action.case is None or not action.case.tells_effect
    gates = action.gates
    if action.blocked is not None and not claim.ceilings:
        # What waits for another action of its stream keeps nobody from a target.
        return True
    if action.has_begun:
        return False
    if gates is None or _is_of_the_past(claim, config):
        return True
    if claim.ceilings:
        return not set(claim.ceilings) <= set(gates.ceilings)
    return not gates.target


def _is_of_the_past(claim: Claim, config: Config) -> bool:
    """Whether it is about a ceiling that is declared no more, which no gate would ever answer: also
    of an action that is not ruled anew before its turn, or that no operation is left to rule about.
    """
    return any(config.policy.ceiling(name) is None for name in claim.ceilings)


def _is_there(action: Action) -> bool:
    """Whether the effect is there, or may be, or a person has noted that it came to light late."""
    return action.has_effect or has_something_to_undo(action)


def _is_kept_for_undoing(action: Action, claim: Claim) -> bool:
    """Whether it is a budget of a compensation, which is reserved before its original begins."""
    return action.compensates is not None and bool(claim.ceilings)


def _uncounted(draft: Draft, action: Action) -> tuple[Wanted, ...]:
    """What no gate counts of an effect that is there or was told: it came to light when the action
    had given back what it held. Meanwhile nobody else gets its targets.
    """
    gates, case = action.gates, action.case
    is_told = case is not None and case.tells_effect
    completes = any(
        isinstance(fact, ActionCompleted) and fact.action == action.key for fact in draft.facts
    )
    if gates is None or not (is_told or completes):
        return ()
    held = [one for one in action.claims if one.is_held]
    taken, operation = {one.gate for one in held}, draft.operation(action)
    wanted: list[Wanted] = []
    if completes or not (action.status is Status.COMPLETED or _was_counted(action)):
        wanted += budgets(action, draft.config, draft.now, held)
    if gates.target or (action.is_final and not completes):
        identity, targets = identity_of(action, operation), target_gates(action, operation)
        wanted += [Wanted(gate, identity=identity) for gate in sorted(targets) if gate not in taken]
    return tuple(wanted)


def _was_counted(action: Action) -> bool:
    """Whether a person has noted an effect of the action before, which its budgets count since:
    what is told of it later is no second one. Of what was to undo something they may have noted no
    more than that it did not.
    """
    noted = action.resolved is not None and action.resolved.move is Move.ACKNOWLEDGE
    return noted and action.compensates is None


def _ask_for_missing(draft: Draft, key: str) -> None:
    action = draft.action(key)
    reached = reached_alone(action, draft.config)
    if reached is not None and not action.has_begun:
        review(draft, key, "ceiling_reached", reached)
        return
    for wanted in missing(action, draft.config, draft.now):
        _ask(draft, key, wanted)


def reached_alone(action: Action, config: Config) -> str | None:
    """The ceiling per action that its own request passes, or the one per run that cannot count it
    because it names none, unless a person has let it pass.
    """
    for name in () if action.gates is None else action.gates.ceilings:
        ceiling = config.policy.ceiling(name)
        if ceiling is None or name in action.allowed:
            continue
        if ceiling.per == "run" and action.run is None:
            return name
        if ceiling.per == "action" and ceiling.reached_by(demand_of(action.request)) is not None:
            return name
    return None


def _force_what_waits(draft: Draft, key: str) -> None:
    """Its effect came to light while it waited for gates: what it still waits for counts by force.
    What is over was given back before.
    """
    for claim in draft.action(key).claims:
        if claim.status in {ClaimStatus.ASKED, ClaimStatus.QUEUED} and not claim.forced:
            ask_again(draft, key, replace(claim, forced=True))


def _ask_with_what_was_allowed(draft: Draft, key: str) -> None:
    """A person lets the action pass the one that it waits behind: the gate is told."""
    action = draft.action(key)
    for claim in action.claims:
        is_news = claim.behind in action.allowed and claim.behind not in claim.over
        if claim.status is ClaimStatus.QUEUED and is_news:
            ask_again(draft, key, claim)


def _ask(draft: Draft, key: str, wanted: Wanted, *, forced: bool = False) -> None:
    action, operation = draft.action(key), None
    if not forced:
        operation = draft.operation(action)
    round_ = draft.version(key)
    over = _let_pass(action)
    wait_until = None
    if operation is not None:
        wait_until = draft.now + operation.deadlines.people_ms
        if action.caller_deadline_at is not None:
            wait_until = min(wait_until, action.caller_deadline_at)
        wait_until = action.wait_until or wait_until
    if action.blocked is not None:
        wait_until = action.wait_until
    draft.add(
        GateAsked(
            action=key,
            version=round_,
            gate=wanted.gate,
            round=round_,
            sends=1,
            demand=dict(wanted.demand),
            ceilings=wanted.ceilings,
            identity=wanted.identity,
            over=over or None,
            forced=forced or None,
            wait_until=wait_until,
        )
    )
    _say_ask(draft, key, wanted.gate, round_)


def _let_pass(action: Action) -> tuple[str, ...]:
    """Ceilings and actions that the action may pass: what a person signed, and what it revises."""
    allowed = tuple(name for name in action.allowed if not name.startswith(AMOUNT_OF))
    return allowed if action.revises is None else (*allowed, action.revises)


def ask_again(draft: Draft, key: str, claim: Claim) -> None:
    """Nobody has answered, or there is more to say: the same question once more."""
    over = _let_pass(draft.action(key))
    draft.add(
        GateAsked(
            action=key,
            version=draft.version(key),
            gate=claim.gate,
            round=claim.round,
            sends=claim.sends + 1,
            demand=dict(claim.demand),
            ceilings=claim.ceilings,
            identity=claim.identity,
            over=over or None,
            forced=claim.forced or None,
        )
    )
    _say_ask(draft, key, claim.gate, claim.round)


def _say_ask(draft: Draft, key: str, gate: str, round_: int) -> None:
    claim = draft.action(key).claim(gate, round_)
    if claim is not None:
        draft.send(
            GateAsk(
                gate=gate,
                action=key,
                round=round_,
                demand=dict(claim.demand),
                ceilings=claim.ceilings,
                identity=claim.identity,
                over=claim.over or None,
                forced=claim.forced or None,
            )
        )


def _give_back(draft: Draft, key: str, claim: Claim) -> None:
    spent = claim.grant is not None and _is_there(draft.action(key))
    _close(draft, key, claim, spent=spent, sends=1)


def _close(draft: Draft, key: str, claim: Claim, *, spent: bool, sends: int) -> None:
    draft.add(
        GateClosing(
            action=key,
            version=draft.version(key),
            gate=claim.gate,
            round=claim.round,
            sends=sends,
            grant=claim.grant,
            spent=spent,
            step_deadline_at=_step_deadline(draft, key, claim),
        )
    )
    draft.send(
        GateClose(gate=claim.gate, action=key, round=claim.round, grant=claim.grant, spent=spent)
    )


def send_due(draft: Draft, key: str) -> None:
    """Send again what no gate has answered in time; what is needed no more is given back anyway."""
    for claim in draft.action(key).claims:
        due_at = claim.due_at
        if due_at is None or due_at > draft.now:
            continue
        if claim.is_held and _is_over(draft.action(key), claim, draft.config):
            _give_back(draft, key, claim)
        elif claim.status is ClaimStatus.CLOSING:
            _close(draft, key, claim, spent=claim.spent, sends=claim.sends + 1)
        else:
            ask_again(draft, key, claim)


# --- answers -------------------------------------------------------------------------------------


def answered(draft: Draft, given: GateAnswer) -> Decided:
    """Take a gate's answer; a grant that nobody waits for goes back at once."""
    action = draft.stream.action(given.key)
    if action is None:
        # Nobody asked for it: what the gate holds for nobody would stand in the way of all.
        back = () if given.outcome == "refused" else (_unwanted(given, None),)
        return replace(refused_by(Rejection.UNKNOWN_ACTION), messages=back)
    claim = action.claim(given.gate, given.round)
    if claim is None or not claim.is_held:
        if given.outcome != "refused":
            draft.send(_unwanted(given, claim))
        return draft.decided(unchanged="not_wanted")
    if claim.status is ClaimStatus.GRANTED:
        if given.outcome == "granted" and given.grant == claim.grant:
            _keep(draft, claim, given)
        return draft.decided(unchanged="answered_already")
    if given.outcome != "granted" and claim.forced:
        # The answer to what was asked before its effect came to light.
        return draft.decided(unchanged="not_wanted")
    if given.outcome == "queued" and claim.behind == given.behind:
        return draft.decided(unchanged="answered_already")
    _take_answer(draft, given, claim)
    return draft.decided()


def _unwanted(given: GateAnswer, claim: Claim | None) -> GateClose:
    """What is said of something that nobody waits for; the same again where that was said."""
    grant = given.grant
    if claim is not None and given.outcome == "queued":
        # It was granted since: what a late word of the queue leads to must not free that.
        grant = claim.grant
    spent = claim is not None and claim.spent and claim.grant == grant
    return GateClose(gate=given.gate, action=given.key, round=given.round, grant=grant, spent=spent)


def _keep(draft: Draft, claim: Claim, given: GateAnswer) -> None:
    """The gate has sent a grant again: it is told that it need not, and most actions are over
    before it has to.
    """
    key, grant = given.key, given.grant or 0
    if not claim.kept:
        draft.add(
            GateKept(
                action=key,
                version=draft.version(key),
                gate=given.gate,
                round=given.round,
                grant=grant,
            )
        )
    draft.send(GateKeep(gate=given.gate, action=key, round=given.round, grant=grant))


def _take_answer(draft: Draft, given: GateAnswer, claim: Claim) -> None:
    key = given.key
    deadline_at = None
    if given.outcome == "granted":
        deadline_at = _step_deadline(draft, key, claim)
    draft.add(
        GateAnswered(
            action=key,
            version=draft.version(key),
            gate=given.gate,
            round=given.round,
            outcome=given.outcome,
            grant=given.grant,
            behind=given.behind,
            reason=given.reason,
            reached=given.reached,
            like=given.like,
            step_deadline_at=deadline_at,
        )
    )
    if given.outcome == "refused" and not draft.action(key).is_final:
        names = given.like if given.reached is None else given.reached.ceiling
        review(draft, key, given.reason or "gate_full", names)


def _step_deadline(draft: Draft, key: str, claim: Claim) -> int | None:
    """The end of the step, which begins when nothing blocks the action any more."""
    action = draft.action(key)
    others = any(
        one.status in {ClaimStatus.ASKED, ClaimStatus.QUEUED} and one is not claim
        for one in action.claims
    )
    operation = draft.operation(action)
    if others or operation is None or action.status is not Status.BLOCKED:
        return None
    end = draft.now + operation.deadlines.step_ms
    return end if action.caller_deadline_at is None else min(end, action.caller_deadline_at)


def taken_back(draft: Draft, given: GateTaken) -> Decided:
    """The gate has what the action gave back."""
    action = draft.stream.action(given.key)
    if action is None:
        return refused_by(Rejection.UNKNOWN_ACTION)
    claim = action.claim(given.gate, given.round)
    if claim is None or claim.status is not ClaimStatus.CLOSING:
        return draft.decided(unchanged="not_wanted")
    draft.add(
        GateClosed(
            action=given.key,
            version=draft.version(given.key),
            gate=given.gate,
            round=given.round,
        )
    )
    return draft.decided()
