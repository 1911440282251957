"""The chapter of sagas: three payments for one order, of which the third is declined for good.

Guarantees that what was done is undone in reverse, that an undo whose answer is lost is found out
before the next one begins, and that the provider's book is even at the end.
"""

from typing import Any, Final

from actionledger import Ledger, Money, Plan, PlannedAction, PlannedStep, SagaResult
from gateway.demo.chapter import Chapter
from gateway.demo.claims import Claim
from gateway.demo.scene import Scene, effects

EVENT: Final = "order-2026-11-30-07"
SAGA: Final = "order"
ITEMS: Final = ("goods", "freight", "gift")
AMOUNT: Final = 1_990
HELD_BACK_MS: Final = 600_000
WAIT_MS: Final = 60_000


class _Saga:
    """One telling; `tell` from beginning to end."""

    def __init__(self, scene: Scene, ledger: Ledger) -> None:
        self._scene = scene
        self._telling = scene.telling
        self._ledger = ledger

    async def tell(self) -> None:
        """Tell it. Raises NotSeenError where something does not happen at all."""
        await self._scene.stage.script(_faults(self._charged("gift"), self._undo("freight")))
        await self._whole_or_not_at_all()
        await self._opens()
        await self._comes_to_nothing()
        await self._found_out_first()
        await self._undone()
        await self._proof()

    async def _whole_or_not_at_all(self) -> None:
        self._telling.step("A plan with a mistake in its last step")
        wrong = _plan(Money(minor=AMOUNT, currency="USD"), last="not-an-order")
        body = wrong.model_dump(exclude_none=True)
        answer = await self._scene.stage.door.post(
            "/v1/sagas",
            json=body,
            headers={"Authorization": f"Bearer {self._scene.stage.agent_key}"},
        )
        problem = answer.json()
        for one in problem.get("problems", ()):
            self._telling.say(f"refused: {one['path']}: {one['message']}")
        paths = [one["path"] for one in problem.get("problems", ())]
        lines = await self._scene.lines()
        self._scene.claim(
            Claim(
                "whole_or_not",
                "A mistake in the third step refuses the plan, and nothing of it is begun",
                problem.get("code") == "invalid_request"
                and paths == ["/steps/2/target"]
                and not lines,
                f"{problem.get('code')} {paths} {len(lines)} calls",
            )
        )

    async def _opens(self) -> None:
        self._telling.step("An agent opens the plan: three payments, and what undoes each")
        opened = await self._open()
        recorded = await self._scene.until_fact(
            "the plan", "intent.recorded", self._charged("goods")
        )
        intents = [one for one in recorded["data"]["facts"] if one["type"] == "intent.recorded"]
        self._telling.quote(opened.text_for_model)
        self._scene.claim(
            Claim(
                "one_decision",
                "Three steps and three undos are recorded in one decision, before the first call",
                len(intents) == 2 * len(ITEMS) and not opened.replayed,
                f"{len(intents)} intents",
            )
        )

    async def _comes_to_nothing(self) -> None:
        self._telling.step("Two are paid; the third is declined for good")
        failed = await self._scene.until_fact("the refusal", "action.failed", self._charged("gift"))
        self._scene.show(failed)
        began = [
            one["action"]
            for one in failed["data"]["facts"]
            if one["type"] == "policy.decided" and one["action"].startswith("refund")
        ]
        self._scene.claim(
            Claim(
                "last_first",
                "With the refusal the undo of the last payment is its turn, and no other",
                began == [self._undo("freight")],
                f"{began}",
            )
        )

    async def _found_out_first(self) -> None:
        self._telling.step("The answer to the first undo is lost")
        lost = await self._scene.until_fact(
            "the loss of the answer", "attempt.unresolved", self._undo("freight")
        )
        self._scene.show(lost)
        stands = await self._stands()
        self._telling.quote(stands.text_for_model)
        undone = [(one.undone, one.compensation_status) for one in stands.steps]
        again = await self._open()
        self._scene.claim(
            Claim(
                "unknown_first",
                "Nothing else is undone before it is known what became of it",
                undone[:2] == [("planned", "blocked"), ("needed", "unknown")],
                f"{undone}",
            )
        )
        self._scene.claim(
            Claim(
                "replay",
                "The same plan again is the same saga",
                again.replayed and again.status == "compensating",
                f"{again.status}",
            )
        )

    async def _undone(self) -> None:
        self._telling.step("The provider tells of the refund, and the saga goes on by itself")
        await self._scene.stage.send_webhooks()
        await self._scene.until_fact("the first undo", "action.completed", self._undo("freight"))
        done = await self._scene.until_fact(
            "the second undo", "action.completed", self._undo("goods")
        )
        self._scene.show(done)
        ended = await self._ledger.saga(EVENT, SAGA, timeout_ms=WAIT_MS)
        assert isinstance(ended, SagaResult)  # noqa: S101 - looking is never a conflict
        self._telling.quote(ended.text_for_model)
        self._scene.claim(
            Claim(
                "compensated",
                "It is compensated: both payments are undone, the last one first",
                ended.status == "compensated"
                and [one.undone for one in ended.steps] == ["done", "done", "not_needed"],
                f"{ended.status} {[one.undone for one in ended.steps]}",
            )
        )

    async def _proof(self) -> None:
        self._telling.step("The proof")
        lines = await self._scene.lines()
        self._telling.book(lines)
        made = effects(lines)
        self._scene.claim(
            Claim(
                "even",
                "The book has two charges and their two refunds, and nothing twice",
                [name.partition("_")[0] for name in made] == ["ch", "ch", "re", "re"],
                f"{made}",
            )
        )
        await self._scene.claim_tables()

    def _charged(self, item: str) -> str:
        """The key of a step."""
        return self._scene.key("charge", EVENT, item)

    def _undo(self, item: str) -> str:
        """The key of what undoes it."""
        return self._scene.key("refund", EVENT, item)

    async def _open(self) -> SagaResult:
        opened = await self._ledger.open_saga(_plan(Money(minor=AMOUNT, currency="USD")), wait_ms=0)
        assert isinstance(opened, SagaResult)  # noqa: S101 - the plan is always the same
        return opened

    async def _stands(self) -> SagaResult:
        stands = await self._ledger.saga(EVENT, SAGA)
        assert isinstance(stands, SagaResult)  # noqa: S101 - looking is never a conflict
        return stands


