"""Ledger records as the processor writes them, made by the real `decide` without any server.

`LedgerBuilder` takes inputs one by one and keeps the topic of each partition; `history` drives it
by a seed through everything an action can meet; `MemoryLog` lets a reader follow what was built.
The world (operations, requests, inputs) is that of `tests.examples`.
"""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ledger.core import inputs as i
from ledger.core.config import Config
from ledger.core.decide import decide
from ledger.core.decide.schedule import awaits_offer
from ledger.core.evolve import Place
from ledger.core.ids import GateKind, gate_key, stream_key_of
from ledger.core.offers import Offer
from ledger.core.records import (
    Adopted,
    Cause,
    Decision,
    EpochOpened,
    Genesis,
    LedgerRecord,
    Quarantined,
)
from ledger.core.state import Action, AttemptStatus, Stream
from ledger.core.statement import Move, Say
from ledger.log.envelope import encode_ledger, ledger_headers
from ledger.log.fold import fold_decision
from ledger.log.port import Record
from ledger.log.reading import Place as LogPlace
from ledger.log.topics import Topic, partition_of
from tests import asking
from tests import examples as x

GENERATION = "generation-1"
LEDGER = Topic.LEDGER.value


def topic_of(given: i.Decidable) -> str:
    """The inbox that an input arrives on."""
    match given:
        case i.Propose() | i.Cancel() | i.CallerReport() | i.AskAgain() | i.ReportStep():
            return "intents"
        case i.OpenSaga() | i.CancelSaga():
            return "intents"
        case i.Judged():
            return "approvals"
        case i.Report() | i.Decline():
            return "attempts"
        case i.Evidence() | i.PreviewRead():
            return "evidence"
        case i.Tick():
            return "internal"
        case i.GateAsk() | i.GateAnswer() | i.GateKeep() | i.GateClose() | i.GateTaken():
            return "internal"


@dataclass
class _Partition:
    """What the owner of one partition knows."""

    records: list[Record] = field(default_factory=list)
    epoch: int = 0
    decided_at: int = x.T0
    inbox_ends: dict[str, int] = field(default_factory=dict)


