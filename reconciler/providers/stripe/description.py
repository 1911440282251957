"""What is performed at Stripe, and with what, as it stands in a description.

Guarantees that a description is whole or refused with every mistake on its line; that amount,
currency, markers and everything that decides whether something happens are ours and cannot be
described away; and that no request chooses where it goes. Must never hold a credential. Called by
the kind.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints

from ledger.core.limits import DURATION_MS_MAX
from ledger.core.mistakes import Found, Mistake
from ledger.core.toml_lines import TomlPath
from reconciler.providers.described import (
    Form,
    SharedAccounts,
    account_contradictions,
    parse_form,
)
from reconciler.providers.http.templates import BadTemplate, BodyTemplate, Template
from reconciler.providers.limits import DESCRIPTION_ENTRIES_MAX
from reconciler.providers.names import REQUEST_NAMES, strangers_in
from reconciler.providers.port import IMPOSSIBLE, Answer, Duration
from reconciler.providers.settlement import SettlementForm, settlement_contradictions
from reconciler.providers.stripe.names import METADATA_ENTRIES_MAX, METADATA_NAME_CHARS_MAX, OURS

BASE_URL: Final = "https://api.stripe.com"
Makes: TypeAlias = Literal["payment", "refund"]

_OURS: Final[Mapping[str, frozenset[str]]] = {
    "payment": frozenset(
        {"amount", "confirm", "currency", "error_on_requires_action", "expand", "off_session"}
    ),
    "refund": frozenset({"amount", "charge", "currency", "expand", "payment_intent"}),
}
"""What the adapter writes itself. Without `confirm`, `off_session` and `error_on_requires_action` a
payment would wait for its customer, who may come days later."""

Short: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=1024)]


def _address(url: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError("must be http(s)://host[:port][/path]") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be http(s)://host[:port][/path]")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must have no user, password, query or fragment")
    return url


def _horizon(value: object) -> object:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value == "impossible" or (whole and 0 <= int(str(value)) <= DURATION_MS_MAX):
        return value
    raise ValueError(f'must be a whole number up to {DURATION_MS_MAX} or "impossible"')


class PerformForm(Form):
    """One operation of the catalogue. `of` names the payment that a refund gives back."""

    makes: Makes
    of: Short | None = None
    parameters: Annotated[dict[str, object], Field(max_length=DESCRIPTION_ENTRIES_MAX)] = Field(
        default_factory=dict
    )


class StripeForm(Form):
    """A whole description."""

    format: Literal[1]
    kind: Literal["stripe"]
    base_url: Annotated[str, AfterValidator(_address)] = BASE_URL
    settle_horizon_ms: Annotated[object, AfterValidator(_horizon)]
    replay_proven: Literal["possible", "impossible"]
    credentials: Annotated[dict[str, Short], Field(max_length=DESCRIPTION_ENTRIES_MAX)] = Field(
        default_factory=dict
    )
    shared_accounts: SharedAccounts = Field(default_factory=list)
    livemode: bool | None = None
    perform: Annotated[
        dict[str, PerformForm], Field(min_length=1, max_length=DESCRIPTION_ENTRIES_MAX)
    ]
    settlement: SettlementForm | None = None


@dataclass(frozen=True, slots=True)
class Perform:
    """How one operation is asked for: its parameters beside our own, and the payment it is of."""

    makes: Makes
    of: Template
    parameters: BodyTemplate


@dataclass(frozen=True, slots=True)
class StripeDescription:
    """One Stripe account, or several, described. What Stripe does not publish, or what is only
    proven by having been seen, the description has to answer. `livemode` is that of the keys: an
    event of the other mode means nothing; None where the description does not say.
    """

    base_url: str
    settle_horizon_ms: Duration
    replay_proven: Answer
    credentials: Mapping[str, str]
    shared_accounts: frozenset[str]
    livemode: bool | None
    performs: Mapping[str, Perform]


def parse_stripe(text: str) -> StripeDescription | tuple[Mistake, ...]:
    """The description of a TOML text, or its mistakes in the order of their lines."""
    return parse_form(text, StripeForm, contradictions, _built)


def contradictions(form: StripeForm) -> Iterator[Found]:
    """Everything that is wrong though the forms are right, each with its path."""
    yield from account_contradictions(form.credentials, form.shared_accounts)
    for name, perform in form.perform.items():
        yield from _perform(("perform", name), perform)
    if form.settlement is not None:
        for path, said in settlement_contradictions(form.settlement):
            yield ("settlement", *path), said


def _perform(path: TomlPath, perform: PerformForm) -> Iterator[Found]:
    if perform.of is not None and perform.makes != "refund":
        yield (*path, "of"), "is for what makes a refund only"
    for name in sorted(_OURS[perform.makes] & perform.parameters.keys()):
        yield (*path, "parameters", name), "is written by the adapter itself"
    metadata = perform.parameters.get("metadata", {})
    if isinstance(metadata, dict):
        for name in metadata:
            if name in OURS or len(name) > METADATA_NAME_CHARS_MAX:
                said = f"is ours, or longer than {METADATA_NAME_CHARS_MAX} characters"
                yield (*path, "parameters", "metadata", name), said
        if len(metadata) > METADATA_ENTRIES_MAX - len(OURS):
            said = f"has more than {METADATA_ENTRIES_MAX - len(OURS)} entries"
            yield (*path, "parameters", "metadata"), said
    else:
        yield (*path, "parameters", "metadata"), "must be a table"
    for key, template in (("of", perform.of), ("parameters", perform.parameters)):
        try:
            for stranger in strangers_in(template, REQUEST_NAMES):
                yield (*path, key), f"has {{{stranger}}}, which no request has"
        except BadTemplate as bad:
            yield (*path, key), str(bad)


def _built(form: StripeForm) -> StripeDescription:
    horizon = form.settle_horizon_ms
    return StripeDescription(
        base_url=form.base_url,
        settle_horizon_ms=horizon if isinstance(horizon, int) else IMPOSSIBLE,
        replay_proven=Answer(form.replay_proven),
        credentials=dict(form.credentials),
        shared_accounts=frozenset(form.shared_accounts),
        livemode=form.livemode,
        performs={
            name: Perform(
                makes=one.makes,
                of=Template(one.of or "{original_reference}"),
                parameters=BodyTemplate(one.parameters, "omit"),
            )
            for name, one in form.perform.items()
        },
    )
