"""Changing and undoing an action on real servers, through the door: what is sent, and by whose
word.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from ledger.core.ids import ActionKey
from ledger.core.statement import Move
from reconciler.providers import port
from tests import asking
from tests.integration.asking_people import Office, office, refund_body
from tests.integration.counting import CountingProvider
from tests.integration.door import charge_body, code_of
from tests.integration.test_reviews import case_of, hand_in, said
from tests.servers import Addresses

pytestmark = pytest.mark.servers


class Undoing(CountingProvider):
    """A provider that remembers what it was told to undo."""

    def __init__(self) -> None:
        super().__init__()
        self.undone: dict[str, str | None] = {}

    async def perform(
        self,
        request: port.ProviderRequest,
        *,
        provider_key: str,
        deadlines: port.Deadlines,
        before_first_byte: Callable[[], None],
    ) -> port.Outcome:
        """Have the effect."""
        self.undone[request.action_key] = request.original_reference
        return await super().perform(
            request,
            provider_key=provider_key,
            deadlines=deadlines,
            before_first_byte=before_first_byte,
        )


@pytest.fixture
def provider() -> Undoing:
    """Who carries it out."""
    return Undoing()


@pytest.fixture
async def desk(servers: Addresses, tmp_path: Path, provider: Undoing) -> AsyncIterator[Office]:
    """An installation in which nobody is asked about a new action."""
    async with office(servers, tmp_path, asking.EVERYTHING_GOES_AHEAD, provider=provider) as made:
        yield made


def body_of_undo(event: str, *, minor: int, item: str | None = None) -> dict[str, object]:
    """The body that proposes to give some of a charge back; the ledger knows which."""
    whole = refund_body(event, minor=minor, compensates=f"charge:v1:acme:{event}")
    return whole | {"params": {}} | ({} if item is None else {"item": item})


async def charged(desk: Office, event: str) -> str:
    """A charge that has completed."""
    answer = await desk.door.propose(charge_body(event), query="?wait_ms=30000")
    assert answer.json()["status"] == "completed", answer.text
    return str(answer.json()["key"])


async def in_flight(desk: Office, event: str) -> str:
    """A charge that may have had its effect: its provider does not answer."""
    desk.provider.may_answer.clear()
    answer = await desk.door.propose(charge_body(event))
    key = str(answer.json()["key"])
    await desk.until(key, "attempting")
    return key


async def test_a_refund_names_the_charge_and_is_never_more_than_it(
    desk: Office, provider: Undoing
) -> None:
    """The provider is told its own reference of the charge; one cent too much is refused."""
    charge = await charged(desk, "undo-1")
    part = await desk.door.propose(body_of_undo("undo-1", minor=2_000), query="?wait_ms=30000")
    assert part.json()["status"] == "completed", part.text
    assert provider.undone[part.json()["key"]] == f"ef_{charge}"
    more = await desk.door.propose(body_of_undo("undo-1", minor=2_991, item="more"))
    assert (more.status_code, code_of(more)) == (422, "compensation_exceeds")
    assert "29.90 EUR of 49.90 EUR is left" in more.text
    none = await desk.door.propose(body_of_undo("undo-1", minor=0, item="none"))
    assert (none.status_code, code_of(none)) == (400, "invalid_request")
    ticket = {**charge_body("undo-1"), "item": "x", "compensates": charge}
    assert code_of(await desk.door.propose(ticket)) == "not_a_compensation"


async def test_a_refund_that_is_registered_first_waits_for_its_charge(
    desk: Office, provider: Undoing
) -> None:
    """Blocked with a pointer; it goes on by itself once the charge is there."""
    charge = await in_flight(desk, "undo-2")
    waits = await desk.door.propose(body_of_undo("undo-2", minor=4_990))
    key = str(waits.json()["key"])
    blocked = await desk.until(key, "blocked")
    assert (blocked["blocked"]["reason"], blocked["blocked"]["by"]) == ("original_open", charge)
    assert provider.calls[key] == 0
    desk.provider.may_answer.set()
    await desk.until(key, "completed")
    assert provider.undone[key] == f"ef_{charge}"


async def test_whoever_waits_for_a_refund_is_answered_once_its_charge_has_come_on(
    desk: Office, provider: Undoing
) -> None:
    """The charge takes seconds, and so does what undoes it: the request waits for both."""
    charge = await in_flight(desk, "undo-3")
    asking = asyncio.create_task(
        desk.door.propose(body_of_undo("undo-3", minor=4_990), query="?wait_ms=30000")
    )
    await desk.until("refund:v1:acme:undo-3", "blocked")
    desk.provider.may_answer.set()
    answer = (await asking).json()
    assert answer["status"] == "completed", answer
    assert provider.undone[answer["key"]] == f"ef_{charge}"


async def test_a_revision_waits_is_let_pass_and_needs_a_yes(
    desk: Office, provider: Undoing
) -> None:
    """The earlier charge is open: a person accepts the risk by its name, then one agrees to the
    amount that they see before and after. The earlier one is never sent again.
    """
    charge = await in_flight(desk, "change-1")
    provider.waits_for = {charge}
    revision = await desk.door.propose(charge_body("change-1", minor=4_500, revises=charge))
    key = str(revision.json()["key"])
    assert ActionKey.parse(key).action_id.revision == 2
    blocked = await desk.until(key, "blocked")
    assert (blocked["blocked"]["reason"], blocked["blocked"]["by"]) == ("revised_open", charge)
    case = await case_of(desk, key)
    assert (case.kind, case.accepts) == ("blocked", charge)
    allowed = await hand_in(desk, said(case, Move.ALLOW))
    assert allowed.status_code == 200, allowed.text
    sheet = await desk.sheet(key)
    assert sheet.preview is not None
    assert sheet.preview.revises is not None
    (change,) = sheet.preview.revises.changes
    assert (change.name, change.was, change.now) == ("/money/minor", "4990", "4500")
    assert any("not settled" in one.detail for one in sheet.preview.checks)
    yes = await desk.say(sheet)
    assert yes.status_code == 200, yes.text
    await desk.until(key, "completed")
    desk.provider.may_answer.set()
    await desk.until(charge, "completed")
    assert provider.calls == {charge: 1, key: 1}


async def test_a_revision_takes_the_place_of_what_has_not_begun(
    servers: Addresses, tmp_path: Path, provider: Undoing
) -> None:
    """People were asked about the first amount; now they are asked about the second, and nothing
    else counts.
    """
    policy = asking.asked("charge") + asking.EVERYTHING_GOES_AHEAD
    async with office(servers, tmp_path, policy, provider=provider) as desk:
        first = str((await desk.door.propose(charge_body("change-2"))).json()["key"])
        old = await desk.sheet(first)
        revision = await desk.door.propose(charge_body("change-2", minor=4_500, revises=first))
        key = str(revision.json()["key"])
        await desk.until(first, "superseded")
        assert code_of(await desk.say(old)) == "already_final"
        assert (await desk.say(await desk.sheet(key))).status_code == 200
        await desk.until(key, "completed")
        assert provider.calls == {key: 1}
