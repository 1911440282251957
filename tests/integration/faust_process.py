"""A process with one agent that misbehaves as it is told.

Run as `python -m tests.integration.faust_process HOW BOOTSTRAP TOPIC GROUP`, where HOW is `raise`
(an error escapes the agent), `hang` (the agent never comes back, and neither does the stop) or
`work`.
"""

import asyncio
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace

from ledger.log.port import Record
from streams.agents import add_agent
from streams.app import AppSettings, build_app, run_app

QUICK_MS = 1_500
"""What is waited for that never comes."""


async def run(how: str, bootstrap: str, topic: str, group: str) -> None:
    """Run until the process is told to stop or ends by itself."""
    settings = AppSettings(bootstrap, group, session_timeout_ms=6_000, heartbeat_ms=500)
    if how == "hang":
        settings = replace(settings, stop_deadline_ms=QUICK_MS)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)

    async def handle(records: Sequence[Record]) -> None:
        for record in records:
            sys.stdout.write(f"{record.offset}\n")
            sys.stdout.flush()
        if how == "raise":
            raise RuntimeError("this escapes the agent")
        if how == "hang":
            # From here on nothing comes: until here all may be as slow as the machine is.
            object.__setattr__(settings, "stalled_after_ms", QUICK_MS)
            await asyncio.Event().wait()

    async def hang(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    app = build_app(settings)
    if how == "hang":
        app.on_before_shutdown.connect(hang)
    add_agent(app, topic, handle, deadline_ms=5_000)
    await run_app(app, settings, stop=stop)


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
