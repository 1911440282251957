"""Write the golden bytes of what has none yet: `python -m tests.golden.writing`.

A file that is there is never written again: what it holds is in somebody's log. The examples below
are only what each type began with; after that the files speak for themselves.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from ledger.core import inputs as i
from ledger.core.catalogue import catalogue_hash
from ledger.core.facts import AnyFact, SagaPlace
from ledger.core.holds import Hold, Order, Scope, order_hash
from ledger.core.people import people_hash
from ledger.core.policy import policy_hash
from ledger.core.records import (
    Adopted,
    Cause,
    Decision,
    EpochOpened,
    Genesis,
    LedgerRecord,
    Quarantined,
)
from ledger.core.rejections import Detail, Refused, Rejection, Unchanged
from ledger.core.statement import Move, SignedByPasskey
from ledger.core.wire import Wire
from ledger.log.envelope import encode, encode_ledger
from ledger.log.port import Record
from ledger.log.quarantine import (
    QuarantinedRecord,
    quarantined,
    read_quarantine,
    redriven,
)
from ledger.log.webhook_record import WebhookReceived, webhook_outgoing
from tests import examples as e
from tests import examples_of_gates as gates
from tests import examples_of_people as p
from tests import examples_of_sagas as sagas

EVENTS = Path(__file__).with_name("events")
GENERATION = "0f6d3c1a"
PARTITION = 5
CATALOGUE = '# A catalogue — with "quotes", a tab\t and a line that ends here.\n'
ORDER = Order(
    scope=Scope(provider="simulated", tenant="acme", operation="charge"),
    by="ops",
    reason='looks like "double" charges',
)


def main() -> int:
    """Write what is missing, and say so."""
    EVENTS.mkdir(exist_ok=True)
    for name, value in examples():
        path = EVENTS / f"{name}.json"
        if not path.exists():
            path.write_bytes(value)
            sys.stdout.write(f"wrote {path.name}\n")
    return 0


def examples() -> Iterator[tuple[str, bytes]]:
    """Every type of record with everything filled in, by the name of its file."""
    for name, data in _inputs():
        yield name, _input(data)
    for fact_name, facts in _facts():
        yield f"decision.{fact_name}", _ledger(_decision(facts=facts))
    for fact in gates.gate_facts():
        yield f"decision.{fact.type}", _ledger(_decision(stream=gates.RUN_GATE, gate=(fact,)))
    for name, record in _ledger_records():
        yield name, _ledger(record)
    yield "record.quarantined", _quarantined()
    yield "record.quarantined.headers", _quarantined_whole()
    yield "record.redriven", _redriven()
    yield "webhook.received", _webhook()


def _input(data: Wire) -> bytes:
    return encode(
        data,
        event_id="01J9Z3",
        source="/actionledger/gateway",
        subject=e.CHARGE,
        partition_key=e.STREAM,
    )


def _ledger(record: LedgerRecord) -> bytes:
    return encode_ledger(record, generation=GENERATION, partition=PARTITION)


def _inputs() -> Iterator[tuple[str, Wire]]:
    request = e.request(text='Grüße, "Zoë", 東京 😊 \\ /')
    yield (
        "intent.propose",
        e.propose(
            request=request, request_hash="sha256:" + "ab" * 32, step_ms=60_000, revises=e.CHARGE
        ),
    )
    yield "intent.propose.small", i.Propose(key=e.EMAIL, request=e.request(e.EMAIL))
    yield "action.cancel", e.cancel()
    for outcome in (
        e.success(),
        e.refusal(wait=30_000),
        e.not_sent(retry=i.Retry.NEVER),
        e.no_answer(),
    ):
        yield f"attempt.report.{outcome.kind}", e.report(outcome)
    yield (
        "caller.report",
        i.CallerReport(
            key=e.CHARGE,
            principal="agent:billing",
            attempt=1,
            fencing_token=1,
            nonce="5f3a9c",
            outcome=e.success(),
        ),
    )
    yield "intent.propose.caller", e.propose(caller=i.CallerOffer(nonce="5f3a9c", valid_ms=9_000))
    yield "intent.propose.behalf", e.propose(behalf=("ada", "service:shop"))
    yield "approval.ask", p.ask_again()
    yield "approval.decide", p.judge(p.statement(comment='Called her: "yes". Grüße 😊'))
    yield "approval.decide.resolution", p.judge(_RESOLUTION)
    yield "approval.decide.passkey", i.Judge(key=e.CHARGE, signed=_PASSKEY)
    yield "preview.report", p.foresees()
    yield "preview.report.failed", p.foresees(2, foreseen=None)
    yield "attempt.decline", e.decline()
    yield "attempt.decline.changes", e.decline().model_copy(update={"changes": p.CHANGES})
    for meaning in i.Meaning:
        yield f"evidence.report.lookup.{meaning}", e.found_out(meaning)
    webhook = e.found_out(i.Meaning.EFFECT, lookup=None)
    full = webhook.model_copy(update={"code": "settled", "raw_sha256": "cd" * 32})
    yield "evidence.report.webhook", full
    yield "evidence.report.settlement", _GIVEN_BACK
    yield "stream.tick", e.tick()
    yield (
        "config.publish",
        i.Publish(kind="catalogue", content=CATALOGUE, content_hash=catalogue_hash(CATALOGUE)),
    )
    yield (
        "config.publish.checked",
        _publish_text("policy").model_copy(update={"checked": True}),
    )
    yield "config.publish.policy", _publish_text("policy")
    yield "config.publish.people", _publish_text("people")
    yield "config.publish.hold", _publish("hold")
    yield "config.publish.release", _publish("release")
    yield (
        "executor.offered",
        i.Offered(
            incarnation="9f2c",
            sequence=12,
            operations=("charge", "refund"),
            slots=8,
            seen_offset=41,
            valid_ms=6_000,
        ),
    )
    yield "genesis.recorded", _genesis()
    yield from _inputs_of_plans()


def _inputs_of_plans() -> Iterator[tuple[str, Wire]]:
    """What crosses actions: runs, gates, sagas."""
    placed = {"run": gates.RUN, "occurrence": "2027-01", "batch": "renewals-2027-01"}
    yield "intent.propose.run", e.propose(**placed)
    yield "intent.propose.compensates", e.propose(e.PAYOUT, compensates=e.CHARGE)
    yield "approval.decide.allow", p.judge(_ALLOWED)
    yield "step.report", gates.steps(4, reporter="planner", tool_calls=3, tokens=9_000)
    yield from gates.messages().items()
    yield "saga.open", sagas.plan(run=gates.RUN)
    yield "saga.cancel", sagas.cancel_trip()


_GIVEN_BACK = e.found_out(i.Meaning.REVERSED, lookup=None, source="settlement:po_1/7").model_copy(
    update={
        "kind": i.EvidenceKind.SETTLEMENT,
        "reference": "re_7",
        "reverses": e.REFERENCE,
        "money": e.EUR_499,
        "code": "refund",
        "raw_sha256": "cd" * 32,
        "occurred_at": e.T0 + 60_000,
    }
)
_ALLOWED = p.resolution(Move.ALLOW, case=6, accepts="day", comment="Once, for this customer.")
_RESOLUTION = p.resolution(
    Move.EFFECT_EXISTS, case=6, moved=8, comment='Found it as "renewal". Grüße 😊'
)
_PASSKEY = SignedByPasskey(
    statement='{"v":1}',
    credential_id="Y3JlZGVudGlhbA",
    authenticator_data="ZGF0YQ",
    client_data="Y2xpZW50",
    signature="c2lnbmF0dXJl",
)


def _publish_text(kind: Literal["policy", "people"]) -> i.Publish:
    hashed = policy_hash(CATALOGUE) if kind == "policy" else people_hash(CATALOGUE)
    return i.Publish(kind=kind, content=CATALOGUE, content_hash=hashed)


def _publish(kind: Literal["hold", "release"]) -> i.Publish:
    content = ORDER.model_dump_json(exclude_none=True)
    return i.Publish(kind=kind, content=content, content_hash=order_hash(content))


def _facts() -> Iterator[tuple[str, tuple[AnyFact, ...]]]:
    lookup, webhook = e.found_out(i.Meaning.EFFECT), e.found_out(i.Meaning.EFFECT, lookup=None)
    every: tuple[AnyFact, ...] = (
        e.recorded(),
        e.automatic(),
        e.started(),
        e.declined(),
        e.succeeded(),
        e.refused(),
        e.unsent(),
        e.unresolved(),
        e.absent(),
        e.retry_due(5_000),
        e.asked(),
        e.kept(lookup),
        e.completed(),
        e.failed(),
        e.cancelled(),
        e.expired(),
        e.review("lookups_exhausted"),
    )
    for version, fact in enumerate(every, start=1):
        yield fact.type, (fact.model_copy(update={"version": version}),)
    kept = e.kept(webhook.model_copy(update={"raw_sha256": "cd" * 32}))
    both = (
        kept.model_copy(update={"version": 4}),
        e.completed("webhook").model_copy(update={"version": 5}),
    )
    yield "two_facts", both
    yield "evidence.recorded.reversed", (e.kept(_GIVEN_BACK).model_copy(update={"version": 6}),)
    own = e.recorded().model_copy(update={"version": 1, "performer": "caller"})
    yield "intent.recorded.caller", (own,)
    named = e.asked().model_copy(update={"version": 4, "reference": "ch_moving"})
    yield "lookup.started.reference", (named,)
    yield "keyless", (e.started(key=e.EMAIL).model_copy(update={"version": 3}),)
    for name, fact in (*_facts_of_people(), *_facts_of_plans()):
        yield name, (fact.model_copy(update={"version": 3}),)


def _facts_of_people() -> Iterator[tuple[str, AnyFact]]:
    """What is asked of people and what they say. The plain names are those of the types."""
    yes = p.approves(policy=p.ESCALATING, comment='Called her: "yes". Grüße 😊')
    own = e.recorded().model_copy(
        update={"behalf": ("ada",), "caller_deadline_at": e.T0 + 900_000, "performer": "caller"}
    )
    ruled = p.ruled(p.ESCALATING, deadline=p.PEOPLE_MS)
    yield "intent.recorded.behalf", own
    yield "policy.decided.people", ruled.model_copy(update={"missing": ("money.limit",)})
    yield "policy.decided.deny", p.ruled(p.NEVER)
    for fact in (
        p.asked_provider(),
        p.preview_failed(),
        p.previewed(policy=p.ESCALATING, foreseen=p.FORESEEN),
        p.asking(policy=p.ESCALATING),
        p.escalated("managers"),
        p.agreed(yes),
        p.withdrawn(p.withdraws(policy=p.ESCALATING)),
        p.ended("volatile_changed", changes=p.CHANGES),
        p.denied(p.denies(policy=p.ESCALATING, comment="Not hers.")),
    ):
        yield fact.type, fact
    again = p.resolution(Move.TRY_AGAIN, case=6)
    yield "review.resolved", p.resolved(_RESOLUTION)
    yield "review.resolved.try_again", p.resolved(again, step=e.STEP_MS, people_until=p.PEOPLE_MS)
    yield "action.completed.person", e.completed("person", reference="ch_person")
    yield "preview.recorded.request", p.previewed()
    yield "approval.requested.plain", p.asking(policy=p.ONE)
    yield "approval.ended.expired", p.ended("expired")
    yield "action.denied.policy", p.denied()
    yield "attempt.started.approval", p.start_of(yes, policy=p.ESCALATING, foreseen=p.FORESEEN)


def _facts_of_plans() -> Iterator[tuple[str, AnyFact]]:
    """What an action asks of gates, and how it waits for others."""
    place = SagaPlace(saga=sagas.TRIP, step=2, steps=3, role="compensation")
    placed = {"run": gates.RUN, "occurrence": "2027-01", "batch": "renewals-2027-01"}
    yield "intent.recorded.run", e.recorded().model_copy(update=placed)
    undoes = {"compensates": sagas.do("hotel"), "saga": place}
    yield "intent.recorded.saga", e.recorded(sagas.undo("hotel")).model_copy(update=undoes)
    revises = {"action": f"{e.CHARGE}~2", "revises": e.CHARGE}
    yield "intent.recorded.revises", e.recorded().model_copy(update=revises)
    yield "policy.decided.gates", e.automatic().model_copy(update={"gates": gates.PASSES})
    for fact in (
        gates.blocked(),
        gates.asks_gate(),
        gates.answered(),
        gates.keeps(),
        gates.gives_back(spent=True),
        gates.is_taken_back(),
        gates.superseded(),
    ):
        yield fact.type, fact
    over = {"over": ("day", e.PAYOUT), "forced": True}
    yield "gate.asked.target", gates.asks_gate(gates.TARGET_GATE).model_copy(update=over)
    last = {"step_deadline_at": e.T0 + e.STEP_MS}
    yield "gate.answered.last", gates.answered().model_copy(update=last)
    yield "gate.answered.queued", gates.answered("queued", gates.TARGET_GATE)
    yield "gate.answered.refused", gates.answered("refused")
    alike = {"reason": "suspected_duplicate", "reached": None, "like": e.PAYOUT}
    yield "gate.answered.alike", gates.answered("refused").model_copy(update=alike)
    named = e.review("ceiling_reached").model_copy(update={"names": "day"})
    yield "review.opened.names", named
    yield "review.resolved.allow", p.resolved(_ALLOWED, step=e.STEP_MS)


def _genesis() -> Genesis:
    return Genesis(generation=GENERATION, partition=PARTITION, partitions=24)


def _decision(**answer: object) -> Decision:
    cause = Cause(topic="attempts", partition=PARTITION, offset=1_234)
    base = Decision(at=88, epoch=3, cause=cause, decided_at=e.T0 + 5, stream=e.STREAM)
    return base.model_copy(update=answer)


def _ledger_records() -> Iterator[tuple[str, LedgerRecord]]:
    adopted = Adopted(
        kind="catalogue", content=CATALOGUE, content_hash=catalogue_hash(CATALOGUE), offset=2
    )
    yield "epoch.opened", EpochOpened(at=7, epoch=2, nonce="b1e5", adopted=adopted)
    policy = _publish_text("policy")
    people = _publish_text("people")
    ruled = Adopted(
        kind="policy", content=policy.content, content_hash=policy.content_hash, offset=3
    )
    known = Adopted(
        kind="people", content=people.content, content_hash=people.content_hash, offset=4
    )
    who = EpochOpened(at=7, epoch=2, nonce="b1e5", adopted=adopted, policy=ruled, people=known)
    yield "epoch.opened.people", who
    yield "decision.adopted.policy", _decision(stream="", adopted=ruled)
    yield "decision.adopted.people", _decision(stream="", adopted=known)
    yield "epoch.opened.first", EpochOpened(at=1, epoch=1, nonce="b1e5")
    held = Hold(scope=ORDER.scope, by=ORDER.by, reason=ORDER.reason, since=e.T0, offset=3)
    yield "epoch.opened.held", EpochOpened(at=7, epoch=2, nonce="b1e5", holds=(held,))
    detail = Detail(path="/money/minor", code="differs", message="4990 -> 49900")
    refused = Refused(code=Rejection.CONFLICTED, action=e.CHARGE, details=(detail,))
    yield "decision.refused", _decision(refused=refused)
    unchanged = Unchanged(
        reason="replayed", action=e.CHARGE, status="completed", reference="ch_1", action_version=5
    )
    yield "decision.unchanged", _decision(unchanged=unchanged)
    ticked = Cause(topic="internal", partition=PARTITION, offset=9, copied=f"tick due {e.T0}")
    nothing = Unchanged(reason="nothing_due")
    yield "decision.unchanged.tick", _decision(cause=ticked, unchanged=nothing)
    poison = Quarantined(reason="not_json", sha256="ef" * 32, size_bytes=4)
    yield "decision.quarantined", _decision(stream="", quarantined=poison)
    yield "decision.adopted", _decision(stream="", adopted=adopted)
    order = _publish("hold")
    held_from = Adopted(
        kind="hold", content=order.content, content_hash=order.content_hash, offset=3
    )
    yield "decision.adopted.hold", _decision(stream="", adopted=held_from)


def _quarantined_whole() -> bytes:
    headers = (("content-type", b"application/json"), ("signature", b"\x00\xff"))
    read = Record("intents", PARTITION, 7, e.T0, b"acme/renewal-1", b"{}", headers)
    return quarantined(read, reason="fault_in_decide", detail="KeyError: 'a'").value


def _redriven() -> bytes:
    read = read_quarantine(Record("quarantine", 0, 0, 0, b"", _quarantined_whole(), ()))
    assert isinstance(read, QuarantinedRecord)
    return redriven(read, by="ops", redriven_to=42).value


def _quarantined() -> bytes:
    read = Record("intents", PARTITION, 7, e.T0, b"acme/renewal-1", b"{bad", ())
    return quarantined(
        read, reason="not_json", detail="not_json at the top: send one JSON text"
    ).value


def _webhook() -> bytes:
    received = WebhookReceived.of(
        '{"id":"evt_1","note":"😊"}'.encode(),
        provider="simulated",
        account="main",
        event_id="evt_1",
        sent_at=e.T0,
        headers={"webhook-id": "evt_1", "webhook-timestamp": "1800000000"},
    )
    return webhook_outgoing(received).value


if __name__ == "__main__":
    sys.exit(main())
