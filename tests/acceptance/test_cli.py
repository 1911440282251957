"""The command line on a running installation, as an operator uses it. One installation for all."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from gateway.cli import proposing
from gateway.wiring.local import local_services
from ledger.core.snapshot import FOLD_VERSION
from tests.acceptance.command import Installation, running
from tests.commands import Said
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.servers

EVENT = "invoice-7"
KEY = f"charge:v1:acme:{EVENT}"
LOOK_S = 0.05


def intent(minor: int = 1_250, event: str = EVENT) -> str:
    """An intent as a file holds it."""
    return json.dumps(
        {
            "operation": "charge",
            "version": 1,
            "business_event": event,
            "target": "order:7",
            "money": {"minor": minor, "currency": "EUR"},
            "environment": "test",
        }
    )


@pytest.fixture(scope="module")
def here() -> Iterator[Installation]:
    """An installation that runs, in a folder of its own."""
    with running("cli") as installation:
        yield installation


@pytest.fixture(scope="module")
def proposed(here: Installation) -> dict[str, Any]:
    """An action that was proposed and is done, as it was answered."""
    said = here.json("propose", "--file", "-", "--wait", given=intent())
    assert said.code == 0, said.out + said.err
    result: dict[str, Any] = said.result
    return result


def test_everything_runs_and_is_ready(here: Installation) -> None:
    """`status` knows every program, and the doctor finds nothing wrong."""
    status = here.json("status")
    assert status.code == 0
    phases = {one["name"]: one["phase"] for one in status.result["processes"]}
    steps = {service.name for service in local_services() if service.is_step}
    assert {phases.pop(step) for step in steps} == {"done"}
    assert set(phases.values()) == {"ready"}
    assert {"kafka", "postgres", "gateway", "processor", "reconciler"} < set(phases)
    doctor = here.json("doctor")
    assert doctor.code == 0, doctor.out
    assert all(one["is_well"] for one in doctor.result["findings"])


def test_up_again_changes_nothing(here: Installation) -> None:
    """A second `up` leaves what runs alone and says the same."""
    before = {one["name"]: one["pid"] for one in here.json("status").result["processes"]}
    assert here.json("up").code == 0
    assert {one["name"]: one["pid"] for one in here.json("status").result["processes"]} == before


def test_an_intent_becomes_an_effect_once(here: Installation, proposed: dict[str, Any]) -> None:
    """The first answer is the outcome; the same file again is a replay of it."""
    assert (proposed["key"], proposed["status"]) == (KEY, "completed")
    assert proposed["reference"].startswith("ch_")
    again = here.json("propose", "--file", "-", given=intent())
    assert again.code == 0
    assert (again.result["replayed"], again.result["reference"]) == (True, proposed["reference"])


def test_another_amount_is_refused_with_the_difference(
    here: Installation, proposed: dict[str, Any]
) -> None:
    """The same key with another amount ends with 4 and names the field."""
    refused = here.json("propose", "--file", "-", given=intent(minor=12_500))
    assert refused.code == 4
    assert refused.document["ok"] is False
    assert refused.result["code"] == "conflicted"
    assert [one["path"] for one in refused.result["problems"]] == ["/money/minor"]
    person = here.run("propose", "--file", "-", given=intent(minor=12_500))
    assert person.code == 4
    assert "/money/minor" in person.out


def test_a_malformed_intent_is_refused_by_name(here: Installation) -> None:
    """The file goes to the door as it is, so a key that stands twice is found."""
    refused = here.json("propose", "--file", "-", given='{"operation":"charge","operation":"x"}')
    assert refused.code == 4
    assert refused.result["code"] == "malformed_json"


def test_an_action_is_shown_with_all_that_happened(
    here: Installation, proposed: dict[str, Any]
) -> None:
    """`show` has the action, its attempts and its facts; an unknown one is trouble."""
    shown = eventually(
        lambda: here.json("show", KEY), lambda told: told["action"]["status"] == "completed"
    )
    assert shown["action"]["status"] == proposed["status"]
    assert [one["status"] for one in shown["attempts"]] == ["succeeded"]
    types = [one["type"] for one in shown["timeline"]]
    assert types[0] == "intent.recorded"
    assert "action.completed" in types
    assert here.run("show", KEY).code == 0
    assert here.json("show", "charge:v1:acme:nobody").document["error"]["code"] == "unknown_action"


def test_which_input_became_what(here: Installation, proposed: dict[str, Any]) -> None:
    """`why` tells each input about an action, and one input by its place, in the same words."""
    inputs = eventually(lambda: here.json("why", KEY))["inputs"]
    first = inputs[0]["input"]
    assert first["type"] == "actionledger.intent.propose.v1"
    assert inputs[0]["became"][0]["reason"] == "intent.recorded"
    place = f"{first['topic']}/{first['partition']}/{first['offset']}"
    (by_place,) = here.json("why", "--cause", place).result["inputs"]
    assert by_place == inputs[0]
    nothing = here.json("why", "--cause", "intents/0/999999").document["error"]
    assert nothing["code"] == "undecided_input"
    assert "intent.recorded" in here.run("why", KEY).out


def test_an_action_is_taken_back_while_nothing_has_begun(
    here: Installation, proposed: dict[str, Any]
) -> None:
    """What waits for people is called off by whoever may propose, and again changes nothing; what
    has had its effect is not.
    """
    asked = intent(minor=12_500, event="renewal-of-nobody")
    waits = here.json("propose", "-", given=asked).result
    assert waits["status"] == "awaiting_approval"
    for _ in range(2):
        taken = here.json("cancel", waits["key"], "--reason", "Sent in error.")
        assert (taken.code, taken.result["status"]) == (0, "cancelled")
    late = here.json("cancel", KEY)
    assert (late.code, late.result["code"]) == (4, "already_final")


def test_the_log_is_read_as_it_is(here: Installation, proposed: dict[str, Any]) -> None:
    """`log tail` shows records by topic, key and place, one a line, in full with --json."""
    lines = here.json("log", "tail", "--topic", "intents", "--key", KEY).out.splitlines()
    records = [json.loads(line) for line in lines]
    assert records
    assert {one["data"]["key"] for one in records} == {KEY}
    first = here.json(
        *("log", "tail", "--partition", str(records[0]["partition"]), "--from", "0", "--last", "1")
    )
    assert json.loads(first.out)["type"] == "actionledger.genesis.recorded.v1"
    assert "decision.recorded" in here.run("log", "tail", "--key", KEY).out


def test_log_and_database_say_the_same(
    here: Installation, proposed: dict[str, Any], tmp_path: Path
) -> None:
    """A replay and a rebuild find no difference; an earlier moment can be seen again."""
    done = eventually(
        lambda: here.json("replay", "--key", KEY),
        lambda told: told["action"] and told["action"]["status"] == "completed",
    )
    assert (done["differences"], done["missing"], done["unproven_count"]) == ([], [], 0)
    assert done["compared"] >= 1
    nowhere = here.json("replay", "--to-offset", "99:1")
    assert (nowhere.code, nowhere.document["error"]["code"]) == (2, "usage")
    # Family audit: what was written down of a log is held against it later.
    then = here.json("replay")
    noted = tmp_path / "then.json"
    noted.write_text(then.out, encoding="utf-8")
    assert here.json("replay", "--since", str(noted)).code == 0
    part, head = next(iter(then.result["partitions"].items()))
    noted.write_text(then.out.replace(head["sha256"], "0" * 64), encoding="utf-8")
    changed = here.json("replay", "--since", str(noted))
    assert (changed.code, changed.result["unproven"][0]["partition"]) == (3, int(part))
    # A log that ends before the offset that was written down elsewhere is cut off.
    beyond = here.json("replay", "--to-offset", "0:999999")
    assert (beyond.code, beyond.result["missing"][0]["expected"]) == (3, 999_999)
    assert "records are missing" in here.run("replay", "--to-offset", "0:999999").out
    assert "was not there then" in here.run("replay", "--key", KEY, "--to-time", "1970-01-02").out
    before = here.json("replay", "--key", KEY, "--to-time", "1970-01-02")
    assert before.code == 0
    assert before.result["action"] is None
    rebuilt = here.json("rebuild")
    assert rebuilt.code == 0
    assert rebuilt.result["live_sha256"] == rebuilt.result["rebuilt_sha256"]


def test_an_edited_row_is_found_and_mended(here: Installation, proposed: dict[str, Any]) -> None:
    """Whoever edits the database is found out: replay and rebuild end with 3 and show where, and a
    swap puts right what was edited while every process goes on.
    """
    url = here.json("up").result["database_url"]
    # As it is after an upgrade: nobody has edited anything, and both say so.
    edit(url, "update actionledger.streams set fold_version = fold_version - 1000")
    upgraded = here.json("replay")
    assert (upgraded.code, upgraded.result["differences"]) == (0, [])
    assert list(upgraded.result["other_fold_versions"]) == [str(FOLD_VERSION - 1_000)]
    assert "rebuild --swap" in here.run("replay").out
    assert here.json("rebuild").result["other_fold_versions"]
    edit(url, "update actionledger.streams set fold_version = fold_version + 1000")
    edit(url, "update actionledger.streams set state = convert_to('{}', 'UTF8')")
    found = here.json("replay")
    assert found.code == 3
    assert found.result["differences"]
    assert here.json("rebuild").code == 3
    swapped = here.json("rebuild", "--swap")
    assert swapped.code == 3
    assert swapped.result["swapped_at"]
    assert here.json("replay").result["differences"] == []
    assert here.json("rebuild").result["is_equal"]
    restored = here.json("restore")
    assert restored.code == 0
    assert restored.result["sha256"] == here.json("rebuild").result["live_sha256"]


def test_operators_look_and_publish(here: Installation, tmp_path: Path) -> None:
    """Topics are as they must be, nothing is uncertain, and a new catalogue is adopted."""
    assert here.json("topics", "check").result == {"differences": []}
    assert here.json("topics", "apply").code == 0
    assert here.json("unknowns").result == {"unknowns": []}
    shipped = (Path(__file__).parents[2] / "ledger" / "catalogue.toml").read_text()
    changed = tmp_path / "catalogue.toml"
    changed.write_text(f"{shipped}\n# and a line more\n")
    published = here.json("catalogue", "publish", str(changed))
    assert (published.code, published.result["published"]) == (0, True)
    assert here.json("catalogue", "publish", str(changed)).result["published"] is False


def test_the_emergency_stop_holds_an_action_until_its_release(here: Installation) -> None:
    """A held intent is taken and waits, says by whom and why, and is carried out after the release;
    the same hold twice is one, and what is not held cannot be released.
    """
    key = "charge:v1:acme:invoice-held"
    held = here.json("hold", "--tenant", "acme", "--by", "ops", "--reason", "look first")
    assert (held.code, held.result["published"], held.result["not_adopted"]) == (0, True, [])
    assert here.json("hold", "--tenant", "acme").result["published"] is False
    said = here.json("propose", "--file", "-", "--wait", given=intent(event="invoice-held"))
    assert said.code == 0, said.out
    assert (said.result["status"], said.result["held"]["by"]) == ("ready", "ops")
    shown = eventually(lambda: here.json("show", key))
    assert (shown["action"]["held"]["by"], shown["attempts"]) == ("ops", [])
    assert "held by ops" in here.run("why", key).out
    (listed,) = here.json("holds").result["holds"]
    assert (listed["scope"], listed["by"], listed["reason"]) == (
        {"tenant": "acme"},
        "ops",
        "look first",
    )
    refused = here.json("release", "--tenant", "globex")
    assert (refused.code, refused.result["refused"]["code"]) == (4, "not_held")
    assert here.json("release", "--tenant", "acme").code == 0
    again = here.json("propose", "--file", "-", "--wait", given=intent(event="invoice-held"))
    assert (again.result["status"], again.result["replayed"]) == ("completed", True)
    assert here.json("holds").result == {"holds": []}


def test_the_first_person_is_registered_in_two_commands_and_revoked_in_one(
    here: Installation, tmp_path: Path
) -> None:
    """A person makes a key and an operator registers it with the person; what is listed says so,
    and a revocation is in force when its command returns. From a file nobody is overwritten, and
    nothing that was revoked is forgotten.
    """
    passphrase = tmp_path / "passphrase"
    passphrase.write_text("four fair words here\n", encoding="utf-8")
    own = ("--file", str(tmp_path / "ada.pem"), "--passphrase-file", str(passphrase))
    key = here.json("people", "key", "new", *own).result
    named = ("--group", "finance", "--tenant", "acme", "--principal", "user:ada")
    added = here.json("people", "add", "ada", *named, "--key", key["public"])
    assert (added.code, added.result["published"], added.result["not_adopted"]) == (0, True, [])
    shown = here.run("people", "list").out
    assert "ada  tenants acme; groups finance; asks as user:ada" in shown
    assert f"{key['id']}  ed25519, in force" in shown
    again = here.json("people", "add", "ada", "--tenant", "acme")
    assert (again.code, again.result["refused"]["code"]) == (4, "person_known")
    revoked = here.json("people", "revoke", key["id"])
    assert (revoked.code, revoked.result["person"], revoked.result["key"]) == (0, "ada", key["id"])
    assert "ed25519, revoked" in here.run("people", "list").out
    listed = here.json("people", "list").result
    assert listed["content_hash"] == revoked.result["content_hash"]
    file = tmp_path / "people.toml"
    file.write_text(f'replaces = "{added.result["content_hash"]}"\n', encoding="utf-8")
    stale = here.json("people", "publish", str(file))
    assert (stale.code, stale.document["error"]["code"]) == (1, "overtaken_document")
    file.write_text(f'replaces = "{listed["content_hash"]}"\n', encoding="utf-8")
    forgetful = here.json("people", "publish", str(file))
    assert (forgetful.code, forgetful.document["error"]["code"]) == (1, "revoked_comes_back")
    assert here.json("people", "list").result == listed


def test_a_crash_heals_and_shows(here: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed is started again, and `status` counts it; the door goes on."""
    monkeypatch.setattr(proposing, "AGAIN_S_MAX", PATIENCE_SECONDS)
    before = process(here, "gateway")
    os.kill(before["pid"], signal.SIGKILL)
    said = here.json("propose", "--file", "-", "--wait", given=intent(event="invoice-8"))
    assert said.code == 0, said.out
    deadline_s = time.monotonic() + PATIENCE_SECONDS
    while (after := process(here, "gateway"))["phase"] != "ready":
        assert time.monotonic() < deadline_s
        time.sleep(LOOK_S)
    assert after["restarts"] == before["restarts"] + 1


