"""The parsers that strangers feed, with genuine inputs of each and what must hold of any answer.

A target raises where its parser breaks its promise; that it returns is the promise kept. What a
parser takes in is followed as far as it goes without servers: to the row, the evidence, the record.
"""

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from pydantic import ValidationError

from gateway.http.bodies import ProposeBody, proposal
from gateway.http.problems import No
from gateway.keys import Caller, Role
from ledger.core.catalogue import parse_catalogue
from ledger.core.inputs import Propose
from ledger.core.limits import INTENT_BYTES_MAX
from ledger.core.money import Money
from ledger.core.strict_json import MalformedJson, character_fault, parse
from ledger.log.envelope import Unreadable
from ledger.log.port import Record
from ledger.log.webhook_record import WebhookReceived, read_webhook, webhook_outgoing
from reconciler.declared_signature import DeclaredHmac, Slot, signed_pieces
from reconciler.evidence import Receipt, webhook_evidence, webhook_record
from reconciler.matching import Matched, match_webhook
from reconciler.parking import WebhookRow, row_values
from reconciler.providers import http
from reconciler.providers.http.answers import UnreadableAnswer, read_json
from reconciler.providers.http.description import Description
from reconciler.providers.http.effects import read_effect
from reconciler.providers.http.mapping import HttpMapping
from reconciler.providers.http.outcomes import outcome_of as described_outcome
from reconciler.providers.http.parsing import parse_description
from reconciler.providers.http_exchange import Answered
from reconciler.providers.port import (
    MappedWebhook,
    NotSent,
    Partial,
    ProviderRequest,
    Refused,
    Succeeded,
    Unrecognised,
    Unresolved,
    WebhookMapping,
)
from reconciler.providers.settlement import OWN_FORM, SIMULATED
from reconciler.providers.simulated.adapter import outcome_of as simulated_outcome
from reconciler.providers.simulated.api import Effect, EffectAnswer, Event, EventData, Metadata
from reconciler.providers.simulated.mapping import SimulatedMapping
from reconciler.providers.smtp.description import parse_smtp
from reconciler.providers.stripe.description import Makes, parse_stripe
from reconciler.providers.stripe.mapping import StripeMapping
from reconciler.providers.stripe.outcomes import outcome_of as stripe_outcome
from reconciler.repeats import fact_of
from reconciler.schemes import STANDARD, STRIPE, Scheme
from reconciler.settlement_files import BadLine, IrrelevantLine, Stated, read_file
from reconciler.statement_lines import map_statement
from reconciler.webhooks import Verified, WebhookRejected
from tests.contract.stripe_stage import DESCRIPTION as STRIPE_DESCRIPTION
from tests.fuzz.mutating import Case
from tests.tree import ROOT

NOW: Final = 1_800_000_000_000
LONG: Final = 150
KEY: Final = "charge:v1:acme:renewal-1"
SECRET: Final = "whsec_dGhpcnR5LXR3byBieXRlcyBvZiBwdXJlIHNlY3JldCE="
EXAMPLE: Final = Path(http.__file__).with_name("example.toml").read_text(encoding="utf-8")
MONEY: Final = Money(minor=4_990, currency="EUR")
REQUEST: Final = ProviderRequest(
    action_key=KEY,
    operation="charge",
    version=1,
    target="order:A-1842",
    params={"order": "A-1842"},
    money=MONEY,
    account="main",
    request_hash="sha256:" + "ab" * 32,
)


@dataclass(frozen=True, slots=True)
class Target:
    """One parser: its genuine inputs, and what is done with any; `rounds` are few where each is
    long.
    """

    name: str
    corpus: Sequence[Case]
    run: Callable[..., None]
    rounds: int = 1_500


# --- verification ------------------------------------------------------------------------------

_BODY = '{"id":"evt_1","type":"effect.settled","text":"Zoë 😊"}'.encode()
_SCHEMES: Final[Mapping[str, Scheme]] = {
    "standard": STANDARD,
    "stripe": STRIPE,
    "hub": DeclaredHmac("x-hub-signature-256", (Slot("body"),), "sha256", "hex", "sha256="),
    "bank": DeclaredHmac(
        "x-signature",
        signed_pieces("{id}.{timestamp}.{body}"),
        "sha512",
        "base64",
        timestamp_header="x-time",
        id_header="x-id",
    ),
}


