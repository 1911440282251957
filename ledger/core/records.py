"""The records of a ledger partition, and the rule by which every reader accepts or voids them.

A decision is one input and everything that came of it, whole in one record. `accept` is the same
pure function for every reader: the epoch is the current one and the record stands at the offset it
was written for. What is not accepted changes nothing and is counted. Why no transactions:
docs/decisions/0002-one-decision-record.md.
"""

from enum import StrEnum
from typing import Literal, assert_never

from ledger.core.facts import Fact
from ledger.core.gates import GateFact
from ledger.core.holds import Holds
from ledger.core.rejections import Refused, Unchanged
from ledger.core.wire import Count, Milliseconds, Text, Wire


class Genesis(Wire):
    """The first record of a partition: its number, how many there are, the generation; for life."""

    generation: Text
    partition: Count
    partitions: Count


class Adopted(Wire):
    """A version of a kind of configuration that holds in this partition from here on; of a hold or
    a release, the order itself.
    """

    kind: Literal["catalogue", "hold", "release", "policy", "people"]
    content: str
    content_hash: Text
    offset: Count


class EpochOpened(Wire):
    """A new owner of the partition. Accepted only if it is exactly the next epoch at exactly its
    place. It tells the configuration in force; None where there is nothing to tell, or where the
    texts together have no room in one record: then they stand where they were adopted.
    """

    at: Count
    epoch: Count
    nonce: Text
    adopted: Adopted | None = None
    holds: Holds | None = None
    policy: Adopted | None = None
    people: Adopted | None = None


class Cause(Wire):
    """The input a decision answers. `internal` inputs do not live for ever, so their content is
    copied.
    """

    topic: Text
    partition: Count
    offset: Count
    copied: Text | None = None


class Quarantined(Wire):
    """The input could not be read, or broke a rule of ours: kept whole on the quarantine topic,
    found again by these.
    """

    reason: Text
    sha256: Text
    size_bytes: Count


class Decision(Wire):
    """Which input led to which facts; or to a named refusal, to nothing, to quarantine, to an
    adopted configuration. `gate` holds the facts about a gate where the stream is one.
    """

    at: Count
    epoch: Count
    cause: Cause
    decided_at: Milliseconds
    stream: Text
    gate: tuple[GateFact, ...] | None = None
    facts: tuple[Fact, ...] = ()
    refused: Refused | None = None
    unchanged: Unchanged | None = None
    quarantined: Quarantined | None = None
    adopted: Adopted | None = None


LedgerRecord = Genesis | EpochOpened | Decision


class Verdict(StrEnum):
    """What a reader makes of a record at its place."""

    ACCEPTED = "accepted"
    VOID_EPOCH = "void_epoch"
    VOID_OFFSET = "void_offset"


def accept(epoch: int, offset: int, record: LedgerRecord) -> Verdict:
    """Judge a record read at `offset` by a reader whose current epoch is `epoch` (0 before the
    first).
    """
    match record:
        case Decision():
            if record.epoch != epoch:
                return Verdict.VOID_EPOCH
            return Verdict.ACCEPTED if record.at == offset else Verdict.VOID_OFFSET
        case EpochOpened():
            if record.at != offset:
                return Verdict.VOID_OFFSET
            return Verdict.ACCEPTED if record.epoch == epoch + 1 else Verdict.VOID_EPOCH
        case Genesis():
            return Verdict.ACCEPTED if offset == 0 else Verdict.VOID_OFFSET
        case _:
            assert_never(record)
