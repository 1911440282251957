"""Holds: nothing new starts, what is under way goes on, and after a release all of it does."""

from dataclasses import replace

import pytest
from pydantic import ValidationError

from ledger.core import inputs as i
from ledger.core.config import Config
from ledger.core.decide.schedule import Turn, turn
from ledger.core.holds import (
    HOLD,
    RELEASE,
    Hold,
    Holds,
    NotOrderable,
    Order,
    Scope,
    after_order,
    holding,
    objection_to,
    parse_order,
)
from ledger.core.limits import HOLDS_MAX
from ledger.core.retries import backoff_ms
from ledger.core.state import Status
from tests.examples import (
    BACKOFF_BASE_MS,
    BACKOFF_MAX_MS,
    CHARGE,
    CONFIG,
    LEASE_MS,
    LOOKUPS,
    SKEW_MS,
    STEP_MS,
    T0,
    asked,
    automatic,
    completed,
    decline,
    declined,
    expired,
    found_out,
    kept,
    lookup_due,
    no_answer,
    offer,
    operation_of,
    propose,
    recorded,
    refused,
    report,
    retry_due,
    started,
    succeeded,
    success,
    tick,
    unresolved,
)
from tests.unit.core.language import After, Given, given

READY = given(recorded(), automatic())
RUNNING = READY.and_then(started())
LOST = RUNNING.and_then(unresolved(), lookup_due(100))
PENDING = i.Meaning.PENDING
PROBING = LOST.and_then(asked(at=100), kept(found_out(PENDING)), retry_due(200))
PROVIDER = operation_of(CHARGE).provider


def hold(**scope: str) -> Hold:
    """A hold in force."""
    return Hold(scope=Scope(**scope), by="ops", reason="look first", since=T0, offset=4)


def under(*holds: Hold) -> Config:
    """The configuration with these holds."""
    return replace(CONFIG, holds=holds)


def held(known: Given) -> Given:
    """The same, with the provider of charges held."""
    return known.under(under(hold(provider=PROVIDER)))


def backoff(tries: int) -> int:
    """How long the charge waits after so many tries."""
    return backoff_ms(CHARGE, tries, base_ms=BACKOFF_BASE_MS, cap_ms=BACKOFF_MAX_MS)


# --- what a hold covers ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "is_covered"),
    [
        ({}, True),
        ({"provider": "p"}, True),
        ({"tenant": "t"}, True),
        ({"operation": "o"}, True),
        ({"provider": "p", "tenant": "t", "operation": "o"}, True),
        ({"provider": "q"}, False),
        ({"tenant": "t", "operation": "other"}, False),
    ],
)
def test_a_hold_covers_what_everything_in_it_applies_to(
    scope: dict[str, str], *, is_covered: bool
) -> None:
    """Names given together must all apply; nothing named is everything."""
    one = hold(**scope)
    assert holding((one,), "p", "t", "o") == (one if is_covered else None)


def test_a_name_that_nothing_can_bear_is_no_scope() -> None:
    """A hold with a typing mistake in it would look like safety and be none."""
    for name in ("", "a b", "ch/arge", "x" * 129):
        with pytest.raises(ValidationError):
            Scope(provider=name)
    with pytest.raises(ValidationError):
        Scope(operation="Charge")


def test_an_order_needs_somebody_who_gave_it() -> None:
    """Content without a scope or a name is no order."""
    assert parse_order('{"scope":{},"by":"ops"}') == Order(scope=Scope(), by="ops")
    for content in ("{}", '{"scope":{},"by":""}', '{"scope":{"who":"x"},"by":"ops"}', "no json"):
        assert parse_order(content) is None


def test_holds_are_folded_one_by_one() -> None:
    """The same hold twice is one, a release ends exactly its own, and there is an end to them."""
    everything, one = Order(scope=Scope(), by="ops"), Order(scope=Scope(tenant="acme"), by="ann")
    holds: Holds = after_order((), HOLD, everything, at=T0, offset=1)
    holds = after_order(holds, HOLD, one, at=T0 + 5, offset=2)
    assert [(str(each.scope), each.by, each.since) for each in holds] == [
        ("everything", "ops", T0),
        ("tenant acme", "ann", T0 + 5),
    ]
    assert objection_to(HOLD, one, holds) is NotOrderable.HELD_ALREADY
    assert after_order(holds, RELEASE, everything, at=T0 + 9, offset=3) == holds[1:]
    other = Order(scope=Scope(tenant="other"), by="ops")
    assert objection_to(RELEASE, other, holds) is NotOrderable.NOT_HELD
    full = tuple(hold(tenant=f"t{number}") for number in range(HOLDS_MAX))
    assert objection_to(HOLD, other, full) is NotOrderable.TOO_MANY_HOLDS
    assert objection_to(RELEASE, Order(scope=full[7].scope, by="ops"), full) is None


# --- what waits --------------------------------------------------------------------------------


