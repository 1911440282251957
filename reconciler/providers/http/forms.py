"""The tables and keys of a description, as they stand in its TOML file.

Guarantees that an unknown key, a wrong type or a missing answer is an error: no capability has a
default. Holds no behaviour beyond that; `checks` looks at what the forms cannot say, `description`
builds from them. Called by `parsing` only.
"""

import re
from typing import Annotated, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from ledger.core.limits import DURATION_MS_MAX, OBSERVED_MAX
from reconciler.providers.described import Form, SharedAccounts
from reconciler.providers.http.answers import TimeUnit
from reconciler.providers.http_exchange import Trouble
from reconciler.providers.limits import DESCRIPTION_ENTRIES_MAX, LOOKUP_EFFECTS_MAX
from reconciler.providers.settlement import SettlementForm

_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")

YesOrNo: TypeAlias = Literal["possible", "impossible"]


def _duration(value: object) -> object:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value == "impossible" or (whole and 0 <= int(str(value)) <= DURATION_MS_MAX):
        return value
    raise ValueError(f'must be a whole number up to {DURATION_MS_MAX} or "impossible"')


def _steps(path: str) -> str:
    if path and not all(path.split(".")):
        raise ValueError("must be names with single dots between them, such as data.id")
    return path


def _header(name: str) -> str:
    if _HEADER.fullmatch(name) is None:
        raise ValueError("must be the name of a header")
    return name.lower()


def _trouble(code: str) -> str:
    if code not in set(Trouble):
        raise ValueError(f"must be one of {', '.join(Trouble)}")
    return code


def _address(url: str) -> str:
    # In no answer is the value quoted: whoever writes a secret into it should not see it in a log.
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError("must be http(s)://host[:port][/path]") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be http(s)://host[:port][/path]")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must have no user, password, query or fragment")
    if "{" in url:
        raise ValueError("is an address and no template: no request may choose where it goes")
    return url


Span: TypeAlias = Annotated[object, AfterValidator(_duration)]
Short: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Steps: TypeAlias = Annotated[str, StringConstraints(max_length=256), AfterValidator(_steps)]
"""Where a value stands in an answer: `data.items.0.id`; empty for the answer itself."""
Origin: TypeAlias = Short
"""Where a value stands, or `=` and the value itself."""
HeaderName: TypeAlias = Annotated[str, StringConstraints(max_length=128), AfterValidator(_header)]
Status: TypeAlias = Annotated[int, Field(ge=200, le=599)]
Table: TypeAlias = Annotated[dict[str, Short], Field(max_length=DESCRIPTION_ENTRIES_MAX)]
Scalars: TypeAlias = Annotated[
    dict[str, str | int | bool], Field(max_length=DESCRIPTION_ENTRIES_MAX)
]


Conditions: TypeAlias = Annotated[
    dict[str, Annotated[list[str | int | bool], Field(min_length=1)]],
    Field(max_length=DESCRIPTION_ENTRIES_MAX),
]
"""By path, the values of which one has to stand there; all paths have to hold."""
PageSize: TypeAlias = Annotated[int, Field(ge=1, le=LOOKUP_EFFECTS_MAX)]
"""How many items a page is asked for; half as many where the answer is too large for us."""


class CapabilitiesForm(Form):
    """Every question of the port; there is no answer by default."""

    reliability: Literal["keyed", "reference", "lookup", "none"]
    finds_by_key: YesOrNo
    finds_by_reference: YesOrNo
    finds_by_marker: YesOrNo
    lists_effects: YesOrNo
    previews: YesOrNo
    key_window_ms: Span
    key_chars_max: Span
    settle_horizon_ms: Span
    search_lag_ms: Span
    replay_proven: YesOrNo
    remembers: list[Literal["success", "refusal", "server_error"]]
    sends_webhooks: YesOrNo
    retries_webhooks: YesOrNo


class MoneyForm(Form):
    """Where an amount stands; exactly one of `minor` and `decimal`. `sign`: what a minus means; a
    provider that writes what leaves it with one has it ignored, because the type says what it is.
    """

    minor: Steps | None = None
    decimal: Steps | None = None
    currency: Origin
    sign: Literal["refused", "ignored"] = "refused"


