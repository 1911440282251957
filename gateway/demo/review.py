"""The chapter of the review desk: an e-mail whose answer is lost, which nobody can be asked about.

Guarantees that it is sent once, whatever happens: nothing tries it again, and only what a person
has signed about exactly this case settles it.
"""

from typing import Any, Final

from gateway.demo.chapter import Chapter
from gateway.demo.claims import Claim
from gateway.demo.colleagues import Colleague, code_of, registered, stranger
from gateway.demo.scene import Scene, effects, facts_of
from gateway.http.case_sheets import CaseSheet
from ledger.core.statement import Move, SignedByKey

EVENT: Final = "welcome-2026-09-02-01"
COMMENT: Final = "It is in the provider's own list of what was sent."


class _Review:
    """One telling; `tell` from beginning to end."""

    def __init__(self, scene: Scene, mara: Colleague) -> None:
        self._scene = scene
        self._telling = scene.telling
        self._mara = mara
        self._key = scene.key("email", EVENT)

    async def tell(self) -> None:
        """Tell it. Raises NotSeenError where something does not happen at all."""
        await self._scene.stage.script([_lost(self._key)])
        await self._answer_is_lost()
        sheet = await self._looks()
        await self._what_is_not_safe(sheet)
        signed = await self._settles(sheet)
        await self._proof(signed)
        await self._scene.claim_tables()

    async def _answer_is_lost(self) -> None:
        self._telling.step("An e-mail is sent, and its answer is lost")
        await self._scene.ask(_email())
        await self._mara.decide(self._key)
        self._scene.show(await self._scene.until_fact("the case", "review.opened", self._key))
        told = await self._scene.ask(_email())
        self._telling.quote(told["text"])
        self._scene.claim(
            Claim(
                "to_a_person",
                "It may be tried once and cannot be looked up, so it comes to a person",
                told["result"] == "NeedsReview",
                str(told["result"]),
            )
        )

    async def _looks(self) -> CaseSheet:
        self._telling.step("Mara looks at everything that is known, and at what is safe")
        (entry,) = await self._mara.cases()
        sheet = await self._mara.case(self._key)
        self._telling.say(f"Why: {entry['sentence']}")
        for one in sheet.evidence:
            self._telling.say(f"Known: {one.kind} to attempt {one.attempt}, {one.code}.")
        for move in sheet.moves:
            self._telling.say(f"Safe: {move.move}. {move.sentence}")
        offered = [one.move for one in sheet.moves]
        self._scene.claim(
            Claim(
                "never_again",
                "To send it once more is not offered: it may have been sent",
                Move.TRY_AGAIN not in offered and Move.EFFECT_EXISTS in offered,
                f"{offered}",
            )
        )
        return sheet

    async def _what_is_not_safe(self, sheet: CaseSheet) -> None:
        self._telling.step("What is not safe, and what somebody else signs, counts for nothing")
        mara, mallory = self._mara, await stranger(self._scene.stage, self._mara.name)
        tries = {
            "move_not_safe": mara.settle(sheet, Move.TRY_AGAIN, COMMENT),
            "reference_unfit": mara.settle(sheet, Move.EFFECT_EXISTS, COMMENT),
            "case_moved": mara.settle(sheet, Move.NO_EFFECT, COMMENT, moved=sheet.version + 1),
            "other_ledger": mara.settle(sheet, Move.NO_EFFECT, COMMENT, ledger="another"),
            "unknown_signer": mallory.settle(sheet, Move.NO_EFFECT, COMMENT),
        }
        told = {}
        for name, signed in tries.items():
            told[name] = code_of(await mara.hand_in(self._key, signed))
            self._telling.say(f"refused: {told[name]}")
        status = await self._scene.status(self._key)
        self._scene.claim(
            Claim(
                "refused_by_name",
                "Unsafe, moved to another case, or forged, each is refused by name",
                all(name == code for name, code in told.items()) and status == "needs_review",
                f"{told} {status}",
            )
        )

    async def _settles(self, sheet: CaseSheet) -> SignedByKey:
        self._telling.step("Mara finds it at the provider, and signs that it was sent")
        (effect,) = effects(await self._scene.lines())
        signed = self._mara.settle(sheet, Move.EFFECT_EXISTS, COMMENT, reference=effect)
        await self._mara.hand_in(self._key, signed)
        self._scene.show(
            await self._scene.until_fact("the completion", "action.completed", self._key)
        )
        told = await self._scene.ask(_email())
        self._telling.quote(told["text"])
        (completed,) = self._facts("action.completed")
        self._scene.claim(
            Claim(
                "settled",
                "It is completed by a person's word, under the provider's own reference",
                (told["result"], completed["proof"], completed["reference"])
                == ("Succeeded", "person", effect),
                f"{told['result']} {completed}",
            )
        )
        return signed

    async def _proof(self, signed: SignedByKey) -> None:
        self._telling.step("The proof")
        again = await self._mara.hand_in(self._key, signed)
        self._scene.claim(
            Claim(
                "once",
                "The same signature again counts as the one it was",
                again.is_success and len(self._facts("review.resolved")) == 1,
                code_of(again),
            )
        )
        lines = await self._scene.lines()
        self._telling.book(lines)
        self._scene.claim(
            Claim(
                "one_mail",
                "The book has one e-mail, and no second call",
                len(lines) == len(effects(lines)) == 1,
                f"{effects(lines)}",
            )
        )

    def _facts(self, kind: str) -> list[dict[str, Any]]:
        return [fact for one in self._scene.witness.seen for fact in facts_of(one, kind, self._key)]


def _email() -> dict[str, Any]:
    """What the agent asks for."""
    return {
        "operation": "email",
        "business_event": EVENT,
        "params": {
            "to": ["customer@example.com"],
            "subject": "Welcome",
            "body": "Hello,\n\nyour account is ready.\n",
        },
        "environment": "production",
    }


def _lost(key: str) -> dict[str, Any]:
    """It is sent, nothing is answered, and nothing is told later."""
    return {
        "match": {"action_key": key},
        "fault": {"kind": "commit_then_drop"},
        "webhooks": [],
    }


async def _tell(scene: Scene) -> None:
    (mara,) = await registered(scene.stage, "mara")
    await _Review(scene, mara).tell()


CHAPTER: Final = Chapter(
    name="review",
    line="an e-mail whose answer is lost: a person settles it, by what is safe and signed",
    title="The review desk: what nobody can find out, a person settles",
    tell=_tell,
)
