"""Offers as the owner sees them: who has how many slots, until when, and never twice."""

import pytest

from ledger.core import inputs as i
from ledger.core.limits import OFFERS_REMEMBERED_MAX
from ledger.core.records import Cause, Decision
from streams.offers import OfferBook
from tests.examples import STREAM, T0, started

NOBODY: frozenset[str] = frozenset()


def offered(
    name: str = "a",
    *,
    sequence: int = 1,
    slots: int = 2,
    seen: int = 10,
    operations: tuple[str, ...] = ("charge",),
) -> i.Offered:
    """An offer good for a hundred milliseconds."""
    return i.Offered(
        incarnation=name,
        sequence=sequence,
        operations=operations,
        slots=slots,
        seen_offset=seen,
        valid_ms=100,
    )


def start_at(offset: int, holder: str = "a") -> Decision:
    """A decision that spends a slot."""
    fact = started(holder=holder).model_copy(update={"version": 3})
    cause = Cause(topic="intents", partition=0, offset=offset)
    return Decision(at=offset, epoch=1, cause=cause, decided_at=T0, stream=STREAM, facts=(fact,))


def picked(book: OfferBook, at: int = 0, *, declined: frozenset[str] = NOBODY) -> str | None:
    """Who would be asked."""
    offer = book.pick("charge", T0 + at, declined)
    return None if offer is None else offer.incarnation


def book_of(*offers: i.Offered) -> OfferBook:
    """A book with these offers, all appended at T0."""
    book = OfferBook()
    for one in offers:
        book.offered(one, T0)
    return book


def test_an_offer_is_good_for_its_time_and_its_operations() -> None:
    """Up to its last millisecond, and for what it names."""
    book = book_of(offered())
    assert picked(book, 100) == "a"
    assert picked(book, 101) is None
    assert book.pick("refund", T0, NOBODY) is None
    offer = book.pick("charge", T0, NOBODY)
    assert offer is not None
    assert (offer.operation, offer.sequence, offer.appended_at, offer.until_at) == (
        "charge",
        1,
        T0,
        T0 + 100,
    )


def test_whoever_has_most_left_is_asked() -> None:
    """Load goes where there is room; an incarnation that gave it back is passed over."""
    book = book_of(offered("a", slots=1), offered("b", slots=3), offered("c", slots=2))
    assert picked(book) == "b"
    assert picked(book, declined=frozenset({"b"})) == "c"
    assert picked(book, declined=frozenset({"a", "b", "c"})) is None


def test_a_slot_is_spent_once() -> None:
    """Reserved while it is decided, counted when it landed, free again when it was lost."""
    book = book_of(offered(slots=1))
    offer = book.pick("charge", T0, NOBODY)
    assert offer is not None
    book.reserve(offer)
    assert picked(book) is None
    book.settle_reservations()
    assert picked(book) == "a"
    book.reserve(offer)
    book.saw(start_at(11))
    book.settle_reservations()
    assert picked(book) is None


@pytest.mark.parametrize(("starts", "asked"), [((9, 10), "a"), ((10, 11), "a"), ((11, 12), None)])
def test_starts_that_the_offer_did_not_know_count_against_it(
    starts: tuple[int, ...], asked: str | None
) -> None:
    """What the incarnation had read when it offered is already taken off; what it had not is not,
    also for a new owner that folds the ledger from its beginning.
    """
    book = OfferBook()
    for offset in starts:
        book.saw(start_at(offset))
    book.offered(offered(slots=2, seen=10), T0)
    assert picked(book) == asked


def test_a_newer_offer_replaces_an_older_one_and_not_the_other_way_round() -> None:
    """Offers of one incarnation are numbered; a late one changes nothing."""
    book = book_of(offered(sequence=2, slots=5), offered(sequence=1, slots=9))
    offer = book.pick("charge", T0, NOBODY)
    assert offer is not None
    assert offer.sequence == 2
    book.offered(offered(sequence=3, slots=0), T0)
    assert picked(book) is None


def test_starts_of_others_do_not_count() -> None:
    """Each incarnation's slots are its own."""
    book = book_of(offered("a", slots=1))
    book.saw(start_at(11, holder="b"))
    assert picked(book) == "a"


def test_starts_of_callers_push_no_executor_out_of_the_memory() -> None:
    """Each call has a name of its own, and thousands of them make no executor forgotten."""
    book = OfferBook()
    book.saw(start_at(11))
    for number in range(OFFERS_REMEMBERED_MAX + 1):
        book.saw(start_at(12 + number, holder=f"caller:{number}"))
    book.offered(offered(slots=1, seen=10), T0)
    assert picked(book) is None
