"""Ceilings: what a run, a tenant or a target may take at most, as a policy declares them.

An amount counts in the window in which it was asked for: a day is a day in the zone of the ceiling,
whatever its length. Immutable; made by `parse_policy`, read by `decide` and by whoever shows how
much is left.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo

from pydantic import Field

from ledger.core.gates import (
    SIDE_EFFECTS,
    STEPS,
    TOKENS,
    TOOL_CALLS,
    WALL_CLOCK,
    Gate,
    Reaching,
    spend,
)
from ledger.core.ids import GateKind, gate_key
from ledger.core.limits import DURATION_MS_MAX, INTEGER_MAX
from ledger.core.operation import Component
from ledger.core.policy_when import Amounts
from ledger.core.wire import Text, Wire

Per = Literal["action", "run", "tenant", "target"]
"""Whose ceiling it is. A run's and an action's have no window."""

Window = Literal["hour", "day", "week", "month"]
Whole = Annotated[int, Field(ge=1, le=INTEGER_MAX)]
Count = Annotated[int, Field(ge=0, le=INTEGER_MAX)]

_OTHER_CURRENCY: Final = "spend"
"""The dimension that is reached where a ceiling on money does not name the currency at all."""


@lru_cache(maxsize=256)
def zone_of(name: str) -> ZoneInfo | None:
    """The zone of a name of the IANA database, or None.

    By the locked package `tzdata`, never by the machine's own files: two members of one version
    would begin a day at two times, and a machine without such files knows no zone at all.
    """
    if name not in _zone_names():
        return None
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


@cache
def _zone_names() -> frozenset[str]:
    return frozenset(files("tzdata").joinpath("zones").read_text(encoding="ascii").split())


class Ceiling(Wire):
    """One ceiling. At least one amount is given; `steps`, `tool_calls` and `tokens` are what the
    agent says itself (per run only), the others the ledger enforces. `spend` is in minor units by
    currency: one that is not named may not be spent at all.
    """

    name: Component
    per: Per
    window: Window | None = None
    zone: Text = "UTC"
    side_effects: Count | None = None
    spend: Amounts | None = None
    wall_clock_ms: Annotated[int, Field(ge=1, le=DURATION_MS_MAX)] | None = None
    steps: Whole | None = None
    tool_calls: Whole | None = None
    tokens: Whole | None = None

    @property
    def limits(self) -> Mapping[str, int]:
        """Every limit by its dimension."""
        named = (
            (SIDE_EFFECTS, self.side_effects),
            (WALL_CLOCK, self.wall_clock_ms),
            (STEPS, self.steps),
            (TOOL_CALLS, self.tool_calls),
            (TOKENS, self.tokens),
        )
        limits = {name: limit for name, limit in named if limit is not None}
        return limits | {spend(code): limit for code, limit in (self.spend or {}).items()}

    def window_at(self, at: int) -> str:
        """The window that a log time lies in, as it stands in the key of the gate: local dates, so
        that a day is a day there. In UTC where the zone that was adopted is no longer known.
        """
        zone = zone_of(self.zone) or UTC
        local = (datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=at)).astimezone(zone)
        match self.window:
            case "hour":
                # Two hours of one name on the night that has them are two windows.
                offset = f"{local:%z}".replace("+", "p").replace("p0000", "Z")
                return f"{local:%Y-%m-%dT%H}{offset}"
            case "week":
                return f"{local:%G-W%V}"
            case "month":
                return f"{local:%Y-%m}"
            case "day" | None:
                return f"{local:%Y-%m-%d}"

    def window_of(self, gate: str) -> str | None:
        """The window in the key of a gate that counted for it; None where it has none, or where the
        key holds its name as a hash.
        """
        _, _, name = gate.partition(f"/{GateKind.WINDOW}:")
        ceiling, _, rest = name.partition(":")
        return rest.partition(":")[0] if ceiling == self.name and rest else None

    def gate(self, tenant: str, run: str | None, target: str | None, at: int) -> str | None:
        """The key of the gate that counts for it; None where there is nothing to count by."""
        match self.per:
            case "action":
                return None
            case "run":
                return None if run is None else gate_key(tenant, GateKind.RUN, run)
            case "tenant":
                name = f"{self.name}:{self.window_at(at)}"
                return gate_key(tenant, GateKind.WINDOW, name)
            case "target":
                if target is None:
                    return None
                name = f"{self.name}:{self.window_at(at)}:{target}"
                return gate_key(tenant, GateKind.WINDOW, name)

    def reached_by(self, demand: Mapping[str, int]) -> Reaching | None:
        """The first limit that a demand alone passes, or None."""
        return next(self._passed(demand, {}, 0), None)

    def reached(self, gate: Gate | None, demand: Mapping[str, int], now: int) -> Reaching | None:
        """The first limit that a gate would pass with a demand on top of what it has, or None."""
        taken = {} if gate is None else {name: gate.taken(name) for name in (*self.limits, *demand)}
        ran_ms = 0 if gate is None else now - gate.opened_at
        return next(self._passed(demand, taken, ran_ms), None)

    def _passed(
        self, demand: Mapping[str, int], taken: Mapping[str, int], ran_ms: int
    ) -> Iterator[Reaching]:
        limits = self.limits
        for name, limit in limits.items():
            held = ran_ms if name == WALL_CLOCK else taken.get(name, 0)
            wanted = demand.get(name, 0)
            # What nobody asks for more of is used up once it is reached.
            is_passed = held + wanted > limit if wanted else name in _USED_UP and held >= limit
            if is_passed:
                yield Reaching(ceiling=self.name, dimension=name, taken=held, limit=limit)
        if self.spend is not None:
            for name in demand:
                if name.startswith(f"{_OTHER_CURRENCY}.") and name not in limits:
                    yield Reaching(
                        ceiling=self.name, dimension=name, taken=taken.get(name, 0), limit=0
                    )


_USED_UP: Final = frozenset({WALL_CLOCK, STEPS, TOOL_CALLS, TOKENS})
"""What an action does not ask for itself, and cannot go on without."""
