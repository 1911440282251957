"""The chapter of conflicting evidence: two pieces disagree, and the ledger does not choose.

Guarantees that nothing is completed, failed or sent again while they do, and that whoever decides
sees every piece of it.
"""

from typing import Any, Final

from gateway.demo.chapter import Chapter
from gateway.demo.claims import Claim
from gateway.demo.colleagues import registered
from gateway.demo.scene import Scene, effects, facts_of
from gateway.demo.waiting import until
from gateway.http.case_sheets import CaseSheet
from ledger.core.statement import Move

EVENT: Final = "renewal-2026-09-04-05"
COMMENT: Final = "Their support looked: one charge of 49.90, and a webhook of theirs was wrong."


async def _tell(scene: Scene) -> None:
    (mara,) = await registered(scene.stage, "mara")
    key = scene.key("charge", EVENT)
    scene.telling.step("A charge is made, its answer is lost, and a webhook tells another amount")
    await scene.stage.script([_lost(key)])
    await scene.ask(_charge())
    scene.show(await scene.until_fact("the case", "review.opened", key))
    scene.telling.step("Another webhook of the same provider tells the amount that was asked for")

    async def told_twice() -> CaseSheet | None:
        sheet = await mara.case(key)
        return sheet if len({one.amount for one in sheet.evidence if one.amount}) > 1 else None

    sheet = await until("both webhooks in the case", told_twice)
    for one in sheet.evidence:
        told = one.amount or one.code or "no amount"
        scene.telling.say(f"Known: {one.kind} says {one.meaning}, {told}.")
    scene.claim(
        Claim(
            "nobody_chooses",
            "Neither is believed: a case of the reason amount_differs, and no completion",
            [one.reason for one in sheet.reasons] == ["amount_differs"]
            and not _facts(scene, "action.completed", key)
            and await scene.status(key) == "needs_review",
            f"{[one.reason for one in sheet.reasons]}",
        )
    )
    webhooks = [one for one in sheet.evidence if one.kind == "webhook"]
    scene.claim(
        Claim(
            "every_piece",
            "The case shows both, each with its source, amount, time and the hash of its bytes",
            len(webhooks) > 1
            and all(one.source_id and one.raw_sha256 and one.occurred_at for one in webhooks),
            f"{[one.amount for one in webhooks]}",
        )
    )
    scene.telling.step("Mara looks at the provider's own list, and signs which it is")
    (effect,) = set(effects(await scene.lines()))
    signed = mara.settle(sheet, Move.EFFECT_EXISTS, COMMENT, reference=effect)
    await mara.hand_in(key, signed)
    scene.show(await scene.until_fact("the completion", "action.completed", key))
    (completed,) = _facts(scene, "action.completed", key)
    lines = await scene.lines()
    scene.claim(
        Claim(
            "one_charge",
            "It is completed by her word, and the provider's book has one charge of one call",
            completed["proof"] == "person" and effects(lines) == [effect] and len(lines) == 1,
            f"{completed['proof']} {effects(lines)} of {len(lines)} calls",
        )
    )
    await scene.claim_tables()


def _facts(scene: Scene, kind: str, key: str) -> list[dict[str, Any]]:
    return [fact for one in scene.witness.seen for fact in facts_of(one, kind, key)]


def _charge() -> dict[str, Any]:
    """What the agent asks for."""
    return {
        "operation": "charge",
        "business_event": EVENT,
        "target": "order:A-1842",
        "params": {"customer": "cus_7f"},
        "money": {"minor": 4_990, "currency": "USD"},
        "environment": "production",
    }


def _lost(key: str) -> dict[str, Any]:
    """One request that is answered by nobody, and two webhooks that disagree about it."""
    return {
        "match": {"action_key": key},
        "times": 1,
        "fault": {"kind": "commit_then_drop"},
        "webhooks": [{"kind": "wrong_amount"}, {"kind": "normal", "delay_ms": 1_000}],
    }


CHAPTER: Final = Chapter(
    name="conflict",
    line="two webhooks tell two amounts: nobody chooses but a person, who sees every piece",
    title="Evidence that disagrees",
    tell=_tell,
)
