"""People decide through the door: from the agent's question to the one effect, on real servers."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from actionledger import ApprovalExpired, AwaitingApproval, Succeeded
from gateway.http import rate_limit
from gateway.http.doors import doors_in
from gateway.http.limits import JUDGEMENTS_A_MINUTE_MAX, REPEATS_A_MINUTE_MAX
from gateway.http.serve import gateway
from gateway.http.sheets import DecisionSheet
from gateway.keys import Role, create_key
from ledger.core.statement import Say
from ledger.signing.keys import sign
from tests import asking
from tests.integration.asking_people import (
    POLL_SECONDS,
    Office,
    office,
    refund_body,
    republish,
    statement,
)
from tests.integration.door import charge_body, code_of
from tests.integration.installation import PARTITIONS
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

POLICY = asking.asked("refund") + asking.EVERYTHING_GOES_AHEAD


@pytest.fixture
async def people(servers: Addresses, tmp_path: Path) -> AsyncIterator[Office]:
    """An installation in which one person has to agree to every refund."""
    async with office(servers, tmp_path, POLICY) as made:
        yield made


def ticket_body(event: str) -> dict[str, Any]:
    """The body that proposes to open a ticket."""
    return {
        "operation": "ticket",
        "version": 1,
        "business_event": event,
        "params": {"title": "A ticket"},
        "environment": "production",
    }


async def asked_for(people: Office, event: str, *, minor: int = 12_000) -> str:
    """The agent asks for a refund of 120 EUR, and is told that people are asked; its key."""
    answer = await people.door.propose(refund_body(event, minor=minor))
    assert answer.status_code == 201, answer.text
    assert answer.json()["status"] == "awaiting_approval"
    return str(answer.json()["key"])


async def test_a_refund_waits_for_a_person_and_happens_once(people: Office) -> None:
    """Asked, shown, signed, done: once at the provider, and the agent is told so."""
    key = await asked_for(people, "return-1")
    answer = await people.door.propose(refund_body("return-1"))
    asked = answer.json()["approval"]
    assert (asked["state"], asked["quorum"], asked["granted"]) == ("waiting", 1, 0)
    assert people.provider.calls[key] == 0
    sheet = await people.sheet(key)
    said = await people.say(sheet)
    assert said.status_code == 200, said.text
    done = await people.until(key, "completed")
    assert done["reference"].startswith("ef_")
    assert people.provider.calls[key] == 1


async def test_what_a_person_denies_never_begins(people: Office) -> None:
    """The agent is told who said no, and why."""
    key = await asked_for(people, "return-2")
    sheet = await people.sheet(key)
    said = await people.say(sheet, "ben", Say.DENY, comment="Paid back last week.")
    assert said.status_code == 200, said.text
    denied = await people.until(key, "denied")
    assert denied["denied"] == {"by": "person", "person": "ben", "comment": "Paid back last week."}
    assert people.provider.calls[key] == 0


async def test_a_double_click_counts_once(people: Office) -> None:
    """The very same decision, and another yes of the same person, change nothing."""
    key = await asked_for(people, "return-3")
    sheet = await people.sheet(key)
    said = statement(sheet, "ada")
    first, second = await asyncio.gather(people.hand_in(said), people.hand_in(said))
    assert {first.status_code, second.status_code} == {200}
    assert sorted(one.json()["replayed"] for one in (first, second)) == [False, True]
    await people.until(key, "completed")
    late = await people.say(sheet, comment="Once more.")
    assert (late.status_code, late.json()["replayed"]) == (200, True)
    assert people.provider.calls[key] == 1
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (signed := (await people.sheet(key)).signed):
            await asyncio.sleep(POLL_SECONDS)
    assert [(one.decision, one.person) for one in signed] == [("approve", "ada")]


async def test_an_expired_request_is_asked_again(servers: Addresses, tmp_path: Path) -> None:
    """A lapse is no denial: one call asks anew, under another nonce; the old one stays dead."""
    policy = asking.asked("refund", valid_ms=2_000) + asking.EVERYTHING_GOES_AHEAD
    async with office(servers, tmp_path, policy) as people:
        key = await asked_for(people, "return-4")
        old = await people.sheet(key)
        await expired(people, key)
        too_late = await people.say(old)
        assert code_of(too_late) == "approval_expired"
        agent = people.door.ledger()
        assert isinstance(await agent.get(key), ApprovalExpired)
        async with asyncio.timeout(PATIENCE_SECONDS):
            # On a busy machine it may have lapsed once more before the answer is there.
            while not isinstance(await agent.ask_again(key), AwaitingApproval):
                await asyncio.sleep(POLL_SECONDS)
        dead = await people.say(old)
        assert code_of(dead) == "nonce_dead"
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await asked_by_ben_and_told_in_time(people, key):
                await asyncio.sleep(POLL_SECONDS)
        assert isinstance(await agent.wait(key), Succeeded)
        await agent.close()
        assert people.provider.calls[key] == 1


async def asked_by_ben_and_told_in_time(people: Office, key: str) -> bool:
    """Once nobody decided in time a person asks anew; whether the answer to that came in time."""
    await expired(people, key)
    path = f"/v1/actions/{key}/ask"
    asked = await people.door.http.post(path, headers=people.login("POST", path, "ben"))
    assert asked.status_code == 200, asked.text
    new = await people.sheet(key, round_min=asked.json()["approval"]["round"])
    said = await people.say(new)
    assert said.status_code == 200 or code_of(said) in {"approval_expired", "nonce_dead"}
    return said.status_code == 200


async def expired(people: Office, key: str) -> None:
    """Wait until nobody decided in time."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            action = (await people.door.get(f"/v1/actions/{key}")).json()
            if action["approval"]["state"] == "expired":
                return
            await asyncio.sleep(POLL_SECONDS)


