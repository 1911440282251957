"""A whole installation in which people are asked: the door, its log, its read model, who signs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from gateway.http.sheets import DecisionSheet
from gateway.wiring.documents import publish_everywhere
from gateway.wiring.publishing import Kind
from ledger.core.ids import ActionKey
from ledger.core.statement import Say, Statement
from ledger.signing.keys import sign
from ledger.signing.logins import login_token
from projections.projector import Projector
from tests import asking
from tests.integration.counting import CountingProvider
from tests.integration.door import Door, opened
from tests.integration.installation import CATALOGUE, PARTITIONS
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS
from tests.servers import Addresses

POLL_SECONDS = 0.02
LOGINS = "Login"


@dataclass
class Office:
    """A door, a provider that counts, and people who read and sign through the door."""

    door: Door
    provider: CountingProvider

    async def sheet(self, key: str, who: str = "ada", *, round_min: int = 1) -> DecisionSheet:
        """What a person sees of an action, as soon as they are asked about it so many times."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                answer = await self.read(f"/v1/approvals/{key}", who)
                if answer.status_code == 200:
                    found = DecisionSheet.model_validate_json(answer.content)
                    if found.asked is not None and found.asked.round >= round_min:
                        return found
                await asyncio.sleep(POLL_SECONDS)

    async def read(self, path: str, who: str = "ada") -> httpx.Response:
        """Ask as a person."""
        return await self.door.http.get(path, headers=self.login("GET", path, who))

    def login(self, method: str, path: str, who: str, *, body: bytes = b"") -> dict[str, str]:
        """The header by which a person logs in for one request."""
        token = login_token(
            asking.KEYS[who],
            ledger=self.door.ledger_id,
            method=method,
            path=path,
            now_ms=self.door.now_ms,
            body=body,
        )
        return {"Authorization": f"{LOGINS} {token}"}

    async def say(
        self, sheet: DecisionSheet, who: str = "ada", say: Say = Say.APPROVE, **changes: object
    ) -> httpx.Response:
        """Sign what a sheet shows, and hand it in."""
        return await self.hand_in(statement(sheet, who, say, **changes))

    async def hand_in(
        self, said: Statement, *, key: str | None = None, signed_by: str | None = None
    ) -> httpx.Response:
        """Hand in a statement, signed by its approver unless a test says otherwise."""
        signed = sign(said, asking.KEYS[signed_by or said.approver])
        body = {"key": key or said.key, "signed": signed.model_dump(mode="json")}
        return await self.door.http.post("/v1/decisions", json=body)

    async def until(self, key: str, *statuses: str) -> dict[str, Any]:
        """The action once its agent sees one of the statuses."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                tenant = ActionKey.parse(key).tenant
                action = (await self.door.get(f"/v1/actions/{key}", tenant=tenant)).json()
                if action.get("status") in statuses:
                    return dict(action)
                await asyncio.sleep(POLL_SECONDS)

    async def ruled(self, key: str, *, times: int) -> None:
        """Wait until tables have ruled an action so many times."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                events = (await self.door.get(f"/v1/actions/{key}/timeline")).json()["entries"]
                if sum(one["type"] == "policy.decided" for one in events) >= times:
                    return
                await asyncio.sleep(POLL_SECONDS)


def statement(
    sheet: DecisionSheet, who: str, say: Say = Say.APPROVE, **changes: object
) -> Statement:
    """What a person signs of a sheet, unless a test changes a field."""
    asked = sheet.asked
    assert asked is not None
    fields: dict[str, object] = {
        "ledger": sheet.ledger,
        "decision": say,
        "approver": who,
        "tenant": sheet.tenant,
        "environment": sheet.request.environment,
        "key": sheet.key,
        "request_hash": sheet.request_hash,
        "preview_hash": asked.preview_hash,
        "policy_hash": asked.policy_hash,
        "row": asked.row,
        "nonce": asked.nonce,
        "issued_at": sheet.now,
        "expires_at": asked.expires_at,
    }
    return Statement.model_validate(fields | changes)


def refund_body(event: str, *, minor: int = 12_000, **others: object) -> dict[str, Any]:
    """The body that proposes to give 120 EUR back."""
    return {
        "operation": "refund",
        "version": 1,
        "business_event": event,
        "target": "order:A-1842",
        "params": {"charge": "ch_1", "reason": "requested_by_customer"},
        "money": {"minor": minor, "currency": "EUR"},
        "environment": "production",
        **others,
    }


async def known(people: Office, body: dict[str, Any], headers: dict[str, str]) -> httpx.Response:
    """The answer to a proposal, as soon as the door has read the new key."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            answer = await people.door.http.post("/v1/actions", json=body, headers=headers)
            if answer.status_code != 401:
                return answer
            await asyncio.sleep(POLL_SECONDS)


@contextlib.asynccontextmanager
async def office(
    servers: Addresses,
    folder: Path,
    policy: str,
    *,
    people: str | None = None,
    catalogue: str = CATALOGUE,
    has_executor: bool = True,
    provider: CountingProvider | None = None,
) -> AsyncIterator[Office]:
    """An installation under a policy, with the people of `tests.asking`, everything running."""
    everybody = asking.people_text() if people is None else people
    documents: dict[Kind, str] = {"policy": policy, "people": everybody}
    async with opened(servers, folder, catalogue=catalogue, documents=documents) as door:
        provider = provider or CountingProvider()
        await door.one.processor()
        if has_executor:
            await door.one.executor(provider)
        async with asyncpg.create_pool(door.settings.database_url, min_size=0) as pool:
            stop = asyncio.Event()
            projector = Projector(door.one.log, pool, range(PARTITIONS))
            projecting = asyncio.create_task(projector.run(stop))
            try:
                yield Office(door, provider)
            finally:
                stop.set()
                await projecting


async def republish(door: Door, kind: Kind, text: str) -> None:
    """Put another document in the place of the one in force, until everybody decides by it."""
    told = await publish_everywhere(door.settings, kind, text, timeout_ms=PATIENCE_MS)
    assert told.waiting == ()
