"""Cases that people settle: from what cannot be found out to what somebody signed, end to end."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from actionledger import NeedsReview, Succeeded
from gateway.http.case_sheets import CaseSheet
from gateway.signing_case import resolution_of
from ledger.core.ids import stream_key_of
from ledger.core.inputs import Evidence, EvidenceKind, Meaning
from ledger.core.money import Money
from ledger.core.statement import Move, Resolution, statement_bytes
from ledger.log.envelope import outgoing
from ledger.log.topics import Topic, partition_of
from ledger.signing import jws
from reconciler.providers import port
from tests import asking
from tests.integration.asking_people import POLL_SECONDS, Office, office
from tests.integration.counting import CountingProvider
from tests.integration.door import charge_body, code_of
from tests.integration.installation import PARTITIONS
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

POLICY = '[review]\ngroups = ["operations"]\n' + asking.EVERYTHING_GOES_AHEAD


class LosingProvider(CountingProvider):
    """Has every effect, and answers as a test says: an e-mail's answer is always lost."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()

    async def perform(
        self,
        request: port.ProviderRequest,
        **how: Any,  # noqa: ANN401 - as it is handed on
    ) -> port.Outcome:
        """Have the effect, and lose the answer or refuse."""
        done = await super().perform(request, **how)
        if request.action_key in self.refused:
            return port.Refused("card_locked", port.Retry.LATER, retry_after_ms=600_000)
        return port.Unresolved("timeout") if request.operation == "email" else done


@pytest.fixture
async def desk(servers: Addresses, tmp_path: Path) -> AsyncIterator[Office]:
    """An installation in which nobody is asked, and operations settle what needs a person."""
    async with office(servers, tmp_path, POLICY, provider=LosingProvider()) as made:
        yield made


def email_body(event: str) -> dict[str, Any]:
    """The body that proposes to send an e-mail, which can be tried once only."""
    return {
        "operation": "email",
        "version": 1,
        "business_event": event,
        "params": {"to": ["customer@example.com"], "subject": "Hello", "body": "Hello."},
        "environment": "production",
    }


async def in_review(desk: Office, body: dict[str, Any]) -> str:
    """Propose something that comes to a person; its key."""
    answer = await desk.door.propose(body)
    assert answer.status_code in {200, 201, 202}, answer.text
    key = str(answer.json()["key"])
    await desk.until(key, "needs_review")
    return key


