"""No secret of an installation leaves its place, whatever goes wrong in a whole run."""

import json
import os
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from standardwebhooks import Webhook

from gateway.keys import Role, create_key, rotate_key
from gateway.local.state import Phase
from gateway.webhook_secrets import read_secrets, rotate_secret
from gateway.wiring.places import KEYS_FILE, SECRETS_FILE
from tests.acceptance.canaries import PROVIDER_KEY, everything, leaks, secrets_of, state_of
from tests.acceptance.command import Installation, running
from tests.commands import Said
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.servers

LOOK_S = 0.05
UNKNOWN_KEY = f"al_{'c' * 16}_{'canary-of-a-wrong-key'.ljust(43, 'x')}"
FOREIGN_SECRET = "whsec_Y2FuYXJ5IG9mIGEgZm9yZ2VyIQ=="
WRONG_PASSWORD = "canary-of-a-wrong-password"


@pytest.fixture(scope="module")
def here() -> Iterator[Installation]:
    """An installation that runs, in a folder of its own."""
    with running("canaries") as installation:
        yield installation


class Traffic:
    """Whoever talks to the installation; keeps every answer."""

    def __init__(self, here: Installation, http: httpx.Client) -> None:
        state = state_of(here.folder)
        self._door = f"http://127.0.0.1:{state.ports['gateway']}"
        self._provider = f"http://127.0.0.1:{state.ports['simulated-provider']}"
        self._http = http
        self.answers: list[tuple[str, bytes]] = []

    def ask(
        self,
        method: str,
        path: str,
        *,
        key: str | None = None,
        body: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """One request to the door."""
        sent = dict(headers or {})
        if key is not None:
            sent["Authorization"] = f"Bearer {key}"
        answer = self._http.request(method, self._door + path, headers=sent, content=body)
        said = f"{answer.headers}\n{answer.text}".encode()
        self.answers.append((f"the answer to {method} {path}", said))
        return answer

    def propose(self, key: str, event: str) -> httpx.Response:
        """Propose a charge and wait for it."""
        body = {
            "operation": "charge",
            "version": 1,
            "business_event": event,
            "target": f"order:{event}",
            "money": {"minor": 4_990, "currency": "EUR"},
            "environment": "test",
        }
        return self.ask(
            "POST",
            "/v1/actions?wait_ms=30000",
            key=key,
            body=json.dumps(body),
            headers={"Content-Type": "application/json"},
        )

    def webhook(self, secret: str, event_id: str) -> httpx.Response:
        """Send a webhook, signed with a secret."""
        raw, at = json.dumps({"type": "effect.made"}), datetime.now(UTC)
        headers = {
            "webhook-id": event_id,
            "webhook-timestamp": str(int(at.timestamp())),
            "webhook-signature": Webhook(secret).sign(event_id, at, raw),
        }
        return self.ask("POST", "/v1/webhooks/simulated", body=raw, headers=headers)

    def script(self, **fault: str) -> None:
        """Tell the provider what to do to the next request; no webhook speaks of it.

        What a provider signs is kept byte for byte, whatever it says.
        """
        scripts = [{"fault": fault, "webhooks": []}]
        answer = self._http.post(f"{self._provider}/control/script", json={"scripts": scripts})
        assert answer.is_success, answer.text


def until_ready(here: Installation) -> None:
    """Wait until every program runs and the door says that it can work."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        status = here.json("status").result
        phases = {one["phase"] for one in status["processes"]}
        is_up = status["phase"] == Phase.READY and phases <= {Phase.READY, Phase.DONE}
        if is_up and here.json("doctor").code == 0:
            return
        assert time.monotonic() < deadline, status
        time.sleep(LOOK_S)


@pytest.fixture
def traffic(here: Installation) -> Iterator[Traffic]:
    """Whoever talks to it."""
    with httpx.Client(trust_env=False, timeout=PATIENCE_SECONDS) as http:
        yield Traffic(here, http)


def test_no_secret_stands_where_others_can_read_it(here: Installation, traffic: Traffic) -> None:
    """Wrong keys, forged webhooks, a provider that echoes our credential, a database that dies."""
    folder, said = here.folder, [here.json("doctor")]
    keys = folder / KEYS_FILE
    key = create_key(keys, tenant="acme", principal="agent:a", role=Role.AGENT)
    _, newer = rotate_key(keys, key[3:19], keep_ms=3_600_000)
    (old,) = read_secrets(folder / SECRETS_FILE)["simulated", "main"]
    new = rotate_secret(folder / SECRETS_FILE, "simulated", "main", keep_ms=3_600_000)
    # The local key works from the start; the others within a second.
    local = secrets_of(folder)["the local API key"]
    assert traffic.propose(local, "well").status_code == 201
    traffic.script(kind="refuse", code=f"echo_{PROVIDER_KEY}")
    refused = traffic.propose(local, "refused")
    assert refused.json()["status"] == "failed", refused.text
    traffic.script(kind="fail_after_commit")
    traffic.propose(local, "lost")
    for wrong in (UNKNOWN_KEY, key + "x", "x", PROVIDER_KEY):
        assert traffic.ask("GET", "/v1/actions/charge:v1:acme:well", key=wrong).status_code == 401
    assert traffic.webhook(FOREIGN_SECRET, "evt_forged").status_code == 401
    assert traffic.webhook(old.secret, "evt_old").status_code == 202
    said += _end_postgres(here)
    for path in ("/metrics", "/readyz", "/openapi.json", "/v1/nothing", "/console/login"):
        traffic.ask("GET", path)
    for mine in (key, newer, local):
        traffic.ask("GET", "/v1/actions/charge:v1:acme:refused/timeline", key=mine)
    secrets = {
        **secrets_of(folder),
        "an API key": key,
        "the API key that replaced it": newer,
        "a key that nobody has": UNKNOWN_KEY,
        "the secret of a forger": FOREIGN_SECRET.removeprefix("whsec_"),
        "the new webhook secret": new.removeprefix("whsec_"),
        "a wrong password": WRONG_PASSWORD,
    }
    outputs = [(f"output {n}", (one.out + one.err).encode()) for n, one in enumerate(said)]
    places = [*everything(folder), *traffic.answers, *outputs]
    assert len(places) > 100
    found = leaks(secrets, places)
    assert not found, "\n".join(found)


def _end_postgres(here: Installation) -> list[Said]:
    """Kill the database, ask while it is away and with a wrong password, until it is back."""
    state = state_of(here.folder)
    os.kill(state.processes["postgres"].pid, signal.SIGQUIT)
    said = [here.run("unknowns"), here.json("show", "charge:v1:acme:well")]
    until_ready(here)
    url = f"postgresql://actionledger:{WRONG_PASSWORD}@127.0.0.1:{state.ports['postgres']}/x"
    settings = {"ACTIONLEDGER_DATABASE": url}
    commands = (("unknowns",), ("doctor", "--json"), ("rebuild",))
    said += [here.run(*command, settings=settings) for command in commands]
    assert all(one.code != 0 for one in said[2:])
    return said


def test_a_secret_that_stands_somewhere_is_found(tmp_path: Path) -> None:
    """The search finds what is there: in a value, between other bytes, in a command line."""
    secrets = {"a key": "canary"}
    assert leaks(secrets, [("a log", b"x=canary,"), ("another", b"nothing")]) == [
        "a key stands in a log"
    ]


def test_private_files_are_private(here: Installation) -> None:
    """What holds a secret is readable by its owner only."""
    private = ("state.json", "api_key", "api_keys.toml", "webhook_secrets.toml", "console.toml")
    for name in (*private, "kafka_credentials.toml", "kafka/admin_password"):
        assert (here.folder / name).stat().st_mode & 0o077 == 0, name
