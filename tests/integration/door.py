"""The HTTP door over a whole installation: real log, real read model, processes as tasks."""

import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from standardwebhooks import Webhook

from actionledger import Ledger, Retries
from gateway.http.doors import doors_in
from gateway.http.serve import gateway
from gateway.keys import Role, create_key
from gateway.settings import Settings
from gateway.wiring.publishing import Kind
from ledger.client.client import LedgerClient
from tests import databases
from tests.integration.installation import CATALOGUE, PARTITIONS, Installation, installed
from tests.servers import Addresses

SECRET = "whsec_c2VjcmV0LW9mLXRoZS1zaW11bGF0ZWQtcHJvdmlkZXI="
TENANTS = ("acme", "globex")
POLL_SECONDS = 0.02


@dataclass
class Door:
    """A door, whoever may knock, and the installation behind it."""

    one: Installation
    app: FastAPI
    client: LedgerClient
    http: httpx.AsyncClient
    keys: dict[tuple[str, Role], str]
    settings: Settings

    @property
    def ledger_id(self) -> str:
        """The generation of the log."""
        return doors_in(self.app).ledger_id

    @property
    def now_ms(self) -> int:
        """The time at the door."""
        return doors_in(self.app).wall_clock_ms()

    def bearer(self, tenant: str = "acme", role: Role = Role.AGENT) -> dict[str, str]:
        """The header of a caller."""
        return {"Authorization": f"Bearer {self.keys[tenant, role]}"}

    async def propose(
        self, body: dict[str, Any], *, tenant: str = "acme", query: str = ""
    ) -> httpx.Response:
        """Propose as an agent of a tenant."""
        return await self.http.post(f"/v1/actions{query}", json=body, headers=self.bearer(tenant))

    async def get(self, path: str, *, tenant: str = "acme") -> httpx.Response:
        """Ask as an agent of a tenant."""
        return await self.http.get(path, headers=self.bearer(tenant))

    def ledger(self, tenant: str = "acme") -> Ledger:
        """The SDK, as an agent of a tenant has it."""
        return Ledger(
            "http://door",
            self.keys[tenant, Role.AGENT],
            transport=httpx.ASGITransport(self.app),
            retries=Retries(first_ms=1, cap_ms=10),
        )


def charge_body(event: str, *, minor: int = 4_990, **others: object) -> dict[str, Any]:
    """The body that proposes to charge an order."""
    return {
        "operation": "charge",
        "version": 1,
        "business_event": event,
        "target": "order:A-1842",
        "params": {"customer": "cus_1"},
        "money": {"minor": minor, "currency": "EUR"},
        "environment": "production",
        **others,
    }


def code_of(response: httpx.Response) -> str:
    """The code of a problem, which every refusal must be."""
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == response.status_code
    assert problem["hint"]
    return str(problem["code"])


def signed(
    raw: bytes, *, event_id: str = "evt_1", sent_at_s: int | None = None, secret: str = SECRET
) -> dict[str, str]:
    """The headers of a webhook as its sender signs it."""
    at = datetime.fromtimestamp(int(time.time()) if sent_at_s is None else sent_at_s, UTC)
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(event_id, at, raw.decode()),
        "content-type": "application/json",
    }


@contextlib.asynccontextmanager
async def database(admin_url: str) -> AsyncIterator[str]:
    """A database of its own with every table, dropped afterwards."""
    name = f"door_{secrets.token_hex(6)}"
    yield await databases.make(admin_url, name)
    await databases.drop(admin_url, name)


def settings_for(
    bootstrap: str,
    prefix: str,
    database_url: str,
    folder: Path,
    *,
    port: int = 8_788,
    partitions: int = PARTITIONS,
    secret: str = SECRET,
) -> Settings:
    """The settings of a gateway over an installation."""
    secrets_file = folder / "webhooks.toml"
    secrets_file.write_text(f'[simulated.main]\nsecrets = ["{secret}"]\n', encoding="utf-8")
    return Settings.from_environment(
        {
            "ACTIONLEDGER_KAFKA": bootstrap,
            "ACTIONLEDGER_DATABASE": database_url,
            "ACTIONLEDGER_TOPIC_PREFIX": prefix,
            "ACTIONLEDGER_PARTITIONS": str(partitions),
            "ACTIONLEDGER_STATE": str(folder),
            "ACTIONLEDGER_WEBHOOK_SECRETS_FILE": str(secrets_file),
            "ACTIONLEDGER_HTTP_PORT": str(port),
        }
    )


@contextlib.asynccontextmanager
async def opened(
    servers: Addresses,
    folder: Path,
    *,
    catalogue: str = CATALOGUE,
    documents: Mapping[Kind, str] | None = None,
) -> AsyncIterator[Door]:
    """A door with nobody deciding behind it; start what the test needs on `one`. `documents` are
    published before the catalogue.
    """
    async with (
        installed(servers.kafka_bootstrap, catalogue, documents) as one,
        database(servers.admin_url) as database_url,
    ):
        settings = settings_for(servers.kafka_bootstrap, one.log.prefix, database_url, folder)
        keys = {
            (tenant, role): create_key(
                settings.api_keys_file,
                tenant=tenant,
                principal=f"{role}:{secrets.token_hex(2)}",
                role=role,
            )
            for tenant in TENANTS
            for role in Role
        }
        async with gateway(settings) as (app, client):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://door") as http:
                yield Door(one, app, client, http, keys, settings)
