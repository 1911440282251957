"""The chapter of compensations: a charge that is given back in parts, one that is undone before it
is known, one that cannot be undone, and a deletion that is undone from a backup.

Guarantees that what undoes is an action of its own, never runs while its original is open, never
gives back more than was taken, and is a person's case where it comes to nothing.
"""

from typing import Any, Final

from gateway.demo.agent import REFUSED
from gateway.demo.chapter import Chapter
from gateway.demo.claims import Claim
from gateway.demo.colleagues import Colleague, registered
from gateway.demo.scene import Scene, facts_of
from ledger.core.statement import Move

PAID: Final = "order-2026-09-06-01"
LOST: Final = "order-2026-09-06-02"
STUCK: Final = "order-2026-09-06-03"
DELETED: Final = "cleanup-2026-09-06-01"
WHOLE, PART = 12_000, 4_000
REST: Final = WHOLE - PART
MORE: Final = 1_000
SMALL: Final = 4_990
EFFECTS: Final = (
    *("charge", "refund", "refund"),
    *("charge", "refund"),
    "charge",
    *("record.delete", "record.restore"),
)
"""What the provider has done in the end, in order."""
HELD_BACK_MS: Final = 600_000
COMMENT: Final = "The customer took a voucher for it."


class _Compensation:
    """One telling; `tell` from beginning to end."""

    def __init__(self, scene: Scene, mara: Colleague) -> None:
        self._scene = scene
        self._telling = scene.telling
        self._mara = mara

    async def tell(self) -> None:
        """Tell it. Raises NotSeenError where something does not happen at all."""
        await self._scene.stage.script(
            _faults(self._key("charge", LOST), self._key("refund", STUCK))
        )
        await self._charged()
        await self._in_parts()
        await self._never_more()
        await self._registered_early()
        await self._fails()
        await self._from_a_backup()
        await self._proof()

    async def _charged(self) -> None:
        self._telling.step("A charge of 120 USD, which Mara confirms")
        await self._scene.propose(_charge(PAID, WHOLE))
        await self._mara.decide(self._key("charge", PAID))
        self._scene.show(await self._done(self._key("charge", PAID)))

    async def _in_parts(self) -> None:
        self._telling.step("40 USD of it are given back, then the other 80")
        await self._scene.propose(self._refund(PAID, PART, item="part"))
        part = await self._done(self._key("refund", PAID, "part"))
        await self._scene.propose(self._refund(PAID, REST, item="rest"))
        await self._mara.decide(self._key("refund", PAID, "rest"))
        rest = await self._done(self._key("refund", PAID, "rest"))
        self._scene.show(rest)
        keys = [self._key("refund", PAID, item) for item in ("part", "rest")]
        rows = [self._fact("policy.decided", key)["row"] for key in keys]
        hashes = {self._fact("intent.recorded", key)["request_hash"] for key in keys}
        agreed = [self._has("approval.granted", key) for key in keys]
        self._scene.claim(
            Claim(
                "own_actions",
                "Each has a key, a hash and a row of its own: 40 go ahead, 80 a person confirms",
                (rows, agreed, len(hashes))
                == (["small-payment", "payment"], [False, True], len(keys))
                and part["offset"] != rest["offset"],
                f"{rows} {agreed} {hashes}",
            )
        )

    async def _never_more(self) -> None:
        self._telling.step("Ten more would be more than was taken")
        told = await self._scene.ask(self._refund(PAID, MORE, item="more"))
        for one in told["problems"]:
            self._telling.say(f"{told['code']}: {one['path']}: {one['message']}")
        self._scene.claim(
            Claim(
                "never_more",
                "It is refused by name, with what is left, and leaves nothing behind",
                (told["result"], told.get("code")) == (REFUSED, "compensation_exceeds"),
                f"{told['result']} {told.get('code')}",
            )
        )

    async def _registered_early(self) -> None:
        self._telling.step("A charge whose answer is lost is to be undone before it is known")
        charge, refund = self._key("charge", LOST), self._key("refund", LOST)
        await self._scene.propose(_charge(LOST, SMALL))
        await self._scene.until_fact("the lost answer", "attempt.unresolved", charge)
        await self._scene.propose(self._refund(LOST, SMALL))
        await self._scene.until_fact("that it waits", "action.blocked", refund)
        told = await self._scene.ask(self._refund(LOST, SMALL))
        self._telling.quote(told["text"])
        undone = [one for one in await self._scene.lines() if one["action_key"] == refund]
        self._scene.claim(
            Claim(
                "never_while_open",
                "It waits for its original, and the provider has not heard of it",
                told["result"] == "Blocked" and charge in told["text"] and not undone,
                f"{told['result']} {undone}",
            )
        )
        self._telling.step("The webhook settles the charge; the undo goes on by itself")
        await self._scene.stage.send_webhooks()
        settled = await self._done(charge)
        done = await self._done(refund)
        self._scene.show(done)
        (started,) = self._all("attempt.started", refund)
        (completed,) = facts_of(settled, "action.completed", charge)
        self._scene.claim(
            Claim(
                "goes_on",
                "Once the charge is settled it is undone, under the provider's own reference of it",
                started["original_reference"] == completed["reference"],
                f"{started['original_reference']} {completed['reference']}",
            )
        )

    async def _fails(self) -> None:
        self._telling.step("An undo that the provider refuses for good")
        charge, refund = self._key("charge", STUCK), self._key("refund", STUCK)
        await self._scene.propose(_charge(STUCK, SMALL))
        await self._done(charge)
        await self._scene.propose(self._refund(STUCK, SMALL))
        self._scene.show(await self._scene.until_fact("the case", "review.opened", refund))
        sheet = await self._mara.case(refund)
        for one in sheet.reasons:
            self._telling.say(f"Mara is shown: {one.sentence}")
        about = None if sheet.about is None else sheet.about.name
        noted = self._mara.settle(sheet, Move.ACKNOWLEDGE, COMMENT)
        answer = await self._mara.hand_in(refund, noted)
        self._scene.show(
            await self._scene.until_fact("the word of a person", "review.resolved", refund)
        )
        self._scene.claim(
            Claim(
                "a_case",
                "It is a case that names what was to be undone, and a person settles it",
                (sheet.kind, about) == ("alarm", charge) and answer.is_success,
                f"{sheet.kind} {about} {answer.status_code}",
            )
        )

    async def _from_a_backup(self) -> None:
        self._telling.step("An undo that is no refund: a record is deleted, and restored")
        delete, restore = (self._key(f"record.{name}", DELETED) for name in ("delete", "restore"))
        await self._scene.propose(_record("delete"))
        await self._mara.decide(delete)
        deleted = await self._done(delete)
        await self._scene.propose(_record("restore", compensates=delete))
        await self._mara.decide(restore)
        self._scene.show(await self._done(restore))
        (completed,) = facts_of(deleted, "action.completed", delete)
        (line,) = [one for one in await self._scene.lines() if one["action_key"] == restore]
        self._scene.claim(
            Claim(
                "restored",
                "The record is restored from the backup that its deletion left",
                line["original"] == completed["reference"] and line["effect_id"] is not None,
                f"{line['original']} {completed['reference']}",
            )
        )

    async def _proof(self) -> None:
        self._telling.step("The proof")
        lines = [one for one in await self._scene.lines() if one["effect_id"]]
        self._telling.book(lines)
        taken, given = (
            sum(one["amount"]["minor"] for one in lines if one["operation"] == name)
            for name in ("charge", "refund")
        )
        self._telling.say(f"Taken: {taken / 100:.2f} USD; given back: {given / 100:.2f} USD.")
        self._scene.claim(
            Claim(
                "book",
                "The book has three charges, three refunds of two of them, and nothing twice",
                [one["operation"] for one in lines] == list(EFFECTS) and taken - given == SMALL,
                f"{[one['operation'] for one in lines]} {taken} {given}",
            )
        )
        await self._scene.claim_tables()

    def _key(self, operation: str, event: str, item: str | None = None) -> str:
        return self._scene.key(operation, event, item)

    def _refund(self, event: str, minor: int, *, item: str | None = None) -> dict[str, Any]:
        """What undoes a charge, or a part of it; the ledger names the charge to the provider."""
        whole = _charge(event, minor) | {
            "operation": "refund",
            "params": {"reason": "requested_by_customer"},
            "compensates": self._key("charge", event),
        }
        return whole if item is None else whole | {"item": item}

    async def _done(self, key: str) -> dict[str, Any]:
        return await self._scene.until_fact(f"the completion of {key}", "action.completed", key)

    def _all(self, kind: str, key: str) -> list[dict[str, Any]]:
        return [fact for one in self._scene.witness.seen for fact in facts_of(one, kind, key)]

    def _fact(self, kind: str, key: str) -> dict[str, Any]:
        """The first fact of a kind about an action whose end has been seen."""
        return self._all(kind, key)[0]

    def _has(self, kind: str, key: str) -> bool:
        return bool(self._all(kind, key))