def _plan(money: Money, *, last: str = "order:A-1842") -> Plan:
    """The plan of the chapter; `last` is what its last step acts on."""
    return Plan(
        saga=SAGA,
        business_event=EVENT,
        environment="production",
        steps=tuple(
            PlannedStep(
                operation="charge",
                item=item,
                target=last if item == ITEMS[-1] else "order:A-1842",
                params={"customer": "cus_7f"},
                money=money,
                compensation=PlannedAction(
                    operation="refund", item=item, target="order:A-1842", money=money
                ),
            )
            for item in ITEMS
        ),
    )


def _faults(declined: str, lost: str) -> list[dict[str, Any]]:
    """The last payment is declined, and the first undo is done and not answered; it is told of
    later.
    """
    return [
        {
            "match": {"action_key": declined},
            "fault": {"kind": "refuse", "code": "card_declined"},
        },
        {
            "match": {"action_key": lost},
            "fault": {"kind": "commit_then_drop"},
            "webhooks": [{"kind": "late", "delay_ms": HELD_BACK_MS}],
        },
    ]


async def _tell(scene: Scene) -> None:
    async with Ledger(scene.stage.settings.url, scene.stage.agent_key) as ledger:
        await _Saga(scene, ledger).tell()


CHAPTER: Final = Chapter(
    name="saga",
    line="three payments, the third declined for good: what was done is undone in reverse",
    title="Sagas: whole, or undone in reverse",
    tell=_tell,
)
