"""Ceilings: what they count, in which window, and what an agent says of its run."""

from datetime import UTC, datetime

import pytest

from ledger.core.ceilings import Ceiling, zone_of
from ledger.core.gates import Gate, spend
from ledger.core.limits import REPORTERS_MAX
from ledger.core.money import Money
from ledger.core.records import Decision
from ledger.core.rejections import Rejection
from ledger.core.state import Status
from tests import examples as x
from tests.examples_of_gates import steps
from tests.unit.core.crossing import A, B, C, Crossing, D, ceiling, passes, refused

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
USD_1 = Money(minor=100, currency="USD")


def at(zone: str, *local: int, fold: int = 0) -> int:
    """A local time as log time."""
    moment = datetime(*local, tzinfo=zone_of(zone), fold=fold)  # type: ignore[arg-type,misc]
    return int(moment.timestamp()) * 1_000


def window(name: str, zone: str, moment: int) -> str:
    """The window of a ceiling that a moment lies in."""
    fields = {"name": "c", "per": "tenant", "window": name, "zone": zone, "side_effects": 1}
    return Ceiling.model_validate(fields).window_at(moment)


# --- what counts ---------------------------------------------------------------------------------


def test_each_currency_counts_for_itself() -> None:
    """No sum is taken over currencies, and what is not named may not be spent at all."""
    world = Crossing(ceiling(spend={"EUR": 9_000, "USD": 100}) + passes("run"))
    world.proposes(A, run="r1")
    world.proposes(B, run="r1", money=USD_1)
    assert world.statuses(A, B) == [Status.ATTEMPTING, Status.ATTEMPTING]
    world.proposes(C, run="r1", money=USD_1)
    assert world.refusal(C) == ("ceiling_reached", "run")
    world.proposes(D, run="r2", money=Money(minor=1, currency="GBP"))
    (*_, refusal) = (fact for fact in world.facts if fact.type == "reservation.refused")
    assert refusal.reached is not None
    assert (refusal.reached.dimension, refusal.reached.limit) == (spend("GBP"), 0)


def test_what_costs_nothing_passes_a_ceiling_of_money() -> None:
    """An action without an amount takes none of it."""
    world = Crossing(ceiling(spend={"EUR": 1}) + passes("run"))
    world.proposes(x.NOTE, run="r1")
    assert world.status(x.NOTE) is Status.ATTEMPTING


def test_the_last_one_fits_exactly() -> None:
    """A ceiling is what may be reached, and not what may be passed."""
    world = Crossing(ceiling(spend={"EUR": 9_980}) + passes("run"))
    for key in (A, B):
        world.proposes(key, run="r1")
        assert world.status(key) is Status.ATTEMPTING
    world.proposes(C, run="r1", money=Money(minor=1, currency="EUR"))
    assert world.refusal(C) == ("ceiling_reached", "run")


def test_a_run_has_its_time() -> None:
    """The clock begins with the first that the gate hears of the run, and is the log's."""
    world = Crossing(ceiling(wall_clock_ms=60_000) + passes("run"))
    world.proposes(A, run="r1")
    world.proposes(B, run="r1", at=59_999)
    assert world.status(B) is Status.ATTEMPTING
    world.proposes(C, run="r1", at=60_000)
    assert world.refusal(C) == ("ceiling_reached", "run")
    world.proposes(D, run="r2")
    assert world.status(D) is Status.ATTEMPTING


def test_two_ceilings_on_one_gate_are_asked_in_one_question() -> None:
    """Both count, the first that is reached is named."""
    text = ceiling("few", side_effects=2) + ceiling("cheap", spend={"EUR": 6_000})
    world = Crossing(text + passes("few", "cheap"))
    world.proposes(A, run="r1")
    assert len(world.action(A).claims) == 1
    world.proposes(B, run="r1")
    assert world.refusal(B) == ("ceiling_reached", "cheap")


