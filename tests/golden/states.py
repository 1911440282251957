"""Write the golden states of what has none yet: `python -m tests.golden.states`.

Facts that are there are never written again, nor is a state of a fold version that has one. The
histories below are only what each stream began with; after that its facts speak for themselves.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ledger.core.evolve import Place, evolve
from ledger.core.facts import AnyFact, Fact
from ledger.core.gates import AnyGateFact, GateFact, evolve_gate
from ledger.core.ids import GateKind, gate_key, stream_key_of
from ledger.core.inputs import Meaning
from ledger.core.records import Decision
from ledger.core.snapshot import FOLD_VERSION, dump
from ledger.core.state import Stream
from ledger.log.fold import PartitionFold
from tests import examples as x
from tests.examples_of_gates import steps
from tests.unit.core.crossing import ORDER, A, B, C, Crossing, ceiling, passes

GOLDEN = Path(__file__).with_name("stream_states.json")
_FACT: TypeAdapter[AnyFact] = TypeAdapter(Fact)
_GATE_FACT: TypeAdapter[AnyGateFact] = TypeAdapter(GateFact)


def main() -> int:
    """Write what is missing, and say so."""
    stored = golden()
    known = {one["name"] for one in stored}
    stored += [one for one in histories() if one["name"] not in known]
    for one in stored:
        if str(FOLD_VERSION) not in one["states"]:
            one["states"][str(FOLD_VERSION)] = dump(folded(one)).decode()
            sys.stdout.write(f"wrote {one['name']} of fold version {FOLD_VERSION}\n")
    GOLDEN.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


def golden() -> list[dict[str, Any]]:
    """Streams: their facts with the places of their decisions, and their states by version."""
    read: list[dict[str, Any]] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return read


def folded(stored: dict[str, Any]) -> Stream:
    """The stream that the golden facts lead to."""
    stream = Stream(stored["stream"])
    for offset, decided_at, fact in stored["facts"]:
        place = Place(offset, decided_at)
        stream = evolve(stream, _FACT.validate_json(json.dumps(fact)), place)
    gate = stream.gate
    for _, decided_at, fact in stored.get("gate", ()):
        gate = evolve_gate(gate, _GATE_FACT.validate_json(json.dumps(fact)), decided_at)
    return Stream(stream.key, stream.actions, gate)


def histories() -> Iterator[dict[str, Any]]:
    """What streams begin with that have no facts there yet."""
    world = _crossed()
    keys = {
        "granted_by_gates": stream_key_of(A),
        "queued_behind_another": stream_key_of(B),
        "refused_by_a_gate": stream_key_of(C),
        "gate_of_a_run": gate_key("acme", GateKind.RUN, "r1"),
        "gate_of_a_target": gate_key("acme", GateKind.TARGET, ORDER),
    }
    for name, key in keys.items():
        yield _stored(world, name, key)
    world.completes(A)
    world.waits(ms=5_000)
    world.hears(x.found_out(Meaning.EFFECT, key=A, lookup=None, reference="ch_second"))
    yield _stored(world, "spent_and_contradicted", stream_key_of(A))
    yield _stored(world, "target_closed_again", gate_key("acme", GateKind.TARGET, ORDER))


def _crossed() -> Crossing:
    """One acts and keeps what it holds, one waits behind it, one is held as a look-alike."""
    table = ceiling(side_effects=9, steps=9) + passes("run", target=True)
    world = Crossing(table, look_alike_window_ms=60_000)
    world.hears(steps(1, run="r1", tool_calls=2))
    world.proposes(A, run="r1")
    world.waits(ms=5_000)
    world.proposes(B, run="r2", money=x.EUR_499)
    world.proposes(C, run="r1")
    return world


def _stored(world: Crossing, name: str, key: str) -> dict[str, Any]:
    """The facts of one stream as they stand in the log."""
    stored: dict[str, Any] = {"name": name, "stream": key, "facts": [], "states": {}}
    of_gate: list[Any] = []
    fold = PartitionFold(0)
    for record in world.ledger.records():
        read = fold.feed(record)
        if not isinstance(read, Decision) or read.stream != key:
            continue
        stored["facts"] += [[read.at, read.decided_at, _plain(fact)] for fact in read.facts]
        of_gate += [[read.at, read.decided_at, _plain(about)] for about in read.gate or ()]
    if of_gate:
        stored["gate"] = of_gate
    return stored


def _plain(fact: AnyFact | AnyGateFact) -> object:
    return json.loads(fact.model_dump_json(exclude_none=True))


if __name__ == "__main__":
    sys.exit(main())
