"""An agent that would rather not wait: with everything that it can reach it tries to have its
refund of 120 EUR without a person. Nothing gets through, each refusal has its name, and the
provider hears of nothing.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from actionledger import AwaitingApproval, CallerMistake, Intent, Ledger, Money
from gateway.http.sheets import DecisionSheet
from gateway.keys import Role, create_key
from ledger.core.statement import Say, SignedByKey, Statement, statement_bytes
from ledger.signing.keys import sign
from ledger.signing.logins import login_token
from tests import asking
from tests.integration.asking_people import Office, known, office, refund_body, statement
from tests.integration.door import POLL_SECONDS, charge_body, code_of
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

POLICY = asking.asked("refund") + asking.asked("email") + asking.EVERYTHING_GOES_AHEAD
OWN_KEY = asking.signing_key(99)
"""A key that the agent has made itself: nobody has registered it."""


@pytest.fixture
async def people(servers: Addresses, tmp_path: Path) -> AsyncIterator[Office]:
    """An installation in which one person has to agree to every refund."""
    async with office(servers, tmp_path, POLICY) as made:
        yield made


async def asked_for(people: Office, event: str, *, minor: int = 12_000) -> DecisionSheet:
    """The agent asks for a refund; what a person is shown of it."""
    answer = await people.door.propose(refund_body(event, minor=minor))
    assert answer.status_code == 201, answer.text
    return await people.sheet(answer.json()["key"])


async def hand_in(people: Office, key: str, signed: SignedByKey) -> httpx.Response:
    """Send what is said to be a person's decision, as anybody on the network can."""
    body = {"key": key, "signed": signed.model_dump(mode="json")}
    return await people.door.http.post("/v1/decisions", json=body)


async def assert_still_waits(people: Office, *keys: str) -> None:
    """Nothing has begun, and nothing was heard of at the provider."""
    for key in keys:
        assert (await people.door.get(f"/v1/actions/{key}")).json()["status"] == "awaiting_approval"
    assert not people.provider.calls


# --- approving -----------------------------------------------------------------------------------


async def test_an_api_key_reads_and_decides_nothing(people: Office) -> None:
    """What waits for people, and deciding about it, is for people's own keys: an agent's key, and
    an operator's, is none.
    """
    sheet = await asked_for(people, "return-1")
    for role in Role:
        bearer = people.door.bearer(role=role)
        for path in ("/v1/approvals", f"/v1/approvals/{sheet.key}"):
            assert code_of(await people.door.http.get(path, headers=bearer)) == "login_invalid"
        for body in ({"key": sheet.key}, {"key": sheet.key, "decision": "approve"}):
            answer = await people.door.http.post("/v1/decisions", json=body, headers=bearer)
            assert code_of(answer) == "invalid_body"
    await assert_still_waits(people, sheet.key)


async def test_the_client_has_nothing_to_decide_with() -> None:
    """What an agent imports proposes, waits, takes back and asks again, and nothing else."""
    offered = {name for name in dir(Ledger) if not name.startswith("_")}
    assert offered.isdisjoint({"approve", "deny", "decide", "judge", "sign", "withdraw"})
    assert {"propose", "wait", "get", "cancel", "ask_again"} <= offered


async def test_a_key_of_its_own_is_nobodys(people: Office) -> None:
    """What the agent signs with a key it has made is signed by nobody, in whosever name."""
    sheet = await asked_for(people, "return-1")
    for name in ("ada", "agent"):
        forged = sign(statement(sheet, name), OWN_KEY)
        assert code_of(await hand_in(people, sheet.key, forged)) == "unknown_signer"
    token = login_token(
        OWN_KEY,
        ledger=people.door.ledger_id,
        method="GET",
        path="/v1/approvals",
        now_ms=people.door.now_ms,
    )
    login = {"Authorization": f"Login {token}"}
    answer = await people.door.http.get("/v1/approvals", headers=login)
    assert code_of(answer) == "login_unknown_signer"
    await assert_still_waits(people, sheet.key)


