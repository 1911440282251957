"""What the pages read and hand in, over the read model, the log and the published configuration.

Guarantees that an action is folded here from its own facts, under the tenant of its key by name to
the database too, and that trouble of either is told as `NotAnsweringError` and nothing else. Built
when the gateway starts.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from gateway.console.limits import DECIDED_MS_MAX, EVENTS_MAX, READ_MS_MAX, SPENT_KEPT_MS
from gateway.console.port import (
    Decided,
    Enrolment,
    Known,
    KnownCase,
    NotAnsweringError,
    Waiting,
)
from gateway.http.case_sheets import CaseEntry
from gateway.http.cases import blocked_entry, case_entry, case_sheet_of
from gateway.http.doors import nothing_newer
from gateway.http.limits import RUN_ACTIONS_MAX
from gateway.http.run_views import (
    CeilingList,
    RunList,
    RunView,
    ceiling_list,
    cut,
    gate_of_run,
    run_list,
    run_view,
)
from gateway.http.windows import gates_of_windows
from gateway.orphans import OrphansPort
from gateway.passkeys import PasskeyLinks
from ledger.client.client import Answer, UndecidedError
from ledger.core.config import MAY_BE_HELD, hold_on
from ledger.core.errors import LedgerError
from ledger.core.ids import ActionKey, MalformedId, check_component, stream_key
from ledger.core.inputs import AskAgain, Judge
from ledger.core.operation import Operation, Risk
from ledger.core.people import People, PersonKey
from ledger.core.sagas import Saga
from ledger.core.statement import Signed
from ledger.log.published import Published
from projections.queries import Queries
from projections.query_rows import ReviewRow, UnknownAge, UnknownRow, WaitingRow
from reconciler.orphan_notes import OrphanNote
from reconciler.orphans import Orphan
from reconciler.parking import Position
from reconciler.windows import Live

logger = logging.getLogger("actionledger.console")

_MS_PER_S = 1_000
_HAS_TIME = frozenset({"expired", "review"})


class JudgePort(Protocol):
    """The ledger as far as the pages use it."""

    async def judge(self, given: Judge, *, timeout_ms: int) -> Answer:
        """Record what a person has signed and wait for its decision."""
        ...

    async def ask_again(self, given: AskAgain, *, timeout_ms: int) -> Answer:
        """Have people asked once more and wait for its decision."""
        ...


class ConsoleReading:
    """The port of the pages over an installation."""

    def __init__(  # noqa: PLR0913 - each part of an installation that the pages read
        self,
        queries: Queries,
        ledger: JudgePort,
        links: PasskeyLinks,
        published: Callable[[], Published],
        *,
        generation: str,
        live: Callable[[int], Awaitable[Live]],
        orphans: OrphansPort,
        catch_up: Callable[[], Awaitable[bool]] = nothing_newer,
    ) -> None:
        """`live` asks what the reconciler saw lately, as of a wall clock; `orphans` is the desk of
        what providers state and no action explains; for `catch_up` see `gateway.http.doors`.
        """
        self._catch_up = catch_up
        self._live = live
        self._orphans = orphans
        self._queries = queries
        self._ledger = ledger
        self._links = links
        self._published = published
        self._generation = generation

    def people(self) -> People:
        """Who may decide, as it was published last."""
        return self._published().people

    async def newest_people(self) -> People:
        """Who may decide, by all that was published before."""
        if not await self._catch_up():
            raise NotAnsweringError
        return self._published().people

    def ledger(self) -> str:
        """The generation of the log."""
        return self._generation

    async def waiting(self, tenants: Sequence[str], *, limit: int) -> Sequence[Waiting]:
        """What needs a person, oldest first: what can be decided now, which has minutes, and then
        what ran out and what is to be settled.
        """
        async with _asking():
            asked = await self._queries.waiting(tenants, limit=limit)
            cases = await self._queries.cases(tenants, limit=limit)
        found = [self._asked(one) for one in asked] + [self._case(one) for one in cases]
        found.sort(key=lambda one: (one.kind in _HAS_TIME, one.since, one.key))
        return found[:limit]

    async def known(self, tenant: str, key: str) -> Known | None:
        """An action with all that is known of it, or None."""
        async with _asking():
            found = await self._queries.case_sheet(tenant, key, limit=EVENTS_MAX)
        if found is None:
            return None
        action = found.action
        known = self._published()
        asked = action.policy_hash if action.approval is None else action.approval.policy_hash
        return Known(
            action=action,
            events=found.events,
            ledger=self._generation,
            policy=None if asked is None else known.policies.get(asked),
            hold=hold_on(action, known.holds) if action.status in MAY_BE_HELD else None,
            is_whole=found.is_whole,
            people=known.people,
            declared=self._declared(key),
        )

    async def cases(self, tenants: Sequence[str], *, limit: int) -> Sequence[CaseEntry]:
        """The cases that wait for a person, oldest first."""
        async with _asking():
            found = await self._queries.cases(tenants, limit=limit)
        return [case_entry(one) for one in found]

    async def blocked(self, tenants: Sequence[str], *, limit: int) -> Sequence[CaseEntry]:
        """What waits for another action, and may be let pass it."""
        async with _asking():
            found = await self._queries.blocked(tenants, limit=limit)
        return [blocked_entry(one) for one in found]

    async def unknowns(self, tenants: Sequence[str], *, limit: int) -> Sequence[UnknownRow]:
        """What may have happened, oldest news first."""
        async with _asking():
            return await self._queries.unknowns(tenants, limit=limit)

    async def unknown_ages(self, tenants: Sequence[str], *, now_ms: int) -> Sequence[UnknownAge]:
        """How much is uncertain at each provider, by age."""
        async with _asking():
            return await self._queries.unknown_ages(tenants, now_ms=now_ms)

    async def live(self, *, now_ms: int) -> Live:
        """What the reconciler saw lately, of all tenants."""
        async with _asking():
            return await self._live(now_ms)

    async def runs(self, tenants: Sequence[str], *, limit: int, now_ms: int) -> RunList:
        """The newest runs of these tenants."""
        async with _asking():
            found = await self._queries.runs(tenants, limit=limit)
        return run_list(found, self._published().policy, now_ms)

    async def orphans(self, tenants: Sequence[str], *, limit: int) -> tuple[Sequence[Orphan], int]:
        """What providers state and no action explains, oldest first, and how much that is."""
        async with _asking():
            return await self._orphans.orphans(tenants, limit=limit)

    async def orphan(self, tenants: Sequence[str], place: Position) -> Orphan | None:
        """One of them by the place of its row, or None."""
        async with _asking():
            return await self._orphans.orphan(tenants, place)

    async def note_orphan(self, orphan: Orphan, said: OrphanNote) -> None:
        """Write down what a person says of it."""
        try:
            await self._orphans.note(orphan, said)
        except (LedgerError, TimeoutError) as trouble:
            logger.warning("note_not_kept", extra={"place": orphan.place, "reason": repr(trouble)})
            raise NotAnsweringError from trouble

    async def run(self, tenant: str, run: str, *, now_ms: int) -> RunView | None:
        """A run with its ceilings and its actions, or None."""
        try:
            key = gate_of_run(tenant, check_component(run, "run"))
        except MalformedId:
            return None
        async with _asking():
            gate = await self._queries.gate(tenant, key)
            rows = await self._queries.actions_of_run(tenant, run, limit=RUN_ACTIONS_MAX)
        if gate is None and not rows:
            return None
        policy = self._published().policy
        return run_view(tenant, run, gate, rows, policy, now_ms, more=cut(rows))

    async def ceilings(self, tenant: str, *, now_ms: int) -> CeilingList:
        """The ceilings in force, and how their windows of now stand."""
        policy = self._published().policy
        async with _asking():
            gates = await gates_of_windows(self._queries, tenant, policy, now_ms)
        return ceiling_list(tenant, gates, policy, now_ms)

    async def sagas(self, tenants: Sequence[str], *, limit: int) -> Sequence[Saga]:
        """The newest sagas of these tenants only."""
        async with _asking():
            return await self._queries.sagas(tenants, limit=limit)

    async def saga(self, tenant: str, event: str, saga: str) -> Saga | None:
        """A saga of a business event, or None."""
        try:
            key, name = stream_key(tenant, event), check_component(saga, "saga")
        except MalformedId:
            return None
        async with _asking():
            return await self._queries.saga(key, name)

    async def case(self, tenant: str, key: str, person: str, *, now_ms: int) -> KnownCase | None:
        """Everything about the case of an action, or None."""
        async with _asking():
            found = await self._queries.case_sheet(tenant, key, limit=EVENTS_MAX)
        if found is None:
            return None
        sheet = case_sheet_of(
            found, self._published(), ledger=self._generation, now_ms=now_ms, you=person
        )
        return KnownCase(sheet, found.is_whole)

    async def decide(self, key: str, signed: Signed) -> Decided:
        """Hand in a signed decision and wait for the ledger's."""
        return await _handed_in(
            self._ledger.judge(Judge(key=key, signed=signed), timeout_ms=DECIDED_MS_MAX)
        )

    async def ask_again(self, key: str, person: str) -> Decided:
        """Have people asked once more and wait for the ledger's decision."""
        return await _handed_in(
            self._ledger.ask_again(AskAgain(key=key, principal=person), timeout_ms=DECIDED_MS_MAX)
        )

    async def spend(self, once: str) -> bool:
        """Use up a one-time value."""
        async with _asking():
            return await self._links.spend(once, kept_ms=SPENT_KEPT_MS)

    async def is_spent(self, once: str) -> bool:
        """Whether somebody used up a one-time value."""
        async with _asking():
            return await self._links.is_spent(once)

    async def enrolment(self, token: str) -> Enrolment | None:
        """What a link is for, or None."""
        async with _asking():
            link = await self._links.link(token)
        return None if link is None else Enrolment(link.person, link.expires_at, link.key)

    async def enrol(self, token: str, key: PersonKey, device: str) -> bool:
        """Keep the public key that was made for a link."""
        async with _asking():
            return await self._links.put(token, key, device)

    def _asked(self, one: WaitingRow) -> Waiting:
        is_over = one.ended is not None
        is_before = one.nonce is None
        return Waiting(
            tenant=one.tenant_id,
            key=one.action_key,
            kind="preview" if is_before else "expired" if is_over else "approval",
            since=one.created_at if one.requested_at is None else one.requested_at,
            target=one.target,
            amount_minor=one.amount_minor,
            currency=one.currency,
            principal=one.principal,
            row=one.policy_row,
            risk=self._risk(one.action_key),
            expires_at=None if is_over else one.expires_at,
            quorum=one.quorum or 0,
            granted=one.granted,
            groups=one.groups,
        )

    def _case(self, one: ReviewRow) -> Waiting:
        return Waiting(
            tenant=one.tenant_id,
            key=one.action_key,
            kind="review",
            since=one.opened_at,
            target=one.target,
            amount_minor=one.amount_minor,
            currency=one.currency,
            principal=one.principal,
            row=None,
            risk=self._risk(one.action_key),
            reason=one.reason,
        )

    def _risk(self, key: str) -> Risk | None:
        declared = self._declared(key)
        return None if declared is None else declared.risk

    def _declared(self, key: str) -> Operation | None:
        catalogue, named = self._published().catalogue, ActionKey.parse(key)
        return None if catalogue is None else catalogue.operation(named.operation, named.version)


async def _handed_in(asking: Awaitable[Answer]) -> Decided:
    """The ledger's decision, or that there is none so far."""
    try:
        answer = await asking
    except UndecidedError as undecided:
        return Decided(undecided.partition, None)
    except LedgerError as trouble:
        logger.warning("console_not_answering", extra={"reason": repr(trouble)})
        raise NotAnsweringError from trouble
    return Decided(answer.partition, answer.decision)


@asynccontextmanager
async def _asking() -> AsyncIterator[None]:
    """Ask the read model, not for ever; whatever a database does is told in one way."""
    try:
        async with asyncio.timeout(READ_MS_MAX / _MS_PER_S):
            yield
    except Exception as trouble:
        logger.warning("console_not_answering", extra={"reason": repr(trouble)})
        raise NotAnsweringError from trouble
