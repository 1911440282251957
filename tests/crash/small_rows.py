"""What a projection that made no mistake has of the small run."""

from copy import deepcopy

import orjson

from tests.crash.evidence import Json, Run
from tests.crash.laws_of_rows import action_row, attempt_row, event_row, gate_row
from tests.crash.plain_fold import fold


def projected(run: Run) -> dict[str, list[Json]]:
    """The rows of a projection that has followed the log to its end and made no mistake."""
    folded = fold(run)
    streams: dict[str, list[Json]] = {}
    for action in folded.actions.values():
        streams.setdefault(action.stream, []).append(deepcopy(action.state))
    states: dict[str, Json] = {key: {"key": key, "actions": some} for key, some in streams.items()}
    for key, gate in folded.gates.items():
        states.setdefault(key, {"key": key, "actions": []})["gate"] = deepcopy(gate.state)
    told = [one for action in folded.actions.values() for one in action.history]
    return {
        "projection_offsets": [
            {
                "partition": partition.number,
                "next_offset": partition.next_offset,
                "epoch": partition.epoch,
                "void_count": partition.void,
                "positions": partition.positions,
            }
            for partition in folded.partitions.values()
        ],
        "streams": [
            {"stream_key": key, "state": orjson.dumps(state).decode()}
            for key, state in states.items()
        ],
        "actions": [
            action_row(action.state, action.history[-1]) for action in folded.actions.values()
        ],
        "attempts": [
            attempt_row(action.key, attempt)
            for action in folded.actions.values()
            for attempt in action.state["attempts"]
        ],
        "action_events": [event_row(one) for one in told],
        "decisions": [
            {"partition": one.partition, "ledger_offset": one.offset}
            for one in folded.decisions
            if not one.data.get("facts") and not one.data.get("gate")
        ],
        "gates": [gate_row(gate) for gate in folded.gates.values()],
        "gate_reservations": [
            {"gate_key": gate.key, "version": one["version"], "status": "granted"}
            for gate in folded.gates.values()
            for one in gate.state["reservations"]
        ],
    }
