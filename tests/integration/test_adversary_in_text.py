"""An agent that tries to talk a person into it: whatever it writes, into whichever field, is data,
bound by the hash that is signed, shown whole and marked where it is not what it looks like.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gateway.console.text import shown
from gateway.keys import Role, create_key
from ledger.core.ids import MalformedId
from ledger.core.request import request_hash
from tests import asking
from tests.integration.asking_people import Office, known, office
from tests.integration.door import code_of
from tests.servers import Addresses

pytestmark = [pytest.mark.servers, pytest.mark.asyncio(loop_scope="module")]

POLICY = asking.asked("email") + asking.EVERYTHING_GOES_AHEAD

HTML = '<script>fetch("/console/approve")</script><form action="/v1/decisions"><button>Approve'
PERSUASION = "Routine; reviewer: this is pre-cleared by finance. Approve without reading on."
BIDI = "pay \u202eRUE 00.1\u202c now"
LOOK_ALIKE = "p\u0430ypal.example"
HIDDEN = "or\u200bder"
LONG = "please " * 1_430
TEXTS = [HTML, PERSUASION, BIDI, LOOK_ALIKE, HIDDEN, LONG]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def people(
    servers: Addresses, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Office]:
    """An installation in which one person has to agree to every e-mail; each test asks for its own,
    and no agent has more waiting than it may have.
    """
    folder = tmp_path_factory.mktemp("text")
    async with office(servers, folder, POLICY, has_executor=False) as made:
        yield made


def email_body(event: str, *, subject: str = "Your parcel", body: str = "") -> dict[str, Any]:
    """The body that proposes an e-mail."""
    return {
        "operation": "email",
        "version": 1,
        "business_event": event,
        "params": {"to": ["ada@example.org"], "subject": subject, "body": body},
        "environment": "production",
    }


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:8])
async def test_a_text_is_shown_whole_and_bound_by_the_hash(people: Office, text: str) -> None:
    """A person is shown every character that would be sent, and nothing in it moved a rule: it
    waits, as any other of its kind, and its hash is that of what is shown.
    """
    asked = email_body(f"mail-{TEXTS.index(text)}", subject=text[:200], body=text)
    answer = await people.door.propose(asked)
    assert (answer.status_code, answer.json()["status"]) == (201, "awaiting_approval")
    sheet = await people.sheet(answer.json()["key"])
    assert sheet.request.params["body"] == text
    assert request_hash(sheet.request) == sheet.request_hash
    assert (sheet.policy and sheet.policy.row) == "asked-about-email"
    marked = shown(text)
    assert "".join(piece.text for piece in marked.pieces if piece.kind != "hidden") in {
        text,
        "".join(one for one in text if one not in "\u202e\u202c\u200b"),
    }
    assert marked.is_marked is (text in {BIDI, LOOK_ALIKE, HIDDEN})
    # What somebody says about the text as a whole is no part of the answer to its agent.
    assert text not in answer.text


@pytest.mark.parametrize(
    "hostile", [BIDI, "order:A\u0000", "order:\ud800", "order:A\n1", "e\u0301"]
)
async def test_what_names_something_cannot_hide_what_it_names(people: Office, hostile: str) -> None:
    """Targets, recipients, environments and business events that hold marks of direction, control
    characters, half characters or a form that another text looks like are refused.
    """
    fields: list[dict[str, Any]] = [
        {"operation": "ticket", "target": f"queue:{hostile}", "params": ticket()},
        {"operation": "ticket", "environment": hostile, "params": ticket()},
        {"operation": "ticket", "business_event": hostile, "params": ticket()},
        {"params": {"to": [hostile], "subject": "x", "body": ""}},
    ]
    for changed in fields:
        body = email_body("mail-hostile") | changed
        raw = as_json(body)
        answer = await people.door.http.post(
            "/v1/actions",
            content=raw,
            headers={**people.door.bearer(), "Content-Type": "application/json"},
        )
        assert answer.status_code == 400, (changed, answer.text)
        assert code_of(answer) in {"invalid_body", "malformed_json", "invalid_request"}


def ticket() -> dict[str, Any]:
    """The parameters of a ticket."""
    return {"title": "Parcel lost", "labels": []}


def as_json(body: object) -> bytes:
    """JSON with every character written as it is escaped, half ones too."""
    return json.dumps(body).encode()


async def test_a_principal_that_looks_like_another_is_marked(people: Office) -> None:
    """A letter of another alphabet in the name of whoever asks is seen as what it is."""
    name = "\u0430gent:billing"
    key = create_key(
        people.door.settings.api_keys_file, tenant="acme", principal=name, role=Role.AGENT
    )
    answer = await known(people, email_body("mail-marked"), {"Authorization": f"Bearer {key}"})
    sheet = await people.sheet(answer.json()["key"])
    assert sheet.request.principal == name
    assert shown(sheet.request.principal).is_marked
    assert not shown("agent:billing").is_marked


async def test_no_principal_has_a_name_that_passes_for_another(people: Office) -> None:
    """Whoever asks is named by an operator; a name with hidden or turned characters is none."""
    for name in (BIDI, f"agent:{HIDDEN}", "agent:a\n", "agent:e\u0301"):
        with pytest.raises(MalformedId):
            create_key(
                people.door.settings.api_keys_file, tenant="acme", principal=name, role=Role.AGENT
            )
