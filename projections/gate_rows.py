"""From gates and their facts to rows: how each gate stands, what was said of it, what it holds.

Pure, as `rows` is. Guarantees that what a gate has used is the sum of its reservations that were
spent and of the steps that were reported, and what it reserves that of those that are granted:
whoever doubts it asks the tables.
"""

from collections.abc import Mapping
from enum import StrEnum

from pydantic_core import to_json

from ledger.core.gates import (
    AnyGateFact,
    Gate,
    Reservation,
    ReservationClosed,
    ReservationGranted,
    ReservationQueued,
    StepReported,
)
from ledger.core.ids import GateKind
from ledger.core.records import Decision
from projections.rows import Row


class ReservationStatus(StrEnum):
    """What became of what an action asked of a gate."""

    QUEUED = "queued"
    GRANTED = "granted"
    CLOSED = "closed"


def gate_row(key: str, gate: Gate, partition: int, newest: Decision) -> Row:
    """A gate as it stands after its newest decision."""
    tenant, _, rest = key.partition("/")
    kind, _, name = rest.partition(":")
    granted = list(gate.granted)
    holds_target = bool(granted) and kind == GateKind.TARGET
    return (
        key,
        tenant,
        kind,
        name,
        gate.version,
        _amounts(gate.used),
        _amounts(_reserved(granted)),
        len(granted),
        len(gate.reservations) - len(granted),
        granted[0].action if holds_target else None,
        # Before the allowance for clocks, which is the owner's to add.
        gate.due_at,
        newest.epoch,
        partition,
        newest.at,
        gate.opened_at,
        newest.decided_at,
    )


def _reserved(granted: list[Reservation]) -> dict[str, int]:
    reserved: dict[str, int] = {}
    for one in granted:
        for dimension, amount in one.demand.items():
            reserved[dimension] = reserved.get(dimension, 0) + amount
    return reserved


def _amounts(amounts: Mapping[str, int]) -> str:
    return to_json(dict(sorted(amounts.items()))).decode()


def gate_event_rows(decision: Decision, partition: int) -> list[Row]:
    """The facts of a decision about a gate, each with the text that the log has for it."""
    tenant, cause = decision.stream.partition("/")[0], decision.cause
    return [
        (
            partition,
            decision.at,
            ordinal,
            tenant,
            decision.stream,
            fact.version,
            fact.type,
            None if isinstance(fact, StepReported) else fact.action,
            decision.decided_at,
            cause.topic,
            cause.partition,
            cause.offset,
            fact.__pydantic_serializer__.to_json(fact, exclude_none=True).decode(),
        )
        for ordinal, fact in enumerate(decision.gate or ())
    ]


def reservation_row(
    decision: Decision, fact: AnyGateFact, before: Gate | None, after: Gate, partition: int
) -> Row | None:
    """How a reservation stands after a fact that took it in, granted it or closed it; or None."""
    match fact:
        case ReservationQueued():
            held, status = after.reservation(fact.action, fact.round), ReservationStatus.QUEUED
        case ReservationGranted():
            held, status = after.reservation(fact.action, fact.round), ReservationStatus.GRANTED
        case ReservationClosed() if before is not None:
            held, status = before.reservation(fact.action, fact.round), ReservationStatus.CLOSED
        case _:
            return None
    if held is None:
        return None
    is_closed = isinstance(fact, ReservationClosed)
    return (
        decision.stream,
        held.version,
        decision.stream.partition("/")[0],
        held.action,
        held.round,
        status.value,
        held.grant,
        _amounts(held.demand),
        list(held.over or ()),
        bool(held.forced),
        fact.spent if isinstance(fact, ReservationClosed) else None,
        held.asked_at,
        held.granted_at,
        decision.decided_at if is_closed else None,
        partition,
        decision.at,
    )
