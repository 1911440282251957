"""End a process at each named moment between which a crash has different consequences.

One installation lives through all of them: each test arms one point in one process, works, sees it
die there, and has the whole log so far judged.
"""

import signal
import zlib
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gateway.local import Servers
from ledger.log.crashpoints import POINTS
from tests.crash.load import SETTLED_SOON, Agents, script, wishes
from tests.crash.machine import PROCESSES, PROVIDER, Machine, machine
from tests.crash.settling import settled
from tests.crash.test_kills import seed_of_run

pytestmark = pytest.mark.asyncio(loop_scope="module")

ACTIONS = 24
WHERE = {
    "barrier_sent": "processor",
    "decisions_sent:3": "processor",
    "decisions_acked:3": "processor",
    "before_first_byte:3": "executor",
    "answer_half_read:3": "executor",
    "webhook_acked:2": "gateway",
}
"""Each point, how often it is passed before the process dies there, and in which process."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(
    module_servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Machine]:
    """Run every process of one installation."""
    folder = tmp_path_factory.mktemp("crash")
    servers = module_servers
    async with machine(servers.kafka_bootstrap, servers.admin_url, folder) as made:
        await made.start(PROVIDER, *PROCESSES)
        yield made


@pytest.mark.parametrize("crash_at", WHERE)
async def test_a_crash_at_a_named_point(running: Machine, crash_at: str) -> None:
    """The process dies exactly there, another life takes over, and every law holds."""
    seed = seed_of_run() + zlib.crc32(crash_at.encode())
    print(f"seed {seed} at {crash_at}")  # noqa: T201 - shown on failure
    process = WHERE[crash_at]
    wanted = wishes(seed, ACTIONS, SETTLED_SOON)
    await script(running.provider_url, wanted)
    running.supervised[process].crash_at = crash_at
    await running.end(process, signal.SIGTERM)
    agents = Agents(running.url, running.keys, running.clients_file, seed)
    await agents.work(wanted)
    await running.died_at(process, crash_at)
    report = await settled(running, ACTIONS)
    print(report)  # noqa: T201
    assert report.is_right


async def test_every_point_that_is_tried_exists() -> None:
    """A point that no code passes cannot be tried."""
    assert {point.partition(":")[0] for point in WHERE} <= {point.name for point in POINTS}
