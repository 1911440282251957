"""The page about undoing and changing one's mind: its code does what the page says it does."""

import re
from typing import Any

import pytest

from actionledger import AwaitingApproval, Blocked, CallerMistake, SagaResult, Succeeded, testing
from tests.tree import ROOT

PAGE = (ROOT / "docs" / "UNDOING.md").read_text(encoding="utf-8")
CHARGE = "charge:v1:acme:renewal-2026-11-30-01"


def named(name: str) -> Any:  # noqa: ANN401 - whatever the page defines
    """A function of the page, with everything that its block brings."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (block,) = (one for one in blocks if f"def {name}(" in one)
    brought: dict[str, Any] = {}
    exec(compile(block, "docs/UNDOING.md", "exec"), brought)  # noqa: S102 - it is our own page
    return brought[name]


async def test_a_change_of_mind_waits_for_what_is_unknown_and_then_for_a_person() -> None:
    """Blocked while the first may have had its effect; then a person is asked, never nobody."""
    async with testing.ledger() as world:
        world.provider.drop_next_answer()
        revision = await named("change_of_mind")(world.ledger)
        assert isinstance(revision, Blocked)
        assert (revision.key, revision.reason, revision.by) == (
            f"{CHARGE}~2",
            "revised_open",
            CHARGE,
        )
        await world.advance(minutes=2)
        assert isinstance(await world.ledger.get(CHARGE), Succeeded)
        assert isinstance(await world.ledger.get(revision.key), AwaitingApproval)
        assert len(world.provider.effects) == 1


async def test_never_more_is_given_back_than_was_taken() -> None:
    """In two parts; a third is refused by the name that the page says."""
    async with testing.ledger() as world:
        await world.ledger.propose(named("renewal")(4_990))
        give_back = named("give_back")
        for minor, item in ((2_000, "part"), (2_990, "rest")):
            assert isinstance(await give_back(world.ledger, CHARGE, minor, item), Succeeded)
        with pytest.raises(CallerMistake) as refused:
            await give_back(world.ledger, CHARGE, 1, "more")
        assert refused.value.code == "compensation_exceeds"


async def test_a_plan_of_which_a_step_fails_is_undone() -> None:
    """The last payment is declined: the others are given back, the last one first."""
    async with testing.ledger() as world:
        declined = {"kind": "refuse", "code": "card_declined"}
        world.provider.script(declined, action_key="charge:v1:acme:order-2026-11-30-07#gift")
        result = await named("order")(world.ledger)
        assert isinstance(result, SagaResult)
        assert result.status == "compensated"
        done = [(one.action_key or "").rpartition("#")[2] for one in world.provider.effects]
        assert done == ["goods", "freight", "freight", "goods"]
