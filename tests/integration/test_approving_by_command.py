"""A person at a terminal: what `waiting`, `approve`, `deny`, `withdraw` and `ask` show and sign."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import uvicorn

from gateway.local.ports import free_ports
from gateway.signing_key_file import create_key_file
from tests import asking
from tests.commands import Said, told_beside
from tests.integration.asking_people import (
    POLL_SECONDS,
    Office,
    office,
    refund_body,
    republish,
)
from tests.integration.door import charge_body
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = [pytest.mark.servers, pytest.mark.asyncio(loop_scope="module")]

PASSPHRASE = "correct horse battery staple"
POLICY = (
    asking.asked("refund", valid_ms=600_000)
    + asking.asked("charge", quorum=2)
    + asking.asked("ticket", valid_ms=1_000)
    + asking.asked("email", more='groups = ["operations"]')
    + asking.EVERYTHING_GOES_AHEAD
)
HOSTILE = "Renewal \u202egnihton\u202c for p\u0430ypal\x1b[2J\u200b"


@dataclass
class Terminal:
    """A terminal of somebody who has a key of their own."""

    people: Office
    url: str
    folder: Path

    async def run(self, *words: str, typed: str = "", who: str = "eve") -> Said:
        """Run a command with what is typed at it."""
        key = ("--key-file", str(self.folder / f"{who}.pem"))
        passphrase = ("--passphrase-file", str(self.folder / "passphrase"))
        environment = {
            "HOME": str(self.folder),
            "COLUMNS": "200",
            "ACTIONLEDGER_STATE": str(self.folder),
            "ACTIONLEDGER_URL": self.url,
        }
        return await told_beside((*words, *key, *passphrase), environment, typed)

    async def asked_for(self, body: dict[str, Any]) -> str:
        """An agent asks for something, and somebody can be shown it; its key."""
        answer = await self.people.door.propose(body)
        assert answer.json()["status"] == "awaiting_approval", answer.text
        key = str(answer.json()["key"])
        await self.people.sheet(key)
        return key


def with_key_files(folder: Path, *names: str, of_operations: str = "") -> str:
    """The people of `tests.asking`, and more who have key files in a folder, with the file of their
    passphrase; of a group is the one who is named.
    """
    (folder / "passphrase").write_text(f"{PASSPHRASE}\n", encoding="utf-8")
    (folder / "passphrase").chmod(0o600)
    text = asking.people_text()
    for name in names:
        key = create_key_file(folder / f"{name}.pem", PASSPHRASE)
        text += f'[[person]]\nname = "{name}"\ntenants = ["acme"]\n'
        text += 'groups = ["operations"]\n' if name == of_operations else ""
        text += f'keys = [{{ id = "{key.id}", kind = "ed25519", public = "{key.public}" }}]\n'
    return text


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def terminal(
    servers: Addresses, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Terminal]:
    """The door on a port, and three people with key files beside those of `tests.asking`; each test
    asks for its own action.
    """
    folder = tmp_path_factory.mktemp("terminal")
    text = with_key_files(folder, "eve", "fay", "gus", of_operations="gus")
    async with office(servers, folder, POLICY, people=text) as people, served(people) as url:
        yield Terminal(people, url, folder)


@contextlib.asynccontextmanager
async def served(people: Office) -> AsyncIterator[str]:
    """The door of an office on a port of its own."""
    (port,) = free_ports(1)
    config = uvicorn.Config(
        people.door.app, host="127.0.0.1", port=port, lifespan="off", log_config=None
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not server.started:
                await asyncio.sleep(POLL_SECONDS)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await serving


async def test_a_person_sees_everything_and_signs_it(terminal: Terminal) -> None:
    """The list names it, the sheet shows all that is signed, and a yes is done once."""
    key = await terminal.asked_for(refund_body("return-1"))
    listed = await terminal.run("waiting")
    assert listed.code == 0, listed.err
    assert key in listed.out
    assert "120.00 EUR" in listed.out
    said = await terminal.run("approve", key, "--comment", "She called.", typed="y\n")
    assert said.code == 0, said.err
    sheet = (await terminal.people.read(f"/v1/approvals/{key}")).json()
    asked = sheet["asked"]
    for shown in (
        key,
        "120.00 EUR   (12000 minor units, 2 decimals)",
        "order:A-1842",
        "requested_by_customer",
        "simulated / main (keyed)",
        "production",
        "Somebody has to look at it.",
        sheet["request_hash"],
        asked["preview_hash"],
        asked["policy_hash"],
        asked["nonce"],
        "left",
        "She called.",
    ):
        assert shown in said.err, shown
    await terminal.people.until(key, "completed")
    assert terminal.people.provider.calls[key] == 1
    again = await terminal.run("approve", key, "--json", typed="y\n")
    assert again.code == 0, again.err
    assert again.result["replayed"] is True


async def test_whoever_does_not_say_yes_has_signed_nothing(terminal: Terminal) -> None:
    """No, nothing at all and an end of input are the same."""
    key = await terminal.asked_for(refund_body("return-2"))
    for typed in ("n\n", "\n", ""):
        said = await terminal.run("approve", key, "--json", typed=typed)
        assert (said.code, said.result["signed"]) == (4, False)
    sheet = (await terminal.people.read(f"/v1/approvals/{key}")).json()
    assert "signed" not in sheet or sheet["signed"] == []


async def test_a_person_denies_and_says_why(terminal: Terminal) -> None:
    """Nothing happens, and whoever looks is told."""
    key = await terminal.asked_for(refund_body("return-3"))
    said = await terminal.run("deny", key, "--comment", "Paid last week.", typed="y\n")
    assert said.code == 0, said.err
    assert "never begins" in said.out
    denied = await terminal.people.until(key, "denied")
    assert denied["denied"]["comment"] == "Paid last week."
    refused = await terminal.run("approve", key, "--json", typed="y\n")
    assert (refused.code, refused.result["code"]) == (4, "already_final")


async def test_two_people_agree_and_one_takes_it_back(terminal: Terminal) -> None:
    """A yes that was taken back counts no more, also when that is said twice; the other's and a
    third one's do.
    """
    key = await terminal.asked_for(charge_body("order-1"))
    first = await terminal.run("approve", key, typed="y\n")
    assert "1 of 2 agreed" in first.out
    assert (await terminal.run("withdraw", key, typed="y\n")).code == 0
    assert (await terminal.run("approve", key, typed="y\n", who="fay")).code == 0
    assert terminal.people.provider.calls[key] == 0
    again = await terminal.run("withdraw", key, "--json", typed="y\n")
    assert (again.code, again.result["replayed"]) == (0, True), again.err
    assert (await terminal.run("approve", key, typed="y\n", who="gus")).code == 0
    await terminal.people.until(key, "completed")
    assert terminal.people.provider.calls[key] == 1


async def test_another_table_that_asks_the_same_lets_what_is_asked_stand(
    terminal: Terminal,
) -> None:
    """What waits is ruled anew and nobody is asked anew: the row that is shown is that of the table
    under which people were asked, and whoever looks can sign it.
    """
    key = await terminal.asked_for(refund_body("return-5"))
    asked = (await terminal.people.sheet(key, "ada")).asked
    await republish(terminal.people.door, "policy", f"# Looked at again.\n{POLICY}")
    await terminal.people.ruled(key, times=2)
    said = await terminal.run("approve", key, typed="y\n")
    assert said.code == 0, said.err
    assert asked is not None
    assert asked.policy_hash in said.err
    await terminal.people.until(key, "completed")


async def test_hostile_text_is_shown_as_what_it_is(terminal: Terminal) -> None:
    """Direction marks, look-alikes and escape codes neither act nor hide."""
    body = charge_body("order-2")
    body["params"]["description"] = HOSTILE
    key = await terminal.asked_for(body)
    said = await terminal.run("approve", key, typed="n\n")
    assert "\x1b[2J" not in said.err
    assert "\u202e" not in said.err
    for shown in (r"\u202e", r"\u200b", r"\u001b", "CYRILLIC SMALL LETTER A", "cannot be seen"):
        assert shown in said.err, shown


async def test_people_can_be_asked_again(terminal: Terminal) -> None:
    """While they are asked it changes nothing, and it says so."""
    key = await terminal.asked_for(refund_body("return-4"))
    said = await terminal.run("ask", key, "--json")
    assert said.code == 0, said.err
    assert (said.result["status"], said.result["replayed"]) == ("awaiting_approval", True)
    unknown = await terminal.run("ask", "refund:v1:acme:nobody", "--json")
    assert (unknown.code, unknown.result["code"]) == (4, "unknown_action")


async def test_nobody_is_asked_to_sign_what_ran_out(terminal: Terminal) -> None:
    """It is shown, with what helps; a yes would be refused."""
    body = {"operation": "ticket", "version": 1, "business_event": "late-1"}
    body |= {"params": {"title": "Pack it"}, "environment": "production"}
    key = await terminal.asked_for(body)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await terminal.people.until(key, "awaiting_approval"))["approval"]["state"] != (
            "expired"
        ):
            await asyncio.sleep(POLL_SECONDS)
    said = await terminal.run("approve", key, typed="y\n")
    assert said.code == 4
    assert "Sign this" not in said.err
    assert "which is no denial" in said.out
    assert "actionledger ask" in said.out


async def test_who_may_not_decide_is_told_so_before_they_are_asked(terminal: Terminal) -> None:
    """Everything is shown, nothing is signed, and whoever may decide still can."""
    body = {"operation": "email", "version": 1, "business_event": "hello-1"}
    mail = {"to": ["customer@example.com"], "subject": "Hello", "body": "Hello."}
    key = await terminal.asked_for({**body, "params": mail, "environment": "production"})
    for word in ("approve", "deny"):
        said = await terminal.run(word, key, typed="y\n")
        assert said.code == 4
        assert "customer@example.com" in said.err
        assert "Sign this" not in said.err
        assert "Somebody of the groups named has to decide." in said.out
    told = await terminal.run("approve", key, "--json", typed="y\n")
    assert told.result == {"signed": False, "code": "not_in_group"}
    assert (await terminal.run("approve", key, typed="y\n", who="gus")).code == 0
    await terminal.people.until(key, "completed")


async def test_a_key_that_nobody_registered_reads_nothing(terminal: Terminal) -> None:
    """Somebody without a registered key is told to have it registered."""
    create_key_file(terminal.folder / "mallory.pem", PASSPHRASE)
    said = await terminal.run("waiting", "--json", who="mallory")
    assert (said.code, said.result["code"]) == (4, "login_unknown_signer")
    assert "people key add" in said.result["hint"]
