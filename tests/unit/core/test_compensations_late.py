"""Compensations whose original is settled late, otherwise than was asked, or elsewhere: what could
not be undone is told once there is something to undo, and nothing gives back what nobody has taken.
"""

from dataclasses import replace

import pytest

from ledger.core.catalogue import Catalogue
from ledger.core.config import Config
from ledger.core.inputs import Meaning, Retry
from ledger.core.rejections import Rejection
from ledger.core.state import Status
from ledger.core.statement import Move
from tests import examples as x
from tests.asking import asked, policy
from tests.examples import CHARGE, PAYOUT
from tests.unit.core.beside import Event, eur, world
from tests.unit.core.crossing import passes

UNDO = PAYOUT
MORE = f"{PAYOUT}#more"


def undo(
    event: Event, key: str = UNDO, minor: int | None = None, *, step_ms: int | None = None
) -> list[str]:
    """The agent asks to give some of the charge back, all of it where it does not say, with
    capacity at hand that could carry it out.
    """
    money = None if minor is None else eur(minor)
    return event.propose(key, acts=True, compensates=CHARGE, money=money, step_ms=step_ms)


def lost() -> Event:
    """Nobody knows what became of the charge."""
    event = Event()
    event.start(CHARGE)
    event.reports(CHARGE, x.no_answer())
    return event


def case(event: Event, key: str = UNDO) -> tuple[str, str | None] | None:
    """Why an action needs a person now, and what that is about."""
    found = event.action(key).case
    return None if found is None else (found.reason, found.names)


def ran_out(event: Event) -> None:
    """A refund was asked for, and its caller's time is over before the charge is known."""
    undo(event, step_ms=60_000)
    event.goes_on(later=61_000)
    assert event.action(UNDO).status is Status.EXPIRED
    assert case(event) is None


# --- nothing that was to be undone is forgotten --------------------------------------------------


def test_one_that_expired_while_its_original_was_unknown_is_told_once_that_had_its_effect() -> None:
    """Nobody knew whether there was anything to undo; there is."""
    event = lost()
    ran_out(event)
    event.take(x.found_out(Meaning.EFFECT, lookup=None))
    assert case(event) == ("compensation_failed", CHARGE)
    event.settles(UNDO, Move.ACKNOWLEDGE)
    event.goes_on()
    undo(event, MORE)
    event.goes_on()
    assert case(event) is None
    assert event.action(MORE).status is Status.ATTEMPTING


def test_one_that_expired_is_not_told_where_there_turns_out_to_be_nothing_to_undo() -> None:
    """The charge had no effect: there is nothing that anybody would have to know."""
    event = lost()
    ran_out(event)
    event.take(x.found_out(Meaning.NO_EFFECT, lookup=None, reference="ch_0"))
    assert event.action().status is Status.FAILED
    assert case(event) is None


@pytest.mark.parametrize(("minor", "told"), [(None, False), (1_000, True)])
def test_one_that_expired_is_not_told_where_something_else_undoes_it(
    minor: int | None, *, told: bool
) -> None:
    """The agent has asked again meanwhile, for all of it, or for a part only."""
    event = lost()
    ran_out(event)
    undo(event, MORE, minor)
    event.take(x.found_out(Meaning.EFFECT, lookup=None))
    assert event.action(MORE).status is Status.READY
    assert (case(event) is not None) is told


def test_one_that_failed_while_its_original_was_contradicted_is_told_once_that_is_settled() -> None:
    """A second effect of the charge came to light before the refund was refused."""
    event = Event()
    event.completes(CHARGE)
    undo(event)
    event.goes_on()
    event.take(x.found_out(Meaning.EFFECT, lookup=None, reference="ch_2"))
    event.reports(UNDO, x.refusal("declined", Retry.NEVER))
    assert (event.action(UNDO).status, case(event)) == (Status.FAILED, None)
    event.settles(CHARGE, Move.ACKNOWLEDGE)
    assert case(event) == ("compensation_failed", CHARGE)


