"""Runs that have reached a ceiling and wait for a person: what else such a run asks for, and does
not fit either, is refused with the case that there is, so that a run that loops makes one and not
one for every key.

Guarantees that only what is new, and would pass that ceiling, is refused: what fits, what undoes or
revises something, and what was proposed before is answered as ever, also where nobody has decided
it yet; and that no agent hears of an action for whose like it may not ask. Judged by the read
model, and beside it by what this process let in and the tables do not show yet; what is under way
at once may come to a case each. Called by the routes of proposals and plans.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from gateway.http import following, views
from gateway.http.codes import Code
from gateway.http.doors import Doors
from gateway.http.problems import No, Original
from gateway.http.seeing import may_ask
from gateway.keys import Caller
from ledger.core.ceilings import Ceiling
from ledger.core.decide.gate_demands import demand_of
from ledger.core.gates import Gate
from ledger.core.ids import ActionKey, GateKind, gate_key
from ledger.core.inputs import Propose
from ledger.core.rejections import Rejection
from ledger.core.state import Status
from projections.query_rows import GateRow

RUNS_KEPT_MAX: Final = 10_000
"""Runs remembered at a time; which was not heard of for longest is forgotten first."""

KEYS_KEPT_MAX: Final = 16
"""The newest proposals of a run that are remembered until the tables show them."""


class RunsPaused:
    """One a door."""

    def __init__(self) -> None:
        self._newest: OrderedDict[tuple[str, str], tuple[str, ...]] = OrderedDict()

    async def refusal(self, doors: Doors, given: Propose, caller: Caller) -> No | None:
        """Why a proposal of a caller is not taken now, or None."""
        if given.run is None or given.revises is not None or given.compensates is not None:
            return None
        tenant = ActionKey.parse(given.key).tenant
        if given.key in self._newest.get((tenant, given.run), ()):
            # It may be in the log, undecided: whoever heard that it is not would ask otherwise.
            return None
        if not any(_ceilings(doors, given, tenant)):
            return None
        found = await following.read(
            doors.queries.gate(tenant, gate_key(tenant, GateKind.RUN, given.run))
        )
        gate = None if found is None or isinstance(found, No) else _as_gate(found)
        if gate is None or not _reached(doors, given, tenant, gate):
            self._remember(tenant, given)
            return None
        case = await self._case(doors, given, tenant, gate)
        if case is None:
            self._remember(tenant, given)
            return None
        key, ceiling = case
        newest = await doors.by_newest(
            lambda: ceiling in _reached(doors, given, tenant, gate), bool
        )
        if newest is not True:
            return newest or None
        known = await following.current(doors, given.key)
        if not isinstance(known, No) or known.code is not Rejection.UNKNOWN_ACTION:
            # It is there, or nobody can say just now that it is not.
            return None
        is_told = await may_ask(doors, caller, ActionKey.parse(key).operation) is True
        waits = key if is_told else "an action of another agent"
        detail = f"the ceiling {ceiling} of the run {given.run}: {waits} waits for a person"
        original = Original(key=key, href=views.href(key), status=Status.NEEDS_REVIEW.value)
        return No(Code.RUN_PAUSED, detail=detail, original=original if is_told else None)

    async def _case(
        self, doors: Doors, given: Propose, tenant: str, gate: Gate
    ) -> tuple[str, str] | None:
        """An action of the run that waits for a person at a ceiling which this one would pass too,
        and the name of that.
        """
        names, run = _reached(doors, given, tenant, gate), given.run or ""
        found = await following.read(doors.queries.paused(tenant, run))
        shown = () if isinstance(found, No) else found
        for key, name in shown:
            if name in names and key != given.key and await _still_waits(doors, key):
                return key, name
        for key in self._newest.get((tenant, run), ()):
            known = await doors.ledger.progress(key, after_version=0, timeout_ms=0)
            waits = known is not None and known.status == Status.NEEDS_REVIEW
            if waits and known is not None and known.names in names and key != given.key:
                return key, known.names or ""
        return None

    def _remember(self, tenant: str, given: Propose) -> None:
        name = (tenant, given.run or "")
        keys = (given.key, *(one for one in self._newest.pop(name, ()) if one != given.key))
        self._newest[name] = keys[:KEYS_KEPT_MAX]
        if len(self._newest) > RUNS_KEPT_MAX:
            self._newest.popitem(last=False)


async def _still_waits(doors: Doors, key: str) -> bool:
    """Whether an action that the tables show with a case has it still, as far as this door followed
    it: whoever has just settled one may ask for more.
    """
    known = await doors.ledger.progress(key, after_version=0, timeout_ms=0)
    return known is None or known.status == Status.NEEDS_REVIEW


def _ceilings(doors: Doors, given: Propose, tenant: str) -> Iterator[Ceiling]:
    """The ceilings per run that a proposal would have to pass, by the table and the catalogue as
    they are known here.
    """
    published, request = doors.published(), given.request
    if published.catalogue is None:
        return
    operation = published.catalogue.operation(request.operation, request.version)
    if operation is None or not operation.allows(request.principal):
        return
    ruling = published.policy.rule(
        operation, request, tenant, given.revises, None if given.caller is None else "caller"
    )
    for name in () if ruling.gates is None else ruling.gates.ceilings:
        ceiling = published.policy.ceiling(name)
        if ceiling is not None and ceiling.per == "run":
            yield ceiling


def _reached(doors: Doors, given: Propose, tenant: str, gate: Gate) -> frozenset[str]:
    """The names of the ceilings of its run that a proposal would pass."""
    now, demand = doors.wall_clock_ms(), demand_of(given.request)
    ceilings = _ceilings(doors, given, tenant)
    return frozenset(one.name for one in ceilings if one.reached(gate, demand, now) is not None)


def _as_gate(view: GateRow) -> Gate:
    """The gate of the run by its sums, as the tables show them."""
    names = {*view.used, *view.reserved}
    return Gate(view.version, view.opened_at, {name: view.taken(name) for name in names})
