"""What a decision table hardly means although it is well-formed: a ceiling that nothing passes,
groups in which too few people could ever agree, a window for look-alikes that nobody looks into,
an agent's word where the catalogue's is wanted.

Decides nothing: rows and people may be still to come. Called by the command line before a table or
a catalogue is published.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ledger.core.catalogue import Catalogue
from ledger.core.conditions import conditions
from ledger.core.operation import Operation
from ledger.core.people import People, Person
from ledger.core.policy import Outcome, Policy, Row


@dataclass(frozen=True, slots=True)
class UnusedCeiling:
    """A ceiling that no row has an action pass: it limits nothing."""

    ceiling: str

    def __str__(self) -> str:
        return f"no row has an action pass the ceiling {self.ceiling}: it limits nothing"


@dataclass(frozen=True, slots=True)
class TooFewPeople:
    """A row, or the desk for cases where it is None, that waits for more people than could sign.
    `able` are registered, not revoked and have a key; whether each is for the tenant in question is
    not asked.
    """

    row: str | None
    wanted: int
    groups: tuple[str, ...]
    able: int

    def __str__(self) -> str:
        whom = " or ".join(self.groups) or "anybody registered"
        able = "nobody could" if not self.able else f"only {self.able} could"
        if self.row is None:
            return f"cases are settled by {whom}, and {able}: register somebody with a key"
        return (
            f"the row {self.row} waits for {self.wanted} of {whom}, and {able}: "
            "register who is missing, with a key"
        )


@dataclass(frozen=True, slots=True)
class NobodyToAsk:
    """People are asked, and nobody at all could sign."""

    def __str__(self) -> str:
        return "rows ask people, and nobody is registered with a key: see `actionledger people add`"


@dataclass(frozen=True, slots=True)
class NobodyLooks:
    """Rows that let an operation go on without its target's gate, which alone finds look-alikes."""

    operation: str
    rows: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.operation} has a look_alike_window_ms, and nobody looks for look-alikes under "
            f"{', '.join(self.rows)}: set block_target there"
        )


@dataclass(frozen=True, slots=True)
class WordAlone:
    """A row that lets actions go ahead by an environment, which is what the agent says it is."""

    row: str

    def __str__(self) -> str:
        return (
            f"the row {self.row} lets go ahead whatever an agent says is in that environment: name "
            "the accounts too, or give their operations environments in the catalogue"
        )


def by_word_alone(policy: Policy) -> tuple[WordAlone, ...]:
    """Every row by which something goes ahead because of its environment, at whichever account."""
    return tuple(
        WordAlone(row.name)
        for row in policy.rows
        if row.outcome is Outcome.AUTOMATIC
        and row.when.environment is not None
        and row.when.account is None
    )


def unguarded(policy: Policy, catalogue: Catalogue) -> tuple[NobodyLooks, ...]:
    """Every operation with a window for look-alikes that a row may be about which guards no target.
    Where no row matches nobody looks either, and a person is asked.
    """
    found = (
        (one, tuple(row.name for row in _about(policy, one) if not _guards(row)))
        for one in catalogue.operations
        if one.look_alike_window_ms
    )
    return tuple(NobodyLooks(f"{one.name} v{one.version}", rows) for one, rows in found if rows)


def _about(policy: Policy, operation: Operation) -> Iterator[Row]:
    """The rows that can be about an operation, up to one that always is."""
    for row in policy.rows:
        answers = [one.bind(operation) for one in conditions(row.when)]
        if False in answers:
            continue
        yield row
        if all(answer is True for answer in answers):
            return


def _guards(row: Row) -> bool:
    return row.block_target or row.outcome is Outcome.DENY


def unused_ceilings(policy: Policy) -> tuple[UnusedCeiling, ...]:
    """Every ceiling of a table that no row of it names."""
    named = {name for row in policy.rows for name in row.ceilings}
    return tuple(UnusedCeiling(one.name) for one in policy.ceilings if one.name not in named)


def too_few_people(
    policy: Policy, people: People, at: int
) -> tuple[TooFewPeople | NobodyToAsk, ...]:
    """Every row that waits for more people than could sign at a time, and the desk for cases where
    it is for groups in which nobody could; one note where nobody could sign anything.
    """
    able = [one for one in people.people if _could_sign(one, people, at)]
    found = tuple(_too_few(policy, able))
    return found if able or not found else (NobodyToAsk(),)


def _too_few(policy: Policy, able: list[Person]) -> Iterator[TooFewPeople]:
    for row in policy.rows:
        asks = row.asks
        if asks is None:
            continue
        groups = (*asks.groups, *asks.escalate_to) if asks.groups else ()
        count = sum(one.is_in_one_of(groups) for one in able)
        if count < asks.quorum:
            yield TooFewPeople(row.name, asks.quorum, groups, count)
    if policy.review_groups and not any(one.is_in_one_of(policy.review_groups) for one in able):
        yield TooFewPeople(None, 1, policy.review_groups, 0)


def _could_sign(person: Person, people: People, at: int) -> bool:
    return any(people.signer(key.id, at) is person for key in person.keys)
