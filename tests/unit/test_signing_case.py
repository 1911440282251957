"""What a person signs to let something pass is what they were shown, and names it exactly."""

import io
from collections.abc import AsyncIterator
from datetime import datetime
from zoneinfo import ZoneInfo

import httpx
import pytest
from rich.console import Console

from gateway.cli.case_shown import show_case
from gateway.console.case import case_page_of
from gateway.console.pages import Pages
from gateway.console.port import KnownCase
from gateway.console.seals import Session, Visitor
from gateway.console.site_file import Site
from gateway.http.case_sheets import AboutSheet, CaseSheet, EvidenceSheet
from gateway.http.cases import case_sheet_of
from gateway.memory.installation import Installation, open_installation
from gateway.signing_case import resolution_of
from gateway.signing_sheet import NothingToSignError, SheetDiffersError
from ledger.core.money import Money
from ledger.core.request import request_hash
from ledger.core.statement import Move
from tests import asking
from tests.unit.test_gates_at_the_door import POLICY

DAY_MS = 24 * 3_600_000
ONE_REFUND = (
    '[[ceiling]]\nname = "one"\nper = "action"\nspend = { EUR = 5_000 }\n' + POLICY
).replace('ceilings = ["run", "day"]', 'ceilings = ["one", "run", "day"]')


@pytest.fixture
async def desk() -> AsyncIterator[Installation]:
    """A ledger in memory whose refunds pass gates."""
    async with open_installation(policy=ONE_REFUND) as opened:
        yield opened


async def proposed(
    desk: Installation, event: str, *, order: str, minor: int = 1_000, run: str = "r1"
) -> str:
    """An agent asks for a refund; its key."""
    body = {
        "operation": "refund",
        "version": 1,
        "business_event": event,
        "target": f"order:{order}",
        "params": {"charge": "ch_1", "reason": "duplicate"},
        "money": {"minor": minor, "currency": "EUR"},
        "environment": "production",
        "run": run,
    }
    token = desk.api_key("acme", "agent:test")
    transport = httpx.ASGITransport(desk.app)
    async with httpx.AsyncClient(transport=transport, base_url=desk.address) as http:
        answer = await http.post(
            "/v1/actions?wait_ms=1000", json=body, headers={"Authorization": f"Bearer {token}"}
        )
    return str(answer.json()["key"])


async def sheet(desk: Installation, key: str) -> CaseSheet:
    """What a person is shown of it."""
    found = await desk._queries.case_sheet("acme", key)
    assert found is not None
    return case_sheet_of(found, desk._published, ledger="memory", now_ms=desk.now_ms, you="ada")


def let_pass(shown: CaseSheet) -> str | None:
    """What the signature of somebody who lets it pass names."""
    said = resolution_of(shown, Move.ALLOW, reference=None, comment="It is due.")
    assert (said.case, said.moved) == (shown.case, shown.moved)
    assert said.request_hash == request_hash(shown.request)
    return said.accepts


async def test_a_ceiling_of_a_run_is_shown_with_its_numbers(desk: Installation) -> None:
    """As the gate told them when it refused."""
    for number in (1, 2):
        await proposed(desk, f"e{number}", order=str(number))
    shown = await sheet(desk, await proposed(desk, "e3", order="3"))
    assert shown.about is not None
    assert shown.about.sentence == (
        "The ceiling run is 2 side effects, of which 2 were taken; this needs 1 side effect."
    )
    assert [one.names for one in shown.reasons] == ["run"]
    assert let_pass(shown) == "run"


async def test_a_ceiling_of_a_window_is_shown_with_the_window_that_counted() -> None:
    """And that it is over, once it is: whoever looks at the case the next day need not let the
    action pass, but has it tried again.
    """
    text = POLICY.replace("spend = { EUR = 1_000_000 }", "spend = { EUR = 1_500 }")
    async with open_installation(policy=text) as desk:
        await proposed(desk, "e1", order="1", run="r1")
        key = await proposed(desk, "e2", order="2", run="r2")
        shown = await sheet(desk, key)
        found = await desk._queries.case_sheet("acme", key)
        assert found is not None
        tomorrow = case_sheet_of(
            found, desk._published, ledger="memory", now_ms=desk.now_ms + DAY_MS, you="ada"
        )
        berlin = datetime.fromtimestamp(desk.now_ms / 1_000, ZoneInfo("Europe/Berlin"))
    window = f"{berlin:%Y-%m-%d}"
    assert shown.about is not None
    assert tomorrow.about is not None
    assert (shown.about.window, tomorrow.about.window) == (window, window)
    assert shown.about.sentence == (
        f"The ceiling day is 15.00 EUR in {window} (Europe/Berlin), of which 10.00 EUR were taken; "
        "this needs 10.00 EUR."
    )
    assert tomorrow.about.sentence == (
        f"{shown.about.sentence} That window is over: tried again, it counts in the one of now."
    )
    assert Move.TRY_AGAIN in {one.move for one in tomorrow.moves}


