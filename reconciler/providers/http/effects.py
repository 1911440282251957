"""One effect as a provider shows it, read by its shape, and whether it is the one we mean.

Guarantees that what the shape names is read or the answer is unreadable: a marker that is missing
is told apart from one that is ours, and an object that failed or is at work from an effect. Called
by outcomes and finder.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pydantic import JsonValue

from ledger.core.limits import TEXT_CHARS_MAX
from ledger.core.money import Money
from reconciler.providers.http.answers import (
    UnreadableAnswer,
    kept,
    key_at,
    list_at,
    matches,
    text_at,
    time_at,
    value_at,
)
from reconciler.providers.http.description import Equals, OneOf, Shape

State: TypeAlias = Literal["exists", "none", "in_part", "pending"]
"""Whether an object is an effect: whole, not at all, in part, or not known yet."""


@dataclass(frozen=True, slots=True)
class ShownEffect:
    """What the ledger looks at; None for what the provider, or its description, does not show."""

    reference: str
    account: str | None
    operation: str | None
    action_key: str | None
    provider_key: str | None
    request_hash: str | None
    money: Money | None
    committed_at: int | None
    result: Mapping[str, JsonValue]
    state: State = "exists"


def read_effect(answer: object, shape: Shape) -> ShownEffect:
    """The effect in a JSON value; raises UnreadableAnswer."""
    reference = text_at(answer, shape.reference)
    if reference is None:
        raise UnreadableAnswer
    at, state = shape.committed_at, _state(answer, shape)
    if at is not None and state != "exists" and value_at(answer, at.path) is None:
        # What is no effect has no time when it became one.
        at = None
    return ShownEffect(
        reference=reference,
        account=text_at(answer, shape.account),
        operation=text_at(answer, shape.operation),
        action_key=key_at(answer, shape.action_key, TEXT_CHARS_MAX),
        provider_key=key_at(answer, shape.provider_key, TEXT_CHARS_MAX),
        request_hash=key_at(answer, shape.request_hash, TEXT_CHARS_MAX),
        money=None if shape.money is None else shape.money.read(answer),
        committed_at=None if at is None else time_at(answer, at.path, at.unit),
        result={name: kept(value_at(answer, path)) for name, path in shape.result},
        state=state,
    )


def holds(answer: object, equals: Equals) -> bool:
    """Whether every value stands where it has to."""
    return all(matches(value_at(answer, path), value) for path, value in equals)


def _state(answer: object, shape: Shape) -> State:
    """What an object is by its own words; raises UnreadableAnswer for parts that are not there."""
    parts = shape.parts
    if parts is not None:
        exist = [holds(item, parts.equals) for item in list_at(answer, parts.at)]
        if any(exist) and not all(exist):
            return "in_part"
        if not any(exist):
            return "none" if shape.none and _fits(answer, shape.none) else "pending"
    is_none = bool(shape.none) and _fits(answer, shape.none)
    if _fits(answer, shape.exists):
        # Both at once is a contradiction, of which nothing follows.
        return "pending" if is_none else "exists"
    return "none" if is_none else "pending"


def _fits(answer: object, one_of: OneOf) -> bool:
    return all(
        any(matches(value_at(answer, path), value) for value in values) for path, values in one_of
    )


def is_ours(
    effect: ShownEffect, shape: Shape, *, account: str, action_key: str, provider_key: str
) -> bool:
    """True if everything that the shape can tell by says that it belongs to this action.

    The action key decides where it is shown at all, since a provider may drop its own key.
    """
    if shape.account is not None and effect.account != account:
        return False
    if shape.action_key is not None:
        return effect.action_key == action_key
    if shape.provider_key is not None:
        return effect.provider_key == provider_key
    return True