async def test_the_same_post_after_a_restart_counts_once(
    servers: Addresses, tmp_path: Path
) -> None:
    """A captured decision that is sent again to a new door and a new owner changes nothing."""
    async with office(servers, tmp_path, POLICY, has_executor=False) as people:
        key = await asked_for(people, "return-5")
        said = statement(await people.sheet(key), "ada")
        assert (await people.hand_in(said)).status_code == 200
        await people.door.one.crash()
        await people.door.one.processor()
        async with gateway(people.door.settings) as (app, _):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://door") as http:
                people.door.http = http
                again = await people.hand_in(said)
                assert (again.status_code, again.json()["replayed"]) == (200, True)
                forged = await people.hand_in(said.model_copy(update={"key": f"{key}0"}), key=key)
                assert code_of(forged) == "other_action"
        await people.door.one.executor(people.provider)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not people.provider.calls[key]:
                await asyncio.sleep(POLL_SECONDS)
        assert people.provider.calls[key] == 1


REFUSALS = asking.asked("refund") + asking.asked("ticket", more='groups = ["operations"]')


async def test_every_refusal_has_its_name(servers: Addresses, tmp_path: Path) -> None:
    """A signature moved to anything else, by anybody else, at any other time counts for nothing,
    and says why.
    """
    everybody = asking.people_text("ada", "ben") + asking.people_text("cyd", tenants=("globex",))
    policy = REFUSALS + asking.EVERYTHING_GOES_AHEAD
    async with office(servers, tmp_path, policy, people=everybody) as people:
        key = await asked_for(people, "return-6")
        other = await asked_for(people, "return-7", minor=13_000)
        sheet, elsewhere = await people.sheet(key), await people.sheet(other)
        assert elsewhere.asked is not None
        for expected, changes in (
            ("other_tenant", {"tenant": "globex"}),
            ("other_environment", {"environment": "staging"}),
            ("other_request", {"request_hash": elsewhere.request_hash}),
            ("nonce_dead", {"nonce": elsewhere.asked.nonce}),
            ("other_policy", {"policy_hash": f"sha256:{'0' * 64}"}),
            ("other_policy", {"row": "everything"}),
            ("other_preview", {"preview_hash": elsewhere.asked.preview_hash}),
            ("other_preview", {"preview_hash": None}),
            ("expiry_beyond_request", {"expires_at": elsewhere.asked.expires_at + 60_000}),
            ("issued_in_future", {"issued_at": sheet.now + 60_000}),
            ("approval_expired", {"expires_at": sheet.now - 60_000}),
        ):
            assert code_of(await people.say(sheet, **changes)) == expected, changes
        assert code_of(await people.say(sheet, "cyd")) == "not_for_tenant"
        assert code_of(await people.say(sheet, say=Say.WITHDRAW)) == "nothing_to_withdraw"
        nobody = statement(sheet, "ada").model_copy(update={"key": "refund:v1:acme:nobody"})
        assert code_of(await people.hand_in(nobody)) == "unknown_action"
        ticket = await people.door.propose(ticket_body("ticket-1"))
        assert code_of(await people.say(await people.sheet(ticket.json()["key"]))) == "not_in_group"
        free = await people.door.propose(charge_body("order-1"))
        unasked = statement(sheet, "ada").model_copy(
            update={"key": free.json()["key"], "request_hash": free.json()["request_hash"]}
        )
        assert code_of(await people.hand_in(unasked)) == "nothing_asked"
        assert people.provider.calls[key] == 0
        await spent_and_over(people, key, sheet)


