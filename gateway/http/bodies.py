"""What callers send to the HTTP door: read once, bounded, strictly, before any model sees it.

Guarantees that a body has one meaning and that tenant and principal are the API key's. Must never
take an identity from a body or invent a key. Called by the routes.
"""

import re
from collections.abc import Callable
from typing import Annotated, Final, Literal, TypeVar, assert_never

import http_sf
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError
from pydantic_core import PydanticCustomError
from starlette.datastructures import Headers
from starlette.requests import Request as HttpRequest

from gateway.http.body_bytes import read_body
from gateway.http.codes import Code
from gateway.http.limits import OFFER_MS_MAX, WAIT_MS_MAX
from gateway.http.problems import No, Trouble, invalid
from gateway.keys import Caller
from ledger.core.gates import TOKENS, TOOL_CALLS
from ledger.core.ids import ActionId, ActionKey, GateKind, MalformedId, check_component, gate_key
from ledger.core.inputs import (
    CallerOffer,
    CallerReport,
    NoAnswer,
    NotSent,
    Propose,
    Refusal,
    ReportedOutcome,
    ReportStep,
    Retry,
    Success,
)
from ledger.core.limits import DURATION_MS_MAX, INTEGER_MAX, INTENT_BYTES_MAX
from ledger.core.money import Money
from ledger.core.rejections import Rejection
from ledger.core.request import Request
from ledger.core.strict_json import MalformedJson, parse
from ledger.core.wire import Text, Wire

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9._~:#/-]{1,512}")
_Model = TypeVar("_Model", bound=BaseModel)


Nonce = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{16,64}$")]
OutcomeCode = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")]


class CallerBody(Wire):
    """The caller performs the action itself.

    `nonce` is drawn at random for every call, and only the call that the start names may act.
    `valid_ms`: for how long from now on that call certainly waits to be started.
    """

    nonce: Nonce
    valid_ms: Annotated[int, Field(ge=1, le=OFFER_MS_MAX)]


class ProposeBody(Wire):
    """An intent: one effect that the caller wants.

    `business_event` names what happened in your business that this act belongs to (an invoice, a
    renewal, a ticket): it makes the key, so it must be the same whenever the same act is meant.
    `item` tells acts of one operation within one event apart. `step_ms` shortens the operation's
    own deadline for the whole step. `caller` is given where the caller performs the action itself.

    `run` names the run of the agent that this is a step of, `occurrence` tells an intended
    repetition from a duplicate, and `batch` names what it is shown together with. `revises` is the
    key of an earlier action of the same business event whose changed request this is: its own key
    is that one's with the next revision. `compensates` is the key of the one that it undoes.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "operation": "charge",
                    "version": 1,
                    "business_event": "renewal-2026-08-28-01",
                    "target": "order:A-1842",
                    "params": {"customer": "cus_7f", "description": "Renewal, August"},
                    "money": {"minor": 4_990, "currency": "USD"},
                    "environment": "production",
                }
            ]
        }
    )

    operation: Text
    version: int
    business_event: Text
    item: Text | None = None
    target: Text | None = None
    params: dict[str, JsonValue] = Field(default_factory=dict)
    money: Money | None = None
    environment: Text
    step_ms: Annotated[int, Field(ge=1, le=DURATION_MS_MAX)] | None = None
    run: Text | None = None
    occurrence: Text | None = None
    batch: Text | None = None
    revises: Text | None = None
    compensates: Text | None = None
    caller: CallerBody | None = None


class SucceededBody(Wire):
    """The function saw the effect: `reference` is the provider's name for it."""

    kind: Literal["succeeded"]
    reference: Annotated[Text, Field(min_length=1)]
    result: dict[str, JsonValue] = Field(default_factory=dict)


class RefusedBody(Wire):
    """The provider said definitely no; `retry` says whether the same may be accepted later."""

    kind: Literal["refused"]
    code: OutcomeCode
    retry: Literal["never", "later"]
    retry_after_ms: Annotated[int, Field(ge=0, le=DURATION_MS_MAX)] | None = None


