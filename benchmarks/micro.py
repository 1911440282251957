"""What one record costs in each step of its way, without Kafka and Postgres.

The records are those of one action, made by the product's own owner of a partition, so the figures
add up to what an action costs its processes in computing alone. Called by
`python -m benchmarks micro`.
"""

import time
import timeit
from collections.abc import Callable, Iterator
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.proposals import CATALOGUE, proposal
from gateway.wiring.publishing import default_policy
from ledger.core.catalogue import Catalogue, catalogue_hash, parse_catalogue
from ledger.core.config import Config
from ledger.core.decide import decide
from ledger.core.evolve import Place
from ledger.core.inputs import Decidable, Offered, Propose, Publish, Report, Success
from ledger.core.limits import RECORD_BYTES_MAX
from ledger.core.offers import Offer
from ledger.core.policy import AUTOMATIC, Policy, parse_policy
from ledger.core.records import Decision, Genesis
from ledger.core.request import request_hash
from ledger.core.snapshot import dump, load
from ledger.core.state import Stream
from ledger.core.strict_json import parse
from ledger.log.envelope import encode_ledger, outgoing, read_input, read_ledger
from ledger.log.fold import PartitionFold, fold_decision
from ledger.log.port import Appended, Outgoing, Record
from ledger.log.published import Published
from ledger.log.topics import Topic
from projections.fold import Held, fold_batch, read_batch
from streams.assignments import Assignment, Assignments, objection
from streams.authorization import Grounds, Permit
from streams.owner import Batch, Owner

GENERATION: Final = "micro"
HOLDER: Final = "executor"
T0: Final = 1_800_000_000_000
ACTIONS: Final = 100
REPEATS: Final = 7
SECONDS_A_REPEAT: Final = 0.05

Costs = dict[str, float]


def _config() -> Config:
    parsed = parse_catalogue(CATALOGUE)
    assert isinstance(parsed, Catalogue), parsed
    return Config(parsed, parsed.content_hash)


CONFIG: Final = _config()


class World:
    """One partition with its owner, and the records of some actions from intent to completion."""

    def __init__(self) -> None:
        self.owner = Owner(0, 1, GENERATION, "nonce")
        self.ledger: list[Record] = []
        self._begin()
        self._offer()
        proposals = [proposal("micro", number) for number in range(ACTIONS)]
        self.proposal: Propose = proposals[0]
        self.intents = [
            self._record(Topic.INTENTS, number, self.outgoing(given))
            for number, given in enumerate(proposals, 1)
        ]
        self.reports: list[Record] = []

    def start(self) -> list[Decision]:
        """Decide the intents, and let an executor report on the starts."""
        decided = self._decide(self.intents).read
        self.reports = [
            self._record(Topic.ATTEMPTS, number, self.outgoing(report))
            for number, report in enumerate(self._reports(), 1)
        ]
        return decided

    def end(self) -> list[Decision]:
        """Decide the reports."""
        return self._decide(self.reports).read

    def outgoing(self, given: Propose | Report | Offered) -> Outgoing:
        """An input as its writer encodes it."""
        key = "0" if isinstance(given, Offered) else given.key
        stream = key if isinstance(given, Offered) else key.split(":", 2)[2].replace(":", "/")
        return outgoing(given, stream=stream, subject=key, event_id="0" * 24, source="/micro")

    def _begin(self) -> None:
        genesis = Genesis(generation=GENERATION, partition=0, partitions=1)
        value = encode_ledger(genesis, generation=GENERATION, partition=0)
        self._feed(Record(Topic.LEDGER.value, 0, 0, T0, b"genesis", value, ()))
        self._land([self.owner.barrier()])
        self.owner.opened(Appended(1, T0), 0)
        published = Publish(
            kind="catalogue", content=CATALOGUE, content_hash=catalogue_hash(CATALOGUE)
        )
        record = outgoing(
            published, stream="catalogue", subject=None, event_id="c", source="/micro"
        )
        self._decide([self._record(Topic.CONFIG, 0, record)])

    def _offer(self) -> None:
        offered = Offered(
            incarnation=HOLDER,
            sequence=1,
            operations=("charge",),
            slots=10 * ACTIONS,
            seen_offset=self.owner.fold.next_offset - 1,
            valid_ms=600_000,
        )
        self.owner.offered(self._record(Topic.OFFERS, 0, self.outgoing(offered)))

    def _record(self, topic: Topic, offset: int, given: Outgoing) -> Record:
        return Record(topic.value, 0, offset, T0, given.key, given.value, given.headers)

    def _decide(self, inputs: list[Record]) -> Batch:
        batch = self.owner.take(inputs, 0)
        first_at = self._land(batch.records)
        places = [Appended(first_at + number, T0) for number in range(len(batch.records))]
        self.owner.landed(batch, places, 0)
        return batch

    def _land(self, records: list[Outgoing]) -> int:
        first_at = len(self.ledger)
        self.ledger += [
            self._record(Topic.LEDGER, first_at + number, record)
            for number, record in enumerate(records)
        ]
        return first_at

    def _feed(self, record: Record) -> None:
        self.ledger.append(record)
        self.owner.feed(record)

    def assignments(self) -> list[Assignment]:
        """What an executor finds in the ledger."""
        assignments = Assignments(HOLDER, ("charge",), {0: 10 * ACTIONS})
        assignments.caught_up(0)
        assignments.offer(0, 0, valid_ms=600_000)
        return [found for record in self.ledger for found in assignments.feed(record)]

    def _reports(self) -> Iterator[Report]:
        for assignment in self.assignments():
            reference = assignment.start.provider_key
            yield assignment.report(Success(reference=reference, result={}))


