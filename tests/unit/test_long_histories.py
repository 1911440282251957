"""An action with more facts than are read is shown as cut, and never as whole."""

import contextlib
import io
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal

import pytest
from rich.console import Console

from gateway.cli import actions
from gateway.cli.runs import _no_run
from gateway.cli.webhooks_shown import show_replayed
from gateway.http.cases import case_sheet_of
from gateway.http.sheets import sheet_of
from gateway.memory.installation import open_installation
from gateway.settings import Settings
from gateway.signing_case import resolution_of
from gateway.signing_sheet import SheetDiffersError, check_action
from ledger.core.statement import Move
from projections.queries import Queries
from projections.query_rows import EventRow
from tests.unit.test_gates_at_the_door import POLICY
from tests.unit.test_signing_case import ONE_REFUND, proposed

PAGE = 2


class Kept(Queries):
    """The reads of an action of which these facts are kept, a page at a time."""

    events: tuple[EventRow, ...] = ()

    def __init__(self, _: object = None) -> None:
        """There is no database behind it."""

    async def timeline(
        self, tenant: object, action_key: str, *, after_version: int = 0, limit: int = PAGE
    ) -> tuple[EventRow, ...]:
        """The facts behind a version."""
        later = [one for one in self.events if one.version > after_version]
        return tuple(later[: min(limit, PAGE)])

    async def attempts(self, tenant: object, action_key: str) -> tuple[()]:
        """None is told."""
        return ()

    async def action(self, tenant: object, action_key: str) -> Any:  # noqa: ANN401
        """Something stands there."""
        return ()

    async def _rows(self, *_: object) -> list[Any]:
        return []


@pytest.fixture
async def key(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """An action with at least three facts, read in pages of two."""
    monkeypatch.setattr("projections.queries.ROWS_READ_MAX", PAGE)
    async with open_installation(policy=POLICY) as desk:
        key = await proposed(desk, "return-1", order="o1")
        monkeypatch.setattr(Kept, "events", tuple(desk._queries._events[key]))
        assert len(Kept.events) > PAGE
        yield key


@pytest.mark.parametrize("beyond", [0, 1])
async def test_a_case_with_more_facts_than_are_read_is_not_whole(
    key: str, monkeypatch: pytest.MonkeyPatch, beyond: int
) -> None:
    """A person could have signed what an action had been ten thousand facts after its first one:
    all that were read were as many as there may be, and that was called all.
    """
    count = len(Kept.events)
    monkeypatch.setattr("projections.queries.ACTION_FACTS_MAX", count - beyond)
    found = await Kept().case_sheet("acme", key, limit=count)
    assert found is not None
    assert (len(found.events), found.is_whole) == (count - beyond, beyond == 0)
    least = await Kept().case_sheet("acme", key, limit=1)
    assert least is not None
    assert (len(least.events), least.is_whole) == (1, False)


@pytest.mark.parametrize("is_whole", [True, False])
async def test_a_sheet_of_a_cut_action_says_so_and_is_not_signed(*, is_whole: bool) -> None:
    """Of an approval, which was folded from the first ten thousand facts without a word, and of a
    case, whose door dropped what the read model said of it.
    """
    async with open_installation(policy=ONE_REFUND) as desk:
        keys = [await proposed(desk, f"e{number}", order=str(number)) for number in range(3)]
        found = await desk._queries.case_sheet("acme", keys[-1])
        assert found is not None
        read = replace(found, is_whole=is_whole)
        told: Literal[True] | None = None if is_whole else True
        known, at = desk._published, desk.now_ms
        case = case_sheet_of(read, known, ledger="memory", now_ms=at, you="ada")
        assert (case.more, bool(case.moves)) == (told, is_whole)
        asked = sheet_of(read, (), known, ledger="l", now_ms=at, you="ada")
        assert asked.more is told
    with pytest.raises(SheetDiffersError, match="outdated") if told else nullcontext():
        resolution_of(case, Move.ALLOW, reference=None, comment="It is due.")
    with pytest.raises(SheetDiffersError, match="outdated") if told else nullcontext():
        check_action(asked)


@pytest.mark.parametrize("beyond", [0, 1])
async def test_show_says_that_there_are_more_facts(
    key: str, monkeypatch: pytest.MonkeyPatch, beyond: int
) -> None:
    """It ended with the last one that was read, without a word."""
    count = len(Kept.events)
    for where in ("projections.queries", "projections.limits"):
        monkeypatch.setattr(f"{where}.ACTION_FACTS_MAX", count - beyond)
    monkeypatch.setattr("projections.queries.Queries", Kept)

    async def pool(_: Settings) -> contextlib.AbstractAsyncContextManager[None]:
        return contextlib.nullcontext()

    monkeypatch.setattr("gateway.wiring.installation.open_pool", pool)
    monkeypatch.setattr(actions, "plain", list)
    found = await actions._found(Settings.from_environment({}), key)
    assert found is not None
    assert (len(found["timeline"]), found["more"]) == (count - beyond, beyond == 1)


@pytest.mark.parametrize("more", [True, False])
def test_why_says_that_there_may_be_more_inputs(*, more: bool) -> None:
    """It ended with the thousandth, without a word."""
    shown = io.StringIO()
    actions._show_why(Console(file=shown, width=200), [], None, more=more)
    assert ("there may be more" in shown.getvalue()) is more


@pytest.mark.parametrize("more", [True, False])
def test_a_replay_says_that_more_may_wait(*, more: bool) -> None:
    """It looked at the oldest hundred thousand each time, and called that all."""
    shown = io.StringIO()
    show_replayed(Console(file=shown, width=200), [], [], more=more)
    assert ("there may be more" in shown.getvalue()) is more


def test_a_run_beyond_the_newest_is_not_said_not_to_be() -> None:
    """Where only steps name it, it is looked for among the newest of all tenants."""
    assert "--tenant" in _no_run("r1", is_cut=True).hint
    assert "has no run" in _no_run("r1", is_cut=False).message
