"""Public failure cases about ceilings, and about the same thing asked for twice: what the core
alone must answer, with the values of the reports.
"""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from ledger.core.blocking import blocking
from ledger.core.gates import spend
from ledger.core.inputs import Meaning
from ledger.core.money import Money
from ledger.core.state import Status
from ledger.core.statement import Move
from tests import examples as x
from tests.unit.core.crossing import (
    ONE_AT_A_TIME,
    A,
    B,
    C,
    Crossing,
    D,
    ceiling,
    passes,
)

DAY_MS = 24 * 3_600_000


def event(number: int) -> str:
    """The key of a charge of an event of its own."""
    return f"charge:v1:acme:event-{number}"


def euro(minor: int) -> Money:
    """An amount in minor units."""
    return Money(minor=minor, currency="EUR")


# --- ceilings ------------------------------------------------------------------------------------


@pytest.mark.case("C123")
def test_c123_four_calls_at_once_do_not_pass_a_cap_that_two_fill() -> None:
    """C123: a cap of 5.000000, of which 4.752720 is used; four parallel calls of 0.088400, each
    decided before any answer is there. Two pass, two are refused: 4.929520 and never more.
    """
    eur, cap, used, each = spend("EUR"), 5_000_000, 4_752_720, 88_400
    world = Crossing(ceiling(spend={"EUR": cap}) + passes("run"))
    world.proposes(event(0), run="r1", money=euro(used))
    world.completes(event(0))
    world.holds_back = True
    calls = [event(number) for number in (1, 2, 3, 4)]
    for key in calls:
        world.proposes(key, run="r1", money=euro(each))
    assert {world.status(key) for key in calls} == {Status.BLOCKED}
    while world.ledger.said:
        world.hears(world.ledger.said.popleft())
        assert world.run().taken(eur) <= cap
    stands = sorted(world.status(key) for key in calls)
    assert stands == [Status.ATTEMPTING, Status.ATTEMPTING, *[Status.NEEDS_REVIEW] * 2]
    assert world.run().taken(eur) == 4_929_520


@pytest.mark.case("C125")
def test_c125_what_is_unknown_counts_until_it_is_proven_that_nothing_happened() -> None:
    """C125: a cap of 10000, two actions of 4000 unknown, a third of 4000 is refused, because 8000
    are held. One is proven to have failed: its 4000 are free, and the third may run.
    """
    eur = spend("EUR")
    world = Crossing(ceiling(spend={"EUR": 10_000}) + passes("run"))
    for key in (A, B):
        world.proposes(key, run="r1", money=euro(4_000))
        world.loses(key, at=5)
    world.proposes(C, run="r1", money=euro(4_000))
    assert world.statuses(A, B, C) == [Status.UNKNOWN, Status.UNKNOWN, Status.NEEDS_REVIEW]
    assert world.refusal(C) == ("ceiling_reached", "run")
    assert world.run().taken(eur) == 8_000
    world.settles(C, Move.TRY_AGAIN)
    assert world.refusal(C) == ("ceiling_reached", "run")
    world.hears(x.found_out(Meaning.NO_EFFECT, key=A, lookup=None))
    assert world.status(A) is Status.FAILED
    assert world.run().taken(eur) == 4_000
    world.settles(C, Move.TRY_AGAIN)
    assert world.status(C) is Status.ATTEMPTING
    assert world.run().taken(eur) == 8_000


@pytest.mark.case("C127")
def test_c127_a_day_in_shanghai_ends_at_midnight_in_shanghai() -> None:
    """C127: a cap of 10000 a day there, used up at 21:30. One second before midnight it is refused,
    one second after it is allowed, and the window that counted is named.
    """
    zone = ZoneInfo("Asia/Shanghai")

    def local(*clock: int) -> int:
        moment = datetime(2027, 1, *clock, tzinfo=zone)  # type: ignore[misc,arg-type]
        return int(moment.timestamp()) * 1_000 - x.T0

    day = ceiling("team", "tenant", window="day", zone=zone.key, spend={"EUR": 10_000})
    world = Crossing(day + passes("team"))
    world.proposes(A, money=euro(10_000), at=local(15, 21, 30))
    world.completes(A)
    world.proposes(B, money=euro(1), at=local(15, 23, 59, 59))
    assert world.refusal(B) == ("ceiling_reached", "team")
    world.proposes(C, money=euro(1), at=local(16, 0, 0, 1))
    assert world.status(C) is Status.ATTEMPTING
    assert [one.gate for one in world.action(C).claims] == ["acme/window:team:2027-01-16"]
    assert world.window("team:2027-01-15").used[spend("EUR")] == 10_000


