"""The real broker as a provider: an outbox alone, and one whose consumer keeps the keys."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import asyncpg
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from pydantic import JsonValue

from ledger.log.access import KafkaAccess
from reconciler.providers.adapter import ProviderSettings
from reconciler.providers.contract.checking import DoesNotApply
from reconciler.providers.contract.stage import SLOW_MS, Entry, Fault
from reconciler.providers.kafka.consumer import Outbox, OutboxConsumer
from reconciler.providers.kafka.headers import Asked, asked_by
from reconciler.providers.kafka.mapping import EffectReport
from reconciler.providers.port import ProviderRequest
from reconciler.providers.postgres.connecting import Connection
from tests.contract.server_stages import EFFECTS_SQL, Loop
from tests.contract.suite_stages import closed_port, request_of
from tests.kafka_proxy import KafkaProxy

KAFKA = """\
format = 1
kind = "kafka"
brokers = "127.0.0.1:{port}"
protocol = "plaintext"
{operations}
{consumer}
{accounts}
"""
CONSUMER = """\
[consumer]
key_window_ms = 2_592_000_000
settle_horizon_ms = "impossible"
search_lag_ms = 5_000
reports = "possible"
[consumer.lookups]
"""
_ON_THE_WAY = {
    Fault.ANSWER_LOST: "answer_lost",
    Fault.LOST_BEFORE: "lost",
    Fault.SLOW_ANSWER: "slow",
}
REFUSING = "charge.small"
"""Its topic refuses every record."""
REFUSED_BY_CONSUMER = "refused"
NEVER_FOR_NOW = "one broker has no record that it refuses for now"
PARTITIONS = 2


class KafkaStage:
    """A real broker behind a proxy; what is in the topic is the book."""

    def __init__(self, loop: Loop, bootstrap: str, folder: Path) -> None:
        """Make the topics, and a proxy in front of the broker."""
        self._loop, self._bootstrap, self._folder = loop, bootstrap, folder
        self._prefix = f"outbox{secrets.token_hex(4)}."
        self._accounts: list[str] = []
        self._refused: set[str] = set()
        self._read: list[Entry] = []
        behind = int(bootstrap.rpartition(":")[2])
        self.proxy = KafkaProxy(behind, slow_seconds=SLOW_MS / 1000)
        loop.run(self._make_topics())
        self._listening = loop.run(self._listen())
        self._reader: Any = loop.run(self._reading())

    @property
    def topic(self) -> str:
        """Where charges are asked for."""
        return f"{self._prefix}charge"

    def settings(self) -> ProviderSettings:
        """Configure the adapter."""
        return self._settings("outbox", self.proxy.port)

    def unreachable(self) -> ProviderSettings:
        """Nobody is there."""
        return self._settings("nobody", closed_port())

    def account(self) -> str:
        """Name a fresh account."""
        account = f"suite.{len(self._accounts) + 1}"
        self._accounts.append(account)
        return account

    def request(self, account: str, action_key: str, amount: int) -> ProviderRequest:
        """A charge, or one whose topic refuses every record."""
        is_refused = action_key in self._refused
        return request_of(account, action_key, amount, REFUSING if is_refused else "charge")

    def meet(self, action_key: str, fault: Fault) -> None:
        """Lose it on the way, or write to a topic that the broker takes nothing for."""
        match fault:
            case Fault.REFUSED:
                self._refused.add(action_key)
            case Fault.REFUSED_FOR_NOW:
                raise DoesNotApply(NEVER_FOR_NOW)
            case _:
                self.proxy.faults[action_key] = _ON_THE_WAY[fault]

    def book(self, account: str) -> Sequence[Entry]:
        """Every record of the account in the topic of charges."""
        self._loop.run(self._read_on())
        return [entry for entry in self._read if entry.account == account]

    def close(self) -> None:
        """Close what was opened."""
        self._loop.run(self._close())

    async def _close(self) -> None:
        await self._reader.stop()
        self._listening.close()

    async def _make_topics(self) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
        await admin.start()
        settings: dict[str, dict[str, str]] = {
            "charge": {},
            REFUSING: {"max.message.bytes": "1"},
            REFUSED_BY_CONSUMER: {},
        }
        await admin.create_topics(
            [
                NewTopic(self._prefix + name, PARTITIONS, 1, topic_configs=configs)
                for name, configs in settings.items()
            ]
        )
        await admin.close()

    async def _listen(self) -> asyncio.Server:
        listening = await asyncio.start_server(self.proxy.serve, "127.0.0.1", 0)
        self.proxy.port = listening.sockets[0].getsockname()[1]
        return listening

    async def _reading(self) -> Any:  # noqa: ANN401 - the library has no types
        consumer = AIOKafkaConsumer(bootstrap_servers=self._bootstrap, enable_auto_commit=False)
        await consumer.start()
        places = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        return consumer

    async def _read_on(self) -> None:
        """Read up to the end that the topic has now."""
        ends = await self._reader.end_offsets(list(self._reader.assignment()))
        while any([await self._reader.position(place) < end for place, end in ends.items()]):
            for records in (await self._reader.getmany(timeout_ms=200)).values():
                self._read += [_entry(record) for record in records]

    def _settings(self, name: str, port: int) -> ProviderSettings:
        operations = "".join(
            f'[perform."{name}"]\ntopic = "{self._prefix}{name}"\n'
            f'[perform."{name}".value]\norder = "{{params.order}}"\namount = "{{money.minor}}"\n'
            for name in ("charge", REFUSING)
        )
        accounts = "".join(f'[accounts."{one}"]\n' for one in self._accounts or ["none"])
        path = self._folder / f"{name}.toml"
        text = KAFKA.format(
            port=port, operations=operations, consumer=self._consumer(name), accounts=accounts
        )
        path.write_text(text, encoding="utf-8")
        return ProviderSettings(name, "kafka", adapter_file=path)

    def _consumer(self, name: str) -> str:
        return ""


class OutboxStage(KafkaStage):
    """The same with the reference consumer, whose database is the book."""

    def __init__(self, loop: Loop, bootstrap: str, database_url: str, folder: Path) -> None:
        """Make the tables in an empty database, and start to consume."""
        super().__init__(loop, bootstrap, folder)
        self.reports: list[EffectReport] = []
        self._stop = asyncio.Event()
        (folder / "outbox.dsn").write_text(database_url, encoding="ascii")
        nobody = f"postgresql://nobody@127.0.0.1:{closed_port()}/none"
        (folder / "nobody.dsn").write_text(nobody, encoding="ascii")
        self._pool = loop.run(self._open(database_url))
        group, refused = f"{self._prefix}group", self._prefix + REFUSED_BY_CONSUMER
        outbox = Outbox(bootstrap, (self.topic,), group, KafkaAccess(), refused)
        self.consumer = OutboxConsumer(outbox, self._pool, _charge, self._report)
        self._consuming = loop.run(self._start())

    def book(self, account: str) -> Sequence[Entry]:
        """The changed table, with the place of the record that each row was made for."""
        rows = self._loop.run(
            self._pool.fetch(
                "select c.*, e.reference from charges as c "
                "left join actionledger_effects as e on e.provider_key = c.key "
                "where c.account = $1 order by c.id",
                account,
            )
        )
        return [
            Entry(row["reference"], row["account"], row["action_key"], row["hash"], row["key"])
            for row in rows
        ]

    async def _open(self, url: str) -> asyncpg.Pool:
        pool = await asyncpg.create_pool(url, min_size=0, max_size=4)
        await pool.execute(EFFECTS_SQL)
        await pool.execute(
            "create table charges (id bigint generated always as identity, key text, "
            "action_key text, hash text, account text, amount bigint)"
        )
        return pool

    async def _start(self) -> "asyncio.Task[None]":
        return asyncio.create_task(self.consumer.run(self._stop))

    async def _report(self, report: EffectReport) -> None:
        self.reports.append(report)

    async def _close(self) -> None:
        self._stop.set()
        await self._consuming
        await self._pool.close()
        await super()._close()

    def _consumer(self, name: str) -> str:
        accounts = self._accounts or ["none"]
        return CONSUMER + "".join(f'"{one}" = "{name}.dsn"\n' for one in accounts)


async def _charge(
    connection: Connection, asked: Asked, value: JsonValue
) -> Mapping[str, JsonValue]:
    assert isinstance(value, dict)
    await connection.execute(
        "insert into charges (key, action_key, hash, account, amount) values ($1, $2, $3, $4, $5)",
        asked.provider_key,
        asked.action_key,
        asked.request_hash,
        asked.account,
        value["amount"],
    )
    return {"order": value["order"]}


def _entry(record: Any) -> Entry:  # noqa: ANN401 - the library has no types
    asked = asked_by(record.headers)
    assert asked is not None
    return Entry(
        effect=f"{record.topic}/{record.partition}/{record.offset}",
        account=asked.account,
        action_key=asked.action_key,
        request_hash=asked.request_hash,
        key=asked.provider_key,
    )
