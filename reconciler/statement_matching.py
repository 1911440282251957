"""What a webhook, or a line of a settlement file or of a listing, means once the tables are asked:
evidence, a repetition of what the ledger holds, an effect that is nobody's, or a line that was
changed.

Pure. Guarantees that what bears the key of no action is nobody's until the action appears, and that
a line which repeats a completed action to the last unit is not told again: most lines of a
settlement file are of that kind. A line that names no action is never told to the ledger, which
could only refuse it; a webhook comes so early that the tables may be behind, and is. Must never
soften a difference: whatever is not equal is evidence, and the ledger judges it. Called by the
webhook agent and the inquirer's sweep.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from ledger.core.money import Money
from reconciler.matching import Match, Matched, MatchedBy, Parked, ParkedReason
from reconciler.providers.port import MappedWebhook

_IS_THERE = frozenset({"exists", "reversed"})
"""Effects that somebody made; of the others there is nothing that could be nobody's."""


@dataclass(frozen=True, slots=True)
class NamedAction:
    """What the tables say of an action that is named. They may be behind, and a final status
    never changes.
    """

    provider: str
    account: str
    status: str
    reference: str | None
    money: Money | None

    def is_on(self, provider: str, account: str | None) -> bool:
        """Whether this account is the one that it is made on."""
        return (self.provider, self.account) == (provider, account)


class Said(NamedTuple):
    """The content of a line, to compare it with what the same line said before."""

    effect: str
    reference: str | None
    reverses: str | None
    action_key: str | None
    provider_key: str | None
    minor: int | None
    currency: str | None


def said_by(mapped: MappedWebhook) -> Said:
    """What a line says, without when it happened and how its bytes were."""
    money = mapped.money
    return Said(
        mapped.effect,
        mapped.reference,
        mapped.reverses,
        mapped.action_key,
        mapped.provider_key,
        None if money is None else money.minor,
        None if money is None else money.currency,
    )


def match_named(
    match: Match, mapped: MappedWebhook, *, provider: str, account: str, action: NamedAction | None
) -> Match:
    """Say what becomes of a webhook, given what it matches by its marks and references alone.
    `action` is the one that it matches, None where the tables have none.
    """
    match match:
        case Matched(by=MatchedBy.REFERENCE):
            return match
        case Matched() if action is None:
            return Parked(_without_action(mapped), told=match)
        case Matched() if action is not None and not action.is_on(provider, account):
            return Parked(ParkedReason.ACCOUNT_DIFFERS)
        case _:
            return match


def match_statement(
    match: Match,
    mapped: MappedWebhook,
    *,
    provider: str,
    action: NamedAction | None,
    before: Said | None,
    settled: Said | None = None,
) -> Match:
    """Say what becomes of a line, given what it matches as a webhook would. `action` is the one
    that it matches, None where the tables have none; `before` is what the line said when it decided
    for itself already, `settled` with what it was settled after that. A line that was moving, and
    is settled by now, is not changed; one that is settled otherwise a second time is.
    """
    said = said_by(mapped)
    if before is not None and before != said and not _goes_on(before, said):
        return Parked(ParkedReason.LINE_CHANGED)
    if settled is not None and before != said != settled:
        return Parked(ParkedReason.LINE_CHANGED)
    if mapped.effect == "unlisted":
        return Parked(ParkedReason.EFFECT_NOT_LISTED)
    match match:
        case Matched() if action is None:
            return Parked(_without_action(mapped))
        case Matched() if action is not None and not action.is_on(provider, mapped.account):
            return Parked(ParkedReason.ACCOUNT_DIFFERS)
        case Matched() if action is not None and _repeats(mapped, action):
            return replace(match, is_known=True)
        case Parked(reason=ParkedReason.REFERENCE_UNKNOWN):
            return Parked(_nobodys(mapped))
        case _:
            return match


def _goes_on(before: Said, said: Said) -> bool:
    """Whether two contents of one line are about the same, and just one of them is on its way: with
    which amount it arrived is the ledger's to judge, and files may come in any order.
    """
    same = said._replace(effect=before.effect, minor=before.minor, currency=before.currency)
    return same == before and (before.effect == "pending") != (said.effect == "pending")


def _nobodys(mapped: MappedWebhook) -> ParkedReason:
    if mapped.effect in _IS_THERE:
        return ParkedReason.ORPHAN_EFFECT
    return ParkedReason.REFERENCE_UNKNOWN


def _without_action(mapped: MappedWebhook) -> ParkedReason:
    if mapped.effect in _IS_THERE:
        return ParkedReason.ORPHAN_EFFECT
    return ParkedReason.ACTION_UNKNOWN


def _repeats(mapped: MappedWebhook, action: NamedAction) -> bool:
    """Whether the ledger holds all of it: the same effect, completed, and the same money."""
    return (
        mapped.meaning == "final"
        and mapped.effect == "exists"
        and action.status == "completed"
        and mapped.reference == action.reference
        and (action.money is None or mapped.money == action.money)
    )
