"""Laws about what crosses business events, from the log alone: what gates give out is accounted
for, no ceiling is passed, one action at a time holds a target, and nothing is left over.
"""

import tomllib
from collections.abc import Iterator

from tests.crash.evidence import Finding, Json, Run
from tests.crash.plain_fold import Folded
from tests.crash.plain_gates import Gate
from tests.crash.plain_table import FINAL


def s19_accounts(_run: Run, folded: Folded) -> Iterator[Finding]:
    """At every prefix what a gate has used and reserved is the sum of its facts, every grant has a
    number of its own and comes back once, and nobody starts whom a gate has not let through. What
    the fold met is told here.
    """
    yield from (finding for finding in folded.findings if finding.law == "S19")


def s19_ceilings(_run: Run, folded: Folded) -> Iterator[Finding]:
    """No gate ever had more out than the ceiling that it counts for allows."""
    for text in folded.policies:
        for ceiling in tomllib.loads(text).get("ceiling", ()):
            for gate in folded.gates.values():
                if _counts_for(gate, ceiling):
                    yield from _passed(gate, ceiling)


def _counts_for(gate: Gate, ceiling: Json) -> bool:
    named = gate.key.partition("/")[2]
    if ceiling["per"] == "run":
        return gate.kind == "run"
    return named.startswith(f"window:{ceiling['name']}:")


def _passed(gate: Gate, ceiling: Json) -> Iterator[Finding]:
    limits = {"side_effects": ceiling.get("side_effects")}
    limits |= {f"spend.{code}": limit for code, limit in ceiling.get("spend", {}).items()}
    for dimension, limit in limits.items():
        most = gate.most.get(dimension, 0)
        if limit is not None and most > limit:
            what = f"had {most} {dimension} out, and {ceiling['name']} allows {limit}"
            yield Finding("S19", gate.key, what)


def s19_nothing_left(_run: Run, folded: Folded) -> Iterator[Finding]:
    """When all is quiet a gate holds nothing for what has ended, nobody waits for an answer, and
    nobody waits at a gate that nobody holds.
    """
    for key, gate in folded.gates.items():
        for one in gate.held:
            action = folded.actions.get(one["action"])
            if action is None or (action.status in FINAL and "case" not in action.state):
                yield Finding("S19", key, f"holds {one['action']}, which has ended")
        if gate.queue and not gate.held:
            yield Finding("S19", key, f"never lets {gate.queue[0]['action']} in")
    for action in folded.actions.values():
        for claim in action.state["claims"]:
            if claim["status"] in {"asked", "closing"}:
                yield Finding("S19", action.key, f"waits for {claim['gate']} to answer")
