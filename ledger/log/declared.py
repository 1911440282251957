"""What one installation wants of a broker: every line of its access control list, and its logins.

Pure data out of the table of `ledger.log.authority`, under the names that an installation has given
its components. Called by the settings and by `ledger.log.permissions`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ledger.core.errors import LedgerError
from ledger.log.access import Mechanism
from ledger.log.authority import Pattern, Resource, Right, rights
from ledger.log.principals import Principal

ANYWHERE: Final = "*"


class PermissionsError(LedgerError):
    """The broker cannot be brought to what is declared."""


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One line of the broker's access control list. `principal` is a name without `User:`."""

    principal: str
    right: Right
    host: str = ANYWHERE
    is_denial: bool = False

    def __str__(self) -> str:
        says = "may not" if self.is_denial else "may"
        where = "" if self.host == ANYWHERE else f" from {self.host}"
        return f"{self.principal} {says} {self.right}{where}"


@dataclass(frozen=True, slots=True)
class Declared:
    """What an installation wants of a broker: its prefix, and as whom its components log in.

    `passwords` are by name; without any, logins are somebody else's affair (PLAIN, certificates).
    """

    prefix: str
    names: Mapping[Principal, str]
    passwords: Mapping[str, str] = field(default_factory=dict, repr=False)
    mechanism: Mechanism = Mechanism.SCRAM_SHA_512

    @property
    def entries(self) -> frozenset[Entry]:
        """Every line that must be there."""
        return frozenset(
            Entry(name, right)
            for principal, name in self.names.items()
            for right in rights(principal, self.prefix)
        )


def concerns(right: Right, prefix: str) -> bool:
    """Whether a right reaches anything of the installation of a prefix."""
    if right.resource is Resource.CLUSTER:
        return True
    if right.name == ANYWHERE or right.name.startswith(prefix):
        return True
    return right.pattern is Pattern.PREFIXED and prefix.startswith(right.name)
