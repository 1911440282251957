"""Time: what a tick does on both sides of every limit, and what it never does."""

import pytest

from ledger.core import inputs as i
from ledger.core.config import Config
from ledger.core.decide.schedule import awaits_offer, due_at
from ledger.core.facts import TimerSet
from ledger.core.limits import DECLINES_MAX
from ledger.core.retries import backoff_ms
from ledger.core.state import AttemptStatus, Status
from tests.examples import (
    BACKOFF_BASE_MS,
    BACKOFF_MAX_MS,
    CATALOGUE_TEXT,
    CHARGE,
    EMAIL,
    EUR_499,
    KEY_MARGIN_MS,
    KEY_WINDOW_MS,
    LEASE_MS,
    LOOKUP_ANSWER_MS,
    LOOKUPS,
    NOTE,
    PAYOUT,
    SKEW_MS,
    STEP_MS,
    T0,
    TICKET,
    absent,
    asked,
    automatic,
    cancelled,
    catalogue,
    completed,
    decline,
    declined,
    expired,
    found_out,
    kept,
    lookup_due,
    no_answer,
    not_sent,
    offer,
    recorded,
    refusal,
    refused,
    report,
    retry_due,
    review,
    started,
    succeeded,
    tick,
    unresolved,
    unsent,
)
from tests.unit.core.language import Given, after, given

LAPSE = LEASE_MS + SKEW_MS
CLOSES = KEY_WINDOW_MS - KEY_MARGIN_MS
PENDING = i.Meaning.PENDING

READY = given(recorded(), automatic())
RUNNING = READY.and_then(started())
WAITING = RUNNING.and_then(refused(), retry_due(100))
LOST = RUNNING.and_then(unresolved(), lookup_due(100))
ASKING = LOST.and_then(after(100, asked(at=100)))
PROBING = ASKING.and_then(kept(found_out(PENDING)), retry_due(200))


def withdrawn() -> Config:
    """A catalogue that no longer has the charge."""
    first, *_, last = CATALOGUE_TEXT.split("[[operation]]")
    return Config(catalogue(f"{first}[[operation]]{last}"), "sha256:other")


# --- leases ------------------------------------------------------------------------------------


def test_a_lease_lapses_after_its_end_and_the_skew_bound() -> None:
    """Silence becomes unknown, not a moment before the holder has surely stopped."""
    RUNNING.when(tick(), at=LAPSE - 1, offer=offer(until=LAPSE)).then_unchanged("nothing_due")
    lapsed = RUNNING.when(tick(), at=LAPSE)
    lost = lapsed.then(unresolved(code="lease_lapsed"), lookup_due(LAPSE + LOOKUPS[0]))
    assert lost.action().status is Status.UNKNOWN


def test_a_lapse_of_the_only_attempt_there_may_be_goes_to_a_person() -> None:
    """Without a way to find out, silence is a person's case."""
    email = given(recorded(EMAIL), automatic(EMAIL), started(key=EMAIL))
    email.when(tick(), at=LAPSE).then(
        unresolved(key=EMAIL, code="lease_lapsed"), review("no_way_to_find_out", key=EMAIL)
    )


def test_a_lease_lapses_for_a_person_too() -> None:
    """An action that waits for a person does not keep its call running for ever."""
    other = found_out(i.Meaning.EFFECT, lookup=None, money=EUR_499)
    history = RUNNING.and_then(kept(other), review("amount_differs"))
    history.when(tick(), at=LAPSE).then(unresolved(code="lease_lapsed"))


def test_the_lapse_of_a_second_attempt_leaves_both_open() -> None:
    """What was unknown before stays so."""
    two = PROBING.and_then(after(200, started(2, at=200, first_at=0)))
    left = two.when(tick(), at=200 + LAPSE).then(
        unresolved(2, code="lease_lapsed"), lookup_due(200 + LAPSE + LOOKUPS[1])
    )
    assert [attempt.status for attempt in left.action().attempts] == [
        AttemptStatus.UNRESOLVED,
        AttemptStatus.UNRESOLVED,
    ]


# --- starting ----------------------------------------------------------------------------------


