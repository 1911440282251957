"""What callers want where actions meet: few targets, each other's in the opposite order, runs that
they report steps of, and the same once more, meant or not.
"""

from typing import Final

from ledger.core.ids import GateKind, gate_key
from ledger.core.inputs import Propose, ReportStep
from ledger.core.request import Request
from ledger.core.wire import Wire
from tests.simulation.world import Chance, World

TARGETS: Final = ("order:A", "order:B")
RUNS: Final = ("run-1", "run-2")
AMOUNTS: Final[tuple[dict[str, int], ...]] = ({}, {"tokens": 900, "tool_calls": 2}, {"tokens": 0})


class Crossings:
    """Draws what of an action meets others, from a chance of its own."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.chance = Chance(f"crossings {world.seed}")
        self._before: list[Request] = []

    def stream(self, number: int) -> str:
        """The business event of an action: seldom that of another one."""
        return f"acme/order-{number if self.chance.random() < 2 / 3 else 1}"

    def request(self, request: Request) -> Request:
        """The request on a target that others want, too; sometimes one that was there before."""
        chance, world = self.chance, self.world
        alike = [one for one in self._before if one.operation == request.operation]
        if alike and world.happens("looks_alike"):
            world.reach("the same under another key")
            return chance.choice(alike)
        first, second = TARGETS if chance.random() < 1 / 2 else reversed(TARGETS)
        params = dict(request.params)
        if world.happens("crosses"):
            params["also"] = second
        target = None if chance.random() < 1 / 16 else first
        request = request.model_copy(update={"params": params, "target": target})
        self._before.append(request)
        return request

    def proposal(self, said: Propose) -> Propose:
        """The proposal with the run that it is a step of, mostly, and which occurrence it is."""
        chance = self.chance
        run = None if chance.random() < 1 / 16 else RUNS[chance.random() < 1 / 3]
        occurrence = "again" if self.world.happens("occurs_again") else None
        return said.model_copy(update={"run": run, "occurrence": occurrence})

    def reports(self) -> list[tuple[int, Wire, str]]:
        """What agents say that the steps of their runs took, and when; some say it twice, some of
        things that are no runs, some too many names.
        """
        chance, world = self.chance, self.world
        if "reports_steps" not in world.weather.shares:
            return []
        said: list[tuple[int, Wire, str]] = []
        for step in range(1, chance.randint(2, 6)):
            if not world.happens("reports_steps"):
                continue
            gate = gate_key("acme", GateKind.RUN, RUNS[0])
            if chance.random() < 1 / 12:
                gate = gate_key("acme", GateKind.TARGET, TARGETS[0])
            amounts = dict(chance.choice(AMOUNTS))
            if chance.random() < 1 / 12:
                amounts = {"side_effects": 1}
            report = ReportStep(gate=gate, principal="agent:billing", step=step, amounts=amounts)
            times = 2 if chance.random() < 1 / 4 else 1
            said += [(self._some_time(), report, gate) for _ in range(times)]
        if chance.random() < 1 / 16:
            gate = gate_key("acme", GateKind.RUN, RUNS[1])
            for number in range(34):
                report = ReportStep(
                    gate=gate, principal="agent:billing", reporter=f"agent-{number}", step=1
                )
                said.append((self._some_time(), report, gate))
        return said

    def _some_time(self) -> int:
        return self.chance.randint(1, self.world.weather.chaos_ms)
