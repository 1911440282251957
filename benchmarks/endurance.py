"""What stays bounded: memory over many settled actions, the start of a processor among many live
ones.

    python -m benchmarks.endurance [--settled N] [--live N] [--partitions N]

Prints a line for every tenth of the way with the memory of each process, then how long a processor
that was stopped takes from its start to the first decision while so many actions are unfinished.
Figures are reported as they came: there is no bar here.
"""

import argparse
import asyncio
import json
import sys
import time
from typing import Final

from benchmarks.cases import memory
from benchmarks.installation import Installation, Variant, installed
from benchmarks.load import ACTIONS_MAX, Order
from benchmarks.run import Options, placed, scratch
from gateway.cli.progress import progress
from gateway.local import prepare
from gateway.wiring.names import Process
from ledger.core.errors import LedgerError

IN_FLIGHT: Final = 128
IN_FLIGHT_ASKING: Final = 512
STEPS: Final = 10
NO_LIMIT_SECONDS: Final = 7_200.0


def main(arguments: list[str]) -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.endurance", description=__doc__)
    parser.add_argument("--settled", type=int, default=1_000_000)
    parser.add_argument("--live", type=int, default=200_000)
    parser.add_argument("--partitions", type=int, default=6)
    given = parser.parse_args(arguments)
    try:
        asyncio.run(_run(given.settled, given.live, given.partitions))
    except LedgerError as trouble:
        sys.stderr.write(f"{trouble.message}\n{trouble.hint}\n")
        return 1
    return 0


async def _run(settled: int, live: int, partitions: int) -> None:
    options = Options(
        seconds=NO_LIMIT_SECONDS,
        cases=frozenset(),
        variants=(Variant.DEFAULT,),
        partitions=partitions,
        number=1,
        out=None,
        scratch=None,
        database=None,
        profiled=None,
    )
    with progress() as report, scratch(None) as folder:
        java = await prepare(report=report)
        async with (
            placed(options, folder, java) as place,
            installed(place, Variant.DEFAULT) as one,
        ):
            await _settle(one, settled)
            await _start_among(one, live)


async def _settle(one: Installation, count: int) -> None:
    """So many actions from intent to completion, and what the processes hold on the way."""
    done = 0
    while done < count:
        part = min(max(1, count // STEPS), count - done, ACTIONS_MAX)
        await _order(one, "act", f"settled-{done}", IN_FLIGHT, part)
        done += part
        await one.caught_up()
        _tell(settled=done, **memory(one))


async def _start_among(one: Installation, count: int) -> None:
    """Actions that wait for capacity, and a processor that is started among them."""
    executor = one.workers[Process.EXECUTOR]
    one.stopped.add(executor.name)
    await executor.stop()
    done = 0
    while done < count:
        part = min(count - done, ACTIONS_MAX)
        await _order(one, "ask", f"live-{done}", IN_FLIGHT_ASKING, part)
        done += part
    await one.caught_up()
    processor = one.workers[Process.PROCESSOR]
    await processor.stop()
    began_s = time.monotonic()
    await processor.start()
    await processor.wait_ready()
    ready_s = time.monotonic() - began_s
    await _order(one, "ask", "first", 1, 1)
    decided_s = time.monotonic() - began_s
    _tell(live=done, ready_s=round(ready_s, 2), first_decision_s=round(decided_s, 2))
    await executor.start()
    one.stopped.clear()
    began_s = time.monotonic()
    query = "select count(*) from actionledger.actions where status = 'ready'"
    while (waiting := await one.database.fetchval(query)) > 0:
        one.check_running()
        await asyncio.sleep(1.0)
        if time.monotonic() - began_s > NO_LIMIT_SECONDS:
            break
    ended_s = time.monotonic() - began_s
    _tell(live_left=waiting, settled_in_s=round(ended_s, 1), **memory(one))


async def _order(one: Installation, what: str, tenant: str, in_flight: int, count: int) -> None:
    order = Order.model_validate(
        {
            "what": what,
            "tenant": tenant,
            "in_flight": in_flight,
            "seconds": NO_LIMIT_SECONDS,
            "actions": count,
        }
    )
    measured = await one.load.carry_out(order)
    seconds = measured.ended_s - measured.began_s
    _tell(what=what, n=measured.n, per_s=round(measured.n / seconds, 1), p99_ms=measured.p99_ms)


def _tell(**figures: object) -> None:
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
