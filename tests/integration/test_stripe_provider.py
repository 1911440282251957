"""A whole installation whose charges go to the simulated Stripe: form and key, lookups by direct
reads, webhooks by Stripe's signature.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import httpx
import pytest
import pytest_asyncio

from actionledger import Ledger, Succeeded
from gateway.keys import Role, create_key
from gateway.local.ports import free_ports
from gateway.settings import Settings
from gateway.wiring import run_setup
from gateway.wiring.installation import open_log
from gateway.wiring.life import Life
from gateway.wiring.names import Process
from gateway.wiring.publishing import publish_catalogue
from tests.contract.stage import running
from tests.contract.stripe_stage import DESCRIPTION, MODULE
from tests.integration.door import POLL_SECONDS, database
from tests.integration.test_described_provider import CATALOGUE, PROCESSES, Place, alive
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = [pytest.mark.servers, pytest.mark.asyncio(loop_scope="module")]

SECRET = "whsec_WmPfPqGJDkYGvRkyVJ2hqqGDT0lQ3LsC"


def settings_of(servers: Addresses, database_url: str, folder: Path, stripe_url: str) -> Settings:
    """The settings of an installation that calls this Stripe `bank`, as the catalogue does."""
    (port,) = free_ports(1)
    providers = folder / "providers"
    providers.mkdir()
    (providers / "main.key").write_text("sk_test_main\n", encoding="ascii")
    text = DESCRIPTION.replace("format = 1", f'format = 1\nbase_url = "{stripe_url}"', 1)
    text += '\n[credentials]\nmain = "main.key"\n'
    (providers / "bank.toml").write_text(text, encoding="utf-8")
    secrets_file = folder / "webhooks.toml"
    secrets_file.write_text(f'[bank.main]\nsecrets = ["{SECRET}"]\n', encoding="utf-8")
    return Settings.from_environment(
        {
            "ACTIONLEDGER_KAFKA": servers.kafka_bootstrap,
            "ACTIONLEDGER_DATABASE": database_url,
            "ACTIONLEDGER_TOPIC_PREFIX": f"stripe{secrets.token_hex(4)}.",
            "ACTIONLEDGER_PARTITIONS": "2",
            "ACTIONLEDGER_STATE": str(folder),
            "ACTIONLEDGER_WEBHOOK_SECRETS_FILE": str(secrets_file),
            "ACTIONLEDGER_PROVIDER_FILES": str(providers),
            "ACTIONLEDGER_HTTP_PORT": str(port),
        }
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(
    servers: Addresses, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Place]:
    """Run every process of the installation beside a Stripe."""
    folder = tmp_path_factory.mktemp("stripe")
    stripe_folder = tmp_path_factory.mktemp("book")
    with running(stripe_folder, module=MODULE) as stripe:
        async with database(servers.admin_url) as database_url:
            own = settings_of(servers, database_url, folder, stripe.url)
            await run_setup.run(own, Life("setup", None))
            await publish_catalogue(open_log(own, "operator"), CATALOGUE)
            key = create_key(own.api_keys_file, tenant="acme", principal="agent:a", role=Role.AGENT)
            url = f"{own.url}/v1/webhooks/bank?account=main"
            stripe.control("webhooks", {"url": url, "secret": SECRET})
            async with contextlib.AsyncExitStack() as stack:
                for process in (*PROCESSES, Process.PROJECTOR):
                    await stack.enter_async_context(alive(process, own, folder))
                ledger = await stack.enter_async_context(Ledger(own.url, key))
                client = httpx.AsyncClient(base_url=stripe.url, timeout=PATIENCE_SECONDS)
                yield Place(ledger, await stack.enter_async_context(client), own)


async def test_a_charge_is_a_payment(place: Place) -> None:
    """Its reference is the PaymentIntent's name, and Stripe's book has one."""
    result = await place.charge("plain")
    assert isinstance(result, Succeeded)
    assert result.reference == "pi_1"
    assert await place.effects("plain") == 1


async def test_a_lost_answer_is_found_by_a_direct_read(place: Place) -> None:
    """Without a webhook the lookup completes it, once."""
    await place.script("looked-up", webhooks=[])
    result = await place.charge("looked-up")
    assert isinstance(result, Succeeded)
    assert result.proof == "lookup"
    assert await place.effects("looked-up") == 1


async def test_a_lost_answer_is_told_by_a_signed_event(place: Place) -> None:
    """Stripe's signature opens the door, and the event settles it where no lookup has an answer."""
    await place.script("told", webhooks=[{"kind": "normal"}])
    async with place.unanswered():
        result = await place.charge("told")
    assert isinstance(result, Succeeded)
    assert result.proof == "webhook"
    assert await place.effects("told") == 1


async def test_a_kept_500_ends_in_the_payment_behind_it(place: Place) -> None:
    """The same key would say 500 for a day; the lookup says what is there."""
    script = {
        "match": {"action_key": "charge:v1:acme:kept"},
        "fault": {"kind": "fail_after_commit"},
        "webhooks": [],
    }
    await place.provider.post("/control/script", json={"scripts": [script]})
    result = await place.charge("kept")
    assert isinstance(result, Succeeded)
    assert result.proof == "lookup"
    assert await place.effects("kept") == 1


async def test_what_somebody_gives_back_at_stripe_is_a_case_of_its_payment(place: Place) -> None:
    """A refund without our mark, and a dispute, come to the payment that they name: each once,
    although an event tells of the dispute three times.
    """
    result = await place.charge("given-back")
    assert isinstance(result, Succeeded)
    await place.provider.post(
        "/v1/refunds",
        headers={"Authorization": "Bearer sk_test_main"},
        data={"payment_intent": str(result.reference), "amount": "1000"},
    )
    dispute = {"payment_intent": result.reference, "amount": 1_200}
    opened = (await place.provider.post("/control/dispute", json=dispute)).json()["id"]
    await place.provider.post("/control/dispute/close", json={"id": opened, "status": "lost"})
    connection = await asyncpg.connect(place.settings.database_url)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(names := await cases(connection, str(result.key))) < 2:
                await asyncio.sleep(POLL_SECONDS)
    finally:
        await connection.close()
    # Either may be told first: each is under its own name, and the sum is what both come to.
    assert names[0] in {"10.00 USD of 49.90 USD: re_1", f"12.00 USD of 49.90 USD: {opened}"}
    assert names[1].startswith("22.00 USD of 49.90 USD")
    assert "re_1" in names[1]
    assert opened in names[1]


async def cases(connection: asyncpg.Connection, key: str) -> list[str]:
    """What was given back of an action elsewhere, as its cases tell it."""
    rows = await connection.fetch(
        "select names from actionledger_api_v1.review_cases"
        " where action_key = $1 and reason = 'reversed_elsewhere' order by version",
        key,
    )
    return [row["names"] for row in rows]
