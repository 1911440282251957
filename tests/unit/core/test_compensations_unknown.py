"""Compensations that are unknown while something else is told of what they undo: nothing of them is
sent again by itself, and a person is told as soon as nobody else can say what became of them.
"""

from dataclasses import replace
from typing import Final

from ledger.core.catalogue import Catalogue
from ledger.core.config import Config
from ledger.core.inputs import Meaning
from ledger.core.state import Status
from ledger.core.statement import Move
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
