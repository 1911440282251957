"""What the simulated provider says a request would do: its volatile facts, and what goes wrong.

Guarantees that nothing here can write to the book: a preview is answered from the request and from
facts that tests set. A script is used up by one preview after another, so that what is read again
just before acting can be told something else. Called by the server's preview route and its control.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import Field

from ledger.core.limits import OBSERVED_MAX
from ledger.core.money import format_money
from ledger.core.wire import Text, Wire
from reconciler.providers.simulated.api import EffectRequest, PreviewAnswer
from reconciler.providers.simulated.faults import SCRIPTS_MAX, Asked, Delay, Match

Facts = Annotated[dict[Text, int | str | bool], Field(max_length=OBSERVED_MAX)]

USUAL: Final[Mapping[str, int | str | bool]] = {
    "balance_minor": 1_000_000,
    "rate_micros": 1_000_000,
}
"""What is observed unless a test says otherwise: what is left to refund, and an exchange rate."""


class PreviewFault(Wire):
    """What goes wrong with one preview: it comes late, the service is down, the answer is cut off,
    makes no sense, or refuses with `code`.
    """

    kind: Literal["slow", "down", "drop", "garbage", "refuse"]
    delay_ms: Delay = 0
    code: Text = "nothing_to_refund"


class PreviewScript(Wire):
    """A fault, or other facts, for the next `times` previews that match."""

    match: Match = Match()
    times: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    fault: PreviewFault | None = None
    observed: Facts = Field(default_factory=dict)


class SetFacts(Wire):
    """The body of `POST /control/observed`: facts of every preview that matches, from now on."""

    match: Match = Match()
    observed: Facts


class PreviewScripts(Wire):
    """The body of `POST /control/previews`: played in this order."""

    scripts: Annotated[tuple[PreviewScript, ...], Field(strict=False, max_length=SCRIPTS_MAX)]


@dataclass(slots=True)
class _Pending:
    script: PreviewScript
    left: int


class Foresight:
    """The facts that hold now, and the scripts still to be played."""

    def __init__(self) -> None:
        self._set: list[SetFacts] = []
        self._queue: list[_Pending] = []

    def hold(self, given: SetFacts) -> None:
        """Facts from now on; later ones win over earlier ones."""
        self._set = [one for one in self._set if one.match != given.match]
        self._set.append(given)

    def add(self, scripts: Sequence[PreviewScript]) -> None:
        """Queue scripts behind those there are; raises ValueError when there are too many."""
        if len(self._queue) + len(scripts) > SCRIPTS_MAX:
            raise ValueError(f"more than {SCRIPTS_MAX} scripts are waiting; reset first")
        self._queue.extend(_Pending(script, script.times) for script in scripts)

    def clear(self) -> None:
        """Forget facts and scripts."""
        self._set.clear()
        self._queue.clear()

    def see(self, asked: Asked, body: EffectRequest) -> tuple[PreviewFault | None, PreviewAnswer]:
        """What to answer now, and what is to go wrong with it."""
        script = self._next(asked)
        observed = dict(USUAL)
        for one in self._set:
            if one.match.fits(asked):
                observed |= one.observed
        if script is not None:
            observed |= script.observed
        return None if script is None else script.fault, _answer(asked, body, observed)

    def _next(self, asked: Asked) -> PreviewScript | None:
        for pending in self._queue:
            if pending.script.match.fits(asked):
                pending.left -= 1
                if pending.left == 0:
                    self._queue.remove(pending)
                return pending.script
        return None


def _answer(
    asked: Asked, body: EffectRequest, observed: dict[str, int | str | bool]
) -> PreviewAnswer:
    of = "" if body.amount is None else f" of {format_money(body.amount)}"
    on = "" if body.target is None else f" on {body.target}"
    return PreviewAnswer(
        effect=f"One {asked.operation}{of}{on}",
        target=body.target,
        scope="one object",
        observed=observed,
    )
