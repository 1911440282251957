"""A whole installation whose e-mail goes out through a real mail server and whose charge changes a
row of a real database: its processes as they are wired, descriptions from a folder.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
import pytest_asyncio

from actionledger import Intent, Ledger, Money, NeedsReview, Result, Succeeded
from gateway.keys import Role, create_key
from gateway.local.ports import free_ports
from gateway.settings import Settings
from gateway.wiring import run_setup
from gateway.wiring.installation import open_log
from gateway.wiring.life import Life
from gateway.wiring.publishing import (
    default_catalogue,
    publish_catalogue,
    publish_document,
)
from reconciler.providers import postgres
from tests.integration.door import SECRET, database
from tests.integration.test_described_provider import PROCESSES, alive
from tests.mail_server import PASSWORD, USER, MailServer, mail_server
from tests.patience import PATIENCE_MS
from tests.postgres_proxy import PostgresProxy
from tests.servers import Addresses

pytestmark = [pytest.mark.servers, pytest.mark.asyncio(loop_scope="module")]

EFFECTS_SQL = Path(postgres.__file__).with_name("effects.sql").read_text(encoding="utf-8")
PREFIX = secrets.token_hex(4)
MAIL = """\
format = 1
kind = "smtp"
host = "127.0.0.1"
port = {port}
tls = "none"
message_id_domain = "mail.example.com"
marker_headers = "written"
[credentials]
main = "mail.password"
[accounts.main]
sender = "billing@example.com"
user = "{user}"
[perform.email]
to = "{{params.to}}"
subject = "{{params.subject}}"
text = "{{params.body}}"
"""
SHOP = """\
format = 1
kind = "postgres"
key_window_ms = 2_592_000_000
settle_horizon_ms = 1_000
[credentials]
main = "shop.dsn"
[perform.charge]
sql = "insert into charges (target, amount) values (:target, :amount) returning id"
values = { target = "{target}", amount = "{money.minor}" }
"""


POLICY = """\
[[row]]
name = "sent"
when.operation = ["email"]
outcome = "automatic"
reason = "A test reads it."

