"""One request in many spellings, through the door: what means the same is the same action, and what
only looks the same is refused by name. Nothing of it makes a second effect.

Families `canon` and `money`, beside C073, C077, C179, C181 and C185.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from gateway.http.actions import _meant
from gateway.http.bodies import ProposeBody
from gateway.keys import Caller, Role
from gateway.memory.installation import ADDRESS, Installation, open_installation
from gateway.wiring.publishing import default_catalogue
from ledger.core.catalogue import Catalogue, parse_catalogue
from ledger.log.published import Published
from tests.doors import doors_over

INTENT: dict[str, Any] = {
    "operation": "charge",
    "version": 1,
    "business_event": "renewal-1",
    "target": "order:A-1842",
    "money": {"minor": 500, "currency": "USD"},
    "environment": "test",
}
TEXT = json.dumps(INTENT)


@pytest.fixture
async def installation() -> AsyncIterator[Installation]:
    """A ledger in which everything goes ahead."""
    async with open_installation() as one:
        yield one


async def answered(installation: Installation, *bodies: str | bytes) -> list[tuple[int, str]]:
    """Status and code of each answer, or what became of the action."""
    key = installation.api_key("acme", "agent:test")
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    transport = httpx.ASGITransport(installation.app)
    found = []
    async with httpx.AsyncClient(transport=transport, base_url=ADDRESS, headers=headers) as http:
        for body in bodies:
            answer = await http.post("/v1/actions?wait_ms=5000", content=body)
            told = answer.json()
            found.append((answer.status_code, told.get("code") or told["status"]))
    return found


async def problem(installation: Installation, principal: str, body: str) -> dict[str, Any]:
    """What a caller is refused with."""
    key = installation.api_key("acme", principal)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    transport = httpx.ASGITransport(installation.app)
    async with httpx.AsyncClient(transport=transport, base_url=ADDRESS, headers=headers) as http:
        told: dict[str, Any] = (await http.post("/v1/actions", content=body)).json()
        return told


def also(**changes: object) -> str:
    """The intent with other fields."""
    return json.dumps({**INTENT, **changes})


SAME = {
    "names in another order": json.dumps(dict(reversed(INTENT.items()))),
    "blanks between": json.dumps(INTENT, indent=4),
    "letters as escapes": TEXT.replace("charge", "\\u0063harge"),
    "no parameters": also(params={}),
    "fields without a value": also(item=None, run=None, revises=None, caller=None),
    "another step deadline": also(step_ms=5_000),
    "another run": also(run="run-2"),
}
OTHER = {
    "an absent parameter is not an empty one": also(params={"description": ""}),
    "nor one without a value": also(params={"description": None}),
    "another target by one letter's size": also(target="order:a-1842"),
    "the same number of another currency": also(money={"minor": 500, "currency": "JPY"}),
    "another environment": also(environment="live"),
}
REFUSED: dict[str, str | bytes] = {
    "a point": TEXT.replace("500", "500.0"),
    "an exponent": TEXT.replace("500", "5e2"),
    "a minus sign": TEXT.replace("500", "-500"),
    "minus nought": TEXT.replace("500", "-0"),
    "a leading nought": TEXT.replace("500", "0500"),
    "a plus sign": TEXT.replace("500", "+500"),
    "other digits": TEXT.replace("500", "\u0665\u0660\u0660"),
    "a text": also(money={"minor": "500", "currency": "USD"}),
    "a truth": also(money={"minor": True, "currency": "USD"}),
    "one beyond every number": TEXT.replace("500", str(2**53)),
    "a small code of a currency": also(money={"minor": 500, "currency": "usd"}),
    "a blank before it": also(money={"minor": 500, "currency": " USD"}),
    "a currency without minor units": also(money={"minor": 500, "currency": "XAU"}),
    "decimals of the caller's own": also(money={"minor": 500, "currency": "USD", "decimals": 4}),
    "a member twice": TEXT[:-1] + ',"money":{"minor":1,"currency":"USD"}}',
    "a version as a text": also(version="1"),
    "a wide digit in the name": also(business_event="renewal-\uff11"),
    "the sign of Kelvin": also(business_event="renewal-\u212a"),
    "an end of line": also(business_event="renewal-1\n"),
    "a blank that is none": also(target="order:A\u00a01842"),
    "what nobody sees": also(target="order:A\u200b1842"),
    "three bytes in front": b"\xef\xbb\xbf" + TEXT.encode(),
    "another encoding": TEXT.encode("utf-16"),
}


async def test_a_request_is_one_action_however_it_is_spelled(installation: Installation) -> None:
    """Beside C179: every spelling of the same is a replay of the first."""
    first, *again = await answered(installation, TEXT, *SAME.values())
    assert first == (201, "completed")
    assert dict(zip(SAME, again, strict=True)) == dict.fromkeys(SAME, (200, "completed"))
    assert len(installation.effects()) == 1


async def test_what_differs_in_meaning_is_a_conflict(installation: Installation) -> None:
    """Beside C185: no two meanings share a hash, however near they look."""
    _, *others = await answered(installation, TEXT, *OTHER.values())
    assert dict(zip(OTHER, others, strict=True)) == dict.fromkeys(OTHER, (422, "conflicted"))
    assert len(installation.effects()) == 1


async def test_what_has_no_one_meaning_is_refused(installation: Installation) -> None:
    """Beside C077: each by a name, none by guessing, and nothing is recorded or sent."""
    told = dict(zip(REFUSED, await answered(installation, *REFUSED.values()), strict=True))
    codes = {"malformed_json", "invalid_body", "invalid_request"}
    wrong = {name: one for name, one in told.items() if one[0] != 400 or one[1] not in codes}
    assert wrong == {}
    assert installation.effects() == []
    assert await answered(installation, TEXT) == [(201, "completed")]


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"operation": "chargee"}, "/operation", "no operation chargee; did you mean charge?"),
        ({"operation": "launch"}, "/operation", "the catalogue has no operation launch"),
        ({"version": 2}, "/version", "charge has version 1"),
    ],
    ids=["a letter too many", "nothing like it", "another version"],
)
async def test_a_misspelt_operation_is_told_with_what_was_meant(
    installation: Installation, changes: dict[str, Any], path: str, message: str
) -> None:
    """Who wrote the agent sees where the slip is, and what the catalogue has instead."""
    told = await problem(installation, "agent:test", also(**changes))
    assert told["code"] == "unknown_operation"
    (named,) = told["problems"]
    assert named["path"] == path
    assert named["message"].endswith(message)


def test_a_version_that_was_just_published_is_not_named_as_what_was_meant() -> None:
    """The door has read it and the partition had not: the same again, in a moment, is right."""
    catalogue = parse_catalogue(default_catalogue())
    assert isinstance(catalogue, Catalogue), catalogue
    known = Published()
    known.catalogue = catalogue
    body = ProposeBody.model_validate_json(TEXT)
    caller = Caller("0" * 16, "acme", "agent:test", Role.AGENT)
    told = _meant(doors_over(None, lambda: known), caller, body)
    assert (told.code, told.message) == (
        "not_adopted_yet",
        "charge v1 has just been published: ask again",
    )


async def test_a_slip_names_no_operation_that_its_caller_may_not_ask_for() -> None:
    """What others may ask for is nothing that a stranger learns by guessing."""
    narrow = default_catalogue().replace('principals = ["*"]', 'principals = ["agent:test"]')
    async with open_installation(narrow) as one:
        (named,) = (await problem(one, "agent:stranger", also(operation="chargee")))["problems"]
        assert named["message"] == "the catalogue has no operation chargee"
        other = await problem(one, "agent:stranger", also(version=2))
        assert other["code"] == "not_allowed"
        assert "problems" not in other


@pytest.mark.parametrize("body", ["[]", "null", '"charge"', "7", also(money=5), also(params=[])])
async def test_what_is_no_object_is_told_without_the_types_of_a_library(
    installation: Installation, body: str
) -> None:
    """Who calls from another language has no dictionaries, and no models of ours."""
    told = await problem(installation, "agent:test", body)
    assert told["code"] == "invalid_body"
    assert [one["message"] for one in told["problems"]] == ["write an object of JSON: {…}"]
