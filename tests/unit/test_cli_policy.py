"""`policy` without a server: checked, shown, and what cannot be meant."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gateway.cli.app import run
from gateway.cli.documents import show_published
from gateway.cli.policy_shown import explained_result, show_explained, show_whatif
from gateway.wiring.documents import PublishedEverywhere
from gateway.wiring.policy_desk import Explained
from ledger.audit.whatif import what_if
from ledger.core.policy import DEFAULT, NOT_FITTING
from ledger.core.policy_tried import try_rows
from tests import examples as x
from tests.ledgers import MemoryLog
from tests.policies import policy, row
from tests.tree import ROOT
from tests.unit.core.language import given
from tests.unit.test_whatif import SMALL, three

SHIPPED = ROOT / "ledger" / "policy.toml"
PAYMENTS = ROOT / "examples" / "policies" / "payments.toml"


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment in which nothing is configured and nothing runs."""
    monkeypatch.setenv("ACTIONLEDGER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """The exit code of a command, and the JSON document that it printed."""
    code = run([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_table_breaks_no_name_at_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of what a row asks each name is whole, so that it can be found in the table's text."""
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["policy", "show", "--file", str(SHIPPED)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[:-2])) <= 80
    said = " ".join(lines)
    for name in ("risk.irreversibility:", "risk.security_impact:", "parameters.to:"):
        assert name in said