def test_a_ready_action_starts_when_capacity_comes() -> None:
    """A tick with an offer spends it."""
    then = READY.when(tick(), at=5, offer=offer(at=3))
    then.then(started(at=5, offered=3))
    assert then.decided.offer_spent == offer(at=3)
    READY.when(tick(), at=5).then_unchanged("nothing_due")


def test_an_offer_is_spent_up_to_its_end() -> None:
    """A lapsed offer is nobody's capacity, and so is one from the future."""
    assert READY.when(tick(), at=9, offer=offer(until=9)).decided.offer_spent
    READY.when(tick(), at=10, offer=offer(until=9)).then_unchanged("nothing_due")
    READY.when(tick(), at=5, offer=offer(at=6)).then_unchanged("nothing_due")
    assert READY.when(tick(), at=6, offer=offer(at=6)).decided.offer_spent


def test_an_offer_is_spent_on_its_own_operation() -> None:
    """Capacity for refunds starts no charge, whichever action stands first."""
    both = READY.and_then(recorded(PAYOUT), automatic(PAYOUT))
    both.when(tick(), at=5, offer=offer(key=PAYOUT)).then(
        started(key=PAYOUT, at=5, offered=0, intent_offset=1)
    )


def test_an_offer_is_spent_once() -> None:
    """One slot starts one action, though two wait."""
    fee = f"{CHARGE}#fee"
    waits = (recorded().model_copy(update={"action": fee}), automatic(fee))
    both = READY.and_then(*waits)
    both.when(tick(), at=5, offer=offer()).then(started(at=5, offered=0))


def test_who_gave_an_action_back_is_not_asked_again() -> None:
    """A declined start goes to somebody else."""
    back = READY.and_then(started(), declined(), retry_due(100))
    back.when(tick(), at=100, offer=offer()).then_unchanged("nothing_due")
    other = back.when(tick(), at=100, offer=offer(incarnation="executor-2"))
    other.then(started(2, at=100, holder="executor-2", offered=0))


def test_a_running_attempt_is_the_only_one() -> None:
    """No second start while one runs, whatever capacity there is."""
    RUNNING.when(tick(), at=5, offer=offer()).then_unchanged("nothing_due")


def test_a_retry_waits_for_its_time() -> None:
    """Not before the timer, and then only with capacity."""
    WAITING.when(tick(), at=99, offer=offer()).then_unchanged("nothing_due")
    WAITING.when(tick(), at=100).then_unchanged("nothing_due")
    WAITING.when(tick(), at=100, offer=offer()).then(started(2, at=100, offered=0, first_at=0))


def test_all_attempts_bear_the_key_of_the_first() -> None:
    """Whatever the catalogue says now about keys, the provider sees one key."""
    hashed = CATALOGUE_TEXT.replace(
        "[operation.retries]",
        '[operation.provider_key]\nalphabet = "hexadecimal"\n[operation.retries]',
    )
    changed = WAITING.under(Config(catalogue(hashed), "sha256:other"))
    (start,) = changed.when(tick(), at=100, offer=offer()).decided.facts
    assert start.type == "attempt.started"
    assert start.provider_key == CHARGE


# --- bars --------------------------------------------------------------------------------------


def test_the_step_deadline_bars_a_first_start() -> None:
    """An intent whose own time passed before any start has expired."""
    wide = offer(until=STEP_MS * 2)
    READY.when(tick(), at=STEP_MS - 1, offer=wide).then(started(at=STEP_MS - 1, offered=0))
    READY.when(tick(), at=STEP_MS, offer=wide).then(expired())
    back = READY.and_then(started(), declined(), retry_due(100))
    back.when(tick(), at=STEP_MS).then(expired())


def test_the_step_deadline_after_an_attempt_is_a_persons_case() -> None:
    """Time leads to a person, never to failed and, once something began, never to expired."""
    payout = given(recorded(PAYOUT), automatic(PAYOUT), started(key=PAYOUT), refused(key=PAYOUT))
    waiting = payout.and_then(retry_due(100, key=PAYOUT))
    waiting.when(tick(), at=STEP_MS - 1).then_unchanged("nothing_due")
    waiting.when(tick(), at=STEP_MS).then(review("step_deadline_passed", key=PAYOUT))


