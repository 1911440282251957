"""The demonstration in full, as `make demo` runs it: every claim held, nothing left behind."""

import tempfile
from pathlib import Path

import pytest

from gateway.demo.chapters import CHAPTERS
from gateway.demo.stage import PREFIX
from tests.acceptance.command import Said, start

pytestmark = pytest.mark.servers

SECONDS_MAX = 60
"""For one chapter, from the first process to the last; the machine may be busy."""

CLAIMS = {
    "story": {
        "written_ahead",
        "committed_and_lost",
        "agent_killed",
        "unknown",
        "no_second_call",
        "changed_amount_refused",
        "plain_agent_charges_twice",
        "webhook_settles",
        "one_charge",
        "replay_equals",
        "rebuild_equals",
    },
    "catalogue": {
        "outside_refused",
        "not_allowed",
        "allowed",
        "one_refund",
        "principals_recorded",
    },
    "policy": {"five_kinds", "hash_recorded", "explained", "whatif", "nothing_moved"},
    "preview": {"dry", "moved", "asked_anew", "one_refund"},
    "approvals": {
        "waits",
        "completed_once",
        "double_click",
        "denied",
        "expired",
        "asked_again",
        "forgeries",
        "book",
    },
    "review": {
        "to_a_person",
        "never_again",
        "refused_by_name",
        "settled",
        "once",
        "one_mail",
    },
    "saga": {
        "whole_or_not",
        "one_decision",
        "last_first",
        "unknown_first",
        "replay",
        "compensated",
        "even",
    },
    "ceilings": {"within", "counted_once", "held_back", "raised", "only_once"},
    "targets": {"waits", "goes_on", "look_alike", "occurrence", "three_refunds"},
    "adversary": {
        "no_door",
        "no_key",
        "no_topic",
        "no_record",
        "no_change",
        "no_flood",
        "nothing",
    },
}


EVERYWHERE = {"replay_equals"}


def all_held(said: Said, chapter: str) -> None:
    """Every claim of a chapter was made, and held."""
    assert said.code == 0, said.out + said.err
    assert said.result["chapter"] == chapter
    claims = {one["id"]: one for one in said.result["claims"]}
    assert set(claims) == CLAIMS[chapter] | EVERYWHERE
    assert [one["text"] for one in claims.values() if not one["held"]] == []
    assert said.result["all_held"] is True


def test_the_story_of_one_lost_answer_holds(tmp_path: Path) -> None:
    """On the real processes: one charge for an agent that asked twice, two for one without us."""
    before = set(Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))
    said = start(tmp_path, "demo", "--json")
    all_held(said, "story")
    topics = [one["topic"] for one in said.result["records"]]
    assert {"intents", "attempts", "evidence", "webhooks", "ledger"} == set(topics)
    assert set(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")) <= before


@pytest.mark.parametrize("chapter", [name for name in CLAIMS if name != "story"])
def test_a_chapter_holds(tmp_path: Path, chapter: str) -> None:
    """Who may decide, shown on the real processes and held against log, book and tables."""
    said = start(tmp_path, "demo", chapter, "--json")
    all_held(said, chapter)
    took = said.result["took_ms"]
    assert took["story"] < SECONDS_MAX * 1_000


def test_the_chapters_are_listed_by_name(tmp_path: Path) -> None:
    """Each with a line; a name that is none is refused with those there are."""
    said = start(tmp_path, "demo", "--list", "--json")
    assert [one["name"] for one in said.result] == list(CHAPTERS) == list(CLAIMS)
    assert all(one["line"] for one in said.result)
    unknown = start(tmp_path, "demo", "nothing", "--json")
    assert unknown.code == 2
    assert "adversary" in unknown.out + unknown.err
