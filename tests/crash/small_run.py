"""A small run that is right, to break in one place at a time: five actions, two owners, one book.

Written record by record as plain JSON, with nothing of the product, so that it says what the
checker must accept. `SmallRun.change` edits a record where it stands.
"""

import base64
import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.crash.evidence import Json, Raw, Run, event_of
from tests.crash.small_rows import projected

T0 = 1_800_000_000_000
CATALOGUE = """
[timing]
skew_ms = 1000

[[operation]]
name = "charge"
version = 1
reliability = "keyed"
key_window_ms = 60000
key_margin_ms = 10000

[[operation]]
name = "refund"
version = 1
reliability = "keyed"
key_window_ms = 60000
key_margin_ms = 10000

[[operation]]
name = "ticket"
version = 1
reliability = "lookup"
search_lag_ms = 500
settle_horizon_ms = 500
second_attempt_after_absence = true

[[operation]]
name = "email"
version = 1
reliability = "none"
retries = { attempts_max = 1 }
"""
CHARGE = "charge:v1:acme:event-1"
TICKET = "ticket:v1:acme:event-1"
EMAIL = "email:v1:acme:event-2"
LATE = "charge:v1:acme:event-3"
REFUND = "refund:v1:acme:event-4"
PREFIX = "actionledger"
LEDGER = "generation 1"
ADA = Ed25519PrivateKey.from_private_bytes(b"ada" * 10 + b"!!")


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


PEOPLE = f"""
[[person]]
name = "ada"
groups = ["finance"]
tenants = ["*"]
keys = [{{ id = "ada's key", public = "{_encoded(ADA.public_key().public_bytes_raw())}" }}]
"""
ACCOUNTS = {"charge": "main", "refund": "main", "ticket": "desk", "email": "mail"}
CLASSES = {"charge": "keyed", "refund": "keyed", "ticket": "lookup", "email": "none"}