def test_the_step_deadline_of_an_open_action_leads_back_to_lookups() -> None:
    """What is open goes on being looked up."""
    PROBING.when(tick(), at=STEP_MS, offer=offer(until=STEP_MS)).then(
        lookup_due(STEP_MS + LOOKUPS[1])
    )


def test_the_key_window_bars_a_retry() -> None:
    """Before the window less its margin closes the same key is used; then never again."""
    wide = offer(until=STEP_MS)
    WAITING.when(tick(), at=CLOSES - 1, offer=wide).then(
        started(2, at=CLOSES - 1, offered=0, first_at=0)
    )
    WAITING.when(tick(), at=CLOSES, offer=wide).then(review("attempts_exhausted"))
    PROBING.when(tick(), at=CLOSES, offer=wide).then(lookup_due(CLOSES + LOOKUPS[1]))


def test_the_key_window_counts_from_the_first_start_that_may_have_shown_the_key() -> None:
    """A start that was given back showed no key."""
    back = READY.and_then(started(), declined(), retry_due(100))
    later = back.and_then(
        after(1_000, started(2, at=1_000, holder="executor-2")),
        after(1_005, refused(2), retry_due(1_100)),
    )
    wide = offer(until=STEP_MS, incarnation="executor-2")
    (start,) = later.when(tick(), at=CLOSES + 999, offer=wide).decided.facts
    assert start.type == "attempt.started"
    assert start.key_expires_at == T0 + 1_000 + CLOSES
    later.when(tick(), at=CLOSES + 1_000, offer=wide).then(review("attempts_exhausted"))


def test_attempts_are_counted() -> None:
    """The last allowed attempt starts, the next one does not."""
    second = WAITING.and_then(
        after(100, started(2, at=100, first_at=0)), refused(2), retry_due(200)
    )
    second.when(tick(), at=200, offer=offer()).then(started(3, at=200, offered=0, first_at=0))
    third = second.and_then(after(200, started(3, at=200, first_at=0)), refused(3), retry_due(300))
    third.when(tick(), at=300, offer=offer()).then(review("attempts_exhausted"))


def test_declines_are_counted() -> None:
    """As many starts as the limit may be given back; then a person looks."""
    history = READY
    for number in range(1, DECLINES_MAX + 1):
        history = history.and_then(
            started(number, holder=f"h{number}"), declined(number), retry_due(1)
        )
    fresh = offer(incarnation="executor-fresh")
    history.when(tick(), at=5, offer=fresh).then(review("declines_exhausted"))


@pytest.mark.parametrize("key", [EMAIL, NOTE])
def test_one_attempt_is_one_attempt(key: str) -> None:
    """A timer that stands for an action of one attempt leads to a person."""
    history = given(recorded(key), automatic(key), started(key=key), unsent(key=key))
    history = history.and_then(retry_due(100, key=key))
    history.when(tick(), at=100, offer=offer(key=key)).then(review("one_attempt_only", key=key))


def test_the_second_attempt_of_the_class_lookup() -> None:
    """After reliable absence, once, where the operation declares it."""
    gone = given(recorded(TICKET), automatic(TICKET), started(key=TICKET), unresolved(key=TICKET))
    gone = gone.and_then(asked(key=TICKET), absent(key=TICKET), retry_due(100, key=TICKET))
    gone.when(tick(), at=100, offer=offer(key=TICKET)).then(
        started(2, key=TICKET, at=100, offered=0)
    )
    twice = gone.and_then(started(2, key=TICKET), refused(2, key=TICKET), retry_due(9, key=TICKET))
    twice.when(tick(), at=100, offer=offer(key=TICKET)).then(review("one_attempt_only", key=TICKET))


# --- asking ------------------------------------------------------------------------------------


def test_a_planned_question_is_put_when_it_is_due() -> None:
    """Not a moment before, and with no need of capacity."""
    LOST.when(tick(), at=99, offer=offer()).then_unchanged("nothing_due")
    LOST.when(tick(), at=100).then(asked(at=100))


