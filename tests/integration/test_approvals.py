"""People decide through the door: from the agent's question to the one effect, on real servers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ledger.core.statement import Say
from tests import asking
from tests.integration.asking_people import Office, office, refund_body
from tests.servers import Addresses

pytestmark = pytest.mark.servers

POLICY = asking.asked("refund") + asking.EVERYTHING_GOES_AHEAD


@pytest.fixture
async def people(servers: Addresses, tmp_path: Path) -> AsyncIterator[Office]:
    """An installation in which one person has to agree to every refund."""
    async with office(servers, tmp_path, POLICY) as made:
        yield made


async def asked_for(people: Office, event: str, **changes: object) -> str:
    """The agent asks for a refund of 120 EUR, and is told that people are asked; its key."""
    answer = await people.door.propose(refund_body(event, **changes))
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