class SmallRun:
    """Topics of one partition in the making, with log time by hand."""

    def __init__(self) -> None:
        self.log: dict[tuple[str, int], list[Raw]] = {}
        self.now = T0
        self.epoch = 0
        self.versions: dict[str, int] = {}
        self.book: list[Json] = []
        self.clients: list[Json] = []
        self.people: list[Json] = []
        self.sent: list[Json] = []
        self.rows: list[Json] = []
        for topic in ("intents", "approvals", "attempts", "evidence", "ledger"):
            genesis = {"generation": LEDGER, "partition": 0, "partitions": 1}
            self.put(topic, "genesis.recorded.v1", genesis)

    def put(self, topic: str, kind: str, data: Json) -> int:
        """Append an event; its offset."""
        event = {"specversion": "1.0", "type": f"{PREFIX}.{kind}", "data": data}
        return self.put_raw(topic, orjson.dumps(event))

    def put_raw(self, topic: str, value: bytes) -> int:
        """Append any bytes; their offset."""
        records = self.log.setdefault((topic, 0), [])
        self.now += 10
        records.append(Raw(len(records), self.now, None, value))
        return len(records) - 1

    def open_epoch(self) -> None:
        """A new owner takes over."""
        self.epoch += 1
        at = len(self.log["ledger", 0])
        self.put("ledger", "epoch.opened.v1", {"at": at, "epoch": self.epoch, "nonce": "n"})

    def decide(
        self,
        topic: str,
        offset: int,
        *facts: Json,
        stream: str = "",
        **answer: Any,  # noqa: ANN401 - any JSON
    ) -> int:
        """Append the decision on an input; facts get their versions here."""
        for fact in facts:
            key = fact["action"]
            fact["version"] = self.versions[key] = self.versions.get(key, 0) + 1
        data = {
            "at": len(self.log["ledger", 0]),
            "epoch": self.epoch,
            "cause": {"topic": topic, "partition": 0, "offset": offset},
            "decided_at": self.now,
            "stream": stream,
            "facts": list(facts),
            **answer,
        }
        return self.put("ledger", "decision.recorded.v1", data)

    def propose(self, key: str) -> None:
        """An intent, recorded and started in one decision, and told to its caller."""
        operation = key.partition(":")[0]
        request = {"operation": operation, "version": 1, "money": self._money(operation)}
        offset = self.put("intents", "intent.propose.v1", {"key": key, "request": request})
        recorded = {
            "type": "intent.recorded",
            "action": key,
            "request": {name: value for name, value in request.items() if value is not None},
            "request_hash": f"hash of {key}",
            "provider": "simulated",
            "account": ACCOUNTS[operation],
            "reliability": CLASSES[operation],
            "step_deadline_at": self.now + 60_000,
        }
        ruled = {"row": "automatic", "policy_hash": "sha256:p", "outcome": "automatic"}
        policy = {"type": "policy.decided", "action": key, **ruled}
        started = start(key, 1, self.now)
        self.decide("intents", offset, recorded, policy, started, stream=stream_of(key))
        self.clients.append({"key": key, "answer": "ok", "status": "attempting"})

    def report(self, key: str, attempt: int, *facts: Json, **changes: Any) -> None:  # noqa: ANN401
        """The holder's word about an attempt, and what came of it."""
        word = {"key": key, "attempt": attempt, "fencing_token": attempt, "holder": "h1", **changes}
        offset = self.put("attempts", "attempt.report.v1", word)
        self.decide("attempts", offset, *facts, stream=stream_of(key))

    def found(self, key: str, *facts: Json) -> None:
        """A lookup's answer or a webhook's word, and what came of it."""
        offset = self.put("evidence", "evidence.report.v1", {"key": key})
        self.decide("evidence", offset, *facts, stream=stream_of(key))

    def tick(self, key: str, *facts: Json) -> None:
        """Time has come, and what came of it."""
        offset = self.put("internal", "stream.tick.v1", {"stream": stream_of(key)})
        self.decide("internal", offset, *facts, stream=stream_of(key))

    def call(self, key: str, effect: str | None) -> None:
        """A request at the provider, with the effect it makes."""
        operation = key.partition(":")[0]
        self.now += 5
        line = {
            "request_id": f"rq_{len(self.book) + 1}",
            "account": ACCOUNTS[operation],
            "key": f"key of {key}",
            "reference": f"key of {key}",
            "action_key": key,
            "request_hash": f"hash of {key}",
            "amount": self._money(operation),
            "arrived_at": self.now,
            "effect_id": effect,
        }
        self.book.append(line)

    def _money(self, operation: str) -> Json | None:
        of_money = operation in {"charge", "refund"}
        return {"minor": 4_990, "currency": "EUR"} if of_money else None

    def run(self) -> Run:
        """The run as it is now, projected to its end."""
        run = Run(1, self.log, self.book, self.sent, {}, self.clients, people=self.people)
        run.tables = {**projected(run), "webhooks": self.rows}
        return run


def stream_of(key: str) -> str:
    """The stream that an action belongs to."""
    return "/".join(key.split(":")[2:])


def start(key: str, attempt: int, now: int) -> Json:
    """A start of an attempt, leased for two seconds."""
    return {
        "type": "attempt.started",
        "action": key,
        "attempt": attempt,
        "fencing_token": attempt,
        "holder": "h1",
        "lease_until": now + 2_000,
        "account": ACCOUNTS[key.partition(":")[0]],
        "provider_key": f"key of {key}",
        "request_hash": f"hash of {key}",
    }


def fact(kind: str, key: str, **fields: Any) -> Json:  # noqa: ANN401
    """A fact about an action."""
    return {"type": kind, "action": key, **fields}


def build() -> SmallRun:
    """Everything that the laws speak of, once."""
    one = SmallRun()
    one.open_epoch()
    one.put("config", "config.publish.v1", {"kind": "catalogue", "content": CATALOGUE})
    one.decide("config", 0, adopted={"kind": "catalogue", "content": CATALOGUE, "offset": 0})
    one.put("config", "config.publish.v1", {"kind": "people", "content": PEOPLE})
    one.decide("config", 1, adopted={"kind": "people", "content": PEOPLE, "offset": 1})
    _charge(one)
    _ticket_found_absent_then_refused(one)
    poison = one.put_raw("intents", b"{no json")
    one.decide("intents", poison, quarantined=set_aside(one, "intents", poison))
    one.open_epoch()
    _zombie(one)
    _email_for_a_person(one)
    _charge_still_unknown(one)
    _refund_that_a_person_agreed_to(one)
    return one


