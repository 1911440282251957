"""Laws that hold the projections against the log, and quarantine against what was set aside.

A projection is compared with the plain fold up to the very offsets that it says it has reached.
"""

import base64
import hashlib
from collections.abc import Iterator
from typing import Any

import orjson

from tests.crash.evidence import Finding, Json, Raw, Run, event_of
from tests.crash.laws_of_log import WITHOUT_GENESIS
from tests.crash.plain_fold import Folded, Told, fold
from tests.crash.plain_gates import Gate

EVENT_DOMAIN = "actionledger.event.v1"


def s13_projected_to_the_end(run: Run, folded: Folded) -> Iterator[Finding]:
    """Projections have reached the end of every partition, with its positions."""
    rows = {row["partition"]: row for row in run.tables.get("projection_offsets", ())}
    for number, partition in folded.partitions.items():
        row = rows.get(number)
        reached = 0 if row is None else row["next_offset"]
        if reached != partition.next_offset:
            what = f"is projected up to {reached} of {partition.next_offset}"
            yield Finding("S13", f"ledger/{number}", what)
        elif row is not None and row["positions"] != partition.positions:
            what = f"positions are {partition.positions}, projected as {row['positions']}"
            yield Finding("S13", f"ledger/{number}", what)


def s13_streams(run: Run, folded: Folded) -> Iterator[Finding]:
    """The serialised state of every stream is what the log adds up to."""
    projected = _as_projected(run, folded)
    wanted: dict[str, list[Json]] = {}
    for action in projected.actions.values():
        wanted.setdefault(action.stream, []).append(action.state)
    found = {row["stream_key"]: orjson.loads(row["state"]) for row in _rows(run, "streams")}
    for key in sorted(wanted.keys() | projected.gates.keys() | found.keys()):
        state: Json = {"key": key, "actions": wanted.get(key, [])}
        if key in projected.gates:
            state["gate"] = projected.gates[key].state
        if found.get(key) != state:
            yield Finding("S13", f"streams {key}", _difference(state, found.get(key)))


def s13_actions(run: Run, folded: Folded) -> Iterator[Finding]:
    """The rows of actions and of their attempts say what the log adds up to."""
    projected = _as_projected(run, folded)
    rows = {row["action_key"]: row for row in _rows(run, "actions")}
    attempts = {(row["action_key"], row["number"]): row for row in _rows(run, "attempts")}
    for key in sorted(projected.actions.keys() | rows.keys()):
        action = projected.actions.get(key)
        wanted = None if action is None else action_row(action.state, action.history[-1])
        if rows.get(key) != wanted:
            yield Finding("S13", f"actions {key}", _difference(wanted, rows.get(key)))
        for attempt in () if action is None else action.state["attempts"]:
            number = attempt["number"]
            row = attempt_row(key, attempt)
            found = attempts.pop((key, number), None)
            if found != row:
                yield Finding("S13", f"attempts {key} {number}", _difference(row, found))
    for key, number in sorted(attempts):
        yield Finding("S13", f"attempts {key} {number}", "is in no log")


def s13_events(run: Run, folded: Folded) -> Iterator[Finding]:
    """The timeline has every fact, under the id that follows from it; other answers have a row."""
    projected = _as_projected(run, folded)
    events: dict[tuple[int, int, int], Json] = {}
    for action in projected.actions.values():
        for told in action.history:
            decided = told.decided
            events[decided.partition, decided.offset, told.ordinal] = event_row(told)
    found = {
        (row["partition"], row["ledger_offset"], row["ordinal"]): row
        for row in _rows(run, "action_events")
    }
    for place in sorted(events.keys() | found.keys()):
        if events.get(place) != found.get(place):
            what = _difference(events.get(place), found.get(place))
            yield Finding("S13", f"action_events {place}", what)
    answers = {(row["partition"], row["ledger_offset"]) for row in _rows(run, "decisions")}
    wanted = {
        (decided.partition, decided.offset)
        for decided in projected.decisions
        if not decided.data.get("facts") and not decided.data.get("gate")
    }
    for answer in sorted(answers ^ wanted):
        yield Finding("S13", f"decisions {answer}", "is only in one of log and projection")