def _verification(name: str, scheme: Scheme) -> Target:
    sent = scheme.sign(_BODY, event_id="evt_1", secret=SECRET, now_ms=NOW)
    names = list(sent)

    def run(raw: bytes, *values: bytes) -> None:
        headers = {
            header: value.decode("latin-1") for header, value in zip(names, values, strict=True)
        }
        verdict = scheme.verify(raw, headers, (SECRET,), NOW)
        assert isinstance(verdict, Verified | WebhookRejected)
        # Nobody but the holder of the secret makes anything that is believed.
        assert isinstance(verdict, WebhookRejected) or raw == _BODY
        if isinstance(verdict, Verified):
            WebhookReceived.of(
                raw,
                provider="p",
                account="a",
                event_id=verdict.event_id,
                sent_at=verdict.sent_at,
                headers={},
            )

    corpus = [(_BODY, *(value.encode() for value in sent.values()))]
    return Target(f"verification-{name}", corpus, run)


# --- mappings ----------------------------------------------------------------------------------


def _event(number: int, **changed: object) -> bytes:
    event = Event(
        id=f"evt_{number}",
        type="effect.settled",
        account="main",
        created_at=NOW,
        data=EventData(
            effect_id="ch_1",
            operation="charge",
            target="order:A-1842",
            description="Zoë, 東京",
            amount=MONEY,
            key=KEY,
            reference=None,
            metadata=Metadata(action_key=KEY, request_hash="sha256:00"),
        ),
    )
    return event.model_copy(update=changed).model_dump_json().encode()


_EVENTS: Final = [
    (_event(1),),
    (_event(2, type="effect.refused"),),
    (_event(3, type="effect.pending"),),
]
_STRIPE_EVENTS: Final = [
    (
        (
            b'{"id":"evt_1","object":"event","type":"payment_intent.succeeded",'
            b'"created":1800000000,"data":{"object":{"id":"pi_1",'
            b'"object":"payment_intent","status":"succeeded",'
            b'"amount":4990,"amount_received":4990,"currency":"eur","latest_charge":"ch_1",'
            b'"metadata":{"action_key":"charge:v1:acme:renewal-1","account":"main",'
            b'"provider_key":"charge:v1:acme:renewal-1"}}}}'
        ),
    ),
    (
        (
            b'{"id":"evt_2","object":"event","type":"charge.refunded","created":1800000000,"data":'
            b'{"object":{"id":"ch_1","object":"charge","payment_intent":"pi_1","amount":4990,'
            b'"amount_refunded":1000,"currency":"eur","status":"succeeded","metadata":{}}}}'
        ),
    ),
    (
        (
            b'{"id":"evt_3","object":"event","type":"charge.dispute.created","created":1800000000,'
            b'"data":{"object":{"id":"dp_1","object":"dispute","charge":"ch_1","amount":4990,'
            b'"currency":"jpy","status":"needs_response","metadata":{}}}}'
        ),
    ),
    (
        (
            b'{"id":"evt_4","object":"event","type":"refund.updated","created":1800000000,"data":'
            b'{"object":{"id":"re_1","object":"refund","charge":"ch_1","payment_intent":"pi_1",'
            b'"amount":1000,"currency":"eur","status":"succeeded","metadata":{}}}}'
        ),
    ),
]
_LINES: Final = [
    (
        (
            b'{"line_id":"l1","reference":"ch_1","action_key":"charge:v1:acme:renewal-1",'
            b'"operation":"charge","money":{"minor":4990,"currency":"EUR"},"effect":"exists",'
            b'"occurred_at":1800000000000,"raw_sha256":"00"}'
        ),
    ),
]


def _mapping(name: str, corpus: Sequence[Case], mapped_of: Callable[[bytes], object]) -> Target:
    def run(raw: bytes) -> None:
        mapped = mapped_of(raw)
        assert isinstance(mapped, MappedWebhook | Unrecognised)
        _to_its_end(mapped)

    return Target(f"mapping-{name}", corpus, run)


def _to_its_end(mapped: MappedWebhook | Unrecognised) -> None:
    """What was understood becomes a row that Postgres can hold and evidence that the ledger can
    read.
    """
    match = match_webhook(mapped, account="main", known=())
    receipt = Receipt("simulated", "main", 0, 7, "00" * 32)
    fact = fact_of(mapped, receipt.source) if isinstance(mapped, MappedWebhook) else None
    row = WebhookRow(receipt, "evt", NOW, "sha256:00", mapped, match, NOW, fact)
    for value in row_values(row):
        assert not isinstance(value, str) or character_fault(value) is None, "no text for Postgres"
        assert not isinstance(value, int) or abs(value) < 2**63, "no number for Postgres"
    if isinstance(match, Matched) and isinstance(mapped, MappedWebhook):
        webhook_record(webhook_evidence(match, mapped, receipt), receipt, 6)


