"""The case of webhooks: in by HTTP, into the log, and matched to actions whose outcome is unknown.

Guarantees that as many actions are unknown before the clock begins as webhooks come, each for one
of them, and that everything runs while it is measured, so that door, reconciler, ledger, tables and
load share the machine. Starts the gateway and the reconciler, which no other case needs, and lets
the executor reach a provider that never answers; puts everything back. Called by
`benchmarks.cases`.
"""

import secrets
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from benchmarks.driving import Load, generating
from benchmarks.figures import Figures, per_s, rate
from benchmarks.installation import LOAD, Installation, Worker
from benchmarks.load import Order
from benchmarks.unanswering import unanswering
from benchmarks.usage import cpu_seconds
from gateway.local.ports import LOOPBACK, free_ports
from gateway.local.servers import start_together
from gateway.local.state import write_private
from gateway.wiring.names import Process
from gateway.wiring.places import SECRETS_FILE

TENANT: Final = "lost"
TENANT_AT_HALF: Final = "lost-at-half"
LOSING: Final = 128
CALLERS: Final = 128
"""As `inflight_128` has: with few the figure is how long one append takes, not how many the door
takes.
"""

NO_LIMIT_SECONDS: Final = 600.0
OF_WEBHOOKS: Final = (Process.GATEWAY, Process.RECONCILER)
"""The processes that no other case needs."""


async def webhook(one: Installation, seconds: float) -> Figures:
    """As many as become unknown in the length of a case, as fast as they are taken; then as many
    again at half the rate at which those were matched.
    """
    async with _with_webhooks(one) as (load, more):
        lost = await _lose(one, TENANT, seconds)
        programs = _programs(one, more, load)
        before = {name: cpu_seconds(pid) for name, pid in programs.items()}
        sent = await load.carry_out(_deliveries(TENANT, lost))
        matched_per_s = per_s(lost, await one.completed_visible(TENANT, lost) - sent.began_s)
        used_us = {
            f"{name}_us": round((cpu_seconds(pid) - before[name]) / lost * 1e6)
            for name, pid in programs.items()
        }
        lost = await _lose(one, TENANT_AT_HALF, seconds)
        order = _deliveries(TENANT_AT_HALF, lost)
        at_half = await load.carry_out(order.model_copy(update={"per_s": matched_per_s / 2}))
        await one.completed_visible(TENANT_AT_HALF, lost)
        await one.caught_up()
        (waited_ms,) = await one.database.fetch(LATENCIES, TENANT_AT_HALF)
    return {
        "n": sent.n,
        "per_s": rate(sent),
        "p50_ms": sent.p50_ms,
        "p99_ms": sent.p99_ms,
        "matched_per_s": matched_per_s,
        "half_per_s": rate(at_half),
        **{name: round(waited, 1) for name, waited in waited_ms.items()},
        **used_us,
    }


LATENCIES: Final = """
with settled as (
    select extract(epoch from w.matched_at - w.received_at) * 1000 as matched,
           extract(epoch from e.decided_at - w.received_at) * 1000 as settled
    from actionledger.webhooks as w
    join actionledger.action_events as e
      on e.action_key = w.action_key and e.type = 'action.completed'
    where e.tenant_id = $1
)
select percentile_cont(0.5) within group (order by matched)::float as matched_p50_ms,
       percentile_cont(0.99) within group (order by matched)::float as matched_p99_ms,
       percentile_cont(0.5) within group (order by settled)::float as settled_p50_ms,
       percentile_cont(0.99) within group (order by settled)::float as settled_p99_ms
from settled
"""
"""From the append of a webhook to its match, and to the decision that settled its action."""


async def _lose(one: Installation, tenant: str, seconds: float) -> int:
    """Actions of a tenant whose outcome is unknown, all in the tables; how many."""
    order = Order(what="lose", tenant=tenant, in_flight=LOSING, seconds=seconds)
    lost = await one.load.carry_out(order)
    await one.caught_up()
    return lost.n


def _deliveries(tenant: str, count: int) -> Order:
    return Order(
        what="lose", tenant=tenant, in_flight=CALLERS, seconds=NO_LIMIT_SECONDS, actions=count
    )


def _programs(one: Installation, more: Sequence[Worker], load: Load) -> dict[str, int]:
    """What works for a webhook, by its first pid; the load generator too."""
    found = {"postgres": one.place.postgres_pid, LOAD: load.pid}
    for program in (one.kafka, *one.workers.values(), *more):
        assert program.identity is not None
        name = "broker" if program is one.kafka else program.name
        found[name] = program.identity.pid
    return found


@asynccontextmanager
async def _with_webhooks(one: Installation) -> AsyncIterator[tuple[Load, list[Worker]]]:
    """A load generator of webhooks, and whoever they need beside the others."""
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
        more = [Worker(process, one.state, one.place, told) for process in OF_WEBHOOKS]
        for worker in more:
            stack.push_async_callback(worker.stop)
        await start_together(*more)
        log = one.state.folder / "logs" / "webhook_load.log"
        command = ["benchmarks.webhook_load", f"http://{LOOPBACK}:{port}", secret]
        yield await stack.enter_async_context(generating(command, log)), more


async def _restart_executor(one: Installation, told: dict[str, str]) -> None:
    executor = one.workers[Process.EXECUTOR]
    await executor.stop()
    executor.told = told
    await start_together(executor)
