"""The codec of the product, asked once for the same bytes; and its fold, asked once for the same
step.

Every reader of a log reads the same bytes, and what they say is immutable, so the first reading
serves all. The bytes themselves are always made and always read: a fold sees what a decision's own
bytes say. So it is with the state after a decision: whoever comes to it from the very same state
before gets the same one; projections fold for themselves. Whether sharing changes anything is
checked by histories that are lived without it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ledger.core.inputs import Input, Offered, Publish
from ledger.core.records import Decision, Genesis, LedgerRecord
from ledger.core.state import Stream
from ledger.log import envelope, fold
from ledger.log.envelope import Unreadable
from ledger.log.port import Record
from streams import assignments, deciding, owner
from tests.simulation import observer

INPUTS_KEPT_MAX = 4_096
"""Histories ask for the same few things, so inputs are kept from one to the next."""

_read_ledger, _read_input = envelope.read_ledger, envelope.read_input
_fold_decision = fold.fold_decision
_ledger: dict[bytes, LedgerRecord] = {}
_folded: dict[int, tuple[Decision, Stream, Stream]] = {}
"""By identity, beside the decision itself: the state before it and the one after."""
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


def _fold_once(stream: Stream, decision: Decision) -> Stream:
    kept = _folded.get(id(decision))
    if kept is not None and (kept[1] is stream or _are_new(kept[1], stream)):
        return kept[2]
    after = _fold_decision(stream, decision)
    _folded[id(decision)] = (decision, stream, after)
    return after


def _are_new(one: Stream, other: Stream) -> bool:
    """Whether nothing has happened in either of two streams of one key."""
    return one.key == other.key and not (one.actions or one.gate or other.actions or other.gate)


@contextmanager
def read_once() -> Iterator[None]:
    """While it lasts, bytes that were read before are not read again."""
    _ledger.clear()
    _folded.clear()
    if len(_inputs) > INPUTS_KEPT_MAX:
        _inputs.clear()
    _put(_ledger_once, _input_once, _fold_once)
    try:
        yield
    finally:
        _put(_read_ledger, _read_input, _fold_decision)


def _put(ledger: object, inputs: object, folds: object) -> None:
    """Have everybody read and fold by these."""
    for module in (fold, owner, assignments):
        module.read_ledger = ledger  # type: ignore[attr-defined] # every name there is its own
    for module in (owner, deciding):
        module.read_input = inputs  # type: ignore[attr-defined] # as above
    for module in (owner, observer):
        module.fold_decision = folds  # type: ignore[attr-defined] # as above
