"""The serialised state of a stream: golden bytes, and nothing that merely looks like a state."""

from collections.abc import Callable
from typing import Any

import pytest

from ledger.core.snapshot import FOLD_VERSION, ForeignSnapshotError, dump, load
from tests.golden.states import folded, golden


@pytest.mark.law("S22")
@pytest.mark.parametrize("stored", golden(), ids=lambda stored: stored["name"])
def test_golden_facts_lead_to_golden_bytes(stored: dict[str, Any]) -> None:
    """Facts give these bytes under this version for ever; other bytes need another FOLD_VERSION."""
    assert dump(folded(stored)).decode() == stored["states"][str(FOLD_VERSION)]


@pytest.mark.parametrize("stored", golden(), ids=lambda stored: stored["name"])
def test_golden_bytes_are_read_back(stored: dict[str, Any]) -> None:
    """What is stored under this version is read as the state it was."""
    assert load(stored["states"][str(FOLD_VERSION)].encode()) == folded(stored)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda raw: raw[:-1], id="cut"),
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda raw: raw + b" ", id="longer"),
        pytest.param(lambda raw: raw.replace(b":", b": ", 1), id="reformatted"),
        pytest.param(lambda raw: raw.replace(b'"version":', b'"edited":', 1), id="renamed"),
        pytest.param(lambda raw: raw.replace(b'{"key"', b'{"more":1,"key"', 1), id="added"),
        pytest.param(lambda raw: raw.replace(b'"version":5', b'"version":"5"', 1), id="quoted"),
        pytest.param(lambda raw: raw.replace(b"completed", b"finished", 1), id="status"),
    ],
)
def test_foreign_bytes_are_refused(damage: Callable[[bytes], bytes]) -> None:
    """Bytes that this version would not have written are no state, however well they parse."""
    raw = dump(folded(golden()[0]))
    damaged = damage(raw)
    assert damaged != raw
    with pytest.raises(ForeignSnapshotError):
        load(damaged)
