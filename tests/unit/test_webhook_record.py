"""The webhook record: the reconciler reads what the door wrote, or refuses it by name."""

import base64
import hashlib
import json

import pytest

from ledger.core.limits import WEBHOOK_BYTES_MAX
from ledger.log.envelope import Unreadable
from ledger.log.port import Record
from ledger.log.webhook_record import WebhookReceived, read_webhook, webhook_outgoing

RAW = b'{"id":"evt_1","text":"cut \\ud83d here","n":1.5}'


def received(raw: bytes = RAW) -> WebhookReceived:
    """Build the record of one webhook."""
    return WebhookReceived.of(
        raw,
        provider="simulated",
        account="main",
        event_id="evt_1",
        sent_at=1_700_000_000_000,
        headers={"webhook-id": "evt_1", "webhook-timestamp": "1700000000"},
    )


def as_read(value: bytes) -> Record:
    """Put bytes at a place on the topic."""
    return Record("webhooks", 3, 17, 1_700_000_000_100, b"key", value, ())


@pytest.mark.case("C183")
def test_the_body_comes_back_as_it_was_signed() -> None:
    """Bytes that no strict reader would take are carried unchanged."""
    read = read_webhook(as_read(webhook_outgoing(received()).value))
    assert isinstance(read, WebhookReceived)
    assert read.raw() == RAW
    assert read.sha256 == hashlib.sha256(RAW).hexdigest()


def test_the_same_webhook_is_the_same_record() -> None:
    """A retried append writes the same bytes under the same key and id."""
    assert webhook_outgoing(received()) == webhook_outgoing(received())
    assert webhook_outgoing(received()).key == b"simulated/main/evt_1"


def test_the_largest_body_fits_one_record() -> None:
    """A body of the most that the door takes can be written and read."""
    raw = b"x" * WEBHOOK_BYTES_MAX
    read = read_webhook(as_read(webhook_outgoing(received(raw)).value))
    assert isinstance(read, WebhookReceived)
    assert read.raw() == raw


def test_one_byte_more_is_refused_at_the_door() -> None:
    """A body beyond the limit makes no record."""
    with pytest.raises(ValueError, match="at most"):
        received(b"x" * (WEBHOOK_BYTES_MAX + 1))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{bad", "not_json"),
        (b"", "not_json"),
        (b"\xff", "not_utf8"),
        (b'{"a":1,"a":2}', "duplicate_key"),
        (b"[1.5]", "float_refused"),
        (b"{}", "not_an_event_of_this_topic"),
    ],
)
def test_what_is_no_webhook_record_is_refused_by_name(value: bytes, reason: str) -> None:
    """Any bytes give a reason, never an exception."""
    read = read_webhook(as_read(value))
    assert isinstance(read, Unreadable)
    assert read.reason == reason


def test_a_changed_body_is_refused() -> None:
    """A body that does not have the hash it was received with is no webhook."""
    event = json.loads(webhook_outgoing(received()).value)
    event["data"]["raw_base64"] = base64.b64encode(b"another").decode()
    read = read_webhook(as_read(json.dumps(event).encode()))
    assert isinstance(read, Unreadable)
    assert read.reason == "body_changed"
