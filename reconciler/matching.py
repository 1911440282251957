"""Which action a verified webhook speaks of.

What is tried, in this order:

1. our action key in its metadata,
2. the key that the provider was given for the attempt,
3. the provider's reference,
4. some time later its composite: the fields that the provider's description declares to name one.

Pure: the same webhook and the same known references give the same answer, so it can be asked again
at any time. Guarantees that nothing is dropped: what matches no action is parked under a named
reason, and what no mapping understands is kept as unrecognised. Must never judge money, status or
attempts: the ledger does. Called by the webhook agent when a webhook arrives, and by the inquirer's
sweep when a reference became known.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from ledger.core.ids import ActionKey, is_action_key
from reconciler.providers.port import MappedWebhook, Unrecognised


class MatchedBy(StrEnum):
    """What tied a webhook to its action."""

    METADATA = "metadata"
    PROVIDER_KEY = "provider_key"
    REFERENCE = "reference"
    COMPOSITE = "composite"


class ParkedReason(StrEnum):
    """Why a webhook that says something about an effect belongs to no action yet.

    Which of them end when a reference or an action becomes known is told by `AWAITS_REFERENCE` and
    `AWAITS_ACTION` below; the others are for a person, and an orphan is for both.
    """

    REFERENCE_UNKNOWN = "reference_unknown"
    """No action is known under its reference."""
    ACCOUNT_SHARED = "account_shared"
    """Others write metadata on its account too, so the key in it counts only with a reference."""
    ORPHAN_EFFECT = "orphan_effect"
    """The provider states an effect that no action has made."""
    ACTION_UNKNOWN = "action_unknown"
    """It bears the key of no action that is known, and states no effect."""
    REFERENCE_MISSING = "reference_missing"
    """It bears neither a reference nor a key."""
    REFERENCE_AMBIGUOUS = "reference_ambiguous"
    """Several actions are known under its reference, or under its key at the provider."""
    COMPOSITE_AMBIGUOUS = "composite_ambiguous"
    """Several actions fit its composite; a reference can still tell."""
    MARKS_DISAGREE = "marks_disagree"
    """Its keys and its reference name different actions."""
    ACCOUNT_DIFFERS = "account_differs"
    """It speaks for another account than the one whose secret verified it."""
    LINE_CHANGED = "line_changed"
    """A line of a payout report says something else than under the same id before."""
    EFFECT_NOT_LISTED = "effect_not_listed"
    """The ledger has an effect that the provider's whole list lacks."""


AWAITS_ACTION: frozenset[ParkedReason] = frozenset(
    {ParkedReason.ORPHAN_EFFECT, ParkedReason.ACTION_UNKNOWN}
)
"""The reasons that an action which appears under a claimed key can end."""

AWAITS_REFERENCE: frozenset[ParkedReason] = AWAITS_ACTION | {
    ParkedReason.REFERENCE_UNKNOWN,
    ParkedReason.ACCOUNT_SHARED,
    ParkedReason.COMPOSITE_AMBIGUOUS,
}
"""The reasons that a known reference can end."""

WITHOUT_MARK: frozenset[ParkedReason] = frozenset(
    {ParkedReason.REFERENCE_UNKNOWN, ParkedReason.REFERENCE_MISSING}
)
"""The reasons of what bears no mark and no known reference: a declared composite may end them."""

OUTCOME_OPEN = frozenset({"attempting", "unknown", "needs_review"})
"""The statuses in which an action that was begun waits for word of its effect."""


@dataclass(frozen=True, slots=True)
class Matched:
    """The webhook is evidence about this action; `is_known` where the ledger holds all that it
    says, and is not told again.
    """

    action_key: str
    by: MatchedBy
    is_known: bool = False


@dataclass(frozen=True, slots=True)
class Parked:
    """The webhook is kept, and looked at again when more is known. `told` is the action that it
    names and the tables do not have: they may be behind, so the ledger is told all the same.
    """

    reason: ParkedReason
    told: Matched | None = None


@dataclass(frozen=True, slots=True)
class Irrelevant:
    """A known type that says nothing about any effect."""


