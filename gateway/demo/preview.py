"""The chapter of the dry run: what a provider foresees, and what moves before it is acted on.

Guarantees that asking a provider what would happen causes nothing, and that nothing is done that a
person has not seen: what moved beyond its tolerance ends the approval and is asked about anew.
"""

from typing import Final

from gateway.demo.chapter import Chapter
from gateway.demo.claims import Claim
from gateway.demo.colleagues import Colleague, Sheet, registered
from gateway.demo.refunds import key_of, refund
from gateway.demo.scene import Scene, effects, facts_of
from gateway.wiring.publishing import default_catalogue

EVENT: Final = "return-2026-09-03-01"
FACT: Final = "balance_minor"
TOLERANCE: Final = 10_000
BALANCE: Final = 1_000_000
MUCH_LESS: Final = 13_000


async def _tell(scene: Scene) -> None:
    (mara,) = await registered(scene.stage, "mara")
    await scene.stage.observe(key_of(scene, EVENT), **{FACT: BALANCE})
    sheet = await _foreseen(scene, mara)
    again = await _moved(scene, mara, sheet)
    await _agreed(scene, mara, again)
    await _proof(scene)
    await scene.claim_tables()


async def _foreseen(scene: Scene, mara: Colleague) -> Sheet:
    scene.telling.step("An agent wants to refund 120 EUR, and the provider is asked what that does")
    scene.telling.say(
        f"The catalogue declares: preview by the provider, {FACT} is volatile and may move by "
        f"{TOLERANCE}."
    )
    key = key_of(scene, EVENT)
    await scene.stage.publish("catalogue", _previewed())
    await scene.ask(refund(EVENT))
    asked = await scene.until_fact("the question to people", "approval.requested", key)
    scene.show(asked)
    sheet = await mara.sheet(key)
    foreseen = sheet["preview"]["foreseen"]
    scene.telling.say(f"Foreseen: {foreseen['effect']}, {foreseen['scope']}.")
    scene.telling.say(f"Observed: {foreseen['observed']}")
    calls = len(await scene.lines())
    scene.claim(
        Claim(
            "dry",
            "The dry run is a fact in the log, and the provider's book has nothing",
            foreseen["observed"][FACT] == BALANCE and calls == 0,
            f"{foreseen['observed']}, {calls} calls",
        )
    )
    return sheet


async def _moved(scene: Scene, mara: Colleague, sheet: Sheet) -> Sheet:
    key = key_of(scene, EVENT)
    scene.telling.step("The balance falls, and Mara agrees to what she was shown")
    await scene.stage.observe(key, **{FACT: MUCH_LESS})
    await mara.hand_in(key, mara.sign(sheet))
    ended = await scene.until_fact("the end of the approval", "approval.ended", key)
    scene.show(ended)
    (fact,) = facts_of(ended, "approval.ended", key)
    for change in fact["changes"]:
        scene.telling.say(f"{change['name']}: it was {change['was']}, now it is {change['now']}")
    calls = len(await scene.lines())
    scene.claim(
        Claim(
            "moved",
            "Read again just before acting: it moved too far, so nothing was done",
            fact["reason"] == "volatile_changed"
            and [(one["name"], one["was"], one["now"]) for one in fact["changes"]]
            == [(FACT, str(BALANCE), str(MUCH_LESS))]
            and calls == 0,
            f"{fact['reason']} {fact['changes']} {calls} calls",
        )
    )
    return await mara.sheet(key, round_=2)


async def _agreed(scene: Scene, mara: Colleague, again: Sheet) -> None:
    scene.telling.step("Mara is asked anew, sees what holds now, and agrees to that")
    shown = again["preview"]["foreseen"]["observed"]
    key = key_of(scene, EVENT)
    await mara.hand_in(key, mara.sign(again))
    scene.show(await scene.until_fact("the completion", "action.completed", key))
    scene.claim(
        Claim(
            "asked_anew",
            "The second question shows the new value, under another nonce",
            shown[FACT] == MUCH_LESS and again["asked"]["round"] == 2,  # noqa: PLR2004 - the second
            f"{shown} {again['asked']['round']}",
        )
    )


async def _proof(scene: Scene) -> None:
    scene.telling.step("The proof")
    lines = await scene.lines()
    scene.telling.book(lines)
    scene.claim(
        Claim(
            "one_refund",
            "The book shows one refund: of two agreements only the one that still held was spent",
            len(effects(lines)) == len(lines) == 1,
            f"{effects(lines)}",
        )
    )


def _previewed() -> str:
    """The shipped catalogue, with three lines more for refunds."""
    before, refunds, after = default_catalogue().partition('name = "refund"\n')
    lines = (
        f'preview = "provider"\nvolatile = ["{FACT}"]\ntolerances = {{ {FACT} = {TOLERANCE} }}\n'
    )
    return before + refunds + lines + after


CHAPTER: Final = Chapter(
    name="preview",
    line="a dry run that causes nothing; a fact moves before it is acted on: asked anew",
    title="The dry run: what a person agrees to is what still holds",
    tell=_tell,
)