async def spent_and_over(people: Office, key: str, sheet: DecisionSheet) -> None:
    """What is begun, and what is over, is nobody's to decide any more."""
    people.provider.may_answer.clear()
    assert (await people.say(sheet)).status_code == 200
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not people.provider.calls[key]:
            await asyncio.sleep(POLL_SECONDS)
    assert code_of(await people.say(sheet, "ben")) == "approval_spent"
    assert code_of(await people.say(sheet, "ben", Say.DENY)) == "approval_spent"
    assert code_of(await people.say(sheet, say=Say.WITHDRAW)) == "approval_spent"
    people.provider.may_answer.set()
    await people.until(key, "completed")
    assert code_of(await people.say(sheet, "ben", Say.DENY)) == "already_final"


async def test_whoever_asks_does_not_decide(people: Office) -> None:
    """Neither the one in whose name a key was made, nor the one who asks."""
    key = create_key(
        people.door.settings.api_keys_file,
        tenant="acme",
        principal="agent:for-ada",
        role=Role.AGENT,
        behalf=("ada",),
    )
    headers = {"Authorization": f"Bearer {key}"}
    async with asyncio.timeout(PATIENCE_SECONDS):
        # The door looks at its keys once a second.
        while True:
            asked = await people.door.http.post(
                "/v1/actions", json=refund_body("return-8"), headers=headers
            )
            if asked.status_code == 201:
                break
            await asyncio.sleep(POLL_SECONDS)
    sheet = await people.sheet(asked.json()["key"])
    assert sheet.behalf == ("ada",)
    assert code_of(await people.say(sheet)) == "requester_decides"
    assert (await people.say(sheet, "ben")).status_code == 200


async def test_junk_is_refused_at_the_door_and_nothing_is_written(people: Office) -> None:
    """What no registered person has signed for this ledger and action never reaches the log."""
    key = await asked_for(people, "return-9")
    sheet = await people.sheet(key)
    written = await approvals_written(people)
    said = statement(sheet, "ada")
    assert code_of(await people.hand_in(said, signed_by="ben")) == "other_person"
    stranger = sign(said, asking.signing_key(99)).model_dump(mode="json")
    post = people.door.http.post
    answer = await post("/v1/decisions", json={"key": key, "signed": stranger})
    assert code_of(answer) == "unknown_signer"
    answer = await people.hand_in(said.model_copy(update={"ledger": "another"}))
    assert code_of(answer) == "other_ledger"
    answer = await people.hand_in(said, key="refund:v1:acme:return-other")
    assert code_of(answer) == "other_action"
    for body, expected in (
        ({"key": key}, "invalid_body"),
        ({"key": key, "signed": {"kind": "jws", "jws": "a.b.c"}}, "signature_invalid"),
        ({"key": key, "signed": {"kind": "word", "word": "yes"}}, "invalid_body"),
        ({"key": "refund", "signed": stranger}, "malformed_key"),
    ):
        assert code_of(await post("/v1/decisions", json=body)) == expected, body
    await revoke(people, "ada")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (answer := await people.hand_in(said)).status_code == 200:
            await asyncio.sleep(POLL_SECONDS)
    assert code_of(answer) == "signer_revoked"
    assert await approvals_written(people) == written


