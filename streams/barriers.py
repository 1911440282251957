"""The record that opens an epoch of a ledger partition, and tells what is in force there.

Guarantees that the topic takes it, whatever is in force. Pure; called by the owner of the
partition.
"""

from ledger.core.limits import RECORD_BYTES_MAX
from ledger.core.records import EpochOpened
from ledger.log.envelope import encode_ledger, ledger_headers
from ledger.log.fold import PartitionFold
from ledger.log.port import Outgoing, batch_bytes_of


def barrier_of(fold: PartitionFold, *, generation: str, nonce: str) -> Outgoing:
    """The record for exactly the place behind what was folded. Texts that it has no room for are
    not told again: whoever reads it has them from where they were adopted.
    """
    opened = EpochOpened(
        at=fold.next_offset,
        epoch=fold.epoch + 1,
        nonce=nonce,
        adopted=fold.adopted,
        holds=fold.holds or None,
        policy=fold.policy,
        people=fold.people,
    )
    whole = _outgoing(opened, generation, fold.partition)
    if batch_bytes_of(whole) <= RECORD_BYTES_MAX:
        return whole
    untold = {"adopted": None, "policy": None, "people": None}
    return _outgoing(opened.model_copy(update=untold), generation, fold.partition)


def _outgoing(opened: EpochOpened, generation: str, partition: int) -> Outgoing:
    value = encode_ledger(opened, generation=generation, partition=partition)
    return Outgoing(b"epoch", value, ledger_headers(opened))
