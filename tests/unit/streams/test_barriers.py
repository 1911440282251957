"""The record that opens an epoch: it tells what is in force, and its topic takes it."""

import pytest

from gateway.wiring.publishing import default_catalogue, default_policy
from ledger.core.holds import Hold, Scope
from ledger.core.limits import CATALOGUE_BYTES_MAX, HOLDS_MAX, IDENTIFIER_CHARS_MAX, TEXT_CHARS_MAX
from ledger.core.people import NOBODY
from ledger.core.people_text import written
from ledger.core.records import Adopted, EpochOpened
from ledger.log.envelope import read_ledger
from ledger.log.fold import InForce, PartitionFold
from ledger.log.port import Record, batch_bytes_of
from ledger.log.topics import Topic, batch_bytes_max
from streams.owner import Owner
from tests.unit.signing.decisions import ADA_KEY, person, registered

TEXTS = {
    "catalogue": default_catalogue(),
    "policy": default_policy(),
    "people": written(NOBODY, (person("ada", registered(ADA_KEY)),)),
}


def owner(character: str, line: str) -> Owner:
    """One with as many holds as there may be, and documents as large as they may be: with so many
    lines behind what they say.
    """
    adopted = [
        Adopted.model_validate(
            {
                "kind": kind,
                "content": (f"{text}\n" + line * CATALOGUE_BYTES_MAX)[:CATALOGUE_BYTES_MAX],
                "content_hash": "sha256:" + "0" * 64,
                "offset": 1,
            }
        )
        for kind, text in TEXTS.items()
    ]
    holds = tuple(
        Hold(
            scope=Scope(provider="p" * 128, tenant="t" * 128, operation="o" * 64),
            by=character * IDENTIFIER_CHARS_MAX,
            reason=character * TEXT_CHARS_MAX,
            since=2**53 - 1,
            offset=number,
        )
        for number in range(HOLDS_MAX)
    )
    fold = PartitionFold(3, next_offset=7, holds=holds)
    fold.adopted, fold.policy, fold.people = adopted
    return Owner(3, 6, "generation", "m" * 256 + "/nonce", checkpoint=fold)


@pytest.mark.parametrize(
    ("character", "line", "tells_all"),
    [("r", "# a comment of a line\n", True), ("r", "\n", False), ("\x01", "\n", False)],
    ids=["comments", "line ends", "control characters"],
)
def test_the_topic_takes_it_whatever_is_in_force(
    *, character: str, line: str, tells_all: bool
) -> None:
    """Documents for which it has no room are left out: whoever reads it has them already, from
    where they were adopted.
    """
    one = owner(character, line)
    barrier = one.barrier()
    assert batch_bytes_of(barrier) <= batch_bytes_max(Topic.LEDGER)
    opened = read_ledger(barrier.value)
    assert isinstance(opened, EpochOpened)
    assert opened.holds == one.fold.holds
    told = InForce(opened.adopted, opened.holds or (), opened.policy, opened.people)
    assert (told == one.fold.in_force) is tells_all
    before = one.fold.in_force
    one.fold.feed(Record(Topic.LEDGER, 3, 7, 0, *barrier))
    assert (one.fold.in_force, one.fold.epoch) == (before, 1)
