"""How many actions of one principal may wait for people at once, so that nobody is flooded until
they agree unread.

Guarantees that only a new action that people would be asked about is refused: what goes ahead by
itself, and what was proposed before, is answered as ever. Counts by the read model, and beside it
what this process has let in and the tables do not show yet, so that a hundred at once count as a
hundred. With several gateways each counts its own for that moment. Called by the route of
proposals.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from gateway.http import following
from gateway.http.codes import Code
from gateway.http.doors import Doors
from gateway.http.problems import No
from ledger.core.ids import ActionKey
from ledger.core.inputs import Propose
from ledger.core.state import Status

PRINCIPALS_COUNTED_MAX: Final = 10_000
"""Principals remembered at a time; who was not heard of for longest is forgotten first."""

SHOWN_WITHIN_S: Final = 10.0
"""By then the tables show an action, or something is wrong with them."""


@dataclass(slots=True)
class _Admitted:
    """What was let in of one principal, by key, with the time; what of it nothing was heard of for
    long, which does not count; and whoever is being looked at.
    """

    at_s: dict[str, float] = field(default_factory=dict)
    unheard: tuple[str, ...] = ()
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)


class WaitingQuota:
    """One a door; `open_max` is for each principal of each tenant."""

    def __init__(self, open_max: int) -> None:
        self._open_max = open_max
        self._by_principal: OrderedDict[tuple[str, str], _Admitted] = OrderedDict()

    async def refusal(self, doors: Doors, given: Propose) -> No | None:
        """Why a proposal is not taken now, or None: then it counts until the tables show it, or
        until `settled` says that nobody is asked about it.
        """
        tenant = ActionKey.parse(given.key).tenant
        if not _asks_people(doors, given, tenant):
            return None
        admitted = self._of(tenant, given.request.principal)
        # One proposal of a principal after the other: two would see the same free place.
        async with admitted.looking:
            waiting = await following.read(
                doors.queries.waiting_keys(
                    tenant, given.request.principal, limit=self._open_max + 1
                )
            )
            shown = frozenset[str]() if isinstance(waiting, No) else frozenset(waiting)
            now_s = doors.monotonic_s()
            self._forget(admitted, shown, now_s)
            if given.key in admitted.unheard:
                # It may be in the log, undecided: whoever heard that it is not would ask otherwise.
                return None
            counted = shown | admitted.at_s.keys()
            if given.key not in counted and len(counted) >= self._open_max:
                counted = shown | {key for key in admitted.at_s if await _may_wait(doors, key)}
            if given.key not in counted and len(counted) >= self._open_max:
                asks = await doors.by_newest(lambda: _asks_people(doors, given, tenant), bool)
                if asks is not True:
                    return asks or None
                known = await following.current(doors, given.key)
                return No(Code.TOO_MANY_WAITING) if isinstance(known, No) else None
            if given.key not in shown:
                admitted.at_s[given.key] = now_s
        return None

    def settled(self, given: Propose) -> None:
        """Nobody is asked about this one: it was refused, or goes ahead."""
        tenant = ActionKey.parse(given.key).tenant
        admitted = self._of(tenant, given.request.principal)
        admitted.at_s.pop(given.key, None)
        admitted.unheard = tuple(key for key in admitted.unheard if key != given.key)

    def _forget(self, admitted: _Admitted, shown: frozenset[str], now_s: float) -> None:
        """Count no more by itself what the tables show, and what they should have shown by now."""
        late = (key for key, at_s in admitted.at_s.items() if now_s - at_s >= SHOWN_WITHIN_S)
        unheard = [key for key in (*admitted.unheard, *late) if key not in shown]
        admitted.unheard = tuple(unheard[-self._open_max :])
        admitted.at_s = {
            key: at_s
            for key, at_s in admitted.at_s.items()
            if key not in shown and now_s - at_s < SHOWN_WITHIN_S
        }

    def _of(self, tenant: str, principal: str) -> _Admitted:
        name = (tenant, principal)
        admitted = self._by_principal.setdefault(name, _Admitted())
        self._by_principal.move_to_end(name)
        if len(self._by_principal) > PRINCIPALS_COUNTED_MAX:
            self._by_principal.popitem(last=False)
        return admitted


async def _may_wait(doors: Doors, key: str) -> bool:
    """Whether an action that was let in waits for people, as far as this door followed it."""
    known = await doors.ledger.progress(key, after_version=0, timeout_ms=0)
    return known is None or known.status == Status.AWAITING_APPROVAL


def _asks_people(doors: Doors, given: Propose, tenant: str) -> bool:
    """Whether people would be asked about it, by the table and the catalogue as they are known
    here. What is not declared is refused by the ledger, and waits for nobody.
    """
    published, request = doors.published(), given.request
    if published.catalogue is None:
        return False
    operation = published.catalogue.operation(request.operation, request.version)
    if operation is None or not operation.allows(request.principal):
        return False
    ruling = published.policy.rule(
        operation, request, tenant, given.revises, None if given.caller is None else "caller"
    )
    return ruling.asks is not None