def test_a_question_without_an_answer_is_put_again() -> None:
    """Unanswered lookups do not count against the schedule."""
    over = 100 + LOOKUP_ANSWER_MS
    ASKING.when(tick(), at=over - 1).then_unchanged("nothing_due")
    again = ASKING.when(tick(), at=over).then(asked(2, at=over))
    assert (again.action().lookups_asked, again.action().lookups_answered) == (2, 0)


def test_a_question_tells_when_the_effect_can_have_come_about() -> None:
    """From the first start that the provider may have seen, to the last lease of any."""
    again = after(200, started(2, at=200, first_at=0))
    lost = PROBING.and_then(again, after(250, unresolved(2)), lookup_due(300))
    span = {"first_started_at": T0, "last_lease_until": T0 + 200 + LEASE_MS}
    both = asked(2, at=300, attempts_upto=2).model_copy(update=span)
    lost.when(tick(), at=300).then(both)


def test_a_question_names_what_was_told_to_be_moving() -> None:
    """By its own name some providers find it, and by no other; of two neither is asked for as the
    effect, nor one that came to nothing.
    """
    moving = [
        found_out(i.Meaning.PENDING, lookup=None, source=f"webhook:{name}", reference=name)
        for name in ("ch_1", "ch_2")
    ]
    nothing = found_out(
        i.Meaning.INCONCLUSIVE, lookup=None, source="webhook:none", reference="ch_3"
    )
    named = asked(at=100).model_copy(update={"reference": "ch_1"})
    once = LOST.and_then(kept(moving[0]))
    once.when(tick(), at=100).then(named)
    once.and_then(kept(nothing)).when(tick(), at=100).then(named)
    once.and_then(kept(moving[1])).when(tick(), at=100).then(asked(at=100))
    over = kept(
        found_out(i.Meaning.NO_EFFECT, lookup=None, source="webhook:over", reference="ch_1")
    )
    once.and_then(over).when(tick(), at=100).then(asked(at=100))


def test_while_a_question_is_out_nothing_starts() -> None:
    """The answer decides what comes next."""
    ASKING.when(tick(), at=101, offer=offer()).then_unchanged("nothing_due")


# --- withdrawn operations ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("history", "at"), [(READY, 0), (WAITING, 100), (LOST, 100), (PROBING, 200)]
)
def test_what_needs_a_withdrawn_operation_goes_to_a_person(history: Given, at: int) -> None:
    """Without its declaration nothing can be decided about an action."""
    history.under(withdrawn()).when(tick(), at=at, offer=offer()).then(
        review("operation_withdrawn")
    )


def test_what_waits_does_not_mind_a_withdrawn_operation_yet() -> None:
    """A timer that is not due and a call that is out are left alone."""
    for history, at in ((LOST, 99), (RUNNING, 99), (ASKING, 101)):
        history.under(withdrawn()).when(tick(), at=at).then_unchanged("nothing_due")


def test_a_report_under_a_withdrawn_operation() -> None:
    """Outcomes are recorded; what would need the declaration needs a person."""
    gone = RUNNING.under(withdrawn())
    gone.when(report(refusal())).then(refused(), review("operation_withdrawn"))
    gone.when(report(no_answer())).then(unresolved(), review("operation_withdrawn"))
    gone.when(decline()).then(declined(), review("operation_withdrawn"))


# --- many and none -----------------------------------------------------------------------------


def test_every_action_of_a_stream_gets_what_is_due() -> None:
    """One tick serves the whole stream."""
    email = (recorded(EMAIL), automatic(EMAIL), started(key=EMAIL))
    both = LOST.and_then(*email)
    both.when(tick(), at=LAPSE).then(
        asked(at=LAPSE),
        unresolved(key=EMAIL, code="lease_lapsed"),
        review("no_way_to_find_out", key=EMAIL),
    )


def test_final_actions_and_unknown_streams_have_nothing_due() -> None:
    """A tick that comes late finds nothing to do."""
    given().when(tick(), offer=offer()).then_unchanged("nothing_due")
    for final in (
        RUNNING.and_then(succeeded(), completed()),
        READY.and_then(cancelled()),
        READY.and_then(expired()),
    ):
        final.when(tick(), at=STEP_MS, offer=offer(until=STEP_MS)).then_unchanged("nothing_due")


