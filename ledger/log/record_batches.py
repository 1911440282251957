"""Batches as aiokafka reads them, also where the name of a header is not UTF-8: brokers take any
bytes, aiokafka raises out of each read of such a batch, and whoever follows the partition would end
at each start.

Guarantees that every record of such a batch comes once and in order, with half a surrogate pair in
a name for each byte that is none; whatever else comes as aiokafka alone would give it, as fast. It
takes the place of private parts of aiokafka 0.14; a test reads with both. Called by whoever starts
a consumer.
"""

import struct
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy, _DefaultRecordPy
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import decode_varint
from aiokafka.structs import ConsumerRecord

_PartitionRecords: Final[Any] = fetcher.PartitionRecords
_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
_BODY_AT: Final = 12


def read_any_header_names() -> None:
    """Have the consumers of this process read every name of a header. Again is safe."""
    fetcher.MemoryRecords = _Fetched
    fetcher.PartitionRecords = _AnyNames


class _Fetched(MemoryRecords):  # type: ignore[misc]  # has no types
    """What was fetched of a partition, with its bytes."""

    def __init__(self, raw: bytes) -> None:
        super().__init__(raw)
        self.raw = raw


class _AnyNames(_PartitionRecords):  # type: ignore[misc]  # as above
    """The records of a partition."""

    def _unpack_records(self) -> Iterator[ConsumerRecord[Any, Any]]:
        while True:
            try:
                yield from super()._unpack_records()
            except UnicodeDecodeError:
                # The batch was taken already; those behind it come in the next round.
                yield from self._of_batch_at(self.next_fetch_offset)
            else:
                return

    @cached_property
    def _whole_batches(self) -> Iterator[_DefaultRecordBatchPy]:
        """What was fetched, each batch once: offsets only rise, and from the beginning again for
        each such batch a fetch of thousands would take minutes in which nobody else has a turn.
        """
        return _batches(self._records.raw)

    def _of_batch_at(self, offset: int) -> Iterator[ConsumerRecord[Any, Any]]:
        """The records from an offset on, of the batch in which that is."""
        batch = next(each for each in self._whole_batches if each.next_offset > offset)
        for record in _records(batch):
            if record.offset >= offset:
                self.next_fetch_offset = record.offset + 1
                yield self._consumer_record(self._tp, record)
        self.next_fetch_offset = batch.next_offset


def _batches(raw: bytes) -> Iterator[_DefaultRecordBatchPy]:
    """The whole batches of what was fetched."""
    at = 0
    while at + _BODY_AT <= len(raw):
        end = at + _BODY_AT + _LENGTH.unpack_from(raw, at + _LENGTH_AT)[0]
        if end > len(raw):
            return
        yield _DefaultRecordBatchPy(raw[at:end])
        at = end


def _records(batch: _DefaultRecordBatchPy) -> Iterator[_DefaultRecordPy]:
    """The records of a batch: the same format as `_DefaultRecordBatchPy` reads it."""
    batch._maybe_uncompress()  # noqa: SLF001 - as the whole of this
    read = _Parts(batch._buffer, batch._pos)  # noqa: SLF001 - as above
    is_append_time = batch.timestamp_type == batch.LOG_APPEND_TIME
    for _ in range(batch._num_records):  # noqa: SLF001 - as above
        read.number()  # its length
        read.number()  # its attributes, of which there are none yet
        created_at = batch.first_timestamp + read.number()
        offset = batch.base_offset + read.number()
        key, value = read.part(), read.part()
        headers = [
            ((read.part() or b"").decode(errors="surrogateescape"), read.part())
            for _ in range(read.number())
        ]
        timestamp = batch.max_timestamp if is_append_time else created_at
        yield _DefaultRecordPy(offset, timestamp, batch.timestamp_type, key, value, headers)


class _Parts:
    """Numbers and bytes, one behind the other."""

    def __init__(self, raw: bytearray, at: int) -> None:
        self._raw, self._at = raw, at

    def number(self) -> int:
        """The next one."""
        value: int
        value, self._at = decode_varint(self._raw, self._at)
        return value

    def part(self) -> bytes | None:
        """The next bytes behind their length; None where that is below zero."""
        length = self.number()
        if length < 0:
            return None
        at, self._at = self._at, self._at + length
        return bytes(self._raw[at : self._at])
