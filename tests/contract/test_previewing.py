"""What every previewer promises: it says what a request would do, and nothing is done by it."""

import inspect

import pytest

from ledger.core.preview import Foreseen
from reconciler.providers.port import Previewer, Unforeseen
from tests.contract.calls import Call, finding, performing, previewing
from tests.contract.stage import Stage
from tests.patience import PATIENCE_MS


async def test_a_preview_says_what_would_happen_and_makes_no_effect(stage: Stage) -> None:
    """Asked ten times, the provider's book has no line of it, and no search finds anything."""
    call = Call.on(stage)
    async with previewing(stage) as previewer, finding(stage) as finder:
        for _ in range(9):
            assert isinstance(await call.preview(previewer), Foreseen)
        seen = await call.preview(previewer)
        assert isinstance(seen, Foreseen)
        assert seen.target == "order:A-1842"
        assert seen.effect
        assert seen.scope
        assert seen.observed == {"balance_minor": 1_000_000, "rate_micros": 1_000_000}
        assert call.entries == []
        assert type(await call.find(finder)).__name__ == "Absent"


async def test_what_is_read_again_has_the_same_names_and_the_values_of_now(stage: Stage) -> None:
    """The same fact, at another time: only its value may differ."""
    call = Call.on(stage)
    async with previewing(stage) as previewer:
        stage.observe(call.account, rate_micros=1_085_000)
        shown = await call.preview(previewer)
        assert isinstance(shown, Foreseen)
        stage.observe(call.account, rate_micros=1_097_000)
        read = await previewer.recheck(call.request, timeout_ms=PATIENCE_MS)
        assert not isinstance(read, Unforeseen)
    assert shown.observed["rate_micros"] == 1_085_000
    assert read == {**shown.observed, "rate_micros": 1_097_000}
    assert call.entries == []


async def test_a_preview_can_change_between_the_first_look_and_the_second(stage: Stage) -> None:
    """As when somebody else takes from the same balance meanwhile."""
    call = Call.on(stage)
    async with previewing(stage) as previewer:
        stage.script_preview(call.action_key, None, balance_minor=9_000)
        stage.script_preview(call.action_key, None, balance_minor=4_000)
        shown = await call.preview(previewer)
        read = await previewer.recheck(call.request, timeout_ms=PATIENCE_MS)
    assert isinstance(shown, Foreseen)
    assert not isinstance(read, Unforeseen)
    assert (shown.observed["balance_minor"], read["balance_minor"]) == (9_000, 4_000)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("down", "previews_unavailable"),
        ("drop", "connection_lost"),
        ("garbage", "answer_invalid"),
        ("refuse", "nothing_to_refund"),
    ],
)
async def test_trouble_is_no_preview_and_has_a_name(stage: Stage, kind: str, code: str) -> None:
    """Never raised, never guessed; the next question may be answered."""
    call = Call.on(stage)
    async with previewing(stage) as previewer:
        stage.script_preview(call.action_key, kind, 2)
        assert await call.preview(previewer) == Unforeseen(code)
        assert await previewer.recheck(call.request, timeout_ms=PATIENCE_MS) == Unforeseen(code)
        assert isinstance(await call.preview(previewer), Foreseen)
    assert call.entries == []


async def test_a_preview_that_takes_too_long_is_none(stage: Stage) -> None:
    """The time that it is given is a hard bound."""
    call = Call.on(stage)
    async with previewing(stage) as previewer:
        # So that the connection is there, whose time has another name.
        assert isinstance(await call.preview(previewer), Foreseen)
        stage.script_preview(call.action_key, "slow", delay_ms=2_000)
        seen = await call.preview(previewer, timeout_ms=150)
    assert isinstance(seen, Unforeseen)
    assert seen.code in {"answer_timed_out", "preview_timed_out"}


async def test_an_account_without_a_credential_foresees_nothing(stage: Stage) -> None:
    """It asks nobody on somebody else's behalf."""
    call = Call(stage, "nobody")
    async with previewing(stage) as previewer:
        assert await call.preview(previewer) == Unforeseen("account_not_configured")


async def test_a_previewer_has_no_way_to_perform(stage: Stage) -> None:
    """Neither the protocol nor the client has a call that makes an effect, or takes a key."""
    async with previewing(stage) as previewer, performing(stage) as performer:
        own = {name for name in dir(previewer) if not name.startswith("_")}
        promised = {name for name in vars(Previewer) if not name.startswith("_")}
        assert own == promised == {"preview", "recheck", "close"}
        assert "perform" in dir(performer)
        for name in ("preview", "recheck"):
            taken = set(inspect.signature(getattr(previewer, name)).parameters)
            assert taken == {"request", "timeout_ms"}
