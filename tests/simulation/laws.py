"""Laws about what follows the ledger: timers, callers' answers, states and rows.

Each reads the finished log and compares with what a part of the product made of it.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from ledger.client.progress import ActionsSeen
from ledger.core.records import Decision
from ledger.core.snapshot import dump
from ledger.core.state import Stream
from ledger.log.envelope import encode_ledger, ledger_headers, read_ledger
from ledger.log.port import Outgoing, Record
from ledger.log.simulated import SimulatedLog
from ledger.log.topics import Topic, partition_of
from projections.fold import Folding, read_batch
from reconciler.matching import Matched
from streams.deciding import config_of
from streams.timetable import next_due_of
from tests.crash import plain_fold
from tests.crash.evidence import Raw, Run
from tests.simulation.broken import law
from tests.simulation.matchers import WebhookRows
from tests.simulation.observer import Observer
from tests.simulation.oracle import FINAL, Judge
from tests.simulation.readmodel import ReadModel, Tables
from tests.simulation.world import GENERATION, World

LEDGER, INTERNAL, ATTEMPTS = Topic.LEDGER.value, Topic.INTERNAL.value, Topic.ATTEMPTS.value
LATE_MS = 15_000
"""How late something may be that is due by time while all is well: a tick is passed over, perhaps,
and comes again.
"""
ANSWERS = (Topic.INTENTS.value, Topic.APPROVALS.value, ATTEMPTS, Topic.EVIDENCE.value)
"""Inboxes that may hold the answer to a timer."""


def timers_wait(world: World, judge: Judge) -> None:
    """A tick is decided after everything that lay in the other inboxes when it came; where inputs
    may wait for a stream that is not held, after everything about its own stream. What actions and
    gates say to each other waits for nothing.
    """
    log, never_waits = world.log, world.weather.held_max is None
    for partition, decisions in judge.decisions.items():
        decided = dict.fromkeys(ANSWERS, 1)
        for record in decisions:
            cause = record["cause"]
            if cause["topic"] in decided:
                decided[cause["topic"]] = cause["offset"] + 1
            if cause["topic"] == INTERNAL and cause.get("copied", "tick").startswith("tick"):
                landing = log.landing_of(INTERNAL, partition, cause["offset"])
                for topic, position in decided.items():
                    lay = log.landed_before(topic, partition, landing)
                    behind = log.read(topic, partition, position) if position < lay else ()
                    key = record["stream"].encode()
                    waits = [
                        one.offset
                        for one in behind
                        if one.offset < lay and (never_waits or one.key == key)
                    ]
                    law(not waits, "timers", f"tick {cause} before {topic} {waits}")


def times_are_kept_beside_damage(world: World, observer: Observer, model: ReadModel) -> None:
    """V1, named `beside`: while nothing is known of one stream, of every other whatever is due by
    time is done, unless an input about it waits in an inbox behind the first; or too much does.
    """
    if world.weather.waiting_max is not None:
        return
    observer.look()
    for fold in observer.folds:
        config = config_of(fold.in_force)
        waits = {
            record.key
            for topic in ANSWERS
            for record in world.log.read(
                topic, fold.partition, max(1, fold.positions.get(topic, 0))
            )
        }
        for key, stream in observer.streams.items():
            is_known = key not in model.damaged and key.encode() not in waits
            if (
                config is None
                or not is_known
                or partition_of(key, world.partitions) != fold.partition
            ):
                continue
            now = world.time.now
            due = next_due_of(stream, now, config)
            law(due is None or due > now - LATE_MS, "beside", f"{key} was due at {due}, is {now}")
            if waits and stream.actions:
                world.reach("time kept beside a damaged stream")


def callers_are_told_the_truth(log: SimulatedLog, judge: Judge) -> None:
    """S12: whoever follows ledger and reports is never told a success without an effect that the
    ledger has on its holder's word, whatever else a person has to look at; nor another end that
    does not last.
    """
    seen = ActionsSeen(log.partitions, {})
    told: set[tuple[str, str, str | None]] = set()
    for record in _as_they_landed(log):
        if record.topic == LEDGER:
            decision = seen.feed(record)
            keys = () if decision is None else tuple(fact.action for fact in decision.facts)
        else:
            key = seen.hear(record)
            keys = () if key is None else (key,)
        for key in keys:
            progress = seen.progress_of(key)
            if progress is not None:
                told.add((key, str(progress.status), progress.reference))
    for key, status, reference in sorted(told, key=repr):
        action = judge.actions[key]
        if status == "completed":
            # What a report said late, because evidence of another effect was decided before it.
            late = {one.get("reference") for one in action.evidence if one["kind"] == "report"}
            proven = {*action.references, *late, (action.completed or {}).get("reference")}
            law(reference in proven, "told", f"{key} was told to be done as {reference}")
        elif status in FINAL:
            law(status == action.status, "told", f"{key} was told to be {status}")


def _as_they_landed(log: SimulatedLog) -> Iterator[Record]:
    records = [
        (log.landing_of(topic, part, record.offset), record)
        for topic in (LEDGER, ATTEMPTS)
        for part in range(log.partitions)
        for record in log.read(topic, part, 0)
    ]
    return (record for _, record in sorted(records, key=lambda one: one[0]))


def states_are_the_plain_ones(log: SimulatedLog, streams: dict[str, Stream]) -> None:
    """S6, S22: every field of every state is what the plain fold makes of the log, which reads no
    clock.
    """
    raws = {
        (LEDGER, part): [
            Raw(record.offset, record.timestamp, record.key, record.value)
            for record in log.read(LEDGER, part, 0)
        ]
        for part in range(log.partitions)
    }
    plain = plain_fold.fold(Run(partitions=log.partitions, log=raws))
    law(not plain.findings, "S6", [str(finding) for finding in plain.findings])
    wanted: dict[str, list[Any]] = {}
    for action in plain.actions.values():
        wanted.setdefault(action.stream, []).append(action.state)
    for key, stream in streams.items():
        ours, actions = orjson.loads(dump(stream)), wanted.get(key, [])
        law(ours["actions"] == actions, "S22", (ours, actions))
        gate = plain.gates.get(key)
        law(ours.get("gate") == (gate and gate.state), "S22", (ours, gate))


def parked_webhooks_are_swept_up(log: SimulatedLog, judge: Judge, webhooks: WebhookRows) -> None:
    """A webhook waits for a name only as long as the ledger does not know it, whatever else of the
    stream was lost; and a row says that it is matched only when its evidence was durable.
    """
    kept = b"".join(
        record.value
        for part in range(log.partitions)
        for record in log.read(Topic.EVIDENCE.value, part, 1)
    )
    names = {
        (action.intent["account"], reference)
        for action in judge.actions.values()
        for reference in (*action.references, (action.completed or {}).get("reference"))
    }
    for offset, row in webhooks.rows.items():
        name = (row.receipt.account, row.mapped.names)
        law(not row.awaits_reference or name not in names, "parked", f"{name} is known: {row}")
        is_told = f'"id":"{Topic.WEBHOOKS}/0/{offset}"'.encode() in kept
        law(is_told or not isinstance(row.match, Matched), "parked", f"never told: {row}")


def nothing_unfoldable_is_passed(log: SimulatedLog, judge: Judge) -> None:
    """S13, named `stops`: a record that counts and cannot be folded stops the projection of its
    partition exactly there. Writes one behind everything that was judged.
    """
    for partition, decisions in judge.decisions.items():
        with_facts = [record for record in decisions if record.get("facts")]
        if not with_facts:
            continue
        at_last, end = with_facts[-1]["at"], log.end_offset(LEDGER, partition)
        last = read_ledger(log.read(LEDGER, partition, at_last, records_max=1)[0].value)
        assert isinstance(last, Decision)
        for at in (end, end + 1):
            cause = last.cause.model_copy(update={"offset": 10**6 + at})
            moved = {"at": at, "epoch": judge.epochs[partition], "decided_at": 2**50 + at}
            again = last.model_copy(update=moved | {"cause": cause})
            value = encode_ledger(again, generation=GENERATION, partition=partition)
            record = Outgoing(again.stream.encode(), value, ledger_headers(again))
            log.append(LEDGER, partition, [record])
        tables = Tables.empty(log.partitions)
        records = log.read(LEDGER, partition, 0)
        (read,) = read_batch(tables.folds, records)
        folding = Folding(tables.streams)
        folding.add(read)
        fold = folding.fold_of(partition)
        stands_at = 0 if fold is None else fold.next_offset
        law(stands_at <= end, "stops", f"projected to {stands_at}, past {end} that has no meaning")
