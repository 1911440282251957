"""The simulated log gives what Kafka gives and nothing more."""

import random
from itertools import pairwise

import pytest

from ledger.core.records import Genesis
from ledger.log.envelope import read_input, read_ledger
from ledger.log.port import Appended, Outgoing
from ledger.log.simulated import (
    NO_FAULTS,
    LogFaults,
    SimulatedGroup,
    SimulatedLog,
    SimulatedProducer,
    VirtualTime,
)
from ledger.log.topics import WITH_GENESIS, Topic

T0 = 1_800_000_000_000
SEEDS = range(60)
FAULTS = LogFaults(
    delay_ms=9,
    lost=0.15,
    unacknowledged=0.15,
    late=0.3,
    late_ms=400,
    split=0.5,
    patience_ms=120,
    clock_ms=50,
    clock_changes=0.3,
)


def simulated(seed: int, faults: LogFaults = NO_FAULTS) -> SimulatedLog:
    """A log with two partitions."""
    log = SimulatedLog(VirtualTime(T0), random.Random(seed), partitions=2, generation="g")
    log.faults = faults
    return log


def numbered(*numbers: int) -> list[Outgoing]:
    """Records that can be told apart."""
    return [Outgoing(b"k", str(number).encode()) for number in numbers]


def landed(log: SimulatedLog, topic: str = "intents") -> list[int]:
    """The numbers of what stands on a partition, in its order."""
    return [int(record.value) for record in log.read(topic, 0, 1)]


class Writer:
    """Sends batches one after the other and remembers what it heard of each."""

    def __init__(self, log: SimulatedLog) -> None:
        self.log = log
        self.producer: SimulatedProducer = log.producer()
        self.heard: dict[int, list[Appended] | None] = {}

    def send(self, number: int, count: int = 1) -> None:
        """Send a batch of so many records, numbered from a number on."""

        def done(places: list[Appended] | None) -> None:
            assert number not in self.heard, "a batch is answered once"
            self.heard[number] = places

        records = numbered(*range(number, number + count))
        self.producer.send("intents", 0, records, done)


def test_every_partition_begins_with_its_genesis() -> None:
    """Number of partitions and generation are fixed by the first record, as on the broker."""
    log = simulated(1)
    for topic in Topic:
        for partition in range(1 if topic is Topic.CONFIG else 2):
            records = log.read(topic.value, partition, 0)
            assert len(records) == (topic in WITH_GENESIS)
    genesis = Genesis(generation="g", partition=1, partitions=2)
    assert read_input(log.read("intents", 1, 0)[0]) == genesis
    assert read_ledger(log.read("ledger", 1, 0)[0].value) == genesis


def test_without_faults_a_batch_lands_whole_and_its_places_are_told() -> None:
    """Offsets are consecutive from the end, and the time is the broker's."""
    log = simulated(2)
    writer = Writer(log)
    writer.send(10, count=3)
    assert landed(log) == []
    log.time.run(until=T0 + 100)
    assert landed(log) == [10, 11, 12]
    places = writer.heard[10]
    assert places is not None
    assert [place.offset for place in places] == [1, 2, 3]
    assert {place.timestamp for place in places} == {log.read("intents", 0, 1)[0].timestamp}


@pytest.mark.parametrize("seed", SEEDS)
def test_one_producers_records_stand_in_the_order_they_were_sent(seed: int) -> None:
    """Each once, in order, and nothing behind a missing batch: an idempotent producer's sequence
    has no gap.
    """
    log = simulated(seed, FAULTS)
    writer = Writer(log)
    for number in range(0, 40, 2):
        log.time.run(until=T0 + number * 10)
        writer.send(number, count=2)
    log.time.run(until=T0 + 5_000)
    stand = landed(log)
    assert stand == list(range(len(stand)))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_acknowledged_stands_where_it_was_told(seed: int) -> None:
    """An answer is the truth; no answer is no answer, and then the producer is spent."""
    log = simulated(seed, FAULTS)
    writer = Writer(log)
    for number in range(20):
        log.time.run(until=T0 + number * 10)
        writer.send(number)
    log.time.run(until=T0 + 5_000)
    records = log.read("intents", 0, 0)
    assert set(writer.heard) == set(range(20))
    unknown = [number for number, places in writer.heard.items() if places is None]
    for number, places in writer.heard.items():
        if places is not None:
            (place,) = places
            record = records[place.offset]
            assert (record.value, record.timestamp) == (str(number).encode(), place.timestamp)
    assert writer.producer.is_spent == bool(unknown)


