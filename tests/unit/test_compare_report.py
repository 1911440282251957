"""What a comparison reports, and how its command ends: what a person has looked at is no alarm."""

import pytest

from gateway.cli.comparing import code_of
from gateway.cli.output import Exit
from gateway.wiring.compare_desk import report_of
from ledger.core.money import Money
from reconciler.bringing import Brought, Finding, Standing
from reconciler.comparing import Comparison, NotListed, Period, line_of_missing
from reconciler.providers.port import MappedWebhook
from reconciler.statement_lines import (
    StatementLine,
    map_statement,
    said_by_line,
    statement_received,
)

MISSING = NotListed("charge:v1:acme:sale-1", "ch_1", "charge", "webhook")


def brought(line: StatementLine) -> Brought:
    """A line on its way."""
    received = statement_received(line, source="listing", provider="bank", account="main")
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
