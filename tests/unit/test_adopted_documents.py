"""What a partition has adopted is read by every later version, also by one that would refuse it."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from zoneinfo import TZPATH, reset_tzpath

import pytest

from ledger.core.catalogue import adopted_catalogue, catalogue_hash, parse_catalogue
from ledger.core.ceilings import zone_of
from ledger.core.inputs import Publish
from ledger.core.invariants import BrokenInvariantError
from ledger.core.people import adopted_people, parse_people, people_hash
from ledger.core.policy import Policy, adopted_policy, parse_policy, policy_hash
from ledger.core.records import Adopted
from ledger.log.fold import InForce
from ledger.log.port import Record
from ledger.log.published import Published
from streams.deciding import config_of, is_adoptable_catalogue, people_of, policy_of
from tests.asking import people_text
from tests.examples import T0
from tests.policies import row
from tests.unit.streams.seats import made, record, seat

SHIPPED = files("ledger").joinpath("catalogue.toml").read_text(encoding="utf-8")

CEILING = """\
[[ceiling]]
name = "day"
per = "tenant"
window = "day"
zone = "{zone}"
side_effects = 1
"""
FOUR_UTC_ON_NEW_YEAR = 1_767_240_000_000
"""2026-01-01T04:00Z, when it is the year before in New York."""


def adopted(kind: str, content: str, content_hash: str) -> Adopted:
    """A document as a partition has taken it over."""
    given = {"kind": kind, "content": content, "content_hash": content_hash, "offset": 0}
    return Adopted.model_validate(given)


def in_force(*, catalogue: str = SHIPPED, policy: str = "", people: str = "") -> InForce:
    """What a partition has adopted."""
    return InForce(
        catalogue=adopted("catalogue", catalogue, catalogue_hash(catalogue)),
        policy=adopted("policy", policy, policy_hash(policy)) if policy else None,
        people=adopted("people", people, people_hash(people)) if people else None,
    )


def test_a_policy_that_would_be_refused_today_stays_in_force() -> None:
    """A row that nothing reaches was let pass by a version that did not look for it."""
    text = row("all") + row("never")
    assert isinstance(parse_policy(text), tuple)
    assert [one.name for one in policy_of(in_force(policy=text)).rows] == ["all", "never"]


def test_a_catalogue_that_would_be_refused_today_stays_in_force() -> None:
    """An operation that is declared twice: whichever stood last is meant, as it was then."""
    text = SHIPPED + SHIPPED[SHIPPED.index("[[operation]]") :]
    assert isinstance(parse_catalogue(text), tuple)
    config = config_of(in_force(catalogue=text))
    assert config is not None
    assert config.content_hash == catalogue_hash(text)


def test_people_who_would_be_refused_today_stay_who_they_are() -> None:
    """Falling back to nobody, or to the people before, would let a revoked one decide."""
    text = people_text("ada") + people_text("ada")
    assert isinstance(parse_people(text), tuple)
    assert people_of(in_force(people=text)).person("ada") is not None


def test_a_zone_that_is_gone_counts_in_utc() -> None:
    """Nobody adopts one that is not known; where it was known once, a day is a day of UTC."""
    text = CEILING.format(zone="Mars/Olympus_Mons") + row("all")
    refused = parse_policy(text)
    assert isinstance(refused, tuple)
    assert [mistake.path for mistake in refused] == ["ceiling[0].zone"]
    ceiling = policy_of(in_force(policy=text)).ceiling("day")
    assert ceiling is not None
    assert ceiling.window_at(FOUR_UTC_ON_NEW_YEAR) == "2026-01-01"


@pytest.fixture
def odd_machine(tmp_path: Path) -> Iterator[None]:
    """A machine whose own files say that New York lives by the clock of Tokyo."""
    known = TZPATH
    wrong = tmp_path / "America"
    wrong.mkdir()
    found = [Path(one) / "Asia" / "Tokyo" for one in known]
    tokyo = next((one for one in found if one.is_file()), None)
    content = tokyo.read_bytes() if tokyo else b""
    (wrong / "New_York").write_bytes(content)
    reset_tzpath([str(tmp_path)])
    zone_of.cache_clear()
    yield
    reset_tzpath(known)
    zone_of.cache_clear()


@pytest.mark.usefixtures("odd_machine")
def test_a_day_does_not_depend_on_the_machine() -> None:
    """Two processors would count one action in two windows, and the ceiling would hold in none."""
    policy = parse_policy(CEILING.format(zone="America/New_York") + row("all"))
    assert isinstance(policy, Policy)
    ceiling = policy.ceiling("day")
    assert ceiling is not None
    assert ceiling.window_at(FOUR_UTC_ON_NEW_YEAR) == "2025-12-31"


def test_what_a_newer_version_has_adopted_is_not_guessed_at() -> None:
    """A key that nobody here knows may be what keeps an action back."""
    text = row("all").replace('name = "all"', 'name = "all"\nonly_on_fridays = true')
    with pytest.raises(BrokenInvariantError, match="this version cannot read the policy in force"):
        policy_of(in_force(policy=text))


def test_well_formed_texts_read_the_same_either_way() -> None:
    """Adopted or new, the same document."""
    assert adopted_catalogue(SHIPPED) == parse_catalogue(SHIPPED)
    assert adopted_policy(row("all")) == parse_policy(row("all"))
    assert adopted_people(people_text("ada")) == parse_people(people_text("ada"))


def published(*texts: str, checked: bool) -> list[Record]:
    """Decision tables on the config topic, one after the other."""
    given = (
        Publish(
            kind="policy",
            content=text,
            content_hash=policy_hash(text),
            checked=True if checked else None,
        )
        for text in texts
    )
    return [
        record(one, topic="config", offset=offset)._replace(partition=0)
        for offset, one in enumerate(given)
    ]


def in_force_for_followers(records: list[Record]) -> str:
    """The table that executors and doors take to be in force."""
    followed = Published()
    for one in records:
        followed.feed(one)
    return followed.policy.content_hash


def in_force_for_owners(records: list[Record]) -> str:
    """The table that the owner of a partition has adopted."""
    force = InForce()
    for one in records:
        decision = made(one, seat()).decision
        if decision.adopted is not None:
            force = force.after(decision.adopted, T0)
    return policy_of(force).content_hash


@pytest.mark.parametrize("checked", [True, False])
def test_owners_and_those_who_follow_agree_about_what_is_in_force(*, checked: bool) -> None:
    """What was judged when it was published is judged by nobody again; what somebody wrote to the
    topic with other means, by each, and with the same end.
    """
    sound, odd = row("all"), row("all") + row("never")
    records = published(sound, odd, checked=checked)
    expected = policy_hash(odd if checked else sound)
    assert in_force_for_owners(records) == expected
    assert in_force_for_followers(records) == expected


def test_a_processor_begins_with_a_catalogue_that_was_judged_by_another_version() -> None:
    """It would wait for one for ever."""
    text = SHIPPED + SHIPPED[SHIPPED.index("[[operation]]") :]
    given = Publish(kind="catalogue", content=text, content_hash=catalogue_hash(text))
    assert not is_adoptable_catalogue(given)
    assert is_adoptable_catalogue(given.model_copy(update={"checked": True}))
