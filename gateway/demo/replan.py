"""The chapter of replans: an agent changes its mind about a charge that may have had its effect,
and about one that surely had none.

Guarantees that what is revised is never sent again, that no revision goes ahead without a person
who was shown what it changes and what became of the first, and that nothing is charged twice.
"""

from typing import Any, Final

from gateway.demo.chapter import Chapter
from gateway.demo.claims import Claim
from gateway.demo.colleagues import Colleague, Sheet, code_of, registered
from gateway.demo.scene import Scene, effects, facts_of
from gateway.wiring.local import ACCOUNT
from gateway.wiring.publishing import default_catalogue
from ledger.core.statement import Say

LOST: Final = "renewal-2026-09-05-01"
TURNED_AWAY: Final = "renewal-2026-09-05-02"
ORDERS: Final = {LOST: "order:A-1842", TURNED_AWAY: "order:A-1843"}
WAS, IS = 4_990, 4_500
LOOKUPS: Final = "lookups = [3_000, 3_500, 4_000, 4_500]"
BUSY_S: Final = 600
TRIES_MAX: Final = 5
HELD_BACK_MS: Final = 600_000


class _Replan:
    """One telling; `tell` from beginning to end."""

    def __init__(self, scene: Scene, mara: Colleague) -> None:
        self._scene = scene
        self._telling = scene.telling
        self._mara = mara

    async def tell(self) -> None:
        """Tell it. Raises NotSeenError where something does not happen at all."""
        await self._scene.stage.publish("catalogue", _asked_soon())
        await self._scene.stage.script(_faults(self._key(LOST), self._key(TURNED_AWAY)))
        await self._search("unavailable")
        await self._first_is_lost()
        await self._changes_its_mind()
        await self._found()
        await self._denied()
        await self._superseded()
        await self._signed()
        await self._proof()

    async def _first_is_lost(self) -> None:
        self._telling.step("An agent charges 49.90 USD, and the answer is lost")
        await self._scene.ask(_charge(LOST))
        lost = await self._scene.until_fact(
            "the lost answer", "attempt.unresolved", self._key(LOST)
        )
        self._scene.show(lost)

    async def _changes_its_mind(self) -> None:
        self._telling.step("It changes its mind: 45.00 USD, as a revision of that charge")
        await self._scene.ask(self._revision(LOST))
        entry = await self._mara.blocked(self._revised(LOST))
        told = await self._scene.ask(self._revision(LOST))
        self._telling.quote(told["text"])
        self._telling.say(f"Mara is shown: {entry['sentence']}")
        recorded = await self._scene.until_fact(
            "the revision", "intent.recorded", self._revised(LOST)
        )
        self._scene.show(recorded)
        self._scene.claim(
            Claim(
                "waits",
                "The revision has a key of its own and waits: the first may have charged",
                (told["result"], told["key"], entry["names"])
                == ("Blocked", self._revised(LOST), self._key(LOST)),
                f"{told['result']} {told['key']} {entry['names']}",
            )
        )

    async def _found(self) -> None:
        self._telling.step("The provider is asked, and the first has charged")
        await self._search("offered")
        done = await self._scene.until_fact("the finding", "action.completed", self._key(LOST))
        self._scene.show(done)
        (fact,) = facts_of(done, "action.completed", self._key(LOST))
        tries = [
            one["offset"]
            for one in self._scene.witness.seen
            if any(facts_of(one, "attempt.started", self._key(LOST)))
        ]
        revised = await self._scene.until_fact(
            "the revision", "intent.recorded", self._revised(LOST)
        )
        self._scene.claim(
            Claim(
                "never_again",
                "Once it is revised the first is looked up, and not sent again",
                fact["proof"] == "lookup" and max(tries) < revised["offset"],
                f"{fact['proof']} {tries} {revised['offset']}",
            )
        )

    async def _denied(self) -> None:
        self._telling.step("Mara sees both side by side, and says no")
        sheet = await self._mara.sheet(self._revised(LOST))
        self._side_by_side(sheet)
        await self._mara.hand_in(self._revised(LOST), self._mara.sign(sheet, Say.DENY))
        denied = await self._scene.until_fact("the denial", "action.denied", self._revised(LOST))
        self._scene.show(denied)
        told = await self._scene.ask(self._revision(LOST))
        self._telling.quote(told["text"])
        earlier = sheet["preview"]["revises"]
        self._scene.claim(
            Claim(
                "side_by_side",
                "She is shown the difference, and that the first has completed",
                (earlier["action"], earlier["status"]) == (self._key(LOST), "completed")
                and _changes(sheet) == [("/money/minor", str(WAS), str(IS))],
                f"{earlier}",
            )
        )
        self._scene.claim(
            Claim(
                "denied",
                "Denied, the revision has no effect, and its agent is told so",
                told["result"] == "Denied",
                str(told["result"]),
            )
        )

    async def _superseded(self) -> None:
        self._telling.step("Another charge, which the provider turns away: it surely has no effect")
        await self._scene.ask(_charge(TURNED_AWAY))
        await self._scene.until_fact("the refusal", "attempt.refused", self._key(TURNED_AWAY))
        told = await self._scene.ask(self._revision(TURNED_AWAY))
        gone = await self._scene.until_fact(
            "the end of the first", "action.superseded", self._key(TURNED_AWAY)
        )
        self._scene.show(gone)
        (fact,) = facts_of(gone, "action.superseded", self._key(TURNED_AWAY))
        self._scene.claim(
            Claim(
                "superseded",
                "The first gives way in the decision that records the revision, which waits for "
                "a person, though its amount would go ahead by itself",
                fact["by"] == self._revised(TURNED_AWAY)
                and any(facts_of(gone, "intent.recorded", self._revised(TURNED_AWAY)))
                and told["result"] == "AwaitingApproval",
                f"{fact} {told['result']}",
            )
        )

    async def _signed(self) -> None:
        self._telling.step("Mara looks, and signs")
        key = self._revised(TURNED_AWAY)
        sheet = await self._mara.sheet(key)
        self._side_by_side(sheet)
        answer = await self._mara.hand_in(key, self._mara.sign(sheet))
        done = await self._scene.until_fact("the completion", "action.completed", key)
        self._scene.show(done)
        self._scene.claim(
            Claim(
                "goes_ahead",
                "Signed, the revision goes ahead",
                answer.is_success,
                code_of(answer),
            )
        )

    async def _proof(self) -> None:
        self._telling.step("The proof")
        lines = await self._scene.lines()
        self._telling.book(lines)
        made = [(one["action_key"], one["amount"]["minor"]) for one in lines if one["effect_id"]]
        self._scene.claim(
            Claim(
                "one_each",
                "The book has one charge for each: the first of one, the revised of the other",
                len(effects(lines)) == len({LOST, TURNED_AWAY})
                and set(made) == {(self._key(LOST), WAS), (self._revised(TURNED_AWAY), IS)},
                f"{made}",
            )
        )
        await self._scene.claim_tables()

    def _side_by_side(self, sheet: Sheet) -> None:
        earlier = sheet["preview"]["revises"]
        self._telling.say(f"It revises {earlier['action']}, which is {earlier['status']}.")
        for path, was, now in _changes(sheet):
            self._telling.say(f"{path}: was {was}, is {now}")
        for check in sheet["preview"]["checks"]:
            if check["name"] == "revises":
                self._telling.say(check["detail"])

    def _key(self, event: str) -> str:
        """The key of the first charge of an event; its revision has the same with `~2`."""
        return self._scene.key("charge", event)

    def _revised(self, event: str) -> str:
        """The key of what revises it."""
        return f"{self._key(event)}~2"

    def _revision(self, event: str) -> dict[str, Any]:
        """The same charge of another amount."""
        return _charge(event, minor=IS, revises=self._key(event))

    async def _search(self, offered: str) -> None:
        """Let the provider answer questions about its effects, or not."""
        await self._scene.stage.behave(ACCOUNT, search=offered)


