"""The chapter of ceilings: a run that may have two effects, and a third that a person lets pass.

Guarantees that no action passes a ceiling that nobody has signed for it, that what is let pass is
let pass once, and that what an agent says of itself is told apart from what the ledger counts.
"""

from typing import Any, Final

from gateway.cli.runs import bar_lines
from gateway.demo.chapter import Chapter
from gateway.demo.claims import Claim
from gateway.demo.colleagues import Colleague, code_of, registered
from gateway.demo.refunds import key_of, refund
from gateway.demo.scene import Scene, effects
from gateway.demo.waiting import until
from gateway.http.run_views import RunView
from ledger.core.statement import Move

RUN: Final = "support-2026-09-03-01"
EVENTS: Final = tuple(f"return-2026-09-03-0{number}" for number in range(1, 5))
ALLOWED: Final = 2
TOKENS: Final = 4_180
COMMENT: Final = "I called the customer; this one is due as well."
PATIENCE_MS: Final = 60_000
POLICY: Final = f"""
[[ceiling]]
name = "support-run"
per = "run"
side_effects = {ALLOWED}
spend = {{ EUR = 1_000_00 }}
tokens = 100_000

[[row]]
name = "refund"
when.operation = ["refund"]
outcome = "automatic"
ceilings = ["support-run"]
reason = "Refunds of the support desk count by run."
"""


class _Ceilings:
    """One telling; `tell` from beginning to end."""

    def __init__(self, scene: Scene, mara: Colleague) -> None:
        self._scene = scene
        self._telling = scene.telling
        self._mara = mara

    async def tell(self) -> None:
        """Tell it. Raises NotSeenError where something does not happen at all."""
        await self._scene.stage.publish("policy", POLICY)
        await self._within()
        await self._reports()
        await self._reached()
        await self._raised()
        await self._only_once()
        await self._scene.claim_tables()

    async def _within(self) -> None:
        self._telling.step(f"A run of an agent may have {ALLOWED} side effects: it makes them")
        told = [
            await self._scene.ask(_refund(number), patience_ms=PATIENCE_MS)
            for number in range(ALLOWED)
        ]
        self._scene.show()
        self._scene.claim(
            Claim(
                "within",
                "Within its ceiling the run goes on, and each refund is counted",
                [one["result"] for one in told] == ["Succeeded"] * ALLOWED,
                f"{[one['result'] for one in told]}",
            )
        )

    async def _reports(self) -> None:
        self._telling.step("The agent reports what a step took, and asks twice")
        body = {"step": 1, "tool_calls": 3, "tokens": TOKENS}
        first, again = await self._step(body), await self._step(body)
        self._telling.quote(first["sentence"])
        self._bars(RunView.model_validate(first))
        kinds = {one["dimension"]: one["kind"] for one in first["budgets"]}
        used = {one["dimension"]: one["used"] for one in again["budgets"]}
        self._scene.claim(
            Claim(
                "counted_once",
                "A step counts once, and the agent's own word is told apart from what is enforced",
                (again["replayed"], used["tokens"]) == (True, TOKENS)
                and (kinds["tokens"], kinds["side_effects"]) == ("self_reported", "enforced"),
                f"{again['replayed']} {used} {kinds}",
            )
        )

    async def _reached(self) -> None:
        self._telling.step("A third refund would pass the ceiling")
        told = await self._scene.ask(_refund(ALLOWED), patience_ms=PATIENCE_MS)
        key = key_of(self._scene, EVENTS[ALLOWED])
        self._scene.show(await self._scene.until_fact("the case", "review.opened", key))
        self._telling.quote(told["text"])
        calls = len(effects(await self._scene.lines()))
        self._scene.claim(
            Claim(
                "held_back",
                "It is held back, the ceiling is named, and the provider has not heard of it",
                told["result"] == "NeedsReview"
                and "support-run" in told["text"]
                and calls == ALLOWED,
                f"{told['result']}, {calls} effects",
            )
        )

    async def _raised(self) -> None:
        self._telling.step("Mara looks, and lets this one pass under her signature")
        key, mara = key_of(self._scene, EVENTS[ALLOWED]), self._mara
        sheet = await mara.case(key)
        self._telling.say("" if sheet.about is None else sheet.about.sentence)
        other = mara.settle(sheet, Move.ALLOW, COMMENT, accepts="another-ceiling")
        refused = code_of(await mara.hand_in(key, other))
        self._telling.say(f"refused: {refused}")
        await mara.hand_in(key, mara.settle(sheet, Move.ALLOW, COMMENT))
        self._scene.show(await self._scene.until_fact("the completion", "action.completed", key))
        made = effects(await self._scene.lines())
        self._scene.claim(
            Claim(
                "raised",
                "What is signed names the ceiling exactly; then the refund is made, once",
                refused == "accepts_unfit" and len(made) == ALLOWED + 1,
                f"{refused} {made}",
            )
        )

    async def _only_once(self) -> None:
        self._telling.step("The next one is held back again")
        told = await self._scene.ask(_refund(ALLOWED + 1), patience_ms=PATIENCE_MS)

        async def settled() -> RunView | None:
            run = await self._run()
            counted = {one.dimension: one.used for one in run.budgets}
            return run if counted["side_effects"] == ALLOWED + 1 else None

        self._bars(await until("the third refund in what the run has used", settled))
        made = effects(await self._scene.lines())
        self._telling.book(await self._scene.lines())
        self._scene.claim(
            Claim(
                "only_once",
                "A ceiling that was passed once stands for all others",
                told["result"] == "NeedsReview" and len(made) == ALLOWED + 1,
                f"{told['result']} {made}",
            )
        )

    async def _step(self, body: dict[str, Any]) -> dict[str, Any]:
        answer = await self._scene.post(f"/v1/runs/{RUN}/steps", body)
        answer.raise_for_status()
        told: dict[str, Any] = answer.json()
        return told

    async def _run(self) -> RunView:
        answer = await self._scene.get(f"/v1/runs/{RUN}")
        answer.raise_for_status()
        return RunView.model_validate_json(answer.content)

    def _bars(self, run: RunView) -> None:
        self._telling.drawn(line.plain.removeprefix("  ") for line in bar_lines(run.budgets))


def _refund(number: int) -> dict[str, Any]:
    return refund(EVENTS[number], target=f"order:A-{1842 + number}", run=RUN)


async def _tell(scene: Scene) -> None:
    (mara,) = await registered(scene.stage, "mara")
    await _Ceilings(scene, mara).tell()


CHAPTER: Final = Chapter(
    name="ceilings",
    line="a run that reaches its ceiling, and one action that a person lets pass it",
    title="Ceilings: a run has as many effects as it may, unless somebody signs for one",
    tell=_tell,
)