class NotSentBody(Wire):
    """Nothing was asked of any provider."""

    kind: Literal["not_sent"]
    code: OutcomeCode
    retry: Literal["never", "later"]


class UnresolvedBody(Wire):
    """It may or may not have happened."""

    kind: Literal["unresolved"]
    code: OutcomeCode


class OutcomeBody(Wire):
    """What became of an attempt that the caller performed itself, as its start named it."""

    nonce: Nonce
    attempt: Annotated[int, Field(ge=1, le=INTEGER_MAX)]
    fencing_token: Annotated[int, Field(ge=1, le=INTEGER_MAX)]
    outcome: Annotated[
        SucceededBody | RefusedBody | NotSentBody | UnresolvedBody, Field(discriminator="kind")
    ]


class StepBody(Wire):
    """What one step of a run took, in the agent's own words. `step` is the number of the step, from
    1, and only grows; `reporter` tells apart several who report steps of one run: the name stays
    with the principal that used it first.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"step": 7, "tool_calls": 2, "tokens": 4_180}]}
    )

    step: Annotated[int, Field(ge=1, le=INTEGER_MAX)]
    reporter: Text = "agent"
    tool_calls: Annotated[int, Field(ge=0, le=INTEGER_MAX)] | None = None
    tokens: Annotated[int, Field(ge=0, le=INTEGER_MAX)] | None = None


class NothingBody(Wire):
    """The body of what says nothing beyond its path: an empty object, or none."""


class CancelBody(Wire):
    """Why an action is taken back, in the caller's words."""

    reason: Text | None = None


def _in_digits(text: object) -> object:
    """A number of a query, written as `4990` and in no other of the ways in which one could be."""
    if not isinstance(text, str) or _DIGITS.fullmatch(text) is None:
        raise PydanticCustomError("int_parsing", "Write a whole number in digits, such as 4990")
    return text


_DIGITS: Final = re.compile(r"0|[1-9][0-9]{0,15}")
_Number = Annotated[int, BeforeValidator(_in_digits)]


class Wait(BaseModel):
    """How long an answer may wait for the action to move on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    wait_ms: Annotated[_Number, Field(ge=0, le=WAIT_MS_MAX)] = 0


class Poll(Wait):
    """A long poll: wait until the action's version is above `after_version`."""

    after_version: Annotated[_Number, Field(ge=0, le=INTEGER_MAX)] | None = None


async def read_json(
    http: HttpRequest,
    *,
    bytes_max: int = INTENT_BYTES_MAX,
    objection: Callable[[bytes], No | None] | None = None,
) -> JsonValue | No:
    """The value of a JSON body, by the strict parser; `objection` sees its bytes first."""
    undeclared = _not_as_json(http.headers)
    if undeclared is not None:
        return undeclared
    raw = await read_body(http, bytes_max=bytes_max)
    if isinstance(raw, No):
        return raw
    return _json(raw, bytes_max, objection)


async def read_optional_json(http: HttpRequest, *, bytes_max: int) -> JsonValue | No:
    """The same where a body may be left out: then it is an empty object."""
    raw = await read_body(http, bytes_max=bytes_max)
    if isinstance(raw, No):
        return raw
    return {} if raw == b"" else (_not_as_json(http.headers) or _json(raw, bytes_max))


def _not_as_json(headers: Headers) -> No | None:
    """What a body is declared as, where that is anything but JSON as it is."""
    types, packings = headers.getlist("content-type"), headers.getlist("content-encoding")
    media_type = types[0].partition(";")[0].strip().lower() if len(types) == 1 else ""
    if media_type != "application/json":
        return No(Code.UNSUPPORTED_MEDIA_TYPE)
    if any(one.strip().lower() != "identity" for one in packings):
        return No(
            Code.UNSUPPORTED_MEDIA_TYPE,
            detail="A body is not unpacked here; send it without Content-Encoding.",
            headers={"Accept-Encoding": "identity"},
        )
    return None


