"""The real database and the real broker as providers in front of which the suite asks."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from reconciler.providers import postgres
from reconciler.providers.adapter import ProviderSettings
from reconciler.providers.contract.stage import SLOW_MS, Entry, Fault
from reconciler.providers.port import ProviderRequest
from tests.contract.suite_stages import closed_port, request_of
from tests.patience import PATIENCE_SECONDS
from tests.postgres_proxy import PostgresProxy

_Result = TypeVar("_Result")

EFFECTS_SQL = Path(postgres.__file__).with_name("effects.sql").read_text(encoding="utf-8")
CHARGES_SQL = """
create table charges (
    id bigint generated always as identity primary key,
    key text not null,
    action_key text not null,
    request_hash text not null,
    account text not null,
    amount bigint not null
);
create table faults (action_key text primary key, sqlstate text not null, met text not null);

-- What the next change for an action meets inside its own transaction: once, since a sequence is
-- not taken back with it.
create function meet() returns trigger language plpgsql as $meet$
declare fault faults;
begin
    select * into fault from faults where action_key = new.action_key;
    if found and nextval(fault.met) = 1 then
        raise exception 'no' using errcode = fault.sqlstate;
    end if;
    return new;
end $meet$;
create trigger meet before insert on charges for each row execute function meet();
"""
POSTGRES = """\
format = 1
kind = "postgres"
key_window_ms = 2_592_000_000
settle_horizon_ms = 10_000

[perform.charge]
sql = \"\"\"
insert into charges (key, action_key, request_hash, account, amount)
values (:key, :action, :hash, :account, :amount)
returning 'ch_' || id as charge
\"\"\"
reference = "charge"
[perform.charge.values]
key = "{provider_key}"
action = "{action_key}"
hash = "{request_hash}"
account = "{account}"
amount = "{money.minor}"

[credentials]
"""
_REFUSED = {Fault.REFUSED: "23514", Fault.REFUSED_FOR_NOW: "40001"}
_AT_COMMIT = {
    Fault.ANSWER_LOST: "answer_lost",
    Fault.LOST_BEFORE: "lost",
    Fault.SLOW_ANSWER: "slow",
}


class Loop:
    """An event loop in a thread: what a stage asks of a server, it asks from here."""

    def __init__(self) -> None:
        """Start it."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Do it there, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_SECONDS)

    def close(self) -> None:
        """End it with whatever still runs on it."""
        self.run(self._end_the_rest())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self._loop.close()

    async def _end_the_rest(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def loop_in_thread() -> Iterator[Loop]:
    """A loop, ended at the end."""
    loop = Loop()
    try:
        yield loop
    finally:
        loop.close()


class PostgresStage:
    """A real database behind a proxy that does something to the COMMIT it is told to."""

    def __init__(self, loop: Loop, database_url: str, folder: Path) -> None:
        """Make the tables in an empty database, and a proxy in front of it."""
        self._loop, self._folder, self._url = loop, folder, database_url
        self._accounts: list[str] = []
        self._faults = 0
        address = urlsplit(database_url)
        self.proxy = PostgresProxy(
            address.hostname or "", address.port or 0, slow_seconds=SLOW_MS / 1000
        )
        self._own = loop.run(asyncpg.connect(database_url))
        loop.run(self._own.execute(EFFECTS_SQL + CHARGES_SQL))
        self._listening = loop.run(self._listen())

    def settings(self) -> ProviderSettings:
        """Configure the adapter."""
        return self._settings("database", self._port)

    def unreachable(self) -> ProviderSettings:
        """Nobody is there."""
        return self._settings("nobody", closed_port())

    def account(self) -> str:
        """Name a fresh account of the same database."""
        account = f"suite.{len(self._accounts) + 1}"
        self._accounts.append(account)
        return account

    def request(self, account: str, action_key: str, amount: int) -> ProviderRequest:
        """A charge."""
        return request_of(account, action_key, amount, "charge")

    def meet(self, action_key: str, fault: Fault) -> None:
        """Refuse in the database, or lose on the way to it."""
        if fault in _AT_COMMIT:
            self.proxy.faults[action_key] = _AT_COMMIT[fault]
            return
        self._faults += 1
        met = f"met_{self._faults}"
        self._loop.run(self._own.execute(f"create sequence {met}"))
        self._loop.run(
            self._own.execute(
                "insert into faults values ($1, $2, $3)", action_key, _REFUSED[fault], met
            )
        )

    def book(self, account: str) -> Sequence[Entry]:
        """The changed table itself."""
        rows = self._loop.run(
            self._own.fetch(
                "select 'ch_' || id as charge, * from charges where account = $1 order by id",
                account,
            )
        )
        return [
            Entry(
                effect=row["charge"],
                account=row["account"],
                action_key=row["action_key"],
                request_hash=row["request_hash"],
                key=row["key"],
            )
            for row in rows
        ]

    def close(self) -> None:
        """Close what was opened."""
        self._loop.run(self._close())

    async def _close(self) -> None:
        self._listening.close()
        await self._own.close()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self.proxy.serve, "127.0.0.1", 0)

    @property
    def _port(self) -> int:
        port: int = self._listening.sockets[0].getsockname()[1]
        return port

    def _settings(self, name: str, port: int) -> ProviderSettings:
        address = urlsplit(self._url)
        login = address.netloc.rpartition("@")[0]
        url = urlunsplit(address._replace(netloc=f"{login}@127.0.0.1:{port}"))
        (self._folder / f"{name}.dsn").write_text(url, encoding="ascii")
        lines = "".join(f'"{account}" = "{name}.dsn"\n' for account in self._accounts or ["none"])
        path = self._folder / f"{name}.toml"
        path.write_text(POSTGRES + lines, encoding="utf-8")
        return ProviderSettings(name, "postgres", adapter_file=path)
