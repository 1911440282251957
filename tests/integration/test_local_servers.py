"""The local servers hold what they promise, on this machine and under this user."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import asyncpg
import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from gateway import local
from gateway.local.control import down, reset, status, up
from gateway.local.errors import PortTakenError, ProcessFailedError
from gateway.local.kafka import SUPER_USER
from gateway.local.postgres import PostgresServer
from gateway.local.processes import Command, Identity, identify, is_running
from gateway.local.servers import end_leftovers, temporary_folder
from gateway.local.service import ExitsCleanly, HttpOk, Service
from gateway.local.state import (
    Phase,
    ProcessRecord,
    StateFolder,
    default_cache_folder,
    lock,
    read_state,
)
from ledger.log.access import OPEN, KafkaAccess, Mechanism, Protocol
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

LOOK_SECONDS = 0.02
LET_GO_SECONDS = 0.3


async def until(condition: Callable[[], bool]) -> None:
    """Fail when the condition does not hold in time."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(LOOK_SECONDS)


async def create_topic(bootstrap: str, name: str, access: KafkaAccess = OPEN) -> None:
    """Make a topic of one partition."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, **access.options())
    await admin.start()
    try:
        answer = await admin.create_topics([NewTopic(name, 1, 1)])
        assert answer.topic_errors[0][1] == 0
    finally:
        await admin.close()


async def append(
    bootstrap: str, topic: str, *values: bytes, access: KafkaAccess = OPEN
) -> list[int]:
    """Append durably and return the offsets."""
    options = {"bootstrap_servers": bootstrap, **access.options()}
    producer = AIOKafkaProducer(enable_idempotence=True, acks="all", **options)
    await producer.start()
    try:
        return [(await producer.send_and_wait(topic, value)).offset for value in values]
    finally:
        await producer.stop()


async def read_all(
    bootstrap: str, topic: str, access: KafkaAccess = OPEN
) -> list[tuple[int, bytes]]:
    """Read a partition from its start to its end."""
    partition = TopicPartition(topic, 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, **access.options())
    await consumer.start()
    try:
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        records: list[tuple[int, bytes]] = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(records) < end:
                batch = await consumer.getmany(partition, timeout_ms=200)
                records += [(each.offset, each.value) for each in batch.get(partition, [])]
        return records
    finally:
        await consumer.stop()


async def query(url: str, *statements: str) -> object:
    """Run the statements and return the first value of the last one."""
    connection = await asyncpg.connect(url)
    try:
        for statement in statements[:-1]:
            await connection.execute(statement)
        return await connection.fetchval(statements[-1])
    finally:
        await connection.close()


async def test_shared_servers_answer(servers: Addresses, database_url: str) -> None:
    """Kafka takes a topic and Postgres a query on a database of the test's own."""
    await create_topic(servers.kafka_bootstrap, "shared-servers-answer")
    assert await query(database_url, "SELECT 1") == 1


async def test_kafka_comes_back_from_a_kill_with_every_acknowledged_record(
    module_servers: local.Servers,
) -> None:
    """After SIGKILL the broker is ready again and holds all it acknowledged."""
    kafka = module_servers.kafka_bootstrap
    await create_topic(kafka, "kept")
    offsets = await append(kafka, "kept", b"a", b"b", b"c")
    await module_servers.kafka.kill()
    await module_servers.kafka.restart()
    assert await read_all(kafka, "kept") == list(zip(offsets, [b"a", b"b", b"c"], strict=True))


async def test_postgres_comes_back_from_a_kill_with_every_committed_row(
    module_servers: local.Servers,
) -> None:
    """After SIGKILL of the server and its backends a committed row is there."""
    url = module_servers.database_url
    await query(url, "CREATE TABLE kept (id int)", "INSERT INTO kept VALUES (7) RETURNING id")
    await module_servers.postgres.kill()
    await module_servers.postgres.restart()
    assert await query(url, "SELECT id FROM kept") == 7


