"""Quarantine and the way back: whole records, and only where a redrive can help."""

import base64
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli.quarantine import hex_rows, visible
from gateway.wiring.quarantine_desk import Filter, Summary, blocked_again
from ledger.core.inputs import Publish
from ledger.core.limits import (
    QUARANTINED_BEGINNING_BYTES,
    RECORD_BYTES_MAX,
    WEBHOOK_BYTES_MAX,
)
from ledger.log.envelope import Unreadable, outgoing
from ledger.log.port import Headers, Outgoing, Record
from ledger.log.quarantine import (
    DETAIL_CHARS_MAX,
    QuarantinedRecord,
    RedrivenRecord,
    quarantined,
    read_quarantine,
    redriven,
    sha256_of,
)
from ledger.log.redrive import SOURCE_HEADER, Blocked, Obstacle, Redrive, plan_redrive
from ledger.log.topics import partition_of
from ledger.log.webhook_record import WebhookReceived, webhook_outgoing
from tests.examples import STREAM, propose, report, success, tick

PARTITIONS = 6
HOME = partition_of(STREAM, PARTITIONS)
SIGNED = ("signature", b"\x00\xffsig")


def stood(
    sent: Outgoing, topic: str = "intents", *, partition: int = HOME, offset: int = 17
) -> Record:
    """A record where it was read, signed by its sender."""
    headers = (*sent.headers, SIGNED)
    return Record(topic, partition, offset, 0, sent.key, sent.value, headers)


def intent() -> Outgoing:
    """An intent in order."""
    return outgoing(propose(), stream=STREAM, subject=None, event_id="e-1", source="/tests")


def webhook() -> Outgoing:
    """A webhook in order."""
    received = WebhookReceived.of(
        b"{}", provider="simulated", account="main", event_id="evt_1", sent_at=1, headers={}
    )
    return webhook_outgoing(received)


def aside(record: Record, reason: str = "fault_in_decide") -> QuarantinedRecord:
    """The record as it is read back from quarantine."""
    sent = quarantined(record, reason=reason, detail="it said so")
    read = read_quarantine(Record("quarantine", record.partition, 0, 0, sent.key, sent.value, ()))
    assert isinstance(read, QuarantinedRecord)
    return read


def obstacle(record: Record, reason: str = "fault_in_decide") -> Obstacle:
    """Why a redrive cannot help."""
    planned = plan_redrive(aside(record, reason), PARTITIONS)
    assert isinstance(planned, Blocked)
    assert planned.why.endswith(".")
    return planned.obstacle


@given(
    key=st.binary(max_size=40),
    value=st.binary(max_size=400),
    headers=st.lists(st.tuples(st.text(max_size=9), st.binary(max_size=9)), max_size=4),
)
def test_a_record_is_kept_whole(key: bytes, value: bytes, headers: list[tuple[str, bytes]]) -> None:
    """Any bytes, key and headers come back as they were."""
    entry = aside(Record("intents", 3, 17, 0, key, value, tuple(headers)))
    assert entry.original() == Outgoing(key, value, tuple(headers))
    assert entry.place == "intents/3/17"


@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [
        (b"acme/x", bytes(3 * WEBHOOK_BYTES_MAX), ()),
        (bytes(3 * WEBHOOK_BYTES_MAX), b"{}", ()),
        (b"acme/x", b"{}", (("h", bytes(3 * WEBHOOK_BYTES_MAX)),)),
    ],
    ids=["value", "key", "headers"],
)
def test_of_what_is_larger_than_any_topic_takes_the_beginning_is_kept(
    key: bytes, value: bytes, headers: Headers
) -> None:
    """It fits where it is set aside, has the hash of the whole, and is not put back."""
    record = Record("intents", 3, 17, 0, key, value, headers)
    assert len(quarantined(record, reason="too_large", detail="").value) < RECORD_BYTES_MAX
    entry = aside(record)
    assert entry.sha256 == sha256_of(value)
    assert base64.b64decode(entry.value_base64) == value[:QUARANTINED_BEGINNING_BYTES]
    planned = plan_redrive(entry, PARTITIONS)
    assert isinstance(planned, Blocked)
    assert planned.obstacle is Obstacle.TOO_LARGE
    kept = len(key[:QUARANTINED_BEGINNING_BYTES]) + len(value[:QUARANTINED_BEGINNING_BYTES])
    assert entry.kept_bytes == kept
    assert f"Of its {entry.whole_bytes} bytes {kept} are kept" in planned.why
    with pytest.raises(ValueError, match="only the beginning is kept"):
        entry.original()


