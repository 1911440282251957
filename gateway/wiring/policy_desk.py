"""Why an action is ruled as it is, and how recorded intents would be ruled by another table.

Guarantees to rule with the code that decides, and to change nothing. Called by the command line.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from gateway.settings import Settings
from gateway.wiring.installation import open_log, open_pool
from ledger.audit.whatif import WhatIf, what_if
from ledger.core.catalogue import Catalogue
from ledger.core.errors import LedgerError
from ledger.core.ids import ActionKey
from ledger.core.policy import NOT_ALLOWED, NOT_FITTING, Policy, Ruling, barred
from ledger.core.policy_tried import RowTried, try_rows
from ledger.core.state import Action
from ledger.log.follow import genesis_of
from ledger.log.published import read_published
from projections.queries import Queries
from projections.query_rows import ALL


class NoCatalogueError(LedgerError):
    """No catalogue was ever published, so nothing is known of any operation."""

    def __init__(self) -> None:
        super().__init__(
            "No catalogue has been published.",
            hint="Publish one: `actionledger catalogue publish FILE`.",
        )


class UnknownPolicyError(LedgerError):
    """A decision names a table that the config topic does not have."""

    def __init__(self, content_hash: str | None) -> None:
        super().__init__(
            f"The config topic has no policy {content_hash}.",
            hint="Leave --as-decided out to explain the action by the policy in force.",
        )


class LongHistoryError(LedgerError):
    """An action has more facts than are read, so what ruled it last is not known."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"{key} has more facts than are read: another table may have ruled it since.",
            hint="Leave --as-decided out to explain the action by the policy in force.",
        )


_DENIED: Final = {one.row: one for one in (NOT_ALLOWED, NOT_FITTING)}


class Table(Enum):
    """Which table explains an action."""

    IN_FORCE = "in force"
    AS_DECIDED = "as decided"


@dataclass(frozen=True, slots=True)
class Explained:
    """An action under a table: what it says, row by row. `action` has what was recorded, which may
    be of an earlier table. `is_declared`: whether the catalogue in force has its operation;
    `problems`: in what its request does not fit that.
    """

    action: Action
    policy: Policy
    in_force: bool
    ruling: Ruling
    rows: tuple[RowTried, ...]
    is_declared: bool = True
    problems: tuple[str, ...] = ()


async def explain(settings: Settings, key: str, table: Table) -> Explained | None:
    """An action by the table in force, or by the one that ruled it last; None where the read model
    does not have the action.

    Raises UnknownPolicyError, LongHistoryError, NoCatalogueError, and what log and database raise.
    """
    async with await open_pool(settings) as pool:
        found = await Queries(pool).case_sheet(ALL, key)
    if found is None:
        return None
    action = found.action
    if table is Table.AS_DECIDED and not found.is_whole:
        raise LongHistoryError(key)
    published = await read_published(open_log(settings, "cli"))
    if published.catalogue is None:
        raise NoCatalogueError
    policy = published.policy
    if table is Table.AS_DECIDED:
        decided = published.policies.get(action.policy_hash or "")
        if decided is None:
            raise UnknownPolicyError(action.policy_hash)
        policy = decided
    request, tenant = action.request, ActionKey.parse(key).tenant
    operation = published.catalogue.operation(request.operation, request.version)
    if table is Table.AS_DECIDED:
        ruling = _DENIED.get(action.policy_row or "")
    else:
        ruling = None if operation is None else barred(operation, request)
    if ruling is None:
        ruling = policy.rule(operation, request, tenant, action.revises, action.performer)
    problems = () if operation is None else operation.check(request)
    return Explained(
        action=action,
        policy=policy,
        in_force=policy.content_hash == published.policy.content_hash,
        ruling=ruling,
        rows=try_rows(policy, operation, request, tenant, action.performer),
        is_declared=operation is not None,
        problems=tuple(one.message for one in problems),
    )


async def compare_policies(
    settings: Settings,
    policy: Policy,
    *,
    catalogue: Catalogue | None = None,
    since: int = 0,
    tenant: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> WhatIf:
    """Every intent since a log time, or those of a tenant, under a table and under a catalogue: by
    itself that in force.

    Raises NoCatalogueError and what reading the log raises.
    """
    log = open_log(settings, "cli")
    if catalogue is None:
        catalogue = (await read_published(log)).catalogue
    if catalogue is None:
        raise NoCatalogueError
    partitions = range((await genesis_of(log)).partitions)
    return await what_if(
        log, partitions, policy, catalogue, since=since, tenant=tenant, progress=progress
    )