class LedgerBuilder:
    """Writes the ledger topic of a small installation, decision by decision."""

    def __init__(
        self, partitions: int = 1, generation: str = GENERATION, config: Config | None = None
    ) -> None:
        self.generation = generation
        self.count = partitions
        self.config = x.CONFIG if config is None else config
        self.streams: dict[str, Stream] = {}
        self.said: deque[i.Message] = deque()
        self._partitions = [_Partition() for _ in range(partitions)]
        self._sequence = 0
        for partition in range(partitions):
            self._write(
                partition,
                Genesis(generation=generation, partition=partition, partitions=partitions),
            )
            self.open_epoch(partition)
            self.adopt(partition)

    # What it wrote

    def records(self, partition: int = 0) -> list[Record]:
        """The topic of one partition so far."""
        return list(self._partitions[partition].records)

    def everything(self) -> list[Record]:
        """All partitions, as a reader might get them."""
        return [record for partition in self._partitions for record in partition.records]

    def ends(self) -> dict[int, int]:
        """Where each partition ends."""
        return {place: len(one.records) for place, one in enumerate(self._partitions)}

    def partition(self, stream_key: str) -> int:
        """Where a stream lives."""
        return partition_of(stream_key, self.count)

    def decided_at(self, stream_key: str) -> int:
        """Log time where a stream lives."""
        return self._partitions[self.partition(stream_key)].decided_at

    # What it can write

    def open_epoch(self, partition: int = 0) -> None:
        """A new owner takes over."""
        own = self._partitions[partition]
        own.epoch += 1
        self._write(
            partition, EpochOpened(at=len(own.records), epoch=own.epoch, nonce=f"n{own.epoch}")
        )

    def adopt(self, partition: int = 0, *, content: str = x.CATALOGUE_TEXT) -> None:
        """The partition adopts a catalogue; the first one is that of `tests.examples`."""
        cause = self._cause(partition, "config")
        adopted = Adopted(
            kind="catalogue",
            content=content,
            content_hash=x.catalogue(content).content_hash,
            offset=cause.offset,
        )
        self._decide(partition, cause, adopted=adopted)

    def take(
        self, given: i.Decidable, *, later_ms: int = 0, executor: str | None = x.HOLDER
    ) -> Decision:
        """Decide an input `later_ms` after the last decision; `executor` has capacity at hand."""
        key = i.stream_of_input(given)
        partition = self.partition(key)
        own = self._partitions[partition]
        own.decided_at += later_ms
        stream = self.streams.get(key) or Stream(key)
        wants = next((one.key for one in stream.actions if awaits_offer(one, own.decided_at)), None)
        acts = wants if isinstance(given, i.Tick) else getattr(given, "key", None)
        offer = None
        if executor is not None and acts is not None:
            offer = self._offer(executor, acts, own.decided_at)
        place = Place(len(own.records), own.decided_at)
        decided = decide(stream, self.config, given, place, offer)
        cause = self._cause(partition, topic_of(given))
        if isinstance(given, i.Tick):
            cause = cause.model_copy(update={"copied": f"tick due {given.due_at}"})
        decision = self._decide(
            partition,
            cause,
            stream=key,
            gate=decided.gate or None,
            facts=decided.facts,
            refused=decided.refused,
            unchanged=decided.unchanged,
        )
        self.streams[key] = fold_decision(stream, decision)
        self.said.extend(decided.messages)
        return decision

    def deliver(self, *, executor: str | None = x.HOLDER) -> list[Decision]:
        """Deliver what actions and gates have said to each other, until nobody says any more."""
        decisions: list[Decision] = []
        while self.said:
            decisions.append(self.take(self.said.popleft(), executor=executor))
        return decisions

    def quarantine(self, partition: int = 0, topic: str = "intents") -> Decision:
        """An input could not be read."""
        quarantined = Quarantined(reason="not_json", sha256="0" * 64, size_bytes=7)
        return self._decide(partition, self._cause(partition, topic), quarantined=quarantined)

    def void(self, partition: int = 0) -> None:
        """An owner that was overtaken writes once more; every reader voids it."""
        own = self._partitions[partition]
        cause = Cause(topic="intents", partition=partition, offset=0)
        lost = Decision(
            at=len(own.records),
            epoch=own.epoch - 1,
            cause=cause,
            decided_at=own.decided_at,
            stream=x.STREAM,
        )
        self._write(partition, lost)

    def put(self, partition: int, value: bytes) -> int:
        """Write any bytes where the next record belongs; their offset."""
        own = self._partitions[partition]
        offset = len(own.records)
        own.records.append(Record(LEDGER, partition, offset, own.decided_at, b"put", value, ()))
        return offset

    def break_decision(self, stream_key: str = x.STREAM) -> int:
        """A decision that counts and cannot be folded: its fact is about nothing; its offset."""
        partition = self.partition(stream_key)
        fact = x.automatic(f"charge:v1:{stream_key.replace('/', ':')}").model_copy(
            update={"version": 2}
        )
        cause = self._cause(partition, "intents")
        return self._decide(partition, cause, stream=stream_key, facts=(fact,)).at

    def _offer(self, incarnation: str, key: str, now: int) -> Offer:
        self._sequence += 1
        return replace(
            x.offer(key=key, incarnation=incarnation, sequence=self._sequence),
            appended_at=now,
            until_at=now + 10_000,
        )

    def _cause(self, partition: int, topic: str) -> Cause:
        ends = self._partitions[partition].inbox_ends
        # Every inbox but these begins with its genesis record.
        offset = ends.get(topic, 0 if topic in {"config", "internal"} else 1)
        ends[topic] = offset + 1
        own = 0 if topic == "config" else partition
        return Cause.model_validate({"topic": topic, "partition": own, "offset": offset})

    def _decide(self, partition: int, cause: Cause, **answer: object) -> Decision:
        own = self._partitions[partition]
        decision = Decision.model_validate(
            {
                "at": len(own.records),
                "epoch": own.epoch,
                "cause": cause,
                "decided_at": own.decided_at,
                "stream": "",
                **answer,
            }
        )
        self._write(partition, decision)
        return decision

    def _write(self, partition: int, record: LedgerRecord) -> None:
        own = self._partitions[partition]
        stream = record.stream if isinstance(record, Decision) else ""
        own.records.append(
            Record(
                LEDGER,
                partition,
                len(own.records),
                own.decided_at,
                stream.encode() or b"partition",
                encode_ledger(record, generation=self.generation, partition=partition),
                ledger_headers(record),
            )
        )


