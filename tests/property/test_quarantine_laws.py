"""Laws of quarantine: whatever record comes in, what goes out fits its topic and reads back."""

import base64
from typing import Final

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledger.core.limits import QUARANTINED_BEGINNING_BYTES, TEXT_CHARS_MAX
from ledger.log.port import Headers, Outgoing, Record, batch_bytes_of
from ledger.log.quarantine import (
    QuarantinedRecord,
    RedrivenRecord,
    quarantined,
    read_quarantine,
    redriven,
    sha256_of,
)
from ledger.log.redrive import Blocked, Obstacle, plan_redrive
from ledger.log.topics import Topic, specs

MIB: Final = 1_024 * 1_024
TAKEN_BYTES: Final = {spec.topic: spec.batch_bytes_max for spec in specs(1)}
CHARACTERS: Final = st.sampled_from(["a", "\x00", "\x01", "\x7f", "\\", '"', "é", "\U0001f44b"])
TIMES: Final = st.sampled_from([0, 1, 1_000, 60_000, MIB // 4, MIB, 2 * MIB])


def long(unit: bytes | str, times: int) -> bytes | str:
    """So many times the unit, and no more than a batch that unfolds may bring here."""
    return unit * min(times, 3 * MIB // max(1, len(unit)))


TEXTS: Final = st.builds(long, CHARACTERS, TIMES)
BYTES: Final = st.builds(long, st.binary(max_size=3), TIMES)
HEADERS: Final = st.builds(
    lambda each, times: each * times,
    st.lists(st.tuples(TEXTS, st.none() | BYTES), max_size=2),
    st.sampled_from([1, 1, 1, 1, 40, 1_000]),
).filter(lambda headers: sum(len(n) + len(v or b"") for n, v in headers) <= 8 * MIB)


def batch_bytes(sent: Outgoing) -> int:
    """What the broker sees of a record that was sent by itself."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        batch_size=1,
    )
    builder.append(0, 1, sent.key, sent.value, list(sent.headers))
    return len(builder.build())


def read_back(sent: Outgoing) -> QuarantinedRecord | RedrivenRecord:
    """What a reader of the topic has of it."""
    read = read_quarantine(Record("quarantine", 0, 0, 0, sent.key, sent.value, sent.headers))
    assert isinstance(read, QuarantinedRecord | RedrivenRecord)
    return read


@settings(max_examples=60)
@given(
    key=st.none() | BYTES,
    value=st.none() | BYTES,
    headers=HEADERS.map(tuple),
    reason=st.text(max_size=TEXT_CHARS_MAX),
    detail=TEXTS | st.text(st.characters(), max_size=9),
    at=st.integers(0, 2**53 - 1),
)
@example(None, b"{}", (("\x01" * MIB, b""),), "not_json", "", 0)
@example(b"k", b"{}", (("", b""),) * MIB, "not_json", "", 0)
@example(b"k", b"{}", (("h", None),), "not_json", "", 0)
@example(b"k", b"{}", (("a\udcff\udcfe", b""),), "not_json", "\ud800" * 2_000, 0)
@example(b"k", b"\xff" * (2 * MIB - 200), (), "x" * TEXT_CHARS_MAX, "\x01" * 2_000, 2**53 - 1)
@example(b"\x01" * (2 * MIB - 200), b"", (), "not_json", "", 0)
def test_whatever_is_set_aside_fits_and_reads_back(
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
    reason: str,
    detail: str,
    at: int,
) -> None:
    """Whole where it has room, with the same bytes; else by its beginning, which says so and has
    the hash of the whole.
    """
    record = Record("intents", 3, at, 0, key, value, headers)  # type: ignore[arg-type]
    sent = quarantined(record, reason=reason, detail=detail)
    assert batch_bytes(sent) <= batch_bytes_of(sent) <= TAKEN_BYTES[Topic.QUARANTINE]
    entry = read_back(sent)
    assert isinstance(entry, QuarantinedRecord)
    assert (entry.place, entry.reason) == (f"intents/3/{at}", reason)
    assert entry.sha256 == sha256_of(value)
    given_bytes = (key or b"") + (value or b"")
    given_headers = tuple((name, raw or b"") for name, raw in headers)
    if entry.whole_bytes is None:
        assert entry.original() == Outgoing(key or b"", value or b"", given_headers)
        return
    assert entry.whole_bytes >= len(given_bytes)
    kept = base64.b64decode(entry.value_base64)
    assert kept == (value or b"")[:QUARANTINED_BEGINNING_BYTES]
    planned = plan_redrive(entry, 6)
    assert isinstance(planned, Blocked)
    assert planned.obstacle is Obstacle.TOO_LARGE


@given(by=st.text(CHARACTERS, max_size=TEXT_CHARS_MAX), offset=st.integers(0, 2**53 - 1))
def test_whoever_put_a_record_back_is_told_in_one_that_fits(by: str, offset: int) -> None:
    """Any name that can be recorded."""
    record = Record("webhooks", 3, offset, 0, b"k", b"{bad", ())
    entry = read_back(quarantined(record, reason="not_json", detail=""))
    assert isinstance(entry, QuarantinedRecord)
    sent = redriven(entry, by=by, redriven_to=offset)
    assert batch_bytes(sent) <= TAKEN_BYTES[Topic.QUARANTINE]
    read = read_back(sent)
    assert isinstance(read, RedrivenRecord)
    assert (read.by, read.redriven_to) == (by, offset)
