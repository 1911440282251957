"""A whole installation with its pages, for tests that wait for a browser: in a thread of its own.

Real log, real read model, real owner and projector; people whose passkeys a browser can be given.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import uvicorn
from fastapi import FastAPI
from pydantic import JsonValue

from gateway.http.serve import gateway
from gateway.local.ports import free_ports
from gateway.settings import Settings
from gateway.wiring.publishing import default_catalogue, publish_document
from ledger.client.client import LedgerClient
from ledger.core.ids import stream_key_of
from ledger.core.inputs import (
    CallerOffer,
    CallerReport,
    Evidence,
    EvidenceKind,
    Meaning,
    NoAnswer,
    PreviewRead,
    Propose,
)
from ledger.core.money import Money
from ledger.core.people import People
from ledger.core.people_text import Revoked, with_revoked
from ledger.core.preview import Foreseen
from ledger.core.request import Request
from ledger.log.envelope import outgoing
from ledger.log.published import read_published
from ledger.log.topics import Topic, partition_of
from projections.queries import Queries
from projections.query_rows import EventRow
from projections.roles import Role
from tests.integration.door import database, settings_for
from tests.integration.installation import PARTITIONS, Installation, installed
from tests.integration.test_projecting import ends
from tests.passkeys import SoftwarePasskey
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS
from tests.policies import zone_at_noon
from tests.projecting import running
from tests.servers import Addresses

LOOK_S = 0.02
NONCE = "0123456789abcdef"
CATALOGUE = (
    default_catalogue()
    .replace('name = "ticket"\n', 'name = "ticket"\npreview = "provider"\n', 1)
    .replace('name = "charge"\n', 'name = "charge"\nperformer = "either"\n', 1)
)
"""As it is shipped, but for tickets, of which the provider says what it foresees, and for charges,
which their caller may perform.
"""
ZONE = zone_at_noon(datetime.now(UTC))
POLICY = """
[[ceiling]]
name = "run"
per = "run"
side_effects = 1
tokens = 100_000

[[ceiling]]
name = "day"
per = "tenant"
window = "day"
zone = "ZONE"
spend = { EUR = 100_000_00 }

[[row]]
name = "large-charge"
when.operation = ["charge"]
when.amount.above = { EUR = 1_000_00 }
outcome = "automatic"
ceilings = ["run", "day"]
block_target = true
reason = "Large charges count by run and day, one at a time on an order."

[[row]]
name = "quick"
when.operation = ["ticket"]
outcome = "people"
valid_ms = 5000
reason = "Tickets are decided while somebody is on duty."

[[row]]
name = "two-of-finance"
when.operation = ["refund"]
when.amount.above = { EUR = 1_000_00 }
outcome = "people"
quorum = 2
groups = ["finance"]
reason = "A refund above 1,000 EUR needs two people of finance."

[[row]]
name = "refund"
when.operation = ["refund"]
outcome = "confirmation"
reason = "The amount is above the low-value limit."

[[row]]
name = "message"
when.kind = ["message"]
outcome = "confirmation"
reason = "It reaches somebody who cannot unread it: a person looks at text and recipients."

