"""The story of 2:13 a.m., step by step, and what it claims.

An agent asks for a charge, the provider commits it and the answer is lost, the agent is killed and
asks again, another amount under the same key is refused, the settlement webhook arrives. Beside it
an agent without a ledger meets the same fault. Guarantees that every claim is checked against what
is on the log, in the provider's book or in the database; a claim that failed does not stop the
story. Called by `run_demo`.
"""

from typing import Any, Final

from gateway.cli.checking import rebuilt, replayed
from gateway.demo.claims import Claim, Told
from gateway.demo.stage import Acting, Stage, act
from gateway.demo.telling import Telling
from gateway.demo.witness import Document, Witness
from gateway.local.progress import silent
from gateway.wiring.local import ACCOUNT, TENANT

EVENT: Final = "renewal-2026-08-28-01"
KEY: Final = f"charge:v1:{TENANT}:{EVENT}"
STREAM: Final = f"{TENANT}/{EVENT}"
AMOUNT: Final = 4_990
WRONG_AMOUNT: Final = 49_900
PLAIN_ACCOUNT: Final = "plain"
PATIENCE_MS: Final = 60_000
HELD_BACK_MS: Final = 600_000
SIGKILLED: Final = -9


class Story:
    """One telling; `tell` from beginning to end."""

    def __init__(self, stage: Stage, witness: Witness, telling: Telling, told: Told) -> None:
        self._stage = stage
        self._witness = witness
        self._telling = telling
        self._told = told

    async def tell(self) -> None:
        """Tell it. Raises NotSeenError where something does not happen at all."""
        await self._stage.script(_faults())
        first = await self._agent(AMOUNT, patience_ms=PATIENCE_MS)
        await self._asks(first)
        await self._answer_is_lost(first)
        await self._comes_back()
        await self._changes_the_amount()
        await self._plain_agent()
        await self._webhook_arrives()
        await self._proof()
        self._told.records = list(self._witness.seen)

    # --- the steps -----------------------------------------------------------------------------

    async def _asks(self, agent: Acting) -> None:
        self._telling.step("An agent asks for a charge")
        self._telling.say(
            f"Acme's renewal is due: 49.90 USD for order A-1842. Agent process {agent.pid} asks."
        )
        await agent.answer()
        started = await self._until_fact("the start of an attempt", "attempt.started")
        self._show(started)

    async def _answer_is_lost(self, agent: Acting) -> None:
        self._telling.step("The provider takes the money, and the answer is lost")
        lost = await self._until_fact("the loss of the answer", "attempt.unresolved")
        lines = await self._lines(ACCOUNT)
        self._telling.book(lines)
        self._show(lost)
        code = await agent.kill()
        self._telling.say(
            f"The agent saw no success. Its process {agent.pid} is killed with signal 9."
        )
        started = await self._until_fact("the start of an attempt", "attempt.started")
        self._claim(
            "written_ahead",
            "The start stood in the log before the provider heard of it",
            started["timestamp"] <= lines[0]["arrived_at"],
            f"start at {started['timestamp']}, request at {lines[0]['arrived_at']}",
        )
        self._claim(
            "committed_and_lost",
            "The provider committed ch_1 and dropped the answer",
            _effects(lines) == ["ch_1"] and lines[0]["answer"] == "dropped",
            f"{_effects(lines)}",
        )
        self._claim(
            "agent_killed", "The agent was killed, knowing nothing", code == SIGKILLED, f"{code}"
        )

    async def _comes_back(self) -> None:
        self._telling.step("The agent is started again and asks for the same")
        agent = await self._agent(AMOUNT)
        told = await agent.answer()
        await agent.end()
        answered = await self._until_answer("unchanged")
        self._show(answered)
        self._telling.say(f"It is told: {told['result'].lower()}.")
        self._telling.quote(told["text"])
        self._claim(
            "unknown",
            "Asked again, the ledger answers: unknown",
            told["result"] == "Unknown" and told["replayed"],
            str(told["result"]),
        )
        calls = len(await self._lines(ACCOUNT))
        self._claim(
            "no_second_call", "No second call was made to the provider", calls == 1, f"{calls}"
        )

    async def _changes_the_amount(self) -> None:
        self._telling.step("It tries the same key with 499.00 USD")
        agent = await self._agent(WRONG_AMOUNT)
        told = await agent.answer()
        await agent.end()
        answered = await self._until_answer("refused")
        self._show(answered)
        paths = [one["path"] for one in told["differences"]]
        for one in told["differences"]:
            self._telling.say(f"{one['path']}: {one['message']}")
        self._claim(
            "changed_amount_refused",
            "The same key with another amount is refused, with the difference",
            told["result"] == "Conflict" and paths == ["/money/minor"],
            f"{told['result']} {paths}",
        )

    async def _plain_agent(self) -> None:
        self._telling.step("Meanwhile, the same fault without a ledger")
        self._telling.say("Another agent calls the provider itself, and again when no answer came.")
        agent = await act(
            "gateway.demo.plain_agent",
            {
                "url": str(self._stage.provider.base_url),
                "api_key": f"sk_sim_{PLAIN_ACCOUNT}",
                "charge": {
                    "target": "order:A-1842",
                    "amount": {"minor": AMOUNT, "currency": "USD"},
                    "params": {"customer": "cus_7f"},
                },
            },
        )
        told = await agent.answer()
        await agent.end()
        lines = await self._lines(PLAIN_ACCOUNT)
        self._telling.book(lines)
        made = _effects(lines)
        self._telling.say(f"It reports one success, {told['effect']}. The customer paid twice.")
        self._claim(
            "plain_agent_charges_twice",
            "A plain retrying agent charges twice",
            len(made) == 2,  # noqa: PLR2004 - that is the claim
            f"{made}",
        )

    async def _webhook_arrives(self) -> None:
        self._telling.step("The settlement webhook arrives")
        await self._stage.send_webhooks()
        done = await self._until_fact("the completion of the action", "action.completed")
        self._show(done)
        (fact,) = (one for one in done["data"]["facts"] if one["type"] == "action.completed")
        self._claim(
            "webhook_settles",
            "The webhook settles it: completed, ch_1",
            fact["proof"] == "webhook" and fact["reference"] == "ch_1",
            f"{fact['proof']} {fact['reference']}",
        )

    async def _proof(self) -> None:
        self._telling.step("The proof")
        lines = await self._lines(ACCOUNT)
        made = _effects(lines)
        self._telling.say(f"The provider's book: {len(made)} charge for order A-1842.")
        self._claim("one_charge", "The book shows one charge", made == ["ch_1"], f"{made}")
        replay = await replayed(self._stage.settings, silent, key=KEY)
        action = replay.get("action") or {}
        self._telling.say(
            f"Replay from offset 0: {replay['decisions']} decisions, {replay['facts']} facts; the "
            f"action is {action.get('status')}."
        )
        self._claim(
            "replay_equals",
            "Replay from offset 0 gives the state in the database",
            not replay["differences"]
            and replay["compared"] > 0
            and (action.get("status"), action.get("reference")) == ("completed", "ch_1"),
            f"{replay['differences']} {action}",
        )
        done = await rebuilt(self._stage.settings, silent)
        self._telling.say(
            f"Rebuild: live {_short(done.live.sha256)}, rebuilt {_short(done.beside.sha256)}."
        )
        self._claim(
            "rebuild_equals",
            "A rebuild gives the same checksum",
            done.is_equal,
            f"{done.live.sha256} {done.beside.sha256}",
        )

    # --- what the steps are made of --------------------------------------------------------------

    async def _agent(self, minor: int, *, patience_ms: int = 0) -> Acting:
        return await act(
            "gateway.demo.agent",
            {
                "url": self._stage.settings.url,
                "api_key": self._stage.agent_key,
                "patience_ms": patience_ms,
                "intent": {
                    "operation": "charge",
                    "business_event": EVENT,
                    "target": "order:A-1842",
                    "params": {"customer": "cus_7f"},
                    "money": {"minor": minor, "currency": "USD"},
                    "environment": "production",
                },
            },
        )

    async def _lines(self, account: str) -> list[dict[str, Any]]:
        return [line for line in await self._stage.book() if line["account"] == account]

    async def _until_fact(self, what: str, fact: str) -> Document:
        return await self._witness.until(
            what,
            lambda one: (
                one["topic"] == "ledger"
                and any(each["type"] == fact for each in one["data"].get("facts") or ())
            ),
        )

    async def _until_answer(self, kind: str) -> Document:
        return await self._witness.until(
            f"the answer {kind}", lambda one: one["topic"] == "ledger" and one["data"].get(kind)
        )

    def _show(self, last: Document) -> None:
        self._telling.records(self._witness.new(last))

    def _claim(self, name: str, text: str, held: bool, seen: str) -> None:  # noqa: FBT001
        self._told.claims.append(Claim(name, text, held, seen))


def _faults() -> list[dict[str, Any]]:
    """Both first charges are committed and not answered; the ledger's is told of later."""
    lost = {"kind": "commit_then_drop"}
    later = [{"kind": "late", "delay_ms": HELD_BACK_MS}]
    return [
        {"match": {"account": ACCOUNT}, "fault": lost, "webhooks": later},
        {"match": {"account": PLAIN_ACCOUNT}, "fault": lost, "webhooks": []},
        {"match": {"account": PLAIN_ACCOUNT}, "webhooks": []},
    ]


def _effects(lines: list[dict[str, Any]]) -> list[str]:
    return [line["effect_id"] for line in lines if line["effect_id"]]


def _short(digest: str) -> str:
    return f"{digest[:16]}…"