class TimeForm(Form):
    """Where a point in time stands, and how it is written."""

    at: Steps
    unit: TimeUnit


class ShapePartsForm(Form):
    """A list in the object with one item a part, and how an item says that its part exists."""

    at: Steps
    equals: Annotated[Scalars, Field(min_length=1)]


class ShapeForm(Form):
    """Where in the provider's object the things stand that the ledger looks at, and how it says
    that there is an effect, or none. Without `exists` every object is one.
    """

    reference: Steps
    account: Origin | None = None
    operation: Origin | None = None
    action_key: Steps | None = None
    provider_key: Steps | None = None
    request_hash: Steps | None = None
    money: MoneyForm | None = None
    committed_at: TimeForm | None = None
    exists: Conditions = Field(default_factory=dict)
    none: Conditions = Field(default_factory=dict)
    parts: ShapePartsForm | None = None
    result: Table = Field(default_factory=dict)


class PartsForm(Form):
    """A list in the answer with one item a part, and how an item says that its part exists."""

    at: Steps
    equals: Annotated[Scalars, Field(min_length=1)]
    result: Table = Field(default_factory=dict)


class SuccessForm(Form):
    """How an answer says that the effect exists, and all of its parts where it has some."""

    statuses: Annotated[list[Status], Field(min_length=1)]
    equals: Scalars = Field(default_factory=dict)
    parts: PartsForm | None = None


class CallForm(Form):
    """What every request has."""

    path: Short
    query: Table = Field(default_factory=dict)
    headers: Table = Field(default_factory=dict)
    shape: Short
    at: Steps = ""


class PerformForm(CallForm):
    """How an effect is made."""

    method: Literal["POST", "PUT", "PATCH", "DELETE"]
    body: dict[str, object] | None = None
    absent: Literal["null", "omit"] = "null"
    success: SuccessForm


class PreviewForm(Form):
    """How the provider is asked what a request would do, and where it says so."""

    method: Literal["GET", "POST"] = "GET"
    path: Short
    query: Table = Field(default_factory=dict)
    headers: Table = Field(default_factory=dict)
    body: dict[str, object] | None = None
    absent: Literal["null", "omit"] = "null"
    statuses: Annotated[list[Status], Field(min_length=1)] = Field(default_factory=lambda: [200])
    equals: Scalars = Field(default_factory=dict)
    effect: Origin | None = None
    target: Origin | None = None
    scope: Origin | None = None
    observed: Annotated[dict[str, Steps], Field(max_length=OBSERVED_MAX)] = Field(
        default_factory=dict
    )


class NotOfferedForm(Form):
    """An answer that says: this account has no such search."""

    status: Status
    code: Short | None = None


class FindForm(CallForm):
    """How an effect is looked up, always by GET."""

    by: Literal["key", "reference", "marker"]
    answers: Literal["one", "list"]
    equals: Scalars = Field(default_factory=dict)
    absent_statuses: list[Status] = Field(default_factory=list)
    absent_codes: list[Short] = Field(default_factory=list)
    not_offered: list[NotOfferedForm] = Field(default_factory=list)
    searched_until: TimeForm | None = None
    more: Steps | None = None


class ListingForm(CallForm):
    """How all effects are listed, oldest first, always by GET."""

    equals: Scalars = Field(default_factory=dict)
    next: Steps | None = None
    first_cursor: Short | None = None
    limit: PageSize | None = None


class RowForm(Form):
    """One row of the error table; the first that fits decides."""

    phase: Literal["before_first_byte", "after_first_byte", "answered"]
    troubles: list[Annotated[str, AfterValidator(_trouble)]] = Field(default_factory=list)
    statuses: list[Status] = Field(default_factory=list)
    codes: list[Short] = Field(default_factory=list)
    verdict: Literal[
        "not_sent_later", "not_sent_never", "refused_later", "refused_never", "unresolved"
    ]


class ErrorsForm(Form):
    """What an answer without success means."""

    code: Steps | None = None
    otherwise: Literal["usual_statuses", "unresolved"]
    row: list[RowForm] = Field(default_factory=list)


