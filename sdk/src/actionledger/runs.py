"""A run of an agent: what it has used of its ceilings, and what it has left.

Guarantees to tell apart what the ledger counts itself and what the agent has said. Read from the
answers of the ledger; made by the client.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from actionledger.errors import UnexpectedAnswer
from actionledger.exchange import Reply
from actionledger.results import Conflict, is_named
from actionledger.wire import OTHER_VERSION, about_another, read_problem

_SPEND: Final = "spend."
_UNITS: Final[Mapping[str, str]] = {
    "side_effects": "side effects",
    "wall_clock_ms": "ms of time",
    "steps": "steps",
    "tool_calls": "tool calls",
    "tokens": "tokens",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One dimension of a ceiling. `kind`: the ledger counts what is `enforced`; what is
    `self_reported` is the agent's own word. Money is in minor units, `wall_clock_ms` in
    milliseconds. Without `ceiling` nothing limits it.
    """

    ceiling: str | None
    dimension: str
    kind: Literal["enforced", "self_reported"]
    used: int
    reserved: int = 0
    limit: int | None = None
    left: int | None = None
    is_reached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUsage:
    """How a run stands. `replayed`: the step was reported before, and counted nothing again.

    Without `budgets` the step is recorded, and how the run stands is not known just now.
    """

    run: str
    budgets: tuple[Budget, ...]
    replayed: bool = False

    @property
    def reached(self) -> tuple[Budget, ...]:
        """The ceilings of which nothing is left."""
        return tuple(one for one in self.budgets if one.is_reached)

    @property
    def text_for_model(self) -> str:
        """What is left, what may be done next, what must not."""
        if self.reached:
            told = "; ".join(f"{one.ceiling}, {_left(one)}" for one in self.reached)
            return (
                f"The run {self.run} has reached a ceiling ({told}). An action that needs more of "
                "it is held back until a person lets it pass. Finish with what you have and say "
                "so. Do not go on under the name of another run."
            )
        limited = [one for one in self.budgets if one.limit is not None]
        if not limited:
            return f"No ceiling limits the run {self.run} as far as it is known. You may go on."
        told = "; ".join(_left(one) for one in limited)
        return f"The run {self.run} has left: {told}. You may go on within that."


def _left(one: Budget) -> str:
    is_money = one.dimension.startswith(_SPEND)
    unit = _UNITS.get(one.dimension, "")
    if is_money:
        unit = f"minor units of {one.dimension.removeprefix(_SPEND)}"
    word = " by your own word" if one.kind == "self_reported" else ""
    return f"{one.left} of {one.limit} {unit}{word}".replace("  ", " ")


class _Budget(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    ceiling: str | None = None
    dimension: str
    kind: Literal["enforced", "self_reported"]
    used: int
    reserved: int = 0
    limit: int | None = None
    left: int | None = None
    is_reached: bool = False


class _Run(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    run: str
    budgets: tuple[_Budget, ...]
    replayed: bool = False


def read_run(reply: Reply, run: str) -> RunUsage:
    """How a run stands, by an answer; raises LedgerTrouble for every other one, and for an answer
    that is about another run.
    """
    if reply.status not in {200, 202}:
        problem = read_problem(reply.status, reply.raw)
        if not isinstance(problem, Conflict):
            raise problem
    try:
        read = _Run.model_validate_json(reply.raw)
    except ValidationError:
        raise UnexpectedAnswer(
            f"The answer with status {reply.status} is no run that this client knows.",
            hint=OTHER_VERSION,
            status=reply.status,
        ) from None
    if read.run != run:
        raise about_another("run", reply.status)
    budgets = tuple(Budget(**one.model_dump()) for one in read.budgets if _is_told(one))
    return RunUsage(run=read.run, budgets=budgets, replayed=read.replayed)


def _is_told(one: _Budget) -> bool:
    """Whether its names look like names, so that nothing else speaks to the model."""
    return is_named(one.dimension) and (one.ceiling is None or is_named(one.ceiling))