def s19_rows_of_gates(run: Run, folded: Folded) -> Iterator[Finding]:
    """The rows of gates and reservations say what the log adds up to: every gate as it stands, and
    each reservation that is held, once.
    """
    projected = _as_projected(run, folded)
    rows = {row["gate_key"]: row for row in _rows(run, "gates")}
    for key in sorted(projected.gates.keys() | rows.keys()):
        gate = projected.gates.get(key)
        wanted = None if gate is None else gate_row(gate)
        if rows.get(key) != wanted:
            yield Finding("S19", f"gates {key}", _difference(wanted, rows.get(key)))
    held = {
        (key, one["version"])
        for key, gate in projected.gates.items()
        for one in gate.state["reservations"]
    }
    told = {
        (row["gate_key"], row["version"])
        for row in _rows(run, "gate_reservations")
        if row["status"] != "closed"
    }
    for place in sorted(held ^ told):
        yield Finding("S19", f"reservations {place}", "is held only in one of log and projection")


def gate_row(gate: Gate) -> Json:
    """A gate's row, as far as it follows from the gate alone."""
    reserved: Json = {}
    for one in gate.held:
        for name, amount in one["demand"].items():
            reserved[name] = reserved.get(name, 0) + amount
    return {
        "gate_key": gate.key,
        "version": gate.state["version"],
        "used": gate.state["used"],
        "reserved": reserved,
        "granted": len(gate.held),
        "queued": len(gate.queue),
    }


def q_quarantine_is_complete(run: Run, folded: Folded) -> Iterator[Finding]:
    """What was set aside stands whole on the quarantine topic, and nothing else does."""
    kept: dict[tuple[str, int, int], Json] = {}
    for partition in folded.partitions:
        for raw in run.records("quarantine", partition):
            _, data = event_of(raw)
            place = (data["topic"], data["partition"], data["offset"])
            kept[place] = data
            original = _at(run, *place)
            if original is None or not _is_whole(original, data):
                where = "/".join(map(str, place))
                yield Finding("Q", where, "what stands in quarantine is not what was set aside")
    decided = {
        one.cause: one.data["quarantined"] for one in folded.decisions if "quarantined" in one.data
    }
    for place, answer in decided.items():
        where = "/".join(map(str, place))
        if place not in kept:
            yield Finding("Q", where, "was set aside and is not in quarantine")
        elif (kept[place]["sha256"], kept[place]["reason"]) != (answer["sha256"], answer["reason"]):
            yield Finding(
                "Q", where, f"the ledger calls it {answer['reason']}, quarantine otherwise"
            )
    for place in kept.keys() - decided.keys():
        if place[0] != "webhooks":
            yield Finding("Q", "/".join(map(str, place)), "is in quarantine without a decision")


def q_unreadable_is_set_aside(run: Run, folded: Folded) -> Iterator[Finding]:
    """An input whose bytes are no event has the answer that it was set aside."""
    answered = {one.cause: one.data for one in folded.decisions}
    for (topic, partition), records in run.log.items():
        if topic not in {"intents", "attempts", "evidence", "internal", "approvals"}:
            continue
        first = 0 if topic in WITHOUT_GENESIS else 1
        for raw in records[first:]:
            kind, _ = event_of(raw)
            answer = answered.get((topic, partition, raw.offset))
            if not kind and answer is not None and "quarantined" not in answer:
                where = f"{topic}/{partition}/{raw.offset}"
                yield Finding("Q", where, "is no event and was not set aside")