def stricter() -> Config:
    """A table that denies what undoes a charge."""
    denied = asked("payout").replace('"people"', '"deny"').replace("quorum = 1\n", "")
    return world(policy(denied.replace("valid_ms = 600000\n", "") + passes()))


def denied_while_unknown() -> Event:
    """A refund was taken while the charge is unknown; then the stricter table came, and time."""
    event = Event(world(policy(passes())))
    event.start(CHARGE)
    event.reports(CHARGE, x.no_answer())
    undo(event)
    event.known = replace(event.known, config=stricter())
    event.goes_on()
    return event


@pytest.mark.parametrize("is_known", [True, False])
def test_one_that_the_table_denies_at_once_is_answered_so_and_is_nobodys_case(
    *, is_known: bool
) -> None:
    """Whoever asked hears it in the answer, as for any action, and again where they ask again;
    once the table lets it another one may be asked for.
    """
    event = Event(stricter())
    event.start(CHARGE)
    event.reports(CHARGE, x.success() if is_known else x.no_answer())
    assert undo(event)[-1] == "action.denied"
    assert undo(event) == []
    event.take(x.found_out(Meaning.EFFECT, lookup=None))
    event.goes_on()
    assert (event.action(UNDO).status, case(event)) == (Status.DENIED, None)
    event.known = replace(event.known, config=world(policy(passes())))
    undo(event, MORE)
    assert event.action(MORE).status is Status.ATTEMPTING


def test_one_that_the_table_denies_at_its_turn_is_a_persons_case() -> None:
    """It was taken while the charge was unknown, and another table came: nobody was told."""
    event = Event(world(policy(passes())))
    event.start(CHARGE)
    undo(event)
    event.known = replace(event.known, config=stricter())
    assert event.reports(CHARGE, x.success())[-1] == "review.opened"
    assert event.action(UNDO).status is Status.DENIED
    assert case(event) == ("compensation_failed", CHARGE)


def test_one_that_the_table_denies_while_its_original_is_unknown_is_told_at_its_turn() -> None:
    """Time comes before the charge is known: it waits as before, and is refused when that is."""
    event = denied_while_unknown()
    assert event.action(UNDO).status is Status.BLOCKED
    assert event.goes_on() == []
    event.take(x.found_out(Meaning.EFFECT, lookup=None))
    assert event.action(UNDO).status is Status.DENIED
    assert case(event) == ("compensation_failed", CHARGE)


def test_one_that_a_table_would_have_denied_meanwhile_goes_on_where_another_lets_it() -> None:
    """The stricter table was a mistake, and is taken back before the charge is known."""
    event = denied_while_unknown()
    event.known = replace(event.known, config=world(policy(passes())))
    event.goes_on()
    event.take(x.found_out(Meaning.EFFECT, lookup=None))
    assert event.goes_on() == ["attempt.started"]


def test_one_that_the_table_denies_is_called_off_where_there_is_nothing_to_undo() -> None:
    """The charge had no effect: nobody has to hear that the refund would have been refused."""
    event = denied_while_unknown()
    event.take(x.found_out(Meaning.NO_EFFECT, lookup=None, reference="ch_0"))
    assert (event.action(UNDO).status, case(event)) == (Status.CANCELLED, None)


# --- another amount than was asked for -----------------------------------------------------------


def taken_otherwise() -> Event:
    """The provider has taken 1.00 EUR of 49.90, and a person says that this is the effect."""
    event = lost()
    event.take(x.found_out(Meaning.EFFECT, lookup=None, money=eur(100)))
    event.settles(CHARGE, Move.EFFECT_EXISTS)
    assert event.action().status is Status.COMPLETED
    return event


