"""Compensations that are unknown while something else is told of what they undo: nothing of them is
sent again by itself, and a person is told as soon as nobody else can say what became of them.
"""

from dataclasses import replace
from typing import Final

import pytest

from ledger.core.catalogue import Catalogue
from ledger.core.config import Config
from ledger.core.inputs import Meaning, ReportedOutcome
from ledger.core.state import Status
from ledger.core.statement import Move
from streams.timetable import Timetable
from tests import examples as x
from tests.examples import CHARGE, PAYOUT
from tests.unit.core.beside import Event, eur, world

UNDO: Final = PAYOUT
MORE: Final = f"{PAYOUT}#more"


def case(event: Event, key: str = UNDO) -> tuple[str, str | None] | None:
    """Why an action needs a person now, and what that is about."""
    found = event.action(key).case
    return None if found is None else (found.reason, found.names)


def undo(event: Event, key: str = UNDO) -> list[str]:
    """The agent asks to give the charge back, with capacity at hand."""
    return event.start(key, compensates=CHARGE)


def taken_otherwise_later(event: Event) -> None:
    """While a refund is under way the provider tells of another amount of the charge."""
    event.take(x.found_out(Meaning.EFFECT, lookup=None, money=eur(100)))
    event.settles(CHARGE, Move.ACKNOWLEDGE)


def asked_by_key() -> Config:
    """Payouts have no lookup: what became of one is found out with the same key again."""
    config = world()
    operations = tuple(
        one.model_copy(update={"reliability": "keyed", "key_window_ms": 86_400_000, "lookups": ()})
        if one.name == "payout"
        else one
        for one in config.catalogue.operations
    )
    known = config.catalogue
    return replace(config, catalogue=Catalogue(operations, config.content_hash, known.timing))


def unknown_by_key() -> Event:
    """A refund is unknown, and the provider tells of another amount of the charge meanwhile."""
    event = Event(asked_by_key())
    event.completes(CHARGE)
    undo(event)
    event.reports(UNDO, x.no_answer())
    taken_otherwise_later(event)
    return event


def test_one_that_is_unknown_is_not_tried_again_by_itself_but_by_a_person() -> None:
    """Where its request never arrived, the same key makes the effect: all would be given back of
    what was taken in part. A person is told at once, and not when the key is forgotten.
    """
    event = unknown_by_key()
    assert event.goes_on() == ["review.opened"]
    assert case(event) == ("original_amount_differs", CHARGE)
    assert event.goes_on(later=60_000) == []
    assert event.settles(UNDO, Move.ALLOW) == ["review.resolved", "timer.set"]
    event.now += 60_000
    offered = x.offer(at=event.now, until=event.now + 9, key=UNDO, incarnation="executor-again")
    event.hears(x.tick(), at=event.now, offer=offered)
    first, second = event.action(UNDO).attempts
    assert first.provider_key == second.provider_key
    assert event.reports(UNDO, x.success("re_1"))[-1] == "action.completed"


def test_a_person_who_knows_what_became_of_it_says_so_instead() -> None:
    """It had no effect: it is over, and what is asked for instead is a person's too."""
    event = unknown_by_key()
    event.goes_on(later=60_000)
    event.settles(UNDO, Move.NO_EFFECT)
    assert event.action(UNDO).status is Status.FAILED
    undo(event, MORE)
    assert case(event, MORE) == ("original_amount_differs", CHARGE)


def test_one_that_can_be_looked_up_is_asked_about_first() -> None:
    """Nothing of it is sent again, and a person hears of it once nobody can find out."""
    event = Event()
    event.completes(CHARGE)
    undo(event)
    event.reports(UNDO, x.no_answer())
    taken_otherwise_later(event)
    for number, _ in enumerate(x.LOOKUPS, start=1):
        assert event.goes_on(later=80_000) == ["lookup.started"]
        event.take(x.found_out(Meaning.PENDING, key=UNDO, lookup=number, reference="re_1"))
    assert case(event) == ("original_amount_differs", CHARGE)
    assert event.count("attempt.started", UNDO) == 1


# --- two in part ---------------------------------------------------------------------------------


def one_on_its_way_and_told() -> Event:
    """Of 49.90 a refund of 20.00 is on its way and another one of 20.00 is ready; the provider
    tells of the charge that 20.00 were given back before the first has its answer.
    """
    event = Event()
    event.completes(CHARGE)
    event.start(UNDO, compensates=CHARGE, money=eur(2_000))
    event.propose(MORE, compensates=CHARGE, money=eur(2_000))
    told = x.found_out(Meaning.REVERSED, lookup=None, source="evt_1", money=eur(2_000))
    event.take(told.model_copy(update={"reference": "re_1", "reverses": x.REFERENCE}))
    return event


def test_what_came_back_before_the_answer_to_a_refund_keeps_another_one_waiting() -> None:
    """Whose that is says the answer, which is awaited: until then nothing more leaves, nobody is
    asked to let more go back than was taken, and no tick is written for it.
    """
    event = one_on_its_way_and_told()
    assert (event.action(MORE).status, case(event, MORE)) == (Status.READY, None)
    assert event.goes_on() == []
    timetable = Timetable()
    timetable.schedule(event.known.stream, x.T0 + event.now, event.known.config)
    assert list(timetable.awaiting) == []


def test_the_answer_by_that_name_lets_the_other_refund_go() -> None:
    """What came back is what was sent: 29.90 are left."""
    event = one_on_its_way_and_told()
    event.reports(UNDO, x.success("re_1"))
    timetable = Timetable()
    timetable.schedule(event.known.stream, x.T0 + event.now, event.known.config)
    assert list(timetable.awaiting) == [event.known.stream.key]
    assert event.goes_on() == ["attempt.started"]


@pytest.mark.parametrize("answer", [x.success("re_2"), x.no_answer()])
def test_any_other_answer_hands_the_other_refund_to_a_person(answer: ReportedOutcome) -> None:
    """20.00 came back elsewhere, or nobody knows: with both, 60.00 may come back."""
    event = one_on_its_way_and_told()
    event.reports(UNDO, answer)
    assert case(event, MORE) == ("returned_already", "20.00 EUR of 49.90 EUR: re_1")


def test_an_answer_that_never_comes_hands_the_other_refund_to_a_person() -> None:
    """Nobody waits beyond the time that the holder has."""
    event = one_on_its_way_and_told()
    event.now = event.action(UNDO).attempts[-1].lease_until - x.T0 + 60_000
    event.goes_on()
    assert event.action(UNDO).status is Status.UNKNOWN
    assert case(event, MORE) == ("returned_already", "20.00 EUR of 49.90 EUR: re_1")
