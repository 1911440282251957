"""What the HTTP door takes for an intent, and what it refuses before anybody else sees it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers
from starlette.requests import Request as HttpRequest
from starlette.types import Message

from gateway.http.bodies import (
    OutcomeBody,
    ProposeBody,
    check_idempotency_key,
    own_key,
    proposal,
    read_json,
    read_model,
    report,
)
from gateway.http.codes import Code
from gateway.http.problems import No
from gateway.keys import Caller, Role
from ledger.core.ids import ActionKey
from ledger.core.inputs import CallerOffer, CallerReport, Propose
from ledger.core.limits import INTENT_BYTES_MAX
from ledger.core.rejections import Rejection

CALLER = Caller("0" * 16, "acme", "agent:billing", Role.AGENT)
KEY = "charge:v1:acme:renewal-1#receipt"
ACTION_ID = "renewal-1#receipt"
BODY = {
    "operation": "charge",
    "version": 1,
    "business_event": "renewal-1",
    "item": "receipt",
    "environment": "production",
}


def request(*chunks: bytes, **headers: str) -> HttpRequest:
    """A request whose body comes in these chunks."""
    left = list(chunks)
    given_headers = {"content-type": "application/json"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }

    async def receive() -> Message:
        body = left.pop(0) if left else b""
        return {"type": "http.request", "body": body, "more_body": bool(left)}

    raw = [(name.encode(), value.encode()) for name, value in given_headers.items()]
    return HttpRequest({"type": "http", "method": "POST", "headers": raw}, receive)


def read(value: object) -> Propose | No:
    """A body as an intent of the caller."""
    body = read_model(ProposeBody, value, Code.INVALID_BODY)  # type: ignore[arg-type]
    return body if isinstance(body, No) else proposal(body, CALLER)


async def test_a_body_in_pieces_is_one_body() -> None:
    """How the network cuts it makes no difference."""
    raw = json.dumps(BODY).encode()
    assert await read_json(request(*(bytes([byte]) for byte in raw))) == BODY


async def test_a_body_is_bounded_whether_it_says_its_size_or_not() -> None:
    """A declared size is refused at once, a real one as soon as it is over."""
    declared = await read_json(request(b"{}", content_length=str(INTENT_BYTES_MAX + 1)))
    streamed = await read_json(request(*[b" " * 1_024] * 65))
    for no in (declared, streamed):
        assert isinstance(no, No)
        assert no.code is Code.TOO_LARGE
    assert await read_json(request(b" " * (INTENT_BYTES_MAX - 2), b"{}")) == {}


@pytest.mark.parametrize("media_type", ["", "text/plain", "application/jsonx", "multipart/form"])
async def test_a_body_must_be_declared_as_json(media_type: str) -> None:
    """A browser's form cannot propose anything."""
    no = await read_json(request(b"{}", content_type=media_type))
    assert isinstance(no, No)
    assert no.code is Code.UNSUPPORTED_MEDIA_TYPE


async def test_a_media_type_may_have_parameters() -> None:
    """Clients add the charset."""
    assert await read_json(request(b"{}", content_type="Application/JSON; charset=utf-8")) == {}


@given(st.binary(max_size=200))
async def test_no_bytes_make_the_reader_raise(raw: bytes) -> None:
    """Whatever arrives is an intent or a named refusal."""
    value = await read_json(request(raw))
    if not isinstance(value, No):
        assert isinstance(read(value), Propose | No)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)


@given(st.sampled_from(sorted({*BODY, "params", "money", "target", "step_ms", "tenant"})), _JSON)
def test_no_value_in_any_field_makes_the_model_raise(field: str, value: object) -> None:
    """Whatever stands in a field is taken or refused by name."""
    assert isinstance(read({**BODY, field: value}), Propose | No)


def test_tenant_and_principal_are_the_callers() -> None:
    """Both come from the API key."""
    intent = read(BODY)
    assert isinstance(intent, Propose)
    assert intent.key == KEY
    assert intent.request.principal == "agent:billing"


def test_a_proposal_says_what_it_belongs_to() -> None:
    """The run, the intended repetition, the batch, and the earlier action that it undoes."""
    named = {"run": "run-7", "occurrence": "second-of-two", "batch": "payouts-august"}
    intent = read({**BODY, **named, "compensates": "pay:v2:acme:renewal-1"})
    assert isinstance(intent, Propose)
    assert intent.key == KEY
    assert (intent.run, intent.occurrence, intent.batch) == tuple(named.values())
    assert intent.compensates == "pay:v2:acme:renewal-1"
    bare = read(BODY)
    assert isinstance(bare, Propose)
    assert bare.run is bare.occurrence is bare.batch is bare.revises is bare.compensates is None


