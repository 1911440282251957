"""What becomes of a line: told, not told again, nobody's, or the provider's own contradiction."""

from dataclasses import replace
from typing import Literal

import pytest

from ledger.core.money import Money
from reconciler.comparing import line_of_effect
from reconciler.limits import LINE_ID_CHARS_MAX
from reconciler.matching import Match, Matched, MatchedBy, Parked, ParkedReason
from reconciler.providers.port import ListedEffect, MappedWebhook
from reconciler.statement_lines import map_statement, parse_line
from reconciler.statement_matching import (
    NamedAction,
    Said,
    match_named,
    match_statement,
    said_by,
)

KEY = "charge:v1:acme:renewal-1"
EUR = Money(minor=4_990, currency="EUR")
MATCHED = Matched(KEY, MatchedBy.METADATA)
UNKNOWN = Parked(ParkedReason.REFERENCE_UNKNOWN)
COMPLETED = NamedAction("bank", "main", "completed", "ch_1", EUR)
LINE = MappedWebhook(
    meaning="final",
    effect="exists",
    event_id="settlement/1",
    event_type="charge",
    account="main",
    reference="ch_1",
    action_key=KEY,
    provider_key=None,
    money=EUR,
    occurred_at=1,
)


def became(
    match: Match,
    line: MappedWebhook = LINE,
    action: NamedAction | None = COMPLETED,
    before: Said | None = None,
    settled: Said | None = None,
) -> Match:
    """Ask about one line of the bank."""
    return match_statement(
        match, line, provider="bank", action=action, before=before, settled=settled
    )


def test_a_line_that_repeats_a_completed_action_is_not_told_again() -> None:
    """The same name, the same money, and a status that never changes."""
    assert became(MATCHED) == replace(MATCHED, is_known=True)


@pytest.mark.case("C081")
@pytest.mark.parametrize(
    ("line", "action"),
    [
        (replace(LINE, money=Money(minor=4_991, currency="EUR")), COMPLETED),
        (replace(LINE, money=Money(minor=4_990, currency="USD")), COMPLETED),
        (replace(LINE, money=None), COMPLETED),
        (replace(LINE, reference="ch_2"), COMPLETED),
        (replace(LINE, effect="none"), COMPLETED),
        (replace(LINE, effect="reversed"), COMPLETED),
        (replace(LINE, effect="pending", meaning="progress"), COMPLETED),
        (LINE, replace(COMPLETED, status="unknown")),
        (LINE, replace(COMPLETED, status="failed")),
    ],
)
def test_whatever_differs_is_told(line: MappedWebhook, action: NamedAction) -> None:
    """The ledger judges it, and nothing here does."""
    assert became(MATCHED, line, action) == MATCHED


@pytest.mark.case("C085")
@pytest.mark.parametrize("effect", ["exists", "none", "reversed"])
def test_c085_a_line_that_was_moving_and_is_settled_is_told(
    effect: Literal["exists", "none", "reversed"],
) -> None:
    """C085: a report lists a payment under one id as long as it moves, and then with how it ended:
    that word was parked as a contradiction, and the action stayed unknown. In either order, and
    with whatever amount it arrived.
    """
    moving = replace(LINE, effect="pending", meaning="progress")
    less = Money(minor=4_000, currency="EUR")
    unknown = replace(COMPLETED, status="unknown", reference=None)
    for money in (EUR, less):
        settled = replace(LINE, effect=effect, money=money)
        assert became(MATCHED, settled, unknown, said_by(moving)) == MATCHED
        assert became(MATCHED, moving, unknown, said_by(settled)) == MATCHED
    for other in (replace(LINE, reference="ch_2"), replace(LINE, action_key=None)):
        changed = Parked(ParkedReason.LINE_CHANGED)
        assert became(MATCHED, other, unknown, said_by(moving)) == changed


@pytest.mark.case("C085")
@pytest.mark.parametrize(
    "third",
    [
        replace(LINE, effect="none"),
        replace(LINE, effect="reversed"),
        replace(LINE, money=Money(minor=4_000, currency="EUR")),
    ],
)
def test_c085_a_third_content_of_a_line_is_a_contradiction(third: MappedWebhook) -> None:
    """C085: pending, then settled, then settled otherwise: the third was told as a second word on
    how it ended. The moving and the settled content stay what they were, in whatever order they
    come again.
    """
    moving = replace(LINE, effect="pending", meaning="progress")
    unknown = replace(COMPLETED, status="unknown", reference=None)
    before, settled = said_by(moving), said_by(LINE)
    changed = Parked(ParkedReason.LINE_CHANGED)
    assert became(MATCHED, third, unknown, before, settled) == changed
    assert became(MATCHED, LINE, unknown, before, settled) == MATCHED
    assert became(MATCHED, moving, unknown, before, settled) == MATCHED


