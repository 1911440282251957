"""Test an agent in milliseconds: a whole ledger in memory, a clock moved by hand, a provider that
does wrong on demand.

    async def test_a_lost_answer_is_found_out() -> None:
        async with testing.ledger() as world:
            world.provider.drop_next_answer()
            await my_agent(world.ledger)
            await world.advance(minutes=11)
            assert len(world.provider.effects) == 1

Guarantees that the agent meets the ledger's own rules: the product decides, not a copy of it, so
`actionledger[testing]` has to be installed. Time passes only while a call waits and when the test
moves it; nothing sleeps. Must never be used for effects that anyone wants.
"""

import importlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, cast

import httpx
from pydantic import JsonValue

from actionledger.client import Ledger
from actionledger.errors import LedgerTrouble
from actionledger.exchange import Retries
from actionledger.performing import Call, EffectNotSent, EffectRefused, EffectUnknown

__all__ = [
    "DecisionRefused",
    "Effect",
    "NotInstalled",
    "Provider",
    "Unreachable",
    "World",
    "ledger",
]

PRODUCT: Final = "gateway.memory"
"""Where the product keeps it. The client itself never imports the product."""

TENANT: Final = "acme"
PRINCIPAL: Final = "agent:test"
PERSON: Final = "ada"
"""Who decides where a test names nobody."""


class NotInstalled(LedgerTrouble):
    """The ledger itself is not installed beside this client."""


class DecisionRefused(Exception):
    """What a person said does not count; `code` says why, as the ledger does."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Unreachable(httpx.TransportError):
    """What a call meets while `World.cut_off` holds."""


class _Installation(Protocol):
    """The product's ledger in memory, as much of it as is used here."""

    app: Any

    @property
    def address(self) -> str: ...
    @property
    def now_ms(self) -> int: ...
    def api_key(self, tenant: str, principal: str) -> str: ...
    async def advance(self, delay_ms: int) -> None: ...
    def script(self, script: Mapping[str, JsonValue]) -> None: ...
    def behave(self, personality: Mapping[str, JsonValue]) -> None: ...
    def send_webhooks(self, after_ms: int | None) -> None: ...
    def effects(self) -> list[dict[str, Any]]: ...
    async def timeline(self, key: str) -> list[dict[str, Any]]: ...
    async def call_provider(
        self, operation: str, *, key: str, action_key: str, minor: int | None, currency: str | None
    ) -> tuple[str, str]: ...
    async def decide(
        self, key: str, decision: str, *, by: str, comment: str | None = None
    ) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that the provider really did. `key` is the idempotency key that it came under."""

    reference: str
    operation: str
    key: str | None
    action_key: str | None
    minor: int | None
    currency: str | None


class Provider:
    """The outside world. A fault is for the next request, or the next `times`, that fits."""

    def __init__(self, installation: _Installation) -> None:
        self._installation = installation

    @property
    def effects(self) -> tuple[Effect, ...]:
        """Everything that was done, in its order, whatever was answered."""
        return tuple(_effect(one) for one in self._installation.effects())

    def drop_next_answer(self, *, times: int = 1, operation: str | None = None) -> None:
        """Do it, and let the answer be lost."""
        self.script({"kind": "commit_then_drop"}, times=times, operation=operation)

    def drop_next_request(self, *, times: int = 1, operation: str | None = None) -> None:
        """Lose the request on its way: nothing is done, and nobody can tell."""
        self.script({"kind": "drop_before_commit"}, times=times, operation=operation)

    def refuse_next(
        self, code: str = "card_declined", *, times: int = 1, operation: str | None = None
    ) -> None:
        """Say definitely no."""
        self.script({"kind": "refuse", "code": code}, times=times, operation=operation)

    def limit_next(self, *, seconds: int = 1, times: int = 1, operation: str | None = None) -> None:
        """Say that there are too many requests now, and when to come again."""
        fault: dict[str, JsonValue] = {"kind": "limit", "retry_after_s": seconds}
        self.script(fault, times=times, operation=operation)

    def slow_next(
        self, *, before_ms: int = 0, after_ms: int = 0, times: int = 1, operation: str | None = None
    ) -> None:
        """Take this long before doing it, and this long before answering."""
        fault: dict[str, JsonValue] = {"kind": "slow", "before_ms": before_ms, "after_ms": after_ms}
        self.script(fault, times=times, operation=operation)

    def script(
        self,
        fault: Mapping[str, JsonValue],
        *,
        times: int = 1,
        operation: str | None = None,
        action_key: str | None = None,
    ) -> None:
        """Play any fault of the simulated provider, by its `kind`. Raises ValueError."""
        named = {"operation": operation, "action_key": action_key}
        match: dict[str, JsonValue] = {
            name: value for name, value in named.items() if value is not None
        }
        self._installation.script({"match": match, "times": times, "fault": dict(fault)})

    def behave(self, **personality: JsonValue) -> None:
        """How it behaves where nothing is scripted: `keys="ignored"`, `search="unavailable"`,
        `search_lag_ms=…` and more. Raises ValueError.
        """
        self._installation.behave(personality)

    def send_webhooks(self, *, after_ms: int = 500) -> None:
        """From now on tell of every effect and refusal, this much later."""
        self._installation.send_webhooks(after_ms)

    async def call(
        self, call: Call, operation: str, *, minor: int | None = None, currency: str | None = None
    ) -> str:
        """What an agent's own tool does inside a decorated function: have the effect, under the
        call's provider key; its reference. Raises EffectRefused, EffectNotSent and
        EffectUnknown, and ValueError for an operation that the catalogue does not have.
        """
        kind, said = await self._installation.call_provider(
            operation, key=call.provider_key, action_key=call.key, minor=minor, currency=currency
        )
        match kind:
            case "succeeded":
                return said
            case "refused":
                raise EffectRefused(said)
            case "refused_for_now":
                raise EffectRefused(said, retry="later")
            case "not_sent":
                raise EffectNotSent(said)
            case _:
                raise EffectUnknown(said)


class World:
    """A ledger, its provider and its time. `ledger` is what an agent gets."""

    def __init__(self, installation: _Installation) -> None:
        self._installation = installation
        self._transport = _Transport(installation.app)
        self.provider = Provider(installation)
        self.ledger = self.ledger_of(TENANT, PRINCIPAL)

    def ledger_of(self, tenant: str, principal: str) -> Ledger:
        """A client of another tenant or principal; it needs no closing."""
        return Ledger(
            self._installation.address,
            self._installation.api_key(tenant, principal),
            transport=self._transport,
            retries=Retries(first_ms=1, cap_ms=1),
            clock=lambda: self._installation.now_ms / 1_000,
        )

    @property
    def now_ms(self) -> int:
        """The time, in milliseconds since the epoch."""
        return self._installation.now_ms

    async def advance(
        self, *, hours: float = 0, minutes: float = 0, seconds: float = 0, ms: int = 0
    ) -> None:
        """Let time pass, and everything happen that is due in it. Raises ValueError for less than
        nothing.
        """
        whole_ms = int((hours * 3_600 + minutes * 60 + seconds) * 1_000) + ms
        if whole_ms < 0:
            raise ValueError("time only goes on")
        await self._installation.advance(whole_ms)

    async def facts(self, key: str) -> list[dict[str, Any]]:
        """Everything that the ledger recorded of an action, in order; `type` names each."""
        return await self._installation.timeline(key)

    async def approve(self, key: str, *, by: str = PERSON, comment: str | None = None) -> None:
        """A person agrees to an action that waits for people, with a real signature. Raises
        DecisionRefused where it does not count, ValueError where nobody is asked or `by` is nobody.
        """
        await self._decide(key, "approve", by, comment)

    async def deny(self, key: str, *, by: str = PERSON, comment: str | None = None) -> None:
        """A person says no; as `approve`."""
        await self._decide(key, "deny", by, comment)

    async def withdraw(self, key: str, *, by: str = PERSON) -> None:
        """A person takes back that they agreed, before anything began; as `approve`."""
        await self._decide(key, "withdraw", by, None)

    async def _decide(self, key: str, decision: str, by: str, comment: str | None) -> None:
        refused = await self._installation.decide(key, decision, by=by, comment=comment)
        if refused is not None:
            raise DecisionRefused(refused)

    def lose_next_answer(self, *, of: Literal["propose", "outcome"] = "propose") -> None:
        """Let the ledger's own next answer be lost on its way; the client asks again."""
        self._transport.losing.append(of)

    def cut_off(self) -> None:
        """From now on no call reaches the ledger, until `reconnect`."""
        self._transport.is_cut_off = True

    def reconnect(self) -> None:
        """Calls reach the ledger again."""
        self._transport.is_cut_off = False

    def _end(self) -> None:
        """Nothing is here any more: whoever asks from now on is told so."""
        self._transport.is_over = True