def _json(
    raw: bytes, bytes_max: int, objection: Callable[[bytes], No | None] | None = None
) -> JsonValue | No:
    refused = None if objection is None else objection(raw)
    if refused is not None:
        return refused
    try:
        return parse(raw, bytes_max=bytes_max)
    except MalformedJson as malformed:
        trouble = Trouble(path=malformed.path, code=malformed.code, message=malformed.hint)
        return No(Code.MALFORMED_JSON, problems=(trouble,))


def read_model(model: type[_Model], value: JsonValue, code: Code) -> _Model | No:
    """A value as a model, or what is wrong with it."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        return invalid(code, error)


def read_query(model: type[_Model], http: HttpRequest) -> _Model | No:
    """The query as a model; a parameter that is given twice is refused."""
    query = http.query_params
    if not query:
        return model()
    pairs = query.multi_items()
    given = dict(pairs)
    if len(given) != len(pairs):
        return No(Code.INVALID_QUERY, detail="A parameter is given more than once.")
    try:
        return model.model_validate(given)
    except ValidationError as error:
        return invalid(Code.INVALID_QUERY, error)


def proposal(body: ProposeBody, caller: Caller) -> Propose | No:
    """The intent of a body for the caller's own tenant and principal."""
    earlier = _earlier(body, caller)
    if isinstance(earlier, No):
        return earlier
    try:
        action_id = ActionId(body.business_event, body.item, _revision(earlier))
        key = ActionKey(body.operation, body.version, caller.tenant, action_id)
        for field in ("run", "occurrence", "batch"):
            if (name := getattr(body, field)) is not None:
                check_component(name, field)
        request = Request(
            operation=body.operation,
            version=body.version,
            target=body.target,
            params=body.params,
            money=body.money,
            principal=caller.principal,
            environment=body.environment,
        )
    except MalformedId as malformed:
        trouble = Trouble(
            path=f"/{malformed.field}", code="malformed_identifier", message=str(malformed)
        )
        return No(Code.INVALID_BODY, problems=(trouble,))
    except ValidationError as error:
        return invalid(Code.INVALID_BODY, error)
    offered = body.caller
    return Propose(
        key=str(key),
        request=request,
        step_ms=body.step_ms,
        behalf=caller.behalf or None,
        run=body.run,
        occurrence=body.occurrence,
        batch=body.batch,
        revises=body.revises,
        compensates=body.compensates,
        caller=None
        if offered is None
        else CallerOffer(nonce=offered.nonce, valid_ms=offered.valid_ms),
    )


def _earlier(body: ProposeBody, caller: Caller) -> ActionKey | No | None:
    """The action that a proposal revises, once whatever it names is one of its business event."""
    revised: ActionKey | None = None
    for field in ("revises", "compensates"):
        text = getattr(body, field)
        if text is None:
            continue
        try:
            named = ActionKey.parse(text)
        except MalformedId as malformed:
            return _wrong(field, "malformed_key", str(malformed))
        if (named.tenant, named.action_id.business_event) != (caller.tenant, body.business_event):
            return _wrong(field, "other_business_event", _OTHER_EVENT)
        revised = named if field == "revises" else revised
    if revised is not None and (revised.operation, revised.action_id.item) != (
        body.operation,
        body.item,
    ):
        return _wrong("revises", "other_act", _OTHER_ACT)
    return revised


_OTHER_EVENT: Final = "name an action of the same business event, as it is given here"
_OTHER_ACT: Final = "a revision is of the same operation and item as what it revises"


def _revision(revised: ActionKey | None) -> int | None:
    """The number of a revision: one more than that of what it revises."""
    return None if revised is None else (revised.action_id.revision or 1) + 1


def _wrong(field: str, code: str, message: str) -> No:
    return No(Code.INVALID_BODY, problems=(Trouble(path=f"/{field}", code=code, message=message),))