def _charge(event: str, minor: int) -> dict[str, Any]:
    return {
        "operation": "charge",
        "business_event": event,
        "target": f"order:A-{event[-2:]}",
        "params": {"customer": "cus_7f"},
        "money": {"minor": minor, "currency": "USD"},
        "environment": "production",
    }


def _record(name: str, **fields: object) -> dict[str, Any]:
    return {
        "operation": f"record.{name}",
        "business_event": DELETED,
        "target": "record:R-17",
        "environment": "production",
        **fields,
    }


def _faults(lost: str, stuck: str) -> list[dict[str, Any]]:
    """One charge is made and not answered; it is told of later. One refund is refused for good,
    and nothing follows that would move its case while somebody looks at it.
    """
    return [
        {
            "match": {"action_key": lost},
            "fault": {"kind": "commit_then_drop"},
            "webhooks": [{"kind": "late", "delay_ms": HELD_BACK_MS}],
        },
        {
            "match": {"action_key": stuck},
            "fault": {"kind": "refuse", "code": "refund_window_closed"},
            "webhooks": [],
        },
    ]


async def _tell(scene: Scene) -> None:
    (mara,) = await registered(scene.stage, "mara")
    await _Compensation(scene, mara).tell()


CHAPTER: Final = Chapter(
    name="compensation",
    line="a charge given back in parts, an undo that waits, one that fails, one from a backup",
    title="Undoing: an action of its own, never before it is known, never more than there was",
    tell=_tell,
)