def test_data_outlive_an_end(here: Installation, proposed: dict[str, Any]) -> None:
    """After `down` nothing runs; after the next `up` the same action is still the same."""
    assert here.json("down").result == {"was_running": True}
    stopped = here.json("status")
    assert (stopped.code, stopped.result["phase"]) == (0, "stopped")
    assert here.json("show", KEY).code == 1
    assert here.json("up").code == 0
    again = here.json("propose", "--file", "-", given=intent())
    assert (again.result["replayed"], again.result["reference"]) == (True, proposed["reference"])


def process(here: Installation, name: str) -> dict[str, Any]:
    """One program as `status` has it."""
    found: dict[str, Any]
    (found,) = (one for one in here.json("status").result["processes"] if one["name"] == name)
    return found


def eventually(
    ask: Callable[[], Said],
    holds: Callable[[Any], object] = lambda _: True,
) -> Any:  # noqa: ANN401 - as free as JSON is
    """The result of a command once the read model has what it needs."""
    deadline_s = time.monotonic() + PATIENCE_SECONDS
    while (said := ask()).code != 0 or not holds(said.result):
        assert time.monotonic() < deadline_s, said.out
        time.sleep(LOOK_S)
    return said.result


def edit(url: str, statement: str) -> None:
    """Change rows behind the product's back."""

    async def execute() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(execute())