@pytest.fixture
def long_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute that is not over before a busy machine has done what is counted in it."""
    monkeypatch.setattr(rate_limit, "WINDOW_S", 60 * rate_limit.WINDOW_S)


@pytest.mark.usefixtures("long_minute")
async def test_a_captured_decision_takes_nothing_of_its_persons_pace(people: Office) -> None:
    """Sent over and over it is refused soon, fills no log, and its person goes on deciding."""
    first, second = await asked_for(people, "return-12"), await asked_for(people, "return-13")
    captured = statement(await people.sheet(first), "ada")
    answers = [await people.hand_in(captured) for _ in range(JUDGEMENTS_A_MINUTE_MAX + 5)]
    assert {answer.status_code for answer in answers} == {200, 429}
    assert code_of(answers[-1]) == "too_many_decisions"
    assert sum(answer.status_code == 200 for answer in answers) == REPEATS_A_MINUTE_MAX
    assert (await people.say(await people.sheet(second))).status_code == 200


@pytest.mark.usefixtures("long_minute")
async def test_nobody_signs_faster_than_anybody_can_look(people: Office) -> None:
    """A key in wrong hands decides sixty times a minute at most."""
    sheet = await people.sheet(await asked_for(people, "return-14"))
    withdraw = [
        await people.say(sheet, say=Say.WITHDRAW, issued_at=sheet.now + number)
        for number in range(JUDGEMENTS_A_MINUTE_MAX + 1)
    ]
    codes = [code_of(answer) for answer in withdraw]
    assert codes == ["nothing_to_withdraw"] * JUDGEMENTS_A_MINUTE_MAX + ["too_many_decisions"]
    assert (await people.say(sheet, "ben")).status_code == 200


async def revoke(people: Office, name: str) -> None:
    """Take the right to decide from somebody, as an operator does, until the door knows."""
    text = asking.people_text().replace(f'name = "{name}"', f'name = "{name}"\nrevoked = true')
    was = asking.people(asking.people_text()).content_hash
    await republish(people.door, "people", f'replaces = "{was}"\n{text}')
    doors = doors_in(people.door.app)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while doors.published().people.content_hash == was:
            await asyncio.sleep(POLL_SECONDS)


async def approvals_written(people: Office) -> int:
    """Records of decisions in the log."""
    parts = [await people.door.one.records("approvals", part) for part in range(PARTITIONS)]
    return sum(map(len, parts))


async def test_people_see_what_is_theirs_only(people: Office) -> None:
    """Lists and sheets are for persons, each for the tenants that they decide for."""
    own = await asked_for(people, "return-10")
    foreign = await people.door.propose(refund_body("return-11"), tenant="globex")
    await people.sheet(own)
    await people.sheet(foreign.json()["key"])
    listed = (await people.read("/v1/approvals")).json()["waiting"]
    assert {one["key"] for one in listed} == {own, foreign.json()["key"]}
    assert listed[0]["amount"] == "120.00 EUR"
    assert listed[0]["policy"]["reason"] == "Somebody has to look at it."
    for headers in (
        {},
        people.door.bearer(),
        people.login("GET", "/v1/approvals/other", "ada"),
        people.login("POST", "/v1/approvals", "ada"),
        {"Authorization": "Login nothing"},
    ):
        answer = await people.door.http.get("/v1/approvals", headers=headers)
        assert answer.status_code == 401, headers
        assert code_of(answer) in {"login_invalid", "login_elsewhere"}
        assert f'ledger="{people.door.ledger_id}"' in answer.headers["www-authenticate"]
    text = asking.people_text("ada") + asking.people_text("ben", tenants=("globex",))
    was = asking.people(asking.people_text()).content_hash
    await republish(people.door, "people", f'replaces = "{was}"\n{text}')
    doors = doors_in(people.door.app)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while doors.published().people.content_hash == was:
            await asyncio.sleep(POLL_SECONDS)
    listed = (await people.read("/v1/approvals", "ben")).json()["waiting"]
    assert [one["key"] for one in listed] == [foreign.json()["key"]]
    assert code_of(await people.read(f"/v1/approvals/{own}", "ben")) == "unknown_action"
    path = f"/v1/actions/{own}/ask"
    answer = await people.door.http.post(path, headers=people.login("POST", path, "ben"))
    assert code_of(answer) == "unknown_action"
    assert code_of(await people.read(f"/v1/approvals/{own}", "cyd")) == "login_unknown_signer"


async def test_further_groups_may_decide_when_nobody_did(
    servers: Addresses, tmp_path: Path
) -> None:
    """The first group is asked alone for a while, then the second may decide too."""
    row = 'groups = ["finance"]\nescalate_to = ["operations"]\nescalate_after_ms = '
    policy = asking.asked("refund", more=f"{row}300_000") + asking.asked(
        "ticket", more=f"{row}1_000"
    )
    async with office(servers, tmp_path, policy) as people:
        sheet = await people.sheet(await asked_for(people, "return-15"))
        assert groups_of(sheet) == ("finance",)
        assert code_of(await people.say(sheet, "cyd")) == "not_in_group"
        key = (await people.door.propose(ticket_body("ticket-15"))).json()["key"]
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (groups := groups_of(now := await people.sheet(key))) == ("finance",):
                await asyncio.sleep(POLL_SECONDS)
        assert groups == ("finance", "operations")
        assert (await people.say(now, "cyd")).status_code == 200
        await people.until(key, "completed")
        assert people.provider.calls[key] == 1


def groups_of(sheet: DecisionSheet) -> tuple[str, ...]:
    """Who may decide about what a sheet shows."""
    assert sheet.asked is not None
    return sheet.asked.groups


async def test_another_table_asks_anew_and_the_old_yes_is_dead(
    servers: Addresses, tmp_path: Path
) -> None:
    """What people are asked under another row they are asked again, under another nonce."""
    policy = asking.asked("refund", quorum=2) + asking.EVERYTHING_GOES_AHEAD
    async with office(servers, tmp_path, policy) as people:
        key = await asked_for(people, "return-16")
        old = await people.sheet(key)
        assert (await people.say(old)).status_code == 200
        stricter = asking.asked("refund", quorum=2, more='groups = ["operations"]')
        await republish(people.door, "policy", stricter + asking.EVERYTHING_GOES_AHEAD)
        new = await people.sheet(key, round_min=2)
        assert new.asked is not None
        assert (new.asked.groups, new.asked.agreed) == (("operations",), ())
        assert [one.decision for one in new.signed] == ["approve"]
        assert code_of(await people.say(old, "ben")) == "nonce_dead"
        assert (await people.say(new, "ben")).status_code == 200
        assert people.provider.calls[key] == 0
        assert (await people.say(new, "cyd")).status_code == 200
        await people.until(key, "completed")
        assert people.provider.calls[key] == 1


async def test_a_yes_of_somebody_who_was_revoked_starts_nothing(
    servers: Addresses, tmp_path: Path
) -> None:
    """Revoked between the yes and the start: nothing is sent, and somebody else is asked."""
    async with office(servers, tmp_path, POLICY, has_executor=False) as people:
        key = await asked_for(people, "return-17")
        assert (await people.say(await people.sheet(key))).status_code == 200
        await people.until(key, "ready")
        await revoke(people, "ada")
        await people.door.one.executor(people.provider)
        new = await people.sheet(key, "ben", round_min=2)
        assert people.provider.calls[key] == 0
        assert (await people.say(new, "ben")).status_code == 200
        await people.until(key, "completed")
        assert people.provider.calls[key] == 1