_GATED: Final = """
[[ceiling]]
name = "run"
per = "run"
side_effects = 6
steps = 9

[[ceiling]]
name = "daily"
per = "tenant"
window = "day"
spend = { EUR = 600_00 }

[[row]]
name = "charges"
when.operation = ["charge"]
outcome = "automatic"
ceilings = ["run", "daily"]
block_target = true
reason = "Charges are counted, and made one at a time on a target."
"""
ASKED: Final = replace(
    x.CONFIG,
    policy=asking.policy(
        asking.asked("note", quorum=2, valid_ms=30_000)
        + asking.asked("payout", valid_ms=30_000, more='ceilings = ["daily"]\nblock_target = true')
        + _GATED
        + asking.EVERYTHING_GOES_AHEAD
    ),
    people=asking.people(asking.people_text()),
)
"""Two operations of the small world for which people are asked, two that pass gates."""


def history(seed: int, *, steps: int = 200, partitions: int = 1, events: int = 5) -> LedgerBuilder:
    """A ledger of `steps` inputs about a few business events, with everything that can happen; and
    what actions and gates say to each other meanwhile, some of it lost, some said twice.
    """
    chance = random.Random(seed)
    builder = LedgerBuilder(partitions, config=ASKED)
    for _ in range(steps):
        event = f"renewal-{chance.randrange(events)}"
        tenant = chance.choice(("acme", "globex"))
        operation = chance.choice([key.rpartition(":acme:")[0] for key in x.KEYS])
        key = f"{operation}:{tenant}:{event}"
        match chance.randrange(40):
            case 0:
                builder.open_epoch(builder.partition(f"{tenant}/{event}"))
            case 1:
                builder.void(builder.partition(f"{tenant}/{event}"))
            case 2:
                builder.quarantine(builder.partition(f"{tenant}/{event}"))
            case _:
                builder.take(
                    _input(chance, builder, key),
                    later_ms=chance.choice((0, 0, 1, 1, 40, 900, 5_000)),
                    executor=chance.choice((None, *["executor-1"] * 6, *["executor-2"] * 2)),
                )
        _deliver_some(chance, builder)
    return builder


def _deliver_some(chance: random.Random, builder: LedgerBuilder) -> None:
    """Some of what actions and gates have said to each other arrives."""
    for _ in range(chance.choice((0, 2, 4, 8))):
        if not builder.said:
            return
        message = builder.said.popleft()
        for _ in range(chance.choice((0, *[1] * 12, 2))):
            builder.take(message, later_ms=chance.choice((0, 1, 7)))


def _input(chance: random.Random, builder: LedgerBuilder, key: str) -> i.Decidable:
    """Something that may be said about an action as it stands, fitting or not."""
    stream = builder.streams.get(stream_key_of(key)) or Stream(stream_key_of(key))
    if stream.action(f"{key}~2") is not None and chance.random() < 0.5:
        key = f"{key}~2"
    action = stream.action(key)
    if action is None or chance.random() < 0.1:
        return _proposal(chance, key)
    if not key.endswith("~2") and chance.random() < 0.05:
        return _proposal(chance, f"{key}~2").model_copy(update={"revises": key})
    if chance.random() < 0.2:
        return x.tick(chance.choice((stream.key, *(one.gate for one in action.claims))))
    if action.run is not None and chance.random() < 0.1:
        gate = gate_key(stream.key.partition("/")[0], GateKind.RUN, action.run)
        return i.ReportStep(gate=gate, principal="agent:billing", step=chance.randrange(1, 12))
    if chance.random() < 0.02:
        return x.cancel(key)
    if action.case is not None and chance.random() < 0.2:
        return _settled(chance, builder, action)
    tried = action.attempts and action.attempts[-1]
    if action.approval is not None and chance.random() < (0.1 if tried else 0.8):
        return _said(chance, builder, action)
    if not tried:
        is_early = chance.random() < 0.1
        return _evidence(chance, key, 0) if is_early else x.tick(stream.key)
    if tried.status is not AttemptStatus.RUNNING and chance.random() < 0.7:
        return _evidence(chance, key, action.lookups_asked)
    holder, number, token = tried.holder, tried.number, tried.fencing_token
    if chance.random() < 0.1:
        return x.decline(key=key, attempt=number, token=token, holder=holder)
    outcome = chance.choice(
        (
            x.success(f"ch_{number}_{key[-4:]}"),
            x.no_answer(),
            x.refusal(),
            x.refusal("card_declined", i.Retry.NEVER),
            x.not_sent(),
        )
    )
    return x.report(outcome, key=key, attempt=number, token=token, holder=holder)