def _changes(sheet: Sheet) -> list[tuple[str, str, str]]:
    return [(one["name"], one["was"], one["now"]) for one in sheet["preview"]["revises"]["changes"]]


def _charge(event: str, *, minor: int = WAS, **fields: object) -> dict[str, Any]:
    return {
        "operation": "charge",
        "business_event": event,
        "target": ORDERS[event],
        "params": {"customer": "cus_7f"},
        "money": {"minor": minor, "currency": "USD"},
        "environment": "production",
        **fields,
    }


def _asked_soon() -> str:
    """The default catalogue, in which the provider is asked about a charge after three seconds."""
    before, name, after = default_catalogue().partition('name = "charge"\n')
    shipped = "lookups = [30_000, 120_000, 600_000, 3_600_000, 21_600_000]"
    return before + name + after.replace(shipped, LOOKUPS, 1)


def _faults(lost: str, turned_away: str) -> list[dict[str, Any]]:
    """The first charge is made, nothing is answered, and nothing is told later; the other is turned
    away.
    """
    return [
        {
            "match": {"action_key": lost},
            "times": TRIES_MAX,
            "fault": {"kind": "commit_then_drop"},
            "webhooks": [{"kind": "late", "delay_ms": HELD_BACK_MS}],
        },
        {
            "match": {"action_key": turned_away},
            "fault": {"kind": "limit", "retry_after_s": BUSY_S},
        },
    ]


async def _tell(scene: Scene) -> None:
    (mara,) = await registered(scene.stage, "mara")
    await _Replan(scene, mara).tell()


CHAPTER: Final = Chapter(
    name="replan",
    line="an agent changes its mind: the first charge is found out before the second may go ahead",
    title="Changing one's mind: a revision waits for what became of the first",
    tell=_tell,
)
