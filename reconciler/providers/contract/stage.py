"""The stage of the second half: a provider that does wrong what it is told to, and its own book.

An adapter's author brings a class that satisfies `Stage`; the suite itself never names a provider.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from reconciler.providers.adapter import Adapter, ProviderSettings
from reconciler.providers.contract.checking import demand
from reconciler.providers.kinds import adapter_of
from reconciler.providers.port import (
    Deadlines,
    Finder,
    Lookup,
    Outcome,
    Performer,
    ProviderRequest,
)

DEADLINES: Final = Deadlines(connect_ms=30_000, response_ms=30_000)
SHORT: Final = Deadlines(connect_ms=30_000, response_ms=400)
SLOW_MS: Final = 3_000
"""How late a slow answer comes: past `SHORT`, within `DEADLINES`."""
WAIT_SECONDS: Final = 30.0
LOOK_UP_MS: Final = 30_000
"""As `DEADLINES`: whoever asks may have a busy machine, and nothing takes longer by it."""
_POLL_SECONDS: Final = 0.02
_numbers = itertools.count(1)


class Fault(StrEnum):
    """What the next request for an action can meet."""

    ANSWER_LOST = "answer_lost"
    """The effect is made, then the connection ends without an answer."""
    LOST_BEFORE = "lost_before"
    """The connection ends while the request is under way, and there is no effect."""
    SLOW_ANSWER = "slow_answer"
    """The effect is made at once, and the answer comes `SLOW_MS` later."""
    REFUSED = "refused"
    """A definite no to this request, for good. A provider that keeps what failed keeps it here too,
    and shows it to whoever looks.
    """
    REFUSED_FOR_NOW = "refused_for_now"
    """A definite no that may be a yes later."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One effect in the provider's own book: what it kept of the request that made it.

    `effect` is its name for it. What the provider has no place for is None.
    """

    effect: str
    account: str
    action_key: str | None
    request_hash: str | None = None
    key: str | None = None


class Stage(Protocol):
    """What an adapter brings to the suite."""

    def settings(self) -> ProviderSettings:
        """Configure the adapter for every account named so far."""
        ...

    def unreachable(self) -> ProviderSettings:
        """Configure it for an address where nobody answers; raises DoesNotApply."""
        ...

    def account(self) -> str:
        """Name a fresh account."""
        ...

    def request(self, account: str, action_key: str, amount: int) -> ProviderRequest:
        """A request that succeeds; another amount is another request, with its own hash."""
        ...

    def meet(self, action_key: str, fault: Fault) -> None:
        """Let the next request for this action meet a fault; raises DoesNotApply where a provider
        of this sort cannot do so, with the reason.
        """
        ...

    def book(self, account: str) -> Sequence[Entry]:
        """The account's effects in the provider's own book, oldest first."""
        ...


def always() -> None:
    """Let every request out."""


class Asked:
    """An action on an account as executors and the inquirer ask about it: always under its own key.
    What stands on a stage brings the account, the key and the request.
    """

    __slots__ = ()

    account: str
    action_key: str

    @property
    def request(self) -> ProviderRequest:
        """The request, the same at every attempt."""
        raise NotImplementedError

    async def perform(
        self,
        performer: Performer,
        *,
        deadlines: Deadlines = DEADLINES,
        guard: Callable[[], None] = always,
    ) -> Outcome:
        """Make one attempt under the action's key."""
        return await performer.perform(
            self.request,
            provider_key=self.action_key,
            deadlines=deadlines,
            before_first_byte=guard,
        )

    async def find(
        self, finder: Finder, *, reference: str | None = None, timeout_ms: int = LOOK_UP_MS
    ) -> Lookup:
        """Look the action up."""
        return await finder.find(
            account=self.account,
            provider_key=self.action_key,
            action_key=self.action_key,
            reference=reference,
            timeout_ms=timeout_ms,
        )


@dataclass(frozen=True, slots=True)
class Call(Asked):
    """One action on one account of a stage."""

    stage: Stage
    account: str
    action_key: str = field(default_factory=lambda: f"charge:v1:acme:suite-{next(_numbers)}")
    amount: int = 4_990

    @classmethod
    def on(cls, stage: Stage) -> "Call":
        """A fresh action on a fresh account."""
        return cls(stage, stage.account())

    @property
    def request(self) -> ProviderRequest:
        """The request, the same at every attempt."""
        return self.stage.request(self.account, self.action_key, self.amount)

    @property
    def entries(self) -> list[Entry]:
        """The effects that the provider made for this action."""
        book = self.stage.book(self.account)
        return [entry for entry in book if entry.action_key in {self.action_key, None}]


def adapter_on(stage: Stage) -> Adapter:
    """The adapter as the stage configures it now."""
    return adapter_of(stage.settings())


@asynccontextmanager
async def performing(stage: Stage) -> AsyncIterator[Performer]:
    """A performer for every account named so far, closed at the end."""
    performer = adapter_on(stage).performer()
    try:
        yield performer
    finally:
        await performer.close()


@asynccontextmanager
async def finding(stage: Stage) -> AsyncIterator[Finder]:
    """A finder for every account named so far, closed at the end."""
    finder = adapter_on(stage).finder()
    try:
        yield finder
    finally:
        await finder.close()


async def eventually(condition: Callable[[], bool], otherwise: str) -> None:
    """Wait until a condition holds; it is a broken promise when it does not within the time."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not await asyncio.to_thread(condition):
        demand(time.monotonic() < deadline, otherwise)
        await asyncio.sleep(_POLL_SECONDS)
