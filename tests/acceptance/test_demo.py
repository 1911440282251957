"""The demonstration in full, as `make demo` runs it: every claim held, nothing left behind."""

from pathlib import Path

import pytest

from gateway.demo.chapters import CHAPTERS
from gateway.demo.stage import abandoned
from tests.acceptance.chapters import CLAIMS, FIRST_FILE, all_held, holds
from tests.acceptance.command import start

pytestmark = pytest.mark.servers


def test_the_story_of_one_lost_answer_holds(tmp_path: Path) -> None:
    """On the real processes: one charge for an agent that asked twice, two for one without us."""
    before = set(abandoned())
    said = start(tmp_path, "demo", "--json")
    all_held(said, "story")
    topics = [one["topic"] for one in said.result["records"]]
    assert {"intents", "attempts", "evidence", "webhooks", "ledger"} == set(topics)
    # Others may tell a chapter of their own meanwhile; what they use is not left behind.
    assert set(abandoned()) <= before


@pytest.mark.parametrize("chapter", FIRST_FILE)
def test_a_chapter_holds(tmp_path: Path, chapter: str) -> None:
    """Who may decide, shown on the real processes and held against log, book and tables."""
    holds(tmp_path, chapter)


def test_the_chapters_are_listed_by_name(tmp_path: Path) -> None:
    """Each with a line; a name that is none is refused with those there are."""
    said = start(tmp_path, "demo", "--list", "--json")
    assert [one["name"] for one in said.result] == list(CHAPTERS) == list(CLAIMS)
    assert all(one["line"] for one in said.result)
    unknown = start(tmp_path, "demo", "no-such-chapter", "--json")
    assert unknown.code == 2
    assert "adversary" in unknown.out + unknown.err
