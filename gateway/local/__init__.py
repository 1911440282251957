"""Real Kafka and Postgres on loopback, without Docker and without root.

For people, behind the command line; all of it keeps the data until `reset`:

    await prepare(cache, report)                 fetch Kafka, once per machine (optional: `up` does)
    await up(folder, cache, services, wanted_ports={"postgres": 0}, report=report) -> Running
    status(folder) -> Status                     reads only, at once
    await down(folder, report=report) -> bool    whether anything ran
    await reset(folder, confirm, report=report) -> bool    `confirm(question)` decides

`report` is called with a `Progress` (step, done, total, detail), also from another thread. Trouble
is a `LocalError` whose `message` is one sentence and whose `hint` says what to do. `services` is a
tuple of `Service`, started in its order after the servers; see `service` for what may be in one.
`wanted_ports` is `actionledger up --port NAME=PORT`.

For tests and benchmarks, as children that end with the process that started them:

    async with local.servers() as s:             on a folder of one's own: servers(folder)
        s.kafka_bootstrap, s.database_url, s.admin_url
        await s.kafka.kill()
        await s.kafka.restart()

Call `prepare` before measuring: otherwise the supervisor makes Kafka's start faster by itself, a
minute after the first `up`, for about 10 s of one processor.
"""

from gateway.local.control import ProcessStatus, Running, Status, down, reset, status, up
from gateway.local.errors import LocalError
from gateway.local.progress import Progress
from gateway.local.servers import Servers, prepare, servers
from gateway.local.service import AliveFor, ExitsCleanly, FileAppears, HttpOk, PortOpen, Service
from gateway.local.state import Phase

__all__ = [
    "AliveFor",
    "ExitsCleanly",
    "FileAppears",
    "HttpOk",
    "LocalError",
    "Phase",
    "PortOpen",
    "ProcessStatus",
    "Progress",
    "Running",
    "Servers",
    "Service",
    "Status",
    "down",
    "prepare",
    "reset",
    "servers",
    "status",
    "up",
]
