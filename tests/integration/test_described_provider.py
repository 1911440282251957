"""A whole installation whose charge goes through a described provider: its processes as they are
wired, the address and the credential from files, and a lost answer found out in both ways.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from actionledger import Intent, Ledger, Money, Result, Succeeded
from gateway.cli.doctor import FoundError, _providers
from gateway.keys import Role, create_key
from gateway.local.ports import free_ports
from gateway.settings import Settings
from gateway.wiring import run_setup
from gateway.wiring.installation import open_log
from gateway.wiring.life import Life
from gateway.wiring.names import Process
from gateway.wiring.publishing import default_catalogue, publish_catalogue
from reconciler.providers import http
from reconciler.providers.registry import UnusableProvider
from tests.integration.door import POLL_SECONDS, SECRET, database
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = [pytest.mark.servers, pytest.mark.asyncio(loop_scope="module")]

EXAMPLE = Path(http.__file__).with_name("example.toml").read_text(encoding="utf-8")
CATALOGUE = (
    default_catalogue()
    .replace('provider = "simulated"', 'provider = "bank"')
    .replace(
        "lookups = [30_000, 120_000, 600_000, 3_600_000, 21_600_000]", "lookups = [3_000, 6_000]"
    )
)
PROCESSES = (
    Process.PROCESSOR,
    Process.EXECUTOR,
    Process.INQUIRER,
    Process.RECONCILER,
    Process.GATEWAY,
)


@dataclass
class Place:
    """The installation as an agent and a tester reach it."""

    ledger: Ledger
    provider: httpx.AsyncClient
    settings: Settings

    async def charge(self, event: str) -> Result:
        """Charge, and wait for as long as it takes to know."""
        result = await self.ledger.propose(
            Intent(
                operation="charge",
                business_event=event,
                target="order:A-1842",
                money=Money(minor=4_990, currency="USD"),
                environment="test",
            )
        )
        return await self.ledger.wait(result.key, timeout_ms=PATIENCE_MS)

    async def script(self, event: str, *, webhooks: list[dict[str, str]]) -> None:
        """Let the answer to this event's charge be lost, and its webhooks go as planned."""
        script = {
            "match": {"action_key": f"charge:v1:acme:{event}"},
            "fault": {"kind": "commit_then_drop"},
            "webhooks": webhooks,
        }
        answer = await self.provider.post("/control/script", json={"scripts": [script]})
        answer.raise_for_status()

    @contextlib.asynccontextmanager
    async def unanswered(self) -> AsyncIterator[None]:
        """Let no lookup be answered meanwhile: on a busy machine one may be due first."""
        for search in ("unavailable", "offered"):
            answer = await self.provider.post(
                "/control/personality", json={"personality": {"search": search}}
            )
            answer.raise_for_status()
            if search == "unavailable":
                yield

    async def effects(self, event: str) -> int:
        """How often the provider's own book says that it charged for an event."""
        book = (await self.provider.get("/v1/book")).text.splitlines()
        return sum(
            f'"action_key":"charge:v1:acme:{event}"' in line and '"effect_id":"' in line
            for line in book
        )


def described(folder: Path, url: str) -> Path:
    """The folder of descriptions, with the bank in it and its credential beside it."""
    (folder / "main.key").write_text("sk_sim_main\n", encoding="ascii")
    text = EXAMPLE.replace("format = 1", f'format = 1\nbase_url = "{url}"', 1)
    text += '\n[credentials]\nmain = "main.key"\n'
    (folder / "bank.toml").write_text(text, encoding="utf-8")
    return folder