def _described() -> Description:
    read = parse_description(EXAMPLE)
    assert isinstance(read, Description)
    return read


# --- doors, records, files ---------------------------------------------------------------------

_INTENTS: Final = [
    (
        (
            b'{"operation":"charge","version":1,"business_event":"renewal-1","item":"line~2",'
            b'"target":"order:A-1842","params":{"order":"A-1842","note":"Zo\xc3\xab"},'
            b'"money":{"minor":4990,"currency":"EUR"},"environment":"test","step_ms":60000,'
            b'"run":"run-1","caller":{"nonce":"abcdefgh","valid_ms":1000}}'
        ),
    ),
    (b'{"operation":"email","version":1,"business_event":"w-1","params":{},"environment":"test"}',),
]
_CALLER: Final = Caller("key_1", tenant="acme", principal="agent", role=Role.AGENT)


def _intent(raw: bytes) -> None:
    try:
        value = parse(raw, bytes_max=INTENT_BYTES_MAX)
    except MalformedJson:
        return
    body = _model(value)
    if body is not None:
        assert isinstance(proposal(body, _CALLER), Propose | No)


def _model(value: object) -> ProposeBody | None:
    try:
        return ProposeBody.model_validate(value)
    except ValidationError:
        return None


def _record(value: bytes) -> None:
    read = read_webhook(Record("webhooks", 0, 7, NOW, None, value, ()))
    assert isinstance(read, WebhookReceived | Unreadable)
    if isinstance(read, WebhookReceived):
        read.raw()


def _records() -> list[Case]:
    webhook = WebhookReceived.of(
        _BODY, provider="p", account="a", event_id="evt_1", sent_at=NOW, headers={"a": "b"}
    )
    note = webhook.model_copy(update={"source": "note"})
    return [(webhook_outgoing(one).value,) for one in (webhook, note)]


def _settlement(raw: bytes) -> None:
    for columns, form in ((SIMULATED, "csv"), (OWN_FORM, "csv"), (OWN_FORM, "json")):
        for read in read_file(io.BytesIO(raw), columns, form):  # type: ignore[arg-type]
            assert isinstance(read, Stated | IrrelevantLine | BadLine)
            if isinstance(read, Stated):
                _to_its_end(map_statement(_written(read), source="settlement", account="main"))


def _written(read: Stated) -> bytes:
    return read.line.model_dump_json().encode()


_FILES: Final = [
    (
        (
            b"payout_line,effect_id,original,action_key,key,operation,amount,currency,type,"
            b"committed_at\n"
            b"l1,ch_1,,charge:v1:acme:renewal-1,k,charge,49.90,EUR,made,2026-11-30T10:00:00Z\n"
            b'l2,re_1,ch_1,,,refund,"10.00",EUR,undone,2026-11-30T10:00:00+01:00\n'
            b"l3,,,,,,59.90,EUR,payout,2026-11-30T10:00:00Z\n"
        ),
    ),
    (
        (
            b"line_id,reference,effect,occurred_at,amount_minor,currency\n"
            b"l1,ch_1,exists,1800000000000,4990,EUR\n"
        ),
    ),
    (
        (
            b'{"line_id":"l1","reference":"ch_1","effect":"exists","occurred_at":1800000000000,'
            b'"amount_minor":4990,"currency":"EUR"}\n{"line_id":"l2"}\n'
        ),
    ),
]


def _text(parsed_of: Callable[[str], object]) -> Callable[[bytes], None]:
    def run(raw: bytes) -> None:
        parsed = parsed_of(raw.decode("utf-8", "replace"))
        if isinstance(parsed, tuple):
            assert parsed, "refused without a mistake"
            assert all(one.line >= 1 and one.message for one in parsed)

    return run


def _texts(*paths: str) -> list[Case]:
    return [((ROOT / path).read_bytes(),) for path in paths]


# --- answers of providers ----------------------------------------------------------------------

_OUTCOMES = Succeeded | Partial | Refused | NotSent | Unresolved


