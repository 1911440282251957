"""The case of gates: what an action takes that passes one, and one that passes a budget and then
its target, in times of one that passes none.

All three run in one installation, in turn and more than once, so that what the machine does
meanwhile falls on all of them. Called by `benchmarks.cases`.
"""

from statistics import median
from typing import Final

from benchmarks.deciding import adopt_policy, cost_us
from benchmarks.figures import Figures
from benchmarks.installation import Installation
from benchmarks.load import Order

ROUNDS: Final = 3
_ROW: Final = """
[[row]]
name = "everything"
outcome = "automatic"
reason = "Every declared operation goes ahead."
"""
_CEILING: Final = """
[[ceiling]]
name = "month"
per = "tenant"
window = "month"
spend = { EUR = 9_000_000_000_000 }
"""
PLAIN: Final = "plain"
TARGET: Final = "target"
BUDGET_AND_TARGET: Final = "budget_and_target"
TABLES: Final = {
    PLAIN: _ROW,
    TARGET: _ROW + "block_target = true\n",
    BUDGET_AND_TARGET: _CEILING + _ROW + 'block_target = true\nceilings = ["month"]\n',
}


async def gated(one: Installation, seconds: float) -> Figures:
    """CPU of our processes at many callers and p50 of one caller, as medians of ratios."""
    used_us: dict[str, list[float]] = {name: [] for name in TABLES}
    p50_ms: dict[str, list[float]] = {name: [] for name in TABLES}
    n = 0
    for number in range(ROUNDS):
        for name, table in TABLES.items():
            await adopt_policy(one, table)
            tenant = f"{name.replace('_', '-')}-{number}"
            order = Order(what="act", tenant=f"{tenant}-one", in_flight=1, seconds=seconds)
            p50_ms[name].append((await one.load.carry_out(order)).p50_ms)
            await one.caught_up()
            count, used = await cost_us(one, tenant, seconds)
            used_us[name].append(used)
            n += count
    figures: dict[str, object] = {"n": n}
    for name in TABLES:
        figures[f"{name}_us"] = round(median(used_us[name]))
        figures[f"{name}_p50_ms"] = round(median(p50_ms[name]), 2)
        if name != PLAIN:
            figures[f"{name}_times_cpu"] = _times(used_us[PLAIN], used_us[name])
            figures[f"{name}_times_p50"] = _times(p50_ms[PLAIN], p50_ms[name])
    return figures


def _times(plain: list[float], gated: list[float]) -> float:
    return round(median(after / before for before, after in zip(plain, gated, strict=True)), 2)
