"""At a terminal: what a run has used, what blocks an action, and letting it pass under one's own
signature.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.commands import Said, told_beside
from tests.integration.asking_people import POLL_SECONDS, office
from tests.integration.test_approving_by_command import Terminal, served, with_key_files
from tests.integration.test_gates_by_http import CATALOGUE, POLICY, ZONE, body, done, in_flight
from tests.integration.test_reviews import case_of
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = pytest.mark.servers


@pytest.fixture
async def terminal(servers: Addresses, tmp_path: Path) -> AsyncIterator[Terminal]:
    """The door on a port, refunds that pass gates, and somebody with a key file who settles."""
    text = with_key_files(tmp_path, "eve")
    async with (
        office(servers, tmp_path, POLICY, people=text, catalogue=CATALOGUE) as people,
        served(people) as url,
    ):
        yield Terminal(people, url, tmp_path)


async def operating(terminal: Terminal, *words: str) -> Said:
    """Run a command that reads the installation itself."""
    settings = terminal.people.door.settings
    environment = {
        "HOME": str(terminal.folder),
        "COLUMNS": "200",
        "ACTIONLEDGER_STATE": str(terminal.folder),
        "ACTIONLEDGER_KAFKA": settings.kafka_bootstrap,
        "ACTIONLEDGER_DATABASE": settings.database_url,
        "ACTIONLEDGER_TOPIC_PREFIX": settings.topic_prefix,
    }
    return await told_beside(words, environment)


async def once(terminal: Terminal, holds: Callable[[Said], bool], *words: str) -> Said:
    """What a command says, as soon as the tables have it."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds(seen := await operating(terminal, *words)):
            await asyncio.sleep(POLL_SECONDS)
    return seen


async def test_a_run_is_shown_with_a_bar_for_every_ceiling(terminal: Terminal) -> None:
    """Used, reserved and left; what is enforced and what the agent says itself; its actions."""
    desk = terminal.people
    key = await done(desk, body("g1", order="g", run="r1"))
    agent = desk.door.ledger()
    await agent.report_step("r1", 1, tokens=250)
    await agent.close()
    counted = (
        "run side effects",
        "1 used of 2",
        "250 used of 1,000  (the agent's own word)",
        "1 completed",
        key,
    )
    shown = await once(
        terminal, lambda said: all(one in said.out for one in counted), "run", "show", "r1"
    )
    assert "████████████" in shown.out
    told = (await operating(terminal, "run", "show", "r1", "--json")).result
    kinds = {one["dimension"]: (one["kind"], one["used"]) for one in told["budgets"]}
    assert kinds["tokens"] == ("self_reported", 250)
    assert kinds["side_effects"] == ("enforced", 1)
    assert told["by_status"] == {"completed": 1}
    listed = await operating(terminal, "run", "list", "--tenant", "acme", "--json")
    assert [one["run"] for one in listed.result["runs"]] == ["r1"]
    ceilings = await operating(terminal, "ceiling", "list", "--tenant", "acme")
    assert f"per tenant, by the day in {ZONE}: 10000.00 EUR" in ceilings.out
    assert "10.00 EUR used of 10000.00 EUR" in ceilings.out
    assert (await operating(terminal, "ceiling", "list")).out == ceilings.out, "the only tenant's"
    for words in (("unknowns",), ("run", "list"), ("saga", "list"), ("ceiling", "list")):
        misspelt = await operating(terminal, *words, "--tenant", "Acme", "--json")
        assert misspelt.err == "No action is of a tenant Acme. There are: acme.\n", words
        assert misspelt.code == 0, words
    assert (await operating(terminal, "unknowns", "--tenant", "Acme")).out == ""
    table = terminal.folder / "table.toml"
    table.write_text(POLICY, encoding="utf-8")
    tried = await operating(
        terminal, "policy", "whatif", "--policy", str(table), "--tenant", "Acme"
    )
    assert tried.err.endswith("No intent that was looked at is of a tenant Acme.\n")
    assert "✓ No action of acme" in (await operating(terminal, "unknowns", "--tenant", "acme")).out
    nobody = await operating(terminal, "run", "show", "nobody-knows-it", "--json")
    assert nobody.code == 1


async def test_what_blocks_an_action_is_told_and_let_pass(terminal: Terminal) -> None:
    """`show` and `why` name the other action and what would unblock this one; who lets it pass
    names what they accept.
    """
    desk = terminal.people
    first = await in_flight(desk, body("h1", order="h", run="r2"))
    await desk.door.propose(body("h2", order="h", run="r3", minor=2_000))
    key = "refund:v1:acme:h2"
    await case_of(desk, key)
    told = f"{first} holds the same target"
    for command in ("show", "why"):
        seen = await once(terminal, lambda said: told in said.out, command, key)
        assert f"--move allow --accepts {first}" in seen.out
    listed = await terminal.run("review", "list", "--blocked")
    assert listed.code == 0, listed.err
    assert key in listed.out
    assert told in listed.out
    allow = ("review", "resolve", key, "--move", "allow", "--comment", "I called them.")
    other = await terminal.run(*allow, "--accepts", key, "--json", typed="y\n")
    assert (other.code, other.result["code"]) == (4, "accepts_unfit")
    signed = await terminal.run(*allow, "--accepts", first, typed="y\n")
    assert signed.code == 0, signed.err
    assert f"letting it pass {first}?" in signed.err
    await desk.until(key, "completed")
    desk.provider.may_answer.set()


async def test_a_ceiling_is_shown_with_its_numbers_before_it_is_passed(terminal: Terminal) -> None:
    """Whoever signs has seen what was taken, what this needs, and the limit."""
    desk = terminal.people
    for number in (1, 2):
        await done(desk, body(f"i{number}", order=f"i{number}", run="r4"))
    await desk.door.propose(body("i3", order="i3", run="r4"))
    key = "refund:v1:acme:i3"
    await case_of(desk, key)
    seen = await terminal.run("review", "show", key)
    assert "It would pass a ceiling of the policy. (ceiling_reached" in seen.out
    told = "The ceiling run is 2 side effects, of which 2 were taken; this needs 1 side effect."
    assert told in seen.out
    allow = ("review", "resolve", key, "--move", "allow", "--comment", "It is due.")
    signed = await terminal.run(*allow, typed="y\n")
    assert signed.code == 0, signed.err
    assert "letting it pass run?" in signed.err
    assert "lets pass" in signed.err
    await desk.until(key, "completed")
