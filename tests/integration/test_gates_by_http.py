"""Ceilings, targets and look-alikes through the door, on real servers: what an agent is told, what
a person lets pass under their signature, and what goes on by itself.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from actionledger import CallerMistake, NeedsReview, Succeeded
from gateway.http.case_sheets import CaseSheet
from ledger.core.statement import Move
from tests.integration.asking_people import POLL_SECONDS, Office, office, refund_body
from tests.integration.door import code_of
from tests.integration.installation import CATALOGUE as LISTED
from tests.integration.test_reviews import case_of, hand_in, said
from tests.patience import PATIENCE_SECONDS
from tests.policies import zone_at_noon
from tests.servers import Addresses

pytestmark = pytest.mark.servers

ZONE = zone_at_noon(datetime.now(UTC))
POLICY = """
[[ceiling]]
name = "run"
per = "run"
side_effects = 2
tokens = 1_000

[[ceiling]]
name = "day"
per = "tenant"
window = "day"
zone = "ZONE"
spend = { EUR = 10_000_00 }

[[row]]
name = "refund"
when.operation = ["refund"]
outcome = "automatic"
ceilings = ["run", "day"]
block_target = true
reason = "Refunds count by run and by day, and one at a time on an order."

[[row]]
name = "everything-else"
outcome = "automatic"
reason = "It goes ahead."
""".replace("ZONE", ZONE)


CATALOGUE = LISTED.replace(
    'name = "refund"\n', 'name = "refund"\nlook_alike_window_ms = 600_000\n', 1
)

_Seen = TypeVar("_Seen")


@pytest.fixture
async def desk(servers: Addresses, tmp_path: Path) -> AsyncIterator[Office]:
    """An installation in which nobody is asked, and refunds pass gates."""
    async with office(servers, tmp_path, POLICY, catalogue=CATALOGUE) as made:
        yield made


def body(event: str, *, order: str, run: str, minor: int = 1_000, **more: object) -> dict[str, Any]:
    """A refund on an order, as a step of a run."""
    return refund_body(event, minor=minor, target=f"order:{order}", run=run, **more)


async def done(desk: Office, given: dict[str, Any]) -> str:
    """The key of a refund, once it is completed."""
    answer = await desk.door.propose(given, query="?wait_ms=30000")
    assert answer.json()["status"] == "completed", answer.text
    return str(answer.json()["key"])


async def until(what: str, look: Callable[[], Awaitable[_Seen | None]]) -> _Seen:
    """What a look sees, as soon as it sees anything."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (seen := await look()):
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise AssertionError(f"never: {what}") from None
    return seen


async def budget(desk: Office, run: str, dimension: str) -> dict[str, Any]:
    """What a run has of a dimension."""
    told = (await desk.door.get(f"/v1/runs/{run}")).json()
    return next(one for one in told["budgets"] if one["dimension"] == dimension)


async def in_flight(desk: Office, given: dict[str, Any]) -> str:
    """A refund that is at the provider, and stays there until it may answer; its key."""
    provider = desk.provider
    key = f"refund:v1:acme:{given['business_event']}"
    provider.waits_for = {key}
    provider.may_answer.clear()
    await desk.door.propose(given)

    async def look() -> bool:
        return provider.calls[key] == 1

    await until("the call", look)
    return key


async def held_by_target(desk: Office, key: str, given: dict[str, Any]) -> dict[str, Any]:
    """For whom a refund waits, once its gates have answered."""
    await desk.door.propose(given)

    async def look() -> dict[str, Any] | None:
        told = (await desk.door.get(f"/v1/actions/{key}")).json()
        assert told.get("status") in {None, "blocked"}, told
        blocked = dict(told.get("blocked") or {})
        return blocked if blocked.get("reason") == "target" else None

    return await until("it waits for its target", look)


async def test_a_reached_ceiling_is_raised_by_a_signature(desk: Office) -> None:
    """The third of two needs a person; what they let pass is named, and passes once."""
    for number in (1, 2):
        await done(desk, body(f"a{number}", order=f"a{number}", run="r1"))
    third = body("a3", order="a3", run="r1")
    answer = await desk.door.propose(third, query="?wait_ms=30000")
    told = answer.json()
    assert (told["status"], told["review"], told["review_names"]) == (
        "needs_review",
        "ceiling_reached",
        "run",
    )
    key = str(told["key"])
    sheet = await case_of(desk, key)
    assert (sheet.accepts, sheet.kind) == ("run", "review")
    assert sheet.about is not None
    assert (sheet.about.taken, sheet.about.wanted, sheet.about.limit) == (2, 1, 2)
    assert "allow" in [one.move for one in sheet.moves]
    unnamed = await hand_in(desk, said(sheet, Move.ALLOW, accepts=None))
    assert code_of(unnamed) == "accepts_unfit"
    other = await hand_in(desk, said(sheet, Move.ALLOW, accepts="day"))
    assert code_of(other) == "accepts_unfit"
    allowed = await hand_in(desk, said(sheet, Move.ALLOW))
    assert allowed.status_code == 200, allowed.text
    await desk.until(key, "completed")

    async def look() -> bool:
        return bool((await budget(desk, "r1", "side_effects"))["used"] == 3)

    await until("what was let pass counts", look)
    fourth = await desk.door.propose(body("a4", order="a4", run="r1"), query="?wait_ms=30000")
    assert fourth.json()["review"] == "ceiling_reached"


