"""What a chapter plays with: agents that ask, what the log and the provider's book have, claims.

Guarantees that every claim is held against what is on the log, in the provider's book or in the
database, and that one that failed does not stop the chapter. Called by the chapters.
"""

from collections.abc import Mapping
from typing import Any, Final

import httpx

from gateway.cli.checking import replayed
from gateway.demo.agent import asked
from gateway.demo.claims import Claim, Told
from gateway.demo.stage import Acting, Stage, act
from gateway.demo.telling import Telling
from gateway.demo.waiting import until
from gateway.demo.witness import Document, Witness, is_of_tenant
from gateway.local.progress import silent

AGENT: Final = "gateway.demo.agent"

Intent = Mapping[str, Any]
"""What an agent asks for, as the SDK's `Intent` has it."""


class Scene:
    """One chapter being told."""

    def __init__(self, stage: Stage, witness: Witness, telling: Telling, told: Told) -> None:
        self.stage = stage
        self.witness = witness
        self.telling = telling
        self.told = told

    def key(self, operation: str, event: str, item: str | None = None) -> str:
        """The key of what the chapter's agent asks for."""
        whole = f"{operation}:v1:{self.stage.tenant}:{event}"
        return whole if item is None else f"{whole}#{item}"

    async def agent(self, intent: Intent, *, patience_ms: int = 0) -> Acting:
        """The demonstration's agent as a process of its own, that asks and may be killed."""
        return await act(AGENT, self._given(intent, patience_ms, self.stage.agent_key))

    async def ask(
        self, intent: Intent, *, patience_ms: int = 0, api_key: str | None = None
    ) -> dict[str, Any]:
        """What an agent is told that nobody kills: at once, or with patience in the end."""
        key = self.stage.agent_key if api_key is None else api_key
        answers = [one async for one in asked(self._given(intent, patience_ms, key))]
        return answers[-1]

    def _given(self, intent: Intent, patience_ms: int, api_key: str) -> dict[str, Any]:
        return {
            "url": self.stage.settings.url,
            "api_key": api_key,
            "patience_ms": patience_ms,
            "intent": dict(intent),
        }

    async def propose(self, intent: Intent) -> httpx.Response:
        """Ask over HTTP, as an agent without the SDK does."""
        body = {"version": 1, **intent}
        return await self.stage.door.post("/v1/actions", json=body, headers=self._as_agent())

    async def ask_again(self, key: str) -> None:
        """Have people asked once more, as the agent that wants the action."""
        answer = await self.stage.door.post(f"/v1/actions/{key}/ask", headers=self._as_agent())
        answer.raise_for_status()

    async def status(self, key: str) -> str:
        """How an action stands, as its agent is told once the door knows what the chapter has read
        of it: each follows the log for itself. Raises NotSeenError.
        """
        facts = (fact for one in self.witness.seen for fact in one["data"].get("facts") or ())
        newest = max((fact["version"] for fact in facts if fact.get("action") == key), default=0)

        async def told() -> str | None:
            answer = (await self.get(f"/v1/actions/{key}")).json()
            return str(answer.get("status")) if answer.get("version", 0) >= newest else None

        return await until(f"{key} at the door, as it is in the log", told)

    async def get(self, path: str) -> httpx.Response:
        """Look at something, as an agent without the SDK does."""
        return await self.stage.door.get(path, headers=self._as_agent())

    async def post(self, path: str, body: Intent) -> httpx.Response:
        """Say something, as an agent without the SDK does."""
        return await self.stage.door.post(path, json=dict(body), headers=self._as_agent())

    def _as_agent(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.stage.agent_key}"}

    async def lines(self) -> list[dict[str, Any]]:
        """The provider's book of the chapter's actions, one request a line."""
        tenant = self.stage.tenant
        return [one for one in await self.stage.book() if is_of_tenant(tenant, one["action_key"])]

    async def lines_of(self, account: str) -> list[dict[str, Any]]:
        """The provider's book of an account that nobody else uses."""
        return [line for line in await self.stage.book() if line["account"] == account]

    async def until_fact(self, what: str, fact: str, key: str | None = None) -> Document:
        """The first decision with a fact of this type; of this action where one is named.

        Raises NotSeenError.
        """
        return await self.witness.until(
            what, lambda one: any(True for _ in facts_of(one, fact, key))
        )

    async def until_answer(self, kind: str, key: str | None = None) -> Document:
        """The first decision that is no change but this. Raises NotSeenError."""
        return await self.witness.until(
            f"the answer {kind}",
            lambda one: (
                one["topic"] == "ledger"
                and bool(one["data"].get(kind))
                and key in {None, one["data"][kind].get("action")}
            ),
        )

    def show(self, last: Document | None = None) -> None:
        """What is new in the log, up to a record."""
        self.telling.records(self.witness.new(last))

    async def claim_tables(self) -> None:
        """Fold the log from its beginning, and claim that the tables say the same."""
        replay = await until("what was told in the tables", self._replayed)
        self.telling.say(
            f"Replay from offset 0: {replay['decisions']} decisions, {replay['facts']} facts; "
            f"{replay['compared']} streams compared with their rows."
        )
        self.claim(
            Claim(
                "replay_equals",
                "Replay from offset 0 gives the state in the database",
                not replay["differences"] and replay["compared"] > 0,
                f"{replay['differences']}",
            )
        )

    async def _replayed(self) -> dict[str, Any] | None:
        """The log folded as far as the tables are, once they have anything of what was told."""
        told = next(
            fact["action"] for one in self.witness.seen for fact in one["data"].get("facts") or ()
        )
        replay = await replayed(self.stage.settings, silent, key=told)
        return replay if replay["action"] else None

    def claim(self, one: Claim) -> None:
        """Claim something; the chapter goes on whether it held or not."""
        self.told.claims.append(one)


def facts_of(document: Document, kind: str, key: str | None = None) -> list[dict[str, Any]]:
    """The facts of a type in a record of the ledger; of one action where its key is named."""
    if document["topic"] != "ledger":
        return []
    return [
        fact
        for fact in document["data"].get("facts") or ()
        if fact["type"] == kind and key in {None, fact["action"]}
    ]


def effects(lines: list[dict[str, Any]]) -> list[str]:
    """The effects that lines of the book speak of."""
    return [line["effect_id"] for line in lines if line["effect_id"]]