def test_every_fault_happens() -> None:
    """Over the seeds batches are lost, land without a word, land late, land in two parts with
    another's records between, and land after their producer was given up.
    """
    lost = silent = after_giving_up = between = 0
    for seed in SEEDS:
        log = simulated(seed, FAULTS)
        one, other = Writer(log), Writer(log)
        for number in range(0, 20, 4):
            log.time.run(until=T0 + number * 20)
            one.send(number, count=4)
            other.send(100 + number, count=4)
        spent_at = len(log.read("intents", 0, 0)) if one.producer.is_spent else None
        log.time.run(until=T0 + 5_000)
        stand = landed(log)
        for number, places in one.heard.items():
            if places is None:
                lost += number not in stand
                silent += number in stand
        after_giving_up += spent_at is not None and len(stand) + 1 > spent_at
        places_of = [stand.index(number) for number in range(20) if number in stand]
        between += any(
            later - earlier > 1 and (number + 1) % 4
            for number, (earlier, later) in enumerate(pairwise(places_of))
        )
    assert min(lost, silent, after_giving_up, between) > 0


def test_an_abandoned_producer_hears_nothing_and_its_batches_may_land() -> None:
    """A process that is gone may have been heard by the broker, and may not."""
    outcomes = set()
    for seed in SEEDS:
        log = simulated(seed, LogFaults(delay_ms=50))
        writer = Writer(log)
        writer.send(1)
        writer.producer.abandon()
        log.time.run(until=T0 + 1_000)
        assert writer.heard == {}
        outcomes.add(tuple(landed(log)))
    assert outcomes == {(), (1,)}


def test_a_spent_producer_writes_nothing_more() -> None:
    """After one batch without an answer every further one is answered by nothing, at once."""
    log = simulated(1, LogFaults(lost=1.0, patience_ms=50))
    writer = Writer(log)
    writer.send(1)
    log.time.run(until=T0 + 100)
    log.faults = NO_FAULTS
    writer.send(2)
    log.time.run(until=T0 + 200)
    assert writer.heard == {1: None, 2: None}
    assert landed(log) == []


def test_two_producers_of_one_partition_interleave() -> None:
    """Idempotence fences nobody: whoever writes is heard."""
    log = simulated(3, LogFaults(delay_ms=200))
    one, other = Writer(log), Writer(log)
    for number in range(6):
        one.send(number)
        other.send(100 + number)
    log.time.run(until=T0 + 5_000)
    stand = landed(log)
    assert sorted(stand) == [*range(6), *range(100, 106)]
    assert stand != sorted(stand)


def test_the_brokers_clock_may_run_ahead_and_step_back() -> None:
    """Append times are the broker's, not ours, and need not grow."""
    log = simulated(4, LogFaults(clock_ms=100, clock_changes=0.5))
    for number in range(50):
        log.time.run(until=T0 + number)
        log.append("intents", 0, numbered(number))
    times = [record.timestamp for record in log.read("intents", 0, 1)]
    assert any(later < earlier for earlier, later in pairwise(times))
    assert all(abs(time - (T0 + number)) <= 100 for number, time in enumerate(times))


def test_what_retention_took_is_not_read() -> None:
    """Reading from before the beginning gives what is left, and offsets stay."""
    log = simulated(5)
    log.append("internal", 0, numbered(0, 1, 2, 3))
    log.forget("internal", 0, 2)
    assert [record.offset for record in log.read("internal", 0, 0)] == [2, 3]
    assert (log.begin_offset("internal", 0), log.end_offset("internal", 0)) == (2, 4)
    log.forget("internal", 0, 1)
    assert log.begin_offset("internal", 0) == 2
    log.forget("internal", 0, 99)
    assert log.begin_offset("internal", 0) == 4
    assert [record.offset for record in log.read("intents", 0, 0, records_max=1)] == [0]


def test_virtual_time_makes_calls_in_their_order() -> None:
    """Earlier moments first, equal moments in the order of asking, nothing beyond the bound."""
    time = VirtualTime(T0)
    made: list[str] = []
    time.after(5, lambda: made.append("b"))
    time.after(1, lambda: made.append("a"))
    time.after(5, lambda: made.append("c"))
    time.after(1, lambda: time.after(0, lambda: made.append("after a")))
    time.after(9, lambda: made.append("too late"))
    time.run(until=T0 + 9)
    assert made == ["a", "after a", "b", "c"]
    assert time.now == T0 + 9


def test_the_group_shares_partitions_out() -> None:
    """Every partition has exactly one member; a change is a new generation."""
    group = SimulatedGroup(5)
    group.join("a")
    group.join("b")
    group.join("b")
    assert group.generation == 2
    assert sorted(group.assigned("a") + group.assigned("b")) == [0, 1, 2, 3, 4]
    group.leave("a")
    assert group.assigned("a") == ()
    assert group.assigned("b") == (0, 1, 2, 3, 4)
    group.leave("a")
    assert group.generation == 3
