"""What a partition has adopted is read by every later version, also by one that would refuse it."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from zoneinfo import TZPATH, reset_tzpath

import pytest

from ledger.core.catalogue import adopted_catalogue, catalogue_hash, parse_catalogue
from ledger.core.ceilings import zone_of
from ledger.core.invariants import BrokenInvariantError
from ledger.core.people import adopted_people, parse_people, people_hash
from ledger.core.policy import Policy, adopted_policy, parse_policy, policy_hash
from ledger.core.records import Adopted
from ledger.log.fold import InForce
from streams.deciding import config_of, people_of, policy_of
from tests.asking import people_text
from tests.policies import row

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
