"""From the checked forms of a description to the description itself.

Guarantees that what cannot be is refused here, so that nothing needs checking later. Called by
`parsing` once for each file.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from reconciler.declared_signature import DeclaredHmac, signed_pieces
from reconciler.providers.error_table import DEFAULT, ErrorTable, Verdict
from reconciler.providers.http.answers import (
    AmountUnit,
    AnswerPath,
    Fixed,
    MoneyAt,
    Source,
    path_of,
)
from reconciler.providers.http.description import (
    Call,
    Composite,
    Description,
    Equals,
    Errors,
    EventRow,
    Find,
    Listing,
    OneOf,
    Parts,
    Perform,
    Preview,
    Pull,
    Row,
    Shape,
    TimeAt,
    Webhook,
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
from reconciler.providers.http.templates import BodyTemplate, PathTemplate, Template
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