def _charge(one: SmallRun) -> None:
    """Completed by its report; its webhook comes after, and the same again with another amount."""
    one.propose(CHARGE)
    one.call(CHARGE, "ch_1")
    succeeded = fact("attempt.succeeded", CHARGE, attempt=1, reference="ch_1", result={})
    one.report(
        CHARGE,
        1,
        succeeded,
        fact("action.completed", CHARGE, proof="report", reference="ch_1"),
    )
    told = {"key": CHARGE, "answer": "ok", "status": "completed", "reference": "ch_1"}
    one.clients.append(told)
    other = one.put("intents", "intent.propose.v1", {"key": CHARGE})
    one.decide("intents", other, refused={"code": "conflicted", "action": CHARGE})
    one.clients.append({"key": CHARGE, "answer": "refused", "code": "conflicted"})
    webhook = {"provider": "simulated", "account": "main", "event_id": "evt_1"}
    one.put("webhooks", "webhook.received.v1", webhook)
    source = "webhook:simulated:main:evt_1"
    one.found(CHARGE, fact("evidence.recorded", CHARGE, source_id=source, meaning="effect"))
    one.sent.append(
        {"account": "main", "event_id": "evt_1", "state": "taken", "signature": "genuine"}
    )
    row = {**webhook, "classification": "matched", "action_key": CHARGE}
    one.rows.append({"partition": 0, "topic_offset": 0, **row})


def _ticket_found_absent_then_refused(one: SmallRun) -> None:
    one.propose(TICKET)
    one.call(TICKET, None)
    one.now += 4_000
    one.tick(
        TICKET,
        fact("attempt.unresolved", TICKET, attempt=1, code="lease_lapsed"),
        fact("timer.set", TICKET, purpose="lookup", due_at=one.now + 2_000),
    )
    one.now += 2_000
    one.tick(TICKET, fact("lookup.started", TICKET, lookup=1, attempts_upto=1, answer_by=one.now))
    one.found(
        TICKET,
        fact("evidence.recorded", TICKET, source_id="lookup:1", meaning="absent", lookup=1),
        fact("attempt.absent", TICKET, attempt=1),
        fact("timer.set", TICKET, purpose="retry", due_at=one.now + 10),
    )
    one.tick(TICKET, start(TICKET, 2, one.now))
    one.call(TICKET, None)
    one.report(
        TICKET,
        2,
        fact("attempt.refused", TICKET, attempt=2, code="closed"),
        fact("action.failed", TICKET, code="closed"),
    )
    # The first request was so slow that the book has it after the second.
    one.book[-2:] = reversed(one.book[-2:])


def _zombie(one: SmallRun) -> None:
    """The first owner writes once more; nobody counts it."""
    one.epoch -= 1
    one.decide("intents", 1, stream="acme/event-1")
    one.epoch += 1


def _email_for_a_person(one: SmallRun) -> None:
    one.propose(EMAIL)
    one.call(EMAIL, "em_1")
    one.report(
        EMAIL,
        1,
        fact("attempt.unresolved", EMAIL, attempt=1, code="connection_lost"),
        fact("review.opened", EMAIL, reason="no_way_to_find_out"),
    )


def _charge_still_unknown(one: SmallRun) -> None:
    one.propose(LATE)
    one.call(LATE, "ch_2")
    one.report(
        LATE,
        1,
        fact("attempt.unresolved", LATE, attempt=1, code="connection_lost"),
        fact("timer.set", LATE, purpose="lookup", due_at=one.now + 1_000),
    )