def test_a_policy_is_checked_line_by_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shipped one is right; a mistake is refused with its line, its path and a sentence."""
    code, told = answer(capsys, "policy", "check", str(SHIPPED))
    assert code == 0
    assert "small-payment" in [one["name"] for one in told["result"]["rows"]]
    broken = tmp_path / "broken.toml"
    broken.write_text(SHIPPED.read_text().replace("when.kind =", "when.kin =", 1))
    code, told = answer(capsys, "policy", "check", str(broken))
    assert code == 4
    (mistake,) = told["result"]["mistakes"]
    assert "did you mean kind?" in mistake["message"]
    assert run(["policy", "check", str(broken)]) == 4
    said = capsys.readouterr().out
    assert f"{broken}:{mistake['line']}: row[0].when.kin is not a known key here" in said


def test_a_policy_is_shown_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows in their order, with what they ask for, for a person and as JSON."""
    assert run(["policy", "show", "--file", str(PAYMENTS)]) == 0
    said = capsys.readouterr().out
    assert said.index("sandbox") < said.index("goodwill") < said.index("support-leads")
    assert "confirmation: 1 of support-leads" in said
    code, told = answer(capsys, "policy", "show", "--file", str(PAYMENTS))
    assert code == 0
    refund = next(one for one in told["result"]["rows"] if one["name"] == "refund")
    assert refund["when"]["operation"] == "refund"
    assert refund["asks"]["groups"] == ["support-leads"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("policy", "show", "--source", "--file", str(PAYMENTS)),
        ("policy", "whatif", "--policy", str(PAYMENTS), "--since", "yesterday"),
        ("policy", "whatif", "--policy", str(PAYMENTS), "--since", "7w"),
        ("policy", "check", "nowhere.toml"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """With a message and a hint."""
    code, told = answer(capsys, *arguments)
    assert code == 2
    assert told["error"]["message"]


def test_a_policy_with_mistakes_is_tried_and_published_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command that takes one names the mistakes, and needs no server for it."""
    broken = tmp_path / "broken.toml"
    broken.write_text("[[row]]\n")
    for arguments in (("publish", str(broken)), ("whatif", "--policy", str(broken))):
        code, told = answer(capsys, "policy", *arguments)
        assert code == 4
        assert len(told["result"]["mistakes"]) == 3


def test_a_text_that_is_not_utf_8_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said in a sentence."""
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"# \xe9\n")
    code, told = answer(capsys, "policy", "check", str(latin))
    assert code == 2
    assert "UTF-8" in told["error"]["message"]


def test_names_that_no_operation_bears_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a catalogue beside it; they are no mistakes."""
    catalogue = str(ROOT / "ledger" / "catalogue.toml")
    code, told = answer(capsys, "policy", "check", str(SHIPPED), "--catalogue", catalogue)
    assert (code, told["result"]["unknown_names"]) == (0, [])
    slipped = tmp_path / "slipped.toml"
    slipped.write_text(SHIPPED.read_text().replace("parameters.to.", "parameters.too."))
    code, told = answer(capsys, "policy", "check", str(slipped), "--catalogue", catalogue)
    assert code == 0
    (unknown,) = told["result"]["unknown_names"]
    assert (unknown["row"], unknown["condition"]) == ("message-to-many", "parameters.too")
    assert run(["policy", "check", str(slipped), "--catalogue", catalogue]) == 0
    assert "a parameter too that no such operation declares" in capsys.readouterr().out


GATED = """
[[ceiling]]
name = "run"
per = "run"
side_effects = 2
spend = { EUR = 10_000 }

[[ceiling]]
name = "day"
per = "tenant"
window = "day"
zone = "Europe/Berlin"
spend = { EUR = 1_000_000 }

[[row]]
name = "money"
when.operation = ["refund"]
outcome = "automatic"
ceilings = ["run", "day"]
block_target = true
reason = "It counts."

[[row]]
name = "rest"
outcome = "automatic"
reason = "It does not."
"""


def test_what_rows_have_an_action_pass_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which ceilings and targets, and what each ceiling is, for a person and as JSON."""
    file = tmp_path / "gated.toml"
    file.write_text(GATED, encoding="utf-8")
    assert run(["policy", "check", str(file)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "ceilings run, day; one at a time on its target" in said
    assert "Ceiling run, per run: 2 side effects, 100.00 EUR" in said
    assert "Ceiling day, per tenant and day (Europe/Berlin): 10000.00 EUR" in said
    code, told = answer(capsys, "policy", "show", "--file", str(file))
    assert code == 0
    money, rest = told["result"]["rows"]
    assert (money["ceilings"], money["block_target"]) == (["run", "day"], True)
    assert (rest["ceilings"], rest["block_target"]) == ([], False)
    assert told["result"]["ceilings"][1] == {
        "name": "day",
        "per": "tenant",
        "window": "day",
        "zone": "Europe/Berlin",
        "limits": {"spend.EUR": 1_000_000},
    }


async def test_what_a_table_would_change_is_told_with_whom_it_asks_and_what_it_passes() -> None:
    """And why a fact was missing: the catalogue that is tried does not have the operation."""
    table = policy(
        row("rest", "", "people", 'quorum = 2\ngroups = ["finance"]\nblock_target = true')
    )
    others = x.catalogue(x.CATALOGUE_TEXT.replace('name = "charge"', 'name = "payment"'))
    found = await what_if(MemoryLog(three().everything()), range(1), table, others)
    console = Console(width=40, no_color=True)
    with console.capture() as said:
        show_whatif(console, found)
    assert f"such as {found.moves[0].keys[0]}\n" in said.get(), "a key is whole at any width"
    told = " ".join(said.get().split())
    assert "Intents: 3; otherwise would have gone 3." in told
    assert "people: 2 of finance, within 10 min; passes one at a time on its target (rest)" in told
    assert "Not in that catalogue, so that all it would say was missing: charge v1 (3)" in told


def test_what_the_catalogue_denies_is_explained_without_rows() -> None:
    """In what the request does not fit, and that no row was asked."""
    action = given(x.recorded(), x.automatic()).action()
    table = SMALL
    rows = try_rows(table, None, action.request, "acme")
    found = Explained(
        action,
        table,
        in_force=True,
        ruling=NOT_FITTING,
        rows=rows,
        problems=("/money/minor is 5000, and charge takes EUR in multiples of 3000",),
    )
    console = Console(width=200, no_color=True)
    with console.capture() as said:
        show_explained(console, found)
    told = said.get()
    assert "its request does not fit its operation any more" in told
    assert "does not fit its declaration in force: /money/minor is 5000" in told
    assert told.rstrip().endswith("No row is asked: the catalogue comes before the table.")
    result = explained_result(found)
    assert (result["declared"], len(result["problems"])) == (True, 1)
    undeclared = dataclasses.replace(found, ruling=DEFAULT, is_declared=False, problems=())
    with console.capture() as said:
        show_explained(console, undeclared)
    assert "charge v1 is not in the catalogue in force: nothing of it starts" in said.get()


@pytest.mark.parametrize("waiting", [(), (1, 3)])
def test_who_was_overtaken_is_told_so_and_what_is_in_force(waiting: tuple[int, ...]) -> None:
    """Whether the partitions have adopted theirs does not matter any more."""
    done = PublishedEverywhere(7, was_published=True, partitions=4, waiting=waiting)
    console = Console(width=400, no_color=True)
    for overtaken_by, said in (
        ("sha256:22", "not in force"),
        (None, "sha256:11" if not waiting else "1, 3"),
    ):
        with console.capture() as told:
            show_published(
                console,
                kind="policy",
                done=dataclasses.replace(done, overtaken_by=overtaken_by),
                content_hash="sha256:11",
            )
        assert said in told.get()
        assert ("sha256:22" in told.get()) is (overtaken_by is not None)
