"""Actions whose effect may have happened, in words: how old, what is known, what comes next, and
how much of the time is left in which their key may be used.

Pure, so that a page and a command say the same. Called by the console and the command line.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ledger.core.money import Money
from projections.query_rows import PieceRow, UnknownRow

NEXT: Final[Mapping[str, str]] = {
    "asked": "the provider is asked; it has until then to answer",
    "lookup": "the provider is asked",
    "retry": "the same call again, under the same key",
}
"""What happens at the time of the next step."""

A_PERSON: Final = "a person"

MEANINGS: Final[Mapping[str, str]] = {
    "effect": "the effect is there",
    "no_effect": "there is none",
    "absent": "not found",
    "pending": "under way",
    "inconclusive": "no answer",
    "reversed": "given back",
}


@dataclass(frozen=True, slots=True)
class KeyWindow:
    """The time in which the key may be used: `used` is in hundredths of it. Over, the action is
    only looked for.
    """

    until: int
    used: int
    is_over: bool


@dataclass(frozen=True, slots=True)
class Unknown:
    """One action in words. `earlier` pieces of evidence came before those that are told; the newest
    told is the last. Without a `next_at` nothing happens by itself.
    """

    tenant: str
    key: str
    target: str | None
    money: Money | None
    provider: str
    account: str
    attempts: int
    age_ms: int
    since: int
    evidence: tuple[str, ...]
    earlier: int
    next_told: str
    next_at: int | None
    window: KeyWindow | None


def unknown_of(view: UnknownRow, now_ms: int) -> Unknown:
    """An action that is unknown now."""
    since = view.updated_at if view.unknown_since is None else view.unknown_since
    money = None
    if view.amount_minor is not None and view.currency is not None:
        money = Money(minor=view.amount_minor, currency=view.currency)
    return Unknown(
        tenant=view.tenant_id,
        key=view.action_key,
        target=view.target,
        money=money,
        provider=view.provider,
        account=view.account,
        attempts=view.attempts,
        age_ms=max(0, now_ms - since),
        since=since,
        evidence=tuple(_piece(one) for one in view.evidence),
        earlier=view.evidence_count - len(view.evidence),
        next_told=A_PERSON
        if view.next_due_at is None
        else NEXT.get(view.next_step or "", "it is looked at again"),
        next_at=view.next_due_at,
        window=_window(view, now_ms),
    )


def _piece(one: PieceRow) -> str:
    told = f"{one.kind}: {MEANINGS.get(one.meaning, one.meaning)}"
    more = " ".join(part for part in (one.reference, one.code) if part)
    return f"{told} ({more})" if more else told


def _window(view: UnknownRow, now_ms: int) -> KeyWindow | None:
    if view.key_used_at is None or view.key_until is None:
        return None
    whole = max(1, view.key_until - view.key_used_at)
    gone = min(whole, max(0, now_ms - view.key_used_at))
    return KeyWindow(view.key_until, gone * 100 // whole, now_ms >= view.key_until)