@pytest.mark.parametrize(
    ("sent", "topic", "largest"),
    [(intent(), "intents", RECORD_BYTES_MAX), (webhook(), "webhooks", 2 * WEBHOOK_BYTES_MAX)],
    ids=["intents", "webhooks"],
)
def test_what_its_topic_takes_only_in_a_compressed_batch_is_not_put_back(
    sent: Outgoing, topic: str, largest: int
) -> None:
    """It would be refused by the broker, with advice that helps nobody."""
    headers = (("h", bytes(largest - 8_192)),)
    planned = plan_redrive(aside(stood(sent._replace(headers=headers), topic)), PARTITIONS)
    assert isinstance(planned, Redrive)
    headers = (("h", bytes(largest)),)
    assert obstacle(stood(sent._replace(headers=headers), topic)) is Obstacle.TOO_LARGE


def test_what_was_put_back_is_told_with_who_did_it() -> None:
    """The second kind of record on the topic."""
    sent = redriven(aside(stood(intent())), by="ops", redriven_to=99)
    read = read_quarantine(Record("quarantine", 0, 0, 0, sent.key, sent.value, ()))
    assert isinstance(read, RedrivenRecord)
    assert (read.place, read.by, read.redriven_to) == (f"intents/{HOME}/17", "ops", 99)


@pytest.mark.parametrize("value", [b"", b"{bad", b'{"type":"x"}', b"[" * 9_000])
def test_strange_bytes_on_the_topic_are_no_entry(value: bytes) -> None:
    """The desk is not to be stopped by what it is there for."""
    assert isinstance(read_quarantine(Record("quarantine", 0, 0, 0, b"", value, ())), Unreadable)


def test_a_redrive_is_the_same_bytes_key_and_headers_with_its_source_named() -> None:
    """Identity and signature survive, on the same topic and partition."""
    sent = intent()
    planned = plan_redrive(aside(stood(sent)), PARTITIONS)
    assert isinstance(planned, Redrive)
    assert (planned.topic, planned.partition) == ("intents", HOME)
    assert (planned.record.key, planned.record.value) == (sent.key, sent.value)
    source = (SOURCE_HEADER, f"intents/{HOME}/17".encode())
    assert planned.record.headers == (*sent.headers, SIGNED, source)


def test_what_is_set_aside_again_keeps_its_first_source() -> None:
    """However often it goes around, it names where it came from."""
    first = plan_redrive(aside(stood(intent())), PARTITIONS)
    assert isinstance(first, Redrive)
    again = Record("intents", HOME, 40, 0, *first.record)
    second = plan_redrive(aside(again), PARTITIONS)
    assert isinstance(second, Redrive)
    assert second.record.headers == first.record.headers


def test_a_webhook_goes_back_wherever_it_stood() -> None:
    """Its key is the provider's affair."""
    record = stood(webhook(), "webhooks", partition=(HOME + 1) % PARTITIONS)
    assert isinstance(plan_redrive(aside(record, "fault"), PARTITIONS), Redrive)


def test_what_stood_nowhere_is_not_put_back() -> None:
    """Whoever writes to quarantine may name any partition; the broker's client knows no answer."""
    assert obstacle(stood(webhook(), "webhooks", partition=PARTITIONS)) is Obstacle.MISROUTED


