"""Calls as the suite makes them: a request for a fresh action, performed or looked up."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ledger.core.money import Money
from ledger.core.preview import Foreseen
from reconciler.providers.contract.stage import Asked
from reconciler.providers.port import (
    Finder,
    Performer,
    Previewer,
    ProviderRequest,
    Unforeseen,
)
from tests.contract.stage import Behaviour, Entry, Stage
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS

POLL_SECONDS = 0.01
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Call(Asked):
    """One action on one account of a stage."""

    stage: Stage
    account: str
    action_key: str = field(default_factory=lambda: f"charge:v1:acme:event-{next(_numbers)}#item~2")
    amount: int = 4_990

    @classmethod
    def on(cls, stage: Stage, behaviour: Behaviour = Behaviour.HONOURS_KEYS) -> "Call":
        """A fresh action on a fresh account that behaves so."""
        return cls(stage, stage.account(behaviour))

    @property
    def request(self) -> ProviderRequest:
        """The request, the same at every attempt."""
        return ProviderRequest(
            action_key=self.action_key,
            operation="charge",
            version=1,
            target="order:A-1842",
            params={"order": "A-1842", "description": "Zoë, 東京"},
            money=Money(minor=self.amount, currency="USD"),
            account=self.account,
            request_hash="sha256:" + "ab" * 32,
        )

    @property
    def entries(self) -> list[Entry]:
        """The provider's lines for this action."""
        lines = self.stage.book(self.account)
        return [entry for entry in lines if entry.action_key == self.action_key]

    @property
    def effects(self) -> list[str]:
        """The effects that the provider made for this action."""
        return [entry.effect for entry in self.entries if entry.effect is not None]

    async def preview(
        self, previewer: Previewer, *, timeout_ms: int = PATIENCE_MS
    ) -> Foreseen | Unforeseen:
        """Ask what it would do."""
        return await previewer.preview(self.request, timeout_ms=timeout_ms)


@asynccontextmanager
async def performing(stage: Stage) -> AsyncIterator[Performer]:
    """A performer, closed at the end."""
    performer = stage.performer()
    try:
        yield performer
    finally:
        await performer.close()


@asynccontextmanager
async def finding(stage: Stage) -> AsyncIterator[Finder]:
    """A finder, closed at the end."""
    finder = stage.finder()
    try:
        yield finder
    finally:
        await finder.close()


@asynccontextmanager
async def previewing(stage: Stage) -> AsyncIterator[Previewer]:
    """A previewer, closed at the end."""
    previewer = stage.previewer()
    try:
        yield previewer
    finally:
        await previewer.close()


def now_ms() -> int:
    """This machine's clock."""
    return time.time_ns() // 1_000_000


async def eventually(condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until a condition holds; fail when it does not within the time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never came to hold"
        await asyncio.sleep(POLL_SECONDS)
