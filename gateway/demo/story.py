"""The story of 2:13 a.m., step by step, and what it claims.

An agent asks for a charge, the provider commits it and the answer is lost, the agent is killed and
asks again, another amount under the same key is refused, the settlement webhook arrives. Beside it
an agent without a ledger meets the same fault. Guarantees that every claim is checked against what
is on the log, in the provider's book or in the database. The chapter that is told by default.
"""

from typing import Any, Final

from gateway.cli.checking import rebuilt, replayed
from gateway.demo.chapter import Chapter
from gateway.demo.claims import Claim
from gateway.demo.scene import Scene, effects
from gateway.demo.stage import Acting, act
from gateway.demo.waiting import until
from gateway.local.progress import silent
from gateway.wiring.publishing import default_catalogue

EVENT: Final = "renewal-2026-08-28-01"
AMOUNT: Final = 4_990
WRONG_AMOUNT: Final = 49_900
PATIENCE_MS: Final = 60_000
HELD_BACK_MS: Final = 600_000
SIGKILLED: Final = -9


class _Story:
    """One telling; `tell` from beginning to end."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._stage = scene.stage
        self._telling = scene.telling
        self._key = scene.key("charge", EVENT)
        self._plain = f"plain-{scene.stage.tenant}"

    async def tell(self) -> None:
        """Tell it. Raises NotSeenError where something does not happen at all."""
        await self._stage.publish("catalogue", _unhurried())
        await self._stage.script(_faults(self._key, self._plain))
        first = await self._agent(AMOUNT, patience_ms=PATIENCE_MS)
        await self._asks(first)
        await self._answer_is_lost(first)
        await self._comes_back()
        await self._changes_the_amount()
        await self._plain_agent()
        await self._webhook_arrives()
        await self._proof()

    # --- the steps -----------------------------------------------------------------------------

    async def _asks(self, agent: Acting) -> None:
        self._telling.step("An agent asks for a charge")
        self._telling.say(
            f"Acme's renewal is due: 49.90 USD for order A-1842. Agent process {agent.pid} asks."
        )
        await agent.answer()
        started = await self._scene.until_fact("the start of an attempt", "attempt.started")
        self._scene.show(started)

    async def _answer_is_lost(self, agent: Acting) -> None:
        self._telling.step("The provider takes the money, and the answer is lost")
        lost = await self._scene.until_fact("the loss of the answer", "attempt.unresolved")
        lines = await self._scene.lines()
        self._telling.book(lines)
        self._scene.show(lost)
        code = await agent.kill()
        self._telling.say(
            f"The agent saw no success. Its process {agent.pid} is killed with signal 9."
        )
        started = await self._scene.until_fact("the start of an attempt", "attempt.started")
        self._scene.claim(
            Claim(
                "written_ahead",
                "The start stood in the log before the provider heard of it",
                started["timestamp"] <= lines[0]["arrived_at"],
                f"start at {started['timestamp']}, request at {lines[0]['arrived_at']}",
            )
        )
        self._scene.claim(
            Claim(
                "committed_and_lost",
                f"The provider committed {self._effect(lines)} and dropped the answer",
                len(effects(lines)) == 1 and lines[0]["answer"] == "dropped",
                f"{effects(lines)}",
            )
        )
        self._scene.claim(
            Claim(
                "agent_killed",
                "The agent was killed, knowing nothing",
                code == SIGKILLED,
                f"{code}",
            )
        )

    async def _comes_back(self) -> None:
        self._telling.step("The agent is started again and asks for the same")
        agent = await self._agent(AMOUNT)
        told = await agent.answer()
        await agent.end()
        answered = await self._scene.until_answer("unchanged")
        self._scene.show(answered)
        self._telling.say(f"It is told: {told['result'].lower()}.")
        self._telling.quote(told["text"])
        self._scene.claim(
            Claim(
                "unknown",
                "Asked again, the ledger answers: unknown",
                told["result"] == "Unknown" and told["replayed"],
                str(told["result"]),
            )
        )
        calls = len(await self._scene.lines())
        self._scene.claim(
            Claim(
                "no_second_call", "No second call was made to the provider", calls == 1, f"{calls}"
            )
        )

    async def _changes_the_amount(self) -> None:
        self._telling.step("It tries the same key with 499.00 USD")
        agent = await self._agent(WRONG_AMOUNT)
        told = await agent.answer()
        await agent.end()
        answered = await self._scene.until_answer("refused")
        self._scene.show(answered)
        paths = [one["path"] for one in told["differences"]]
        for one in told["differences"]:
            self._telling.say(f"{one['path']}: {one['message']}")
        self._scene.claim(
            Claim(
                "changed_amount_refused",
                "The same key with another amount is refused, with the difference",
                told["result"] == "Conflict" and paths == ["/money/minor"],
                f"{told['result']} {paths}",
            )
        )

    async def _plain_agent(self) -> None:
        self._telling.step("Meanwhile, the same fault without a ledger")
        self._telling.say("Another agent calls the provider itself, and again when no answer came.")
        agent = await act(
            "gateway.demo.plain_agent",
            {
                "url": str(self._stage.provider.base_url),
                "api_key": f"sk_sim_{self._plain}",
                "charge": {
                    "target": "order:A-1842",
                    "amount": {"minor": AMOUNT, "currency": "USD"},
                    "params": {"customer": "cus_7f"},
                },
            },
        )
        told = await agent.answer()
        await agent.end()
        lines = await self._scene.lines_of(self._plain)
        self._telling.book(lines)
        made = effects(lines)
        self._telling.say(f"It reports one success, {told['effect']}. The customer paid twice.")
        self._scene.claim(
            Claim(
                "plain_agent_charges_twice",
                "A plain retrying agent charges twice",
                len(made) == 2,  # noqa: PLR2004 - that is the claim
                f"{made}",
            )
        )

    async def _webhook_arrives(self) -> None:
        self._telling.step("The settlement webhook arrives")
        await self._stage.send_webhooks()
        done = await self._scene.until_fact("the completion of the action", "action.completed")
        self._scene.show(done)
        (fact,) = (one for one in done["data"]["facts"] if one["type"] == "action.completed")
        effect = self._effect(await self._scene.lines())
        self._scene.claim(
            Claim(
                "webhook_settles",
                f"The webhook settles it: completed, {effect}",
                (fact["proof"], fact["reference"]) == ("webhook", effect),
                f"{fact['proof']} {fact['reference']}",
            )
        )

    async def _proof(self) -> None:
        self._telling.step("The proof")
        lines = await self._scene.lines()
        made = effects(lines)
        self._telling.say(f"The provider's book: {len(made)} charge for order A-1842.")
        self._scene.claim(
            Claim("one_charge", "The book shows one charge", len(made) == 1, f"{made}")
        )
        replay = await until("the settled action in the tables", self._replayed)
        action = replay["action"]
        self._telling.say(
            f"Replay from offset 0: {replay['decisions']} decisions, {replay['facts']} facts; the "
            f"action is {action.get('status')}."
        )
        self._scene.claim(
            Claim(
                "replay_equals",
                "Replay from offset 0 gives the state in the database",
                not replay["differences"]
                and replay["compared"] > 0
                and (action.get("status"), action.get("reference"))
                == ("completed", self._effect(lines)),
                f"{replay['differences']} {action}",
            )
        )
        done = await rebuilt(self._stage.settings, silent)
        self._telling.say(
            f"Rebuild: live {_short(done.live.sha256)}, rebuilt {_short(done.beside.sha256)}."
        )
        self._scene.claim(
            Claim(
                "rebuild_equals",
                "A rebuild gives the same checksum",
                done.is_equal,
                f"{done.live.sha256} {done.beside.sha256}",
            )
        )

    async def _replayed(self) -> dict[str, Any] | None:
        """The log folded as far as the tables are, once they have come to the end of the action."""
        replay = await replayed(self._stage.settings, silent, key=self._key)
        action = replay.get("action") or {}
        return replay if action.get("status") == "completed" else None

    # --- what the steps are made of --------------------------------------------------------------

    def _effect(self, lines: list[dict[str, Any]]) -> str:
        """The first effect that lines of the book speak of, or none."""
        return next(iter(effects(lines)), "nothing")

    async def _agent(self, minor: int, *, patience_ms: int = 0) -> Acting:
        intent = {
            "operation": "charge",
            "business_event": EVENT,
            "target": "order:A-1842",
            "params": {"customer": "cus_7f"},
            "money": {"minor": minor, "currency": "USD"},
            "environment": "production",
        }
        return await self._scene.agent(intent, patience_ms=patience_ms)


def _faults(key: str, plain: str) -> list[dict[str, Any]]:
    """Both first charges are committed and not answered; the ledger's is told of later."""
    lost = {"kind": "commit_then_drop"}
    later = [{"kind": "late", "delay_ms": HELD_BACK_MS}]
    return [
        {"match": {"action_key": key}, "fault": lost, "webhooks": later},
        {"match": {"account": plain}, "fault": lost, "webhooks": []},
        {"match": {"account": plain}, "webhooks": []},
    ]


def _unhurried() -> str:
    """The shipped catalogue, under which nobody looks for the charge before the webhook comes, on a
    busy machine neither.
    """
    before, name, after = default_catalogue().partition('name = "charge"\n')
    return before + name + after.replace("lookups = [30_000, ", "lookups = [", 1)


def _short(digest: str) -> str:
    return f"{digest[:16]}…"


async def _tell(scene: Scene) -> None:
    await _Story(scene).tell()


CHAPTER: Final = Chapter(
    name="story",
    line="2:13 a.m.: a charge whose answer is lost, and an agent that asks again",
    title="2:13 a.m.: a charge whose answer is lost",
    tell=_tell,
)