async def test_the_second_on_a_target_waits_and_goes_on_by_itself(desk: Office) -> None:
    """It is told for whom it waits; once that one is settled nobody has to do anything."""
    first = await in_flight(desk, body("b1", order="b", run="r2"))
    second = body("b2", order="b", run="r3", minor=2_000)
    key = "refund:v1:acme:b2"
    waits = await held_by_target(desk, key, second)
    assert (waits["reason"], waits["by"]) == ("target", first)
    assert desk.provider.calls[key] == 0
    desk.provider.may_answer.set()
    await desk.until(key, "completed")
    assert desk.provider.calls == {first: 1, key: 1}


async def test_a_person_takes_the_risk_of_both(desk: Office) -> None:
    """What is blocked is listed beside the cases, and a signature that names the other lets it
    pass.
    """
    first = await in_flight(desk, body("c1", order="c", run="r4"))
    key = "refund:v1:acme:c2"
    second = body("c2", order="c", run="r5", minor=2_000)
    await held_by_target(desk, key, second)

    async def look() -> dict[str, Any] | None:
        listed = (await desk.read("/v1/reviews", "ben")).json()
        return next((one for one in listed["blocked"] if one["key"] == key), None)

    entry = await until("it is listed", look)
    assert (entry["kind"], entry["reason"], entry["names"]) == ("blocked", "target", first)
    sheet = await case_of(desk, key)
    assert (sheet.kind, sheet.accepts) == ("blocked", first)
    assert [one.move for one in sheet.moves] == ["allow"]
    answer = await hand_in(desk, said(sheet, Move.ALLOW))
    assert answer.status_code == 200, answer.text
    await desk.until(key, "completed")
    still = (await desk.door.get(f"/v1/actions/{first}")).json()["status"]
    assert still in {"attempting", "unknown"}
    desk.provider.may_answer.set()

    async def settled() -> bool:
        found = await desk.read(f"/v1/reviews/{key}", "ben")
        resolved = CaseSheet.model_validate_json(found.content).resolved
        return [(one.move, one.accepts) for one in resolved] == [("allow", first)]

    await until("what was let pass is told of the action", settled)


async def test_a_look_alike_is_held_and_an_occurrence_is_not(desk: Office) -> None:
    """The same under another key is held back and names the first; what is declared as an intended
    second one passes.
    """
    first = await done(desk, body("d1", order="d", run="r6"))
    agent = desk.door.ledger()
    held_back = await desk.door.propose(body("d2", order="d", run="r7"), query="?wait_ms=30000")
    assert held_back.json()["review_names"] == first, held_back.text
    told = await agent.get(held_back.json()["key"])
    assert isinstance(told, NeedsReview)
    assert (told.reason, told.names) == ("suspected_duplicate", first)
    assert "A new key is the wrong move" in told.text_for_model
    sheet = await case_of(desk, told.key)
    assert sheet.about is not None
    assert (sheet.about.kind, sheet.about.page) == ("action", f"/console/actions/{first}")
    meant = body("d3", order="d", run="r8", occurrence="second-parcel")
    assert await done(desk, meant) == "refund:v1:acme:d3"
    answer = await hand_in(desk, said(sheet, Move.ALLOW))
    assert answer.status_code == 200, answer.text
    assert isinstance(await agent.wait(told.key), Succeeded)
    await agent.close()


async def test_steps_are_counted_once_and_told_apart_from_what_is_enforced(desk: Office) -> None:
    """What an agent reports is its own word; a repeated step is a replay; too much holds back."""
    agent = desk.door.ledger()
    usage = await agent.report_step("r9", 1, tool_calls=2, tokens=400)
    again = await agent.report_step("r9", 1, tool_calls=2, tokens=400)
    assert (usage.replayed, again.replayed) == (False, True)
    assert usage.budgets == again.budgets
    kinds = {one.dimension: (one.kind, one.used, one.left) for one in usage.budgets}
    assert kinds["tokens"] == ("self_reported", 400, 600)
    assert kinds["side_effects"] == ("enforced", 0, 2)
    reached = await agent.report_step("r9", 2, tokens=700)
    assert [one.dimension for one in reached.reached] == ["tokens"]
    answer = await desk.door.propose(body("e1", order="e", run="r9"), query="?wait_ms=30000")
    assert answer.json()["review"] == "ceiling_reached"
    with pytest.raises(CallerMistake) as missing:
        await agent.run("nobody-knows-it")
    assert missing.value.code == "not_found"
    await agent.close()


async def test_runs_and_windows_are_seen_by_their_own_tenant(desk: Office) -> None:
    """The list, one run with its actions, the window of today; of another tenant's nothing."""
    key = await done(desk, body("f1", order="f", run="r10"))

    async def look() -> dict[str, Any] | None:
        run = (await desk.door.get("/v1/runs/r10")).json()
        return run if run.get("by_status") == {"completed": 1} else None

    run = await until("the run is in the tables", look)
    assert [one["key"] for one in run["actions"]] == [key]
    listed = (await desk.door.get("/v1/runs")).json()["runs"]
    assert [one["run"] for one in listed] == ["r10"]
    assert (await desk.door.get("/v1/runs", tenant="globex")).json()["runs"] == []
    assert code_of(await desk.door.get("/v1/runs/r10", tenant="globex")) == "not_found"
    told = (await desk.door.get("/v1/ceilings")).json()["ceilings"]
    assert [(one["name"], one["per"]) for one in told] == [("run", "run"), ("day", "tenant")]
    (window,) = told[1]["windows"]
    (spent,) = (one for one in window["budgets"] if one["dimension"] == "spend.EUR")
    assert (spent["used"] + spent["reserved"], spent["limit"]) == (1_000, 1_000_000)
    assert code_of(await desk.door.http.get("/v1/runs")) == "unauthenticated"
