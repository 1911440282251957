"""Write the golden ledgers that are not there yet: `python -m tests.golden.logs`.

A ledger that is there is never written again, nor is what came of it.
"""

import json
import sys
from pathlib import Path
from typing import Any

from ledger.core.inputs import Meaning
from ledger.core.records import Decision
from ledger.core.state import Action, Stream
from ledger.core.statement import Move
from ledger.log.fold import PartitionFold, fold_decision
from ledger.log.port import Record
from tests import examples as x
from tests.examples_of_gates import steps
from tests.unit.core.crossing import A, B, C, Crossing, D, ceiling, passes

HERE = Path(__file__).parent
PLAIN, GATED = "log", "log_of_gates"
NAMES = (PLAIN, GATED)


def main() -> int:
    """Write what is missing, and say so."""
    path = HERE / f"{GATED}.ndjson"
    if not path.exists():
        lines = [_line(record) for record in _gated().ledger.everything()]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        known = json.dumps(folded(records(GATED)), indent=1, ensure_ascii=False)
        (HERE / f"{GATED}_folded.json").write_text(known + "\n", encoding="utf-8")
        sys.stdout.write(f"wrote {path.name}\n")
    return 0


def _line(record: Record) -> str:
    kept = {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "value": (record.value or b"").decode(),
    }
    return json.dumps(kept, ensure_ascii=False)


def records(name: str) -> list[Record]:
    """Every record of a golden ledger, partition by partition, in its order."""
    read = []
    for line in (HERE / f"{name}.ndjson").read_text(encoding="utf-8").splitlines():
        kept = json.loads(line)
        value = kept["value"].encode()
        place = (kept["partition"], kept["offset"], kept["timestamp"])
        read.append(Record("ledger", *place, None, value, ()))
    return read


def folded(read: list[Record]) -> dict[str, Any]:
    """What is known after the log, in plain values."""
    folds = {record.partition: PartitionFold(record.partition) for record in read}
    streams: dict[str, Stream] = {}
    for record in read:
        decision = folds[record.partition].feed(record)
        if isinstance(decision, Decision) and (decision.facts or decision.gate):
            before = streams.get(decision.stream) or Stream(decision.stream)
            streams[decision.stream] = fold_decision(before, decision)
    known: dict[str, Any] = {
        "partitions": [
            {
                "epoch": fold.epoch,
                "next_offset": fold.next_offset,
                "void": fold.void_count,
                "decided_at": fold.decided_at,
                "positions": dict(sorted(fold.positions.items())),
            }
            for _, fold in sorted(folds.items())
        ],
        "actions": {
            action.key: _plain(action)
            for _, stream in sorted(streams.items())
            for action in stream.actions
        },
    }
    gates = {key: one.gate for key, one in sorted(streams.items()) if one.gate is not None}
    if gates:
        known["gates"] = {
            key: {
                "version": gate.version,
                "used": dict(gate.used),
                "held": [[one.action, one.round, one.grant] for one in gate.reservations],
                "recent": [one.action for one in gate.recent],
            }
            for key, gate in gates.items()
        }
    return known


def _plain(action: Action) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "status": action.status,
        "version": action.version,
        "request_hash": action.request_hash,
        "reference": action.reference,
        "proof": action.proof,
        "review": action.review,
        "lookups": [action.lookups_asked, action.lookups_answered],
        "attempts": [
            [one.status, one.fencing_token, one.holder, one.started_at, one.lease_until]
            for one in action.attempts
        ],
    }
    if action.claims:
        plain["claims"] = [[one.gate, one.round, one.status] for one in action.claims]
    return plain


def _gated() -> Crossing:
    """A run with a ceiling, one target with a queue, a look-alike, an effect that came late, and
    what a person let pass, over two owners of the partition.
    """
    table = ceiling(side_effects=2, tokens=9_000) + passes("run", target=True)
    world = Crossing(table, look_alike_window_ms=60_000)
    world.hears(steps(1, run="r1", tokens=4_000))
    world.proposes(A, run="r1", batch="renewals")
    world.proposes(B, run="r1", money=x.EUR_499)
    world.proposes(C, run="r2", occurrence="again")
    world.loses(A, at=5)
    world.ledger.open_epoch()
    world.ledger.void()
    world.waits(ms=5_000)
    world.hears(x.found_out(Meaning.NO_EFFECT, key=A, lookup=None))
    world.proposes(D, run="r2")
    world.completes(B)
    world.hears(x.found_out(Meaning.EFFECT, key=A, lookup=None, source="webhook:evt_2"))
    world.hears(x.cancel(C))
    world.proposes(x.NOTE, run="r1")
    world.allows(x.NOTE, "run")
    world.settles(A, Move.ACKNOWLEDGE)
    world.waits(ms=5_000)
    return world


if __name__ == "__main__":
    sys.exit(main())
