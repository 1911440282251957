"""The read model of an installation in memory: what was decided, folded when it is asked.

Guarantees that nothing of one tenant is told to another. Called by the door.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from gateway.memory.processes import PARTITION
from ledger.core.blocking import blocking
from ledger.core.facts import (
    ActionDenied,
    ApprovalGranted,
    ApprovalRequested,
    ApprovalWithdrawn,
)
from ledger.core.gates import Gate
from ledger.core.ids import (
    ActionKey,
    GateKind,
    event_id,
    gate_kind,
    is_gate_key,
    stream_key_of,
)
from ledger.core.people import EVERY_TENANT
from ledger.core.records import Decision
from ledger.core.sagas import Saga, names_of, saga_of
from ledger.core.state import Action, AttemptStatus, Status, Stream
from ledger.log.fold import fold_decision
from projections.query_rows import (
    ActionRow,
    CaseRow,
    CauseRow,
    EventRow,
    GateRow,
    ReviewRow,
    SignedRow,
    UnknownAge,
    WaitingRow,
)


class MemoryQueries:
    """The read model: everything is in memory, so an action that is not is not there at all."""

    def __init__(self) -> None:
        self._events: dict[str, list[EventRow]] = {}
        self._decisions: dict[str, list[Decision]] = {}

    def feed(self, read: Decision) -> None:
        """Keep the facts of a decision by their action."""
        if read.facts or read.gate:
            self._decisions.setdefault(read.stream, []).append(read)
        for ordinal, fact in enumerate(read.facts):
            cause = read.cause
            view = EventRow(
                version=fact.version,
                type=fact.type,
                decided_at=read.decided_at,
                data=fact.model_dump(mode="json", exclude_none=True),
                event_id=event_id(
                    ActionKey.parse(fact.action).tenant,
                    fact.action,
                    fact.version,
                    fact.type,
                    cause.topic,
                    cause.partition,
                    cause.offset,
                    ordinal,
                ),
                partition=PARTITION,
                ledger_offset=read.at,
                ordinal=ordinal,
                cause=CauseRow(cause.topic, cause.partition, cause.offset, cause.copied),
            )
            self._events.setdefault(fact.action, []).append(view)

    async def action(self, tenant: str, action_key: str) -> ActionRow | None:  # noqa: ARG002
        """None: whoever follows the log knows every action there is."""
        return None

    async def timeline(
        self, tenant: str, action_key: str, *, after_version: int = 0, limit: int
    ) -> Sequence[EventRow]:
        """The facts of an action above a version, in order."""
        if ActionKey.parse(action_key).tenant != tenant:
            return ()
        known = self._events.get(action_key, ())
        return [one for one in known if one.version > after_version][:limit]

    async def recorded(self, tenant: str, action_key: str) -> Action | None:
        """An action whole, folded from everything that was recorded of it."""
        if ActionKey.parse(action_key).tenant != tenant:
            return None
        return self._stream(stream_key_of(action_key)).action(action_key)

    async def waiting(self, tenants: Collection[str], *, limit: int) -> Sequence[WaitingRow]:
        """Actions that people are asked about, whoever was asked longest ago first, and what ran
        out behind all others.
        """
        streams = map(self._stream, self._decisions)
        actions = [action for stream in streams for action in stream.actions]
        found = [
            _waiting(action)
            for action in actions
            if action.status is Status.AWAITING_APPROVAL
            and not {ActionKey.parse(action.key).tenant, EVERY_TENANT}.isdisjoint(tenants)
        ]
        return sorted(found, key=_since_asked)[:limit]

    async def waiting_keys(self, tenant: str, principal: str, *, limit: int) -> Sequence[str]:
        """The keys of actions for which a principal waits for people."""
        streams = map(self._stream, self._decisions)
        found = [
            action.key
            for stream in streams
            for action in stream.actions
            if action.status is Status.AWAITING_APPROVAL
            and action.request.principal == principal
            and ActionKey.parse(action.key).tenant == tenant
        ]
        return found[:limit]

    async def paused(self, tenant: str, run: str) -> Sequence[tuple[str, str]]:
        """Actions of a run that wait for a person at a ceiling, and its name, oldest first."""
        cases = await self.cases({tenant}, limit=len(self._events))
        found = [
            (one.action_key, one.names)
            for one in cases
            if one.reason == "ceiling_reached" and one.names is not None
        ]
        known = {key: await self.recorded(tenant, key) for key, _ in found}
        return [
            (key, name)
            for key, name in found
            if (action := known[key]) is not None and action.run == run and not action.is_final
        ]

    async def cases(self, tenants: Collection[str], *, limit: int) -> Sequence[ReviewRow]:
        """Cases that wait for a person, oldest first."""
        found: list[ReviewRow] = []
        for stream in map(self._stream, self._decisions):
            for action in stream.actions:
                tenant = ActionKey.parse(action.key).tenant
                if not {tenant, EVERY_TENANT}.isdisjoint(tenants):
                    found += self._case(action, tenant)
        return sorted(found, key=lambda one: one.opened_at)[:limit]

    def _case(self, action: Action, tenant: str) -> list[ReviewRow]:
        """The case of an action, where it has one that nobody has settled."""
        told = [
            one
            for one in self._events[action.key]
            if one.type in {"review.opened", "review.resolved"}
        ]
        is_waiting = action.status is Status.NEEDS_REVIEW or action.is_final
        if not told or told[-1].type == "review.resolved" or not is_waiting:
            return []
        opened, money = told[-1], action.request.money
        return [
            ReviewRow(
                tenant_id=tenant,
                action_key=action.key,
                version=opened.version,
                kind="alarm" if action.is_final else "review",
                reason=opened.data["reason"],
                status=action.status,
                operation=action.request.operation,
                target=action.request.target,
                amount_minor=None if money is None else money.minor,
                currency=None if money is None else money.currency,
                principal=action.request.principal,
                environment=action.request.environment,
                provider=action.provider,
                account=action.account,
                opened_at=opened.decided_at,
                partition=opened.partition,
                ledger_offset=opened.ledger_offset,
                names=opened.data.get("names"),
            )
        ]

    async def blocked(self, tenants: Collection[str], *, limit: int) -> Sequence[ActionRow]:
        """Actions that wait for others and may be let pass."""
        found = [
            _row(action, key)
            for key in self._decisions
            if not {key.partition("/")[0], EVERY_TENANT}.isdisjoint(tenants)
            for action in self._stream(key).actions
            if (waits := blocking(action)) is not None and waits.may_be_allowed
        ]
        return sorted(found, key=lambda one: one.updated_at)[:limit]

    async def unknown_ages(self, tenants: Collection[str], *, now_ms: int) -> Sequence[UnknownAge]:
        """How much is uncertain at each provider, by age."""
        counts = Counter(
            (action.provider, _below(now_ms - _unknown_since(action)))
            for key in self._decisions
            if not {key.partition("/")[0], EVERY_TENANT}.isdisjoint(tenants)
            for action in self._stream(key).actions
            if action.status is Status.UNKNOWN
        )
        return [UnknownAge(*place, count) for place, count in sorted(counts.items())]

    async def case_sheet(self, tenant: str, action_key: str) -> CaseRow | None:
        """An action with everything that was recorded of it."""
        action = await self.recorded(tenant, action_key)
        if action is None:
            return None
        return CaseRow(action, tuple(self._events[action_key]), is_whole=True)

    async def gate(self, tenant: str, gate_key: str) -> GateRow | None:
        """A gate as it stands."""
        gate = self._stream(gate_key).gate
        return _gate(gate_key, gate) if gate is not None and _is_of(gate_key, tenant) else None

    async def runs(self, tenant: str, *, limit: int) -> Sequence[GateRow]:
        """The gates of runs, the newest first."""
        return self._gates(tenant, GateKind.RUN)[:limit]

    async def windows(self, tenant: str, *, limit: int) -> Sequence[GateRow]:
        """The gates of windows, the newest first."""
        return self._gates(tenant, GateKind.WINDOW)[:limit]

    def _gates(self, tenant: str, kind: GateKind) -> list[GateRow]:
        found = [
            _gate(key, gate)
            for key in self._decisions
            if is_gate_key(key) and gate_kind(key) is kind and _is_of(key, tenant)
            if (gate := self._stream(key).gate) is not None
        ]
        return sorted(found, key=lambda one: -one.opened_at)

    async def actions_of_run(self, tenant: str, run: str, *, limit: int) -> Sequence[ActionRow]:
        """The actions that were proposed with a run, those recorded first first."""
        found = [
            _row(action, key)
            for key in self._decisions
            if _is_of(key, tenant)
            for action in self._stream(key).actions
            if action.run == run
        ]
        return sorted(found, key=lambda one: one.created_at)[:limit]

    async def actions_of_batch(self, tenant: str, batch: str, *, limit: int) -> Sequence[ActionRow]:
        """The actions that were proposed with a batch, those recorded first first."""
        found = [
            _row(action, key)
            for key in self._decisions
            if _is_of(key, tenant)
            for action in self._stream(key).actions
            if action.batch == batch
        ]
        return sorted(found, key=lambda one: one.created_at)[:limit]

    async def sagas(self, tenant: str, *, limit: int) -> Sequence[Saga]:
        """Sagas, the newest first."""
        found = [
            saga
            for key in self._decisions
            if _is_of(key, tenant)
            for name in names_of(self._stream(key))
            if (saga := saga_of(self._stream(key), name)) is not None
        ]
        return sorted(found, key=lambda one: -one.steps[0].action.recorded_at)[:limit]

    async def saga(self, stream_key: str, name: str) -> Saga | None:
        """A saga of a business event."""
        return saga_of(self._stream(stream_key), name)

    async def signed(self, tenant: str, action_key: str) -> Sequence[SignedRow]:
        """What people have signed about an action, in order."""
        if ActionKey.parse(action_key).tenant != tenant:
            return ()
        found: list[SignedRow] = []
        number = 0
        for read in self._decisions.get(stream_key_of(action_key), ()):
            for fact in read.facts:
                if fact.action != action_key:
                    continue
                if isinstance(fact, ApprovalRequested):
                    number = fact.round
                said = _SAID.get(type(fact))
                person = getattr(fact, "person", None)
                if said is not None and person is not None:
                    comment = getattr(fact, "comment", None)
                    key_id = getattr(fact, "key_id", None)
                    at = read.decided_at
                    found.append(SignedRow(fact.version, number, said, person, key_id, comment, at))
        return found

    def _stream(self, key: str) -> Stream:
        stream = Stream(key)
        for read in self._decisions.get(key, ()):
            stream = fold_decision(stream, read)
        return stream


_SAID: Final[dict[type, str]] = {
    ApprovalGranted: "approve",
    ApprovalWithdrawn: "withdraw",
    ActionDenied: "deny",
}


def _since_asked(one: WaitingRow) -> tuple[bool, int]:
    return one.ended is not None, one.requested_at or one.created_at


def _waiting(action: Action) -> WaitingRow:
    asked, dry, money = action.approval, action.dry, action.request.money
    content = None if dry is None else dry.content
    return WaitingRow(
        tenant_id=ActionKey.parse(action.key).tenant,
        action_key=action.key,
        operation=action.request.operation,
        target=action.request.target,
        amount_minor=None if money is None else money.minor,
        currency=None if money is None else money.currency,
        principal=action.request.principal,
        environment=action.request.environment,
        provider=action.provider,
        account=action.account,
        version=action.version,
        policy_row=action.policy_row,
        policy_hash=action.policy_hash,
        round=None if asked is None else asked.round,
        nonce=None if asked is None else asked.nonce,
        requested_at=None if asked is None else asked.requested_at,
        expires_at=None if asked is None else asked.expires_at,
        quorum=None if asked is None else asked.quorum,
        groups=() if asked is None else asked.groups,
        granted=0 if asked is None else len(asked.grants),
        granted_by=() if asked is None else tuple(grant.person for grant in asked.grants),
        ended=None if asked is None else asked.ended,
        preview=None if content is None else content.model_dump(mode="json", exclude_none=True),
        preview_hash=None if asked is None else asked.preview_hash,
        step_deadline_at=action.step_deadline_at,
        created_at=action.recorded_at,
        updated_at=action.updated_at,
    )


def _is_of(stream_key: str, tenant: str) -> bool:
    return stream_key.partition("/")[0] == tenant


def _gate(key: str, gate: Gate) -> GateRow:
    granted = list(gate.granted)
    kind = gate_kind(key)
    reserved = Counter[str]()
    for one in granted:
        reserved.update(one.demand)
    return GateRow(
        tenant_id=key.partition("/")[0],
        gate_key=key,
        kind=kind.value,
        name=key.partition(":")[2],
        version=gate.version,
        used=gate.used,
        reserved=dict(reserved),
        granted=len(granted),
        queued=len(gate.reservations) - len(granted),
        holder=granted[0].action if granted and kind is GateKind.TARGET else None,
        opened_at=gate.opened_at,
        updated_at=gate.opened_at,
        partition=PARTITION,
        ledger_offset=0,
    )


def _row(action: Action, stream_key: str) -> ActionRow:
    """An action as a list of them tells it."""
    money, waits = action.request.money, blocking(action)
    return ActionRow(
        tenant_id=stream_key.partition("/")[0],
        action_key=action.key,
        operation=action.request.operation,
        stream_key=stream_key,
        status=action.status.value,
        version=action.version,
        request_hash=action.request_hash,
        target=action.request.target,
        amount_minor=None if money is None else money.minor,
        currency=None if money is None else money.currency,
        principal=action.request.principal,
        environment=action.request.environment,
        provider=action.provider,
        account=action.account,
        reliability=action.reliability,
        attempts=action.counted_attempts,
        holder=None,
        lease_until=None,
        next_due_at=None,
        step_deadline_at=action.step_deadline_at,
        provider_reference=action.reference,
        result=None,
        proof=action.proof,
        code=action.code,
        review=action.review,
        ledger_partition=PARTITION,
        ledger_offset=0,
        created_at=action.recorded_at,
        updated_at=action.updated_at,
        run=action.run,
        blocked_reason=None if waits is None else waits.why,
        blocked_by=None if waits is None else waits.by,
        performer=action.performer,
    )


def _unknown_since(action: Action) -> int:
    ended = [
        attempt.ended_at
        for attempt in action.attempts
        if attempt.status is AttemptStatus.UNRESOLVED and attempt.ended_at is not None
    ]
    return min(ended, default=action.updated_at)


_AGES_MS: Final = {
    "1m": 60_000,
    "10m": 600_000,
    "1h": 3_600_000,
    "6h": 21_600_000,
    "1d": 86_400_000,
}


def _below(age_ms: int) -> str:
    return next((name for name, bound_ms in _AGES_MS.items() if age_ms < bound_ms), "older")