# --- when to look ------------------------------------------------------------------------------


def due(history: Given, now: int = 0) -> int | None:
    """When time next changes the action, after T0."""
    at = due_at(history.action(), T0 + now, skew_ms=SKEW_MS)
    return None if at is None else at - T0


def test_when_an_action_is_next_due() -> None:
    """The owner's timer is set to the moment at which a tick would do something."""
    assert due(READY) == STEP_MS
    assert due(RUNNING) == LAPSE
    assert due(WAITING) == 100
    assert due(WAITING, 100) == STEP_MS
    assert due(LOST) == 100
    assert due(LOST, 100) == 100
    assert due(ASKING) == 100 + LOOKUP_ANSWER_MS
    assert due(PROBING) == 200
    assert due(PROBING, 200) == STEP_MS
    assert due(RUNNING.and_then(review("amount_differs"))) == LAPSE
    assert due(ASKING.and_then(review("operation_withdrawn"))) == 100 + LOOKUP_ANSWER_MS
    assert due(LOST.and_then(review("operation_withdrawn"))) is None


def test_a_retry_behind_the_step_deadline_is_due_at_the_deadline() -> None:
    """A ready action expires on time even while it waits for a later retry."""
    assert due(RUNNING.and_then(unsent(), retry_due(STEP_MS + 5))) == STEP_MS


def test_who_waits_for_capacity() -> None:
    """Ready with no timer or one that is due; unknown with a retry that is due; nothing else."""

    def waits(history: Given, now: int = 0) -> bool:
        return awaits_offer(history.action(), T0 + now)

    assert waits(READY)
    assert not waits(RUNNING)
    assert not waits(WAITING, 99)
    assert waits(WAITING, 100)
    assert not waits(LOST, 100)
    assert not waits(ASKING, 100)
    assert not waits(PROBING, 199)
    assert waits(PROBING, 200)
    assert not waits(READY.and_then(review("operation_withdrawn")))


HISTORIES = (READY, RUNNING, WAITING, LOST, ASKING, PROBING)


@pytest.mark.parametrize("history", HISTORIES)
def test_a_tick_at_the_due_time_does_something(history: Given) -> None:
    """A timer that fires is never idle: else its stream would be ticked for ever."""
    now = 0
    while (at := due(history, now)) is not None and at > now:
        now = at
        then = history.when(tick(), at=now)
        if then.decided.facts:
            return
    raise AssertionError(f"nothing is ever due in {history.action().status}")


# --- backoff -----------------------------------------------------------------------------------


def test_backoff_grows_to_its_cap_and_is_never_nothing() -> None:
    """Full jitter: between one millisecond and a ceiling that doubles until the cap."""
    for tries in range(12):
        ceiling = min(BACKOFF_MAX_MS, BACKOFF_BASE_MS * 2 ** max(0, tries - 1))
        draws = [
            backoff_ms(f"k{n}", tries, base_ms=BACKOFF_BASE_MS, cap_ms=BACKOFF_MAX_MS)
            for n in range(200)
        ]
        assert min(draws) >= 1
        assert max(draws) <= ceiling
        assert max(draws) > ceiling * 0.9
        assert min(draws) < ceiling * 0.1


def test_backoff_is_the_same_for_the_same_try() -> None:
    """The draw is the action's own: a replay waits as long, and another action differently."""
    draws = {backoff_ms("a", 3, base_ms=1_000, cap_ms=60_000) for _ in range(5)}
    assert len(draws) == 1
    assert draws != {backoff_ms("b", 3, base_ms=1_000, cap_ms=60_000)}
    assert backoff_ms("a", 10**6, base_ms=1_000, cap_ms=60_000) <= 60_000
    assert backoff_ms("a", 1, base_ms=1, cap_ms=1) == 1


def test_a_timer_that_is_set_lies_ahead() -> None:
    """No retry or lookup is ever planned for a moment that has passed."""
    for outcome in (refusal(), not_sent(), no_answer()):
        for fact in RUNNING.when(report(outcome), at=50).decided.facts:
            assert not isinstance(fact, TimerSet) or fact.due_at > T0 + 50
