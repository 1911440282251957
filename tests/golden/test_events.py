"""The golden bytes of every record type: read for ever, written the same, and understood by the
CloudEvents project's own reader.
"""

import hashlib
import json
from pathlib import Path
from typing import get_args

import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_structured
from cloudevents.core.formats.json import JSONFormat
from pydantic import ValidationError

from ledger.core.facts import (
    FACT_TYPES,
    ActionBlocked,
    ActionCompleted,
    ActionDenied,
    ApprovalEnd,
    GateAnswered,
    PolicyDecided,
    ReviewReason,
    SagaPlace,
    TimerSet,
)
from ledger.core.gates import GATE_FACT_TYPES, RefusalReason
from ledger.core.inputs import EvidenceKind, Meaning, Retry
from ledger.core.records import Adopted, Decision, EpochOpened, Genesis, LedgerRecord, Verdict
from ledger.core.rejections import Rejection
from ledger.core.state import AttemptStatus, Status
from ledger.core.statement import Move, Say
from ledger.core.wire import Wire
from ledger.log.envelope import (
    CONTENT_TYPE,
    TYPES,
    Unreadable,
    encode,
    encode_ledger,
    read_input,
    read_ledger,
)
from ledger.log.port import Record
from ledger.log.quarantine import (
    QUARANTINED_TYPE,
    REDRIVEN_TYPE,
    read_quarantine,
)
from ledger.log.topics import Topic
from ledger.log.webhook_record import WEBHOOK_TYPE, WebhookReceived, read_webhook
from tests.golden.writing import EVENTS, GENERATION, PARTITION, examples

FILES = sorted(EVENTS.glob("*.json"))
VOCABULARY = Path(__file__).with_name("vocabulary.json")
TOPIC_OF_TYPE = {
    "actionledger.intent.propose.v1": Topic.INTENTS,
    "actionledger.action.cancel.v1": Topic.INTENTS,
    "actionledger.caller.report.v1": Topic.INTENTS,
    "actionledger.approval.ask.v1": Topic.INTENTS,
    "actionledger.approval.decide.v1": Topic.APPROVALS,
    "actionledger.preview.report.v1": Topic.EVIDENCE,
    "actionledger.attempt.report.v1": Topic.ATTEMPTS,
    "actionledger.attempt.decline.v1": Topic.ATTEMPTS,
    "actionledger.evidence.report.v1": Topic.EVIDENCE,
    "actionledger.step.report.v1": Topic.INTENTS,
    "actionledger.saga.open.v1": Topic.INTENTS,
    "actionledger.saga.cancel.v1": Topic.INTENTS,
    "actionledger.stream.tick.v1": Topic.INTERNAL,
    "actionledger.gate.ask.v1": Topic.INTERNAL,
    "actionledger.gate.answer.v1": Topic.INTERNAL,
    "actionledger.gate.keep.v1": Topic.INTERNAL,
    "actionledger.gate.close.v1": Topic.INTERNAL,
    "actionledger.gate.taken.v1": Topic.INTERNAL,
    "actionledger.config.publish.v1": Topic.CONFIG,
    "actionledger.executor.offered.v1": Topic.OFFERS,
    "actionledger.genesis.recorded.v1": Topic.INTENTS,
}
_KEPT_TYPES = (QUARANTINED_TYPE, REDRIVEN_TYPE)
LEDGER_TYPES = {
    "actionledger.genesis.recorded.v1",
    "actionledger.epoch.opened.v1",
    "actionledger.decision.recorded.v1",
}


def type_of(path: Path) -> str:
    """The type that an event names."""
    named: str = json.loads(path.read_bytes())["type"]
    return named


def of_types(*types: str) -> list[Path]:
    """The golden files of these types."""
    return [path for path in FILES if type_of(path) in types]


def as_record(value: bytes, topic: str) -> Record:
    """Bytes as they are read from a topic."""
    return Record(topic, PARTITION, 1, 0, None, value, (CONTENT_TYPE,))


def decisions() -> list[Decision]:
    """Every golden decision."""
    read = [read_ledger(path.read_bytes()) for path in of_types(*LEDGER_TYPES)]
    return [record for record in read if isinstance(record, Decision)]


def test_every_type_has_its_golden_bytes() -> None:
    """No type of event and no fact is released without bytes that are kept."""
    assert set(map(type_of, FILES)) == {*TYPES, *_KEPT_TYPES, WEBHOOK_TYPE}
    assert {fact.type for read in decisions() for fact in read.facts} == set(FACT_TYPES)
    of_gates = {fact.type for read in decisions() for fact in read.gate or ()}
    assert of_gates == set(GATE_FACT_TYPES)
    assert {f"{name}.json" for name, _ in examples()} == {path.name for path in FILES}


def test_every_answer_of_a_decision_has_its_golden_bytes() -> None:
    """Facts, refusal, no change, quarantine and adoption are all there."""
    answers = [(d.refused, d.unchanged, d.quarantined, d.adopted) for d in decisions()]
    assert all(any(answer[place] for answer in answers) for place in range(4))


@pytest.mark.case("C173")
@pytest.mark.parametrize("path", of_types(*TOPIC_OF_TYPE), ids=lambda path: path.stem)
def test_c173_golden_inputs_are_read_and_written_the_same(path: Path) -> None:
    """An input of a released version is the same input now, byte for byte."""
    raw = path.read_bytes()
    envelope = json.loads(raw)
    read = read_input(as_record(raw, TOPIC_OF_TYPE[envelope["type"]]))
    assert not isinstance(read, Unreadable)
    assert isinstance(read, Wire)
    again = encode(
        read,
        event_id=envelope["id"],
        source=envelope["source"],
        subject=envelope.get("subject"),
        partition_key=envelope.get("partitionkey"),
    )
    assert again == raw


