"""An operator's `webhook` commands at a running installation, and doors with other schemes."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import uvicorn

from gateway.http.doors import Doors, doors_in
from gateway.http.serve import gateway
from gateway.local.ports import free_ports
from gateway.settings import Settings
from reconciler.declared_signature import DeclaredHmac, signed_pieces
from reconciler.providers import http
from reconciler.providers.registry import ProviderSettings, webhook_mappings
from reconciler.schemes import STRIPE
from reconciler.webhooks import WebhookProblem
from streams.clock import wall_ms
from tests.commands import Said, told_beside
from tests.integration.door import SECRET, Door, code_of, opened, signed
from tests.integration.faust_kit import POLL_SECONDS
from tests.integration.reconciling import (
    KEY,
    SIMULATED,
    Reconciling,
    evidence,
    receive,
    reconciling,
    rows_become,
    settlement,
)
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses

BANK_SECRET = "a secret that the bank has shown"
EXAMPLE = Path(http.__file__).with_name("example.toml").read_text(encoding="utf-8")
HMAC = """
[webhook.signature]
scheme = "hmac"
header = "X-Bank-Signature"
signed = "{id}.{timestamp}.{body}"
algorithm = "sha256"
encoding = "hex"
prefix = "sha256="
timestamp_header = "X-Bank-Time"
id_header = "X-Bank-Id"
"""


@dataclass
class Operator:
    """A terminal at an installation whose reconciler works."""

    door: Door
    doors: Doors
    http: httpx.AsyncClient
    all_: Reconciling
    environment: Mapping[str, str]

    async def run(self, *words: str) -> Said:
        """Run a command."""
        return await told_beside(words, self.environment)


@pytest.fixture
async def operator(servers: Addresses, tmp_path: Path) -> AsyncIterator[Operator]:
    """A door on a port for two providers: the simulated one, and a described bank that signs with
    an HMAC of its own; and a reconciler.
    """
    bank = tmp_path / "bank.toml"
    bank.write_text(EXAMPLE.replace("[webhook.type]", f"{HMAC}\n[webhook.type]"), encoding="utf-8")
    known = [ProviderSettings("bank", "http", "http://127.0.0.1:9", adapter_file=bank)]
    async with opened(servers, tmp_path) as door:
        secrets = tmp_path / "webhooks.toml"
        with secrets.open("a", encoding="utf-8") as file:
            file.write(f'[bank.main]\nsecrets = ["{BANK_SECRET}"]\n')
        (port,) = free_ports(1)
        environment = {
            "PATH": os.defpath,
            "HOME": str(tmp_path),
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "200",
            "ACTIONLEDGER_STATE": str(tmp_path),
            "ACTIONLEDGER_KAFKA": door.settings.kafka_bootstrap,
            "ACTIONLEDGER_DATABASE": door.settings.database_url,
            "ACTIONLEDGER_TOPIC_PREFIX": door.settings.topic_prefix,
            "ACTIONLEDGER_PARTITIONS": str(door.settings.partitions),
            "ACTIONLEDGER_WEBHOOK_SECRETS_FILE": str(secrets),
            "ACTIONLEDGER_PROVIDER_FILES": str(bank),
            "ACTIONLEDGER_PROVIDER_URLS": "simulated=http://127.0.0.1:9",
            "ACTIONLEDGER_URL": f"http://127.0.0.1:{port}",
            "ACTIONLEDGER_HTTP_PORT": str(port),
        }
        mappings = {**SIMULATED, **webhook_mappings(known)}
        async with (
            gateway(Settings.from_environment(environment)) as (app, _),
            reconciling(door.one, door.settings.database_url, mappings) as all_,
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://door") as client,
        ):
            server = uvicorn.Server(
                uvicorn.Config(app, "127.0.0.1", port, lifespan="off", log_config=None)
            )
            serving = asyncio.create_task(server.serve())
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not server.started:
                    await asyncio.sleep(POLL_SECONDS)
            yield Operator(door, doors_in(app), client, all_, environment)
            server.should_exit = True
            await serving


async def test_an_operator_tests_lists_shows_and_replays(
    operator: Operator, tmp_path: Path
) -> None:
    """A test goes through the door by the provider's own scheme and is found; a body can be tried
    without sending; lists name states; another look changes nothing twice.
    """
    for provider in ("simulated", "bank"):
        said = await operator.run("webhook", "test", provider, "main", "--json")
        assert said.code == 0, said.err + said.out
        assert said.result["status"] == 202
        became = said.result["became"]
        assert (became["state"], became["event_type"]) == ("unrecognised", "actionledger.test")
    listed = await operator.run("webhook", "list", "--state", "unrecognised", "--json")
    assert len(listed.result["webhooks"]) == 2
    assert listed.result["unmatched"] == [], "a test is no alarm"

    webhook = settlement("evt_1", reference="ch_9")
    (place,) = await receive(operator.door.one, webhook)
    await rows_become(operator.all_.pool, 3)
    name = f"webhooks/{place[0]}/{place[1]}"
    told = await operator.run("webhook", "list", "--state", "parked")
    assert name in told.out
    assert "parked: reference_unknown" in told.out
    assert "1 waiting, the oldest for" in told.out
    shown = await operator.run("webhook", "show", name)
    assert "reference  ch_9" in shown.out
    assert '"effect_id": "ch_9"' in shown.out
    missing = await operator.run("webhook", "show", "webhooks/0/99999")
    assert (missing.code, "nothing_there" in missing.err) == (1, True)
    missing = await operator.run("webhook", "replay", "webhooks/99/0")
    assert (missing.code, "webhooks has no partition 99" in missing.err) == (1, True)

    body = tmp_path / "body.json"
    body.write_bytes(settlement("evt_2", action_key=KEY).raw())
    tried = await operator.run("webhook", "test", "bank", "main", "--dry-run", str(body), "--json")
    would = tuple(tried.result[name] for name in ("match", "reason", "matched_to"))
    assert (tried.code, *would) == (0, "parked", "orphan_effect", KEY)
    headers = tmp_path / "headers"
    headers.write_text("X-Bank-Signature: sha256=00\nX-Bank-Time: 1\nX-Bank-Id: a\n")
    forged = await operator.run(
        *("webhook", "test", "bank", "main", "--dry-run", str(body)),
        *("--headers", str(headers), "--json"),
    )
    assert (forged.code, forged.result["verification"]) == (4, "malformed_signature")
    assert len(await evidence(operator.door.one)) == 0, "nothing was sent"

    for words in (("--parked",), (name,), (f"webhooks/{place[0]}/0-{place[1]}",)):
        looked = await operator.run("webhook", "replay", *words, "--json")
        assert looked.code == 0, looked.err + looked.out
        assert looked.result["looked_at"] >= 1
        assert looked.result["changed"] == []


async def test_what_a_command_is_asked_wrongly_is_a_usage(
    operator: Operator, tmp_path: Path
) -> None:
    """Each with its name and a hint, and nothing is sent."""
    no_text = tmp_path / "no_text"
    no_text.write_bytes(b"\xff\xfe\x00")
    for words in (
        ("list", "--state", "lost"),
        ("show", "webhooks/3"),
        ("show", "webhooks/3/1-2"),
        ("replay",),
        ("replay", "webhooks/3/9-1"),
        ("replay", "webhooks/3/1", "--parked"),
        ("test", "simulated", "main", "--headers", __file__),
        ("test", "simulated", "main", "--dry-run", __file__, "--headers", str(no_text)),
        ("test", "simulated", "main", "--file", str(tmp_path)),
    ):
        said = await operator.run("webhook", *words, "--json")
        assert said.code == 2, words
    no_secret = await operator.run("webhook", "test", "simulated", "nobody")
    assert (no_secret.code, "no webhook secret" in no_secret.err) == (1, True)


async def test_a_door_takes_each_provider_by_its_own_scheme(operator: Operator) -> None:
    """What one provider signs is not believed from another; whatever headers come, the answer has a
    name, and what the scheme read is kept beside the body.
    """
    doors = operator.doors
    bank = doors.webhook_schemes["bank"]
    assert bank == DeclaredHmac(
        header="x-bank-signature",
        signed=signed_pieces("{id}.{timestamp}.{body}"),
        algorithm="sha256",
        encoding="hex",
        prefix="sha256=",
        timestamp_header="x-bank-time",
        id_header="x-bank-id",
    )
    raw = b'{"type":"unknown"}'
    send = operator.http.post
    headers = bank.sign(raw, event_id="evt_9", secret=BANK_SECRET, now_ms=wall_ms())
    taken = await send("/v1/webhooks/bank?account=main", content=raw, headers=headers)
    assert (taken.status_code, taken.json()) == (202, {"event_id": "evt_9"})
    found = await rows_become(operator.all_.pool, 1)
    assert [row["event_id"] for row in found.values()] == ["evt_9"]

    by_standard = signed(raw, secret=SECRET)
    refused = await send("/v1/webhooks/bank?account=main", content=raw, headers=by_standard)
    assert (refused.status_code, refused.json()["detail"]) == (400, "missing_header")
    refused = await send("/v1/webhooks/simulated?account=main", content=raw, headers=headers)
    assert (refused.status_code, refused.json()["detail"]) == (400, "missing_header")
    twice = [*headers.items(), ("X-BANK-ID", "evt_9")]
    refused = await send("/v1/webhooks/bank?account=main", content=raw, headers=twice)
    assert refused.json()["detail"] == "repeated_header"
    late = bank.sign(raw, event_id="evt_9", secret=BANK_SECRET, now_ms=wall_ms() - 3_600_000)
    refused = await send("/v1/webhooks/bank?account=main", content=raw, headers=late)
    assert (refused.status_code, code_of(refused)) == (401, "webhook_rejected")
    assert refused.json()["detail"] == WebhookProblem.TIMESTAMP_OUT_OF_TOLERANCE

    doors.webhook_schemes = {"bank": STRIPE}
    by_stripe = STRIPE.sign(raw, event_id="", secret=BANK_SECRET, now_ms=wall_ms())
    taken = await send("/v1/webhooks/bank?account=main", content=raw, headers=by_stripe)
    assert taken.status_code == 202
    assert taken.json()["event_id"].startswith("sha256:")