def wrong_name(field: str, name: str, code: Code) -> No | None:
    """What is wrong with a name that has to stand in a key, or None; `code` says where it was."""
    try:
        check_component(name, field)
    except MalformedId as malformed:
        trouble = Trouble(path=f"/{field}", code="malformed_identifier", message=str(malformed))
        return No(code, problems=(trouble,))
    return None


def report(key: str, body: OutcomeBody, caller: Caller) -> CallerReport:
    """The caller's word for its own principal."""
    said = body.outcome
    outcome: ReportedOutcome
    match said:
        case SucceededBody():
            outcome = Success(reference=said.reference, result=said.result)
        case RefusedBody():
            outcome = Refusal(
                code=said.code, retry=Retry(said.retry), retry_after_ms=said.retry_after_ms
            )
        case NotSentBody():
            outcome = NotSent(code=said.code, retry=Retry(said.retry))
        case UnresolvedBody():
            outcome = NoAnswer(code=said.code)
        case _:
            assert_never(said)
    return CallerReport(
        key=key,
        principal=caller.principal,
        attempt=body.attempt,
        fencing_token=body.fencing_token,
        nonce=body.nonce,
        outcome=outcome,
    )


def run_gate(run: str, caller: Caller) -> str | No:
    """The gate of a run of the caller's own tenant, as a path names it."""
    wrong = wrong_name("run", run, Code.INVALID_PATH)
    return gate_key(caller.tenant, GateKind.RUN, run) if wrong is None else wrong


def step_report(run: str, body: StepBody, caller: Caller) -> ReportStep | No:
    """What a caller says of a step of a run of its own tenant."""
    gate = run_gate(run, caller)
    if isinstance(gate, No):
        return gate
    wrong = wrong_name("reporter", body.reporter, Code.INVALID_BODY)
    if wrong is not None:
        return wrong
    said = ((TOOL_CALLS, body.tool_calls), (TOKENS, body.tokens))
    return ReportStep(
        gate=gate,
        principal=caller.principal,
        reporter=body.reporter,
        step=body.step,
        amounts={name: amount for name, amount in said if amount is not None},
    )


def check_idempotency_key(headers: Headers, name: str, short: str) -> No | None:
    """Hold the header against what the body is called, whole or in short; absent is fine.

    Of an action that is its key or its action id; of a saga `event/saga` or its own name.
    """
    given = headers.getlist("idempotency-key")
    if not given:
        return None
    value = _unquoted(given[0].strip()) if len(given) == 1 else None
    if not value:
        return No(Code.MALFORMED_IDEMPOTENCY_KEY)
    if value in {name, short}:
        return None
    return No(Code.OTHER_IDEMPOTENCY_KEY, detail=f"The body's key is {name}")


def _unquoted(text: str) -> str | None:
    """The key of a header: a string of RFC 9651 as the IETF draft asks, or bare as many send it."""
    if not text.startswith('"'):
        return text if _BARE_KEY.fullmatch(text) else None
    try:
        item = http_sf.parse(text.encode("latin-1"), tltype="item")
    except (http_sf.StructuredFieldError, UnicodeEncodeError):
        return None
    value = item[0] if isinstance(item, tuple) else item
    return value if isinstance(value, str) else None


def parsed_key(text: str) -> ActionKey | No:
    """The action key of a path or a body."""
    try:
        return ActionKey.parse(text)
    except MalformedId as malformed:
        trouble = Trouble(path="/key", code=malformed.field, message=str(malformed))
        return No(Rejection.MALFORMED_KEY, problems=(trouble,))


def own_key(text: str, caller: Caller) -> ActionKey | No:
    """The action key of a path, if it is one of the caller's own tenant.

    Another tenant's key is answered exactly as one that nobody ever used, without a look at it.
    """
    key = parsed_key(text)
    if isinstance(key, No):
        return key
    return key if key.tenant == caller.tenant else No(Rejection.UNKNOWN_ACTION)
