"""What a comparison reports, and how its command ends: what a person has looked at is no alarm."""

from collections.abc import Callable
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from gateway.cli.app import run
from gateway.cli.comparing import code_of, show_orphans, show_report
from gateway.cli.evidence import show_imported
from gateway.cli.output import Exit, UsageError, tell_trouble
from gateway.wiring.compare_desk import report_of
from gateway.wiring.import_desk import Difference, Imported
from ledger.core.money import Money
from reconciler.comparing import Comparison, NotListed, Period, line_of_missing
from reconciler.orphans import Orphan
from reconciler.providers.port import MappedWebhook
from reconciler.settlement_files import BadLine
from reconciler.statement_intake import Brought, Finding, Standing
from reconciler.statement_lines import (
    StatementLine,
    map_statement,
    said_by_line,
)
from tests.statements import received_line

MISSING = NotListed("charge:v1:acme:sale-1", "ch_1", "charge", "webhook")


def brought(line: StatementLine) -> Brought:
    """A line on its way."""
    received = received_line(line, source="listing", provider="bank", account="main")
    return Brought(received, said_by_line(line))


def listed(reference: str) -> StatementLine:
    """An effect of the provider's list."""
    return StatementLine(
        line_id=reference,
        reference=reference,
        money=Money(minor=1, currency="EUR"),
        effect="exists",
        occurred_at=1,
        raw_sha256="ab" * 32,
    )


def compared(*, ended_early: str | None = None) -> Comparison:
    """Of three effects one is in order; one action's effect is not in the list."""
    return Comparison(
        "bank",
        "main",
        Period(0, 10),
        listed=3,
        in_order=1,
        told=2,
        ended_early=ended_early,
        not_listed=1,
        missing=[MISSING],
        brought=[brought(listed("ch_8")), brought(listed("ch_9"))],
        unlisted=[brought(line_of_missing(MISSING, 0))],
    )


def findings(*, noted: bool) -> list[Finding]:
    """What became of the two that differ, and of the one that is missing."""
    return [
        Finding(Standing.UNMATCHED, "orphan_effect", is_noted=noted),
        Finding(Standing.CONFLICTING, "line_changed", is_noted=noted),
        Finding(Standing.CONFLICTING, "effect_not_listed", is_noted=noted),
    ]


def test_what_nobody_has_looked_at_is_a_difference() -> None:
    """Every listed effect is in one count."""
    report = report_of(compared(), findings(noted=False))
    assert (report.in_order, report.orphans, report.conflicting, report.noted) == (1, 1, 1, 0)
    assert (report.not_listed, report.not_listed_noted, report.missing) == (1, 0, [MISSING])
    assert code_of(report) is Exit.DIFFERENCES


def test_what_a_person_has_looked_at_is_none() -> None:
    """It is counted on its own, and the command ends well; a list that ended early does not."""
    report = report_of(compared(), findings(noted=True))
    assert (report.in_order, report.orphans, report.conflicting, report.noted) == (1, 0, 0, 2)
    assert (report.not_listed, report.not_listed_noted, report.missing) == (0, 1, [])
    assert [one.is_noted for one in report.differences] == [True, True]
    assert code_of(report) is Exit.OK
    early = report_of(compared(ended_early="page_lost"), findings(noted=True))
    assert code_of(early) is Exit.TROUBLE


@pytest.mark.parametrize("since", [0, 5_000, -1])
def test_a_missing_effect_is_one_line_whenever_it_is_missed(since: int) -> None:
    """So that it is brought once, and what was noted stays so."""
    first, again = brought(line_of_missing(MISSING, 0)), brought(line_of_missing(MISSING, since))
    assert (first.sought.event_id, first.said) == (again.sought.event_id, again.said)
    mapped = map_statement(again.received.raw(), source="listing", account="main")
    assert isinstance(mapped, MappedWebhook)
    assert (mapped.effect, mapped.meaning, mapped.money) == ("unlisted", "progress", None)
    assert (mapped.action_key, mapped.event_type) == (MISSING.action_key, "effect_not_listed")


HOSTILE = "ch_1\x1b[2J\x9b2J\u202e\n9 in order"
SHOWN = r"ch_1\u001b[2J\u009b2J\u202e\u000a9 in order"


def shown_by(show: Callable[[Console], None]) -> str:
    """What a person reads of an answer."""
    written = StringIO()
    show(Console(file=written, width=400))
    return written.getvalue()


def test_what_strangers_wrote_reaches_no_terminal_raw() -> None:
    """References, file contents and notes: no byte of them commands the screen or begins a line."""
    report = report_of(compared(), findings(noted=False))
    report.differences[0] = replace(report.differences[0], reference=HOSTILE)
    report.missing[0] = replace(report.missing[0], reference=HOSTILE)
    imported = Imported("payouts.csv", "bank", "main", lines=2, bad=1, unmatched=1)
    imported.bad_lines = [BadLine(1, "amount_invalid", HOSTILE)]
    imported.differences = [
        Difference(2, "l", HOSTILE, Standing.UNMATCHED, "orphan_effect", "charge:v1:acme:e")
    ]
    orphan = Orphan(
        *("3/17", "orphan_effect", HOSTILE, "main", "webhook", "evt_1", HOSTILE, None, None, None),
        money=None,
        occurred_at=None,
        received_at=0,
    )
    for told in (
        shown_by(lambda console: show_report(console, report)),
        shown_by(lambda console: show_imported(console, imported)),
        shown_by(lambda console: show_orphans(console, [orphan], 1)),
    ):
        assert told.count(SHOWN) == 2
        assert not set(told) & set("\x1b\x9b\u202e")


def test_an_effect_without_an_action_is_shown_under_every_name_that_it_bears() -> None:
    """Where it has no key of ours, the one at the provider is what a person looks for there."""
    orphan = Orphan(
        *("3/17", "orphan_effect", "bank", "main", "webhook", "evt_1", "ch_1", None, None, None),
        money=None,
        occurred_at=None,
        received_at=0,
        provider_key="by-hand-1",
    )
    told = shown_by(lambda console: show_orphans(console, [orphan], 1))
    assert "ch_1" in told
    assert "by-hand-1" in told
    same = replace(orphan, reference=None, claimed_key="by-hand-1")
    assert shown_by(lambda console: show_orphans(console, [same], 1)).count("by-hand-1") == 1


def test_trouble_that_quotes_a_stranger_commands_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A message keeps its own line ends, and nothing else that cannot be seen."""
    trouble = UsageError("ops has looked: \x1b]0;x\x07\nSee it.", hint="Say\x9b2J it.")
    assert tell_trouble("review note", trouble, Exit.USAGE, as_json=False) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "ops has looked: \\u001b]0;x\\u0007\nSee it.\nSay\\u009b2J it.\n"


def test_a_note_that_no_log_takes_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes that are no UTF-8 arrive as halves of characters."""
    assert run(["review", "note", "3/17", "--note", "a\udcffb", "--by", "ops"]) == Exit.USAGE
    assert "A note is text." in capsys.readouterr().err
