"""The demonstration in full, as `make demo` runs it: every claim held, nothing left behind."""

import tempfile
from pathlib import Path

import pytest

from gateway.demo.stage import PREFIX
from tests.acceptance.command import start

pytestmark = pytest.mark.servers

CLAIMS = {
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
}


def test_the_story_of_one_lost_answer_holds(tmp_path: Path) -> None:
    """On the real processes: one charge for an agent that asked twice, two for one without us."""
    before = set(Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))
    said = start(tmp_path, "demo", "--json")
    assert said.code == 0, said.out + said.err
    claims = {one["id"]: one for one in said.result["claims"]}
    assert set(claims) == CLAIMS
    assert [one["text"] for one in claims.values() if not one["held"]] == []
    assert said.result["all_held"] is True
    topics = [one["topic"] for one in said.result["records"]]
    assert {"intents", "attempts", "evidence", "webhooks", "ledger"} == set(topics)
    assert set(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")) <= before
