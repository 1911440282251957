"""The HTTP door when what it needs is away: what it says, and that it comes back by itself."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from gateway import local
from gateway.http import following
from gateway.http import serve as serving
from gateway.http.serve import CannotServeError, gateway, serve
from gateway.keys import Role, create_key
from gateway.local.ports import free_ports
from gateway.settings import Settings
from ledger.log.topics import Topic
from ledger.log.webhook_record import WebhookReceived, read_webhook
from tests.integration.door import (
    POLL_SECONDS,
    Door,
    charge_body,
    database,
    opened,
    settings_for,
    signed,
)
from tests.integration.installation import PARTITIONS, Installation, installed
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = [pytest.mark.servers, pytest.mark.asyncio(loop_scope="module")]

PROGRAM = (
    "import asyncio, signal\n"
    "from gateway.http.serve import serve\n"
    "from gateway.settings import Settings\n"
    "async def main():\n"
    "    stop = asyncio.Event()\n"
    "    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)\n"
    "    await serve(Settings.from_environment(), stop)\n"
    "asyncio.run(main())\n"
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def killable() -> AsyncIterator[local.Servers]:
    """Run a Kafka and a Postgres for the tests of this file that kill them."""
    async with local.servers() as started:
        yield started


def free_port() -> int:
    """A port that nobody uses, nor is given before we listen there."""
    (port,) = free_ports(1)
    return port


async def until_ready(http: httpx.AsyncClient) -> None:
    """Wait until every part answers."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                if (await http.get("/readyz")).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(POLL_SECONDS)


async def webhooks_of(one: Installation) -> list[str]:
    """The event ids in the log, once for each delivery that was kept."""
    found = []
    for partition in range(PARTITIONS):
        for record in await one.records(Topic.WEBHOOKS, partition):
            webhook = read_webhook(record)
            assert isinstance(webhook, WebhookReceived)
            found.append(webhook.event_id)
    return found


async def test_without_a_broker_nothing_is_confirmed_and_with_it_all_goes_on(
    killable: local.Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 says that nothing is known and that the same key is safe; later it is one action."""
    addresses = Addresses(killable.kafka_bootstrap, killable.admin_url)
    async with opened(addresses, tmp_path) as door:
        await door.one.processor()
        await door.one.executor()
        before = await door.propose(charge_body("before"), query="?wait_ms=30000")
        assert before.json()["status"] == "completed"
        await killable.kafka.kill()
        monkeypatch.setattr(following, "ASK_MS_MAX", 1_500)
        monkeypatch.setattr(serving, "WEBHOOK_APPEND_MS_MAX", 1_500)
        asked = await door.propose(charge_body("during"))
        assert asked.status_code == 503
        assert asked.json()["code"] == "not_durable"
        assert "same key" in asked.json()["hint"]
        assert asked.headers["retry-after"] == "1"
        hook = signed(b"{}", event_id="evt_during")
        sent = await door.http.post("/v1/webhooks/simulated", content=b"{}", headers=hook)
        assert sent.status_code == 503
        assert sent.json()["code"] == "webhook_not_durable"
        ready = await door.http.get("/readyz")
        assert ready.status_code == 503
        assert [part["code"] for part in ready.json()["problems"]] == ["log"]
        assert (await door.http.get("/healthz")).status_code == 200
        known = await door.get("/v1/actions/charge:v1:acme:before")
        assert known.json()["status"] == "completed"

        monkeypatch.undo()
        await killable.kafka.restart()
        await until_ready(door.http)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await door.propose(charge_body("during"))).status_code == 503:
                await asyncio.sleep(POLL_SECONDS)
            while True:
                again = await door.http.post("/v1/webhooks/simulated", content=b"{}", headers=hook)
                if again.status_code == 202:
                    break
        assert "evt_during" in await webhooks_of(door.one)
        assert await intents_recorded(door, "charge:v1:acme:during") == 1


async def intents_recorded(door: Door, key: str) -> int:
    """How many actions the ledger has under a key."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = sum(
                fact.type == "intent.recorded" and fact.action == key
                for decision in await door.one.decisions()
                for fact in decision.facts
            )
            if found:
                return found


async def test_without_postgres_intents_go_on_and_nothing_is_called_unknown(
    killable: local.Servers, tmp_path: Path
) -> None:
    """Proposals and fresh actions need no database; an older key is 503, never a false 404."""
    addresses = Addresses(killable.kafka_bootstrap, killable.admin_url)
    async with opened(addresses, tmp_path) as door:
        await door.one.processor()
        await door.one.executor()
        await killable.postgres.kill()
        done = await door.propose(charge_body("no-database"), query="?wait_ms=30000")
        assert done.status_code == 201
        assert done.json()["status"] == "completed"
        assert (await door.propose(charge_body("no-database"))).status_code == 200
        for path in ("no-database/timeline", "older"):
            asked = await door.get(f"/v1/actions/charge:v1:acme:{path}")
            assert asked.status_code == 503
            assert asked.json()["code"] == "read_model_unavailable"
        ready = await door.http.get("/readyz")
        assert [part["code"] for part in ready.json()["problems"]] == ["database"]
        await killable.postgres.restart()
        await until_ready(door.http)
        assert (await door.get("/v1/actions/charge:v1:acme:older")).status_code == 404