def test_a_person_raises_a_ceiling_once_and_for_one_action() -> None:
    """For all others it stands, also for the next that comes."""
    world = Crossing(ceiling(side_effects=1) + passes("run"))
    for key in (A, B, C):
        world.proposes(key, run="r1")
    assert refused(world.allows(B, "day")) is Rejection.ACCEPTS_UNFIT
    world.allows(B, "run")
    assert world.status(B) is Status.ATTEMPTING
    assert world.run().taken("side_effects") == 2
    assert world.status(C) is Status.NEEDS_REVIEW
    world.proposes(D, run="r1")
    assert world.refusal(D) == ("ceiling_reached", "run")


# --- what an agent says --------------------------------------------------------------------------


def reaching(decision: Decision) -> list[str]:
    """The dimensions that an agent is told it has used up."""
    (fact,) = decision.gate or ()
    assert fact.type == "step.reported"
    return [one.dimension for one in fact.reached or ()]


def test_what_an_agent_reports_counts_and_stops_it() -> None:
    """Steps, tool calls and tokens are its own word; once they are used up nothing starts."""
    text = ceiling(steps=3, tool_calls=10, tokens=9_000) + passes("run")
    world = Crossing(text)
    assert reaching(world.hears(steps(1, run="r1", tool_calls=4, tokens=8_000))) == []
    world.proposes(A, run="r1")
    assert world.status(A) is Status.ATTEMPTING
    assert reaching(world.hears(steps(2, run="r1", tokens=1_000))) == ["tokens"]
    world.proposes(B, run="r1")
    assert world.refusal(B) == ("ceiling_reached", "run")
    assert world.run().used == {"steps": 2, "tool_calls": 4, "tokens": 9_000}


def test_a_step_counts_once() -> None:
    """The same again, or an earlier one that comes late, is known."""
    world = Crossing(ceiling(steps=9) + passes("run"))
    world.hears(steps(2, run="r1", tokens=5))
    for step in (2, 1):
        answer = world.hears(steps(step, run="r1", tokens=5))
        assert answer.unchanged is not None
        assert answer.unchanged.reason == "step_known"
    world.hears(steps(2, run="r1", reporter="other", tokens=5))
    assert world.run().used == {"steps": 2, "tokens": 10}


def test_a_reporter_of_a_run_is_whoever_reported_first_under_its_name() -> None:
    """Another principal counts nothing under it, not even what is known, and may use a name of its
    own.
    """
    world = Crossing(ceiling(steps=9) + passes("run"))
    world.hears(steps(1, run="r1"))
    other = {"principal": "agent:other"}
    for step in (1, 2):
        said = steps(step, run="r1").model_copy(update=other)
        assert refused(world.hears(said)) is Rejection.OTHER_REPORTER
    own = steps(1, run="r1", reporter="other").model_copy(update=other)
    assert refused(world.hears(own)) is None
    assert refused(world.hears(steps(2, run="r1"))) is None
    assert world.run().used == {"steps": 3}


def test_reporters_of_a_run_are_few() -> None:
    """One name more is refused; the names that are known go on."""
    world = Crossing(ceiling(steps=9_999) + passes("run"))
    for number in range(REPORTERS_MAX):
        world.hears(steps(1, run="r1", reporter=f"agent-{number}"))
    more = world.hears(steps(1, run="r1", reporter="one-more"))
    assert refused(more) is Rejection.TOO_MANY_REPORTERS
    assert refused(world.hears(steps(2, run="r1", reporter="agent-0"))) is None
    assert world.run().used == {"steps": REPORTERS_MAX + 1}


@pytest.mark.parametrize("name", ["side_effects", "spend.EUR", "wall_clock_ms", "steps", "mood"])
def test_an_agent_reports_only_what_nobody_else_knows(name: str) -> None:
    """What the ledger counts itself no agent talks up or down; its steps are counted for it."""
    world = Crossing(ceiling() + passes("run"))
    said = steps(1, run="r1").model_copy(update={"amounts": {name: 1}})
    decision = world.hears(said)
    assert refused(decision) is Rejection.INVALID_REQUEST
    assert decision.refused is not None
    assert [one.path for one in decision.refused.details] == [f"/amounts/{name}"]


@pytest.mark.parametrize("gate", ["acme/target:order:A-1842", "acme/window:day:2027-01-15"])
def test_only_runs_have_steps(gate: str) -> None:
    """Nobody writes to a window or a target."""
    world = Crossing(ceiling() + passes("run"))
    said = steps(1).model_copy(update={"gate": gate})
    assert refused(world.hears(said)) is Rejection.MALFORMED_KEY


