"""Unknown actions in words: the same for pages and for the command line."""

from dataclasses import replace

import pytest

from gateway.unknowns import A_PERSON, MEANINGS, KeyWindow, unknown_of
from ledger.core.inputs import Meaning
from ledger.core.money import Money
from projections.query_rows import PieceRow, UnknownRow

NOW = 1_800_000_000_000
VIEW = UnknownRow(
    tenant_id="acme",
    action_key="charge:v1:acme:renewal-1",
    target="order:A-1842",
    amount_minor=4_990,
    currency="USD",
    provider="shop",
    account="main",
    attempts=1,
    unknown_since=NOW - 90_000,
    next_due_at=NOW + 30_000,
    updated_at=NOW - 1_000,
    next_step="lookup",
    key_used_at=NOW - 100_000,
    key_until=NOW + 300_000,
)


def test_it_says_how_old_what_is_next_and_how_much_of_the_key_window_is_left() -> None:
    """Age counts from the lost answer and not from the last news."""
    told = unknown_of(VIEW, NOW)
    assert (told.age_ms, told.money) == (90_000, Money(minor=4_990, currency="USD"))
    assert (told.next_told, told.next_at) == ("the provider is asked", NOW + 30_000)
    assert told.window == KeyWindow(NOW + 300_000, 25, is_over=False)


@pytest.mark.parametrize(("now_ms", "used", "is_over"), [(0, 0, False), (300_000, 100, True)])
def test_the_bar_stays_within_its_length(now_ms: int, used: int, *, is_over: bool) -> None:
    """Before its beginning it is empty, from its end on full and over: a key is not used then."""
    at = VIEW.key_used_at if now_ms == 0 else NOW + now_ms
    assert at is not None
    assert unknown_of(VIEW, at).window == KeyWindow(NOW + 300_000, used, is_over)


def test_without_a_key_window_there_is_no_bar() -> None:
    """A provider that keeps no keys has none."""
    assert unknown_of(replace(VIEW, key_until=None), NOW).window is None


def test_where_nothing_happens_by_itself_a_person_is_next() -> None:
    """It is never said that something comes when nothing does."""
    told = unknown_of(replace(VIEW, next_due_at=None, next_step=None), NOW)
    assert (told.next_told, told.next_at) == (A_PERSON, None)


def test_evidence_is_told_in_words_and_what_is_left_out_is_counted() -> None:
    """Kind, meaning and what the provider called it; a number for the rest."""
    pieces = (
        PieceRow("lookup", "inconclusive", NOW, code="http_503"),
        PieceRow("webhook", "pending", NOW, reference="ch_1"),
    )
    told = unknown_of(replace(VIEW, evidence=pieces, evidence_count=5), NOW)
    assert told.evidence == ("lookup: no answer (http_503)", "webhook: under way (ch_1)")
    assert told.earlier == 3


def test_every_meaning_has_words() -> None:
    """A new one without words fails here."""
    assert set(MEANINGS) == {meaning.value for meaning in Meaning}
