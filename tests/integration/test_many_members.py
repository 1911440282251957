"""Many members of every kind, over many partitions: they join, leave, are killed and freeze, and
nothing is lost, nothing happens twice, and when it is quiet nothing changes hands.

Real processes on real servers, judged by the checker of the crash tests: by log, the provider's
book, tables and what callers were told.
"""

import asyncio
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.settings import Settings
from gateway.wiring.ordering import order
from ledger.core.facts import AttemptStarted
from ledger.core.holds import HOLD, RELEASE, Order, Scope
from ledger.core.records import Decision, EpochOpened, LedgerRecord, Verdict, accept
from ledger.log.envelope import read_ledger
from ledger.log.topics import Topic
from tests.crash.load import Agents, script, wishes
from tests.crash.machine import FREEZE_SECONDS, PROCESSES, PROVIDER, Machine, machine
from tests.crash.matrix import THIRDS, third_of_this_run
from tests.crash.settling import settled
from tests.patience import CAMPAIGN_SECONDS, PATIENCE_MS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

KINDS = ("processor", "executor", "inquirer", "reconciler", "projector")
MEMBERS_TODAY = third_of_this_run() % THIRDS + 1
"""One, two or three of each kind: a run takes one number, three days take all."""

ACTIONS = 60
SEED = 20_261_129
QUIET_SECONDS = 20.0
EVERYTHING = Order(scope=Scope(), by="ops")
EPOCHS_A_MINUTE_MAX = 3


def member(kind: str, number: int) -> str:
    """The name of a member of a kind; the first bears that of the kind."""
    return kind if number == 1 else f"{kind}-{number}"


async def accepted(running: Machine) -> list[tuple[int, LedgerRecord]]:
    """Every ledger record that counts, with its partition, in the order of each partition."""
    begins = {(Topic.LEDGER.value, part): 0 for part in range(running.partitions)}
    found: list[tuple[int, LedgerRecord]] = []
    epoch: Counter[int] = Counter()
    reader = await running.log.reader(begins)
    try:
        left = sum((await reader.end_offsets(begins)).values())
        while left > 0:
            for record in await reader.read(timeout_ms=500):
                left -= 1
                read = read_ledger(record.value)
                if accept(epoch[record.partition], record.offset, read) is Verdict.ACCEPTED:
                    epoch[record.partition] = getattr(read, "epoch", 0)
                    found.append((record.partition, read))
    finally:
        await reader.close()
    return found


async def epochs(running: Machine) -> Counter[int]:
    """How many epochs each partition has had."""
    return Counter(part for part, read in await accepted(running) if isinstance(read, EpochOpened))


async def stays_quiet(running: Machine) -> bool:
    """Whether partitions keep their owners for a while in which nothing happens to anybody."""
    before = await epochs(running)
    await running.hold(QUIET_SECONDS)
    opened = await epochs(running) - before
    allowed = EPOCHS_A_MINUTE_MAX * QUIET_SECONDS / 60
    return all(count <= allowed for count in opened.values())


async def starts_while_held(running: Machine) -> tuple[int, list[str]]:
    """In how many partitions everything was held for a time, and what was started meanwhile."""
    held: set[int] = set()
    partitions: set[int] = set()
    started: list[str] = []
    for part, read in await accepted(running):
        if not isinstance(read, Decision):
            continue
        if part in held:
            started += [fact.action for fact in read.facts if isinstance(fact, AttemptStarted)]
        if read.adopted is not None and read.adopted.kind == HOLD:
            held.add(part)
            partitions.add(part)
        elif read.adopted is not None and read.adopted.kind == RELEASE:
            held.discard(part)
    return len(partitions), started


