"""What a run or a window has used of its ceilings, reserved, and has left: one shape everywhere.

Guarantees that what the ledger counts itself and what an agent says of itself are told apart, and
that a limit is that of the policy which is given. Pure; called by the routes, the pages and the
command line.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from gateway.console.why import span
from ledger.core.ceilings import Ceiling, Per, Window
from ledger.core.gates import (
    REPORTED,
    SIDE_EFFECTS,
    STEPS,
    TOKENS,
    TOOL_CALLS,
    WALL_CLOCK,
    Reaching,
    spend,
)
from ledger.core.money import Money, format_money
from ledger.core.policy import Policy
from projections.query_rows import GateRow

_SPEND: Final = spend("")
_WORDS: Final[Mapping[str, str]] = {
    SIDE_EFFECTS: "side effects",
    WALL_CLOCK: "time",
    STEPS: "steps",
    TOOL_CALLS: "tool calls",
    TOKENS: "tokens",
}


class BudgetView(BaseModel):
    """One dimension of a ceiling: what is `used` for good, what actions that are under way have
    `reserved`, and what is `left` of `limit`. Money is in minor units, `wall_clock_ms` in
    milliseconds since the run began.

    `kind`: the ledger counts what is `enforced`; what is `self_reported` is the agent's own word.
    Without `ceiling` nothing limits it. `is_reached`: nothing is left.
    """

    model_config = ConfigDict(frozen=True)

    ceiling: str | None = None
    dimension: str
    kind: Literal["enforced", "self_reported"]
    used: Annotated[int, Field(ge=0)]
    reserved: Annotated[int, Field(ge=0)] = 0
    limit: int | None = None
    left: int | None = None
    is_reached: bool = False

    @property
    def taken(self) -> int:
        """What counts against the limit."""
        return self.used + self.reserved


class CeilingView(BaseModel):
    """A ceiling as the policy declares it."""

    model_config = ConfigDict(frozen=True)

    name: str
    per: Per
    window: Window | None = None
    zone: str | None = None
    limits: dict[str, int]


def ceiling_view(ceiling: Ceiling) -> CeilingView:
    """A ceiling as it is shown."""
    is_window = ceiling.per in {"tenant", "target"}
    return CeilingView(
        name=ceiling.name,
        per=ceiling.per,
        window=(ceiling.window or "day") if is_window else None,
        zone=ceiling.zone if is_window else None,
        limits=dict(ceiling.limits),
    )


def budgets_of_run(gate: GateRow | None, policy: Policy, now_ms: int) -> tuple[BudgetView, ...]:
    """Every ceiling of a run with what is used of it, and what is counted without one."""
    return budgets(gate, [one for one in policy.ceilings if one.per == "run"], now_ms)


def budgets(
    gate: GateRow | None, ceilings: Iterable[Ceiling], now_ms: int
) -> tuple[BudgetView, ...]:
    """What a gate has taken of these ceilings."""
    found: list[BudgetView] = []
    for ceiling in ceilings:
        found += _of_ceiling(gate, ceiling, now_ms)
    limited = {one.dimension for one in found}
    found += [
        _budget(None, name, gate, None, now_ms) for name in _counted(gate) if name not in limited
    ]
    return tuple(found)


def _of_ceiling(gate: GateRow | None, ceiling: Ceiling, now_ms: int) -> Iterator[BudgetView]:
    limits = dict(ceiling.limits)
    if ceiling.spend is not None:
        # A currency that it does not name may not be spent at all.
        limits |= {name: 0 for name in _counted(gate) if name.startswith(_SPEND)} | limits
    for name, limit in limits.items():
        yield _budget(ceiling.name, name, gate, limit, now_ms)


def _counted(gate: GateRow | None) -> list[str]:
    return [] if gate is None else sorted({*gate.used, *gate.reserved})


def _budget(
    ceiling: str | None, dimension: str, gate: GateRow | None, limit: int | None, now_ms: int
) -> BudgetView:
    used, reserved = 0, 0
    if gate is not None and dimension == WALL_CLOCK:
        used = max(0, now_ms - gate.opened_at)
    elif gate is not None:
        used, reserved = gate.used.get(dimension, 0), gate.reserved.get(dimension, 0)
    left = None if limit is None else max(0, limit - used - reserved)
    return BudgetView(
        ceiling=ceiling,
        dimension=dimension,
        kind=_kind(dimension),
        used=used,
        reserved=reserved,
        limit=limit,
        left=left,
        is_reached=left == 0,
    )


def reached_budget(one: Reaching) -> BudgetView:
    """A ceiling that a decision says was reached."""
    return BudgetView(
        ceiling=one.ceiling,
        dimension=one.dimension,
        kind=_kind(one.dimension),
        used=one.taken,
        limit=one.limit,
        left=0,
        is_reached=True,
    )


def _kind(dimension: str) -> Literal["enforced", "self_reported"]:
    return "self_reported" if dimension in REPORTED else "enforced"


def dimension_words(dimension: str) -> str:
    """A dimension as people say it: `spend.EUR` is `EUR`."""
    return _WORDS.get(dimension, dimension.removeprefix(_SPEND))


def amount_words(dimension: str, amount: int) -> str:
    """An amount of a dimension as people write it."""
    if dimension == WALL_CLOCK:
        return span(amount)
    if dimension.startswith(_SPEND):
        return format_money(Money(minor=amount, currency=dimension.removeprefix(_SPEND)))
    return f"{amount:,}"


def limits_words(limits: Mapping[str, int]) -> str:
    """Limits as people write them: `2 side effects, 100.00 EUR`."""
    return ", ".join(measured(name, limit) for name, limit in limits.items())


def measured(dimension: str, amount: int) -> str:
    """An amount with what it is of."""
    said = amount_words(dimension, amount)
    if dimension.startswith(_SPEND):
        return said
    if dimension == WALL_CLOCK:
        return f"{said} of time"
    words = dimension_words(dimension)
    return f"{said} {words.removesuffix('s') if amount == 1 else words}"


def budget_line(one: BudgetView) -> str:
    """How a budget stands, in a few words."""
    used = f"{amount_words(one.dimension, one.used)} used"
    reserved = f", {amount_words(one.dimension, one.reserved)} reserved" if one.reserved else ""
    if one.limit is None:
        return f"{used}{reserved}, no ceiling"
    return f"{used}{reserved} of {amount_words(one.dimension, one.limit)}"


def run_sentence(run: str, found: Iterable[BudgetView]) -> str:
    """What an agent does well to know of its run, in words that can be given to a model."""
    budgets_found = tuple(found)
    reached = [one for one in budgets_found if one.is_reached]
    if reached:
        told = "; ".join(f"{one.ceiling}: {_told(one)}" for one in reached)
        return (
            f"The run {run} has reached {told}. An action that needs more of it is held back until "
            "a person lets it pass. Finish with what you have and say so; do not go on under the "
            "name of another run."
        )
    left = [one for one in budgets_found if one.limit is not None]
    if not left:
        return f"No ceiling limits the run {run}."
    told = "; ".join(
        f"{amount_words(one.dimension, one.left or 0)} of "
        f"{amount_words(one.dimension, one.limit or 0)} {_unit(one)}".rstrip()
        for one in left
    )
    return f"The run {run} has left: {told}. You may go on within that."


def _told(one: BudgetView) -> str:
    limit = amount_words(one.dimension, one.limit or 0)
    return f"{amount_words(one.dimension, one.taken)} of {limit} {_unit(one)}".rstrip()


def _unit(one: BudgetView) -> str:
    """What an amount is of, where it does not say so itself; and whose word it is."""
    name = "" if one.dimension.startswith(_SPEND) else dimension_words(one.dimension)
    return f"{name} (as you report)".lstrip() if one.kind == "self_reported" else name