def encoded(raw: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def token_of(header: object, said: Statement, signature: str) -> SignedByKey:
    """A token with whatever header, over a statement."""
    head = json.dumps(header, separators=(",", ":")).encode()
    return SignedByKey(jws=f"{encoded(head)}.{encoded(statement_bytes(said))}.{signature}")


async def test_no_header_makes_a_signature(people: Office) -> None:
    """A token without an algorithm, with another one, of another type, with a key inside, or under
    a person's key id and the agent's signature proves nothing.
    """
    sheet = await asked_for(people, "return-1")
    said = statement(sheet, "ada")
    kid = asking.KEYS["ada"].id
    own = sign(said, OWN_KEY).jws.rpartition(".")[2]
    typ = "actionledger-approval+jws"
    headers: tuple[dict[str, object], ...] = (
        {"alg": "none", "kid": kid, "typ": typ},
        {"alg": "HS256", "kid": kid, "typ": typ},
        {"alg": "EdDSA", "kid": kid, "typ": typ},
        {"alg": "Ed25519", "kid": kid, "typ": typ},
        {"alg": "Ed25519", "kid": kid, "typ": "actionledger-login+jws"},
        {"alg": "Ed25519", "jwk": {"kty": "OKP", "x": OWN_KEY.public}, "kid": kid, "typ": typ},
        {"alg": "Ed25519", "crit": ["kid"], "kid": kid, "typ": typ},
    )
    for header in headers:
        for signature in ("", own):
            forged = token_of(header, said, signature)
            assert code_of(await hand_in(people, sheet.key, forged)) == "signature_invalid"
    await assert_still_waits(people, sheet.key)


# --- transplanting -------------------------------------------------------------------------------


async def test_no_field_of_a_statement_can_be_changed(people: Office) -> None:
    """A genuine yes about another action, with any of its fields put to what this one needs, is no
    signature any more.
    """
    here = await asked_for(people, "return-1")
    there = await asked_for(people, "return-2", minor=100)
    genuine = sign(statement(there, "ada"), asking.KEYS["ada"]).jws
    header, payload, signature = genuine.split(".")
    signed = json.loads(base64.urlsafe_b64decode(payload + "=="))
    wanted = statement(here, "ada").model_dump(mode="json")
    for name in (*(name for name in wanted if name != "comment"), "comment"):
        changed = wanted[name] if wanted[name] != signed.get(name) else "changed"
        forged = Statement.model_validate(wanted).model_dump(mode="json", exclude_none=True)
        body = signed | {name: changed}
        raw = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
        for text in (raw, json.dumps(forged, separators=(",", ":")).encode()):
            token = SignedByKey(jws=f"{header}.{encoded(text)}.{signature}")
            assert code_of(await hand_in(people, here.key, token)) == "signature_invalid", name
    assert code_of(await hand_in(people, here.key, SignedByKey(jws=genuine))) == "other_action"
    await assert_still_waits(people, here.key, there.key)


def changed_statement(sheet: DecisionSheet, changed: dict[str, object]) -> SignedByKey:
    """What a person has signed, and should not have."""
    said = statement(sheet, "ada").model_copy(update=changed)
    return sign(said, asking.KEYS["ada"])


async def test_every_field_that_a_person_signed_is_held_against_the_action(people: Office) -> None:
    """A person who was led to sign something else than what is asked has not agreed to this: each
    field that differs is a refusal by its name.
    """
    sheet = await asked_for(people, "return-1")
    asked = sheet.asked
    assert asked is not None
    changes: dict[str, dict[str, object]] = {
        "other_ledger": {"ledger": "another"},
        "other_action": {"key": "refund:v1:acme:return-9"},
        "other_tenant": {"tenant": "globex"},
        "other_environment": {"environment": "sandbox"},
        "other_request": {"request_hash": f"sha256:{'0' * 64}"},
        "other_person": {"approver": "ben"},
        "nonce_dead": {"nonce": "0" * 32},
        "other_policy": {"policy_hash": f"sha256:{'0' * 64}"},
        "other_preview": {"preview_hash": f"sha256:{'0' * 64}"},
        "approval_expired": {"expires_at": sheet.now - 1},
        "expiry_beyond_request": {"expires_at": asked.expires_at + 1},
        "issued_in_future": {"issued_at": sheet.now + 3_600_000},
    }
    for code, changed in changes.items():
        forged = changed_statement(sheet, changed)
        assert code_of(await hand_in(people, sheet.key, forged)) == code
    more: tuple[tuple[str, dict[str, object]], ...] = (
        ("other_policy", {"row": "another"}),
        ("other_preview", {"preview_hash": None}),
    )
    for code, changed in more:
        forged = changed_statement(sheet, changed)
        assert code_of(await hand_in(people, sheet.key, forged)) == code
    await assert_still_waits(people, sheet.key)


# --- replaying -----------------------------------------------------------------------------------


async def test_a_signature_is_spent_once(people: Office) -> None:
    """Sent again before, beside and after its effect, and under another action, it counts once."""
    sheet = await asked_for(people, "return-1")
    again = await asked_for(people, "return-1b")
    signed = sign(statement(sheet, "ada"), asking.KEYS["ada"])
    answers = await asyncio.gather(*(hand_in(people, sheet.key, signed) for _ in range(8)))
    assert {answer.status_code for answer in answers} == {200}
    await people.until(sheet.key, "completed")
    for _ in range(3):
        late = await hand_in(people, sheet.key, signed)
        assert late.status_code == 200
        assert late.json()["replayed"] is True
    assert code_of(await hand_in(people, again.key, signed)) == "other_action"
    assert people.provider.calls == {sheet.key: 1}


async def test_a_no_is_never_read_as_yes(people: Office) -> None:
    """A denial that the agent sends on, or sends again, denies; and what was denied stays so."""
    sheet = await asked_for(people, "return-1")
    no = sign(statement(sheet, "ada", Say.DENY), asking.KEYS["ada"])
    assert (await hand_in(people, sheet.key, no)).json()["status"] == "denied"
    resent = (await hand_in(people, sheet.key, no)).json()
    assert (resent["status"], resent["replayed"]) == ("denied", True)
    yes = await people.say(sheet, "ben")
    assert code_of(yes) == "already_final"
    again = await people.door.propose(refund_body("return-1"))
    assert (again.status_code, again.json()["status"]) == (200, "denied")
    assert not people.provider.calls


# --- racing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(4))
async def test_racing_a_decision_gains_nothing(people: Office, number: int) -> None:
    """Approved, cancelled, denied and proposed again at the same moment, it ends one way, and the
    provider hears of it once or never.
    """
    sheet = await asked_for(people, f"return-{number}")
    bearer = people.door.bearer()
    await asyncio.gather(
        people.say(sheet, "ada"),
        people.door.http.post(f"/v1/actions/{sheet.key}/cancel", headers=bearer),
        people.door.propose(refund_body(f"return-{number}")),
        people.say(sheet, "ben", Say.DENY),
        people.door.http.post(f"/v1/actions/{sheet.key}/ask", headers=bearer),
        people.say(sheet, "ada", Say.WITHDRAW),
        people.say(sheet, "cyd"),
    )
    ended = await people.until(sheet.key, "completed", "cancelled", "denied")
    expected = 1 if ended["status"] == "completed" else 0
    assert people.provider.calls[sheet.key] == expected
    later = await people.say(sheet, "cyd")
    assert later.status_code in {200, 409}
    assert people.provider.calls[sheet.key] == expected


# --- exhausting ----------------------------------------------------------------------------------


async def test_the_eleventh_question_is_refused(people: Office) -> None:
    """Thirty at once, and ten wait; the rest are refused by name and leave nothing behind. What was
    asked before is answered as ever, what needs nobody goes ahead, and other agents are not in the
    way. One that was cancelled makes room.
    """
    bodies = [refund_body(f"return-{number}") for number in range(30)]
    answers = await asyncio.gather(*map(people.door.propose, bodies))
    admitted = [body for body, one in zip(bodies, answers, strict=True) if one.status_code == 201]
    refused = [code_of(one) for one in answers if one.status_code != 201]
    assert len(admitted) == 10
    assert refused == ["too_many_waiting"] * 20
    again = await people.door.propose(admitted[0])
    assert (again.status_code, again.json()["status"]) == (200, "awaiting_approval")
    eleventh = next(body for body in bodies if body not in admitted)
    assert code_of(await people.door.propose(eleventh)) == "too_many_waiting"
    assert (await people.door.propose(charge_body("renewal-1"))).status_code == 201
    assert (await people.door.propose(bodies[0], tenant="globex")).status_code == 201
    key = again.json()["key"]
    await people.door.http.post(f"/v1/actions/{key}/cancel", headers=people.door.bearer())
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await people.door.propose(eleventh)).status_code != 201:
            await asyncio.sleep(POLL_SECONDS)
    assert set(people.provider.calls) <= {"charge:v1:acme:renewal-1"}