class _Transport(httpx.AsyncBaseTransport):
    """The way to the door, which may lose an answer or everything."""

    def __init__(self, app: Any) -> None:  # noqa: ANN401 - an ASGI application has no type here
        self._inner = httpx.ASGITransport(app)
        self.losing: list[str] = []
        self.is_cut_off = False
        self.is_over = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.is_over:
            raise RuntimeError("This ledger ended with its test; ask inside `async with`.")
        if self.is_cut_off:
            raise Unreachable("The test has cut this client off.")
        response = await self._inner.handle_async_request(request)
        asked = "outcome" if request.url.path.endswith("/outcome") else "propose"
        if request.method == "POST" and self.losing and self.losing[0] == asked:
            self.losing.pop(0)
            raise Unreachable("The test has lost this answer.")
        return response


def _effect(made: Mapping[str, Any]) -> Effect:
    amount = made.get("amount") or {}
    return Effect(
        reference=made["id"],
        operation=made["operation"],
        key=made.get("key"),
        action_key=made["metadata"].get("action_key"),
        minor=amount.get("minor"),
        currency=amount.get("currency"),
    )


@asynccontextmanager
async def ledger(
    catalogue: str | None = None,
    *,
    policy: str | None = None,
    people: Mapping[str, Sequence[str]] | None = None,
    seed: int = 0,
) -> AsyncIterator[World]:
    """A ledger for one test, with this operation catalogue (its TOML), by default the shipped one.

    Without a decision table (`policy`, its TOML) everything goes ahead by itself. With one these
    people may decide, each in the groups that stand behind their name; without them `ada` and
    `ben`, who are in none. Raises NotInstalled where the product is not there.
    """
    given: dict[str, Any] = {"policy": policy, "seed": seed}
    if people is not None:
        given["people"] = people
    async with _open(catalogue, given) as installation:
        world = World(installation)
        try:
            yield world
        finally:
            world._end()  # noqa: SLF001 - of this module


def _open(
    catalogue: str | None, given: Mapping[str, Any]
) -> AbstractAsyncContextManager[_Installation]:
    try:
        product = importlib.import_module(PRODUCT)
        opened = product.open_installation(catalogue, **given)
    except (ImportError, AttributeError) as missing:
        raise NotInstalled(
            f"The ledger to test with is not installed ({missing}).",
            hint="Install actionledger[testing] in the environment of the tests.",
        ) from missing
    return cast("AbstractAsyncContextManager[_Installation]", opened)