async def test_names_that_a_provider_gave_are_marked_on_the_page(desk: Installation) -> None:
    """What a case is about, and what a move lets pass, may be names of effects: a direction mark in
    one turns nothing around.
    """
    shown = await sheet(desk, await proposed(desk, "e1", order="1", minor=6_000))
    name = "10.00 EUR of 10.00 EUR: dp_\u202e1"
    about = AboutSheet(kind="amounts", name=name, sentence="So much of it was given back.")
    moves = tuple(one.model_copy(update={"sentence": f"Past {name}."}) for one in shown.moves)
    text = page(shown.model_copy(update={"about": about, "accepts": name, "moves": moves}))
    assert "\u202e" not in text
    assert text.count('<mark class="unseen">\\u202e</mark>') == 2 + len(moves)
    assert "allow" in {one.move for one in moves}


def page(shown: CaseSheet) -> str:
    """The page of a case as ada is sent it."""
    person = asking.people(asking.people_text("ada")).people[0]
    context = {
        "page": case_page_of(KnownCase(shown, is_whole=True), person),
        "sheet": shown,
        "moves": shown.moves,
        "fingerprint": "f",
        "form": "",
        "here": "review",
        "now": shown.now,
        "comment_chars_max": 500,
        "reference_chars_max": 255,
        "no": None,
        "visitor": Visitor(Session("s", "ada", "k", shown.now), person),
    }
    answer = Pages(Site("https://ledger.example.com", b"s" * 32)).page("review", context)
    return bytes(answer.body).decode()


async def test_a_ceiling_of_one_action_is_shown_by_the_policy(desk: Installation) -> None:
    """No gate was asked: what the action itself needs is too much."""
    shown = await sheet(desk, await proposed(desk, "e1", order="1", minor=6_000))
    assert shown.about is not None
    assert (shown.about.dimension, shown.about.wanted, shown.about.limit) == (
        "spend.EUR",
        6_000,
        5_000,
    )
    assert "this needs 60.00 EUR" in shown.about.sentence
    assert let_pass(shown) == "one"


async def test_what_blocks_an_action_is_shown_and_may_be_let_pass(desk: Installation) -> None:
    """The case of it is what blocks it; nothing else may be said."""
    desk.script({"fault": {"kind": "commit_then_drop"}})
    first = await proposed(desk, "e1", order="1")
    shown = await sheet(desk, await proposed(desk, "e2", order="1", minor=2_000, run="r2"))
    assert (shown.status, shown.kind, shown.accepts) == ("blocked", "blocked", first)
    assert [one.reason for one in shown.reasons] == ["target"]
    assert [one.move for one in shown.moves] == ["allow"]
    assert shown.about is not None
    assert shown.about.page == f"/console/actions/{first}"
    assert let_pass(shown) == first


async def test_a_move_that_lets_nothing_pass_names_nothing(desk: Installation) -> None:
    """Only who allows something has it in what they sign."""
    shown = await sheet(desk, await proposed(desk, "e1", order="1", minor=6_000))
    said = resolution_of(shown, Move.NO_EFFECT, reference=None, comment="It is too much.")
    assert said.accepts is None


async def test_a_sheet_that_hides_what_is_let_pass_is_refused(desk: Installation) -> None:
    """What would be signed stands on it, or nothing is."""
    shown = await sheet(desk, await proposed(desk, "e1", order="1", minor=6_000))
    for changed in (
        shown.model_copy(update={"accepts": "run"}),
        shown.model_copy(update={"about": None}),
        shown.model_copy(update={"reasons": ()}),
    ):
        with pytest.raises(SheetDiffersError):
            let_pass(changed)


async def test_where_nothing_is_at_stake_there_is_nothing_to_sign(desk: Installation) -> None:
    """An action that went ahead needs nobody."""
    shown = await sheet(desk, await proposed(desk, "e1", order="1"))
    assert (shown.kind, shown.accepts, shown.moves) == (None, None, ())
    with pytest.raises(NothingToSignError):
        let_pass(shown)


async def test_the_terminal_shows_evidence_as_text_and_whole(desk: Installation) -> None:
    """What a provider answered begins no line of ours and hides nothing in a name; its amount is
    computed here.
    """
    shown = await sheet(desk, await proposed(desk, "e1", order="1", minor=6_000))
    text = "x\nWhat is safe now"
    answer = EvidenceSheet(
        version=9,
        at=1,
        kind="lookup",
        meaning="effect",
        reference=text,
        money=Money(minor=500, currency="EUR"),
        amount="9.99 EUR",
        result={text: text, "q\u202eab": 1},
    )
    console = Console(file=io.StringIO(), width=120, color_system=None)
    show_case(console, shown.model_copy(update={"evidence": (answer,)}), heading="A case")
    written = str(console.file.getvalue())  # type: ignore[attr-defined] # it is the buffer above
    assert [line for line in written.splitlines() if line.startswith("What is safe now")] == [
        "What is safe now"
    ]
    assert sum("What is safe now" in line for line in written.splitlines()) == 4
    assert "U+202E RIGHT-TO-LEFT OVERRIDE cannot be seen" in written
    assert "5.00 EUR" in written
    assert "9.99 EUR" not in written
