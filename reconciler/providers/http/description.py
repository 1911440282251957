"""A description, built: what performer, finder and mapping do their work by.

Guarantees that whatever is built from a checked form needs no checking later. Must never hold a
credential. Made by `description_of_form` once, shared by every client of the provider.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from reconciler.providers.adapter import ANY_OPERATION
from reconciler.providers.error_table import ErrorTable, Verdict
from reconciler.providers.http.answers import AnswerPath, MoneyAt, Source, TimeUnit
from reconciler.providers.http.templates import BodyTemplate, Names, PathTemplate, Template
from reconciler.providers.port import Capabilities
from reconciler.schemes import Scheme


@dataclass(frozen=True, slots=True)
class TimeAt:
    """Where a point in time stands, and how it is written."""

    path: AnswerPath
    unit: TimeUnit


Equals: TypeAlias = tuple[tuple[AnswerPath, str | int | bool], ...]
"""By path the value that has to stand there."""
OneOf: TypeAlias = tuple[tuple[AnswerPath, tuple[str | int | bool, ...]], ...]
"""By path the values of which one has to stand there."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Where the parts of an effect stand, what an item of one that exists holds, what is kept."""

    at: AnswerPath
    equals: Equals
    result: tuple[tuple[str, AnswerPath], ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """Where all stands in an object, and how it says if there is an effect; always by itself."""

    reference: AnswerPath
    account: Source | None
    operation: Source | None
    action_key: AnswerPath | None
    provider_key: AnswerPath | None
    request_hash: AnswerPath | None
    money: MoneyAt | None
    committed_at: TimeAt | None
    exists: OneOf
    none: OneOf
    parts: Parts | None
    result: tuple[tuple[str, AnswerPath], ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A request without its body, and where the object stands in the answer."""

    target: PathTemplate
    headers: tuple[tuple[str, Template], ...]
    shape: Shape
    at: AnswerPath

    def written_headers(self, names: Names) -> tuple[tuple[str, str], ...]:
        """The headers for one request; one without a value is left out. Raises Unsendable."""
        return written(self.headers, names)


def written(headers: tuple[tuple[str, Template], ...], names: Names) -> tuple[tuple[str, str], ...]:
    """Headers for one request; one without a value is left out. Raises Unsendable."""
    values = ((name, template.header(names)) for name, template in headers)
    return tuple((name, value) for name, value in values if value is not None)


@dataclass(frozen=True, slots=True)
class Perform:
    """How effects of an operation are made."""

    call: Call
    method: str
    body: BodyTemplate | None
    statuses: frozenset[int]
    equals: Equals
    parts: Parts | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """How the provider is asked what a request would do: nothing of it can do it."""

    address: PathTemplate
    headers: tuple[tuple[str, Template], ...]
    method: str
    body: BodyTemplate | None
    statuses: frozenset[int]
    equals: Equals
    effect: Source | None
    target: Source | None
    scope: Source | None
    observed: tuple[tuple[str, AnswerPath], ...]


@dataclass(frozen=True, slots=True)
class Find:
    """One search."""

    call: Call
    by: Literal["key", "reference", "marker"]
    answers: Literal["one", "list"]
    equals: Equals
    absent_statuses: frozenset[int]
    absent_codes: frozenset[str]
    not_offered: tuple[tuple[int, str | None], ...]
    searched_until: TimeAt | None
    more: AnswerPath | None


@dataclass(frozen=True, slots=True)
class Listing:
    """The list of all effects."""

    call: Call
    equals: Equals
    next: AnswerPath | None
    first_cursor: str | None
    limit: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """One row for answers; an empty set fits every status or code."""

    statuses: frozenset[int]
    codes: frozenset[str]
    verdict: Verdict

    def fits(self, status: int, code: str | None) -> bool:
        """True when this row speaks of such an answer."""
        named = not self.codes or code in self.codes
        return named and (not self.statuses or status in self.statuses)


@dataclass(frozen=True, slots=True)
class Errors:
    """The error table: rows for answers in their order, and the table for the rest."""

    code: AnswerPath | None
    rows: tuple[Row, ...]
    table: ErrorTable


@dataclass(frozen=True, slots=True)
class Pull:
    """The provider's own list of events, and how often it is read."""

    target: PathTemplate
    headers: tuple[tuple[str, Template], ...]
    at: AnswerPath
    equals: Equals
    next: AnswerPath | None
    first_cursor: str | None
    limit: int | None
    interval_ms: int
    overlap_ms: int
    kept_ms: int | None


@dataclass(frozen=True, slots=True)
class Composite:
    """Where the operation and the target of what a webhook is about stand."""

    operation: Source
    target: AnswerPath
    target_prefix: str


@dataclass(frozen=True, slots=True)
class EventRow:
    """What a webhook of a type means that holds these values."""

    meaning: Literal["final", "progress", "irrelevant"]
    effect: Literal["exists", "none", "pending", "reversed"]
    is_of_reversal: bool
    equals: Equals


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where in a webhook everything stands, and what its types mean."""

    scheme: Scheme
    pull: Pull | None
    event_id: AnswerPath | None
    event_type: AnswerPath
    account: Source
    occurred_at: TimeAt
    reference: AnswerPath | None
    reverses: AnswerPath | None
    action_key: AnswerPath | None
    provider_key: AnswerPath | None
    composite: Composite | None
    money: MoneyAt | None
    meanings: Mapping[str, tuple[EventRow, ...]]


@dataclass(frozen=True, slots=True)
class Description:
    """One provider, described."""

    base_url: str | None
    credentials: Mapping[str, str]
    """By account the file that holds its credential, as the description names it."""
    shared_accounts: frozenset[str]
    """The accounts that others write to as well."""
    capabilities: Capabilities
    performs: Mapping[str, Perform]
    previews: Mapping[str, Preview]
    finds: tuple[Find, ...]
    listing: Listing | None
    errors: Errors
    webhook: Webhook | None

    def perform(self, operation: str) -> Perform | None:
        """How an operation's effects are made, or None for one that is not described."""
        return self.performs.get(operation) or self.performs.get(ANY_OPERATION)

    def preview(self, operation: str) -> Preview | None:
        """How is asked what an operation would do, or None where it cannot be."""
        return self.previews.get(operation) or self.previews.get(ANY_OPERATION)