@pytest.mark.parametrize(("revised", "key"), [(KEY, f"{KEY}~2"), (f"{KEY}~2", f"{KEY}~3")])
def test_a_revision_has_the_next_number_of_what_it_revises(revised: str, key: str) -> None:
    """Nobody counts revisions, so the same revision again has the same key."""
    intent = read({**BODY, "revises": revised})
    assert isinstance(intent, Propose)
    assert (intent.key, intent.revises) == (key, revised)


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("run", "two words", "malformed_identifier"),
        ("occurrence", "", "malformed_identifier"),
        ("batch", "a/b", "malformed_identifier"),
        ("revises", "renewal-1", "malformed_key"),
        ("revises", "charge:v1:globex:renewal-1#receipt", "other_business_event"),
        ("revises", "charge:v1:acme:renewal-2#receipt", "other_business_event"),
        ("revises", "pay:v1:acme:renewal-1#receipt", "other_act"),
        ("revises", "charge:v1:acme:renewal-1", "other_act"),
        ("compensates", "pay:v1:globex:renewal-1", "other_business_event"),
    ],
)
def test_what_it_belongs_to_is_named_as_it_can_be(field: str, value: str, code: str) -> None:
    """Each mistake with its field; what another tenant has is not looked at."""
    no = read({**BODY, field: value})
    assert isinstance(no, No)
    (trouble,) = no.problems
    assert (trouble.path, trouble.code) == (f"/{field}", code)


@pytest.mark.parametrize("field", ["tenant", "principal", "key", "idempotency_key", "revision"])
def test_a_body_cannot_say_who_it_is_or_which_key_it_has(field: str) -> None:
    """The refusal says where that comes from instead."""
    no = read({**BODY, field: "globex"})
    assert isinstance(no, No)
    (trouble,) = no.problems
    assert trouble.path == f"/{field}"
    assert trouble.code == "extra_forbidden"
    assert trouble.message != "there is no such field"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("operation", "Charge"),
        ("version", "1"),
        ("version", True),
        ("version", 0),
        ("business_event", "two words"),
        ("business_event", ""),
        ("item", "a#b"),
        ("environment", "a/b"),
        ("target", "order:\u202eA"),
        ("target", "order:e\u0301"),
        ("target", " order"),
        ("money", {"minor": -1, "currency": "EUR"}),
        ("money", {"minor": True, "currency": "EUR"}),
        ("money", {"minor": "1", "currency": "EUR"}),
        ("money", {"minor": 1, "currency": "XAU"}),
        ("money", {"minor": 1, "currency": "eur"}),
        ("params", []),
        ("params", {"$ref": "x"}),
        ("step_ms", 0),
    ],
)
def test_a_wrong_field_is_named_and_its_value_not_repeated(field: str, value: object) -> None:
    """Callers find the field; logs and answers do not get what was in it."""
    no = read({**BODY, field: value})
    assert isinstance(no, No)
    assert no.code is Code.INVALID_BODY
    assert any(trouble.path.startswith(f"/{field}") for trouble in no.problems)


@pytest.mark.parametrize(
    "header", [f'"{KEY}"', KEY, '"renewal-1#receipt"', "renewal-1#receipt", f' "{KEY}" ']
)
def test_an_idempotency_key_may_name_the_action(header: str) -> None:
    """Quoted as the draft asks, or bare; the whole key, or its action id."""
    assert check_idempotency_key(Headers({"Idempotency-Key": header}), KEY, ACTION_ID) is None


def test_no_idempotency_key_is_needed() -> None:
    """The key follows from the body."""
    assert check_idempotency_key(Headers({}), KEY, ACTION_ID) is None


@pytest.mark.parametrize("header", ["", '"', '""', "a b", "é", '"a"x', "(1)", "?1", "a" * 600])
def test_a_malformed_idempotency_key_is_refused(header: str) -> None:
    """400, as the draft says."""
    no = check_idempotency_key(Headers({"Idempotency-Key": header}), KEY, ACTION_ID)
    assert no is not None
    assert no.code is Code.MALFORMED_IDEMPOTENCY_KEY


