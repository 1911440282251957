"""The command line without a server: arguments, exit codes, the shape of its JSON, its help."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console

from gateway.cli import progress as progress_module
from gateway.cli.app import HELP, app, run
from gateway.cli.local import _show_status
from gateway.cli.output import Exit, Output, code_of, plain
from gateway.cli.trouble import as_trouble
from gateway.local.control import Status
from gateway.local.errors import PortTakenError
from gateway.local.progress import Progress
from gateway.local.state import Phase
from gateway.wiring.names import Process
from ledger.core.money import Money
from tests.tree import ROOT

Commands = dict[tuple[str, ...], typer.models.CommandInfo]


def commands(group: typer.Typer = app, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command with the words that call it."""
    for info in group.registered_commands:
        yield (*before, info.name or "")
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            yield from commands(inner.typer_instance, (*before, inner.name or ""))


COMMANDS = tuple(commands())


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


def test_every_command_is_known() -> None:
    """The commands that the documentation names are there."""
    assert {" ".join(words) for words in COMMANDS} == {
        *("up", "down", "status", "reset", "demo", "propose", "cancel", "show", "why"),
        "unknowns",
        *("log tail", "replay", "rebuild", "restore", "topics apply", "topics check"),
        *("catalogue check", "catalogue publish", "catalogue show", "catalogue diff"),
        *("catalogue from-schema", "doctor", "version"),
        *("keys create", "keys list", "keys rotate", "keys revoke"),
        *("people list", "people add", "people remove", "people revoke"),
        *("people check", "people publish", "people key new", "people key add", "people passkey"),
        *("waiting", "approve", "deny", "withdraw", "ask"),
        *("review list", "review show", "review resolve", "review note"),
        *("secrets list", "secrets rotate", "secrets revoke"),
        *("policy check", "policy show", "policy publish", "policy explain", "policy whatif"),
        *("hold", "release", "holds", "provider check", "provider new"),
        *("provider show", "provider compare", "evidence import"),
        *("notify check", "notify test"),
        *("quarantine list", "quarantine show", "quarantine redrive"),
        *("webhook list", "webhook show", "webhook test", "webhook replay"),
        *("run list", "run show", "ceiling list", *(f"run {one.value}" for one in Process)),
        *("saga open", "saga list", "saga show", "saga cancel", "batch show"),
        *("acl print", "acl check", "acl apply", "acl logins"),
    }


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_teaches_with_an_example(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command says what it does, shows a line to type, and takes --json if it answers."""
    assert run([*words, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Example:" in text
    assert f"actionledger {' '.join(words)}" in text
    assert "--json" in text or words[0] == "run"


def test_help_names_every_exit_code() -> None:
    """Scripts rely on them, and look for them there first."""
    named = set(map(int, re.findall(r"\b\d+\b", HELP.partition("Exit codes:")[2])))
    assert named == {int(code) for code in Exit}


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("why",), 2, "usage"),
        (("why", "a", "--cause", "intents/0/0"), 2, "usage"),
        (("why", "--cause", "intents-0-0"), 2, "usage"),
        (("show",), 2, "usage"),
        (("nonsense",), 2, "usage"),
        (("propose", "--file", "x", "--bad"), 2, "usage"),
        (("propose",), 2, "usage"),
        (("propose", "x", "--file", "y"), 2, "usage"),
        (("propose", "x"), 1, "no_installation"),
        (("up", "--port", "gateway"), 2, "usage"),
        (("up", "--port", "gateway=70000"), 2, "usage"),
        (("replay", "--to-offset", "0"), 2, "usage"),
        (("replay", "--to-offset", "0:1", "--to-time", "1"), 2, "usage"),
        (("replay", "--to-time", "yesterday"), 2, "usage"),
        (("replay", "--key", "renewal-1"), 2, "usage"),
        (("quarantine", "list", "--topic", "intent"), 2, "usage"),
        (("log", "tail", "--topic", "leger"), 2, "usage"),
        (("log", "tail"), 1, "no_installation"),
        (("reset",), 2, "usage"),
        (("show", "charge:v1:acme:a"), 1, "no_installation"),
        (("unknowns",), 1, "no_installation"),
        (("topics", "check"), 1, "no_installation"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_trouble_has_one_shape(
    arguments: tuple[str, ...],
    code: int,
    error: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Wrong usage ends with 2 and trouble with 1, each with a name, a message and a hint."""
    ended, told = answer(capsys, *arguments)
    assert ended == told["exit_code"] == code
    assert told["ok"] is False
    assert told["error"]["code"] == error
    assert told["error"]["message"]
    assert told["error"]["hint"]


def test_trouble_is_two_lines_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    """Without --json it is said on stderr: what is wrong, what to do, no stack."""
    assert run(["show", "charge:v1:acme:a"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 2
    assert "actionledger up" in said.err


def test_a_misspelt_setting_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A variable that nothing reads is wrong usage, not silence."""
    monkeypatch.setenv("ACTIONLEDGER_KAFKAA", "x:1")
    code, told = answer(capsys, "status")
    assert code == 2
    assert "ACTIONLEDGER_KAFKAA" in told["error"]["message"]


def test_every_command_that_is_named_anywhere_is_there() -> None:
    """In the documents, and in what commands and pages advise."""
    calls = re.compile(r"`{1,2}actionledger ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)*)")
    files = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "sdk" / "README.md"]
    files += [one for part in ("gateway", "ledger") for one in (ROOT / part).rglob("*.py")]
    groups = {words[:length] for words in COMMANDS for length in range(len(words))}
    for file in files:
        for call in calls.findall(file.read_text(encoding="utf-8")):
            named: tuple[str, ...] = ()
            for word in call.split():
                if named not in groups:
                    break
                named = (*named, word)
            assert named in groups | set(COMMANDS), f"{file.name}: actionledger {call}"


def test_an_answer_has_one_shape(capsys: pytest.CaptureFixture[str]) -> None:
    """An answer names its command and its exit code, and holds the result."""
    code, told = answer(capsys, "version")
    assert code == 0
    assert set(told) == {"command", "ok", "exit_code", "result"}
    assert (told["command"], told["ok"], told["exit_code"]) == ("version", True, 0)


def test_the_option_that_people_try_first_says_the_release(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And the command of that name says what it stands on too, in words as in JSON."""
    release = f"actionledger {metadata.version('actionledger-server')}\n"
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == release
    assert run(["version"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(release)
    assert f"aiokafka {metadata.version('aiokafka')}\n" in told


@pytest.mark.parametrize(
    "command", ["show", "why", "cancel", "approve", "ask", "review show", "policy explain"]
)
@pytest.mark.parametrize("key", ["renewal-1", "\udcff", "charge:v1:acme:re new", "x" * 5_000])
def test_what_is_no_key_is_told_before_anything_is_asked(
    capsys: pytest.CaptureFixture[str], command: str, key: str
) -> None:
    """By what is wrong with it, be it no UTF-8: no server was asked in vain, and none is blamed."""
    code, told = answer(capsys, *command.split(), key)
    assert (code, told["error"]["code"]) == (2, "usage")
    assert told["error"]["message"].startswith("That is no key of an action: ")


def test_nothing_runs_and_nothing_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    """Looking, ending and deleting do no harm where there is nothing."""
    assert answer(capsys, "status")[1]["result"]["phase"] == "stopped"
    assert answer(capsys, "down")[1]["result"] == {"was_running": False}
    assert answer(capsys, "reset", "--yes")[1]["result"] == {"deleted": False, "kept": []}


def test_a_catalogue_is_checked_line_by_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shipped one is right; a mistake is refused with its line."""
    shipped = Path(__file__).parents[2] / "ledger" / "catalogue.toml"
    code, told = answer(capsys, "catalogue", "check", str(shipped))
    assert code == 0
    assert "charge v1" in told["result"]["operations"]
    broken = tmp_path / "broken.toml"
    broken.write_text(shipped.read_text().replace('money = "required"', 'money = "maybe"', 1))
    code, told = answer(capsys, "catalogue", "check", str(broken))
    assert code == 4
    (mistake,) = told["result"]["mistakes"]
    assert broken.read_text().splitlines()[mistake["line"] - 1].startswith("money")


def test_a_key_is_made_for_what_is_configured(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key is shown once and only its hash is kept; a tenant that is none is refused."""
    monkeypatch.setenv("ACTIONLEDGER_KAFKA", "127.0.0.1:1")
    named = ("--tenant", "acme", "--principal", "agent:billing")
    code, told = answer(capsys, "keys", "create", *named)
    assert code == 0
    key = told["result"]["key"]
    assert key not in (nowhere / "state" / "api_keys.toml").read_text()
    code, told = answer(capsys, "keys", "create", "--tenant", "a/b", "--principal", "agent:x")
    assert code == 2


@pytest.mark.parametrize("spelled", ["Acme", "ACME", "acme.", "-acme_"])
def test_another_spelling_of_a_tenant_makes_no_key(
    spelled: str, nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Family tenant: keys of two spellings would be two tenants, of whose actions neither sees the
    other's. Another name is another tenant.
    """
    monkeypatch.setenv("ACTIONLEDGER_KAFKA", "127.0.0.1:1")
    for tenant in ("acme", "acme2", "ac-me"):
        code, _ = answer(
            capsys, "keys", "create", "--tenant", tenant, "--principal", "agent:billing"
        )
        assert code == 0
    before = (nowhere / "state" / "api_keys.toml").read_text()
    code, told = answer(capsys, "keys", "create", "--tenant", spelled, "--principal", "agent:x")
    assert (code, told["error"]["code"]) == (1, "tenant_spelling")
    assert "--as-written" in told["error"]["hint"]
    assert (nowhere / "state" / "api_keys.toml").read_text() == before
    named = ("--tenant", spelled, "--principal", "agent:x", "--as-written")
    code, _ = answer(capsys, "keys", "create", *named)
    assert (code, f'"{spelled}"' in (nowhere / "state" / "api_keys.toml").read_text()) == (0, True)


def test_a_broker_that_does_not_answer_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's own two lines and nothing of the client under it. In a process of its own:
    pytest listens to all logging itself.
    """
    monkeypatch.setenv("ACTIONLEDGER_KAFKA", "127.0.0.1:1")
    monkeypatch.setenv("ACTIONLEDGER_DATABASE", "postgresql://nobody@127.0.0.1:1/nothing")
    command = [str(Path(sys.executable).with_name("actionledger")), "replay"]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ran.returncode == 1
    said, hint = ran.stderr.splitlines()
    assert said.startswith("No Kafka broker answers at 127.0.0.1:1")
    assert "ACTIONLEDGER_KAFKA" in hint


def test_nothing_heavy_is_loaded_before_a_command_is_called() -> None:
    """Half of the time until `--help` answered went once into a client that it does not need."""
    heavy = ("aiokafka", "asyncpg", "pydantic", "psutil", "importlib.metadata")
    program = f"import sys, gateway.cli.app; sys.exit(str(set(sys.modules) & set({heavy})))"
    ran = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert ran.stderr.decode().strip() == "set()"


def test_values_become_json() -> None:
    """Models, views, tuples and maps have a JSON form; what is absent is left out of models."""
    assert plain({"a": (Money(minor=1, currency="EUR"), None)}) == {
        "a": [{"minor": 1, "currency": "EUR"}, None]
    }
    assert plain({1: frozenset({"x"})}) == {"1": ["x"]}
    assert code_of(PortTakenError(1, "gateway", None)) == "port_taken"


def test_colour_is_for_terminals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is not read by a terminal is plain, and NO_COLOR is honoured."""
    monkeypatch.setenv("NO_COLOR", "1")
    with pytest.raises(typer.Exit):
        Output("x", as_json=False).answer(1, lambda console: console.print("[red]plain[/]"))
    assert capsys.readouterr().out == "plain\n"


def test_progress_is_lines_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    """Each step is a line when it begins and when it is over, not for every record."""
    with progress_module.progress() as report:
        for done in range(1_001):
            report(Progress("fold", done, 1_000))
    assert capsys.readouterr().err.splitlines() == ["fold: 0/1000", "fold: 1000/1000"]


def test_trouble_of_libraries_is_told_in_our_words() -> None:
    """A refused connection is trouble with a hint; a fault of ours stays what it is."""
    refused = ExceptionGroup("all", [ConnectionRefusedError(111, "Connection refused")])
    trouble = as_trouble(refused)
    assert trouble is not None
    assert "actionledger status" in trouble.hint
    missing = FileNotFoundError(2, "No such file or directory", "intent.json")
    assert "intent.json" in str(as_trouble(missing))
    assert as_trouble(KeyError("a")) is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("hold",), "--all"),
        (("release",), "--all"),
        (("hold", "--all", "--tenant", "acme"), "--all"),
        (("hold", "--provider", "a b"), "provider"),
        (("hold", "--operation", "Charge"), "operation"),
        (("hold", "--tenant", "acme", "--by", ""), "--by"),
    ],
)
def test_a_hold_that_cannot_be_meant_is_wrong_usage(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing named is not everything, and a name that nothing can bear holds nothing."""
    code, document = answer(capsys, *arguments)
    assert code == 2
    assert said in f"{document['error']['message']} {document['error']['hint']}".lower()


def bank(folder: Path) -> Path:
    """A description with its credential beside it."""
    text = (ROOT / "examples" / "providers" / "bank.toml").read_text(encoding="utf-8")
    (folder / "bank_main.key").write_text("sk_1\n", encoding="ascii")
    file = folder / "bank.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_description_is_checked_with_what_it_promises(
    nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a server: its operations, accounts and promises, and no credential."""
    code, said = answer(capsys, "provider", "check", str(bank(nowhere)))
    assert code == 0
    assert said["result"]["operations"] == ["charge"]
    assert said["result"]["accounts"] == ["main"]
    assert {"question", "is_kept", "sentence"} == set(said["result"]["promises"][0])
    assert "sk_1" not in json.dumps(said)


def test_a_description_with_mistakes_is_refused_with_every_line(
    nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the file, and then the credentials that cannot be read."""
    file = bank(nowhere)
    (nowhere / "bank_main.key").unlink()
    code, said = answer(capsys, "provider", "check", str(file))
    assert code == 4
    (mistake,) = said["result"]["mistakes"]
    assert mistake["path"] == "credentials.main"
    line = file.read_text(encoding="utf-8").splitlines()[mistake["line"] - 1]
    assert line.startswith("main =")
    text = file.read_text(encoding="utf-8").replace('method = "POST"', 'method = "GET"')
    file.write_text(text.replace("settle_horizon_ms = 120_000", ""), encoding="utf-8")
    assert run(["provider", "check", str(file)]) == 4
    told = capsys.readouterr().out
    assert "perform.charge.method must be 'POST'" in told
    assert "capabilities.settle_horizon_ms is missing" in told


def test_a_catalogue_that_relies_on_more_than_a_provider_keeps_is_refused(
    nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each line of the catalogue that promises too much."""
    catalogue = ROOT / "examples" / "agent" / "catalogue.toml"
    file = bank(nowhere)
    code, said = answer(capsys, "provider", "check", str(file), "--catalogue", str(catalogue))
    assert code == 4
    paths = [one["path"] for one in said["result"]["beyond"]]
    assert paths == [
        "operation[0].provider_key.length_max",
        "operation[0].settle_horizon_ms",
        "operation[0].search_lag_ms",
    ]


def test_a_preview_that_a_provider_does_not_give_is_refused(
    nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An operation that wants one is told on its line, by what the description says."""
    text = (ROOT / "examples" / "agent" / "catalogue.toml").read_text(encoding="utf-8")
    catalogue = nowhere / "catalogue.toml"
    wanted = text.replace("reliability = ", 'preview = "provider"\nreliability = ', 1)
    catalogue.write_text(wanted, encoding="utf-8")
    file = bank(nowhere)
    for described, said in (
        ("", "does not say what a request would do"),
        ('\n[preview.other]\npath = "/quote"\neffect = "text"\n', "has no [preview] for charge"),
    ):
        kept = file.read_text(encoding="utf-8") + described
        if described:
            kept = kept.replace('previews = "impossible"', 'previews = "possible"')
        file.write_text(kept, encoding="utf-8")
        code, told = answer(capsys, "provider", "check", str(file), "--catalogue", str(catalogue))
        found = [one for one in told["result"]["beyond"] if one["path"] == "operation[0].preview"]
        assert code == 4
        assert said in found[0]["message"]


def test_the_providers_that_are_configured_are_shown(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By files and by addresses; one that is not there is a wrong usage."""
    monkeypatch.setenv("ACTIONLEDGER_PROVIDER_FILES", str(bank(nowhere)))
    monkeypatch.setenv("ACTIONLEDGER_PROVIDER_URLS", "simulated=http://127.0.0.1:1")
    code, said = answer(capsys, "provider", "show")
    assert code == 0
    assert [(one["name"], one["kind"]) for one in said["result"]] == [
        ("bank", "http"),
        ("simulated", "simulated"),
    ]
    assert run(["provider", "show", "bank"]) == 0
    assert "for 1 day" in capsys.readouterr().out
    assert answer(capsys, "provider", "show", "acquirer")[0] == 2


def test_a_start_that_failed_is_told_without_an_empty_table() -> None:
    """Nothing runs then: what is wrong is all there is to say."""
    written = StringIO()
    _show_status(
        Console(file=written, width=200),
        Status(Phase.FAILED, ("The port is taken.", "Take another."), None, ()),
    )
    assert written.getvalue() == "failed\nThe port is taken.\nTake another.\n"
