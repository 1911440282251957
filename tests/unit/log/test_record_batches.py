"""Batches with header names that are not UTF-8, and all others, as consumers read them."""

from dataclasses import replace
from gzip import compress
from typing import Any, Final

import pytest
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import ConsumerRecord, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from ledger.log.kafka import records_of
from ledger.log.record_batches import read_any_header_names

ALONE: Final[Any] = fetcher.PartitionRecords
PLACE: Final = TopicPartition("t", 3)
STANDS_FOR: Final = "stands for it"
STRANGE: Final = b"\xff" * len(STANDS_FOR)
HEADERS: Final = st.lists(
    st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3
)
RECORDS: Final = st.lists(
    st.tuples(
        st.integers(0, 2**41),
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=200),
        HEADERS,
    ),
    min_size=1,
    max_size=4,
)
LENGTH_AT, ATTRIBUTES_AT, RECORDS_AT = 8, 22, 61
GZIP, LOG_APPEND_TIME = 1, 8

Given = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def batch(first: int, records: list[Given]) -> bytes:
    """A batch as a producer makes it, at the place that the broker gave it."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10**6,
    )
    for offset, (created_at, key, value, headers) in enumerate(records):
        builder.append(offset, created_at, key, value, headers)
    return first.to_bytes(8, "big") + bytes(builder.build())[8:]


def read(raw: bytes, offset: int, *, all_names: bool) -> list[ConsumerRecord[Any, Any]]:
    """What a consumer gives of it from an offset on."""
    read_any_header_names()
    memory, of_partition = (
        (fetcher.MemoryRecords, fetcher.PartitionRecords) if all_names else (MemoryRecords, ALONE)
    )
    arguments = (PLACE, memory(raw), None, offset, None, None)
    records = of_partition(*arguments, check_crcs=False, isolation_level=0)
    found = list(records)
    assert records.next_fetch_offset == 14
    return found


def named(records: list[ConsumerRecord[Any, Any]]) -> list[tuple[int, list[str]]]:
    """Offsets and names."""
    return [(one.offset, [name for name, _ in one.headers]) for one in records]


def test_aiokafka_alone_reads_no_such_name() -> None:
    """When it does, `ledger.log.record_batches` can go."""
    with pytest.raises(UnicodeDecodeError):
        read(strange(), 10, all_names=False)


def strange(begin: int = 9) -> bytes:
    """Five records in three batches, two of the middle one with a name that is no text; as a broker
    gives them to who reads from there.
    """
    middle: list[Given] = [
        (1, b"k", b"one", [("h", b"1")]),
        (2, b"k", b"two", [("h", b"2"), (STANDS_FOR, None)]),
        (3, None, None, [(STANDS_FOR, b"4")]),
    ]
    batches = {
        9: batch(9, [(0, b"k", b"zero", [("h", b"0")])]),
        12: batch(10, middle).replace(STANDS_FOR.encode(), STRANGE),
        13: batch(13, [(4, b"k", b"last", [("h", b"5")])]),
    }
    return b"".join(each for last, each in batches.items() if last >= begin)


@pytest.mark.parametrize("begin", [9, 10, 11, 12, 13])
def test_each_record_comes_once_whatever_its_names(begin: int) -> None:
    """From wherever it is read, with those before and behind it."""
    records = read(strange(begin), begin, all_names=True)
    lone = STRANGE.decode(errors="surrogateescape")
    wanted = [(9, ["h"]), (10, ["h"]), (11, ["h", lone]), (12, [lone]), (13, ["h"])]
    assert named(records) == wanted[begin - 9 :]
    values = {one.offset: (one.key, one.value, one.timestamp) for one in records}
    assert values[13] == (b"k", b"last", 4)
    if begin <= 11:
        assert (values[11], values[12]) == ((b"k", b"two", 2), (None, None, 3))
        assert records[-2].headers == ((lone, b"4"),)


@given(before=RECORDS, records=RECORDS, gzip=st.booleans(), log_append_time=st.booleans())
def test_what_is_read_for_such_names_is_what_aiokafka_reads(
    *, before: list[Given], records: list[Given], gzip: bool, log_append_time: bool
) -> None:
    """The same records, once with a name that it can read and once with one that it cannot."""
    all_records: list[Given] = [*records, (7, b"", b"", [(STANDS_FOR, b"")])]
    first = 14 - len(all_records)
    begin = first - len(before)

    def raw(name: bytes) -> bytes:
        made = bytearray(batch(first, all_records).replace(STANDS_FOR.encode(), name))
        made[ATTRIBUTES_AT] |= LOG_APPEND_TIME * log_append_time | GZIP * gzip
        if gzip:
            made[RECORDS_AT:] = compress(made[RECORDS_AT:])
            made[LENGTH_AT : LENGTH_AT + 4] = (len(made) - LENGTH_AT - 4).to_bytes(4, "big")
        return batch(begin, before) + bytes(made)

    alone = read(raw(STANDS_FOR.encode()), begin, all_names=False)
    ours = read(raw(STRANGE), begin, all_names=True)
    lone = STRANGE.decode(errors="surrogateescape")
    assert ours[:-1] == alone[:-1]
    assert ours[-1] == replace(alone[-1], headers=((lone, b""),))


def test_a_header_without_a_value_has_an_empty_one() -> None:
    """Whoever counts or copies what a record bears need not think of it."""
    given: list[Given] = [(1, None, None, [("h", None), ("i", b"1")]), (2, b"k", b"v", [])]
    fetched = read(batch(12, given), 12, all_names=True)
    first, second = records_of({PLACE: fetched}, prefix_chars=0)
    assert (first.headers, first.value) == ((("h", b""), ("i", b"1")), b"")
    assert second.headers == ()


class Counted(bytes):
    """Bytes that count how many parts were taken of them."""

    taken = 0

    def __getitem__(self, which: slice) -> bytes:  # type: ignore[override]  # only slices
        self.taken += 1
        return super().__getitem__(which)


def test_each_batch_is_looked_at_once_however_many_have_such_names() -> None:
    """A producer that sends each record by itself makes thousands of them in one fetch."""
    read_any_header_names()
    raw = b"".join(batch(at, [(1, None, None, [(STANDS_FOR, b"")])]) for at in range(50))
    fetched = fetcher.MemoryRecords(raw.replace(STANDS_FOR.encode(), STRANGE))
    counted = fetched.raw = Counted(fetched.raw)
    arguments = (PLACE, fetched, None, 0, None, None)
    records = fetcher.PartitionRecords(*arguments, check_crcs=False, isolation_level=0)
    assert [one.offset for one in records] == list(range(50))
    assert counted.taken == 50