async def case_of(desk: Office, key: str, who: str = "ben") -> CaseSheet:
    """What a person sees of a case, as soon as there is one."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            answer = await desk.read(f"/v1/reviews/{key}", who)
            if answer.status_code == 200:
                found = CaseSheet.model_validate_json(answer.content)
                if found.case is not None:
                    return found
            await asyncio.sleep(POLL_SECONDS)


def said(
    sheet: CaseSheet, move: Move, *, reference: str | None = None, **changes: object
) -> Resolution:
    """What a person signs of a case, unless a test changes a field."""
    made = resolution_of(sheet, move, reference=reference, comment="I looked at the mailbox.")
    return Resolution.model_validate(made.model_dump() | changes)


async def hand_in(
    desk: Office, resolution: Resolution, *, key: str | None = None, typ: str = jws.RESOLUTION
) -> httpx.Response:
    """Sign a resolution as its approver, and hand it in."""
    signing = asking.KEYS[resolution.approver]
    signed = {"kind": "jws", "jws": signing.token(statement_bytes(resolution), typ)}
    body = {"key": key or resolution.key, "signed": signed}
    return await desk.door.http.post("/v1/decisions", json=body)


async def evidence(desk: Office, key: str, source: str, reference: str, minor: int) -> None:
    """The provider says that there is an effect."""
    given = Evidence(
        key=key,
        kind=EvidenceKind.WEBHOOK,
        source_id=source,
        provider="simulated",
        account="main",
        meaning=Meaning.EFFECT,
        reference=reference,
        money=Money(minor=minor, currency="EUR"),
        raw_sha256="sha256:" + "0" * 64,
    )
    stream = stream_key_of(key)
    record = outgoing(given, stream=stream, subject=key, event_id=source, source="/test")
    await desk.door.one.put(Topic.EVIDENCE, partition_of(stream, PARTITIONS), record)


async def test_a_person_says_that_the_lost_e_mail_was_sent(desk: Office) -> None:
    """A lost answer that nobody can ask about comes to a person, and their word completes it."""
    key = await in_review(desk, email_body("welcome-1"))
    entry = await listed_until(desk, key, is_there=True)
    assert entry is not None
    assert (entry["kind"], entry["reason"]) == ("review", "no_way_to_find_out")
    sheet = await case_of(desk, key)
    assert [one.status for one in sheet.attempts] == ["unresolved"]
    assert [(one.kind, one.meaning, one.code) for one in sheet.evidence] == [
        ("response", "inconclusive", "timeout")
    ]
    assert sheet.last_byte_at is not None
    assert sheet.groups == ("operations",)
    assert "effect_exists" in [one.move for one in sheet.moves]
    assert "try_again" not in [one.move for one in sheet.moves]
    agent = desk.door.ledger()
    told = await agent.get(key)
    assert isinstance(told, NeedsReview)
    assert "a person settles which" in told.text_for_model
    answer = await hand_in(desk, said(sheet, Move.EFFECT_EXISTS, reference="250-OK-8812"))
    assert answer.status_code == 200, answer.text
    done = await desk.until(key, "completed")
    assert (done["reference"], done["proof"]) == ("250-OK-8812", "person")
    assert isinstance(await agent.wait(key), Succeeded)
    await agent.close()
    assert desk.provider.calls[key] == 1
    assert await listed_until(desk, key, is_there=False) is None


async def listed_until(desk: Office, key: str, *, is_there: bool) -> dict[str, Any] | None:
    """The entry of a case in the list, once it is there or is not."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            listed = (await desk.read("/v1/reviews", "ben")).json()["cases"]
            found = [one for one in listed if one["key"] == key]
            if bool(found) is is_there:
                return dict(found[0]) if found else None
            await asyncio.sleep(POLL_SECONDS)


async def test_every_refusal_of_a_resolution_has_its_name(desk: Office) -> None:
    """What is replayed counts once; what is moved to another case, ledger, kind or person, or is
    not safe, counts for nothing and says why.
    """
    key = await in_review(desk, email_body("welcome-2"))
    other = await in_review(desk, email_body("welcome-3"))
    sheet, elsewhere = await case_of(desk, key), await case_of(desk, other)
    good = said(sheet, Move.EFFECT_EXISTS, reference="250-OK-1")
    for expected, changes in (
        ("other_ledger", {"ledger": "another"}),
        ("other_tenant", {"tenant": "globex"}),
        ("other_environment", {"environment": "staging"}),
        ("other_request", {"request_hash": f"sha256:{'0' * 64}"}),
        ("case_moved", {"case": good.case - 1}),
        ("case_moved", {"moved": good.moved - 1}),
        ("reference_unfit", {"reference": None}),
        ("move_not_safe", {"move": Move.TRY_AGAIN, "reference": None}),
        ("move_not_safe", {"move": Move.ACKNOWLEDGE, "reference": None}),
        ("not_in_group", {"approver": "ada"}),
        ("expiry_beyond_request", {"expires_at": good.expires_at + 1}),
        ("issued_in_future", {"issued_at": sheet.now + 60_000, "expires_at": sheet.now + 90_000}),
        ("approval_expired", {"issued_at": 1, "expires_at": sheet.now - 60_000}),
    ):
        changed = Resolution.model_validate(good.model_dump() | changes)
        assert code_of(await hand_in(desk, changed)) == expected, changes
    moved = said(elsewhere, Move.EFFECT_EXISTS, reference="250-OK-2")
    assert code_of(await hand_in(desk, moved, key=key)) == "other_action"
    assert code_of(await hand_in(desk, good, typ=jws.APPROVAL)) == "signature_invalid"
    first, again = await hand_in(desk, good), await hand_in(desk, good)
    assert (first.status_code, again.status_code) == (200, 200), first.text + again.text
    assert (first.json()["replayed"], again.json()["replayed"]) == (False, True)
    late = Resolution.model_validate(good.model_dump() | {"approver": "cyd"})
    assert code_of(await hand_in(desk, late)) == "no_case"
    assert desk.provider.calls[key] == 1


