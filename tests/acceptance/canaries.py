"""Everything that a running installation has written, said or shown, to be searched for secrets.

Where a secret belongs is left out: the private files of the state folder, and what the command
prints once by design. Called by the test of canaries.
"""

import asyncio
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psutil

from gateway.local.state import State, read_state
from gateway.settings import Settings
from gateway.wiring.installation import open_log
from gateway.wiring.local import local_environment
from gateway.wiring.places import (
    CONSOLE_FILE,
    CREDENTIALS_FILE,
    KAFKA_ADMIN_FILE,
    KEY_FILE,
    SECRETS_FILE,
)
from ledger.log.topics import Topic
from ledger.log.webhook_record import WebhookReceived, read_webhook
from reconciler.providers.simulated.api import API_KEY_PREFIX

READ_MS = 500
PROVIDER_KEY = f"{API_KEY_PREFIX}main"

Places = Iterator[tuple[str, bytes]]
"""Where something was found written, and its bytes."""


def state_of(folder: Path) -> State:
    """What the installation agreed on."""
    state = read_state(folder)
    assert state is not None
    return state


def secrets_of(folder: Path) -> dict[str, str]:
    """Every secret of an installation, by what it is."""
    state = state_of(folder)
    found = {
        "the superuser's password": state.admin_password,
        "the owner's password": state.password,
        "the password of Kafka's super user": (folder / KAFKA_ADMIN_FILE).read_text().strip(),
        "the local API key": (folder / KEY_FILE).read_text().strip(),
        "the provider's API key": PROVIDER_KEY,
        **{f"the password of {role}": text for role, text in state.database_passwords.items()},
    }
    found["what seals sessions"] = tomllib.loads((folder / CONSOLE_FILE).read_text())["secret"]
    for name, login in tomllib.loads((folder / CREDENTIALS_FILE).read_text()).items():
        found[f"the Kafka password of {name}"] = login["password"]
    for secret in re.findall(r"whsec_([A-Za-z0-9+/=]+)", (folder / SECRETS_FILE).read_text()):
        found[f"webhook secret {len(found)}"] = secret
    return found


def logs(folder: Path) -> Places:
    """Every log file, of the servers too."""
    for path in sorted((folder / "logs").rglob("*")):
        if path.is_file():
            yield f"the log {path.name}", path.read_bytes()


def command_lines() -> Places:
    """What anybody on the machine can see of each process."""
    for process in psutil.process_iter(["cmdline"]):
        yield f"process {process.pid}", "\0".join(process.info["cmdline"] or ()).encode()


async def topics(folder: Path) -> list[tuple[str, bytes]]:
    """Every record of every topic: key, value, headers, and the bodies of webhooks."""
    settings = Settings.from_environment(local_environment(folder, state_of(folder)))
    log = open_log(settings, "cli")
    found: list[tuple[str, bytes]] = []
    for topic in Topic:
        count = 1 if topic is Topic.CONFIG else settings.partitions
        reader = await log.reader({(topic.value, part): 0 for part in range(count)})
        try:
            while records := await reader.read(timeout_ms=READ_MS):
                for record in records:
                    place = f"{topic.value} {record.partition}:{record.offset}"
                    parts = [record.key or b"", record.value or b"", repr(record.headers).encode()]
                    webhook = read_webhook(record) if topic is Topic.WEBHOOKS else None
                    if isinstance(webhook, WebhookReceived):
                        parts.append(webhook.raw())
                    found.append((place, b"\n".join(parts)))
        finally:
            await reader.close()
    return found


async def rows(folder: Path) -> list[tuple[str, bytes]]:
    """Every row of every table but the system's own, and what the server shows of its sessions."""
    state = state_of(folder)
    connection = await asyncpg.connect(state.admin_url, database="actionledger")
    try:
        tables = await connection.fetch(
            "select quote_ident(schemaname) || '.' || quote_ident(tablename) as name"
            # Another session's temporary tables cannot be read, and are empty between batches.
            " from pg_tables where schemaname !~ '^pg_' and schemaname <> 'information_schema'"
        )
        found = []
        for name in [*(row["name"] for row in tables), "pg_stat_activity"]:
            everything_in = f"select * from {name}"  # noqa: S608 - the catalogue's own
            for row in await connection.fetch(everything_in):
                parts = [part if isinstance(part, bytes) else str(part).encode() for part in row]
                found.append((f"a row of {name}", b"\n".join(parts)))
        return found
    finally:
        await connection.close()


def everything(folder: Path) -> list[tuple[str, bytes]]:
    """All of it."""
    return [
        *logs(folder),
        *command_lines(),
        *asyncio.run(topics(folder)),
        *asyncio.run(rows(folder)),
    ]


def leaks(secrets: dict[str, str], places: list[tuple[str, bytes]]) -> list[str]:
    """Which secret stands where, a sentence each."""
    return [
        f"{name} stands in {place}"
        for name, secret in secrets.items()
        for place, written in places
        if secret.encode() in written
    ]