def test_two_idempotency_keys_are_refused() -> None:
    """Proxies that repeat a header do not get to choose one."""
    headers = Headers(raw=[(b"idempotency-key", KEY.encode())] * 2)
    no = check_idempotency_key(headers, KEY, ACTION_ID)
    assert no is not None
    assert no.code is Code.MALFORMED_IDEMPOTENCY_KEY


@pytest.mark.parametrize("header", ["8e03978e-40d5-43dd-bc93-6894a57f9324", '"renewal-1"'])
def test_another_idempotency_key_is_refused_before_anything_is_recorded(header: str) -> None:
    """A key that is drawn at random would be forgotten by whoever drew it."""
    no = check_idempotency_key(Headers({"Idempotency-Key": header}), KEY, ACTION_ID)
    assert no is not None
    assert no.code is Code.OTHER_IDEMPOTENCY_KEY
    assert KEY in (no.detail or "")


def test_another_tenants_key_is_as_unknown_as_one_nobody_used() -> None:
    """The refusals are equal, byte for byte."""
    foreign = own_key("charge:v1:globex:renewal-1", CALLER)
    assert isinstance(foreign, No)
    assert foreign.response().body == No(Rejection.UNKNOWN_ACTION).response().body
    assert own_key(KEY, CALLER) == ActionKey.parse(KEY)


@pytest.mark.parametrize("text", ["", "x", "charge:v1:acme", "charge:v01:acme:e", "a" * 5_000])
def test_what_is_no_key_is_refused_by_name(text: str) -> None:
    """A path that holds no key says what one looks like."""
    no = own_key(text, CALLER)
    assert isinstance(no, No)
    assert no.code is Rejection.MALFORMED_KEY


NONCE = "5f3a9c5f3a9c5f3a9c"


def test_a_caller_offers_itself_with_a_nonce_of_its_own() -> None:
    """The offer goes into the log as it was made."""
    given = read(BODY | {"caller": {"nonce": NONCE, "valid_ms": 9_000}})
    assert isinstance(given, Propose)
    assert given.caller == CallerOffer(nonce=NONCE, valid_ms=9_000)


@pytest.mark.parametrize(
    "offer",
    [
        {"nonce": "short", "valid_ms": 9_000},
        {"nonce": NONCE, "valid_ms": 0},
        {"nonce": NONCE, "valid_ms": 60_001},
        {"nonce": NONCE},
        {"nonce": NONCE, "valid_ms": 9_000, "holder": "executor-1"},
    ],
)
def test_an_offer_that_could_be_guessed_or_never_lapses_is_refused(
    offer: dict[str, object],
) -> None:
    """A nonce has at least sixteen characters, and an offer its bounds."""
    refused = read(BODY | {"caller": offer})
    assert isinstance(refused, No)
    assert refused.code is Code.INVALID_BODY


@pytest.mark.parametrize(
    "outcome",
    [
        {"kind": "succeeded", "reference": "ch_1", "result": {"paid": True}},
        {"kind": "refused", "code": "card_declined", "retry": "never"},
        {"kind": "refused", "code": "busy", "retry": "later", "retry_after_ms": 5},
        {"kind": "not_sent", "code": "no_route", "retry": "later"},
        {"kind": "unresolved", "code": "raised:TimeoutError"},
    ],
    ids=lambda outcome: str(outcome["kind"]),
)
def test_a_callers_word_is_recorded_for_its_own_principal(outcome: dict[str, object]) -> None:
    """Every outcome has its form, and who says it is the API key's to tell."""
    value = {"nonce": NONCE, "attempt": 1, "fencing_token": 1, "outcome": outcome}
    body = read_model(OutcomeBody, value, Code.INVALID_BODY)  # type: ignore[arg-type]
    assert isinstance(body, OutcomeBody)
    said = report(KEY, body, CALLER)
    assert isinstance(said, CallerReport)
    assert said.principal == CALLER.principal
    assert said.outcome.kind == outcome["kind"]


def test_a_success_without_a_reference_is_none() -> None:
    """Nothing could be looked up under it."""
    value = {
        "nonce": NONCE,
        "attempt": 1,
        "fencing_token": 1,
        "outcome": {"kind": "succeeded", "reference": ""},
    }
    found = read_model(OutcomeBody, value, Code.INVALID_BODY)  # type: ignore[arg-type]
    assert isinstance(found, No)
