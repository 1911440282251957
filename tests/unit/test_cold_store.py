"""Two answers about one stream: the second may come from a standby that is behind the first."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, cast

import asyncpg
import pytest

from ledger.core.snapshot import FOLD_VERSION, dump
from ledger.core.state import Stream
from projections.cold import ColdStore, ColdStoreError
from projections.errors import DamagedRowsError
from projections.states import load_streams

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


class Servers:
    """A pool of which each connection leads to a server of its own, with such rows."""

    def __init__(self, *rows: Row) -> None:
        self.rows = list(rows)

    @asynccontextmanager
    async def acquire(self, *, timeout: float) -> AsyncIterator["Servers"]:  # noqa: ASYNC109
        """The connection is to the next server."""
        yield self

    async def fetch(self, *_: object, **__: object) -> Sequence[Row]:
        """The rows of the server, whatever is asked."""
        return [self.rows.pop(0)]

    def transaction(self, **_: object) -> AbstractAsyncContextManager[None]:
        """Nothing moves in a snapshot."""
        return nullcontext()

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