def _refund_that_a_person_agreed_to(one: SmallRun) -> None:
    request = {
        "operation": "refund",
        "version": 1,
        "money": {"minor": 4_990, "currency": "EUR"},
        "principal": "agent:billing",
        "environment": "test",
    }
    offset = one.put("intents", "intent.propose.v1", {"key": REFUND, "request": request})
    recorded = fact(
        "intent.recorded",
        REFUND,
        request=request,
        request_hash=f"hash of {REFUND}",
        provider="simulated",
        account="main",
        reliability="keyed",
        step_deadline_at=one.now + 60_000,
    )
    asks = {"quorum": 1, "groups": ["finance"], "valid_ms": 10_000}
    policy = {"policy_hash": "hash of the table", "row": "refunds"}
    ruled = fact("policy.decided", REFUND, outcome="people", asks=asks, **policy)
    shown = fact(
        "preview.recorded", REFUND, preview=1, content={}, preview_hash="hash of the dry run"
    )
    asked = fact(
        "approval.requested",
        REFUND,
        round=1,
        nonce="nonce 1",
        expires_at=one.now + 10_000,
        preview_hash="hash of the dry run",
        quorum=1,
        groups=["finance"],
        **policy,
    )
    one.decide("intents", offset, recorded, ruled, shown, asked, stream=stream_of(REFUND))
    one.clients.append({"key": REFUND, "answer": "ok", "status": "awaiting_approval"})
    signed = signed_by_ada(statement(expires_at=asked["expires_at"]))
    judged = one.put("approvals", "approval.decide.v1", {"key": REFUND, "signed": signed})
    granted = fact(
        "approval.granted",
        REFUND,
        person="ada",
        key_id="ada's key",
        nonce="nonce 1",
        expires_at=asked["expires_at"],
        signed=signed,
    )
    rests = {"nonce": "nonce 1", "signed": [signed]}
    started = {**start(REFUND, 1, one.now), "approval": rests}
    one.decide("approvals", judged, granted, started, stream=stream_of(REFUND))
    one.people.append(
        {"key": REFUND, "person": "ada", "decision": "approve", "answer": "ok", "replayed": False}
    )
    one.call(REFUND, "re_1")
    one.report(
        REFUND,
        1,
        fact("attempt.succeeded", REFUND, attempt=1, reference="re_1", result={}),
        fact("action.completed", REFUND, proof="report", reference="re_1"),
    )


def statement(**changes: Any) -> Json:  # noqa: ANN401 - any JSON
    """What a person signs of the refund, unless a test changes a field."""
    return {
        "v": 1,
        "ledger": LEDGER,
        "decision": "approve",
        "approver": "ada",
        "tenant": "acme",
        "environment": "test",
        "key": REFUND,
        "request_hash": f"hash of {REFUND}",
        "preview_hash": "hash of the dry run",
        "policy_hash": "hash of the table",
        "row": "refunds",
        "nonce": "nonce 1",
        "issued_at": T0,
        "expires_at": T0 + 3_600_000,
        **changes,
    }


def signed_by_ada(said: Json, key: Ed25519PrivateKey = ADA) -> Json:
    """A statement as a compact JWS of somebody's key."""
    head = f"{_encoded(b'{}')}.{_encoded(orjson.dumps(said))}"
    return {"kind": "jws", "jws": f"{head}.{_encoded(key.sign(head.encode()))}"}


def set_aside(one: SmallRun, topic: str, offset: int) -> Json:
    """Put a record into quarantine; what its decision says of it."""
    value = one.log[topic, 0][offset].value
    digest = hashlib.sha256(value).hexdigest()
    data = {
        "topic": topic,
        "partition": 0,
        "offset": offset,
        "reason": "not_json",
        "sha256": digest,
        "value_base64": base64.b64encode(value).decode(),
    }
    one.put("quarantine", "record.quarantined.v1", data)
    return {"reason": "not_json", "sha256": digest, "size_bytes": len(value)}


def changed(run: Run, topic: str, offset: int, change: Callable[[Json], object]) -> Run:
    """The run with the data of one record edited, and projections that believe it."""
    records = list(run.log[topic, 0])
    raw = records[offset]
    event = orjson.loads(raw.value)
    change(event["data"])
    records[offset] = Raw(raw.offset, raw.appended_at, raw.key, orjson.dumps(event))
    log = {**run.log, (topic, 0): records}
    after = replace(run, log=log)
    after.tables = {**run.tables, **projected(after)}
    return after


def decision_with(run: Run, kind: str, key: str, nth: int = 0) -> int:
    """The ledger offset of the nth decision that holds such a fact about an action."""
    found = [
        raw.offset
        for raw in run.log["ledger", 0]
        for one in event_of(raw)[1].get("facts", ())
        if (one["type"], one["action"]) == (kind, key)
    ]
    return found[nth]
