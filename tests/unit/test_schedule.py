"""Daily jobs on the days on which clocks change, and on all others: one occurrence, never none."""

from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actionledger import Intent, Succeeded, testing
from actionledger.schedule import Daily, LocalTime, Occurrence
from ledger.core.ids import ActionId
from ledger.core.unstable_keys import instabilities

BERLIN = Daily("invoice.send", at=time(2, 30), zone="Europe/Berlin")
OCTOBER, MARCH = date(2026, 10, 25), date(2026, 3, 29)


def utc(text: str) -> datetime:
    """A moment in UTC: `2026-10-25 00:30`."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.case("C129")
def test_c129_a_time_that_exists_twice_is_due_the_first_time() -> None:
    """C129: on the night on which the clocks go back, 02:30 comes at 00:30Z and at 01:30Z. Both
    firings are one occurrence with one key.
    """
    first, second = BERLIN.at(utc("2026-10-25 00:30")), BERLIN.at(utc("2026-10-25 01:30"))
    assert first == second == BERLIN.on(OCTOBER)
    assert first == Occurrence(
        "invoice.send-2026-10-25", OCTOBER, utc("2026-10-25 00:30"), LocalTime.TWICE
    )


@pytest.mark.case("C129")
def test_c129_a_time_that_does_not_exist_is_due_when_the_clocks_have_gone_forward() -> None:
    """C129: 02:30 is left out on 29 March; 03:00, the next moment that exists, stands in for it,
    and the occurrence says so. Nothing is left out in silence.
    """
    march = BERLIN.on(MARCH)
    assert march == Occurrence(
        "invoice.send-2026-03-29", MARCH, utc("2026-03-29 01:00"), LocalTime.NEVER
    )
    assert march.due_at.astimezone(ZoneInfo("Europe/Berlin")).time() == time(3)
    assert BERLIN.at(march.due_at) == march


@pytest.mark.case("C129")
async def test_c129_a_job_that_fires_twice_in_a_night_acts_once() -> None:
    """C129: the scheduler of October fires twice and the ledger has one action; that of March asks
    what is due and sends its invoice too.
    """
    fired = [utc("2026-10-25 00:30"), utc("2026-10-25 01:30")]
    events = [BERLIN.at(moment).business_event for moment in fired]
    missing = BERLIN.due(after=utc("2026-03-28 12:00"), until=utc("2026-03-29 12:00"))
    events += [one.business_event for one in missing]
    async with testing.ledger() as world:
        for event in events:
            sent = Intent(
                operation="ticket",
                business_event=event,
                params={"title": "Send the invoices"},
                environment="test",
            )
            assert isinstance(await world.ledger.propose(sent), Succeeded)
        keys = [effect.action_key for effect in world.provider.effects]
    assert keys == [f"ticket:v1:acme:invoice.send-2026-{day}" for day in ("10-25", "03-29")]


@pytest.mark.parametrize(
    ("zone", "at", "day", "due_at", "kind"),
    [
        ("Europe/Berlin", time(2, 30), date(2026, 8, 28), "2026-08-28 00:30", LocalTime.ONCE),
        ("Europe/Berlin", time(1, 59, 59), OCTOBER, "2026-10-24 23:59:59", LocalTime.ONCE),
        ("Europe/Berlin", time(2), OCTOBER, "2026-10-25 00:00", LocalTime.TWICE),
        ("Europe/Berlin", time(2, 59, 59), OCTOBER, "2026-10-25 00:59:59", LocalTime.TWICE),
        ("Europe/Berlin", time(3), OCTOBER, "2026-10-25 02:00", LocalTime.ONCE),
        ("Europe/Berlin", time(1, 59, 59), MARCH, "2026-03-29 00:59:59", LocalTime.ONCE),
        ("Europe/Berlin", time(2), MARCH, "2026-03-29 01:00", LocalTime.NEVER),
        ("Europe/Berlin", time(2, 59, 59), MARCH, "2026-03-29 01:00", LocalTime.NEVER),
        ("Europe/Berlin", time(3), MARCH, "2026-03-29 01:00", LocalTime.ONCE),
        # No summer time.
        ("Asia/Shanghai", time(2, 30), OCTOBER, "2026-10-24 18:30", LocalTime.ONCE),
        ("Asia/Shanghai", time(23, 59, 59), date(2026, 8, 28), "2026-08-28 15:59:59", "once"),
        # The clocks changed at midnight, for the last time in 2019.
        ("America/Sao_Paulo", time(0), date(2026, 10, 18), "2026-10-18 03:00", LocalTime.ONCE),
        ("America/Sao_Paulo", time(0, 30), date(2018, 11, 4), "2018-11-04 03:00", LocalTime.NEVER),
        ("America/Sao_Paulo", time(23, 30), date(2018, 2, 17), "2018-02-18 01:30", "twice"),
        ("America/Sao_Paulo", time(0), date(2018, 2, 18), "2018-02-18 03:00", LocalTime.ONCE),
        # Half an hour; and a whole date that never was: the next moment is on the one after.
        ("Australia/Lord_Howe", time(2, 15), date(2026, 10, 4), "2026-10-03 15:30", "never"),
        ("Pacific/Apia", time(12), date(2011, 12, 30), "2011-12-30 10:00", LocalTime.NEVER),
    ],
)
def test_a_local_time_is_due_at_one_moment(
    zone: str, at: time, day: date, due_at: str, kind: str
) -> None:
    """Before, in and after the hour that is there twice or not at all."""
    found = Daily("job", at=at, zone=zone).on(day)
    assert (found.due_at, found.local_time) == (utc(due_at), kind)
    assert found.business_event == f"job-{day.isoformat()}"


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Shanghai", "America/Sao_Paulo"])
@pytest.mark.parametrize("at", [time(0), time(0, 30), time(2, 30), time(23, 59, 59)])
@pytest.mark.parametrize("year", [2018, 2026])
def test_every_day_of_a_year_has_exactly_one(zone: str, at: time, year: int) -> None:
    """Whoever asks hour by hour for what is due gets each local date once, in order; asking for the
    whole year at once is the same.
    """
    job = Daily("job", at=at, zone=zone)
    begin, end = utc(f"{year}-01-01"), utc(f"{year + 1}-01-01")
    hourly: list[Occurrence] = []
    moment = begin
    while moment < end:
        hourly += job.due(after=moment, until=moment + timedelta(hours=1))
        moment += timedelta(hours=1)
    assert hourly == list(job.due(after=begin, until=end))
    dates = [one.date for one in hourly]
    assert dates == [dates[0] + timedelta(days=number) for number in range(len(dates))]
    assert len(dates) in {365, 366}
    assert all(job.at(one.due_at) == one for one in hourly)


def test_a_date_that_clocks_take_back_is_not_left_out() -> None:
    """Newfoundland's clocks went back from one minute past midnight to the date before: midnight of
    the next date was over while clocks showed the older one.
    """
    job = Daily("job", at=time(0), zone="America/St_Johns")
    looks = [utc("2006-10-28 02:00") + timedelta(minutes=20 * number) for number in range(150)]
    found = [one for pair in pairwise(looks) for one in job.due(after=pair[0], until=pair[1])]
    assert [one.date.day for one in found] == [28, 29, 30]


@pytest.mark.parametrize(
    ("at", "fired", "day"),
    [
        (time(23, 50), "2026-10-24 21:50", date(2026, 10, 24)),
        (time(23, 50), "2026-10-24 22:05", date(2026, 10, 24)),
        (time(23, 50), "2026-10-25 03:50", date(2026, 10, 24)),
        (time(23, 50), "2026-10-25 03:50:01", OCTOBER),
        (time(23, 50), "2026-10-25 12:00", OCTOBER),
        (time(23, 50), "2026-10-25 22:50", OCTOBER),
        # Before its time, by a clock that is ahead; and a long time after it.
        (time(2, 30), "2026-10-25 00:29", OCTOBER),
        (time(0), "2026-10-24 22:00", OCTOBER),
        (time(0), "2026-10-25 22:59", OCTOBER),
        (time(2, 30), "2026-10-25 22:59", OCTOBER),
    ],
)
def test_a_firing_that_comes_late_is_that_of_the_day_before(
    at: time, fired: str, day: date
) -> None:
    """Under the name of the next date it would be done today, and left out tomorrow as done."""
    assert Daily("job", at=at, zone="Europe/Berlin").at(utc(fired)).date == day


def test_a_job_that_always_fires_at_another_time_keeps_the_date_of_its_firing() -> None:
    """Declared for 23:30 and fired at 06:00, each firing was named after the day before: the first
    one after an upgrade had the name of the last one before it, and was not done.
    """
    job = Daily("job", at=time(23, 30), zone="Europe/Berlin")
    fired = [utc(f"2026-10-{day} 04:00") for day in (20, 21, 22)]
    assert [job.at(moment).date.day for moment in fired] == [20, 21, 22]


@given(
    st.sampled_from(sorted(available_timezones())),
    st.times().map(lambda one: one.replace(microsecond=0)),
    st.dates(date(1975, 1, 1), date(2035, 12, 31)),
)
def test_in_every_zone_a_moment_stands_for_a_local_time(zone: str, at: time, day: date) -> None:
    """A time that exists is due when clocks show it first. One that does not is due at the first
    moment at which clocks show a later one.
    """
    there = ZoneInfo(zone)
    found = Daily("job", at=at, zone=zone).on(day)
    local = datetime.combine(day, at)
    shown = found.due_at.astimezone(there).replace(tzinfo=None, fold=0)
    before = (found.due_at - timedelta(seconds=1)).astimezone(there).replace(tzinfo=None, fold=0)
    if found.local_time is LocalTime.NEVER:
        assert before < local < shown
    else:
        assert shown == local
        assert found.due_at.astimezone(there).fold == 0
    assert found.due_at.microsecond == 0
    assert not list(instabilities(ActionId(found.business_event), 0))


@pytest.mark.parametrize(
    ("name", "at", "zone", "said"),
    [
        ("", time(2), "UTC", "name"),
        ("a b", time(2), "UTC", "name"),
        ("n" * 118, time(2), "UTC", "name"),
        ("job", time(2, tzinfo=UTC), "UTC", "at"),
        ("job", time(2, 0, 0, 1), "UTC", "at"),
        ("job", time(2), "Europe/Berlln", "zone"),
        ("job", time(2), "../etc/passwd", "zone"),
        ("job", time(2), "", "zone"),
    ],
)
def test_what_is_no_schedule_is_refused(name: str, at: time, zone: str, said: str) -> None:
    """With the parameter that is wrong, and what would be right."""
    with pytest.raises(ValueError, match=f"^{said}: "):
        Daily(name, at=at, zone=zone)


def test_a_moment_is_no_date() -> None:
    """Its time of day would stand in the name, and each firing would be another occurrence."""
    with pytest.raises(TypeError, match="at\\(moment\\)"):
        BERLIN.on(datetime(2026, 10, 25, 2, 30, tzinfo=UTC))


def test_a_moment_without_a_zone_is_refused() -> None:
    """Which night it was could only be guessed."""
    naive = datetime(2026, 10, 25, 2, 30)  # noqa: DTZ001 - what is refused here
    with pytest.raises(ValueError, match="zone"):
        BERLIN.at(naive)
    with pytest.raises(ValueError, match="zone"):
        list(BERLIN.due(after=naive, until=utc("2026-10-25 12:00")))
