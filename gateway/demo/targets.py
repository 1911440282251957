"""The chapter of targets: two refunds of one order, the second of which waits; and one that was
asked for before, under another key.

Guarantees that nothing starts on an order while another refund of it is not settled, that what
waits goes on by itself, and that the same thing under a second key is not done twice unseen.
"""

from typing import Any, Final

from gateway.demo.chapter import Chapter
from gateway.demo.claims import Claim
from gateway.demo.colleagues import Colleague, registered
from gateway.demo.refunds import key_of, refund
from gateway.demo.scene import Scene, effects
from gateway.wiring.publishing import default_catalogue

FIRST: Final = "return-2026-09-04-01"
SECOND: Final = "return-2026-09-04-02"
AGAIN: Final = "return-2026-09-04-03"
MEANT: Final = "return-2026-09-04-04"
SECOND_MINOR: Final = 2_500
WINDOW_MS: Final = 600_000
PATIENCE_MS: Final = 60_000
POLICY: Final = """
[[row]]
name = "refund"
when.operation = ["refund"]
outcome = "automatic"
block_target = true
reason = "One refund at a time on an order."
"""


class _Targets:
    """One telling; `tell` from beginning to end."""

    def __init__(self, scene: Scene, mara: Colleague) -> None:
        self._scene = scene
        self._telling = scene.telling
        self._mara = mara

    async def tell(self) -> None:
        """Tell it. Raises NotSeenError where something does not happen at all."""
        await self._scene.stage.publish("catalogue", _remembering())
        await self._scene.stage.publish("policy", POLICY)
        await self._scene.stage.script([_lost(self._key(FIRST))])
        await self._first_is_lost()
        await self._second_waits()
        await self._goes_on()
        await self._look_alike()
        await self._proof()
        await self._scene.claim_tables()

    async def _first_is_lost(self) -> None:
        self._telling.step("A refund is made, and its answer is lost")
        await self._scene.ask(refund(FIRST))
        lost = await self._scene.until_fact(
            "the lost answer", "attempt.unresolved", self._key(FIRST)
        )
        self._scene.show(lost)

    async def _second_waits(self) -> None:
        self._telling.step("Another agent wants to refund something of the same order")
        await self._scene.ask(_second())
        entry = await self._mara.blocked(self._key(SECOND))
        told = await self._scene.ask(_second())
        self._telling.quote(told["text"])
        self._telling.say(f"Mara is shown: {entry['sentence']}")
        calls = await self._scene.lines()
        self._scene.claim(
            Claim(
                "waits",
                "The second waits, is told for whom, and the provider has not heard of it",
                (told["result"], entry["names"]) == ("Blocked", self._key(FIRST))
                and self._key(FIRST) in told["text"]
                and len(calls) == 1,
                f"{told['result']} {entry['names']} {len(calls)} calls",
            )
        )

    async def _goes_on(self) -> None:
        self._telling.step("The webhook settles the first; nobody has to do anything")
        await self._scene.stage.send_webhooks()
        await self._scene.until_fact("the first completion", "action.completed", self._key(FIRST))
        done = await self._scene.until_fact("the second", "action.completed", self._key(SECOND))
        self._scene.show(done)
        told = await self._scene.ask(_second())
        self._scene.claim(
            Claim(
                "goes_on",
                "The second goes on by itself, after the first is settled",
                told["result"] == "Succeeded",
                str(told["result"]),
            )
        )

    async def _look_alike(self) -> None:
        self._telling.step("The first refund once more, under another key")
        told = await self._scene.ask(refund(AGAIN), patience_ms=PATIENCE_MS)
        self._telling.quote(told["text"])
        sheet = await self._mara.case(self._key(AGAIN))
        self._telling.say("" if sheet.about is None else sheet.about.sentence)
        self._scene.claim(
            Claim(
                "look_alike",
                "It is held back, and the refund that it looks like is named",
                (told["result"], sheet.accepts) == ("NeedsReview", self._key(FIRST)),
                f"{told['result']} {sheet.accepts}",
            )
        )
        self._telling.step("An intended second one says so")
        meant = refund(MEANT, occurrence="second-parcel")
        told = await self._scene.ask(meant, patience_ms=PATIENCE_MS)
        self._scene.show()
        self._scene.claim(
            Claim(
                "occurrence",
                "What is declared as another occurrence is no duplicate",
                told["result"] == "Succeeded",
                str(told["result"]),
            )
        )

    def _key(self, event: str) -> str:
        return key_of(self._scene, event)

    async def _proof(self) -> None:
        self._telling.step("The proof")
        lines = await self._scene.lines()
        self._telling.book(lines)
        self._scene.claim(
            Claim(
                "three_refunds",
                "The book has three refunds: the first, the second, and the intended one",
                len(effects(lines)) == len({FIRST, SECOND, MEANT}),
                f"{effects(lines)}",
            )
        )


def _second() -> dict[str, Any]:
    return refund(SECOND, minor=SECOND_MINOR)


def _remembering() -> str:
    """The default catalogue, in which equal refunds of an order are suspected for ten minutes."""
    before, name, after = default_catalogue().partition('name = "refund"\n')
    return f"{before}{name}look_alike_window_ms = {WINDOW_MS}\n{after}"


def _lost(key: str) -> dict[str, Any]:
    """It is done, nothing is answered, and its webhook is held back."""
    return {
        "match": {"action_key": key},
        "fault": {"kind": "commit_then_drop"},
        "webhooks": [{"kind": "late", "delay_ms": WINDOW_MS}],
    }


async def _tell(scene: Scene) -> None:
    (mara,) = await registered(scene.stage, "mara")
    await _Targets(scene, mara).tell()


CHAPTER: Final = Chapter(
    name="targets",
    line="two refunds of one order, the second waits its turn; a look-alike is held back",
    title="Targets: one at a time, and the same thing twice is noticed",
    tell=_tell,
)