@asynccontextmanager
async def process(settings: Settings, servers: Addresses, **more: str) -> AsyncIterator[int]:
    """A gateway in a process of its own; its process id."""
    environment = {
        **{name: value for name, value in os.environ.items() if name in {"PATH", "HOME"}},
        "ACTIONLEDGER_KAFKA": servers.kafka_bootstrap,
        "ACTIONLEDGER_DATABASE": settings.database_url,
        "ACTIONLEDGER_TOPIC_PREFIX": settings.topic_prefix,
        "ACTIONLEDGER_PARTITIONS": str(PARTITIONS),
        "ACTIONLEDGER_STATE": str(settings.state_dir),
        "ACTIONLEDGER_WEBHOOK_SECRETS_FILE": str(settings.state_dir / "webhooks.toml"),
        "ACTIONLEDGER_HTTP_PORT": str(settings.http_port),
        **more,
    }
    running = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, env=environment)
    try:
        yield running.pid
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await running.wait() in {0, -signal.SIGKILL}
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()


@asynccontextmanager
async def stage(servers: Addresses, folder: Path) -> AsyncIterator[tuple[Installation, Settings]]:
    """An installation with a processor and an executor, and the settings of a gateway over it."""
    async with (
        installed(servers.kafka_bootstrap) as one,
        database(servers.admin_url) as database_url,
    ):
        await one.processor()
        await one.executor()
        settings = settings_for(
            servers.kafka_bootstrap, one.log.prefix, database_url, folder, port=free_port()
        )
        yield one, settings


async def test_a_stopped_process_answers_what_it_has_taken_and_leaves_well(
    servers: Addresses, tmp_path: Path
) -> None:
    """SIGTERM ends a long poll with what is known, not with a closed connection; the code is 0."""
    async with stage(servers, tmp_path) as (_, settings):
        key = create_key(
            settings.api_keys_file, tenant="acme", principal="agent:a", role=Role.AGENT
        )
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            process(settings, servers) as pid,
            httpx.AsyncClient(
                base_url=settings.url, headers=headers, timeout=PATIENCE_SECONDS
            ) as http,
        ):
            await until_ready(http)
            done = await http.post("/v1/actions?wait_ms=30000", json=charge_body("stop"))
            assert done.json()["status"] == "completed"
            poll = asyncio.create_task(
                http.get(f"{done.headers['location']}?after_version=99&wait_ms=30000")
            )
            async with asyncio.timeout(PATIENCE_SECONDS):
                while "waiters 1.0" not in (await http.get("/metrics")).text:
                    await asyncio.sleep(POLL_SECONDS)
            os.kill(pid, signal.SIGTERM)
            answered = await poll
            assert answered.status_code == 200
            assert answered.json()["status"] == "completed"


async def test_a_crash_between_acknowledgement_and_answer_keeps_the_webhook(
    servers: Addresses, tmp_path: Path
) -> None:
    """The sender gets no answer and sends again: kept twice under one event id, to count once."""
    async with stage(servers, tmp_path) as (one, settings):
        hook = signed(b"{}", event_id="evt_crash")
        async with httpx.AsyncClient(base_url=settings.url, timeout=PATIENCE_SECONDS) as http:
            async with process(settings, servers, ACTIONLEDGER_CRASH_AT="webhook_acked"):
                await until_ready(http)
                with pytest.raises(httpx.TransportError):
                    await http.post("/v1/webhooks/simulated", content=b"{}", headers=hook)
            assert await webhooks_of(one) == ["evt_crash"]
            async with process(settings, servers) as pid:
                await until_ready(http)
                again = await http.post("/v1/webhooks/simulated", content=b"{}", headers=hook)
                assert again.status_code == 202
                os.kill(pid, signal.SIGTERM)
            assert await webhooks_of(one) == ["evt_crash", "evt_crash"]


async def test_a_port_that_is_taken_and_a_log_of_another_size_are_named(
    servers: Addresses, tmp_path: Path
) -> None:
    """The process does not start, and says what to set."""
    async with stage(servers, tmp_path) as (one, settings):
        with (
            socket.create_server(("127.0.0.1", settings.http_port)),
            pytest.raises(CannotServeError, match="in use") as taken,
        ):
            await serve(settings, asyncio.Event())
        assert "ACTIONLEDGER_HTTP_PORT" in taken.value.hint
        other = settings_for(
            servers.kafka_bootstrap,
            one.log.prefix,
            settings.database_url,
            tmp_path,
            port=free_port(),
            partitions=PARTITIONS + 1,
        )
        with pytest.raises(CannotServeError) as wrong:
            await serve(other, asyncio.Event())
        assert f"ACTIONLEDGER_PARTITIONS={PARTITIONS}" in wrong.value.hint
        useless = settings_for(
            servers.kafka_bootstrap,
            one.log.prefix,
            settings.database_url,
            tmp_path,
            port=free_port(),
            secret="whsec_not base64",
        )
        with pytest.raises(CannotServeError, match=r"simulated\.main"):
            async with gateway(useless):
                pass