[[row]]
name = "automatic"
outcome = "automatic"
reason = "Everything else goes ahead."
""".replace("ZONE", ZONE)
PEOPLE = {
    "anna": (11, ["finance"], ["acme"]),
    "bert": (12, ["finance"], ["acme", "globex"]),
    "carla": (13, ["operations"], ["*"]),
    "gus": (14, ["finance"], ["globex"]),
    "eve": (15, ["finance"], ["acme"]),
    "dora": (None, ["finance"], ["acme"]),
}
"""Name, the seed of their passkey, groups and tenants. Dora has none yet."""

_T = TypeVar("_T")


@dataclass
class Stage:
    """What a test works with; every method may be called from the test's own thread."""

    loop: asyncio.AbstractEventLoop
    origin: str
    one: Installation
    client: LedgerClient
    pool: asyncpg.Pool
    settings: Settings

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Do something in the installation's thread and wait for it."""
        done: Future[_T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        return done.result(PATIENCE_SECONDS)

    def propose(self, key: str, **changes: object) -> str:
        """Propose an action, wait until it is decided and projected; its key."""
        self.run(self._proposed(key, changes))
        return key

    async def _proposed(self, key: str, changes: dict[str, object]) -> None:
        operation, version, _, _ = key.split(":")
        fields: dict[str, Any] = {
            "operation": operation,
            "version": int(version[1:]),
            "principal": "agent:support",
            "environment": "production",
            **_USUAL[operation],
            **changes,
        }
        run, caller = fields.pop("run", None), fields.pop("caller", None)
        if isinstance(fields.get("money"), dict):
            fields["money"] = Money(**fields["money"])
        answer = await self.client.propose(
            Propose(key=key, request=Request(**fields), run=run, caller=caller),
            timeout_ms=PATIENCE_MS,
        )
        assert answer.decision.refused is None, answer.decision.refused
        await self.until(lambda: self._is_projected(key, 1))

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Wait until the read model says so."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await holds():
                await asyncio.sleep(LOOK_S)

    async def _is_projected(self, key: str, version: int) -> bool:
        found = await Queries(self.pool).timeline(key.split(":")[2], key)
        return len(found) >= version and found[-1].type != "preview.recorded"

    def foresee(self, key: str, number: int, **observed: JsonValue) -> None:
        """Say what the provider foresees of a ticket, and wait until people are asked."""
        stream = stream_key_of(key)
        said = PreviewRead(
            key=key,
            preview=number,
            provider="simulated",
            account="main",
            foreseen=Foreseen(
                effect="A ticket is opened in the queue.",
                target="queue:billing",
                scope="The people of billing are told.",
                observed=observed,
            ),
        )
        record = outgoing(
            said, stream=stream, subject=key, event_id=f"{key}.{number}", source="/test"
        )
        self.run(self.one.put(Topic.EVIDENCE, partition_of(stream, PARTITIONS), record))
        self.wait_for(key, "approval.requested", times=number)

    def claim(self, key: str, source: str, reference: str, minor: int) -> None:
        """Have the provider say that an action has an effect, and wait until a person is needed."""
        self.tell(key, source, reference, minor, Meaning.EFFECT)
        self.wait_for(key, "review.opened")

    def tell(self, key: str, source: str, reference: str, minor: int, meaning: Meaning) -> None:
        """Have the provider say something about the effect of an action."""
        stream = stream_key_of(key)
        said = Evidence(
            key=key,
            kind=EvidenceKind.WEBHOOK,
            source_id=source,
            provider="simulated",
            account="main",
            meaning=meaning,
            reference=reference,
            money=Money(minor=minor, currency="EUR"),
            raw_sha256=f"sha256:{sha256(source.encode()).hexdigest()}",
        )
        record = outgoing(said, stream=stream, subject=key, event_id=source, source="/test")
        self.run(self.one.put(Topic.EVIDENCE, partition_of(stream, PARTITIONS), record))

    def lose(self, key: str) -> str:
        """Act as the caller of an action, lose the provider's answer, and say so; its key."""
        self.propose(key, caller=CallerOffer(nonce=NONCE, valid_ms=30_000))
        started = self.only(key, "attempt.started")
        said = CallerReport(
            key=key,
            principal="agent:support",
            attempt=1,
            fencing_token=started.data["fencing_token"],
            nonce=NONCE,
            outcome=NoAnswer(code="response_timeout"),
        )
        answer = self.run(self.client.report(said, timeout_ms=PATIENCE_MS))
        assert answer.decision.refused is None, answer.decision.refused
        self.wait_for(key, "attempt.unresolved")
        return key

    def events(self, key: str) -> tuple[EventRow, ...]:
        """An action's facts, as they are projected."""
        return self.run(Queries(self.pool).timeline(key.split(":")[2], key))

    def facts(self, key: str) -> list[str]:
        """Their types."""
        return [one.type for one in self.events(key)]

    def environment(self, folder: Path) -> dict[str, str]:
        """What an operator's command is told."""
        return {
            "ACTIONLEDGER_KAFKA": self.settings.kafka_bootstrap,
            "ACTIONLEDGER_DATABASE": self.settings.database_url.replace(
                Role.GATEWAY.value, Role.OPERATOR.value
            ),
            "ACTIONLEDGER_TOPIC_PREFIX": self.settings.topic_prefix,
            "ACTIONLEDGER_PARTITIONS": str(self.settings.partitions),
            "ACTIONLEDGER_STATE": str(folder),
            "ACTIONLEDGER_CONSOLE_ORIGIN": self.origin,
        }

    def wait_for(self, key: str, fact: str, *, times: int = 1) -> None:
        """Wait until a fact of an action is projected, so many of them."""

        async def holds() -> bool:
            found = await Queries(self.pool).timeline(key.split(":")[2], key)
            return [one.type for one in found].count(fact) >= times

        self.run(self.until(holds))

    def catch_up(self) -> None:
        """Wait until the tables have all that the log has now: what a gate answered may be in them
        before what it counted, which is another partition's.
        """
        self.run(self._caught_up())

    async def _caught_up(self) -> None:
        wanted = await ends(self.one)

        async def holds() -> bool:
            offsets = await Queries(self.pool).offsets()
            return all(offsets[part].next_offset >= end for part, end in wanted.items())

        await self.until(holds)

    def only(self, key: str, fact: str) -> EventRow:
        """An action's one fact of a type, once it is projected: a page may tell of it before."""
        self.wait_for(key, fact)
        (found,) = [one for one in self.events(key) if one.type == fact]
        return found

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait, in the test's own thread, until something holds."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(LOOK_S)

    def revoke(self, name: str) -> None:
        """Revoke a person, as the operator's command does."""

        def change(people: People) -> str:
            done = with_revoked(people, name)
            assert isinstance(done, Revoked), done
            return done.text

        self.run(self._changed(change))

    async def _changed(self, change: Callable[[People], str]) -> None:
        people = (await read_published(self.one.log)).people
        await publish_document(self.one.log, "people", change(people))


_USUAL: dict[str, dict[str, Any]] = {
    "charge": {
        "target": "order:A-1842",
        "params": {"customer": "cus_1", "description": "Renewal of the yearly plan"},
        "money": Money(minor=4_990, currency="EUR"),
    },
    "refund": {
        "target": "order:A-1842",
        "params": {"charge": "ch_1", "reason": "requested_by_customer"},
        "money": Money(minor=12_000, currency="EUR"),
    },
    "ticket": {
        "params": {"title": "Invoice missing", "text": "The invoice of May is missing."},
    },
    "email": {
        "params": {
            "to": ["customer@example.com"],
            "subject": "Your refund",
            "body": "Hello,\n\nyour refund of 120.00 EUR is on its way.\n\nBest regards",
        },
    },
}


def people_document(origin: str) -> str:
    """Who may decide in these tests."""
    parts = []
    for name, (seed, groups, tenants) in PEOPLE.items():
        lines = ["[[person]]", f'name = "{name}"', f"groups = {groups}", f"tenants = {tenants}"]
        if seed is not None:
            key = passkey_of(name, origin).registered()
            lines += [
                "[[person.keys]]",
                f'id = "{key.id}"',
                'kind = "passkey"',
                f'public = "{key.public}"',
                f'rp_id = "{key.rp_id}"',
                f'origin = "{key.origin}"',
            ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def passkey_of(name: str, origin: str) -> SoftwarePasskey:
    """The passkey of one of them."""
    seed = PEOPLE[name][0]
    assert seed is not None
    return SoftwarePasskey.of(seed, rp_id="localhost", origin=origin)


@contextlib.asynccontextmanager
async def _installation(
    loop: asyncio.AbstractEventLoop, servers: Addresses, folder: Path
) -> AsyncIterator[Stage]:
    (port,) = free_ports(1)
    origin = f"http://localhost:{port}"
    async with (
        installed(servers.kafka_bootstrap, CATALOGUE) as one,
        database(servers.admin_url) as url,
        asyncpg.create_pool(url, min_size=2, max_size=8) as pool,
    ):
        await publish_document(one.log, "policy", POLICY)
        await publish_document(one.log, "people", people_document(origin))
        await one.processor()
        own = f"{url}?role={Role.GATEWAY.value}"
        settings = settings_for(servers.kafka_bootstrap, one.log.prefix, own, folder, port=port)
        settings = replace(settings, console_origin=origin)
        async with (
            running(one.log, pool, range(PARTITIONS)),
            gateway(settings) as (app, client),
            _served(app, port),
        ):
            yield Stage(loop, origin, one, client, pool, settings)
        while one.tasks:
            await one.stop()


@contextlib.asynccontextmanager
async def _served(app: FastAPI, port: int) -> AsyncIterator[None]:
    config = uvicorn.Config(
        app, host="127.0.0.1", port=port, log_config=None, lifespan="off", access_log=False
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(LOOK_S)
    try:
        yield
    finally:
        server.should_exit = True
        await serving


@contextlib.contextmanager
def staged(servers: Addresses, folder: Path) -> Iterator[Stage]:
    """The installation, in a thread that ends with the block."""
    ready: Future[Stage] = Future()
    stop = asyncio.Event()

    async def live() -> None:
        try:
            async with _installation(asyncio.get_running_loop(), servers, folder) as stage:
                ready.set_result(stage)
                await stop.wait()
        except BaseException as trouble:
            if not ready.done():
                ready.set_exception(trouble)
            raise

    thread = threading.Thread(target=lambda: asyncio.run(live()), name="stage")
    thread.start()
    try:
        stage = ready.result(PATIENCE_SECONDS * 2)
        yield stage
        stage.loop.call_soon_threadsafe(stop.set)
    finally:
        thread.join(PATIENCE_SECONDS)
