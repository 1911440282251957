"""Whose actions a command is asked for, where it is told one tenant.

Of a name that is misspelt nothing waits, nothing is uncertain and no ceiling is near: all would
look well. So a command that lists what a tenant has says on stderr where it has no action at all.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ledger.core.excerpt import visible

if TYPE_CHECKING:
    from projections.queries import Queries

TENANTS_NAMED_MAX = 20


def named(tenants: Sequence[str]) -> str:
    """Some of the tenants, as a sentence names them."""
    more = f" and {len(tenants) - TENANTS_NAMED_MAX} more"
    shown = ", ".join(tenants[:TENANTS_NAMED_MAX]) or "none"
    return shown + (more if len(tenants) > TENANTS_NAMED_MAX else "")


def without_action(tenant: str, tenants: Sequence[str]) -> str:
    """What is said of a tenant that is none of those which have an action."""
    return visible(f"No action is of a tenant {tenant}. There are: {named(tenants)}.")


async def tell_if_without_action(queries: "Queries", tenant: str | None) -> bool:
    """Say on stderr that a tenant has no action, where one is named; whether that was said."""
    from projections.query_rows import ALL

    if tenant is None or tenant in (tenants := await queries.tenants(ALL)):
        return False
    sys.stderr.write(f"{without_action(tenant, tenants)}\n")
    return True


def tell_without_intent(tenant: str) -> None:
    """Say on stderr that nothing that was looked at is of a tenant."""
    sys.stderr.write(f"{visible(f'No intent that was looked at is of a tenant {tenant}.')}\n")
