"""The fold of what evidence tells: a part of `evolve`, called by nobody else.

What is remembered is a set: the same pieces in another order lead to the same.
"""

from dataclasses import replace
from typing import Final, TypeVar

from ledger.core import facts as f
from ledger.core.inputs import EvidenceKind, Meaning, Retry
from ledger.core.limits import NAMES_TOLD_MAX, REVERSALS_KEPT_MAX, SOURCES_KEPT_MAX
from ledger.core.money import Money
from ledger.core.proof import larger
from ledger.core.state import OF_REVERSALS, Action, Reversal, Told

_FURTHER: Final = "further"
"""What more was given back than is kept by name."""


def with_evidence(action: Action, fact: f.EvidenceRecorded) -> dict[str, object]:
    """The action with one more piece: its source, what it tells, and the question it answers."""
    changes: dict[str, object] = {
        "sources": (*action.sources, fact.source_id)[-SOURCES_KEPT_MAX:],
        "told": _told(action, fact),
    }
    if action.question is not None and fact.lookup == action.question.number:
        changes["question"] = None
    if action.lookup is None or fact.lookup != action.lookup.number:
        return changes
    # An answer that proves nothing is no answer: the question keeps its place in the schedule.
    answered = fact.meaning is not Meaning.INCONCLUSIVE
    return changes | {
        "lookup": None,
        "lookups_answered": action.lookups_answered + answered,
    }


def told_of_part(action: Action, fact: f.AttemptUnresolved) -> Told | None:
    """What is told once a holder has named the part of an effect that exists."""
    if fact.reference is None:
        return action.told
    told = _effect_told(action, action.told or Told(), fact.reference)
    return replace(told, done=_with(told.done, fact.attempt))


def told_of_refusal(action: Action, fact: f.AttemptRefused) -> Told | None:
    """What is told once a provider has refused for good."""
    if fact.retry is not Retry.NEVER:
        return action.told
    return replace(action.told or Told(), for_good=fact.code)


def told_of_name(action: Action, fact: f.ActionCompleted | f.AttemptSucceeded) -> Told | None:
    """What is told once an action has another name at its provider than it had."""
    if action.reference is None or action.reference == fact.reference:
        return action.told
    told = action.told or Told()
    return replace(told, effects=_with(told.effects, action.reference)[:NAMES_TOLD_MAX])


def told_of_case(action: Action, reason: str) -> Told | None:
    """What is told once a person was told of it too. What says of an effect how much of it there
    is stays, whichever case comes later and whichever reason a case is shown under.
    """
    if reason in OF_REVERSALS:
        return _raised(action)
    if reason == "second_effect":
        return replace(action.told or Told(), done_again=True)
    return action.told


def _raised(action: Action) -> Told | None:
    if action.told is None or not action.told.reversals:
        return action.told
    return replace(
        action.told, reversals=tuple(replace(one, raised=True) for one in action.told.reversals)
    )


def _told(action: Action, fact: f.EvidenceRecorded) -> Told | None:
    told = action.told or Told()
    match fact.meaning:
        case Meaning.EFFECT:
            told = _effect_told(action, told, fact.reference or action.key)
            if fact.kind is EvidenceKind.REPORT:
                told = replace(told, done=_with(told.done, fact.attempts_upto))
            elif _differs(action.request.money, fact.money):
                # Nobody can say any more how much of it there is: whatever else is told later.
                told = replace(told, other_amount=True)
        case Meaning.NO_EFFECT | Meaning.ABSENT:
            for number in fact.denies or ():
                told = replace(told, denied=_with(told.denied, number))
            if fact.reference is not None:
                told = replace(told, nothing=_with(told.nothing, fact.reference)[:NAMES_TOLD_MAX])
            if fact.for_good:
                told = replace(told, for_good=fact.code or "no_effect")
        case Meaning.REVERSED:
            told = replace(told, reversals=_given_back(told.reversals, reversal_of(action, fact)))
        case Meaning.PENDING:
            # What something is given back by may move for months: the effect was there.
            if fact.reference is not None and fact.reverses is None:
                told = replace(told, pending=_with(told.pending, fact.reference)[:NAMES_TOLD_MAX])
        case Meaning.INCONCLUSIVE:
            pass
    return action.told if told == Told() else told


def _differs(asked: Money | None, told: Money | None) -> bool:
    """Whether an effect is told with another amount than was asked for, or with none."""
    return asked is not None and told != asked


def _effect_told(action: Action, told: Told, name: str) -> Told:
    if name == action.reference:
        return told
    return replace(told, effects=_with(told.effects, name)[:NAMES_TOLD_MAX])


def _given_back(known: tuple[Reversal, ...], said: Reversal) -> tuple[Reversal, ...]:
    """What was given back with one more piece. Two pieces about the same are kept once, with the
    larger amount: which of them is wrong is for a person. What bears one name and is said of two
    effects is kept of each. Of more than can be told apart the sum is kept.
    """
    for place, one in enumerate(known):
        if (one.name, one.reverses) == (said.name, said.reverses):
            minor = larger(one.minor, said.minor)
            other = one.other_currency or said.other_currency
            raised = one.raised and minor == one.minor
            more = replace(one, minor=minor, other_currency=other, raised=raised)
            return (*known[:place], more, *known[place + 1 :])
    if len(known) < REVERSALS_KEPT_MAX:
        return (*known, said)
    amounts = [said.minor, *(one.minor for one in known[REVERSALS_KEPT_MAX:])]
    minor = None if None in amounts else sum(one or 0 for one in amounts)
    return (*known[:REVERSALS_KEPT_MAX], Reversal(_FURTHER, minor, reverses=said.reverses))


def reversal_of(action: Action, fact: f.EvidenceRecorded) -> Reversal:
    """What a piece says was given back. Without a name of its own, told apart from the effect's, it
    goes by its source. An amount in another currency is none that could be counted.
    """
    asked, money = action.request.money, fact.money
    is_told = money is not None and asked is not None
    is_counted = money is not None and asked is not None and money.currency == asked.currency
    has_name = fact.reverses is not None and fact.reference not in {None, fact.reverses}
    return Reversal(
        name=fact.reference if has_name and fact.reference is not None else fact.source_id,
        minor=money.minor if money is not None and is_counted else None,
        reference=fact.reference,
        reverses=fact.reverses,
        other_currency=True if is_told and not is_counted else None,
    )


_Item = TypeVar("_Item")


def _with(known: tuple[_Item, ...], one: _Item) -> tuple[_Item, ...]:
    return known if one in known else (*known, one)
