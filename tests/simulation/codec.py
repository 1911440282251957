"""The codec of the product, asked once for the same bytes.

Every reader of a log reads the same bytes, and what they say is immutable, so the first reading
serves all. The bytes themselves are always made and always read: a fold sees what a decision's own
bytes say. Whether sharing changes anything is checked by histories that are lived without it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ledger.core.inputs import Input, Offered, Publish
from ledger.core.records import Genesis, LedgerRecord
from ledger.log import envelope, fold
from ledger.log.envelope import Unreadable
from ledger.log.port import Record
from streams import deciding, hands, owner

INPUTS_KEPT_MAX = 4_096
"""Histories ask for the same few things, so inputs are kept from one to the next."""

_read_ledger, _read_input = envelope.read_ledger, envelope.read_input
_ledger: dict[bytes, LedgerRecord] = {}
_inputs: dict[tuple[str, bytes], Input | Publish | Offered | Genesis | Unreadable] = {}


def _ledger_once(value: bytes) -> LedgerRecord:
    read = _ledger.get(value)
    if read is None:
        read = _ledger[value] = _read_ledger(value)
    return read


def _input_once(record: Record) -> Input | Publish | Offered | Genesis | Unreadable:
    name = (record.topic, record.value)
    read = _inputs.get(name)
    if read is None:
        read = _inputs[name] = _read_input(record)
    return read


@contextmanager
def read_once() -> Iterator[None]:
    """While it lasts, bytes that were read before are not read again."""
    _ledger.clear()
    if len(_inputs) > INPUTS_KEPT_MAX:
        _inputs.clear()
    readers = ((fold, "read_ledger"), (owner, "read_ledger"), (hands, "read_ledger"))
    inputs = ((owner, "read_input"), (deciding, "read_input"))
    for module, name in readers:
        setattr(module, name, _ledger_once)
    for module, name in inputs:
        setattr(module, name, _input_once)
    try:
        yield
    finally:
        for module, name in readers:
            setattr(module, name, _read_ledger)
        for module, name in inputs:
            setattr(module, name, _read_input)