def test_an_effect_without_an_action_is_an_orphan() -> None:
    """By a key that no action has, and by a name that nobody knows."""
    assert became(MATCHED, action=None) == Parked(ParkedReason.ORPHAN_EFFECT)
    assert became(UNKNOWN, action=None) == Parked(ParkedReason.ORPHAN_EFFECT)
    given_back = replace(LINE, effect="reversed")
    assert became(UNKNOWN, given_back, None) == Parked(ParkedReason.ORPHAN_EFFECT)


@pytest.mark.parametrize("effect", ["none", "pending"])
def test_what_is_not_there_is_no_orphan(effect: Literal["none", "pending"]) -> None:
    """Of a refused charge there is nothing that somebody has to look for."""
    line = replace(LINE, effect=effect)
    assert became(MATCHED, line, None) == Parked(ParkedReason.ACTION_UNKNOWN)
    assert became(UNKNOWN, line, None) == UNKNOWN


def named(match: Match, webhook: MappedWebhook = LINE, action: NamedAction | None = None) -> Match:
    """Ask about one webhook of the bank."""
    return match_named(match, webhook, provider="bank", account="main", action=action)


@pytest.mark.parametrize(
    ("effect", "reason"),
    [
        ("exists", ParkedReason.ORPHAN_EFFECT),
        ("reversed", ParkedReason.ORPHAN_EFFECT),
        ("none", ParkedReason.ACTION_UNKNOWN),
        ("pending", ParkedReason.ACTION_UNKNOWN),
    ],
)
def test_a_webhook_with_the_key_of_no_action_is_nobodys_and_told(
    effect: Literal["exists", "reversed", "none", "pending"], reason: ParkedReason
) -> None:
    """A person sees it until its action appears; the ledger alone knows whether it is there."""
    assert named(MATCHED, replace(LINE, effect=effect)) == Parked(reason, told=MATCHED)


def test_a_webhook_is_matched_to_an_action_on_its_own_account_only() -> None:
    """Whatever the action's status: the ledger judges it."""
    unknown = replace(COMPLETED, status="unknown")
    assert named(MATCHED, action=COMPLETED) == MATCHED
    assert named(MATCHED, action=unknown) == MATCHED
    for other in (replace(COMPLETED, account="other"), replace(COMPLETED, provider="other")):
        assert named(MATCHED, action=other) == Parked(ParkedReason.ACCOUNT_DIFFERS)


def test_a_reference_that_is_known_is_that_of_an_action_that_is_there() -> None:
    """Both come to the tables at once; what is parked already stays as it is."""
    by_reference = Matched(KEY, MatchedBy.REFERENCE)
    assert named(by_reference) == by_reference
    assert named(UNKNOWN) == UNKNOWN


def test_what_a_whole_list_lacks_proves_nothing_and_is_for_a_person() -> None:
    """Whatever the action is by now: the ledger is not told."""
    missed = replace(LINE, effect="unlisted", meaning="progress", money=None)
    for action in (COMPLETED, replace(COMPLETED, status="unknown"), None):
        assert became(MATCHED, missed, action) == Parked(ParkedReason.EFFECT_NOT_LISTED)


def test_a_line_about_another_account_is_not_told() -> None:
    """An action is proven by its own provider and account only."""
    for other in (replace(COMPLETED, account="other"), replace(COMPLETED, provider="other")):
        assert became(MATCHED, action=other) == Parked(ParkedReason.ACCOUNT_DIFFERS)


def test_a_line_that_says_something_else_than_before_is_a_contradiction() -> None:
    """Whatever it matches; when it happened is no part of what it says."""
    before = said_by(LINE)
    changed = replace(LINE, money=Money(minor=1, currency="EUR"))
    assert became(MATCHED, changed, before=before) == Parked(ParkedReason.LINE_CHANGED)
    later = replace(LINE, occurred_at=2)
    assert became(MATCHED, later, before=before) == replace(MATCHED, is_known=True)


@pytest.mark.parametrize("reason", [ParkedReason.MARKS_DISAGREE, ParkedReason.REFERENCE_AMBIGUOUS])
def test_what_is_in_doubt_stays_in_doubt(reason: ParkedReason) -> None:
    """A line is no more certain than a webhook would be."""
    assert became(Parked(reason), action=None) == Parked(reason)


# --- listed effects ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ch_1", "x" * (LINE_ID_CHARS_MAX + 1), "line\nend", "ümlaut"])
def test_a_listed_effect_is_the_same_line_every_time(name: str) -> None:
    """Whatever its name, the line can be written, read, and known again."""
    effect = ListedEffect(
        reference=name,
        operation="charge",
        account="main",
        money=EUR,
        provider_key="k" * 2_000,
        action_key=KEY,
        request_hash=None,
        committed_at=-5,
    )
    line = line_of_effect(effect)
    assert line == line_of_effect(effect)
    assert parse_line(line.body()) == line
    assert (line.reference, line.provider_key, line.occurred_at) == (name, None, 0)
    mapped = map_statement(line.body(), source="listing", account="main")
    assert isinstance(mapped, MappedWebhook)
    assert (mapped.effect, mapped.action_key, mapped.money) == ("exists", KEY, EUR)
