"""What a table hardly means: it is no mistake, and whoever publishes it is told."""

import pytest

from ledger.core.people import People, Person, PersonKey
from ledger.core.policy_notes import (
    NobodyLooks,
    TooFewPeople,
    UnusedCeiling,
    WordAlone,
    by_word_alone,
    too_few_people,
    unguarded,
    unused_ceilings,
)
from tests.policies import policy, policy_of, row
from tests.tree import ROOT
from tests.unit.test_catalogue import SMALL, catalogue

CEILING = '[[ceiling]]\nname = "{}"\nper = "action"\nspend.EUR = 1\n'
TWO = row("two", "", "people", 'quorum = 2\ngroups = ["finance"]')
NOW = 1_000


def person(name: str, *groups: str, **changed: object) -> Person:
    """Somebody with one key that proves something, and with some fields changed."""
    key = PersonKey(id=f"key of {name}", kind="ed25519", public="…")
    return Person(name=name, groups=groups, tenants=("*",), keys=(key,)).model_copy(update=changed)


def registered(*people: Person) -> People:
    """A document of these."""
    return People(people, "sha256:00")


def test_a_ceiling_that_no_row_names_is_told() -> None:
    """Whoever declared it thinks that it limits something."""
    text = CEILING.format("used") + CEILING.format("idle")
    table = policy(text + row("all", "", "automatic", 'ceilings = ["used"]'))
    (idle,) = unused_ceilings(table)
    assert idle == UnusedCeiling("idle")
    assert "the ceiling idle: it limits nothing" in str(idle)
    assert unused_ceilings(policy_of(ROOT / "ledger" / "policy.toml")) == ()


@pytest.mark.parametrize(
    ("ben", "able"),
    [
        (person("ben", "finance"), 2),
        (person("ben", "board"), 1),
        (person("ben", "finance", revoked=True), 1),
        (person("ben", "finance", keys=()), 1),
        (
            person(
                "ben",
                "finance",
                keys=(PersonKey(id="k", kind="ed25519", public="…", not_after=NOW),),
            ),
            1,
        ),
    ],
)
def test_a_row_that_waits_for_more_people_than_could_sign_is_told(ben: Person, able: int) -> None:
    """Of the group, registered, not revoked, with a key that proves something now."""
    told = too_few_people(policy(TWO), registered(person("ada", "finance"), ben), NOW)
    assert told == (() if able == 2 else (TooFewPeople("two", 2, ("finance",), able),))


def test_who_may_decide_after_a_time_counts() -> None:
    """And where no group is named, anybody does; where nobody is asked nobody is missing."""
    times = 'groups = ["finance"]\nescalate_after_ms = 60_000\nescalate_to = ["board"]'
    escalating = policy(row("late", "", "people", times))
    assert too_few_people(escalating, registered(person("ben", "board")), NOW) == ()
    anybody = policy(row("any", "", "people"))
    assert too_few_people(anybody, registered(person("ben")), NOW) == ()
    pair = policy(row("pair", "", "people", "quorum = 2"))
    (alone,) = too_few_people(pair, registered(person("ben")), NOW)
    assert "the row pair waits for 2 of anybody registered, and only 1 could" in str(alone)
    assert too_few_people(policy(row("free")), registered(), NOW) == ()


def test_that_nobody_could_sign_anything_is_told_once() -> None:
    """And not for each row of the table that a new installation begins with."""
    shipped = policy_of(ROOT / "ledger" / "policy.toml")
    (told,) = too_few_people(shipped, registered(), NOW)
    assert "nobody is registered with a key" in str(told)
    assert too_few_people(shipped, registered(person("ada")), NOW) == ()


def test_a_desk_at_which_nobody_sits_is_told() -> None:
    """What went wrong would wait for ever."""
    table = policy(row("free") + '[review]\ngroups = ["operations"]\n')
    (told,) = too_few_people(table, registered(person("ada", "finance")), NOW)
    assert str(told).startswith("cases are settled by operations, and nobody could")
    assert too_few_people(table, registered(person("ada", "operations")), NOW) == ()


CAREFUL = catalogue(SMALL.replace("lookups =", "look_alike_window_ms = 60_000\nlookups ="))


@pytest.mark.parametrize(
    ("rows", "open_ones"),
    [
        (row("a"), ("a",)),
        (row("a", "", "automatic", "block_target = true"), ()),
        (row("a", 'when.operation = ["refund"]') + row("b", "", "people"), ("b",)),
        (row("a", "when.amount.at_most.EUR = 1") + row("b", "", "people"), ("a", "b")),
        (row("a", "", "deny"), ()),
    ],
)
def test_a_window_that_nobody_looks_into_is_told(rows: str, open_ones: tuple[str, ...]) -> None:
    """Look-alikes are found at the gate of a target, which the row has an action pass or not."""
    table = policy(rows)
    assert unguarded(table, catalogue(SMALL)) == ()
    told = unguarded(table, CAREFUL)
    assert told == ((NobodyLooks("charge v1", open_ones),) if open_ones else ())


@pytest.mark.parametrize(
    ("when", "outcome", "is_told"),
    [
        ('when.environment = ["test"]', "automatic", True),
        ('when.environment = ["test"]\nwhen.operation = ["charge"]', "automatic", True),
        ('when.environment = ["test"]\nwhen.account = ["sandbox"]', "automatic", False),
        ('when.environment = ["test"]', "confirmation", False),
        ('when.account = ["sandbox"]', "automatic", False),
    ],
)
def test_an_agents_word_for_where_it_acts_is_told(
    when: str, outcome: str, *, is_told: bool
) -> None:
    """Whoever asks names the environment; at which account it happens the catalogue says."""
    told = by_word_alone(policy(row("it", when, outcome)))
    assert told == ((WordAlone("it"),) if is_told else ())


@pytest.mark.parametrize("name", ["payments", "email", "infrastructure"])
def test_no_example_is_worth_a_note_by_itself(name: str) -> None:
    """They are patterns for tables of one's own."""
    table = policy_of(ROOT / "examples" / "policies" / f"{name}.toml")
    assert (by_word_alone(table), unused_ceilings(table)) == ((), ())
