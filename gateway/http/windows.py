"""The gates of the windows of now, read for every door in the same way.

Guarantees that the window of a tenant is among them however many targets have windows of their own.
"""

from collections.abc import Sequence
from typing import Protocol

from gateway.http.limits import RUN_ACTIONS_MAX
from ledger.core.policy import Policy
from projections.query_rows import GateRow


class GatesPort(Protocol):
    """The read model, as far as it is asked here."""

    async def gate(self, tenant: str, gate_key: str) -> GateRow | None:
        """A gate as it stands, or None."""
        ...

    async def windows(self, tenant: str, *, limit: int) -> Sequence[GateRow]:
        """The gates of windows, the newest first."""
        ...


async def gates_of_windows(
    queries: GatesPort, tenant: str, policy: Policy, now_ms: int
) -> dict[str, GateRow]:
    """By key: the newest windows of a tenant, and its own of now."""
    newest = await queries.windows(tenant, limit=RUN_ACTIONS_MAX)
    found = {one.gate_key: one for one in newest}
    for ceiling in policy.ceilings:
        key = ceiling.gate(tenant, None, None, now_ms) if ceiling.per == "tenant" else None
        if key is not None and key not in found:
            gate = await queries.gate(tenant, key)
            found |= {} if gate is None else {key: gate}
    return found
