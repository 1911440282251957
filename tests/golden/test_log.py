"""A whole ledger of a released version: folded again it gives the states that it gave then.

`log.ndjson` holds the ledger of two partitions with crashes, void records and every kind of fact,
one record a line as it stood on the topic; `log_folded.json` what came of it. Neither is ever
written again: a release that folds it otherwise would change what happened.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.core.records import Decision
from ledger.core.state import Stream
from ledger.log.envelope import encode_ledger
from ledger.log.fold import PartitionFold, fold_decision
from ledger.log.port import Record

LOG = Path(__file__).with_name("log.ndjson")
FOLDED = Path(__file__).with_name("log_folded.json")


def records() -> list[Record]:
    """Every record of the golden ledger, partition by partition, in its order."""
    read = []
    for line in LOG.read_text(encoding="utf-8").splitlines():
        kept = json.loads(line)
        value = kept["value"].encode()
        place = (kept["partition"], kept["offset"], kept["timestamp"])
        read.append(Record("ledger", *place, None, value, ()))
    return read


def folded(read: list[Record]) -> dict[str, Any]:
    """What is known after the log, in plain values."""
    folds = {record.partition: PartitionFold(record.partition) for record in read}
    streams: dict[str, Stream] = {}
    for record in read:
        decision = folds[record.partition].feed(record)
        if isinstance(decision, Decision) and decision.facts:
            before = streams.get(decision.stream) or Stream(decision.stream)
            streams[decision.stream] = fold_decision(before, decision)
    return {
        "partitions": [
            {
                "epoch": fold.epoch,
                "next_offset": fold.next_offset,
                "void": fold.void_count,
                "decided_at": fold.decided_at,
                "positions": dict(sorted(fold.positions.items())),
            }
            for _, fold in sorted(folds.items())
        ],
        "actions": {
            action.key: {
                "status": action.status,
                "version": action.version,
                "request_hash": action.request_hash,
                "reference": action.reference,
                "proof": action.proof,
                "review": action.review,
                "lookups": [action.lookups_asked, action.lookups_answered],
                "attempts": [
                    [one.status, one.fencing_token, one.holder, one.started_at, one.lease_until]
                    for one in action.attempts
                ],
            }
            for _, stream in sorted(streams.items())
            for action in stream.actions
        },
    }


@pytest.mark.law("S22")
def test_a_golden_log_folds_as_it_did() -> None:
    """The same log gives the same states, whatever the code has become."""
    assert folded(records()) == json.loads(FOLDED.read_text(encoding="utf-8"))


@pytest.mark.case("C173")
def test_c173_a_golden_log_is_written_the_same() -> None:
    """C173: every record of the log is read and written again byte for byte."""
    folds = {record.partition: PartitionFold(record.partition) for record in records()}
    for record in records():
        read = folds[record.partition].feed(record)
        if read is not None and record.offset:
            again = encode_ledger(read, generation="generation-1", partition=record.partition)
            assert again == record.value


def test_the_golden_log_has_a_bit_of_everything() -> None:
    """Void records, several epochs, and most kinds of facts are in it."""
    text = LOG.read_text(encoding="utf-8")
    known = json.loads(FOLDED.read_text(encoding="utf-8"))
    assert sum(one["void"] for one in known["partitions"]) > 0
    assert max(one["epoch"] for one in known["partitions"]) > 2
    for kind in ("started", "succeeded", "unresolved", "declined", "absent", "refused"):
        assert f"attempt.{kind}" in text