def test_c081_what_was_taken_in_another_amount_is_given_back_by_a_person_only() -> None:
    """C081: nobody here can say how much there is to give back, so no refund goes by itself."""
    event = taken_otherwise()
    undo(event)
    assert case(event) == ("original_amount_differs", CHARGE)
    assert event.goes_on() == []
    event.settles(UNDO, Move.ALLOW)
    assert case(event) is None
    assert event.goes_on() == ["attempt.started"]


def test_what_people_are_asked_about_waits_for_a_person_who_knows_of_the_amount() -> None:
    """A yes to the refund was asked with the amount of the request in view."""
    event = Event(world(policy(asked("payout") + passes())))
    event.completes(CHARGE)
    undo(event)
    event.take(x.found_out(Meaning.EFFECT, lookup=None, money=eur(100)))
    event.settles(CHARGE, Move.ACKNOWLEDGE)
    assert case(event) == ("original_amount_differs", CHARGE)
    assert event.goes_on() == []
    event.settles(UNDO, Move.ALLOW)
    event.says(UNDO)
    assert event.goes_on() == ["attempt.started"]


def test_one_that_was_asked_for_before_the_amount_was_known_waits_too() -> None:
    """It was blocked by the charge, and its turn comes as the person settles that."""
    event = lost()
    undo(event)
    event.take(x.found_out(Meaning.EFFECT, lookup=None, money=eur(100)))
    event.settles(CHARGE, Move.EFFECT_EXISTS)
    assert case(event) == ("original_amount_differs", CHARGE)
    event.settles(UNDO, Move.NO_EFFECT)
    assert event.action(UNDO).status is Status.CANCELLED


def taken_otherwise_later(event: Event) -> None:
    """While a refund is under way the provider tells of another amount of the charge."""
    event.take(x.found_out(Meaning.EFFECT, lookup=None, money=eur(100)))
    event.settles(CHARGE, Move.ACKNOWLEDGE)


def test_one_that_was_refused_for_now_is_a_persons_too_before_it_is_tried_again() -> None:
    """Its next attempt may not start by itself any more: whoever may let it pass is told at once,
    and not at its deadline, where nobody could.
    """
    event = Event()
    event.completes(CHARGE)
    undo(event)
    event.reports(UNDO, x.refusal("busy", Retry.LATER))
    taken_otherwise_later(event)
    assert case(event) == ("original_amount_differs", CHARGE)
    assert event.goes_on(later=60_000) == []
    event.settles(UNDO, Move.ALLOW)
    assert event.goes_on(later=60_000) == ["attempt.started"]
    assert event.reports(UNDO, x.success("re_1"))[-1] == "action.completed"


def test_one_that_is_refused_for_now_after_that_is_a_persons_as_soon_as_it_is() -> None:
    """It was at the provider while the other amount was told."""
    event = Event()
    event.completes(CHARGE)
    undo(event)
    taken_otherwise_later(event)
    assert event.action(UNDO).status is Status.ATTEMPTING
    assert event.reports(UNDO, x.refusal("busy", Retry.LATER))[-1] == "review.opened"
    assert case(event) == ("original_amount_differs", CHARGE)


def refunded(minor: int, told: int) -> Event:
    """Some of the charge was asked back, and the provider tells of another amount."""
    event = Event()
    event.completes(CHARGE)
    undo(event, minor=minor)
    event.reports(UNDO, x.no_answer())
    event.take(
        x.found_out(Meaning.EFFECT, key=UNDO, lookup=None, reference="re_1", money=eur(told))
    )
    return event


def test_what_is_left_waits_for_a_person_where_a_refund_gave_back_another_amount() -> None:
    """10.00 were asked back, and all of it came: what seems to be left is not there. A fee that was
    kept back is no other case: the ledger cannot tell them apart.
    """
    event = refunded(1_000, told=4_990)
    undo(event, MORE, 3_990)
    assert case(event, MORE) == ("original_amount_differs", UNDO)
    event.settles(UNDO, Move.EFFECT_EXISTS)
    assert event.goes_on() == []
    event.settles(MORE, Move.NO_EFFECT)
    assert event.count("attempt.started", MORE) == 0


