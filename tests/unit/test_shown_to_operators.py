"""What operators are shown of webhooks and comparisons: at any width, through any outage."""

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest
from rich.console import Console

from gateway.cli.case_shown import show_cases
from gateway.cli.comparing import again_and_again
from gateway.cli.local import kept_in
from gateway.cli.output import Output, UsageError, count_of
from gateway.cli.persons_desk import confirm
from gateway.cli.sheet_shown import show_waiting
from gateway.cli.webhooks_shown import WIDE_COLUMNS, show_list
from gateway.http.case_sheets import CaseList
from gateway.http.sheets import WaitingList
from gateway.wiring.compare_desk import CannotCompareError, Report
from ledger.log.port import AppendUnknownError
from ledger.log.trouble import LogRefusedError, LogUnreachableError
from reconciler.webhook_rows import State, WebhookView

KEY = "charge:v1:acme:renewal-2026-11-30-0001"


def row(state: State = State.MATCHED, **more: str | None) -> WebhookView:
    """A webhook as people look at it."""
    fields: dict[str, object] = {
        "place": "webhooks/11/1048576",
        "state": state,
        "provider": "simulated",
        "account": "main",
        "source": "webhook",
        "event_id": "evt_1",
        "event_type": "effect.settled",
        "action_key": KEY,
        "received_at": 0,
        **more,
    }
    names = WebhookView.__dataclass_fields__
    return WebhookView(**{name: fields.get(name) for name in names})  # type: ignore[arg-type]


def shown(width: int, *rows: WebhookView) -> list[str]:
    """The lines that a terminal of this width is given."""
    out = io.StringIO()
    show_list(Console(file=out, width=width, highlight=False), rows, (), now_ms=720_000)
    return out.getvalue().splitlines()


def test_a_list_of_webhooks_breaks_no_word_at_80_columns() -> None:
    """Two lines a row, each within the width, with place, key and reason whole."""
    parked = row(State.PARKED, reason="reference_unknown", action_key=None)
    lines = shown(80, row(), parked)
    assert len(lines) == 4
    assert max(map(len, lines)) <= 80
    assert lines[0] == "webhooks/11/1048576  12 min  matched"
    assert lines[1].split() == ["simulated/main", "effect.settled", KEY]
    assert lines[2] == "webhooks/11/1048576  12 min  parked: reference_unknown"
    assert lines[3].split() == ["simulated/main", "effect.settled"]


def test_a_wide_terminal_gets_columns() -> None:
    """One line a row below one heading."""
    heading, line = shown(WIDE_COLUMNS + 20, row())
    assert heading.split() == ["place", "age", "account", "type", "state", "action"]
    assert line.split() == [
        *("webhooks/11/1048576", "12", "min", "simulated/main", "effect.settled", "matched", KEY),
    ]


def test_what_a_provider_writes_reaches_no_terminal_raw() -> None:
    """An escape in the type of an event is spelled out at both widths."""
    for width in (80, WIDE_COLUMNS + 20):
        assert "\x1b" not in "".join(shown(width, row(event_type="\x1b[31m[red]x")))


def test_no_question_commands_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a person lets pass may be a provider's word, and is named in the question: spelled
    out.
    """
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    question = "Sign this as eve, letting it pass 1.00 EUR: dp_\x1b[2J\u202e1?"
    confirm(Output("review resolve", as_json=False), question, comment=None)
    assert "dp_\\u001b[2J\\u202e1?" in capsys.readouterr().err


def test_no_name_of_a_door_commands_a_terminal() -> None:
    """Who a door says that one is stands in the lists that hold nothing, spelled out."""
    out = io.StringIO()
    console = Console(file=out, width=80, highlight=False)
    here = {"ledger": "g", "now": 0, "you": "ada\x1b[2J", "tenants": ("acme\x1b[1A",)}
    show_waiting(console, WaitingList.model_validate({**here, "waiting": ()}))
    show_cases(console, CaseList.model_validate({**here, "cases": ()}))
    assert out.getvalue().count("ada\\u001b[2J, for acme\\u001b[1A.") == 2
    assert "\x1b" not in out.getvalue()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_terminal_of_another_encoding_is_told_all_the_same(encoding: str, tmp_path: Path) -> None:
    """A mark that it does not have is written as its code: the command ends as it would."""
    (tmp_path / "people.toml").write_text('[[person]]\nname = "ada"\ntenants = ["acme"]\n')
    program = "import gateway.cli; gateway.cli.main()"
    ran = subprocess.run(
        [sys.executable, "-c", program, "people", "check", str(tmp_path / "people.toml")],
        check=False,
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout == b"\\u2713 1 people: ada\n"


@pytest.mark.parametrize(("count", "said"), [(0, "0 lines"), (1, "1 line"), (2, "2 lines")])
def test_one_is_no_plural(count: int, said: str) -> None:
    """As it is said."""
    assert count_of(count, "line") == said


class _EndedError(Exception):
    """Somebody ended it."""


def rounds(*outcomes: Report | Exception) -> Callable[[], Report]:
    """Comparisons that end like this, one after the other; then somebody ends it."""
    left = iter(outcomes)

    def once() -> Report:
        outcome = next(left, _EndedError())
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return once


def test_a_comparison_that_goes_on_outlives_an_outage(capsys: pytest.CaptureFixture[str]) -> None:
    """Of Kafka, of Postgres, and of an append: each is a line, and the next round comes."""
    report = Report("bank", "main", 0, 1)
    told: list[Report] = []
    slept: list[float] = []
    away = (
        LogUnreachableError("Reading: no broker answered.", hint=""),
        ConnectionRefusedError("refused"),
        ExceptionGroup("tasks", [asyncpg.CannotConnectNowError("starting up")]),
        AppendUnknownError("Nobody knows.", hint=""),
    )
    with pytest.raises(_EndedError):
        again_and_again(rounds(report, *away, report), told.append, every_s=7, sleep=slept.append)
    assert (told, slept) == ([report, report], [7] * 6)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(away)
    for line in lines:
        assert " compare_failed: " in line
        assert line.endswith("Again in 7 s.")


@pytest.mark.parametrize(
    "fault",
    [
        CannotCompareError("It has no list.", hint=""),
        UsageError("The time ends before it begins.", hint=""),
        LogRefusedError("No right.", hint=""),
        ZeroDivisionError(),
    ],
)
def test_what_does_not_pass_by_itself_ends_it(fault: Exception) -> None:
    """Waiting helps none of these."""
    with pytest.raises(type(fault)):
        again_and_again(rounds(fault), print, every_s=7, sleep=print)


def test_a_reset_says_what_it_leaves(tmp_path: Path) -> None:
    """Files and folders that somebody put there, told apart."""
    (tmp_path / "providers").mkdir()
    (tmp_path / "notes.txt").touch()
    assert kept_in(tmp_path) == ["notes.txt", "providers/"]
    assert kept_in(tmp_path / "gone") == []
