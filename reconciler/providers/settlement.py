"""The table `[settlement]` of a provider's description: where the columns of its payout reports
stand, and what they mean.

Guarantees that columns are whole or refused with every mistake on its line. What no description
declares has a default: the report of the simulated provider, and the form of our own that others
can be brought into. Must never guess a sign, a number of decimals or a zone. Called by the import
of settlement files, and by the kinds of adapter that check a whole description.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, ValidationError

from ledger.core.mistakes import Document, Found, Mistake, read_toml
from reconciler.providers.described import Form, complaints, text_of
from reconciler.providers.limits import DESCRIPTION_BYTES_MAX, DESCRIPTION_ENTRIES_MAX

FileFormat: TypeAlias = Literal["csv", "jsonl"]
Says: TypeAlias = Literal["exists", "none", "reversed", "pending", "irrelevant"]
Written: TypeAlias = Literal["milliseconds", "seconds", "rfc3339", "pattern"]

_Column = Annotated[str, Field(min_length=1, max_length=200)]
_FIXED: Final = "="


class AmountForm(Form):
    """Where an amount stands. `sign`: what a minus means; a report that books a refund with one
    ignores it, because the type says what it is. `point`: what parts the decimals, where it is not
    to be found out (then it is a point, and three decimals are refused that a currency has not:
    they may be thousands). `groups`: what parts the thousands, where anything may.
    """

    column: _Column
    unit: Literal["minor", "decimal"]
    sign: Literal["refused", "ignored"] = "refused"
    point: Literal[".", ","] | None = None
    groups: Literal[",", ".", "'", " "] | None = None

    @property
    def mark(self) -> str:
        """What parts the decimals."""
        return self.point or "."


class MomentForm(Form):
    """Where a point in time stands. `pattern` is one of `strptime`, in UTC where it has no zone."""

    column: _Column
    unit: Written
    pattern: Annotated[str, Field(min_length=2, max_length=60)] | None = None


class SettlementForm(Form):
    """The columns of a payout report. `types` says what each value of the column `type` means."""

    format: FileFormat | None = None
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    line_id: _Column
    reference: _Column
    reverses: _Column | None = None
    action_key: _Column | None = None
    provider_key: _Column | None = None
    operation: _Column | None = None
    amount: AmountForm | None = None
    currency: _Column | None = None
    type: _Column
    types: Annotated[dict[str, Says], Field(min_length=1, max_length=DESCRIPTION_ENTRIES_MAX)]
    occurred_at: MomentForm


@dataclass(frozen=True, slots=True)
class Columns:
    """Checked columns. Those of `optional` need not be in a file."""

    format: FileFormat | None
    delimiter: str
    line_id: str
    reference: str
    reverses: str | None
    action_key: str | None
    provider_key: str | None
    operation: str | None
    amount: AmountForm | None
    currency: str | None
    type: str
    types: Mapping[str, Says]
    occurred_at: MomentForm
    optional: frozenset[str] = frozenset()

    @property
    def fixed_currency(self) -> str | None:
        """The one currency of the whole report, where no column says it."""
        if self.currency is not None and self.currency.startswith(_FIXED):
            return self.currency.removeprefix(_FIXED)
        return None

    @property
    def needed(self) -> frozenset[str]:
        """The columns that every file has to have."""
        currency = None if self.fixed_currency is not None else self.currency
        named = {
            self.line_id,
            self.reference,
            self.reverses,
            self.action_key,
            self.provider_key,
            self.operation,
            None if self.amount is None else self.amount.column,
            currency,
            self.type,
            self.occurred_at.column,
        }
        return frozenset(one for one in named if one is not None) - self.optional


def settlement_contradictions(form: SettlementForm) -> Iterator[Found]:
    """What the table says and cannot be."""
    if (form.amount is None) != (form.currency is None):
        missing = "currency" if form.currency is None else "amount"
        yield (missing,), "is missing: an amount needs a currency, and a currency an amount"
    if form.amount is not None:
        yield from _amount(form.amount)
    moment = form.occurred_at
    if (moment.unit == "pattern") != (moment.pattern is not None):
        said = 'is for unit = "pattern" only, and needed there'
        yield ("occurred_at", "pattern"), said
    if moment.pattern is not None and "%Z" in moment.pattern.replace("%%", ""):
        # `strptime` takes the names that this machine knows, and forgets which one it read.
        yield ("occurred_at", "pattern"), "has %Z, of which no zone is kept; %z reads +02:00 and Z"
    if form.delimiter in {'"', "\n", "\r"}:
        yield ("delimiter",), "cannot be a quote or the end of a line"
    if form.reverses is None and "reversed" in form.types.values():
        for name, says in form.types.items():
            if says == "reversed":
                said = "is reversed, and no column reverses says which effect was given back"
                yield ("types", name), said


def _amount(amount: AmountForm) -> Iterator[Found]:
    if amount.unit == "minor" and amount.point is not None:
        yield ("amount", "point"), 'is for unit = "decimal": a minor unit has no part'
    if amount.groups is not None and amount.groups == amount.mark:
        yield ("amount", "groups"), "parts the decimals too; say point as well"


def columns_of(form: SettlementForm) -> Columns:
    """The columns of a form without contradictions."""
    return Columns(**{name: getattr(form, name) for name in SettlementForm.model_fields})


OWN_FORM: Final = Columns(
    format=None,
    delimiter=",",
    line_id="line_id",
    reference="reference",
    reverses="reverses",
    action_key="action_key",
    provider_key="provider_key",
    operation="operation",
    amount=AmountForm(column="amount_minor", unit="minor"),
    currency="currency",
    type="effect",
    types={one: one for one in ("exists", "none", "reversed", "pending", "irrelevant")},
    occurred_at=MomentForm(column="occurred_at", unit="milliseconds"),
    optional=frozenset(
        {"reverses", "action_key", "provider_key", "operation", "amount_minor", "currency"}
    ),
)
"""What a file has where its provider declares nothing: the words of our own line, flat."""

SIMULATED: Final = Columns(
    format="csv",
    delimiter=",",
    line_id="payout_line",
    reference="effect_id",
    reverses="original",
    action_key="action_key",
    provider_key="key",
    operation="operation",
    amount=AmountForm(column="amount", unit="decimal", sign="ignored"),
    currency="currency",
    type="type",
    types={"made": "exists", "undone": "exists", "payout": "irrelevant"},
    occurred_at=MomentForm(column="committed_at", unit="rfc3339"),
)
"""The payout report of the simulated provider. What undoes an effect is an effect of its own there,
with an id of its own."""


def read_settlement(path: Path) -> Columns | tuple[Mistake, ...] | None:
    """The columns that a description declares, None where it declares none, or its mistakes in this
    table; raises OSError.
    """
    text = text_of(path)
    if not isinstance(text, str):
        return text
    document = read_toml(text, "file", bytes_max=DESCRIPTION_BYTES_MAX)
    if not isinstance(document, Document):
        return document
    table = document.content.get("settlement")
    if table is None:
        return None
    try:
        form = SettlementForm.model_validate(table)
    except ValidationError as refused:
        found = [(("settlement", *at), said) for at, said in complaints(refused)]
        return document.mistakes(dict.fromkeys(found))
    found = [(("settlement", *at), said) for at, said in settlement_contradictions(form)]
    return document.mistakes(found) if found else columns_of(form)
