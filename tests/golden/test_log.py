"""A whole ledger of a released version: folded again it gives the states that it gave then.

`log.ndjson` holds the ledger of two partitions with crashes, void records and every kind of fact,
one record a line as it stood on the topic, `log_of_gates.ndjson` one in which actions meet at
gates; `…_folded.json` what came of it. None is ever written again: a release that folds it
otherwise would change what happened.
"""

import json

import pytest

from ledger.log.envelope import encode_ledger
from ledger.log.fold import PartitionFold
from tests.golden.logs import GATED, HERE, NAMES, PLAIN, folded, records


@pytest.mark.law("S22")
@pytest.mark.parametrize("name", NAMES)
def test_a_golden_log_folds_as_it_did(name: str) -> None:
    """The same log gives the same states, whatever the code has become."""
    known = json.loads((HERE / f"{name}_folded.json").read_text(encoding="utf-8"))
    assert folded(records(name)) == known


@pytest.mark.case("C173")
@pytest.mark.parametrize("name", NAMES)
def test_c173_a_golden_log_is_written_the_same(name: str) -> None:
    """C173: every record of the log is read and written again byte for byte."""
    read_again = records(name)
    folds = {record.partition: PartitionFold(record.partition) for record in read_again}
    for record in read_again:
        read = folds[record.partition].feed(record)
        if read is not None and record.offset:
            again = encode_ledger(read, generation="generation-1", partition=record.partition)
            assert again == record.value


def test_the_golden_log_has_a_bit_of_everything() -> None:
    """Void records, several epochs, and most kinds of facts are in it."""
    text = (HERE / f"{PLAIN}.ndjson").read_text(encoding="utf-8")
    known = json.loads((HERE / f"{PLAIN}_folded.json").read_text(encoding="utf-8"))
    assert sum(one["void"] for one in known["partitions"]) > 0
    assert max(one["epoch"] for one in known["partitions"]) > 2
    for kind in ("started", "succeeded", "unresolved", "declined", "absent", "refused"):
        assert f"attempt.{kind}" in text


def test_the_golden_log_of_gates_has_a_bit_of_everything() -> None:
    """Every fact about a gate is in it, and every one of an action that meets one."""
    text = (HERE / f"{GATED}.ndjson").read_text(encoding="utf-8")
    for kind in ("granted", "queued", "refused", "kept", "sent_again", "closed"):
        assert f"reservation.{kind}" in text
    for kind in ("gate.asked", "gate.answered", "gate.kept", "gate.closing", "step.reported"):
        assert kind in text
    assert '\\"forced\\":true' in text
