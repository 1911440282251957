"""From an input to the rule that decides it."""

from typing import assert_never

from ledger.core import inputs as i
from ledger.core.config import Config
from ledger.core.decide import gates, gating
from ledger.core.decide.approvals import judge
from ledger.core.decide.asking import ask_again, preview_read
from ledger.core.decide.attempts import decline, report, report_of_caller
from ledger.core.decide.consequences import follow
from ledger.core.decide.draft import Decided, Draft
from ledger.core.decide.evidence import weigh
from ledger.core.decide.intake import cancel, propose
from ledger.core.decide.resolving import resolve
from ledger.core.decide.sagas import cancel_saga, open_saga
from ledger.core.decide.schedule import awaits_offer, start
from ledger.core.decide.time import tick
from ledger.core.evolve import Place
from ledger.core.offers import Offer
from ledger.core.state import Stream
from ledger.core.statement import Resolution


def judged(draft: Draft, given: i.Judged) -> Decided:
    """Count what a person signed and, where capacity is at hand, start in the same decision."""
    said = given.statement
    decided = resolve(draft, given, said) if isinstance(said, Resolution) else judge(draft, given)
    action = draft.stream.action(given.key)
    if draft.facts and action is not None and awaits_offer(action, draft.now):
        operation = draft.operation(action)
        if operation is not None:
            start(draft, given.key, operation)
        return draft.decided()
    return decided


def decide(
    stream: Stream, config: Config, given: i.Decidable, place: Place, offer: Offer | None = None
) -> Decided:
    """Decide one input with all actions of its stream in view; `offer` is capacity that a start may
    spend.

    Raises BrokenInvariantError only for a fault of ours; the caller quarantines the input and the
    state stays as it was.
    """
    draft = Draft(stream, config, place, offer)
    decided = _by_rule(draft, given)
    # With time a catalogue comes too, and with it what an action has yet to ask for.
    may_follow = bool(draft.facts) or isinstance(given, i.Tick)
    if not may_follow or decided.refused is not None or draft.is_of_its_own:
        return decided
    follow(draft)
    if isinstance(given, i.GateAnswer):
        _start_if_ready(draft, given.key)
    return draft.decided()


def _start_if_ready(draft: Draft, key: str) -> None:
    action = draft.action(key)
    operation = draft.operation(action)
    if operation is not None and awaits_offer(action, draft.now):
        start(draft, key, operation)


def _by_rule(draft: Draft, given: i.Decidable) -> Decided:
    match given:
        case i.Propose():
            return propose(draft, given)
        case i.Report():
            return report(draft, given)
        case i.Cancel():
            return cancel(draft, given)
        case i.OpenSaga():
            return open_saga(draft, given)
        case i.CancelSaga():
            return cancel_saga(draft, given)
        case i.Judged():
            return judged(draft, given)
        case i.AskAgain():
            return ask_again(draft, given)
        case i.PreviewRead():
            return preview_read(draft, given)
        case i.CallerReport():
            return report_of_caller(draft, given)
        case i.Decline():
            return decline(draft, given)
        case i.Evidence():
            return weigh(draft, given)
        case i.ReportStep():
            return gates.report_step(draft, given)
        case i.GateAsk() | i.GateKeep() | i.GateClose():
            return _at_gate(draft, given)
        case i.GateAnswer():
            return gating.answered(draft, given)
        case i.GateTaken():
            return gating.taken_back(draft, given)
        case i.Tick():
            return tick(draft)
        case _:
            assert_never(given)


def _at_gate(draft: Draft, given: i.GateAsk | i.GateKeep | i.GateClose) -> Decided:
    match given:
        case i.GateAsk():
            return gates.asked(draft, given)
        case i.GateKeep():
            return gates.kept(draft, given)
        case i.GateClose():
            return gates.closed(draft, given)
        case _:
            assert_never(given)
