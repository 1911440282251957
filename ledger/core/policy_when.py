"""The conditions of a row of the decision table, as they are written.

Immutable and free of behaviour: `ledger.core.conditions` puts them to an action. Made by
`parse_policy`.
"""

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from ledger.core.excerpt import excerpt
from ledger.core.limits import (
    CHOICES_MAX,
    INTEGER_MAX,
    INTENT_BYTES_MAX,
    PARAMETERS_MAX,
    TEXT_CHARS_MAX,
)
from ledger.core.money import Currency
from ledger.core.operation import Kind, Level, PreviewSource, Reliability
from ledger.core.patterns import Pattern
from ledger.core.wire import Text, Wire

LEVELS: Final[dict[Level, int]] = {"none": 0, "low": 1, "medium": 2, "high": 3}
RISKS: Final = ("irreversibility", "blast_radius", "ambiguity", "money_impact", "security_impact")


Amounts = Annotated[
    dict[Currency, Annotated[int, Field(ge=0, le=INTEGER_MAX)]],
    Field(min_length=1, max_length=CHOICES_MAX),
]
"""Minor units by currency: `{ EUR = 50_00 }` is fifty euro."""
CarriedOut = Literal["executor", "caller"]
"""Who carries an action out: an executor, or its caller itself."""
Patterns = Annotated[tuple[Pattern, ...], Field(strict=False, min_length=1, max_length=CHOICES_MAX)]
Whole = Annotated[int, Field(ge=-INTEGER_MAX, le=INTEGER_MAX)]


def _chosen(value: object) -> object:
    # A union would say three times what it is not.
    is_text = isinstance(value, str) and len(value) <= TEXT_CHARS_MAX
    if is_text or (isinstance(value, int) and abs(value) <= INTEGER_MAX):
        return value
    said = excerpt(repr(value), chars_max=60)
    raise ValueError(f"must be a text, true, false or a whole number, not {said}")


Choice = Annotated[str | bool | int, BeforeValidator(_chosen)]
"""A value that a parameter may have."""
Size = Annotated[int, Field(ge=0, le=INTENT_BYTES_MAX)]


class LevelBounds(Wire):
    """Levels of one risk fact, bounds included."""

    at_least: Level | None = None
    at_most: Level | None = None


class RiskBounds(Wire):
    """Bounds on the operation's declared risk; all of them have to hold."""

    irreversibility: LevelBounds | None = None
    blast_radius: LevelBounds | None = None
    ambiguity: LevelBounds | None = None
    money_impact: LevelBounds | None = None
    security_impact: LevelBounds | None = None


class AmountBounds(Wire):
    """Amounts beyond `above` and up to and including `at_most`, by currency. A currency that is not
    named cannot be compared: the amount is missing.
    """

    above: Amounts | None = None
    at_most: Amounts | None = None


class ParameterBounds(Wire):
    """What the value of one parameter has to be. Of a list every item has to be `one_of`, or match;
    `some_match` holds when one item or more does. Lengths are characters of a text; of items a list
    has as many as it holds, any other value one.
    """

    one_of: (
        Annotated[tuple[Choice, ...], Field(strict=False, min_length=1, max_length=CHOICES_MAX)]
        | None
    ) = None
    matches: Patterns | None = None
    some_match: Patterns | None = None
    above: Whole | None = None
    at_most: Whole | None = None
    length_above: Size | None = None
    length_at_most: Size | None = None
    items_above: Size | None = None
    items_at_most: Size | None = None


class When(Wire):
    """The conditions of one row; all have to hold, and none at all is a row for everything. A list
    holds when one of its entries does.
    """

    operation: Patterns | None = None
    kind: (
        Annotated[tuple[Kind, ...], Field(strict=False, min_length=1, max_length=CHOICES_MAX)]
        | None
    ) = None
    provider: Patterns | None = None
    account: Patterns | None = None
    reliability: (
        Annotated[
            tuple[Reliability, ...], Field(strict=False, min_length=1, max_length=CHOICES_MAX)
        ]
        | None
    ) = None
    preview: (
        Annotated[
            tuple[PreviewSource, ...], Field(strict=False, min_length=1, max_length=CHOICES_MAX)
        ]
        | None
    ) = None
    performer: (
        Annotated[tuple[CarriedOut, ...], Field(strict=False, min_length=1, max_length=CHOICES_MAX)]
        | None
    ) = None
    tenant: Patterns | None = None
    principal: Patterns | None = None
    environment: Patterns | None = None
    target: Patterns | None = None
    currency: (
        Annotated[tuple[Currency, ...], Field(strict=False, min_length=1, max_length=CHOICES_MAX)]
        | None
    ) = None
    amount: AmountBounds | None = None
    risk: RiskBounds | None = None
    parameters: (
        Annotated[dict[Text, ParameterBounds], Field(min_length=1, max_length=PARAMETERS_MAX)]
        | None
    ) = None
