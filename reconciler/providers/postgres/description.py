"""A database and what is changed in it, as they stand in a description.

Guarantees that a description is whole or refused with every mistake on its line, and that no SQL
comes from anywhere else. Must never hold an address with a password. Called by the kind.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, StringConstraints

from ledger.core.ids import COMPONENT
from ledger.core.limits import DURATION_MS_MAX
from ledger.core.mistakes import Found, Mistake
from reconciler.providers.described import Form, parse_form
from reconciler.providers.http.templates import BadTemplate, Template, pieces_of
from reconciler.providers.limits import DESCRIPTION_ENTRIES_MAX, ROWS_MAX
from reconciler.providers.names import REQUEST_NAMES, strangers_in
from reconciler.providers.postgres.statement import BadStatement, Statement, statement_of

EFFECTS_TABLE: Final = "actionledger_effects"
_TABLE: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}(?:\.[a-z_][a-z0-9_]{0,62})?")
_COLUMN: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")

Short: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Sql: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=16_384)]
Span: TypeAlias = Annotated[int, Field(ge=1, le=DURATION_MS_MAX)]
Files: TypeAlias = Annotated[dict[str, Short], Field(max_length=DESCRIPTION_ENTRIES_MAX)]


class ChangeForm(Form):
    """One operation's statement."""

    sql: Sql
    values: Annotated[dict[str, Short], Field(max_length=DESCRIPTION_ENTRIES_MAX)] = Field(
        default_factory=dict
    )
    rows: Annotated[int, Field(ge=0, le=ROWS_MAX)] = 1
    rows_at_most: Annotated[int, Field(ge=1, le=ROWS_MAX)] | None = None
    reference: Short | None = None
    isolation: Literal["read_committed", "repeatable_read", "serializable"] = "read_committed"


class PostgresForm(Form):
    """A whole description."""

    format: Literal[1]
    kind: Literal["postgres"]
    effects_table: Short = EFFECTS_TABLE
    key_window_ms: Span
    settle_horizon_ms: Span
    credentials: Annotated[Files, Field(min_length=1)]
    lookups: Files = Field(default_factory=dict)
    perform: Annotated[
        dict[str, ChangeForm], Field(min_length=1, max_length=DESCRIPTION_ENTRIES_MAX)
    ]


@dataclass(frozen=True, slots=True)
class Change:
    """How one operation changes rows, and how many it has to change."""

    statement: Statement
    values: Mapping[str, Template]
    rows: int
    rows_at_most: int
    reference: str | None
    isolation: str


@dataclass(frozen=True, slots=True)
class PostgresDescription:
    """One database, described. `credentials` and `lookups` name the files with its addresses."""

    effects_table: str
    key_window_ms: int
    settle_horizon_ms: int
    credentials: Mapping[str, str]
    lookups: Mapping[str, str]
    changes: Mapping[str, Change]


def parse_postgres(text: str) -> PostgresDescription | tuple[Mistake, ...]:
    """The description of a TOML text, or its mistakes in the order of their lines."""
    return parse_form(text, PostgresForm, contradictions, _built)


def contradictions(form: PostgresForm) -> Iterator[Found]:
    """Everything that is wrong though the forms are right, each with its path."""
    if _TABLE.fullmatch(form.effects_table) is None:
        yield ("effects_table",), "must be a table, or schema.table, in lower case"
    for table, files in (("credentials", form.credentials), ("lookups", form.lookups)):
        for account in files:
            if COMPONENT.fullmatch(account) is None:
                yield (table, account), "is no name of an account"
            elif account not in form.credentials:
                yield (table, account), "is no account of [credentials]"
    for name, change in form.perform.items():
        try:
            statement_of(change.sql, change.values)
        except BadStatement as bad:
            yield ("perform", name, "sql"), str(bad)
        if change.rows_at_most is not None and change.rows_at_most < change.rows:
            yield ("perform", name, "rows_at_most"), "is less than rows"
        if change.reference is not None and _COLUMN.fullmatch(change.reference) is None:
            yield ("perform", name, "reference"), "must be a column that the statement returns"
        for value, text in change.values.items():
            for said in _unfit(text):
                yield ("perform", name, "values", value), said


def _unfit(text: str) -> Iterator[str]:
    try:
        pieces_of(text)
    except BadTemplate as bad:
        yield str(bad)
        return
    for name in strangers_in(text, REQUEST_NAMES):
        yield f"has {{{name}}}, which is not known here"


def _built(form: PostgresForm) -> PostgresDescription:
    return PostgresDescription(
        effects_table=form.effects_table,
        key_window_ms=form.key_window_ms,
        settle_horizon_ms=form.settle_horizon_ms,
        credentials=dict(form.credentials),
        lookups=dict(form.lookups),
        changes={
            name: Change(
                statement=statement_of(one.sql, one.values),
                values={value: Template(text) for value, text in one.values.items()},
                rows=one.rows,
                rows_at_most=one.rows if one.rows_at_most is None else one.rows_at_most,
                reference=one.reference,
                isolation=one.isolation.replace("_", " "),
            )
            for name, one in form.perform.items()
        },
    )
