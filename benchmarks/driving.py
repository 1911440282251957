"""The runner's end of the load generator: orders out, measurements in.

Guarantees that the generator ends with the runner, however that ends: it reads orders from a pipe
whose other end the kernel closes. Called by `benchmarks.installation`.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.load import Measured, Order
from benchmarks.trouble import BenchmarkError
from gateway.local.logs import tail

ROOT = Path(__file__).parents[1]
STOP_SECONDS = 10.0


class Load:
    """A running load generator; one order at a time."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    async def carry_out(self, order: Order) -> Measured:
        """Give an order and wait until it is done. Raises BenchmarkError if the generator ends."""
        assert self._process.stdin is not None
        self._process.stdin.write(order.model_dump_json().encode() + b"\n")
        return Measured.model_validate_json(await self.line())

    async def line(self) -> bytes:
        """The next line it says. Raises BenchmarkError if it ends instead."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise BenchmarkError(
                f"The load generator ended, saying: {tail(self._log)}",
                hint="An action did not complete; the logs of the processes say why.",
            )
        return line


@asynccontextmanager
async def generating(argv: Sequence[str], log: Path) -> AsyncIterator[Load]:
    """Run a load generator with these arguments; errors go to the log file."""
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            cwd=ROOT,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            process_group=0,
        )
    try:
        load = Load(process, log)
        await load.line()
        yield load
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