async def test_the_client_is_told_so_by_name(people: Office) -> None:
    """An agent that floods people learns from its client that it has to wait, not that it may try
    another way.
    """
    async with people.door.ledger() as ledger:
        for number in range(10):
            assert isinstance(await ledger.propose(intent(f"return-{number}")), AwaitingApproval)
        with pytest.raises(CallerMistake) as refused:
            await ledger.propose(intent("return-10"))
    assert refused.value.code == "too_many_waiting"


def intent(event: str) -> Intent:
    """A refund of 120 EUR, as an agent asks for it."""
    body = refund_body(event)
    return Intent(**body | {"money": Money(**body["money"])})


# --- editing -------------------------------------------------------------------------------------


async def test_what_was_approved_cannot_be_edited(people: Office) -> None:
    """Another amount, target or reason under the approved key is refused; the provider is asked for
    what the person has seen.
    """
    sheet = await asked_for(people, "return-1")
    edits = [
        refund_body("return-1", minor=15_000),
        refund_body("return-1", target="order:B-1"),
        refund_body("return-1", params={"charge": "ch_2", "reason": "requested_by_customer"}),
        refund_body("return-1", environment="sandbox"),
    ]
    for edit in edits:
        assert code_of(await people.door.propose(edit)) == "conflicted"
    await people.say(sheet)
    await people.until(sheet.key, "completed")
    for edit in edits:
        assert code_of(await people.door.propose(edit)) == "conflicted"
    assert people.provider.calls == {sheet.key: 1}


