"""A description, built: what performer, finder and mapping do their work by.

Guarantees that whatever is built from a checked form needs no checking later. Must never hold a
credential. Built by `parsing` once, shared by every client of the provider.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from reconciler.declared_signature import DeclaredHmac, signed_pieces
from reconciler.providers.adapter import ANY_OPERATION
from reconciler.providers.error_table import DEFAULT, ErrorTable, Verdict
from reconciler.providers.http.answers import (
    AmountUnit,
    AnswerPath,
    Fixed,
    MoneyAt,
    Source,
    TimeUnit,
    path_of,
)
from reconciler.providers.http.forms import (
    AdapterForm,
    CallForm,
    CapabilitiesForm,
    CompositeForm,
    ErrorsForm,
    FindForm,
    ListingForm,
    MoneyForm,
    PartsForm,
    PerformForm,
    PreviewForm,
    PullForm,
    ShapeForm,
    SignatureForm,
    TimeForm,
    WebhookForm,
)
from reconciler.providers.http.templates import BodyTemplate, Names, PathTemplate, Template
from reconciler.providers.http_exchange import Trouble
from reconciler.providers.port import (
    IMPOSSIBLE,
    POSSIBLE,
    Answer,
    Capabilities,
    Duration,
    Reliability,
    Remembered,
)
from reconciler.schemes import STANDARD, STRIPE, Scheme
from reconciler.webhooks import TOLERANCE_MS


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


def built(form: AdapterForm) -> Description:
    """The description of a checked form; raises ValueError for capabilities that cannot all be."""
    shapes = {name: _shape(shape) for name, shape in form.shape.items()}

    def headers(own: Mapping[str, str]) -> tuple[tuple[str, Template], ...]:
        return tuple((name, Template(text)) for name, text in {**form.headers, **own}.items())

    def call(one: CallForm) -> Call:
        target = PathTemplate(one.path, one.query)
        return Call(target, headers(one.headers), shapes[one.shape], path_of(one.at))

    def preview(one: PreviewForm) -> Preview:
        return Preview(
            address=PathTemplate(one.path, one.query),
            headers=headers(one.headers),
            method=one.method,
            body=None if one.body is None else BodyTemplate(one.body, one.absent),
            statuses=frozenset(one.statuses),
            equals=_equals(one.equals),
            effect=_source(one.effect),
            target=_source(one.target),
            scope=_source(one.scope),
            observed=tuple((name, path_of(at)) for name, at in one.observed.items()),
        )

    def find(one: FindForm) -> Find:
        return Find(
            call=call(one),
            by=one.by,
            answers=one.answers,
            equals=_equals(one.equals),
            absent_statuses=frozenset(one.absent_statuses),
            absent_codes=frozenset(one.absent_codes),
            not_offered=tuple((row.status, row.code) for row in one.not_offered),
            searched_until=_time(one.searched_until),
            more=_path(one.more),
        )

    def listing(one: ListingForm) -> Listing:
        equals = _equals(one.equals)
        return Listing(call(one), equals, _path(one.next), one.first_cursor, one.limit)

    def perform(one: PerformForm) -> Perform:
        return Perform(
            call=call(one),
            method=one.method,
            body=None if one.body is None else BodyTemplate(one.body, one.absent),
            statuses=frozenset(one.success.statuses),
            equals=_equals(one.success.equals),
            parts=_parts(one.success.parts),
        )

    return Description(
        base_url=form.base_url,
        credentials=dict(form.credentials),
        shared_accounts=frozenset(form.shared_accounts),
        capabilities=_capabilities(form.capabilities),
        performs={name: perform(one) for name, one in form.perform.items()},
        previews={name: preview(one) for name, one in form.preview.items()},
        finds=tuple(map(find, form.find)),
        listing=None if form.listing is None else listing(form.listing),
        errors=_errors(form.errors),
        webhook=None if form.webhook is None else _webhook(form.webhook, headers),
    )


def _equals(form: Mapping[str, str | int | bool]) -> Equals:
    return tuple((path_of(at), value) for at, value in form.items())


def _one_of(form: Mapping[str, list[str | int | bool]]) -> OneOf:
    return tuple((path_of(at), tuple(values)) for at, values in form.items())


def _parts(form: PartsForm | None) -> Parts | None:
    if form is None:
        return None
    result = tuple((name, path_of(at)) for name, at in form.result.items())
    return Parts(path_of(form.at), _equals(form.equals), result)


def _shape(form: ShapeForm) -> Shape:
    parts = form.parts
    return Shape(
        reference=path_of(form.reference),
        account=_source(form.account),
        operation=_source(form.operation),
        action_key=_path(form.action_key),
        provider_key=_path(form.provider_key),
        request_hash=_path(form.request_hash),
        money=_money(form.money),
        committed_at=_time(form.committed_at),
        exists=_one_of(form.exists),
        none=_one_of(form.none),
        parts=None if parts is None else Parts(path_of(parts.at), _equals(parts.equals), ()),
        result=tuple((name, path_of(at)) for name, at in form.result.items()),
    )


_Headers: TypeAlias = Callable[[Mapping[str, str]], tuple[tuple[str, Template], ...]]


def _webhook(form: WebhookForm, headers: _Headers) -> Webhook:
    return Webhook(
        scheme=STANDARD if form.signature is None else scheme(form.signature),
        pull=None if form.pull is None else _pull(form.pull, headers),
        event_id=_path(form.event_id),
        event_type=path_of(form.event_type),
        account=origin(form.account),
        occurred_at=TimeAt(path_of(form.occurred_at.at), form.occurred_at.unit),
        reference=_path(form.reference),
        reverses=_path(form.reverses),
        action_key=_path(form.action_key),
        provider_key=_path(form.provider_key),
        composite=None if form.composite is None else _composite(form.composite),
        money=_money(form.money),
        meanings={
            name: tuple(
                EventRow(row.meaning, row.effect, row.is_of_reversal, _equals(row.equals))
                for row in rows
            )
            for name, rows in form.type.items()
        },
    )


def _composite(form: CompositeForm) -> Composite:
    return Composite(origin(form.operation), path_of(form.target), form.target_prefix)


def _pull(form: PullForm, headers: _Headers) -> Pull:
    return Pull(
        target=PathTemplate(form.path, form.query),
        headers=headers(form.headers),
        at=path_of(form.at),
        equals=_equals(form.equals),
        next=_path(form.next),
        first_cursor=form.first_cursor,
        limit=form.limit,
        interval_ms=form.interval_seconds * 1_000,
        overlap_ms=form.overlap_seconds * 1_000,
        kept_ms=None if form.kept_days is None else form.kept_days * 86_400_000,
    )


def scheme(form: SignatureForm) -> Scheme:
    """The scheme of a checked form."""
    if form.scheme == "standard":
        return STANDARD
    if form.scheme == "stripe":
        return STRIPE
    return DeclaredHmac(
        header=form.header or "",
        signed=signed_pieces(form.signed or "{body}"),
        algorithm=form.algorithm or "sha256",
        encoding=form.encoding or "hex",
        prefix=form.prefix or "",
        separator=form.separator,
        key_as=form.secret or "text",
        timestamp_header=form.timestamp_header,
        timestamp_unit=form.timestamp_unit or "seconds",
        tolerance_ms=(form.tolerance_seconds or TOLERANCE_MS // 1_000) * 1_000,
        id_header=form.id_header,
        keep=tuple(form.keep),
    )


def _errors(form: ErrorsForm) -> Errors:
    rows: list[Row] = []
    troubles = dict(DEFAULT.troubles)
    for row in reversed(form.row):
        # From the last to the first, so that the first row that names a trouble is left.
        troubles |= dict.fromkeys(map(Trouble, row.troubles), Verdict(row.verdict))
    for row in form.row:
        if row.phase == "answered":
            verdict = Verdict(row.verdict)
            rows.append(Row(frozenset(row.statuses), frozenset(row.codes), verdict))
    statuses = DEFAULT.statuses if form.otherwise == "usual_statuses" else {}
    return Errors(_path(form.code), tuple(rows), ErrorTable(statuses, troubles))


def _capabilities(form: CapabilitiesForm) -> Capabilities:
    return Capabilities(
        reliability=Reliability(form.reliability),
        finds_by_key=Answer(form.finds_by_key),
        finds_by_reference=Answer(form.finds_by_reference),
        finds_by_marker=Answer(form.finds_by_marker),
        lists_effects=Answer(form.lists_effects),
        previews=Answer(form.previews),
        key_window_ms=_duration(form.key_window_ms),
        key_chars_max=_duration(form.key_chars_max),
        settle_horizon_ms=_duration(form.settle_horizon_ms),
        search_lag_ms=_duration(form.search_lag_ms),
        replay_proven=POSSIBLE if form.replay_proven == "possible" else IMPOSSIBLE,
        remembers=frozenset(map(Remembered, form.remembers)),
        sends_webhooks=Answer(form.sends_webhooks),
        retries_webhooks=Answer(form.retries_webhooks),
    )


def _duration(value: object) -> Duration:
    return value if isinstance(value, int) else IMPOSSIBLE


def _money(form: MoneyForm | None) -> MoneyAt | None:
    if form is None:
        return None
    path = path_of(form.minor or form.decimal or "")
    unit: AmountUnit = "decimal" if form.minor is None else "minor"
    return MoneyAt(path, unit, origin(form.currency), form.sign)


def _time(form: TimeForm | None) -> TimeAt | None:
    return None if form is None else TimeAt(path_of(form.at), form.unit)


def _path(text: str | None) -> AnswerPath | None:
    return None if text is None else path_of(text)


def _source(text: str | None) -> Source | None:
    return None if text is None else origin(text)


def origin(text: str) -> Source:
    """A path into an answer, or after `=` the value itself."""
    return Fixed(text[1:]) if text.startswith("=") else path_of(text)