async def trouble(running: Machine, agents: Agents, members: int) -> None:
    """While work goes on one joins and leaves, one of each kind is killed, everything is held for a
    while, and two freeze.
    """
    await agents.reached(ACTIONS // 6)
    extra = [member(kind, members + 1) for kind in ("processor", "executor")]
    for kind, name in zip(("processor", "executor"), extra, strict=True):
        await running.start_member(kind, name)
    await agents.reached(2 * ACTIONS // 6)
    for name in extra:
        await running.end(name, signal.SIGTERM)
        await running.end_member(name)
    await agents.reached(3 * ACTIONS // 6)
    for kind in KINDS:
        await running.end(member(kind, members))
    settings = Settings.from_environment(running.supervised["processor"].env)
    assert not (await order(settings, HOLD, EVERYTHING, timeout_ms=PATIENCE_MS)).waiting
    await agents.reached(4 * ACTIONS // 6)
    assert not (await order(settings, RELEASE, EVERYTHING, timeout_ms=PATIENCE_MS)).waiting
    async with asyncio.TaskGroup() as freezing:
        for kind in ("processor", "executor"):
            freezing.create_task(running.pause(member(kind, 1), FREEZE_SECONDS))


@pytest.mark.law("V5")
@pytest.mark.timeout(CAMPAIGN_SECONDS)
@pytest.mark.parametrize(("members", "partitions"), [(MEMBERS_TODAY, 6), (2, 24)])
async def test_members_come_and_go_and_nothing_is_lost(
    servers: Addresses, tmp_path: Path, members: int, partitions: int
) -> None:
    """Whatever happens to one of them the others go on; in the end every law holds, and in the
    quiet after it no partition changes its owner.
    """
    wanted = wishes(SEED + members * 100 + partitions, ACTIONS)
    where = (servers.kafka_bootstrap, servers.admin_url, tmp_path)
    async with machine(*where, partitions=partitions) as running:
        await running.start(PROVIDER)
        await script(running.provider_url, wanted)
        await running.start(*PROCESSES)
        async with asyncio.TaskGroup() as joining:
            for number in range(2, members + 1):
                for kind in KINDS:
                    joining.create_task(running.start_member(kind, member(kind, number)))
        agents = Agents(running.url, running.keys, running.clients_file, SEED)
        async with asyncio.TaskGroup() as group:
            group.create_task(agents.work(wanted))
            group.create_task(trouble(running, agents, members))
        report = await settled(running, ACTIONS)
        assert report.is_right
        assert await starts_while_held(running) == (partitions, [])
        assert set(await epochs(running)) == set(range(partitions))
        # Who was frozen last may be found fenced, end and come back within the first of them.
        assert await stays_quiet(running) or await stays_quiet(running)


async def test_a_member_with_a_name_comes_back_to_its_partitions_and_disturbs_nobody(
    servers: Addresses, tmp_path: Path
) -> None:
    """A processor that is stopped or killed, and started again within its session: the other never
    hears of it, and only the partitions of the one get a new epoch.
    """
    async with machine(servers.kafka_bootstrap, servers.admin_url, tmp_path, partitions=6) as run:
        await run.start("projector")
        for name in ("processor-1", "processor-2"):
            await run.start_member("processor", name, _named(name))
        stays, comes_back = tmp_path / "processor-1.log", tmp_path / "processor-2.log"
        for log in (stays, comes_back):
            await run.until(_has_opened(log, 3), "three partitions each")
        heard, before = _changes(stays), await epochs(run)
        for number in (signal.SIGTERM, signal.SIGKILL):
            count = _text(comes_back).count("epoch_opened") + 3
            await run.end("processor-2", number)
            await run.until(_has_epochs(comes_back, count), "its partitions again")
        opened = await epochs(run) - before
        assert sorted(opened.values()) == [2, 2, 2]
        assert _changes(stays) == heard


def _named(name: str) -> dict[str, str]:
    """What a member with a name of its own is told, and the session that goes with it."""
    return {"ACTIONLEDGER_MEMBER": name, "ACTIONLEDGER_GROUP_SESSION_MS": "45000"}


def _changes(log: Path) -> list[str]:
    """What a processor has said of partitions that change hands; it says other things when it has
    the time.
    """
    of_them = ("partitions_revoked", "partitions_assigned", "epoch_opened")
    return [line for line in _text(log).splitlines() if any(name in line for name in of_them)]


def _has_opened(log: Path, partitions: int) -> Callable[[], bool]:
    """Whether a processor was given so many partitions last, and has opened each."""

    def has() -> bool:
        since = _text(log).rpartition("partitions_assigned")[2]
        return _assignments(log)[-1:] == [partitions] and since.count("epoch_opened") == partitions

    return has


def _has_epochs(log: Path, count: int) -> Callable[[], bool]:
    return lambda: _text(log).count("epoch_opened") == count


def _text(log: Path) -> str:
    return log.read_text(encoding="utf-8") if log.exists() else ""


def _assignments(log: Path) -> list[int]:
    """How many partitions a processor was given, each time."""
    lines = [line for line in _text(log).splitlines() if "partitions_assigned" in line]
    return [0 if "[]" in line else line.count(",") + 1 for line in lines]