async def test_another_run_on_the_same_folder_finds_ports_and_data() -> None:
    """Ports, records and rows of a folder outlive a clean end, also below an awkward path."""
    with temporary_folder() as parent:
        folder = parent / "Äpfel, 100 % 'state'"
        async with local.servers(folder) as first:
            await create_topic(first.kafka_bootstrap, "kept")
            await append(first.kafka_bootstrap, "kept", b"value")
            await query(first.database_url, "CREATE TABLE kept (id int)", "SELECT 1")
        async with local.servers(folder) as second:
            assert second.kafka_bootstrap == first.kafka_bootstrap
            assert second.database_url == first.database_url
            assert await read_all(second.kafka_bootstrap, "kept") == [(0, b"value")]
            assert await query(second.database_url, "SELECT count(*) FROM kept") == 0


async def test_postgres_asks_for_a_password_and_runs_without_rights(
    module_servers: local.Servers,
) -> None:
    """Nobody gets in without the password, nobody from outside at all, and root is not involved."""
    url = module_servers.database_url
    password = url.split(":")[2].split("@")[0]
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(url.replace(password, "guess"))
    for name, expected in {
        "fsync": "on",
        "data_checksums": "on",
        "listen_addresses": "127.0.0.1",
        "password_encryption": "scram-sha-256",
    }.items():
        assert await query(url, f"SHOW {name}") == expected
    assert await query(url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
    assert module_servers.postgres.identity is not None
    assert 0 not in psutil.Process(module_servers.postgres.identity.pid).uids()


async def test_servers_end_with_the_process_that_started_them() -> None:
    """A test run that is killed leaves no server behind."""
    program = (
        "import asyncio\n"
        "from gateway import local\n"
        "async def main():\n"
        "    async with local.servers() as s:\n"
        "        for each in (s.kafka.identity, s.postgres.identity):\n"
        "            print(each.pid, each.created_at, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    runner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert runner.stdout is not None
    started = []
    for _ in range(2):
        pid, created_at = (await runner.stdout.readline()).split()
        started.append(Identity(int(pid), int(created_at)))
    assert all(map(is_running, started))
    runner.kill()
    await runner.wait()
    await until(lambda: not any(map(is_running, started)))


async def test_a_taken_port_is_told_with_its_holder() -> None:
    """When another program sits on the agreed port, one sentence names it and the way out."""
    with temporary_folder() as folder, socket.socket() as squatter:
        state = StateFolder.hold(folder)
        port = state.state.ports["postgres"]
        state.release()
        squatter.bind(("127.0.0.1", port))
        squatter.listen()
        with pytest.raises(PortTakenError) as caught:
            async with local.servers(folder):
                pass
        assert caught.value.port == port
        assert f"(pid {os.getpid()})" in caught.value.message
        assert "actionledger up --port postgres=0" in caught.value.hint


async def test_a_server_that_ends_at_once_is_told_with_what_was_in_its_way() -> None:
    """Not with its goodbye. Here somebody takes the port between the look and the start."""
    with temporary_folder() as folder, socket.socket() as squatter:

        class Late(PostgresServer):
            def _launch(self, command: Command) -> None:
                squatter.bind(("127.0.0.1", self.port))
                squatter.listen()
                super()._launch(command)

        state = StateFolder.hold(folder)
        postgres = Late(state)
        try:
            await postgres.start()
            with pytest.raises(ProcessFailedError, match="could not create any TCP/IP sockets"):
                await postgres.wait_ready()
        finally:
            await postgres.stop()
            state.release()


async def test_another_program_with_a_recorded_pid_is_left_alone() -> None:
    """A pid on record that belongs to a later process is neither ended nor taken over."""
    bystander = await asyncio.create_subprocess_exec("sleep", "600")
    try:
        found = identify(bystander.pid)
        assert found is not None
        with temporary_folder() as folder:
            state = StateFolder.hold(folder)
            stale = ProcessRecord(
                pid=found.pid, created_at=found.created_at - 60_000, port=None, log=folder / "log"
            )
            state.change(processes={"kafka": stale, "postgres": stale, "supervisor": stale})
            await end_leftovers(state)
            state.change(processes={"kafka": stale, "postgres": stale, "supervisor": stale})
            state.release()
            assert await down(folder) is False
            assert is_running(found)
    finally:
        bystander.kill()
        await bystander.wait()


def web_service() -> tuple[Service, ...]:
    """Describe a step and a small web server, as the product's own services would be."""
    python = sys.executable
    serve = ("-m", "http.server", "{port}", "--bind", "127.0.0.1", "--directory", "{folder}/run")
    return (
        Service(name="step", argv=(python, "-c", "pass"), ready=ExitsCleanly()),
        Service(name="web", argv=(python, *serve), port=0, ready=HttpOk()),
    )


async def test_up_keeps_everything_running_and_down_keeps_the_data() -> None:
    """`up` survives kills of a service, of Kafka and of the supervisor; data stay until `reset`."""
    cache, services = default_cache_folder(), web_service()
    with temporary_folder() as folder:
        try:
            running = await up(folder, cache, services)
            kafka, access = super_user(folder)
            await create_topic(kafka, "kept", access)
            await append(kafka, "kept", b"value", access=access)
            before = pids(folder)

            os.kill(before["web"], signal.SIGKILL)
            os.kill(before["kafka"], signal.SIGKILL)
            await until(lambda: restarts(folder).keys() >= {"web", "kafka"})

            os.kill(before["supervisor"], signal.SIGKILL)
            await until(lambda: status(folder).phase is Phase.FAILED)
            left = [identify(pid) for pid in pids(folder).values()]
            held = await take(folder)
            # As the kernel does: a process counts as ended moments before it lets go of its files.
            asyncio.get_running_loop().call_later(LET_GO_SECONDS, os.close, held)
            assert await up(folder, cache, services) == running
            assert not any(is_running(each) for each in left if each is not None)
            assert await up(folder, cache, services) == running  # and again changes nothing
            assert await read_all(kafka, "kept", access) == [(0, b"value")]
        finally:
            assert await down(folder)
        assert pids(folder) == {}
        assert status(folder).phase is Phase.STOPPED
        assert await reset(folder, lambda question: str(folder) not in question) is False
        assert (folder / "kafka").exists()
        assert await reset(folder, lambda question: str(folder) in question)
        assert [path.name for path in folder.iterdir()] == ["lock"]


def super_user(folder: Path) -> tuple[str, KafkaAccess]:
    """Where the one connects who may do everything at the Kafka that `up` runs, and how."""
    state = read_state(folder)
    assert state is not None
    access = KafkaAccess(Protocol.SASL_PLAINTEXT, Mechanism.PLAIN, SUPER_USER, state.kafka_password)
    return state.kafka_admin_bootstrap, access


async def take(folder: Path) -> int:
    """Take the folder's lock as soon as nobody has it; the descriptor to close for its release."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (held := lock(folder / "lock")) is None:
            await asyncio.sleep(LOOK_SECONDS)
    return held


def pids(folder: Path) -> dict[str, int]:
    """Tell which processes of the folder run."""
    return {each.name: each.pid for each in status(folder).processes if each.pid is not None}


def restarts(folder: Path) -> dict[str, int]:
    """Tell who was started again and is ready."""
    return {
        each.name: each.restarts
        for each in status(folder).processes
        if each.restarts and each.phase is Phase.READY
    }


async def test_a_taken_port_of_a_service_is_told_before_anything_starts() -> None:
    """Not after the servers are up, and nothing is kept of the try."""
    with temporary_folder() as folder, socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        port = squatter.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"Port {port} on 127.0.0.1, which web listens"):
            await up(folder, default_cache_folder(), web_service(), wanted_ports={"web": port})
        assert not (folder / "kafka").exists()
        assert pids(folder) == {}
        assert status(folder).phase is Phase.STOPPED


async def test_a_service_that_does_not_start_leaves_nothing_running() -> None:
    """`up` tells what the service said last, and has ended what it had started."""
    broken = Service(
        name="broken",
        argv=(sys.executable, "-c", "import sys; sys.exit('no such catalogue')"),
        ready=ExitsCleanly(),
    )
    with temporary_folder() as folder:
        with pytest.raises(local.LocalError, match="no such catalogue") as caught:
            await up(folder, default_cache_folder(), (broken,))
        assert "broken.log" in caught.value.hint
        assert pids(folder) == {}
        assert status(folder).failure == (caught.value.message, caught.value.hint)
