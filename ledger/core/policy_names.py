"""Names in a decision table that a catalogue does not know: most often a slip of the pen, and then
a row that never matches.

Decides nothing: a table may speak of operations that are still to come. Called by the command line
before a table is published.
"""

from dataclasses import dataclass
from typing import Final

from ledger.core.catalogue import Catalogue
from ledger.core.conditions import Condition, conditions
from ledger.core.operation import Operation
from ledger.core.policy import Policy

_OF_ONE: Final = "parameters."
_NAMING: Final = ("operation", "provider", "account", _OF_ONE)


@dataclass(frozen=True, slots=True)
class UnknownName:
    """A condition of a row that no operation of a catalogue meets, whatever is asked of it."""

    row: str
    condition: str
    wanted: str

    def __str__(self) -> str:
        if self.condition.startswith(_OF_ONE):
            name = self.condition.removeprefix(_OF_ONE)
            return f"the row {self.row} is about a parameter {name} that no such operation declares"
        return (
            f"the row {self.row} is about the {self.condition} {self.wanted}, which nobody declares"
        )


def unknown_names(policy: Policy, catalogue: Catalogue) -> tuple[UnknownName, ...]:
    """Every name in a condition that none of the operations bears which the row is about otherwise;
    a row about a kind or a risk that no operation has yet is no slip.
    """
    return tuple(
        UnknownName(row.name, one.name, one.wanted)
        for row in policy.rows
        for asked in (conditions(row.when),)
        for one in asked
        if one.name.startswith(_NAMING) and _is_met_by_none(one, asked, catalogue.operations)
    )


def _is_met_by_none(
    one: Condition, asked: tuple[Condition, ...], operations: tuple[Operation, ...]
) -> bool:
    # A parameter is asked of the operations that a row is about, and never says which those are.
    others = [other for other in asked if other is not one and not other.name.startswith(_OF_ONE)]
    about = [
        operation
        for operation in operations
        if all(other.bind(operation) is not False for other in others)
    ]
    return bool(about) and all(one.bind(operation) is False for operation in about)