# --- windows -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "zone", "local", "expected"),
    [
        ("day", "UTC", (2027, 1, 15, 23, 59, 59), "2027-01-15"),
        ("day", "Asia/Shanghai", (2027, 1, 15, 0, 0, 1), "2027-01-15"),
        ("day", "Europe/Paris", (2027, 3, 28, 12), "2027-03-28"),
        ("hour", "UTC", (2027, 1, 15, 23, 59), "2027-01-15T23Z"),
        ("hour", "Asia/Kolkata", (2027, 1, 15, 23, 59), "2027-01-15T23p0530"),
        ("hour", "America/New_York", (2027, 1, 15, 23), "2027-01-15T23-0500"),
        ("week", "UTC", (2027, 1, 3, 23, 59), "2026-W53"),
        ("week", "UTC", (2027, 1, 4), "2027-W01"),
        ("month", "Pacific/Auckland", (2027, 2, 28, 23, 59, 59), "2027-02"),
    ],
)
def test_a_window_is_named_by_its_local_date(
    name: str, zone: str, local: tuple[int, ...], expected: str
) -> None:
    """Whoever reads the key of a gate knows the day, the week or the month."""
    assert window(name, zone, at(zone, *local)) == expected


def test_a_day_is_as_long_as_it_is_there() -> None:
    """23 hours in spring, 25 in autumn, and each hour of the long night is one of its own."""
    begins, ends = at("Europe/Paris", 2027, 3, 28), at("Europe/Paris", 2027, 3, 29)
    assert ends - begins == 23 * HOUR_MS
    days = {window("day", "Europe/Paris", begins + ms) for ms in range(0, 23 * HOUR_MS, HOUR_MS)}
    assert days == {"2027-03-28"}
    begins, ends = at("Europe/Paris", 2027, 10, 31), at("Europe/Paris", 2027, 11, 1)
    assert ends - begins == 25 * HOUR_MS
    hours = [window("hour", "Europe/Paris", begins + n * HOUR_MS) for n in range(25)]
    assert len(set(hours)) == 25
    assert hours[2:4] == ["2027-10-31T02p0200", "2027-10-31T02p0100"]


def test_what_was_used_stays_in_its_window() -> None:
    """A new day begins with nothing used; what was asked for yesterday counts yesterday, whenever
    it comes to its end.
    """
    text = ceiling("day", "tenant", window="day", side_effects=1) + passes("day")
    world = Crossing(text)
    left_ms = DAY_MS - x.T0 % DAY_MS
    world.proposes(A)
    world.proposes(B)
    assert world.refusal(B) == ("ceiling_reached", "day")
    world.proposes(C, at=left_ms, starts=False)
    assert world.status(C) is Status.READY
    world.completes(A)
    assert world.window("day:2027-01-15").used["side_effects"] == 1
    assert world.held(world.window("day:2027-01-16")) == [C]


def test_a_window_of_a_target_is_that_targets_own() -> None:
    """What one customer takes in an hour is no other's."""
    text = ceiling("each", "target", window="hour", side_effects=1) + passes("each")
    world = Crossing(text)
    world.proposes(A)
    world.proposes(B, target="order:B-1")
    world.proposes(C)
    assert world.statuses(A, B) == [Status.ATTEMPTING, Status.ATTEMPTING]
    assert world.refusal(C) == ("ceiling_reached", "each")
    assert world.window("each:2027-01-15T08Z:order:A-1842").taken("side_effects") == 1


def test_an_empty_gate_is_asked_like_any_other() -> None:
    """A limit of nothing lets nothing through, also before anything was used."""
    none = Ceiling.model_validate({"name": "c", "per": "run", "side_effects": 0})
    assert none.reached(None, {"side_effects": 1}, x.T0) is not None
    assert none.reached(Gate(1, x.T0, {}), {}, x.T0) is None


def test_now_is_in_these_windows() -> None:
    """The times of these tests are what their names say."""
    assert datetime.fromtimestamp(x.T0 / 1_000, UTC).isoformat() == "2027-01-15T08:00:00+00:00"
