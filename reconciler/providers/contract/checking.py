"""One check and what came of it.

Guarantees that a check ends in one of three ways: kept, broken, or not applicable for a reason; an
error inside the adapter is a broken promise. Called by both halves of the suite.
"""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

_Subject = TypeVar("_Subject")


class BrokenPromise(Exception):
    """The adapter did not do what the port promises; the text says what it did."""


class DoesNotApply(Exception):
    """This cannot be asked of this adapter; the text says why."""


class Came(StrEnum):
    """How a check can end."""

    KEPT = "kept"
    BROKEN = "broken"
    DOES_NOT_APPLY = "does_not_apply"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One check: its name, what it asks in a sentence, how it ended, and why where not kept."""

    name: str
    asks: str
    came: Came
    why: str = ""


def demand(holds: object, otherwise: str) -> None:
    """Raise BrokenPromise unless it holds."""
    if not holds:
        raise BrokenPromise(otherwise)


async def verdict(check: Callable[[_Subject], Awaitable[None]], subject: _Subject) -> Verdict:
    """Ask one thing. Only cancellation comes out."""
    name = getattr(check, "__name__", "check")
    asks = " ".join((inspect.getdoc(check) or "").split())
    try:
        await check(subject)
    except DoesNotApply as reason:
        return Verdict(name, asks, Came.DOES_NOT_APPLY, str(reason))
    except BrokenPromise as broken:
        return Verdict(name, asks, Came.BROKEN, str(broken))
    except Exception as error:  # noqa: BLE001 - whatever comes out of an adapter breaks its promise
        return Verdict(name, asks, Came.BROKEN, f"raised {error!r}")
    return Verdict(name, asks, Came.KEPT)


async def verdicts(
    checks: Sequence[Callable[[_Subject], Awaitable[None]]], subject: _Subject
) -> list[Verdict]:
    """Ask all of it, in order."""
    return [await verdict(check, subject) for check in checks]
