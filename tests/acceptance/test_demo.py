"""The demonstration in full: the story as `make demo` tells it, and every further chapter on one
installation, beside what those before it have left there.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.demo.chapters import CHAPTERS
from gateway.demo.stage import abandoned
from tests.acceptance.chapters import CLAIMS, OTHERS, all_held, holds
from tests.acceptance.command import Installation, running, start

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def here() -> Iterator[Installation]:
    """An installation that runs."""
    with running("demo") as installation:
        yield installation


def documents(here: Installation) -> list[object]:
    """What is in force, of each kind of document; of people it names what it replaced besides."""
    shown = [here.json(kind, "show").result for kind in ("catalogue", "policy")]
    return [*shown, here.json("people", "list").result["people"]]


def test_the_story_of_one_lost_answer_holds(tmp_path: Path) -> None:
    """On the real processes: one charge for an agent that asked twice, two for one without us."""
    before = set(abandoned())
    said = start(tmp_path, "demo", "--json")
    all_held(said, "story")
    topics = [one["topic"] for one in said.result["records"]]
    assert {"intents", "attempts", "evidence", "webhooks", "ledger"} == set(topics)
    # Others may tell a chapter of their own meanwhile; what they use is not left behind.
    assert set(abandoned()) <= before


@pytest.mark.parametrize("chapter", OTHERS)
def test_a_chapter_holds(here: Installation, chapter: str) -> None:
    """Who may decide, shown on the real processes and held against log, book and tables."""
    holds(here, chapter)


def test_a_chapter_is_told_again_and_leaves_the_installation_as_it_was(here: Installation) -> None:
    """Under a tenant of its own each time; it publishes a policy, and has a person decide."""
    before = documents(here)
    records = [here.json("demo", "ceilings", "--here").result["records"] for _ in range(2)]
    keys = [{one["key"] for one in told if one["topic"] == "ledger"} for told in records]
    assert all(keys)
    assert keys[0].isdisjoint(keys[1])
    assert documents(here) == before


def test_a_chapter_is_not_told_where_another_policy_is_in_force(
    here: Installation, tmp_path: Path
) -> None:
    """It would replace what somebody wrote."""
    own = tmp_path / "policy.toml"
    own.write_text('[[row]]\nname = "all"\noutcome = "people"\nreason = "Everything is shown."\n')
    shipped = here.run("policy", "show", "--source").out
    published = here.json("policy", "publish", str(own))
    assert published.code == 0, published.out
    before = documents(here)
    said = here.json("demo", "ceilings", "--here")
    assert said.code == 1
    assert "The policy in force is not the shipped one" in said.document["error"]["message"]
    assert documents(here) == before
    own.write_text(shipped)
    assert here.json("policy", "publish", str(own)).code == 0


def test_a_chapter_is_not_told_where_nothing_runs(tmp_path: Path) -> None:
    """Nothing is started instead."""
    said = Installation(tmp_path).json("demo", "ceilings", "--here")
    assert said.code == 1
    assert "There is no ledger here" in said.document["error"]["message"]


def test_the_chapters_are_listed_by_name(tmp_path: Path) -> None:
    """Each with a line; a name that is none is refused with those there are."""
    nowhere = Installation(tmp_path)
    said = nowhere.json("demo", "--list")
    assert [one["name"] for one in said.result] == list(CHAPTERS) == list(CLAIMS)
    assert all(one["line"] for one in said.result)
    unknown = nowhere.json("demo", "no-such-chapter")
    assert unknown.code == 2
    assert "adversary" in unknown.out + unknown.err
