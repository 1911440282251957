"""What `quarantine list` and `show` print: the whole record, or how much of it there is."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from gateway.cli import quarantine as shown
from gateway.wiring.quarantine_desk import Summary, summary_of
from ledger.core.limits import QUARANTINED_BEGINNING_BYTES, QUARANTINED_BYTES_MAX
from ledger.log.port import Headers, Record
from ledger.log.quarantine import QuarantinedRecord, quarantined, read_quarantine

KEY = b"acme/x"
HEADERS: Headers = (("signature", b"\x00s"),)


def aside(value: bytes, headers: Headers = HEADERS) -> tuple[Summary, QuarantinedRecord]:
    """A record as the desk has it."""
    stood = Record("intents", 3, 17, 0, KEY, value, headers)
    sent = quarantined(stood, reason="not_json", detail="it said so")
    record = Record("quarantine", 3, 0, 1_000, *sent)
    entry = read_quarantine(record)
    assert isinstance(entry, QuarantinedRecord)
    return summary_of(record, entry, None), entry


def printed(show: Callable[[Console], None]) -> str:
    """What a command prints."""
    out = io.StringIO()
    show(Console(file=out, width=200, color_system=None))
    return out.getvalue()


def record_of(one: tuple[Summary, QuarantinedRecord], *, in_hex: bool = False) -> str:
    """What `show` prints of it."""
    return printed(lambda console: shown._show_record(console, *one, in_hex=in_hex))


def test_a_record_is_shown_with_its_key_headers_and_value() -> None:
    """And with the bytes that all of them have."""
    text = record_of(aside(b"{bad"))
    size = len(KEY) + len("signature") + 2 + 4
    assert f"bytes      {size}\n" in text
    assert "key        acme/x\n" in text
    assert "header     signature: \\x00s\n" in text
    assert text.endswith("\n{bad\n\n")
    assert "damaged" not in text


@pytest.mark.parametrize(
    ("value", "headers", "kept_value_bytes"),
    [
        (b"abc" * QUARANTINED_BYTES_MAX, (), QUARANTINED_BEGINNING_BYTES),
        (b"abc", (("\x01" * QUARANTINED_BYTES_MAX, b""),), 3),
    ],
    ids=["a large value", "large headers"],
)
def test_of_a_record_that_was_cut_the_beginning_is_shown(
    value: bytes, headers: Headers, kept_value_bytes: int
) -> None:
    """With how many bytes of how many there are; it is not called damaged."""
    one = aside(value, headers)
    text = record_of(one)
    whole = len(KEY) + len(value) + sum(len(name) for name, _ in headers)
    assert f"bytes      {len(KEY) + kept_value_bytes} of {whole} are kept" in text
    assert "key        acme/x\n" in text
    assert "\nabc" in text
    assert "damaged" not in text
    assert "61 62 63" in record_of(one, in_hex=True)


def test_bytes_that_are_not_those_that_were_set_aside_are_shown_as_such() -> None:
    """Somebody has written to the topic."""
    summary, entry = aside(b"{bad")
    text = record_of((summary, entry.model_copy(update={"sha256": "00"})))
    assert "damaged    these bytes have another hash\n" in text
    assert text.endswith("\n{bad\n\n")
    text = record_of((summary, entry.model_copy(update={"value_base64": "?"})))
    assert "damaged    " in text


def test_the_list_has_the_bytes_of_whole_records_and_says_how_many_of_a_part_there_are() -> None:
    """One meaning for both: key, value and headers as they stood."""
    small, _ = aside(b"{bad")
    large, _ = aside(b"x" * QUARANTINED_BYTES_MAX)
    size = len(KEY) + len("signature") + 2
    assert (small.size_bytes, small.kept_bytes) == (size + 4, None)
    kept = len(KEY) + QUARANTINED_BEGINNING_BYTES
    assert (large.size_bytes, large.kept_bytes) == (size + QUARANTINED_BYTES_MAX, kept)
    text = printed(lambda console: shown._show_list(console, [small, large], 2))
    assert f" {size + 4} " in text
    assert f" {kept} of {large.size_bytes} " in text
