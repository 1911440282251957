"""A person at a terminal: what `review list | show | resolve` show and sign."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests import asking
from tests.integration.asking_people import office
from tests.integration.test_approving_by_command import Terminal, served, with_key_files
from tests.integration.test_reviews import LosingProvider, case_of, email_body, in_review
from tests.servers import Addresses

pytestmark = pytest.mark.servers


@pytest.fixture
async def terminal(servers: Addresses, tmp_path: Path) -> AsyncIterator[Terminal]:
    """The door on a port, nobody asked, and two with key files, of whom one may settle."""
    text = with_key_files(tmp_path, "eve", "fay", of_operations="eve")
    provider = LosingProvider()
    policy = '[review]\ngroups = ["operations"]\n' + asking.EVERYTHING_GOES_AHEAD
    async with (
        office(servers, tmp_path, policy, people=text, provider=provider) as people,
        served(people) as url,
    ):
        yield Terminal(people, url, tmp_path)


async def test_a_person_sees_everything_of_a_case_and_settles_it(terminal: Terminal) -> None:
    """The list says why, the case shows all that is known and signed, and a yes settles it once."""
    key = await in_review(terminal.people, email_body("welcome-1"))
    sheet = await case_of(terminal.people, key)
    listed = await terminal.run("review", "list")
    assert listed.code == 0, listed.err
    assert key in listed.out
    assert "The provider cannot be asked about it. (no_way_to_find_out)" in listed.out
    seen = await terminal.run("review", "show", key)
    assert seen.code == 0, seen.err
    told = ("attempt 1", "unresolved: timeout", "proves nothing", "last byte", "effect_exists")
    for one in told:
        assert one in seen.out, one
    settle = ("review", "resolve", key, "--comment", "It is in the sent folder.", "--move")
    named = (*settle, "effect_exists", "--reference", "250-OK-8812")
    no = await terminal.run(*named, "--json", typed="n\n")
    assert (no.code, no.result) == (4, {"signed": False, "code": "not_signed"})
    done = await terminal.run(*named, typed="y\n")
    assert done.code == 0, done.err
    for one in (
        *told,
        sheet.request_hash,
        sheet.ledger,
        "250-OK-8812",
        "It is in the sent folder.",
        f"opened by fact {sheet.case}, newest known fact {sheet.moved}",
    ):
        assert one in done.err, one
    assert "It is completed on your word." in done.out
    settled = await terminal.people.until(key, "completed")
    assert (settled["reference"], settled["proof"]) == ("250-OK-8812", "person")
    assert terminal.people.provider.calls[key] == 1


async def test_who_may_not_settle_is_told_so_before_they_are_asked(terminal: Terminal) -> None:
    """The case is shown, and nothing is signed."""
    key = await in_review(terminal.people, email_body("welcome-3"))
    await case_of(terminal.people, key)
    settle = ("review", "resolve", key, "--comment", "It is in the sent folder.", "--move")
    named = (*settle, "effect_exists", "--reference", "250-OK-8812")
    said = await terminal.run(*named, typed="y\n", who="fay")
    assert said.code == 4
    assert "attempt 1" in said.err
    assert "Somebody of the groups named has to decide." in said.out
    told = await terminal.run(*named, "--json", typed="y\n", who="fay")
    assert told.result == {"signed": False, "code": "not_in_group"}


async def test_what_is_not_safe_is_not_signed(terminal: Terminal) -> None:
    """A move that is not offered, or without reference or comment, ends before any question."""
    key = await in_review(terminal.people, email_body("welcome-2"))
    await case_of(terminal.people, key)
    settle = ("review", "resolve", key, "--json", "--comment", "Once more.", "--move")
    again = await terminal.run(*settle, "try_again", typed="y\n")
    assert (again.code, again.result["code"]) == (4, "move_not_safe")
    unnamed = await terminal.run(*settle, "effect_exists", typed="y\n")
    assert (unnamed.code, unnamed.result["code"]) == (4, "reference_unfit")
    unknown = await terminal.run(*settle, "undo", typed="y\n")
    assert unknown.code == 2
    empty = await terminal.run("review", "resolve", key, "--move", "no_effect", "--comment", " ")
    assert empty.code == 2
    await terminal.people.until(key, "needs_review")