def costs() -> Costs:
    """Microseconds of CPU time by step: the best of some repeats, so others count little."""
    world = World()
    owner: Costs = {"owner: proposal in, decision out": _take(world.owner, world.intents)}
    decided = world.start()[0]
    owner["owner: report in, decision out"] = _take(world.owner, world.reports)
    settled = world.end()[0]
    intent, report = world.intents[0], world.reports[0]
    started = fold_decision(Stream(decided.stream), decided)
    answer = read_input(report)
    assert isinstance(answer, Report)
    (first, *_) = world.assignments()
    found: Costs = {
        "proposal: hash of the request": _us(lambda: request_hash(world.proposal.request)),
        "proposal: encode": _us(lambda: world.outgoing(world.proposal)),
        "proposal: strict parse": _us(lambda: parse(intent.value, bytes_max=RECORD_BYTES_MAX)),
        "proposal: read, with strict parse": _us(lambda: read_input(intent)),
        "report: encode": _us(lambda: world.outgoing(answer)),
        "report: read, with strict parse": _us(lambda: read_input(report)),
    }
    found |= _rulings(world.proposal)
    for name, given, decision, before in (
        ("start decision", world.proposal, decided, Stream(decided.stream)),
        ("end decision", answer, settled, started),
    ):
        found |= _decision_costs(name, given, decision, before)
    found |= owner
    found |= {
        "executor: start found": _us(world.assignments, ACTIONS),
        "executor: last check": _us(
            lambda: objection(first, world.proposal.request, 0, margin_ms=0)
        ),
        "executor: what allows a start": _us(_allowing(first)),
        "projector: rows of a decision": _us(lambda: _rows(world), len(world.ledger)),
    }
    return found


def _allowing(assignment: Assignment) -> Callable[[], object]:
    """What an executor finds out of a start that nobody had to be asked about."""
    published = Published()
    published.take_catalogue(CONFIG.catalogue, 0)
    default = parse_policy(default_policy())
    assert isinstance(default, Policy), default
    published.policy = default
    grounds, intent = Grounds(published, GENERATION), assignment.intent
    assert intent is not None
    assert Permit(grounds, assignment.start, intent).objection() is None
    return lambda: Permit(grounds, assignment.start, intent).objection()


def _rulings(given: Propose) -> Costs:
    """What the decision table takes of a start, where nobody is asked."""
    request = given.request
    operation = CONFIG.operation(request.operation, request.version)
    default = parse_policy(default_policy())
    assert isinstance(default, Policy), default
    assert default.rule(operation, request, "micro").asks is None
    tables = (("everything goes ahead", AUTOMATIC), ("the default table", default))
    return {f"policy: {name}": _us(_ruling(table, given)) for name, table in tables}


def _ruling(table: Policy, given: Propose) -> Callable[[], object]:
    request = given.request
    operation = CONFIG.operation(request.operation, request.version)
    return lambda: table.rule(operation, request, "micro")


def _decision_costs(name: str, given: Decidable, decision: Decision, before: Stream) -> Costs:
    value = encode_ledger(decision, generation=GENERATION, partition=0)
    after = fold_decision(before, decision)
    state = dump(after)
    place = Place(decision.at, decision.decided_at)
    offer = Offer(HOLDER, "charge", 1, T0, T0 + 600_000)
    decided = decide(before, CONFIG, given, place, offer)
    assert decided.facts == decision.facts
    return {
        f"{name}: decide": _us(lambda: decide(before, CONFIG, given, place, offer)),
        f"{name}: encode": _us(lambda: encode_ledger(decision, generation=GENERATION, partition=0)),
        f"{name}: read": _us(lambda: read_ledger(value)),
        f"{name}: evolve": _us(lambda: fold_decision(before, decision)),
        f"{name}: state to bytes": _us(lambda: dump(after)),
        f"{name}: state from bytes": _us(lambda: load(state)),
    }


def _take(owner: Owner, inputs: list[Record]) -> float:
    def take() -> None:
        batch = owner.take(inputs, 0)
        assert len(batch.records) == len(inputs)
        owner.lost()

    return _us(take, len(inputs))


def _rows(world: World) -> None:
    held: dict[str, Held] = {}
    fold_batch(read_batch({0: PartitionFold(0)}, world.ledger), held)


def _us(call: Callable[[], object], records: int = 1) -> float:
    """Microseconds of CPU time a record of a call that handles so many."""
    timer = timeit.Timer(call, timer=time.process_time)
    once_s = max(timer.timeit(1), 1e-7)
    number = max(1, int(SECONDS_A_REPEAT / once_s))
    return round(min(timer.repeat(REPEATS, number)) / number / records * 1e6, 2)


def show(found: Costs, console: Console) -> None:
    """Print the table."""
    table = Table()
    table.add_column("step, one record")
    table.add_column("µs", justify="right")
    for step, cost in found.items():
        table.add_row(step, f"{cost:,.1f}")
    console.print(table)
