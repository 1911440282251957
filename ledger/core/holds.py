"""Holds: an operator keeps new starts of a provider, a tenant or an operation from happening.

A hold is configuration like any other: published on `config`, adopted by every partition into its
own ledger, folded from there. Guarantees that several holds stand side by side and that an action
starts only when none covers it. Pure; called by `decide`, by every fold of a partition, and by the
executors' last check.
"""

import hashlib
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import Field, ValidationError, model_validator

from ledger.core.ids import COMPONENT, OPERATION
from ledger.core.limits import HOLDS_MAX, IDENTIFIER_CHARS_MAX
from ledger.core.strict_json import MalformedJson, parse
from ledger.core.wire import Count, Milliseconds, Text, Wire

HOLD: Final = "hold"
RELEASE: Final = "release"
_HASH_DOMAIN: Final = "actionledger.hold.v1\n"

_Name = Annotated[str, Field(min_length=1, max_length=IDENTIFIER_CHARS_MAX)]


class Scope(Wire):
    """What a hold covers: actions to which everything named here applies; with nothing named, all.

    An operation is held in every version.
    """

    provider: Text | None = None
    tenant: Text | None = None
    operation: Text | None = None

    @model_validator(mode="after")
    def _names(self) -> Self:
        """No name that nothing can bear: such a hold would look like safety and be none."""
        for name, form in (
            ("provider", COMPONENT),
            ("tenant", COMPONENT),
            ("operation", OPERATION),
        ):
            value = getattr(self, name)
            if value is not None and form.fullmatch(value) is None:
                raise ValueError(f"{name} {value[:60]!r} is no name of one")
        return self

    def covers(self, provider: str, tenant: str, operation: str) -> bool:
        """Whether an action of this provider, tenant and operation is meant."""
        return (
            self.provider in {None, provider}
            and self.tenant in {None, tenant}
            and self.operation in {None, operation}
        )

    def __str__(self) -> str:
        named = self.model_dump(exclude_none=True)
        return " ".join(f"{name} {value}" for name, value in named.items()) or "everything"


class Order(Wire):
    """What an operator says: the content of a `hold` or a `release` on the config topic."""

    scope: Scope
    by: _Name
    reason: Text | None = None


class Hold(Wire):
    """A hold in force. `since` is log time where it was adopted, `offset` its place on `config`."""

    scope: Scope
    by: Text
    reason: Text | None = None
    since: Milliseconds
    offset: Count


Holds = tuple[Hold, ...]
"""In the order in which they were given; no two with the same scope."""


class NotOrderable(StrEnum):
    """Why an order changes nothing. The first is no mistake: the same hold twice is one."""

    HELD_ALREADY = "held_already"
    NOT_HELD = "not_held"
    TOO_MANY_HOLDS = "too_many_holds"


def order_hash(content: str) -> str:
    """The hash under which an order is published and adopted."""
    return f"sha256:{hashlib.sha256((_HASH_DOMAIN + content).encode()).hexdigest()}"


def parse_order(content: str) -> Order | None:
    """The order in a record's content, or None where it is none."""
    try:
        # A text within a record: the strict reader has not looked inside it.
        parse(content.encode("utf-8", "surrogatepass"))
        return Order.model_validate_json(content)
    except (MalformedJson, ValidationError):
        return None


def hold_of(holds: Holds, scope: Scope) -> Hold | None:
    """The hold of exactly this scope, or None."""
    return next((one for one in holds if one.scope == scope), None)


def holding(holds: Holds, provider: str, tenant: str, operation: str) -> Hold | None:
    """The first hold that keeps such an action from starting, or None."""
    for one in holds:
        if one.scope.covers(provider, tenant, operation):
            return one
    return None


def objection_to(kind: str, order: Order, holds: Holds) -> NotOrderable | None:
    """Why an order would change nothing, or None."""
    known = hold_of(holds, order.scope)
    if kind == RELEASE:
        return NotOrderable.NOT_HELD if known is None else None
    if known is not None:
        return NotOrderable.HELD_ALREADY
    return NotOrderable.TOO_MANY_HOLDS if len(holds) >= HOLDS_MAX else None


def after_order(holds: Holds, kind: str, order: Order, *, at: int, offset: int) -> Holds:
    """The holds after an order that was adopted at log time `at`."""
    rest = tuple(one for one in holds if one.scope != order.scope)
    if kind == RELEASE:
        return rest
    return (
        *rest,
        Hold(scope=order.scope, by=order.by, reason=order.reason, since=at, offset=offset),
    )