[[row]]
name = "charged"
when.operation = ["charge"]
outcome = "automatic"
reason = "A test pays for it."
"""


def catalogue() -> str:
    """The one that ships, with the charge at the database and the e-mail at the mail server."""
    head, charge, rest = default_catalogue().partition('name = "charge"')
    rest = rest.replace('provider = "simulated"', 'provider = "shop"', 1)
    before, email, after = rest.partition('name = "email"')
    after = after.replace('provider = "simulated"', 'provider = "mail"', 1)
    return head + charge + before + email + after


@dataclass
class Place:
    """The installation as an agent reaches it, the mail server, and the database behind a proxy."""

    ledger: Ledger
    mail: MailServer
    shop: asyncpg.Connection
    proxy: PostgresProxy

    async def send(self, event: str, *recipients: str) -> Result:
        """Send an e-mail, and wait for as long as it takes to know."""
        return await self._asked(
            Intent(
                operation="email",
                business_event=event,
                params={"to": list(recipients), "subject": "Your order", "body": "On its way."},
                environment="test",
            )
        )

    async def charge(self, event: str) -> Result:
        """Charge, and wait for as long as it takes to know."""
        return await self._asked(
            Intent(
                operation="charge",
                business_event=event,
                target=f"order:{event}",
                money=Money(minor=4_990, currency="USD"),
                environment="test",
            )
        )

    async def charges(self, event: str) -> int:
        """How often the database has it."""
        count = await self.shop.fetchval(
            "select count(*) from charges where target = $1", f"order:{event}"
        )
        assert isinstance(count, int)
        return count

    async def _asked(self, intent: Intent) -> Result:
        result = await self.ledger.propose(intent)
        return await self.ledger.wait(result.key, timeout_ms=PATIENCE_MS)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(
    servers: Addresses, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Place]:
    """Run every process of the installation as its own module wires it."""
    folder = tmp_path_factory.mktemp("kinds")
    providers = folder / "providers"
    providers.mkdir()
    (providers / "mail.password").write_text(PASSWORD, encoding="ascii")
    async with contextlib.AsyncExitStack() as running:
        mail = running.enter_context(mail_server())
        url = await running.enter_async_context(database(servers.admin_url))
        shop_url = await running.enter_async_context(database(servers.admin_url))
        shop = await asyncpg.connect(shop_url)
        running.push_async_callback(shop.close)
        await shop.execute(EFFECTS_SQL)
        await shop.execute(
            "create table charges (id bigint generated always as identity, "
            "target text not null, amount bigint not null)"
        )
        address = urlsplit(shop_url)
        proxy = PostgresProxy(address.hostname or "", address.port or 0)
        listening = await running.enter_async_context(await _listening(proxy))
        port = listening.sockets[0].getsockname()[1]
        login = address.netloc.rpartition("@")[0]
        behind = urlunsplit(address._replace(netloc=f"{login}@127.0.0.1:{port}"))
        (providers / "shop.dsn").write_text(behind, encoding="ascii")
        (providers / "shop.toml").write_text(SHOP, encoding="utf-8")
        described = MAIL.format(port=mail.port, user=USER)
        (providers / "mail.toml").write_text(described, encoding="utf-8")
        own = _settings(servers, url, folder, providers)
        await run_setup.run(own, Life("setup", None))
        await publish_document(open_log(own, "operator"), "policy", POLICY)
        await publish_catalogue(open_log(own, "operator"), catalogue())
        key = create_key(own.api_keys_file, tenant="acme", principal="agent:a", role=Role.AGENT)
        for process in PROCESSES:
            await running.enter_async_context(alive(process, own, folder))
        ledger = await running.enter_async_context(Ledger(own.url, key))
        yield Place(ledger, mail, shop, proxy)


async def test_an_email_that_is_asked_for_is_sent_and_completed(place: Place) -> None:
    """One message, with the Message-ID that the ledger has as its reference."""
    result = await place.send("sent", "a@example.com")
    assert isinstance(result, Succeeded), result
    [kept] = [kept for kept in place.mail.kept if "a@example.com" in kept.recipients]
    assert result.reference == kept.message["Message-ID"]
    assert kept.message["X-Action-Key"] == "email:v1:acme:sent"


@pytest.mark.case("C005")
async def test_an_email_without_an_answer_is_sent_once_and_waits_for_a_person(
    place: Place,
) -> None:
    """After the dot nobody knows, and there is no second attempt, ever."""
    place.mail.faults["lost@example.com"] = "close_after_dot"
    result = await place.send("lost", "lost@example.com")
    assert isinstance(result, NeedsReview), result
    assert sum("lost@example.com" in kept.recipients for kept in place.mail.kept) == 1
    place.mail.faults["cut@example.com"] = "close_at_recipient"
    result = await place.send("cut", "cut@example.com")
    assert sum("cut@example.com" in kept.recipients for kept in place.mail.kept) == int(
        isinstance(result, Succeeded)
    )


async def test_a_change_of_rows_is_made_and_completed(place: Place) -> None:
    """One row, and the ledger has the reference that was kept with it."""
    result = await place.charge("plain")
    assert isinstance(result, Succeeded), result
    assert await place.charges("plain") == 1
    kept = await place.shop.fetchval(
        "select reference from actionledger_effects where action_key = 'charge:v1:acme:plain'"
    )
    assert result.reference == kept


async def test_a_commit_without_an_answer_is_found_and_is_one_row(place: Place) -> None:
    """Whether a second attempt or a lookup comes first: the row says that it is done."""
    place.proxy.faults["charge:v1:acme:commit-lost"] = "answer_lost"
    result = await place.charge("commit-lost")
    assert isinstance(result, Succeeded), result
    assert await place.charges("commit-lost") == 1


async def _listening(proxy: PostgresProxy) -> asyncio.Server:
    return await asyncio.start_server(proxy.serve, "127.0.0.1", 0)


def _settings(servers: Addresses, url: str, folder: Path, providers: Path) -> Settings:
    """The settings of one door: each call has a port of its own."""
    [port] = free_ports(1)
    secrets_file = folder / "webhooks.toml"
    secrets_file.write_text(f'[simulated.main]\nsecrets = ["{SECRET}"]\n', encoding="utf-8")
    return Settings.from_environment(
        {
            "ACTIONLEDGER_KAFKA": servers.kafka_bootstrap,
            "ACTIONLEDGER_DATABASE": url,
            "ACTIONLEDGER_TOPIC_PREFIX": f"kinds{PREFIX}.",
            "ACTIONLEDGER_PARTITIONS": "2",
            "ACTIONLEDGER_STATE": str(folder),
            "ACTIONLEDGER_WEBHOOK_SECRETS_FILE": str(secrets_file),
            "ACTIONLEDGER_PROVIDER_FILES": str(providers),
            "ACTIONLEDGER_HTTP_PORT": str(port),
        }
    )
