"""An agent's own function behind the decorator, and the client without an event loop: the same as
`Ledger.perform`, said otherwise.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial, wraps

import pytest

from actionledger import ActionRaised, Call, Effect, Portal, Result, Succeeded, testing
from tests.unit.test_performing import EITHER, Tool, charge, facts_of, raising


@pytest.fixture(name="world")
async def _world() -> AsyncIterator[testing.World]:
    """Open a ledger whose operations a caller may perform."""
    async with testing.ledger(EITHER) as one:
        yield one


async def test_a_decorated_function_is_the_same_under_its_own_name(world: testing.World) -> None:
    """Its arguments make the intent; frameworks see the plain function without the call."""

    @world.ledger.action(lambda event, minor: charge(event, minor=minor))
    async def pay(call: Call, event: str, minor: int) -> Effect:
        """Charge the customer."""
        return Effect(f"{event}/{minor}/{call.attempt}")

    result = await pay("e-1", minor=7)
    assert isinstance(result, Succeeded)
    assert result.reference == "e-1/7/1"
    assert pay.__name__ == "pay"
    assert pay.__doc__ == "Charge the customer."
    signature = inspect.signature(pay)
    assert list(signature.parameters) == ["event", "minor"]
    assert signature.return_annotation == Result


async def test_a_function_that_blocks_is_refused_when_it_is_decorated(
    world: testing.World,
) -> None:
    """It would hold up everything else; the message says what to write instead."""

    def pay(_call: Call, _event: str) -> Effect:
        return Effect("ch_1")

    with pytest.raises(TypeError, match="to_thread"):
        world.ledger.action(charge)(pay)  # type: ignore[arg-type]


async def test_a_function_that_takes_its_call_elsewhere_is_refused_when_it_is_decorated(
    world: testing.World,
) -> None:
    """A method as they are mostly written would be given the call for itself: it would be started,
    raise, and be unknown until somebody settles it.
    """

    async def late(_event: str, call: Call) -> Effect:
        return Effect(call.key)

    with pytest.raises(TypeError, match="Call first"):
        world.ledger.action(charge)(late)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match=r"\(call, self, …\)"):

        class Wrong:
            @world.ledger.action(lambda _self, event: charge(event))  # type: ignore[arg-type]
            async def pay(self, call: Call, _event: str) -> Effect:
                return Effect(call.key)

    class Agent:
        prefix = "ch_"

        @world.ledger.action(lambda _self, event: charge(event))  # type: ignore[arg-type]
        async def pay(call: Call, self: "Agent", event: str) -> Effect:  # noqa: N805
            return Effect(f"{self.prefix}{event}/{call.attempt}")

    result = await Agent().pay("e-1")
    assert isinstance(result, Succeeded)
    assert result.reference == "ch_e-1/1"


async def test_arguments_that_the_function_does_not_take_start_nothing(
    world: testing.World,
) -> None:
    """It would be called after the start, and what it never did would be unknown."""

    async def pays(_call: Call, event: str) -> Effect:
        return Effect(event)

    pay = world.ledger.action(lambda event, **_: charge(event))(pays)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="minor"):
        await pay("renewal-1", minor=7)
    assert isinstance(await pay("renewal-1"), Succeeded)
    assert (await facts_of(world, "charge:v1:acme:renewal-1")).count("attempt.started") == 1


async def test_what_another_decorator_gives_the_function_is_no_argument_of_the_caller(
    world: testing.World,
) -> None:
    """A tool that is given its bank by an ordinary decorator was refused for lack of one."""

    def with_bank(tool: Callable[..., Awaitable[Effect]]) -> Callable[..., Awaitable[Effect]]:
        @wraps(tool)
        async def given(call: Call, *args: object, **kwargs: object) -> Effect:
            return await tool(call, "bank", *args, **kwargs)

        return given

    @world.ledger.action(charge)
    @with_bank
    async def pay(_call: Call, bank: str, event: str) -> Effect:
        return Effect(f"{bank}/{event}")

    result = await pay("renewal-1")
    assert isinstance(result, Succeeded)
    assert result.reference == "bank/renewal-1"
    assert pay.__name__ == "pay"


async def test_a_function_of_which_a_part_is_given_is_decorated_under_its_own_name(
    world: testing.World,
) -> None:
    """It was an AttributeError; what it is given is no argument of the caller."""

    async def pays(bank: str, _call: Call, event: str) -> Effect:
        """Charge the customer."""
        return Effect(f"{bank}/{event}")

    pay = world.ledger.action(charge)(partial(pays, "bank"))
    result = await pay("renewal-1")
    assert isinstance(result, Succeeded)
    assert result.reference == "bank/renewal-1"
    assert (pay.__name__, pay.__doc__) == ("pays", "Charge the customer.")
    assert list(inspect.signature(pay).parameters) == ["event"]
    with pytest.raises(TypeError, match="missing"):
        await pay()


def test_a_program_without_a_loop_uses_the_same_client_through_a_portal() -> None:
    """Every call is there as a plain one, and what is raised comes through."""
    tool = Tool()
    with Portal() as portal:
        world = portal.enter(testing.ledger(EITHER))
        result = portal.call(world.ledger.perform, charge(), tool)
        again = portal.call(world.ledger.propose, charge())
        with pytest.raises(ActionRaised):
            portal.call(world.ledger.perform, charge("other"), raising(KeyError("x")))
    assert isinstance(result, Succeeded)
    assert isinstance(again, Succeeded)
    assert len(tool.calls) == 1