def settings_of(servers: Addresses, database_url: str, folder: Path) -> tuple[Settings, Settings]:
    """The settings of the installation, and of the provider that it calls `bank`."""
    port, provider_port = free_ports(2)
    secrets_file = folder / "webhooks.toml"
    table = f'secrets = ["{SECRET}"]\n'
    secrets_file.write_text(f"[bank.main]\n{table}[simulated.main]\n{table}", encoding="utf-8")
    providers = folder / "providers"
    providers.mkdir()
    shared = {
        "ACTIONLEDGER_KAFKA": servers.kafka_bootstrap,
        "ACTIONLEDGER_DATABASE": database_url,
        "ACTIONLEDGER_TOPIC_PREFIX": f"bank{secrets.token_hex(4)}.",
        "ACTIONLEDGER_PARTITIONS": "2",
        "ACTIONLEDGER_STATE": str(folder),
        "ACTIONLEDGER_WEBHOOK_SECRETS_FILE": str(secrets_file),
    }
    described(providers, f"http://127.0.0.1:{provider_port}")
    own = {
        "ACTIONLEDGER_PROVIDER_FILES": str(providers),
        "ACTIONLEDGER_HTTP_PORT": str(port),
    }
    theirs = {
        "ACTIONLEDGER_HTTP_PORT": str(provider_port),
        "ACTIONLEDGER_WEBHOOKS_URL": f"http://127.0.0.1:{port}/v1/webhooks/bank",
    }
    return Settings.from_environment(shared | own), Settings.from_environment(shared | theirs)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(
    servers: Addresses, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Place]:
    """Run every process of the installation as its own module wires it."""
    folder = tmp_path_factory.mktemp("bank")
    async with database(servers.admin_url) as database_url:
        own, theirs = settings_of(servers, database_url, folder)
        await run_setup.run(own, Life("setup", None))
        await publish_catalogue(open_log(own, "operator"), CATALOGUE)
        key = create_key(own.api_keys_file, tenant="acme", principal="agent:a", role=Role.AGENT)
        async with contextlib.AsyncExitStack() as running:
            await running.enter_async_context(alive(Process.SIMULATED_PROVIDER, theirs, folder))
            for process in PROCESSES:
                await running.enter_async_context(alive(process, own, folder))
            ledger = await running.enter_async_context(Ledger(own.url, key))
            url = f"http://127.0.0.1:{theirs.http_port}"
            client = httpx.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS)
            yield Place(ledger, await running.enter_async_context(client), own)


@contextlib.asynccontextmanager
async def alive(process: Process, settings: Settings, folder: Path) -> AsyncIterator[None]:
    """Run one process beside the test, from its first heartbeat to its stop."""
    beat = folder / f"{process.value}.beat"
    life = Life(process.value, beat)
    work = asyncio.ensure_future(import_module(process.module).run(settings, life))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not beat.exists() and not work.done():
                await asyncio.sleep(POLL_SECONDS)
        assert beat.exists(), work.done() and work.exception()
        yield
    finally:
        life.stop.set()
        await work


async def test_a_charge_goes_through_the_description(place: Place) -> None:
    """The request reaches the described address with the credential of the file; one effect."""
    result = await place.charge("plain")
    assert isinstance(result, Succeeded)
    assert result.reference is not None
    assert result.reference.startswith("ch_")
    assert await place.effects("plain") == 1


async def test_a_lost_answer_is_found_by_lookup(place: Place) -> None:
    """The described searches show the effect; the inquirer's answer completes it, once."""
    await place.script("looked-up", webhooks=[])
    result = await place.charge("looked-up")
    assert isinstance(result, Succeeded)
    assert result.proof == "lookup"
    assert await place.effects("looked-up") == 1


async def test_a_lost_answer_is_told_by_webhook(place: Place) -> None:
    """The described mapping reads what the provider tells, where no lookup has an answer."""
    await place.script("told", webhooks=[{"kind": "normal"}])
    async with place.unanswered():
        result = await place.charge("told")
    assert isinstance(result, Succeeded)
    assert result.proof == "webhook"
    assert await place.effects("told") == 1


async def test_the_doctor_holds_the_catalogue_against_the_description(
    place: Place, tmp_path: Path
) -> None:
    """What is relied on beyond its promises, or cannot be read, is told; else only its name."""
    assert (await _providers(place.settings)).startswith("bank named")
    described(tmp_path, "http://127.0.0.1:1")
    file = tmp_path / "bank.toml"
    slower = file.read_text(encoding="utf-8").replace("search_lag_ms = 0", "search_lag_ms = 60_000")
    file.write_text(slower, encoding="utf-8")
    there = replace(place.settings, provider_files={"bank": file})
    with pytest.raises(FoundError, match="search_lag_ms is shorter"):
        await _providers(there)
    (tmp_path / "main.key").unlink()
    with pytest.raises(UnusableProvider, match="no credential for the account main"):
        await _providers(there)
