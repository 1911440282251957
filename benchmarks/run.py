"""One run: starts what it needs, measures both variants, stops what it started, prints one table.

Guarantees that nothing runs afterwards, and that figures are reported as they came: there is no bar
here. Called by `python -m benchmarks`.
"""

import asyncio
import importlib.metadata
import os
import platform
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.cases import ALONGSIDE, WARM_UP, Case, measure
from benchmarks.figures import Figures
from benchmarks.installation import PROCESSES, Installation, Place, Variant, installed, profile_file
from benchmarks.results import ABOUT, Results
from benchmarks.sampling import Profile
from gateway.cli.progress import progress
from gateway.local import Progress, prepare
from gateway.local.jars import read_lock
from gateway.local.java import Java
from gateway.local.postgres import PostgresServer
from gateway.local.progress import Report
from gateway.local.servers import erase, start_together
from gateway.local.state import StateFolder

FOLDER_PREFIX: Final = "actionledger-bench-"
PACKAGES: Final = ("actionledger-server", "aiokafka", "asyncpg", "pydantic", "uvloop")


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure and where. Without a database one is started for the run."""

    seconds: float
    cases: frozenset[Case]
    variants: tuple[Variant, ...]
    partitions: int
    number: int
    out: Path | None
    scratch: Path | None
    database: tuple[str, int] | None
    """Its URL and the pid of its first process."""
    profiled: str | None


async def run(options: Options) -> tuple[Results, Profile | None]:
    """Measure everything that was asked for. SIGTERM ends it like Ctrl-C."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    results = Results(options.number, options.out)
    with progress() as report, scratch(options.scratch) as folder:
        java = await prepare(report=report)
        async with placed(options, folder, java) as place:
            for variant in options.variants:
                await _measured(place, variant, options, results, report)
            profile = Profile.read(profile_file(place)) if options.profiled else None
    return results, profile


async def _measured(
    place: Place, variant: Variant, options: Options, results: Results, report: Report
) -> None:
    """One variant from a fresh installation to its last line."""
    own = {Case.LAG} & options.cases  # a load of its own, after the one it is measured with
    steps = 3 + len(own) + len({ALONGSIDE.get(case, case) for case in options.cases})
    done = 0

    def say(what: str) -> None:
        nonlocal done
        report(Progress(variant.value, done, steps, what))
        done += 1

    def tell(case: Case, figures: Figures) -> None:
        results.add(variant, case.value, figures)

    load_before = round(os.getloadavg()[0], 2)
    say("start")
    async with installed(place, variant) as one:
        await measure(one, options.cases, options.seconds, tell, say)
        results.add(variant, ABOUT, await _about(one, options, load_before))
        say("stop")
    report(Progress(variant.value, steps, steps, "done"))


async def _about(one: Installation, options: Options, load_before: float) -> Mapping[str, object]:
    """What was measured, for whoever reads the figures without having seen the run."""
    kafka = next(jar.version for jar in read_lock() if jar.name.startswith("kafka_"))
    postgres = one.database.get_server_version()
    events_an_action = await one.database.fetchval(
        "select count(*)::float / count(distinct action_key) from actionledger.action_events "
        "where tenant_id = $1",
        WARM_UP,
    )
    flush = "broker default" if one.variant.flush_records is None else "every append"
    return {
        "versions": {
            "kafka": kafka,
            "postgres": f"{postgres.major}.{postgres.minor}",
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in PACKAGES},
        },
        "processes": len(PROCESSES),
        "partitions": one.place.partitions,
        "replication": 1,
        "flush": flush,
        "events_an_action": round(events_an_action, 2),
        "seconds": options.seconds,
        "cores": os.cpu_count(),
        "load_before": load_before,
        "client": "ledger client on Kafka",
    }


@contextmanager
def scratch(parent: Path | None) -> Iterator[Path]:
    """A folder for everything that is written, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=parent))
    if os.geteuid() == 0:
        folder.chmod(0o711)  # the account of Postgres has to pass
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def placed(options: Options, folder: Path, java: Java) -> AsyncIterator[Place]:
    """The given Postgres, or one of our own for the run."""
    if options.database is not None:
        url, pid = options.database
        yield Place(folder, java, url, pid, options.partitions, options.profiled)
        return
    state = StateFolder.hold(folder / "postgres")
    postgres = PostgresServer(state, death_signal=signal.SIGQUIT)
    try:
        await start_together(postgres)
        assert postgres.identity is not None
        url, pid = state.state.database_url, postgres.identity.pid
        yield Place(folder, java, url, pid, options.partitions, options.profiled)
    finally:
        await postgres.stop()
        erase(state)
        state.release()
