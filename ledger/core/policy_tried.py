"""A decision table held against one action row by row, for people who ask why.

Guarantees the same answers that the ruling rests on. Decides nothing. Called by the command line
and the approval pages.
"""

from dataclasses import dataclass
from typing import Literal

from ledger.core.conditions import Answer, Condition, conditions
from ledger.core.operation import Operation
from ledger.core.policy import Policy, Row
from ledger.core.policy_when import CarriedOut
from ledger.core.request import RecordedRequest


@dataclass(frozen=True, slots=True)
class Tried:
    """One condition of a row held against an action: what the row wants, what the action has, and
    whether it holds; None where a fact is missing.
    """

    name: str
    wanted: str
    found: str | None
    holds: bool | None


@dataclass(frozen=True, slots=True)
class RowTried:
    """One row held against an action. `matches` is None where it might."""

    row: Row
    matches: bool | None
    conditions: tuple[Tried, ...]


def try_rows(
    policy: Policy,
    operation: Operation | None,
    request: RecordedRequest,
    tenant: str,
    performer: Literal["caller"] | None = None,
) -> tuple[RowTried, ...]:
    """Every row with every condition, also those that a ruling needs not look at."""
    by = performer or "executor"
    return tuple(_tried(row, operation, request, tenant, by) for row in policy.rows)


def _tried(
    row: Row,
    operation: Operation | None,
    request: RecordedRequest,
    tenant: str,
    performer: CarriedOut,
) -> RowTried:
    tried = tuple(
        _condition_tried(one, operation, request, tenant, performer) for one in conditions(row.when)
    )
    answers = [one.holds for one in tried]
    matches = False if False in answers else (None if None in answers else True)
    return RowTried(row, matches, tried)


def _condition_tried(
    condition: Condition,
    operation: Operation | None,
    request: RecordedRequest,
    tenant: str,
    performer: CarriedOut,
) -> Tried:
    bound = condition.bind(operation)
    answer: Answer = bound(request, tenant, performer) if callable(bound) else bound
    found = condition.found(operation, request, tenant, performer)
    return Tried(
        condition.name, condition.wanted, found, answer if isinstance(answer, bool) else None
    )
