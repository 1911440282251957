"""Two answers about one stream: the second may come from a standby that is behind the first."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import asyncpg
import pytest

from ledger.core.snapshot import FOLD_VERSION, dump
from ledger.core.state import Stream
from projections import cold as module
from projections.cold import ColdStore, ColdStoreError
from projections.errors import DamagedRowsError
from projections.states import load_streams
from tests.patience import PATIENCE_SECONDS

Row = dict[str, Any]
KEY = "acme/e1"


def row(projected_offset: int, fold_version: int = FOLD_VERSION) -> Row:
    """What a database says of the stream at some time."""
    return {
        "partition": 0,
        "projected_offset": projected_offset,
        "stream_key": KEY,
        "next_offset": 4,
        "fold_version": fold_version,
        "action_keys": ["charge:v1:acme:e1"],
        "state": dump(Stream(KEY)),
    }


class Snapshot:
    """A transaction. Its server answers the questions that are not `silent`."""

    def __init__(self, silent: str) -> None:
        self.silent = silent

    async def _asked(self, question: str) -> None:
        if question == self.silent:
            await asyncio.Event().wait()

    async def start(self) -> None:
        """See `asyncpg.transaction.Transaction`."""
        await self._asked("begin")

    async def commit(self) -> None:
        """See `asyncpg.transaction.Transaction`."""
        await self._asked("commit")

    async def __aenter__(self) -> None:
        await self.start()

    async def __aexit__(self, kind: object, *_: object) -> None:
        await self._asked("commit" if kind is None else "rollback")


class Servers:
    """A pool of which each connection leads to a server of its own, with such rows."""

    def __init__(self, *rows: Row, silent: str = "") -> None:
        self.rows = list(rows)
        self.silent = silent
        self.is_terminated = False

    @asynccontextmanager
    async def acquire(self, *, timeout: float) -> AsyncIterator["Servers"]:  # noqa: ASYNC109
        """The connection is to the next server."""
        yield self

    async def fetch(self, *_: object, **__: object) -> Sequence[Row]:
        """The rows of the server, whatever is asked; it breaks where none is left."""
        if not self.rows:
            raise asyncpg.ConnectionDoesNotExistError
        return [self.rows.pop(0)]

    def transaction(self, **_: object) -> Snapshot:
        """Nothing moves in a snapshot."""
        return Snapshot(self.silent)

    def terminate(self) -> None:
        """The connection is of no use any more."""
        self.is_terminated = True

    @property
    def pool(self) -> asyncpg.Pool:
        """For who takes the real one."""
        return cast("asyncpg.Pool", self)


async def test_an_answer_speaks_up_to_where_both_of_its_questions_do() -> None:
    """An older row of the stream is not taken for its state now."""
    servers = Servers(row(10, fold_version=0), row(7))
    cold = (await ColdStore(servers.pool).load({0: [KEY]}))[0]
    assert (cold.projected_offset, set(cold.streams)) == (7, {KEY})
    servers = Servers(row(7, fold_version=0), row(10))
    assert (await ColdStore(servers.pool).load({0: [KEY]}))[0].projected_offset == 7


@pytest.mark.parametrize("projected_offset", [3, 10])
async def test_a_stream_that_had_a_row_is_never_taken_for_new(projected_offset: int) -> None:
    """Its owner would decide on an empty one, and money would move twice."""
    servers = Servers(row(10, fold_version=0), row(projected_offset) | {"stream_key": None})
    with pytest.raises(ColdStoreError, match=KEY):
        await ColdStore(servers.pool).load({0: [KEY]})


async def test_who_folds_the_ledger_does_not_take_it_for_new_either() -> None:
    """The second of the two questions may be answered by another server behind a pooler."""
    servers = Servers(row(10, fold_version=0), row(10) | {"stream_key": "acme/other"})
    with pytest.raises(DamagedRowsError, match=KEY):
        await load_streams(cast("Any", servers), [KEY])


@pytest.mark.parametrize("silent", ["begin", "commit", "rollback"])
async def test_a_network_that_falls_silent_in_a_snapshot_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    """Everything that the owners of a process ask goes through one question at a time: nothing
    would be loaded any more. The connection is not given back to be used again.
    """
    monkeypatch.setattr(module, "COLD_CALL_MS_MAX", 20)
    rows = [row(10, fold_version=0), row(10)]
    servers = Servers(*(rows[:1] if silent == "rollback" else rows), silent=silent)
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(ColdStoreError):
            await ColdStore(servers.pool).load({0: [KEY]})
    assert servers.is_terminated