def test_why_a_record_cannot_be_read_is_told_in_short() -> None:
    """Where it quotes the record."""
    sent = outgoing(report(success()), stream=STREAM, subject=None, event_id="r", source="/t")
    strange = sent._replace(value=sent.value[:-1] + b',"%b":1}' % (b"k" * 100_000))
    planned = plan_redrive(aside(stood(strange, "attempts")), PARTITIONS)
    assert isinstance(planned, Blocked)
    assert planned.obstacle is Obstacle.STILL_UNREADABLE
    assert len(planned.why) < DETAIL_CHARS_MAX + 200


def test_what_a_redrive_cannot_help_is_named() -> None:
    """The most fundamental obstacle first, each with what to do instead."""
    sent = intent()
    assert obstacle(stood(sent), "too_large") is Obstacle.TOO_LARGE
    assert obstacle(stood(Outgoing(b"acme/x", b"{bad"))) is Obstacle.STILL_UNREADABLE
    assert obstacle(stood(sent, partition=(HOME + 1) % PARTITIONS)) is Obstacle.MISROUTED
    assert obstacle(stood(sent._replace(key=b"\xff"))) is Obstacle.MISROUTED
    ticked = outgoing(tick(), stream=STREAM, subject=None, event_id="t", source="/t")
    assert obstacle(stood(ticked, "internal")) is Obstacle.NOT_REDRIVABLE
    config = Publish(kind="catalogue", content="", content_hash="")
    published = outgoing(config, stream="catalogue", subject=None, event_id="c", source="/t")
    assert obstacle(stood(published, "config")) is Obstacle.NOT_REDRIVABLE
    assert obstacle(stood(sent, "elsewhere")) is Obstacle.NOT_REDRIVABLE
    said = outgoing(report(success()), stream=STREAM, subject=None, event_id="r", source="/t")
    assert obstacle(stood(said, "intents")) is Obstacle.STILL_UNREADABLE
    damaged = aside(stood(sent)).model_copy(update={"sha256": "00"})
    planned = plan_redrive(damaged, PARTITIONS)
    assert isinstance(planned, Blocked)
    assert planned.obstacle is Obstacle.DAMAGED


SUMMARY = Summary("intents/3/17", "intents", "not_json", "d", "ab", 4, set_aside_at=1_000)


def test_what_was_put_back_is_not_put_back_just_so() -> None:
    """Unless somebody says so: then it counts once all the same."""
    assert blocked_again(SUMMARY) is None
    blocked = blocked_again(replace(SUMMARY, redriven_to=99, redriven_by="ops"))
    assert blocked is not None
    assert blocked.obstacle is Obstacle.REDRIVEN_ALREADY
    assert "intents/3/99" in blocked.why


def test_the_list_is_what_was_asked_for() -> None:
    """By topic, reason, time and whether it still waits."""
    back = replace(SUMMARY, redriven_to=99)
    assert Filter().takes(back)
    assert not Filter(is_waiting=True).takes(back)
    assert Filter(topic="intents", reason="not_json", since=1_000, is_waiting=True).takes(SUMMARY)
    assert not Filter(topic="webhooks").takes(SUMMARY)
    assert not Filter(reason="too_deep").takes(SUMMARY)
    assert not Filter(since=1_001).takes(SUMMARY)


@given(st.text())
def test_nothing_of_a_stranger_reaches_the_terminal_as_a_command(text: str) -> None:
    """Only printable ASCII and line ends; every other character is written out."""
    assert all(char == "\n" or " " <= char <= "~" for char in visible(text))


def test_bytes_are_shown_beside_their_places() -> None:
    """Sixteen a row, with a dot for what cannot be printed."""
    assert hex_rows(b"abc\x1b[2J") == (
        "00000000  61 62 63 1b 5b 32 4a                             abc.[2J"
    )
