"""A real ledger topic that somebody else can write, a real executor, and a provider that counts
bytes: nothing that was forged makes the executor open a connection.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Mapping

import pytest

from ledger.core.facts import AttemptStarted, IntentRecorded
from ledger.core.inputs import Decline, Publish, Report
from ledger.core.people import people_hash
from ledger.core.policy import policy_hash
from ledger.core.records import Cause, Decision, EpochOpened
from ledger.log.admin import read_genesis
from ledger.log.envelope import encode_ledger, ledger_headers, outgoing, read_input
from ledger.log.port import Outgoing
from ledger.log.topics import Topic
from reconciler.providers.registry import ProviderSettings, performers
from reconciler.providers.simulated.api import API_KEY_PREFIX
from streams import executor as executing
from streams.executor import Executor
from tests.approving import people_text
from tests.examples import CATALOGUE_TEXT, STREAM, T0, TICKET
from tests.forging import FORGED_APPROVAL, FORGED_START, SAID, TABLE, World
from tests.integration.faust_kit import POLL_SECONDS
from tests.integration.installation import PARTITIONS, Installation, installed
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses


class Listener:
    """A provider's address that counts who connects and what is sent, and answers nothing."""

    def __init__(self) -> None:
        self.connections = 0
        self.received_bytes = 0
        self.url = ""

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator["Listener"]:
        """Listen on a free port."""
        server = await asyncio.start_server(self._count, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield self

    async def _count(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError):
            self.received_bytes += len(await reader.read(1 << 16))
        writer.close()


class Forger:
    """Writes to the ledger topic as its owner would, with whatever it likes."""

    def __init__(self, one: Installation, generation: str) -> None:
        self.one = one
        self.generation = generation
        self.offset = 1
        self.records: list[Outgoing] = []

    def open_epoch(self) -> None:
        """Own the partition."""
        opened = EpochOpened(at=self.offset, epoch=1, nonce="n")
        value = encode_ledger(opened, generation=self.generation, partition=0)
        self._add(Outgoing(b"k", value, ledger_headers(opened)))

    def start(self, intent: IntentRecorded, start: AttemptStarted) -> None:
        """An intent and its start, in one decision."""
        facts = (intent, start.model_copy(update={"intent_offset": self.offset}))
        decision = Decision(
            at=self.offset,
            epoch=1,
            cause=Cause(topic="intents", partition=0, offset=self.offset),
            decided_at=T0,
            stream=STREAM,
            facts=facts,
        )
        value = encode_ledger(decision, generation=self.generation, partition=0)
        self._add(Outgoing(STREAM.encode(), value, ledger_headers(decision)))

    def _add(self, record: Outgoing) -> None:
        self.records.append(record)
        self.offset += 1

    async def write(self) -> None:
        """Append what was made."""
        await self.one.put(Topic.LEDGER, 0, *self.records)
        self.records = []


async def publish(one: Installation, kind: str, content: str, digest: str) -> None:
    """Put a document on the config topic."""
    published = Publish.model_validate({"kind": kind, "content": content, "content_hash": digest})
    record = outgoing(
        published, stream=kind, subject=None, event_id=f"{kind}.{digest}", source="/test"
    )
    await one.put(Topic.CONFIG, 0, record)


async def answers(one: Installation, count: int) -> Mapping[str, Decline | Report]:
    """What the executor said of each start, by its action and attempt, behind the genesis."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            records = [
                record
                for part in range(PARTITIONS)
                for record in (await one.records(Topic.ATTEMPTS, part))[1:]
            ]
            if len(records) >= count:
                break
            await asyncio.sleep(POLL_SECONDS)
    said: dict[str, Decline | Report] = {}
    for record in records:
        given = read_input(record)
        assert isinstance(given, Decline | Report)
        said[f"{given.key}/{given.attempt}"] = given
    return said


@contextlib.asynccontextmanager
async def forging(servers: Addresses) -> AsyncIterator[tuple[Forger, Executor, Listener]]:
    """A forger of an installation in which charges need two people, its executor, a provider."""
    async with (
        installed(servers.kafka_bootstrap, CATALOGUE_TEXT) as one,
        Listener().listening() as provider,
    ):
        await publish(one, "policy", TABLE, policy_hash(TABLE))
        await publish(one, "people", people_text(), people_hash(people_text()))
        genesis = await read_genesis(one.log, Topic.LEDGER, 0)
        forger = Forger(one, genesis.generation)
        forger.open_epoch()
        await forger.write()
        keys = {name: API_KEY_PREFIX + name for name in ("main", "other")}
        settings = ProviderSettings("simulated", "simulated", provider.url, keys)
        performer = performers([settings])["simulated"]
        try:
            yield forger, await one.executor(performer), provider
        finally:
            await performer.close()


def worlds(generation: str) -> list[tuple[str, World]]:
    """Every forgery, each about an action of its own, with the name of its refusal."""
    made: list[tuple[str, World]] = []
    numbers = itertools.count()

    def world(**changes: object) -> World:
        key = f"charge:v1:acme:forged-{next(numbers)}"
        return World(key=key, generation=generation, **changes)  # type: ignore[arg-type]

    for code, forged in FORGED_START:
        elsewhere = forged.get("provider") == "other"
        made.append(("no_such_provider_here" if elsewhere else code, world(start_changes=forged)))
    for code, forged in FORGED_APPROVAL:
        made.append((code, world(approval_changes=forged)))
    for code, said in SAID:
        made.append((code, world(said_changes=said)))
    made.extend(
        [
            ("approval_missing", world(start_changes={"approval": None})),
            ("quorum_not_met", world(who=("ann",))),
            ("not_for_tenant", world(who=("ann", "dee"))),
            ("requester_decides", world(intent_changes={"behalf": ("bob",)})),
            ("request_hash_differs", world(start_changes={"request_hash": "sha256:00"})),
            ("offer_time_differs", world(start_changes={"offered_at": 1_700_000_000_000})),
            ("offer_over", world(start_changes={"offered_at": T0 - 7_000})),
            ("offer_over", world(start_changes={"offered_at": T0 + 1})),
            ("unknown_original", world(intent_changes={"compensates": TICKET})),
            ("key_window_closed", world(start_changes={"key_expires_at": T0})),
        ]
    )
    return made


@pytest.mark.case("C105")
async def test_no_forged_start_sends_a_byte(servers: Addresses) -> None:
    """Each field flipped, each signature about something else: declined by name, and the provider
    sees nobody.
    """
    async with forging(servers) as (forger, executor, provider):
        expected: dict[str, str] = {}
        for number, (code, world) in enumerate(worlds(forger.generation), start=1):
            mine = {"holder": executor.incarnation, "offer_sequence": 1}
            start = world.start.model_copy(update=mine)
            if "action" in world.start_changes:
                # Two forgeries may name one action; what is acted on is told apart by its attempt.
                start = start.model_copy(update={"attempt": number, "fencing_token": number})
            intent = world.intent.model_copy(update={"action": start.action})
            forger.start(intent, start)
            expected[f"{start.action}/{start.attempt}"] = code
        await forger.write()
        said = await answers(forger.one, len(expected))
        declined = {name: one.code for name, one in said.items() if isinstance(one, Decline)}
        assert declined == expected
        assert (provider.connections, provider.received_bytes) == (0, 0)


async def test_a_start_that_everything_speaks_for_reaches_the_provider(servers: Addresses) -> None:
    """The same forger's honest start is acted on: the refusals above are not for another reason."""
    async with forging(servers) as (forger, executor, provider):
        world = World(generation=forger.generation)
        mine = {"holder": executor.incarnation, "offer_sequence": 1}
        # Nothing that people saw is read again here: this provider answers nobody.
        again = {"attempt": 2, "fencing_token": 2, **mine}
        world.approval_changes = {"preview": None}
        forger.start(world.intent, world.start.model_copy(update=again))
        await forger.write()
        (said,) = (await answers(forger.one, 1)).values()
        assert isinstance(said, Report)
        assert provider.received_bytes > 0


async def test_what_the_executor_has_not_read_yet_is_waited_for(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start under a table that was published a moment ago is no forgery: it is read first."""
    monkeypatch.setattr(executing, "CONFIG_READ_SECONDS_MAX", PATIENCE_SECONDS)
    async with forging(servers) as (forger, executor, provider):
        table = TABLE + "# reviewed\n"
        world = World(generation=forger.generation, table=table)
        changes: dict[str, object] = {"policy_hash": policy_hash(table)}
        world.approval_changes = {**changes, "preview": None}
        world.said_changes = changes
        mine = {"holder": executor.incarnation, "offer_sequence": 1}
        start = world.start.model_copy(update={"attempt": 2, "fencing_token": 2, **mine})
        forger.start(world.intent, start)
        await publish(forger.one, "policy", table, policy_hash(table))
        await forger.write()
        (said,) = (await answers(forger.one, 1)).values()
        assert isinstance(said, Report)
        assert provider.received_bytes > 0