@pytest.mark.case("C115")
def test_c115_many_small_requests_are_one_large_one() -> None:
    """C115: ten requests of 4999 where 5000 are the limit, for one target in one hour. With the
    second the sum crosses it: it needs a person's signature, and so does each one after it.
    """
    hourly = ceiling("unsigned", "target", window="hour", spend={"EUR": 5_000})
    world = Crossing(hourly + passes("unsigned"))
    for number in range(10):
        world.proposes(event(number), money=euro(4_999), at=number * 60_000)
    assert world.status(event(0)) is Status.ATTEMPTING
    assert {world.refusal(event(number)) for number in range(1, 10)} == {
        ("ceiling_reached", "unsigned")
    }
    world.allows(event(1), "unsigned")
    assert world.status(event(1)) is Status.ATTEMPTING
    assert world.status(event(2)) is Status.NEEDS_REVIEW


# --- the same thing again ------------------------------------------------------------------------


@pytest.mark.case("C003")
def test_c003_a_second_key_for_what_is_unknown_does_not_run() -> None:
    """C003: 4999 time out; twenty seconds later the same arguments come under a new key. The second
    is recorded, names the first, and nothing is sent for it until a person has decided.
    """
    world = Crossing(ONE_AT_A_TIME, look_alike_window_ms=DAY_MS)
    world.proposes(A, money=euro(4_999))
    world.loses(A, at=5_000)
    world.proposes(B, money=euro(4_999), at=20_000)
    assert world.status(A) is Status.UNKNOWN
    assert world.refusal(B) == ("suspected_duplicate", A)
    world.waits(ms=60_000)
    assert world.action(B).attempts == ()
    world.hears(x.found_out(Meaning.EFFECT, lookup=None, money=euro(4_999)))
    assert world.status(A) is Status.COMPLETED
    assert world.status(B) is Status.NEEDS_REVIEW
    world.settles(B, Move.NO_EFFECT)
    assert world.action(B).attempts == ()
    assert world.status(B) is Status.CANCELLED


@pytest.mark.case("C119")
def test_c119_other_arguments_in_the_same_run_do_not_make_it_another_thing() -> None:
    """C119: 1000 for an invoice succeeded, and the agent crashed. Its run asks for 1001 for the
    same invoice under a key of those arguments: it is held, and the first is named.
    """
    world = Crossing(ONE_AT_A_TIME, look_alike_window_ms=DAY_MS)
    world.proposes(A, run="r1", money=euro(1_000), target="order:i7")
    world.completes(A)
    world.proposes(B, run="r1", money=euro(1_001), target="order:i7", at=30_000)
    assert world.refusal(B) == ("suspected_duplicate", A)
    world.proposes(C, run="r1", money=euro(1_001), target="order:i8")
    assert world.status(C) is Status.ATTEMPTING
    world.proposes(D, run="r2", money=euro(1_001), target="order:i7")
    assert world.status(D) is Status.ATTEMPTING


@pytest.mark.case("C121")
def test_c121_a_new_run_that_has_forgotten_is_reminded() -> None:
    """C121: the action succeeded, what the agent kept of it was lost, and a new run asks again
    under a new key. It is held as the same, and the one that was done is named with its outcome.
    """
    world = Crossing(ONE_AT_A_TIME, look_alike_window_ms=DAY_MS)
    world.proposes(A, run="conversation-1", batch="thread-9")
    world.completes(A)
    world.proposes(B, run="conversation-2", batch="thread-9", at=3_600_000)
    reason, names = world.refusal(B)
    assert (reason, names) == ("suspected_duplicate", A)
    assert names is not None
    assert world.action(names).reference == "ch_1"
    assert world.action(names).batch == world.action(B).batch
    assert blocking(world.action(B)) is None
