"""What an action asks of gates: how much of which budgets, at which targets, and by which features
a look-alike is told there. Read by `decide`, and by doors that tell what an action would take.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ledger.core.config import Config
from ledger.core.gates import SIDE_EFFECTS, Claim, Identity, spend
from ledger.core.ids import ActionKey, GateKind, gate_key
from ledger.core.operation import Operation
from ledger.core.policy import Gates
from ledger.core.request import RecordedRequest
from ledger.core.sagas import is_compensation
from ledger.core.state import Action


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an action needs of one gate."""

    gate: str
    demand: Mapping[str, int] = field(default_factory=dict)
    ceilings: tuple[str, ...] = ()
    identity: Identity | None = None


def demand_of(request: RecordedRequest) -> dict[str, int]:
    """What one action takes of a budget."""
    demand = {SIDE_EFFECTS: 1}
    if request.money is not None:
        demand[spend(request.money.currency)] = request.money.minor
    return demand


def targets_of(request: RecordedRequest, operation: Operation | None) -> tuple[str, ...]:
    """Everything that an action acts on, each once and in normal form: the same under every
    spelling that has the same request hash.
    """
    named = [] if request.target is None else [request.target]
    for name in () if operation is None else operation.target_parameters:
        value = request.params.get(name)
        if isinstance(value, str) and value:
            named.append(unicodedata.normalize("NFC", value))
    return tuple(dict.fromkeys(named))


def leaves_target_out(
    gates: Gates | None, config: Config, request: RecordedRequest, operation: Operation
) -> bool:
    """Whether a request names no target although its operation has one, and the table guards
    targets or counts a ceiling for each.
    """
    if gates is None or (operation.target is None and not operation.target_parameters):
        return False
    if gates.target and not targets_of(request, operation):
        return True
    ceilings = (config.policy.ceiling(name) for name in gates.ceilings)
    counts = any(one is not None and one.per == "target" for one in ceilings)
    return counts and operation.target is not None and request.target is None


def budgets(action: Action, config: Config, now: int, held: Iterable[Claim]) -> Iterator[Wanted]:
    """The budgets that it needs beyond the ceilings in `held`: one question for each gate, which
    may cover several ceilings.
    """
    gates, request = action.gates, action.request
    asked = {name for one in held for name in one.ceilings}
    names: dict[str, list[str]] = {}
    for name in () if gates is None else gates.ceilings:
        ceiling = None if name in asked else config.policy.ceiling(name)
        if ceiling is None:
            continue
        tenant = ActionKey.parse(action.key).tenant
        gate = ceiling.gate(tenant, action.run, request.target, now)
        if gate is not None:
            names.setdefault(gate, []).append(name)
    demand = demand_of(request) if names else {}
    for gate, ceilings in names.items():
        yield Wanted(gate, demand, tuple(ceilings))


def target_gates(action: Action, operation: Operation | None) -> Iterator[str]:
    """The gates of everything that it acts on."""
    tenant = ActionKey.parse(action.key).tenant
    for target in targets_of(action.request, operation):
        yield gate_key(tenant, GateKind.TARGET, target)


def identity_of(action: Action, operation: Operation | None) -> Identity:
    """By what a look-alike of it is told at its targets. A compensation is suspected of nothing: a
    plan undoes each step once. Decision 31 says why steps of one plan are not suspected of each
    other.
    """
    plan = None
    if action.saga is not None:
        plan = f"{ActionKey.parse(action.key).stream_key}/{action.saga.saga}"
    window_ms = 0 if operation is None else operation.look_alike_window_ms
    return Identity(
        operation=action.request.operation,
        request_hash=action.request_hash,
        run=action.run,
        occurrence=action.occurrence,
        look_alike_ms=0 if is_compensation(action) else window_ms,
        plan=plan,
    )
