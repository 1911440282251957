"""The head of a partition: what was written down of a log tells whether it is still that log."""

import json
from pathlib import Path

import pytest

from gateway.cli.checking import _heads
from gateway.cli.output import UsageError
from ledger.audit.replay import Head, Replay
from ledger.audit.tree import Tree
from ledger.log.port import Record
from tests.ledgers import history

LEAVES = (
    *("", "00", "10", "2021", "3031", "40414243", "5051525354555657"),
    "606162636465666768696a6b6c6d6e6f",
)
# Of Certificate Transparency, whose trees these are; the first is that of none.
HEADS = (
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)


def test_a_head_is_that_of_rfc_6962() -> None:
    """Family audit: at every size, so that any reader of such trees can check it."""
    tree, heads = Tree(), []
    for leaf in (None, *LEAVES):
        if leaf is not None:
            tree.add(bytes.fromhex(leaf))
        heads.append(tree.head())
    assert tuple(heads) == HEADS
    assert tree.size == len(LEAVES)


def replayed(records: list[Record], heads: dict[int, Head] | None = None) -> Replay:
    """A replay of these records."""
    replay = Replay(heads=heads or {})
    for record in records:
        replay.feed(record)
    return replay


def told(records: list[Record], heads: dict[int, Head]) -> list[str]:
    """What is said of records that are not those of earlier; signatures are none here."""
    found = replayed(records, heads).unproven
    return [f"{one.partition}: {one.what}" for one in found if "written down" in one.what]


RECORDS = history(51, steps=80, partitions=2).everything()
FIRST = [one for one in RECORDS if one.partition == 0]
OTHER = [one for one in RECORDS if one.partition == 1]
HALF = len(FIRST) // 2
THEN = {0: Head(HALF, replayed(FIRST[:HALF]).trees[0].head())}


def test_a_log_that_only_grew_has_the_head_that_it_had() -> None:
    """Family audit: what came later changes nothing of what was there, in this partition and in
    others.
    """
    assert told(FIRST + OTHER, THEN) == []


@pytest.mark.parametrize("place", [0, 1, HALF - 1])
def test_a_changed_byte_anywhere_below_is_found(place: int) -> None:
    """Family audit: also where no hash and no signature covers it, such as a source or a time that
    a record bears beside what counts.
    """
    value = FIRST[place].value.replace(b'"source":"/', b'"source":"//', 1)
    assert value != FIRST[place].value
    changed = [*FIRST[:place], FIRST[place]._replace(value=value), *FIRST[place + 1 :]]
    said = f"0: the first {HALF} records are not those that were written down"
    assert told(changed, THEN) == [said]


def test_a_change_behind_a_head_is_not_its_matter() -> None:
    """Family audit: a head speaks for what it was taken of, and for no more."""
    value = FIRST[HALF].value.replace(b'"source":"/', b'"source":"//', 1)
    changed = [*FIRST[:HALF], FIRST[HALF]._replace(value=value), *FIRST[HALF + 1 :]]
    assert told(changed, THEN) == []


def test_an_earlier_answer_is_read_and_nothing_else(tmp_path: Path) -> None:
    """Family audit: the JSON of a replay is a note of all heads; any other file is refused."""
    file = tmp_path / "then.json"
    told_then = {"0": {"next_offset": 7, "epoch": 1, "sha256": "ab" * 32}}
    file.write_text(json.dumps({"result": {"partitions": told_then}}), encoding="utf-8")
    assert _heads(file) == {0: Head(7, "ab" * 32)}
    wrong = ["", "[]", "{}", '{"result": {"partitions": {"x": {}}}}', '{"result": 1}']
    # Nothing would be held against these, and all would be well.
    nothing: tuple[object, ...] = (
        {},
        {"0": {"next_offset": 0, "sha256": "ab" * 32}},
        {"0": {"next_offset": -7, "sha256": "ab" * 32}},
        {"0": {"next_offset": True, "sha256": "ab" * 32}},
        {"0": {"next_offset": 7, "sha256": "ab"}},
        {"0": {"next_offset": 7, "sha256": None}},
    )
    wrong += [json.dumps({"result": {"partitions": partitions}}) for partitions in nothing]
    for text in wrong:
        file.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match="not what a replay told"):
            _heads(file)
