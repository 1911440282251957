"""Ceilings in the text of a policy: every mistake on its line, in a sentence; what rows name."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from ledger.core.limits import CEILINGS_MAX
from ledger.core.policy import Gates, Mistake, Policy, parse_policy
from tests.asking import policy
from tests.policies import row, zone_at_noon

CEILINGS = """\
[[ceiling]]
name = "run"
per = "run"
side_effects = 10
spend = { EUR = 100_00 }

[[ceiling]]
name = "day"
per = "tenant"
window = "day"
zone = "Europe/Paris"
spend = { EUR = 1_000_00 }

[[row]]
name = "all"
outcome = "automatic"
ceilings = ["run", "day"]
block_target = true
reason = "Everything counts."
"""


def mistakes(text: str) -> tuple[Mistake, ...]:
    """The mistakes of a text that has some."""
    parsed = parse_policy(text)
    assert not isinstance(parsed, Policy)
    return parsed


def changed(old: str, new: str) -> str:
    """The table with one text replaced where it stands first."""
    assert old in CEILINGS
    return CEILINGS.replace(old, new, 1)


def test_a_table_with_ceilings_is_read() -> None:
    """Each by its name, with a limit for each dimension; rows say which they have passed."""
    read = policy(CEILINGS)
    day = read.ceiling("day")
    assert day is not None
    assert (day.per, day.window, day.zone) == ("tenant", "day", "Europe/Paris")
    run = read.ceiling("run")
    assert run is not None
    assert run.limits == {"side_effects": 10, "spend.EUR": 10_000}
    assert read.ceiling("week") is None
    assert read.rows[0].gates == Gates(ceilings=("run", "day"), target=True)


def test_a_row_that_names_none_has_nothing_passed() -> None:
    """A table of before is the table that it was."""
    assert policy(row("one")).rows[0].gates is None


@pytest.mark.parametrize(
    ("old", "new", "line", "path", "said"),
    [
        # Shape.
        ('per = "run"', 'pre = "run"', 3, "ceiling[0].pre", "did you mean per?"),
        ('per = "run"', 'per = "agent"', 3, "ceiling[0].per", "'run', 'tenant' or 'target'"),
        ('name = "run"', 'name = "a b"', 2, "ceiling[0].name", "not a component"),
        ('name = "run"\n', "", 1, "ceiling[0].name", "is missing"),
        ("side_effects = 10", "side_effects = -1", 4, "ceiling[0].side_effects", "at least 0"),
        ("side_effects = 10", "side_effects = 1.5", 4, "ceiling[0].side_effects", "whole number"),
        ("EUR = 100_00", "EURO = 1", 5, "ceiling[0].spend.EURO", "not a currency"),
        ("EUR = 100_00", "EUR = 1.0", 5, "ceiling[0].spend.EUR", "whole number"),
        ("{ EUR = 100_00 }", "{}", 5, "ceiling[0].spend", "at least 1"),
        ('window = "day"', 'window = "year"', 10, "ceiling[1].window", "'week' or 'month'"),
        ("Europe/Paris", "Europe/Pariss", 11, "ceiling[1].zone", "is not a time zone"),
        ("Europe/Paris", "../../etc/hosts", 11, "ceiling[1].zone", "is not a time zone"),
        ("Europe/Paris", "", 11, "ceiling[1].zone", "is not a time zone"),
        # Contradictions.
        ('name = "day"', 'name = "run"', 8, "ceiling[1].name", "is taken"),
        ("spend = { EUR = 1_000_00 }\n", "", 7, "ceiling[1]", "limits nothing"),
        ('window = "day"\n', "", 7, "ceiling[1].window", "must be given"),
        (
            "side_effects = 10",
            'side_effects = 10\nwindow = "day"',
            5,
            "ceiling[0].window",
            "means nothing for a ceiling per run",
        ),
        (
            "side_effects = 10",
            'side_effects = 10\nzone = "UTC"',
            5,
            "ceiling[0].zone",
            "nothing without a window",
        ),
        ('zone = "Europe/Paris"', "steps = 3", 11, "ceiling[1].steps", "per run only"),
        ('zone = "Europe/Paris"', "wall_clock_ms = 3", 11, "ceiling[1].wall_clock_ms", "run only"),
        ("side_effects = 10", "steps = 0", 4, "ceiling[0].steps", "at least 1"),
        (
            'per = "run"',
            'per = "action"',
            4,
            "ceiling[0].side_effects",
            "means nothing for a single action",
        ),
        # Rows.
        (
            '"run", "day"',
            '"run", "week"',
            17,
            "row[0].ceilings",
            "names week, which no [[ceiling]]",
        ),
        ('"run", "day"', '"run", "run"', 17, "row[0].ceilings[1]", "names run twice"),
        ('"automatic"', '"deny"', 17, "row[0].ceilings", "means nothing for the outcome deny"),
        (
            'outcome = "automatic"\nceilings = ["run", "day"]',
            'outcome = "deny"',
            17,
            "row[0].block_target",
            "means nothing for the outcome deny",
        ),
    ],
)
def test_a_mistake_is_named_on_its_line(
    old: str, new: str, line: int, path: str, said: str
) -> None:
    """Whoever wrote the ceiling is led to the line, and told what is wrong there."""
    found = mistakes(changed(old, new))
    assert any(
        one.line == line and one.path.startswith(path) and said in one.message for one in found
    ), "\n".join(map(str, found))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ceiling = 1\n", "must be tables"),
        ('[ceiling]\nname = "run"\n', "must be tables"),
        ("ceiling = [1]\n", "must be a table"),
        ("[[ceiling]]\n" * (CEILINGS_MAX + 1), f"more than {CEILINGS_MAX}"),
    ],
)
def test_what_is_no_list_of_ceilings_is_refused(text: str, said: str) -> None:
    """Whatever the file holds, the answer is a line and a sentence, never a trace."""
    found = mistakes(text + row("one"))
    assert any(said in one.message for one in found), "\n".join(map(str, found))


def test_a_row_behind_a_wrong_one_is_named_by_its_own_number() -> None:
    """Mistakes of several tables come together, each on its own line."""
    text = row("a", "when.kin = 1") + row("b", "", "automatic", 'ceilings = ["none"]')
    assert [one.path for one in mistakes(text)] == ["row[0].when.kin", "row[1].ceilings"]


@pytest.mark.parametrize("hour", range(24))
def test_the_day_of_a_test_does_not_end_while_it_runs(hour: int) -> None:
    """Whenever it begins, midnight is hours away in the zone that it is given, and a table may name
    that zone.
    """
    now = datetime(2026, 11, 30, hour, 59, 59, tzinfo=UTC)
    zone = zone_at_noon(now)
    assert now.astimezone(ZoneInfo(zone)).hour == 12
    assert isinstance(parse_policy(TODAY.replace("ZONE", zone)), Policy)


TODAY = """\
[[ceiling]]
name = "day"
per = "tenant"
window = "day"
zone = "ZONE"
side_effects = 10

[[row]]
name = "all"
outcome = "automatic"
ceilings = ["day"]
reason = "Everything counts."
"""
