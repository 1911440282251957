"""Attributes of the envelope that no writer of this version makes, and that readers let pass."""

import json

from ledger.core.inputs import Publish
from ledger.log.envelope import Unreadable, outgoing, read_input
from ledger.log.port import Record
from tests.examples import STREAM, propose


def read_with(**attributes: str) -> object:
    """What is read of an intent that bears more attributes."""
    sent = outgoing(propose(), stream=STREAM, subject=None, event_id="e", source="/tests")
    document = json.loads(sent.value) | attributes
    raw = json.dumps(document).encode()
    return read_input(Record("intents", 0, 1, 0, sent.key, raw, ()))


def test_a_signature_changes_nothing_of_what_is_said() -> None:
    """Records that were signed later are read by who does not look at signatures yet."""
    assert read_with(signature="ed25519:AAAA") == read_with() == propose()
    order = Publish(kind="hold", content="{}", content_hash="sha256:0")
    sent = outgoing(order, stream="hold", subject=None, event_id="e", source="/operator")
    signed = json.dumps(json.loads(sent.value) | {"signature": "ed25519:AAAA"}).encode()
    assert read_input(Record("config", 0, 1, 0, sent.key, signed, ())) == order


def test_an_attribute_nobody_declared_is_no_event() -> None:
    """The envelope is closed: a typing mistake is no attribute."""
    assert isinstance(read_with(signatur="x"), Unreadable)
