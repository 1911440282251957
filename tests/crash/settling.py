"""Waits until a run has come to rest, and has it judged.

A law that was broken stays broken, because the log keeps everything; what is merely not yet so is
waited for, within the time in which everything has to end. A run that is wrong is kept in a file,
to be judged again with `python -m tests.crash.checker --saved FILE`.
"""

import asyncio
import tempfile
import time
from pathlib import Path

import asyncpg

from tests.crash.checker import Report, check
from tests.crash.gathering import gather
from tests.crash.machine import Machine
from tests.patience import PATIENCE_SECONDS

LOOK_SECONDS = 0.2
UNSETTLED = """
select count(*) from actionledger.actions
where status not in ('completed', 'failed', 'cancelled', 'expired', 'denied', 'needs_review')
  and not (status = 'blocked' and target in (
      select target from actionledger.actions where status = 'needs_review'
  ))
"""
"""What is neither final nor with a person, nor blocked by what is."""


async def settled(machine: Machine, actions: int) -> Report:
    """The checker's word on a run of so many actions, as soon as it is content or time is up."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    connection = await asyncpg.connect(machine.database_url)
    try:
        while time.monotonic() < give_up_at:
            count = await connection.fetchval("select count(*) from actionledger.actions")
            if count >= actions and await connection.fetchval(UNSETTLED) == 0:
                report = check(await gather(machine.sources))
                if report.is_right:
                    return report
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        await connection.close()
    run = await gather(machine.sources)
    folder = Path(tempfile.mkdtemp(prefix="actionledger-crash-"))
    run.save(folder / "run.json")
    (folder / "logs.txt").write_text(machine.last_words(2_000), encoding="utf-8")
    report = check(run)
    assert report.is_right, f"{report}\nkept in {folder}\n{machine.endings()}"
    return report
