"""The case of webhooks: in by HTTP, into the log, and matched to actions whose outcome is unknown.

Guarantees that as many actions are unknown before the clock begins as webhooks come, each for one
of them. Starts the gateway and the reconciler, which no other case needs, and lets the executor
reach a provider that never answers; puts everything back. Called by `benchmarks.cases`.
"""

import secrets
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from benchmarks.driving import Load, generating
from benchmarks.figures import Figures, per_s, rate
from benchmarks.installation import Installation, Worker
from benchmarks.load import Order
from benchmarks.unanswering import unanswering
from gateway.local.ports import LOOPBACK, free_ports
from gateway.local.servers import start_together
from gateway.local.state import write_private
from gateway.wiring.names import Process
from gateway.wiring.places import SECRETS_FILE

TENANT: Final = "lost"
LOSING: Final = 128
CALLERS: Final = 32
NO_LIMIT_SECONDS: Final = 600.0


async def webhook(one: Installation, seconds: float) -> Figures:
    """As many as become unknown in the length of a case."""
    async with _with_webhooks(one) as load:
        order = Order(what="lose", tenant=TENANT, in_flight=LOSING, seconds=seconds)
        lost = await one.load.carry_out(order)
        await one.caught_up()
        sending = order.model_copy(update={"in_flight": CALLERS, "actions": lost.n})
        sent = await load.carry_out(sending)
        settled_s = await one.completed_visible(TENANT, lost.n)
    return {
        "n": sent.n,
        "per_s": rate(sent),
        "p50_ms": sent.p50_ms,
        "p99_ms": sent.p99_ms,
        "matched_per_s": per_s(lost.n, settled_s - sent.began_s),
    }


@asynccontextmanager
async def _with_webhooks(one: Installation) -> AsyncIterator[Load]:
    """A load generator of webhooks, and whoever they need."""
    (port,) = free_ports(1)
    secret = f"whsec_{b64encode(secrets.token_bytes(24)).decode()}"
    secrets_file = one.state.folder / SECRETS_FILE
    write_private(secrets_file, f'[simulated.main]\nsecrets = ["{secret}"]\n')
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(unanswering())
        told = {
            "PROVIDER_URLS": f"null=http://localhost,simulated={url}",
            "WEBHOOK_SECRETS_FILE": str(secrets_file),
            "HTTP_PORT": str(port),
        }
        stack.push_async_callback(_restart_executor, one, dict(one.workers[Process.EXECUTOR].told))
        await _restart_executor(one, told)
        more = [
            Worker(process, one.state, one.place, told)
            for process in (Process.GATEWAY, Process.RECONCILER)
        ]
        for worker in more:
            stack.push_async_callback(worker.stop)
        await start_together(*more)
        log = one.state.folder / "logs" / "webhook_load.log"
        command = ["benchmarks.webhook_load", f"http://{LOOPBACK}:{port}", secret]
        yield await stack.enter_async_context(generating(command, log))


async def _restart_executor(one: Installation, told: dict[str, str]) -> None:
    executor = one.workers[Process.EXECUTOR]
    await executor.stop()
    executor.told = told
    await start_together(executor)
