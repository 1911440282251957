"""Why an action is here: a sentence for everything that can be."""

from dataclasses import replace
from typing import get_args

import pytest

from gateway.cli.policy_shown import explained_result
from gateway.console.rounds import WHY_ENDED
from gateway.console.why import FACTS, REVIEWS, span, told, why
from gateway.wiring.policy_desk import Explained
from ledger.core.facts import FACT_TYPES, ApprovalEnd, ReviewReason
from ledger.core.holds import Hold, Scope
from ledger.core.policy import BEFORE_THE_TABLE, NOT_ALLOWED, NOT_FITTING, Ruling
from ledger.core.state import Status
from projections.queries import folded
from tests import examples as x
from tests.unit.console.test_sheet import KEY, asked, known


@pytest.mark.parametrize("status", list(Status))
def test_every_status_has_a_sentence(status: Status) -> None:
    """One sentence, with an end, whatever else is known of the action."""
    action = replace(known(asked()).action, status=status)
    said = why(action, now_ms=x.T0)
    assert said[0].isupper()
    assert said.endswith(".")
    assert "_" not in said or "asked-about" in said


def test_every_reason_and_fact_has_its_words() -> None:
    """A new one without words would be shown by its name only."""
    assert set(get_args(ReviewReason)) == set(REVIEWS)
    assert set(get_args(ApprovalEnd)) == set(WHY_ENDED)
    assert set(FACT_TYPES) == set(FACTS)
    for event in known(asked()).events:
        assert "…" not in told(event.type, event.data)


def test_who_denied_it_and_why_is_told() -> None:
    """By name and in their own words; of the table, that it was the table."""
    data = {"by": "person", "person": "ada", "comment": "Paid last week.\nTwice."}
    said = told("action.denied", data)
    assert said == "ada signed that it must not happen: Paid last week. Twice."
    action = replace(known(asked()).action, status=Status.DENIED, code="person")
    assert why(action, now_ms=x.T0, denied="ada: Paid.") == "ada: Paid."
    assert told("action.denied", {"by": "policy"}) == "It was denied by policy"


def test_what_was_said_and_what_moved_is_told() -> None:
    """A comment, both values, and which groups may decide now: nobody has to read the bytes."""
    changes = [{"name": "rate", "was": "1.10", "now": "1.11"}]
    said = told("approval.ended", {"reason": "volatile_changed", "changes": changes})
    assert said == "What was asked came to nothing: volatile_changed; rate was 1.10, is 1.11"
    said = told("approval.granted", {"person": "ada", "comment": "She called."})
    assert said == "ada agreed: She called."
    assert told("approval.escalated", {"groups": ["ops"]}) == "Further groups may decide: ops"


def test_who_waits_is_told_for_whom_and_until_when() -> None:
    """The row, how many people, who agreed, and the end; and that running out is no denial."""
    action = known(asked()).action
    assert action.approval is not None
    now = action.approval.requested_at
    said = why(action, now_ms=now)
    assert said.startswith("The row asked-about-payout of the decision table asks one person ")
    assert "UTC." in said
    said = why(action, now_ms=action.approval.expires_at)
    assert "that is no denial" in said
    assert folded(KEY, known(asked()).events) == action


@pytest.mark.parametrize("ruling", [NOT_ALLOWED, NOT_FITTING])
def test_what_the_catalogue_denies_is_told_so_and_not_by_a_row(ruling: Ruling) -> None:
    """No row of any table denied it: the catalogue did, and pages and `explain` say so."""
    builder = asked()
    action = replace(
        known(builder).action, status=Status.DENIED, code="policy", policy_row=ruling.row
    )
    reason = BEFORE_THE_TABLE[ruling.row]
    assert why(action, now_ms=x.T0) == reason
    policy = builder.config.policy
    explained = Explained(action, policy, in_force=True, ruling=ruling, rows=())
    assert explained_result(explained)["reason"] == reason


def test_a_hold_is_told_before_anything_else() -> None:
    """Who waits for an operator learns by whom and why."""
    hold = Hold(scope=Scope(), by="ops:ada", reason="double charges seen", since=x.T0, offset=1)
    action = replace(known(asked()).action, status=Status.READY)
    said = why(action, now_ms=x.T0, hold=hold)
    assert said.startswith("ops:ada keeps new attempts from starting since ")
    assert said.endswith(": double charges seen.")


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (-5, "0 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (485_000, "8 min 5 s"),
        (3_600_000, "1 h"),
        (7_500_000, "2 h 5 min"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_spans_are_told_in_two_parts(ms: int, said: str) -> None:
    """The two largest, and none that is nothing."""
    assert span(ms) == said
