"""Asking the ledger, and following an action until it moves.

Guarantees that "durable" is said only of what the log acknowledged, and that whoever waits is let
go: when the action moves, when the time is up, or when the process stops. Called by the routes of
actions.
"""

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final, TypeVar

from gateway.http import views
from gateway.http.codes import Code
from gateway.http.doors import Doors
from gateway.http.limits import (
    ASK_MS_MAX,
    READ_AGAIN_MS,
    READ_MS_MAX,
    WAIT_SLICE_MS,
    WAITERS_MAX,
)
from gateway.http.problems import LedgerPlace, No, Original, refused
from gateway.http.views import ActionView
from ledger.client.client import Answer, UndecidedError
from ledger.core.errors import LedgerError
from ledger.core.ids import ActionKey
from ledger.core.invariants import BrokenInvariantError
from ledger.core.rejections import Refused, Rejection
from ledger.core.state import Status

logger = logging.getLogger("actionledger.http")

_MS_PER_S: Final = 1_000

_BY_ITS_LINE: Final = frozenset({"revised_open", "original_open"})
"""What an action waits for that takes as long as the other action does: seconds, or a person."""

_Rows = TypeVar("_Rows")


@dataclass(frozen=True, slots=True)
class Undecided:
    """The input is in the log and nobody has decided it so far."""


async def ask(asking: Awaitable[Answer]) -> Answer | Undecided | No:
    """The ledger's answer; or that there is none so far; or that nothing is known."""
    try:
        async with asyncio.timeout(ASK_MS_MAX / _MS_PER_S):
            return await asking
    except UndecidedError:
        return Undecided()
    except (LedgerError, TimeoutError) as trouble:
        logger.warning("ledger_not_answering", extra={"reason": repr(trouble)})
        return No(Code.NOT_DURABLE)


async def decided(doors: Doors, key: str, answer: Answer) -> ActionView | No:
    """What a decision says about the action: how it stands, or why not."""
    decision = answer.decision
    place = LedgerPlace(partition=answer.partition, offset=decision.at)
    if decision.refused is not None:
        return await _refused(doors, decision.refused, place)
    if decision.quarantined is not None:
        return No(Code.QUARANTINED, detail=decision.quarantined.reason, ledger=place)
    if decision.unchanged is not None:
        view = views.of_unchanged(key, decision.unchanged, place)
        return views.newer(view, await _at_hand(doors, key))
    view = views.of_decision(key, decision, place)
    if view.status == views.UNDECIDED:
        # The newest facts alone do not tell where the action stands: whoever has all of them does.
        later = await until_later(doors, key, view.version - 1, READ_MS_MAX)
        return view if later is None else views.newer(view, later)
    # What began an action is all there is of it, unless it waits: then perhaps it is held. What
    # came later adds to what is known.
    if view.request_hash is not None and view.status != Status.READY:
        return view
    return views.newer(view, await _at_hand(doors, key))


async def _refused(doors: Doors, answer: Refused, place: LedgerPlace) -> No:
    """The refusal, with the action that it speaks of as far as it is known at once."""
    if answer.action is None:
        return refused(answer, place=place)
    known = await _at_hand(doors, answer.action)
    original = Original(
        key=answer.action,
        href=views.href(answer.action),
        status=None if known is None else known.status,
        reference=None if known is None else known.reference,
    )
    return refused(answer, place=place, original=original)


async def _at_hand(doors: Doors, key: str) -> ActionView | None:
    """The action as it is known at once; None where nothing is, or the read model is away."""
    known = await current(doors, key)
    return None if isinstance(known, No) else known


async def current(doors: Doors, key: str) -> ActionView | No:
    """How an action stands: as the log says where this process followed it, else the read model."""
    followed = await doors.ledger.progress(key, after_version=0, timeout_ms=0)
    if followed is not None:
        return views.of_progress(followed)
    row = await read(doors.queries.action(ActionKey.parse(key).tenant, key))
    if isinstance(row, No):
        return row
    return No(Rejection.UNKNOWN_ACTION) if row is None else views.of_row(row)


async def read(asking: Awaitable[_Rows]) -> _Rows | No:
    """What the read model answers, or that it does not. Raises BrokenInvariantError, ValueError
    where it answers what cannot be: asking again would not help.
    """
    try:
        async with asyncio.timeout(READ_MS_MAX / _MS_PER_S):
            return await asking
    except (BrokenInvariantError, ValueError):
        raise
    except Exception as trouble:  # noqa: BLE001 - whatever a database does, it is not the caller's
        logger.warning("read_model_not_answering", extra={"reason": repr(trouble)})
        return No(Code.READ_MODEL_UNAVAILABLE)


async def until_settled(doors: Doors, view: ActionView, wait_ms: int) -> ActionView:
    """The action once it no longer moves by itself, or after `wait_ms`."""
    deadline_s = doors.monotonic_s() + wait_ms / _MS_PER_S
    while view.is_moving or await _is_let_go_soon(doors, view):
        later = await until_later(doors, view.key, view.version, _left_ms(doors, deadline_s))
        if later is None:
            return view
        view = views.newer(view, later)
    return view


async def _is_let_go_soon(doors: Doors, view: ActionView) -> bool:
    """Whether an action waits for one of its business event that takes no more than seconds."""
    by = waits_for_line(view)
    other = None if by is None else await _at_hand(doors, by)
    return other is not None and is_settled_soon(other)


def waits_for_line(view: ActionView) -> str | None:
    """The key of what an action revises or compensates, while it waits for that; else None."""
    waits = view.blocked if view.status == Status.BLOCKED else None
    return waits.by if waits is not None and waits.reason in _BY_ITS_LINE else None


def is_settled_soon(other: ActionView) -> bool:
    """Whether what waits until an action is settled goes on within seconds: that one moves by
    itself, or has ended. A success is told before the ledger has drawn from it what may follow. One
    with an alarm has its reason under `review` or `code`.
    """
    has_alarm = other.review is not None
    has_alarm = has_alarm or (other.status == Status.COMPLETED and other.code is not None)
    return other.is_moving or (other.is_final and not has_alarm)


async def until_later(
    doors: Doors, key: str, after_version: int, wait_ms: int
) -> ActionView | None:
    """The action once its version is above `after_version`; None when that did not come in time.

    In memory where this process followed the action, else by asking the read model again and again.
    """
    if wait_ms <= 0 or doors.waiters >= WAITERS_MAX:
        return None
    deadline_s = doors.monotonic_s() + wait_ms / _MS_PER_S
    slice_ms = WAIT_SLICE_MS
    with doors.waiting():
        while (left_ms := _left_ms(doors, deadline_s)) > 0 and not doors.is_stopping:
            followed = await doors.ledger.progress(
                key, after_version=after_version, timeout_ms=min(left_ms, slice_ms)
            )
            if followed is not None:
                return views.of_progress(followed)
            if await doors.ledger.progress(key, after_version=0, timeout_ms=0) is None:
                slice_ms = READ_AGAIN_MS
                known = await _at_hand(doors, key)
                if known is not None and known.version > after_version:
                    return known
    return None


def _left_ms(doors: Doors, deadline_s: float) -> int:
    return int((deadline_s - doors.monotonic_s()) * _MS_PER_S)