async def test_conflicting_evidence_about_a_charge_is_settled_by_a_person(desk: Office) -> None:
    """The provider refused, and says later that there is an effect: a person has the last word."""
    key = "charge:v1:acme:order-1"
    assert isinstance(desk.provider, LosingProvider)
    desk.provider.refused.add(key)
    answer = await desk.door.propose(charge_body("order-1"))
    assert answer.json()["key"] == key
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not desk.provider.calls[key]:
            await asyncio.sleep(POLL_SECONDS)
    await desk.until(key, "ready")
    await evidence(desk, key, "evt_1", "ch_9", 4_990)
    await desk.until(key, "needs_review")
    sheet = await case_of(desk, key)
    assert [(one.kind, one.meaning, one.reference) for one in sheet.evidence] == [
        ("response", "no_effect", None),
        ("webhook", "effect", "ch_9"),
    ]
    assert sheet.evidence[1].amount == "49.90 EUR"
    assert sheet.evidence[1].raw_sha256
    assert sheet.key_window_closes_at is not None
    assert [one.reason for one in sheet.reasons] == ["evidence_conflicts"]
    answer = await hand_in(desk, said(sheet, Move.NO_EFFECT))
    assert answer.status_code == 200, answer.text
    done = await desk.until(key, "failed")
    assert done["code"] == "resolved_no_effect"
    assert desk.provider.calls[key] == 1


async def test_an_alarm_about_a_final_action_is_acknowledged(desk: Office) -> None:
    """A second effect of what is completed opens a case; taking note of it changes no status."""
    answer = await desk.door.propose(charge_body("order-2"))
    key = str(answer.json()["key"])
    await desk.until(key, "completed")
    await evidence(desk, key, "evt_2", "ch_10", 4_990)
    entry = await listed_until(desk, key, is_there=True)
    assert entry is not None
    assert (entry["kind"], entry["reason"], entry["status"]) == (
        "alarm",
        "second_effect",
        "completed",
    )
    sheet = await case_of(desk, key)
    assert [one.move for one in sheet.moves] == ["acknowledge"]
    answer = await hand_in(desk, said(sheet, Move.ACKNOWLEDGE))
    assert (answer.status_code, answer.json()["status"]) == (200, "completed"), answer.text
    assert await listed_until(desk, key, is_there=False) is None
    settled = CaseSheet.model_validate_json((await desk.read(f"/v1/reviews/{key}", "ben")).content)
    assert settled.case is None
    assert [(one.move, one.person) for one in settled.resolved] == [("acknowledge", "ben")]


async def test_people_see_the_cases_of_their_tenants_only(
    servers: Addresses, tmp_path: Path
) -> None:
    """Somebody else's case is answered as one that does not exist, and is in no list."""
    everybody = asking.people_text("ben") + asking.people_text("cyd", tenants=("globex",))
    provider = LosingProvider()
    async with office(servers, tmp_path, POLICY, people=everybody, provider=provider) as desk:
        key = await in_review(desk, email_body("welcome-4"))
        await case_of(desk, key)
        assert (await desk.read("/v1/reviews", "cyd")).json()["cases"] == []
        assert code_of(await desk.read(f"/v1/reviews/{key}", "cyd")) == "unknown_action"
        assert code_of(await desk.read("/v1/reviews/nothing", "cyd")) == "malformed_key"
