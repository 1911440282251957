"""What a caller says of its own attempt, at the door: who may say it, and what is no word of its.

Against the door of the ledger in memory, whose rules and answers are those of every other.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from gateway.memory import Installation, open_installation
from gateway.wiring.publishing import default_catalogue

NONCE = "5f3a9c5f3a9c5f3a9c"
KEY = "charge:v1:acme:renewal-1"
EITHER = default_catalogue().replace(
    'principals = ["*"]', 'principals = ["*"]\nperformer = "either"'
)


@dataclass
class Door:
    """A door, and the API keys of three callers."""

    installation: Installation
    http: httpx.AsyncClient
    own: str
    colleague: str
    stranger: str

    async def propose(self, *, nonce: str | None = NONCE, key: str | None = None) -> httpx.Response:
        """Propose to charge, and offer to do it."""
        body: dict[str, Any] = {
            "operation": "charge",
            "version": 1,
            "business_event": "renewal-1",
            "target": "order:A-1842",
            "money": {"minor": 4_990, "currency": "USD"},
            "environment": "test",
        }
        if nonce is not None:
            body["caller"] = {"nonce": nonce, "valid_ms": 5_000}
        return await self.http.post("/v1/actions", json=body, headers=self.bearer(key))

    async def say(self, *, key: str | None = None, **changes: object) -> httpx.Response:
        """Say that it succeeded, or something else."""
        said = {
            "nonce": NONCE,
            "attempt": 1,
            "fencing_token": 1,
            "outcome": {"kind": "succeeded", "reference": "ch_1"},
        }
        return await self.http.post(
            f"/v1/actions/{KEY}/outcome", json=said | changes, headers=self.bearer(key)
        )

    def bearer(self, key: str | None) -> dict[str, str]:
        """The header of a caller, by default of the one who proposes."""
        return {"Authorization": f"Bearer {key or self.own}"}


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    """Open a door on an installation in memory."""
    async with open_installation(EITHER) as installation:
        transport = httpx.ASGITransport(installation.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://door") as http:
            yield Door(
                installation,
                http,
                installation.api_key("acme", "agent:billing"),
                installation.api_key("acme", "agent:other"),
                installation.api_key("globex", "agent:billing"),
            )


async def test_the_answer_to_an_offer_holds_the_start(door: Door) -> None:
    """With the provider key, and with times that count from when the call asked."""
    answer = await door.propose()
    assert answer.status_code == 201
    assert answer.json()["status"] == "attempting"
    start = answer.json()["start"]
    assert start["provider_key"] == KEY
    assert (start["attempt"], start["fencing_token"]) == (1, 1)
    assert 0 < start["deadline_ms"] < start["lease_ms"]


async def test_the_same_offer_again_holds_the_same_start(door: Door) -> None:
    """A call whose answer was lost is not told that somebody else acts."""
    first = (await door.propose()).json()
    again = await door.propose()
    assert again.status_code == 200
    assert again.json()["start"] == first["start"]


@pytest.mark.parametrize("nonce", ["77b1d077b1d077b1d0", None], ids=["another", "none"])
async def test_another_call_gets_no_start(door: Door, nonce: str | None) -> None:
    """Somebody acts already: without a start nobody else may."""
    await door.propose()
    answer = await door.propose(nonce=nonce)
    assert answer.json()["status"] == "attempting"
    assert "start" not in answer.json()


async def test_a_word_is_recorded_once(door: Door) -> None:
    """The same again is answered with the action as it stands."""
    await door.propose()
    first, again = await door.say(), await door.say()
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json()["status"] == again.json()["status"] == "completed"
    assert again.json()["replayed"]
    assert "start" not in (await door.propose()).json()


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"nonce": "77b1d077b1d077b1d0"}, 409, "stale_token"),
        ({"fencing_token": 2}, 409, "stale_token"),
        ({"attempt": 2}, 404, "unknown_attempt"),
        ({"attempt": 0}, 400, "invalid_body"),
        ({"outcome": {"kind": "declined"}}, 400, "invalid_body"),
        ({"principal": "agent:billing"}, 400, "invalid_body"),
    ],
    ids=["nonce", "token", "attempt", "zero", "kind", "principal"],
)
async def test_a_word_that_is_not_of_this_call_is_refused(
    door: Door, changes: dict[str, Any], status: int, code: str
) -> None:
    """By its name, and nothing changes."""
    await door.propose()
    answer = await door.say(**changes)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert (await door.propose()).json()["status"] == "attempting"


async def test_another_principal_is_not_believed(door: Door) -> None:
    """Even with the nonce: the word has to come from who asked."""
    await door.propose()
    answer = await door.say(key=door.colleague)
    assert (answer.status_code, answer.json()["code"]) == (409, "stale_token")


async def test_another_tenants_action_does_not_exist(door: Door) -> None:
    """Exactly as one that nobody ever proposed."""
    nobody = await door.say()
    await door.propose()
    answer = await door.say(key=door.stranger)
    assert answer.status_code == nobody.status_code == 404
    assert answer.json()["code"] == nobody.json()["code"] == "unknown_action"


async def test_an_offer_for_what_an_executor_must_do_is_refused() -> None:
    """By name, with what to do instead."""
    async with open_installation() as installation:
        transport = httpx.ASGITransport(installation.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://door") as http:
            key = installation.api_key("acme", "agent:billing")
            answer = await Door(installation, http, key, key, key).propose()
    assert (answer.status_code, answer.json()["code"]) == (403, "needs_executor")
    assert "executor" in answer.json()["hint"]