def _answers() -> list[Case]:
    effect = Effect(
        id="ch_1",
        account="main",
        operation="charge",
        target="order:A-1842",
        description=None,
        amount=MONEY,
        key=KEY,
        reference=None,
        metadata=Metadata(action_key=KEY, request_hash=REQUEST.request_hash),
        committed_at=NOW,
    )
    made = EffectAnswer(effect=effect, replayed=False).model_dump_json().encode()
    return [
        (b"200", made),
        (b"402", b'{"error":{"code":"card_declined","message":"No.","effect_id":null}}'),
        (b"409", b'{"error":{"code":"duplicate_reference","message":"No.","effect_id":"ch_1"}}'),
        (b"500", b"<html>"),
    ]


def _answered(status: bytes, body: bytes) -> Answered:
    digits = bytes(byte for byte in status if byte in b"0123456789")[:3] or b"200"
    return Answered(max(100, int(digits)), (("content-type", "application/json"),), body)


def _simulated_answer(status: bytes, body: bytes) -> None:
    outcome = simulated_outcome(REQUEST, _answered(status, body))
    assert isinstance(outcome, _OUTCOMES)


def _stripe_answers() -> list[Case]:
    payment = {
        "id": "pi_1",
        "object": "payment_intent",
        "amount": MONEY.minor,
        "amount_received": MONEY.minor,
        "created": NOW // 1_000,
        "currency": MONEY.currency.lower(),
        "metadata": {
            "actionledger_account": REQUEST.account,
            "actionledger_action_key": REQUEST.action_key,
            "actionledger_request_hash": REQUEST.request_hash,
        },
        "status": "succeeded",
    }
    declined = {"type": "card_error", "code": "card_declined", "payment_intent": payment}
    return [
        (b"200", json.dumps(payment).encode()),
        (b"200", json.dumps({**payment, "object": "refund", "payment_intent": "pi_1"}).encode()),
        (b"402", json.dumps({"error": declined}).encode()),
        (b"409", b'{"error":{"type":"invalid_request_error","code":"idempotency_key_in_use"}}'),
    ]


def _stripe_answer(status: bytes, body: bytes) -> None:
    for makes in get_args(Makes):
        outcome = stripe_outcome(REQUEST, _answered(status, body), makes)
        assert isinstance(outcome, _OUTCOMES)


def _described_answer(description: Description) -> Callable[[bytes, bytes], None]:
    perform = description.perform("charge")
    assert perform is not None

    def run(status: bytes, body: bytes) -> None:
        answered = _answered(status, body)
        outcome = described_outcome(REQUEST, KEY, answered, perform, description.errors)
        assert isinstance(outcome, _OUTCOMES)
        try:
            read_effect(read_json(body), perform.call.shape)
        except UnreadableAnswer:
            return

    return run


def targets() -> Iterable[Target]:
    """Every parser."""
    described = _described()
    mappings: Mapping[str, tuple[Sequence[Case], WebhookMapping]] = {
        "simulated": (_EVENTS, SimulatedMapping()),
        "http": (_EVENTS, HttpMapping(described.webhook)),
        "stripe": (_STRIPE_EVENTS, StripeMapping(frozenset({"main"}))),
    }
    yield from (_verification(name, scheme) for name, scheme in _SCHEMES.items())
    yield from (_mapping(name, corpus, one.map) for name, (corpus, one) in mappings.items())
    yield _mapping(
        "statement",
        _LINES,
        lambda raw: map_statement(raw, source="settlement", account="main"),
    )
    yield Target("webhook-record", _records(), _record)
    yield Target("intent", _INTENTS, _intent)
    yield Target("settlement-file", _FILES, _settlement)
    yield Target("answer-simulated", _answers(), _simulated_answer)
    yield Target("answer-http", _answers(), _described_answer(described))
    yield Target("answer-stripe", _stripe_answers(), _stripe_answer)
    bank = _texts("reconciler/providers/http/example.toml", "examples/providers/bank.toml")
    yield Target("description-http", bank, _text(parse_description), LONG)
    own = [(STRIPE_DESCRIPTION.encode(),)]
    yield Target("description-stripe", own, _text(parse_stripe), LONG)
    mail = _texts("examples/providers/mail.toml")
    yield Target("description-smtp", mail, _text(parse_smtp), LONG)
    catalogues = _texts("ledger/catalogue.toml", "examples/agent/catalogue.toml")
    yield Target("catalogue", catalogues, _text(parse_catalogue), LONG)
