"""Names of tenants that somebody types: another spelling of one that is there is most likely it.

Guarantees that a name is refused only where one of the known ones differs from it by case or by
signs at its ends alone: nobody declares tenants, so any other name may be a new one.
Must never repair a name. Called by the commands that name a tenant to hold, or to give a right;
`--as-written` leaves it out.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from gateway.keys import KeyFileError, read_keys
from ledger.core.errors import LedgerError
from ledger.core.people import EVERY_TENANT, People

Spelling = Literal["checked", "as_written"]
"""Whether another spelling of a known tenant is taken for a slip of the pen, or is meant."""


class TenantSpellingError(LedgerError):
    """A name differs from that of a known tenant by its spelling alone: it is another tenant's."""

    def __init__(self, tenant: str, known: str) -> None:
        super().__init__(
            f"There is a tenant {known!r}, and {tenant!r} would be another one.",
            hint=f"Write it as it is: {known}. Where both are meant to be there: --as-written.",
        )


def check_spelling(tenant: str, known: Iterable[str]) -> None:
    """Raise TenantSpellingError where only the spelling of a known tenant is different."""
    names = set(known) - {EVERY_TENANT}
    if tenant in names:
        return
    for name in sorted(names):
        if _plain(name) == _plain(tenant):
            raise TenantSpellingError(tenant, name)


def tenants_of(keys_file: Path, people: People) -> frozenset[str]:
    """The tenants that API keys and people are for. Of a file of keys that cannot be read here none
    are known: who holds in an emergency is not kept from it.
    """
    try:
        of_keys = {key.caller.tenant for key in read_keys(keys_file)}
    except KeyFileError:
        of_keys = set()
    return frozenset(of_keys | {name for one in people.people for name in one.tenants})


def _plain(name: str) -> str:
    return name.lower().strip("._-")
