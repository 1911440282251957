"""Real Kafka and Postgres on loopback, without Docker and without root.

For tests and benchmarks, as children that end with the process that started them:

    async with local.servers() as s:
        s.kafka_bootstrap, s.database_url, s.admin_url
        await s.kafka.kill()
        await s.kafka.restart()
"""

from gateway.local.errors import LocalError
from gateway.local.progress import Progress
from gateway.local.servers import Servers, prepare, servers

__all__ = ["LocalError", "Progress", "Servers", "prepare", "servers"]