@pytest.mark.case("C173")
@pytest.mark.parametrize(
    "path",
    of_types("actionledger.epoch.opened.v1", "actionledger.decision.recorded.v1"),
    ids=lambda path: path.stem,
)
def test_c173_golden_ledger_records_are_read_and_written_the_same(path: Path) -> None:
    """A ledger record of a released version is the same record now, byte for byte."""
    raw = path.read_bytes()
    read: LedgerRecord = read_ledger(raw)
    assert isinstance(read, Decision | EpochOpened)
    assert encode_ledger(read, generation=GENERATION, partition=PARTITION) == raw


def test_a_genesis_record_is_the_same_on_ledger_and_inbox() -> None:
    """The record that fixes a partition for life is read back from either."""
    (path,) = of_types("actionledger.genesis.recorded.v1")
    on_ledger = read_ledger(path.read_bytes())
    assert isinstance(on_ledger, Genesis)
    assert read_input(as_record(path.read_bytes(), Topic.EVIDENCE)) == on_ledger


def test_a_golden_webhook_gives_back_what_was_signed() -> None:
    """The raw bytes and their hash come out as they went in."""
    (path,) = of_types(WEBHOOK_TYPE)
    read = read_webhook(as_record(path.read_bytes(), Topic.WEBHOOKS))
    assert isinstance(read, WebhookReceived)
    assert hashlib.sha256(read.raw()).hexdigest() == read.sha256
    assert json.loads(read.raw()) == {"id": "evt_1", "note": "😊"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_cloudevents_reader_reads_what_we_write(path: Path) -> None:
    """An independent reader finds the same attributes and the same data in every record."""
    raw = path.read_bytes()
    ours = json.loads(raw)
    event = from_structured(KafkaMessage(dict([CONTENT_TYPE]), None, raw), JSONFormat())
    assert event.get_specversion() == "1.0"
    assert (event.get_id(), event.get_source()) == (ours["id"], ours["source"])
    assert (event.get_type(), event.get_subject()) == (ours["type"], ours.get("subject"))
    assert event.get_datacontenttype() == "application/json"
    assert event.get_data() == ours["data"]
    assert event.get_extension("partitionkey") == ours.get("partitionkey")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_unknown_field_is_refused(path: Path) -> None:
    """A field that this version does not know is an error and never dropped in silence."""
    named = type_of(path)
    envelope = json.loads(path.read_bytes())
    envelope["data"]["later"] = 1
    raw = json.dumps(envelope).encode()
    if named in TOPIC_OF_TYPE:
        assert isinstance(read_input(as_record(raw, TOPIC_OF_TYPE[named])), Unreadable)
    elif named in LEDGER_TYPES:
        with pytest.raises(ValidationError):
            read_ledger(raw)
    elif named in _KEPT_TYPES:
        assert isinstance(read_quarantine(as_record(raw, Topic.QUARANTINE)), Unreadable)
    else:
        assert isinstance(read_webhook(as_record(raw, Topic.WEBHOOKS)), Unreadable)


def current_vocabulary() -> dict[str, list[str]]:
    """Every closed word that stands in records now."""
    words: dict[str, list[str]] = {}
    kinds = (Rejection, Meaning, EvidenceKind, Retry, Status, AttemptStatus, Verdict, Say, Move)
    for kind in kinds:
        words[kind.__name__] = sorted(str(word) for word in kind)
    literals: dict[str, object] = {
        "ReviewReason": ReviewReason,
        "TimerSet.purpose": TimerSet.model_fields["purpose"].annotation,
        "ActionCompleted.proof": ActionCompleted.model_fields["proof"].annotation,
        "PolicyDecided.outcome": PolicyDecided.model_fields["outcome"].annotation,
        "ActionDenied.by": ActionDenied.model_fields["by"].annotation,
        "ApprovalEnd": ApprovalEnd,
        "ActionBlocked.reason": ActionBlocked.model_fields["reason"].annotation,
        "SagaPlace.role": SagaPlace.model_fields["role"].annotation,
        "GateAnswered.outcome": GateAnswered.model_fields["outcome"].annotation,
        "RefusalReason": RefusalReason,
        "Adopted.kind": Adopted.model_fields["kind"].annotation,
    }
    for name, literal in literals.items():
        words[name] = sorted(get_args(literal))
    words["FactType"] = sorted(FACT_TYPES)
    words["GateFactType"] = sorted(GATE_FACT_TYPES)
    words["EventType"] = sorted({*TYPES, *_KEPT_TYPES, WEBHOOK_TYPE})
    return words


def test_no_word_that_was_released_is_taken_back() -> None:
    """Closed words only grow: a removed or renamed one would make old records unreadable."""
    released = json.loads(VOCABULARY.read_text(encoding="utf-8"))
    now = current_vocabulary()
    missing = {name: set(words) - set(now.get(name, ())) for name, words in released.items()}
    assert {name: words for name, words in missing.items() if words} == {}
    unkept = {name: set(words) - set(released.get(name, ())) for name, words in now.items()}
    assert {name: words for name, words in unkept.items() if words} == {}, (
        f"add the new words to {VOCABULARY.name}"
    )