def test_who_lets_an_amount_pass_has_not_said_that_so_much_may_come_back() -> None:
    """A refund was called off, and some of it came back all the same: another amount is one
    question, and that with this one more than all comes back is another.
    """
    event = Event()
    event.completes(CHARGE)
    event.propose(UNDO, compensates=CHARGE, money=eur(1_000))
    event.take(x.cancel(key=UNDO))
    event.propose(MORE, compensates=CHARGE)
    event.take(x.found_out(Meaning.EFFECT, key=UNDO, lookup=None, money=eur(500)))
    event.settles(UNDO, Move.ACKNOWLEDGE)
    assert case(event, MORE) == ("original_amount_differs", UNDO)
    event.settles(MORE, Move.ALLOW)
    assert case(event, MORE) == ("suspected_duplicate", UNDO)
    assert event.goes_on() == []
    event.settles(MORE, Move.ALLOW)
    assert event.goes_on() == ["attempt.started"]


def test_a_refund_that_was_done_twice_counts_twice() -> None:
    """The provider carried 20.00 of 49.90 out twice: 9.90 are left, not 29.90."""
    event = Event()
    event.completes(CHARGE)
    undo(event, minor=2_000)
    event.reports(UNDO, x.success("re_1"))
    second = x.found_out(Meaning.EFFECT, key=UNDO, lookup=None, reference="re_2", money=eur(2_000))
    event.take(second)
    event.settles(UNDO, Move.ACKNOWLEDGE)
    undo(event, MORE, 2_990)
    assert event.refusal() is Rejection.COMPENSATION_EXCEEDS
    assert [one.message for one in event.details] == ["9.90 EUR of 49.90 EUR is left"]
    undo(event, MORE, 990)
    assert event.action(MORE).status is Status.ATTEMPTING


def test_what_was_asked_for_before_a_refund_was_done_twice_waits_for_a_person() -> None:
    """It had room when it was asked for, and has none any more."""
    event = Event()
    event.completes(CHARGE)
    undo(event, minor=2_000)
    event.propose(MORE, compensates=CHARGE, money=eur(2_990))
    event.reports(UNDO, x.success("re_1"))
    second = x.found_out(Meaning.EFFECT, key=UNDO, lookup=None, reference="re_2", money=eur(2_000))
    event.take(second)
    event.settles(UNDO, Move.ACKNOWLEDGE)
    assert case(event, MORE) == ("returned_already", "20.00 EUR of 49.90 EUR: re_1, re_2")
    assert event.goes_on() == []


def tells(
    event: Event, reference: str, minor: int, meaning: Meaning = Meaning.EFFECT, key: str = UNDO
) -> None:
    """The provider tells of an object by its name and amount, in a piece of its own."""
    source, money = f"webhook:{meaning}:{reference}", eur(minor)
    piece = x.found_out(
        meaning, key=key, lookup=None, source=source, reference=reference, money=money
    )
    if meaning is Meaning.REVERSED:
        piece = piece.model_copy(update={"reverses": event.action(key).reference})
    event.take(piece)


def test_what_was_taken_in_another_amount_stays_so_whichever_case_comes_later() -> None:
    """1.00 of 49.90 was taken, and a dispute about 0.10 of that is noted as a case of its own."""
    event = taken_otherwise()
    tells(event, "dp_1", 10, Meaning.REVERSED, CHARGE)
    event.settles(CHARGE, Move.ACKNOWLEDGE)
    assert event.action().review != "amount_differs"
    undo(event, minor=4_000)
    assert case(event) == ("original_amount_differs", CHARGE)
    assert event.goes_on() == []