def test_a_held_intent_is_recorded_and_does_not_start() -> None:
    """The intent is durable and ready; capacity at hand is left for others."""
    then = held(given()).when(propose(), offer=offer())
    then.then(recorded(), automatic())
    assert then.decided.offer_spent is None


def test_a_held_action_stays_ready_whatever_capacity_comes() -> None:
    """A tick with an offer decides nothing, and the same tick after the release starts it."""
    held(READY).when(tick(), at=5, offer=offer(at=3)).then_unchanged("nothing_due")
    READY.when(tick(), at=5, offer=offer(at=3)).then(started(at=5, offered=3))


def test_every_hold_that_covers_it_has_to_go() -> None:
    """With two holds over one action, the end of one changes nothing."""
    both = under(hold(provider=PROVIDER), hold(operation="charge"))
    for config in (both, under(both.holds[0]), under(both.holds[1])):
        READY.under(config).when(tick(), at=5, offer=offer(at=3)).then_unchanged("nothing_due")


def test_a_hold_on_others_holds_nothing_here() -> None:
    """Another tenant, provider or operation starts as always."""
    others = under(hold(tenant="other"), hold(provider="other"), hold(operation="refund"))
    READY.under(others).when(tick(), at=5, offer=offer(at=3)).then(started(at=5, offered=3))


def test_the_step_deadline_of_a_held_action_counts_on() -> None:
    """It expires at its own time, as an action does that found no capacity."""
    held(READY).when(tick(), at=STEP_MS).then(expired())


def test_an_attempt_under_way_goes_on() -> None:
    """What was started before the hold is reported, and completes."""
    held(RUNNING).when(report(success()), at=50).then(succeeded(), completed())


def test_a_retry_waits_for_the_release() -> None:
    """A refusal under a hold sets its timer as always; when that is due nothing starts."""
    waiting = RUNNING.and_then(refused(), retry_due(100))
    held(waiting).when(tick(), at=200, offer=offer(at=150)).then_unchanged("nothing_due")


def test_a_start_given_back_because_of_a_hold_is_tried_again_later() -> None:
    """An executor that hears of the hold first declines; the action is ready and waits."""
    after = held(RUNNING).when(decline(), at=10).then(declined(), retry_due(10 + backoff(1)))
    assert after.action().status is Status.READY


# --- lookups go on -----------------------------------------------------------------------------


def test_a_lost_answer_is_looked_up_under_a_hold() -> None:
    """The first question comes as always."""
    held(LOST).when(tick(), at=100).then(asked(at=100))


def test_the_same_key_again_is_an_attempt_and_is_held() -> None:
    """Where the next step would be a probe, the provider is asked instead, by the schedule."""
    held(PROBING).when(tick(), at=200, offer=offer(at=150)).then(lookup_due(200 + LOOKUPS[1]))


def test_an_answer_that_proves_nothing_leads_to_the_next_question() -> None:
    """Without the hold an attempt would come now."""
    asking = LOST.and_then(asked(at=100))
    pending = found_out(PENDING)
    held(asking).when(pending, at=150).then(kept(pending), lookup_due(150 + LOOKUPS[1]))
    asking.when(pending, at=150).then(kept(pending), retry_due(150 + backoff(1)))


def test_without_questions_left_it_waits_for_the_release() -> None:
    """No person is asked because of a hold: the probe is set, and waits."""
    known = LOST
    for number in range(1, len(LOOKUPS) + 1):
        pending = found_out(PENDING, lookup=number)
        known = known.and_then(asked(number, at=100), kept(pending), retry_due(200))
    held(known).when(tick(), at=200, offer=offer(at=150)).then_unchanged("nothing_due")
    assert known.action().status is Status.UNKNOWN


def test_a_lookup_that_stood_in_for_an_attempt_gives_way_to_it_after_the_release() -> None:
    """However far the next question is, the attempt that was held comes after its own wait."""
    instead = PROBING.and_then(After(200, (lookup_due(3_600_000),)))
    assert turn(instead.stream, instead.action(), CONFIG, T0 + 300) is Turn.TRY
    instead.when(tick(), at=300).then(retry_due(300 + backoff(1)))
    held(instead).when(tick(), at=300).then_unchanged("nothing_due")


def test_no_turn_without_a_reason() -> None:
    """An action that waits for what it would wait for anyway does not change its course."""
    for known in (READY, RUNNING, LOST, PROBING):
        assert turn(known.stream, known.action(), CONFIG, T0 + 150) is None
        assert turn(known.stream, known.action(), under(hold()), T0 + 150) is None


def test_a_lapse_under_a_hold_is_unknown_and_looked_up() -> None:
    """Silence of an attempt that was under way is found out as always."""
    lapse = LEASE_MS + SKEW_MS
    held(RUNNING).when(tick(), at=lapse).then(
        unresolved(code="lease_lapsed"), lookup_due(lapse + LOOKUPS[0])
    )
    held(RUNNING).when(report(no_answer()), at=50).then(unresolved(), lookup_due(50 + LOOKUPS[0]))