def w_every_webhook_is_known(run: Run, folded: Folded) -> Iterator[Finding]:
    """A webhook on the log has its row or is in quarantine; one that is matched is evidence."""
    rows = {(row["partition"], row["topic_offset"]): row for row in _rows(run, "webhooks")}
    aside = {
        (data["partition"], data["offset"])
        for partition in folded.partitions
        for raw in run.records("quarantine", partition)
        for _, data in [event_of(raw)]
        if data["topic"] == "webhooks"
    }
    counted = {
        (action.key, told.fact["source_id"])
        for action in folded.actions.values()
        for told in action.told("evidence.recorded")
    }
    for partition in folded.partitions:
        for raw in run.records("webhooks", partition):
            place = (partition, raw.offset)
            row = rows.get(place)
            where = f"webhooks/{partition}/{raw.offset}"
            if row is None and place not in aside:
                yield Finding("W", where, "was received and nobody has looked at it")
            elif row is not None and row["classification"] == "matched":
                named = row.get("fact") or row["event_id"]
                source = f"webhook:{row['provider']}:{row['account']}:{named}"
                if (row["action_key"], source) not in counted:
                    what = f"is matched to {row['action_key']}, which does not know it"
                    yield Finding("W", where, what)


def _as_projected(run: Run, folded: Folded) -> Folded:
    """The fold up to where the projection says that it is: the whole one where that is the end."""
    reached = {row["partition"]: row["next_offset"] for row in _rows(run, "projection_offsets")}
    if all(reached.get(one.number, 0) >= one.next_offset for one in folded.partitions.values()):
        return folded
    return fold(run, reached)


def _rows(run: Run, table: str) -> list[Json]:
    return list(run.tables.get(table, ()))


def action_row(state: Json, last: Told) -> Json:
    """The row of an action, as far as it is gathered."""
    return {
        "action_key": state["key"],
        "status": state["status"],
        "version": state["version"],
        "request_hash": state["request_hash"],
        "attempts": len(state["attempts"]),
        "provider_reference": state.get("reference"),
        "proof": state.get("proof"),
        "code": state.get("code"),
        "review": state.get("review"),
        "ledger_offset": last.decided.offset,
    }


def attempt_row(key: str, attempt: Json) -> Json:
    """The row of one attempt."""
    columns = ("number", "fencing_token", "holder", "provider_key", "status", "lease_until")
    return {
        "action_key": key,
        **{name: attempt[name] for name in columns},
        "code": attempt.get("code"),
        "ended_at": attempt.get("ended_at"),
    }


def event_row(told: Told) -> Json:
    """The row of one fact; its id is made of what it says and what caused it."""
    fact, decided = told.fact, told.decided
    topic, partition, offset = decided.cause
    tenant = decided.data["stream"].partition("/")[0]
    identity = "\n".join(
        str(part)
        for part in (
            EVENT_DOMAIN,
            tenant,
            fact["action"],
            fact["version"],
            fact["type"],
            topic,
            partition,
            offset,
            told.ordinal,
        )
    )
    return {
        "partition": decided.partition,
        "ledger_offset": decided.offset,
        "ordinal": told.ordinal,
        "action_key": fact["action"],
        "version": fact["version"],
        "type": fact["type"],
        "event_id": hashlib.sha256(identity.encode()).hexdigest()[:32],
    }


def _at(run: Run, topic: str, partition: int, offset: int) -> Raw | None:
    records = run.records(topic, partition)
    return records[offset] if offset < len(records) else None


def _is_whole(original: Raw, data: Json) -> bool:
    value = base64.b64decode(data["value_base64"])
    return value == original.value and hashlib.sha256(value).hexdigest() == data["sha256"]


def _difference(wanted: Any, found: Any) -> str:  # noqa: ANN401 - any JSON
    """The first path at which two JSON values differ, with both."""
    path = ""
    while isinstance(wanted, dict | list) and type(wanted) is type(found):
        keys = _keys(wanted) | _keys(found)
        key = min((one for one in keys if _get(wanted, one) != _get(found, one)), key=str)
        path, wanted, found = f"{path}/{key}", _get(wanted, key), _get(found, key)
    return f"{path or 'whole'}: the log says {wanted!r}, the projection {found!r}"


def _keys(value: Any) -> set[Any]:  # noqa: ANN401
    return set(value) if isinstance(value, dict) else set(range(len(value)))


def _get(value: Any, key: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return value.get(key)
    return value[key] if key < len(value) else None