def _proposal(chance: random.Random, key: str) -> i.Propose:
    """A request of a run, or of none, on one of two targets."""
    text = chance.choice(("", "Grüße \\u0000", "naïve 🙂", 'quoted "\t"'))
    request = x.request(key, text=text)
    target = chance.choice((request.target, "order:B-7"))
    run = chance.choice((None, *["run-1", "run-2"] * 4))
    batch = chance.choice((None, "batch-1"))
    return x.propose(
        key, request=request.model_copy(update={"target": target}), run=run, batch=batch
    )


def _said(chance: random.Random, builder: LedgerBuilder, action: Action) -> i.Decidable:
    """What somebody says about an action of which people were asked, fitting or not."""
    if chance.random() < 0.2:
        return i.AskAgain(key=action.key, principal="agent:billing")
    at = builder.decided_at(stream_key_of(action.key))
    say = chance.choice((*[Say.APPROVE] * 6, Say.WITHDRAW, Say.DENY))
    who = chance.choice(list(asking.KEYS))
    said = asking.statement(action, who, say, ledger=builder.generation, at=at)
    return asking.judged(
        asking.judge(said), builder.config.people, at=at, ledger=builder.generation
    )


def _settled(chance: random.Random, builder: LedgerBuilder, action: Action) -> i.Decidable:
    """By what move somebody settles the case of an action, fitting or not."""
    at, who = builder.decided_at(stream_key_of(action.key)), chance.choice(list(asking.KEYS))
    move = chance.choice(list(Move))
    said = asking.resolution(action, who, move, ledger=builder.generation, at=at)
    if move is Move.ALLOW and action.case is not None:
        said = said.model_copy(update={"accepts": action.case.names})
    return asking.judged(
        asking.judge(said), builder.config.people, at=at, ledger=builder.generation
    )


def _evidence(chance: random.Random, key: str, lookups_asked: int) -> i.Evidence:
    meaning = chance.choice(list(i.Meaning))
    lookup = chance.choice((None, lookups_asked or None))
    source = f"{'webhook' if lookup is None else 'lookup'}:{chance.randrange(1_000)}"
    reference = chance.choice(("ch_1", "ch_2", None))
    return x.found_out(meaning, key=key, lookup=lookup, source=source, reference=reference)


class MemoryReader:
    """Reads a `MemoryLog` as a reader of Kafka does: in order, from positions of its own."""

    def __init__(self, log: "MemoryLog", places: Mapping[LogPlace, int]) -> None:
        self._log = log
        self._positions = dict(places)
        self._paused: set[LogPlace] = set()

    async def read(self, *, timeout_ms: int, records_max: int = 10_000) -> list[Record]:
        """What there is, or what comes in time."""
        found = self._take(records_max)
        if found or not timeout_ms:
            return found
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1_000):
                await self._log.grew()
        return self._take(records_max)

    def _take(self, records_max: int) -> list[Record]:
        found: list[Record] = []
        for place, position in self._positions.items():
            if place in self._paused:
                continue
            records = self._log.topics.get(place, [])
            taken = records[position : position + records_max - len(found)]
            self._positions[place] = position + len(taken)
            found += taken
        return found

    def pause(self, topic: str, partition: int) -> None:
        """Read nothing more of a partition."""
        self._paused.add((topic, partition))

    async def end_offsets(self, places: Iterable[LogPlace]) -> dict[LogPlace, int]:
        """Where partitions end now."""
        return {place: len(self._log.topics.get(place, [])) for place in places}

    async def close(self) -> None:
        """Nothing is held."""


class MemoryLog:
    """Records at hand, as a log that can be read while it grows."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.topics: dict[LogPlace, list[Record]] = {}
        self._grew = asyncio.Event()
        self.extend(records)

    def extend(self, records: Iterable[Record]) -> None:
        """Add records at the ends of their partitions."""
        for record in records:
            self.topics.setdefault((record.topic, record.partition), []).append(record)
        self._grew.set()
        self._grew = asyncio.Event()

    async def grew(self) -> None:
        """Wait for more."""
        await self._grew.wait()

    async def reader(self, places: Mapping[LogPlace, int]) -> MemoryReader:
        """See `ReadableLog.reader`."""
        return MemoryReader(self, places)
