"""Fixtures for the real Kafka and Postgres.

`servers` is started once per session and shared: use your own topics, groups and databases on it.
`own_servers` and `module_servers` are for tests that kill them. With ACTIONLEDGER_TEST_KAFKA
(host:port) and ACTIONLEDGER_TEST_DATABASE (the URL of a superuser) the shared ones are those, and
none are started. `database_url` is a new database for one test, with every table;
`empty_database_url` is one without.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from gateway import local
from gateway.local.postgres import Commit
from tests import databases

KAFKA_VARIABLE = "ACTIONLEDGER_TEST_KAFKA"
DATABASE_VARIABLE = "ACTIONLEDGER_TEST_DATABASE"


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the shared servers are. `admin_url` is a superuser's, to make databases with.

    At `kafka_bootstrap` everybody may do everything; at `kafka_guarded`, where there is such a
    listener, whoever logs in may do what was said of him.
    """

    kafka_bootstrap: str
    admin_url: str
    kafka_guarded: str | None = None


@contextmanager
def running(
    loop: asyncio.AbstractEventLoop, *, commit: Commit = Commit.ON_DISK
) -> Iterator[local.Servers]:
    """Run both servers for a fixture that is no coroutine.

    In the caller's thread (they end with it), on a loop that no test sees.
    """
    context = local.servers(commit=commit)
    started = loop.run_until_complete(context.__aenter__())
    try:
        yield started
    finally:
        # Thousands of partitions take their time to close, and nobody reads them again.
        loop.run_until_complete(started.kafka.kill())
        loop.run_until_complete(context.__aexit__(None, None, None))


@pytest.fixture(scope="session")
def servers() -> Iterator[Addresses]:
    """Run Kafka and Postgres for the session, or use the ones that the environment names."""
    kafka, database = os.environ.get(KAFKA_VARIABLE), os.environ.get(DATABASE_VARIABLE)
    if kafka and database:
        yield Addresses(kafka, database)
        asyncio.run(databases.forget(database))
        return
    loop = asyncio.new_event_loop()
    # Once per machine; every restart gains by it.
    loop.run_until_complete(local.prepare())
    # Every database that is dropped is a checkpoint, and nobody kills these servers.
    with running(loop, commit=Commit.HANDED_OVER) as started:
        yield Addresses(started.kafka_bootstrap, started.admin_url, started.kafka_guarded)
    loop.close()


@pytest.fixture(scope="module")
def module_servers() -> Iterator[local.Servers]:
    """Run a Kafka and a Postgres for this module alone, to be killed and restarted in turn."""
    loop = asyncio.new_event_loop()
    with running(loop) as started:
        yield started
    loop.close()


@pytest.fixture
async def own_servers() -> AsyncIterator[local.Servers]:
    """Run a Kafka and a Postgres for this test alone, to be killed and restarted."""
    async with local.servers() as started:
        yield started


@pytest.fixture
async def database_url(servers: Addresses) -> AsyncIterator[str]:
    """Make a database with every table for this test and drop it afterwards."""
    name = f"test_{secrets.token_hex(6)}"
    yield await databases.make(servers.admin_url, name)
    await databases.drop(servers.admin_url, name)


@pytest.fixture
async def empty_database_url(servers: Addresses) -> AsyncIterator[str]:
    """Make an empty database for this test and drop it afterwards."""
    name = f"test_{secrets.token_hex(6)}"
    await databases.execute(servers.admin_url, f"CREATE DATABASE {name}")
    yield databases.url_of(servers.admin_url, name)
    await databases.drop(servers.admin_url, name)
