"""Keys and secrets that change under a running gateway, as callers and providers meet it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest
import pytest_asyncio

from gateway.keys import Role, revoke_key, rotate_key
from gateway.webhook_secrets import read_secrets, revoke_secret, rotate_secret
from tests.integration.door import POLL_SECONDS, SECRET, Door, code_of, opened, signed
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = [pytest.mark.servers, pytest.mark.asyncio(loop_scope="module")]

HOUR_MS = 3_600_000
PATH = "/v1/actions/charge:v1:acme:nobody"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door(servers: Addresses, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Door]:
    """Open one door for all tests, with nobody behind it."""
    async with opened(servers, tmp_path_factory.mktemp("rotation")) as one:
        yield one


async def until(
    ask: Callable[[], Awaitable[httpx.Response]], status: int, code: str | None = None
) -> httpx.Response:
    """Ask until the answer has a status, and a code where one is named."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            answer = await ask()
            if answer.status_code == status and code in {None, answer.json().get("code")}:
                return answer
            await asyncio.sleep(POLL_SECONDS)


async def test_a_rotated_key_works_beside_the_new_one_until_it_is_revoked(door: Door) -> None:
    """No restart: both are the same caller; then the old one is refused by name, the new not."""
    path, old = door.settings.api_keys_file, door.keys["acme", Role.AGENT]
    _, new = rotate_key(path, old[3:19], keep_ms=HOUR_MS)

    async def with_key(key: str) -> httpx.Response:
        return await door.http.get(PATH, headers={"Authorization": f"Bearer {key}"})

    await until(lambda: with_key(new), 404, "unknown_action")
    assert (await with_key(old)).status_code == 404
    revoke_key(path, old[3:19])
    refused = await until(lambda: with_key(old), 401)
    assert code_of(refused) == "api_key_revoked"
    assert old not in refused.text
    assert (await with_key(new)).status_code == 404
    # Who has the id and not the key learns nothing of it.
    assert code_of(await with_key(old[:-2] + "AA")) == "unauthenticated"


async def test_a_key_that_is_over_is_refused_by_name(door: Door) -> None:
    """A rotation that keeps the old key for no time ends it there and then."""
    path, old = door.settings.api_keys_file, door.keys["globex", Role.AGENT]
    rotate_key(path, old[3:19], keep_ms=0)
    headers = {"Authorization": f"Bearer {old}"}
    refused = await until(lambda: door.http.get(PATH, headers=headers), 401)
    assert code_of(refused) == "api_key_expired"


async def test_webhooks_are_taken_under_the_old_and_the_new_secret_until_the_old_is_gone(
    door: Door,
) -> None:
    """The sender changes over when it likes; a secret that was revoked verifies nothing."""
    path = door.settings.webhook_secrets_file
    assert path is not None
    new = rotate_secret(path, "simulated", "main", keep_ms=HOUR_MS)

    async def sent(secret: str) -> httpx.Response:
        headers = signed(b"{}", event_id="evt_rotated", secret=secret)
        return await door.http.post("/v1/webhooks/simulated", content=b"{}", headers=headers)

    await until(lambda: sent(new), 202)
    assert (await sent(SECRET)).status_code == 202
    (_, old) = read_secrets(path)["simulated", "main"]
    revoke_secret(path, "simulated", "main", old.fingerprint)
    refused = await until(lambda: sent(SECRET), 401)
    assert refused.json()["detail"] == "signature_mismatch"
    assert (await sent(new)).status_code == 202