@dataclass(frozen=True, slots=True)
class Fitting:
    """Every action that may have made an effect, by key, with its status: of the same provider,
    account, operation, target, amount and currency, and begun before it. `is_taken` where one of
    them has another effect by its composite already.
    """

    statuses: Mapping[str, str]
    is_taken: bool = False


Match: TypeAlias = Matched | Parked | Irrelevant | Unrecognised


def match_webhook(
    mapped: MappedWebhook | Unrecognised,
    *,
    account: str,
    known: Collection[str],
    keyed: Collection[str] = (),
    shared: Collection[str] = (),
) -> Match:
    """Say which action a webhook speaks of, or why none yet.

    `account` is the one whose secret verified the webhook: a webhook that speaks for another proves
    nothing there, and one that does not say for which speaks for this one. `known` holds the action
    keys recorded under the webhook's reference on that account, `keyed` those whose attempts gave
    the provider the key that it bears, where that is no action key itself. On an account in
    `shared`, those of its provider that others write metadata on too, a key in it counts only with
    a known reference.
    """
    if isinstance(mapped, Unrecognised):
        return mapped
    if mapped.meaning == "irrelevant":
        return Irrelevant()
    if mapped.account not in {None, account}:
        return Parked(ParkedReason.ACCOUNT_DIFFERS)
    if len(set(keyed)) > 1:
        return Parked(ParkedReason.REFERENCE_AMBIGUOUS)
    claimed = _claims(mapped, keyed)
    distinct = set(claimed.values())
    holders = set(known)
    if len(distinct) > 1 or (distinct and holders and not _agrees(mapped, distinct, holders)):
        return Parked(ParkedReason.MARKS_DISAGREE)
    if claimed:
        by, action_key = next(iter(claimed.items()))
        if account in shared and action_key not in holders:
            return Parked(ParkedReason.ACCOUNT_SHARED)
        return Matched(action_key, by)
    if len(holders) > 1:
        return Parked(ParkedReason.REFERENCE_AMBIGUOUS)
    if holders:
        return Matched(holders.pop(), MatchedBy.REFERENCE)
    if mapped.names is None and mapped.provider_key is None:
        return Parked(ParkedReason.REFERENCE_MISSING)
    return Parked(ParkedReason.REFERENCE_UNKNOWN)


def shared_of(provider: str, accounts: Collection[tuple[str, str]]) -> frozenset[str]:
    """Of accounts with their provider's name the names of those of one provider."""
    return frozenset(account for name, account in accounts if name == provider)


def match_composite(fitting: Fitting, reason: ParkedReason) -> Matched | Parked:
    """Say which action a webhook speaks of that bears no mark of ours and is parked for `reason`.

    Exactly one fitting action whose outcome is open is its action. One whose outcome is known is no
    match: this may be an effect that no action made. Among several, and where the one has another
    effect by its composite already, only a person can tell.
    """
    if len(fitting.statuses) > 1 or fitting.is_taken:
        return Parked(ParkedReason.COMPOSITE_AMBIGUOUS)
    for action_key, status in fitting.statuses.items():
        if status in OUTCOME_OPEN:
            return Matched(action_key, MatchedBy.COMPOSITE)
    return Parked(reason)


def _claims(mapped: MappedWebhook, keyed: Collection[str]) -> dict[MatchedBy, str]:
    """The action keys that the webhook itself names, the strongest first.

    A text that is no action key is somebody else's metadata, not a fault; a provider key is an
    action key wherever the provider's rules let the ledger use it unchanged, and elsewhere stands
    for the action whose attempt gave it.
    """
    marks = {
        MatchedBy.METADATA: mapped.action_key,
        MatchedBy.PROVIDER_KEY: next(iter(keyed), mapped.provider_key),
    }
    return {by: text for by, text in marks.items() if text is not None and is_action_key(text)}


def _agrees(mapped: MappedWebhook, claimed: set[str], holders: set[str]) -> bool:
    """Whether our mark and the known name may speak of one thing: what was given back bears the
    mark of the compensation, and names the effect of its original.
    """
    if claimed & holders or mapped.reverses is None:
        return bool(claimed & holders)
    streams = {ActionKey.parse(key).stream_key for key in claimed | holders}
    return len(streams) == 1