class EventForm(Form):
    """What webhooks of one type mean, all of them or those that hold some values."""

    meaning: Literal["final", "progress", "irrelevant"]
    effect: Literal["exists", "none", "pending", "reversed"]
    of_reversal: bool = False
    equals: Scalars = Field(default_factory=dict)

    @property
    def is_of_reversal(self) -> bool:
        """Whether it speaks of a giving back, also of one that is at work or came to nothing."""
        return self.of_reversal or self.effect == "reversed"


def _several(rows: object) -> object:
    return rows if isinstance(rows, list) else [rows]


Events: TypeAlias = Annotated[
    list[EventForm],
    BeforeValidator(_several),
    Field(min_length=1, max_length=DESCRIPTION_ENTRIES_MAX),
]
"""One table, or a list of them: of a type the first one that fits says what it means."""


class SignatureForm(Form):
    """How the provider signs its webhooks; all but `scheme` is for `hmac`."""

    scheme: Literal["standard", "stripe", "hmac"]
    header: HeaderName | None = None
    signed: Short | None = None
    algorithm: Literal["sha256", "sha512"] | None = None
    encoding: Literal["hex", "base64"] | None = None
    prefix: Annotated[str, StringConstraints(max_length=64)] | None = None
    separator: Literal[",", ";", " "] | None = None
    secret: Literal["text", "hex", "base64"] | None = None
    timestamp_header: HeaderName | None = None
    timestamp_unit: Literal["seconds", "milliseconds"] | None = None
    tolerance_seconds: Annotated[int, Field(ge=1, le=86_400)] | None = None
    id_header: HeaderName | None = None
    keep: Annotated[list[HeaderName], Field(max_length=8)] = Field(default_factory=list)


class PullForm(Form):
    """How the provider's own list of events is read, always by GET; `at` is where it stands."""

    path: Short
    query: Table = Field(default_factory=dict)
    headers: Table = Field(default_factory=dict)
    at: Steps = ""
    equals: Scalars = Field(default_factory=dict)
    next: Steps | None = None
    first_cursor: Short | None = None
    limit: PageSize | None = None
    interval_seconds: Annotated[int, Field(ge=1, le=86_400)]
    overlap_seconds: Annotated[int, Field(ge=0, le=86_400)] = 300
    kept_days: Annotated[int, Field(ge=1, le=3_650)] | None = None


class CompositeForm(Form):
    """Where in a webhook stands what, together with account, amount and currency, names an action:
    its operation, and its target without the prefix.
    """

    operation: Origin
    target: Steps
    target_prefix: Annotated[str, StringConstraints(max_length=64)] = ""


class WebhookForm(Form):
    """Where in a webhook the things stand that the ledger looks at. Without `event_id` an event is
    named by the hash of its body.
    """

    signature: SignatureForm | None = None
    pull: PullForm | None = None
    event_id: Steps | None = None
    event_type: Steps
    account: Origin
    occurred_at: TimeForm
    reference: Steps | None = None
    reverses: Steps | None = None
    action_key: Steps | None = None
    provider_key: Steps | None = None
    composite: CompositeForm | None = None
    money: MoneyForm | None = None
    type: Annotated[dict[str, Events], Field(min_length=1, max_length=DESCRIPTION_ENTRIES_MAX)]


class AdapterForm(Form):
    """A whole description."""

    format: Literal[1]
    kind: Literal["http"] = "http"
    base_url: Annotated[Short, AfterValidator(_address)] | None = None
    credentials: Table = Field(default_factory=dict)
    shared_accounts: SharedAccounts = Field(default_factory=list)
    headers: Table = Field(default_factory=dict)
    capabilities: CapabilitiesForm
    shape: Annotated[dict[str, ShapeForm], Field(max_length=DESCRIPTION_ENTRIES_MAX)]
    perform: Annotated[
        dict[str, PerformForm], Field(min_length=1, max_length=DESCRIPTION_ENTRIES_MAX)
    ]
    preview: Annotated[dict[str, PreviewForm], Field(max_length=DESCRIPTION_ENTRIES_MAX)] = Field(
        default_factory=dict
    )
    find: Annotated[list[FindForm], Field(max_length=DESCRIPTION_ENTRIES_MAX)] = Field(
        default_factory=list
    )
    listing: ListingForm | None = None
    errors: ErrorsForm
    webhook: WebhookForm | None = None
    settlement: SettlementForm | None = None