# --- in somebody's name --------------------------------------------------------------------------


async def test_nobody_approves_what_is_asked_for_them(people: Office) -> None:
    """A person for whom the agent acts, and one who asks under their own name, are not the second
    pair of eyes; what the agent itself says about it in the body is not taken.
    """
    acting = create_key(
        people.door.settings.api_keys_file,
        tenant="acme",
        principal="agent:ada",
        role=Role.AGENT,
        behalf=("ada",),
    )
    own = create_key(
        people.door.settings.api_keys_file, tenant="acme", principal="ben", role=Role.OPERATOR
    )
    for key, who, event in ((acting, "ada", "return-1"), (own, "ben", "return-2")):
        headers = {"Authorization": f"Bearer {key}"}
        answer = await known(people, refund_body(event), headers)
        sheet = await people.sheet(answer.json()["key"], "cyd")
        assert code_of(await people.say(sheet, who)) == "requester_decides"
        await assert_still_waits(people, sheet.key)
        claimed = refund_body(f"{event}b", behalf=[])
        refused = await people.door.http.post("/v1/actions", json=claimed, headers=headers)
        assert code_of(refused) == "invalid_body"


# --- other tenants -------------------------------------------------------------------------------


async def test_another_tenants_action_is_one_that_does_not_exist(people: Office) -> None:
    """Looked at, asked about, cancelled or decided with another tenant's key, it is answered as one
    that nobody ever proposed.
    """
    sheet = await asked_for(people, "return-1")
    bearer, http = people.door.bearer("globex"), people.door.http
    nothing = sheet.key.replace("return-1", "return-9")

    async def answers(key: str) -> list[tuple[int, str]]:
        path = f"/v1/actions/{key}"
        told = [
            await http.get(path, headers=bearer),
            await http.get(f"{path}/timeline", headers=bearer),
            await http.post(f"{path}/cancel", headers=bearer),
            await http.post(f"{path}/ask", headers=bearer),
        ]
        return [(one.status_code, one.text.replace(key, "KEY")) for one in told]

    assert await answers(sheet.key) == await answers(nothing)
    forged = sign(statement(sheet, "ada", tenant="globex"), asking.KEYS["ada"])
    assert code_of(await hand_in(people, sheet.key, forged)) == "other_tenant"
    await assert_still_waits(people, sheet.key)


# --- the pages -----------------------------------------------------------------------------------


async def test_the_pages_take_no_api_key(people: Office) -> None:
    """With the pages' address and its own key an agent sees no action and decides none, whichever
    way it asks.
    """
    sheet = await asked_for(people, "return-1")
    bearer = people.door.bearer(role=Role.OPERATOR)
    origin = {"Origin": "http://door", "Sec-Fetch-Site": "same-origin"}
    for path in ("", "/waiting", f"/actions/{sheet.key}", f"/approve/{sheet.key}"):
        seen = await people.door.http.get(f"/console{path}", headers=bearer)
        assert "120.00" not in seen.text
        assert sheet.request_hash not in seen.text
    for path in (f"/approve/{sheet.key}", f"/approve/{sheet.key}/statement", "/login"):
        for headers in (bearer, bearer | origin):
            form = {"decision": "approve", "once": "", "form": "", "credential": "{}"}
            told = await people.door.http.post(f"/console{path}", data=form, headers=headers)
            assert told.status_code >= 300, path
            assert "set-cookie" not in told.headers
    await assert_still_waits(people, sheet.key)