def test_a_second_refund_of_another_amount_is_both() -> None:
    """One case of two reasons: 10.00 were asked back, and all 49.90 are, in two effects. What is
    left by what was asked for is not there.
    """
    event = Event()
    event.completes(CHARGE)
    undo(event, minor=1_000)
    event.reports(UNDO, x.success("re_1"))
    tells(event, "re_2", 3_990)
    event.settles(UNDO, Move.ACKNOWLEDGE)
    assert event.action(UNDO).review == "second_effect"
    undo(event, MORE, 2_990)
    assert case(event, MORE) == ("original_amount_differs", UNDO)
    assert event.goes_on() == []


def test_of_a_refund_that_was_done_three_times_one_that_came_to_nothing_leaves_two() -> None:
    """20.00 of 49.90 thrice, and one of them failed after all: another case than before."""
    event = Event()
    event.completes(CHARGE)
    undo(event, minor=2_000)
    event.reports(UNDO, x.success("re_1"))
    tells(event, "re_2", 2_000)
    tells(event, "re_3", 2_000)
    event.settles(UNDO, Move.ACKNOWLEDGE)
    tells(event, "re_3", 2_000, Meaning.NO_EFFECT)
    event.settles(UNDO, Move.ACKNOWLEDGE)
    assert event.action(UNDO).review == "evidence_conflicts"
    undo(event, MORE, 2_990)
    assert event.refusal() is Rejection.COMPENSATION_EXCEEDS
    assert [one.message for one in event.details] == ["9.90 EUR of 49.90 EUR is left"]


# --- elsewhere -----------------------------------------------------------------------------------


def moved(config: Config, *names: str) -> Config:
    """The catalogue with some of its operations at another account."""
    operations = tuple(
        one.model_copy(update={"account": "second"}) if one.name in names else one
        for one in config.catalogue.operations
    )
    known = config.catalogue
    return replace(config, catalogue=Catalogue(operations, config.content_hash, known.timing))


@pytest.mark.parametrize(
    ("names", "refused"),
    [(("charge", "payout"), True), (("charge",), False), (("payout",), False)],
)
def test_an_effect_is_undone_at_the_account_where_it_was_done(
    names: tuple[str, ...], *, refused: bool
) -> None:
    """Both were moved since: the other account knows another effect by that name, or none. What
    undoes it where it was is right, and so is what was declared to act elsewhere.
    """
    event = Event()
    event.completes(CHARGE)
    event.known = replace(event.known, config=moved(event.known.config, *names))
    undo(event)
    assert (event.refusal() is Rejection.NOT_A_COMPENSATION) is refused
    assert [one.code for one in event.details] == (["other_account"] if refused else [])


def test_a_further_version_of_what_was_done_takes_no_undo_away() -> None:
    """Charges are undone at another account by design; newer ones are taken there too."""
    event = Event()
    event.completes(CHARGE)
    config = moved(event.known.config, "payout")
    known = config.catalogue
    charge = known.operation("charge", 1)
    assert charge is not None
    newer = charge.model_copy(update={"version": 2, "account": "second"})
    both = Catalogue((*known.operations, newer), config.content_hash, known.timing)
    event.known = replace(event.known, config=replace(config, catalogue=both))
    undo(event)
    assert event.refusal() is None
    assert event.action(UNDO).status is Status.ATTEMPTING


def test_where_another_version_acts_where_it_was_done_only_that_one_undoes_it() -> None:
    """The one that was asked for acts at another account: it knows another effect by that name."""
    event = Event()
    event.completes(CHARGE)
    config = moved(event.known.config, "payout")
    known = config.catalogue
    payout = x.CONFIG.catalogue.operation("payout", 1)
    assert payout is not None
    at_home = payout.model_copy(update={"version": 2})
    both = Catalogue((*known.operations, at_home), config.content_hash, known.timing)
    event.known = replace(event.known, config=replace(config, catalogue=both))
    undo(event)
    assert event.refusal() is Rejection.NOT_A_COMPENSATION
    assert [one.code for one in event.details] == ["other_account"]
