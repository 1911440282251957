"""S19, judged from the log alone: what actions ask of gates, what gates grant, and what started.

Written once more from the rules, over the JSON of records. Partitions are put together in the order
in which their records landed, and every law is held at every prefix of that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from ledger.core.ceilings import zone_of
from ledger.core.limits import RESERVATIONS_MAX
from ledger.log.simulated import SimulatedLog
from tests.crash.plain_gates import Gate, opened
from tests.simulation.broken import law
from tests.simulation.oracle_claims import TOLD
from tests.simulation.oracle_people import InForce
from tests.simulation.provider import Entry

Json = dict[str, Any]
FINAL: Final = frozenset({"completed", "failed", "denied", "cancelled", "expired", "superseded"})
OPEN: Final = frozenset({"running", "unresolved"})
HELD: Final = frozenset({"asked", "queued", "granted"})
WAITING: Final = frozenset({"asked", "queued"})
REPORTED: Final = frozenset({"steps", "tool_calls", "tokens"})
LAPSING: Final = frozenset({*REPORTED, "wall_clock_ms"})
"""What is used up once it is reached, though nobody asks for more of it."""

# --- all partitions together ---------------------------------------------------------------------


@dataclass
class Crossed:
    """One action as far as others meet it."""

    intent: Json
    gates: Json = field(default_factory=dict)
    allowed: list[str] = field(default_factory=list)
    attempts: dict[int, str] = field(default_factory=dict)
    status: str = "proposed"
    case: str | None = None
    claims: dict[tuple[str, int], Json] = field(default_factory=dict)
    """What it asked of gates: what it wants, since when, and under which number it has it."""

    @property
    def request(self) -> Json:
        """What it asks for."""
        request: Json = self.intent["request"]
        return request

    @property
    def is_open(self) -> bool:
        """Whether an attempt may have had its effect."""
        return bool(OPEN & set(self.attempts.values()))

    @property
    def has_effect(self) -> bool:
        """Whether an effect is there or may be."""
        return self.is_open or self.status == "completed" or "succeeded" in self.attempts.values()

    @property
    def targets(self) -> list[str]:
        """What it acts on."""
        named = (self.request.get("target"), self.request["params"].get("also"))
        return list(dict.fromkeys(one for one in named if one))

    def is_past(self, name: str) -> bool:
        """Whether a person lets it pass a ceiling or another action."""
        return name in self.allowed

    def may_name(self, name: str) -> bool:
        """Whether a gate may let it pass that: a person does, or it comes in the place of it."""
        return self.is_past(name) or name == self.intent.get("revises")


@dataclass
class Crossing:
    """Every gate and every action of a history, decision by decision as they landed."""

    log: SimulatedLog
    table: Callable[[int], InForce]
    """The table that a partition had adopted when its decisions up to now were made."""
    gates: dict[str, Gate] = field(default_factory=dict)
    actions: dict[str, Crossed] = field(default_factory=dict)
    reservations_max: int = RESERVATIONS_MAX
    """How much one gate may hold, but for effects that are there already."""
    given_back: dict[str, list[tuple[tuple[str, int], int]]] = field(default_factory=dict)
    """What each action gave back as unspent, and which attempts had begun by then."""

    def judge(self, decisions: Mapping[int, list[Json]], book: list[Entry]) -> None:
        """Every law at every prefix, and at the end."""
        placed = [
            (self.log.landing_of("ledger", partition, record["at"]), partition, record)
            for partition, some in decisions.items()
            for record in some
        ]
        for _, partition, record in sorted(placed, key=lambda one: one[0]):
            self.table(partition).adopt(record.get("adopted") or {"kind": None})
            for fact in record.get("facts", ()):
                self._acts(fact, record, self.table(partition))
            for fact in record.get("gate", ()):
                self._reserves(fact, record, self.table(partition))
            gate = self.gates.get(record["stream"])
            if gate is not None:
                law(not gate.queue or gate.held, "S19", f"{gate.key}: nobody lets {gate.queue} in")
            for key in dict.fromkeys(fact["action"] for fact in record.get("facts", ())):
                self._is_at_rest(key, record, self.table(partition))
        self._at_the_end(book)

    # Actions

    def _is_at_rest(self, key: str, record: Json, in_force: InForce) -> None:
        """Between decisions: nothing is asked of a gate about a ceiling that is gone; what waits
        for a person without an effect holds nothing; of an effect that came to light after the end
        everybody else on its targets knows. One with which the action ends did not come after,
        whatever disputes it.
        """
        action = self.actions[key]
        asked = [one for one in action.claims.values() if one["status"] in WAITING]
        names = {name for one in asked if not one.get("forced") for name in one["ceilings"]}
        gone = names - in_force.ceilings.keys()
        law(not gone, "S19", f"{key} asks about {sorted(gone)}, which nobody declares any more")
        ends = {fact["action"] for fact in record["facts"] if fact["type"] == "action.completed"}
        held = [one for one in action.claims.values() if one["status"] in HELD]
        if action.case is None:
            return
        if action.status not in FINAL and action.case not in TOLD and not action.has_effect:
            law(not held, "S19", f"{key} waits for a person and holds {held}")
        is_late = action.status in FINAL and action.case in TOLD and key not in ends
        if is_late and action.gates:
            forced = {gate for (gate, _), one in action.claims.items() if one.get("forced")}
            missing = {f"acme/target:{target}" for target in action.targets} - forced
            law(
                not missing,
                "S19",
                f"{key} has an effect after all, and {sorted(missing)} do not know",
            )

    def _acts(self, fact: Json, record: Json, in_force: InForce) -> None:
        kind, key = fact["type"], fact["action"]
        if kind == "intent.recorded":
            self.actions[key] = Crossed(fact)
            return
        action = self.actions[key]
        family, _, name = kind.partition(".")
        match family:
            case "policy":
                action.gates = fact.get("gates") or {}
            case "attempt" if name == "started":
                self._starts(key, action, in_force)
                action.attempts[fact["attempt"]] = "running"
            case "attempt":
                action.attempts[fact["attempt"]] = name
            case "gate":
                self._claims(key, action, fact, record, in_force)
            case "action" if name in FINAL:
                self._ends(action, name)
            case "review":
                action.case = fact["reason"] if name == "opened" else None
                action.allowed += [fact["accepts"]] if fact.get("accepts") else []
            case _:
                pass

    def _ends(self, action: Crossed, name: str) -> None:
        action.status = name
        if name in {"completed", "superseded"}:
            action.case = None
        if name == "completed":
            action.attempts = {
                number: "settled" if one in OPEN else one for number, one in action.attempts.items()
            }

    def _claims(
        self, key: str, action: Crossed, fact: Json, record: Json, in_force: InForce
    ) -> None:
        """What it asks for is what its row has it pass, in the window in which it asks; what it
        gives back it gives back for good.
        """
        place = (fact["gate"], fact["round"])
        match fact["type"]:
            case "gate.asked":
                if fact["sends"] == 1:
                    wanted = wanted_of(action, in_force, record["decided_at"])
                    if fact.get("forced"):
                        wanted |= {f"acme/target:{target}" for target in action.targets}
                    is_wanted = fact["gate"] in wanted
                    law(
                        is_wanted, "S19", f"{key} asks {fact['gate']}, and its row {sorted(wanted)}"
                    )
                for name in fact.get("over") or ():
                    law(action.may_name(name), "S19", f"{key} passes {name}, and nobody signed it")
                if fact["sends"] == 1 and not fact.get("forced"):
                    self._asks_in_order(key, action, fact["gate"])
                action.claims[place] = {**fact, "status": "asked"}
            case "gate.answered":
                known = action.claims[place]
                law(known["status"] != "granted", "S19", f"{key}: {place} is answered twice")
                known |= {"status": fact["outcome"], "grant": fact.get("grant")}
                if fact["outcome"] == "granted":
                    held = self._held(key, place, fact["grant"])
                    law(held, "S19", f"{key} is told of {place}, which its gate has not given")
            case "gate.closing" if fact["sends"] == 1:
                spends = bool(action.has_effect or fact.get("grant") is None or not fact["spent"])
                is_forced = action.claims[place].get("forced")
                law(spends or is_forced, "S19", f"{key} spends {place} for nothing")
                is_safe = not action.has_effect or fact["spent"] or fact.get("grant") is None
                law(is_safe, "S19", f"{key} gives back {place} while its effect may be there")
                if not fact["spent"] and fact.get("grant") is not None:
                    began = max(action.attempts, default=0)
                    self.given_back.setdefault(key, []).append((place, began))
                action.claims[place] |= {"status": "closing", "spent": fact["spent"]}
            case _:
                pass

    def _asks_in_order(self, key: str, action: Crossed, gate: str) -> None:
        """Targets one by one in the order of their keys, behind all budgets: nobody waits in a
        circle.
        """
        held = {other: one["status"] for (other, _), one in action.claims.items()}
        before = {other for other, status in held.items() if status in HELD}
        if gate.startswith("acme/target:"):
            late = {other for other in before if other > gate and other.startswith("acme/target:")}
            law(not late, "S19", f"{key} asks {gate} and has {sorted(late)} already")
            waits = {other for other in before if held[other] != "granted"}
            law(not waits, "S19", f"{key} asks {gate} while {sorted(waits)} have not answered")

    def _held(self, key: str, place: tuple[str, int], grant: int) -> bool:
        gate = self.gates.get(place[0])
        held = None if gate is None else gate.reservation(key, place[1])
        return held is not None and held.get("grant") == grant

    def _starts(self, key: str, action: Crossed, in_force: InForce) -> None:
        """A start has every gate of its row, and no other action is open on its target."""
        granted = {
            (gate, name)
            for (gate, round_), one in action.claims.items()
            if one["status"] == "granted" and self._held(key, (gate, round_), one["grant"])
            for name in (one.get("ceilings") or ["target"])
        }
        names = {name for _, name in granted}
        for name in action.gates.get("ceilings", ()):
            ceiling = in_force.ceilings.get(name)
            if ceiling is not None and _applies(ceiling, action):
                law(name in names, "S19", f"{key} starts and has not passed {name}")
        if not action.gates.get("target"):
            return
        for target in action.targets:
            has = (f"acme/target:{target}", "target") in granted
            law(has, "S19", f"{key} starts and does not hold {target}")
            for other_key, other in self.actions.items():
                if other_key == key or not other.gates.get("target"):
                    continue
                if target in other.targets and other.is_open:
                    may_both = action.is_past(other_key) or other.is_past(key)
                    law(may_both, "S19", f"{key} and {other_key} are open on {target}")

    # Gates

    def _reserves(self, fact: Json, record: Json, in_force: InForce) -> None:
        key, now = record["stream"], record["decided_at"]
        gate = self.gates.setdefault(key, opened(key, now))
        if fact["type"] == "reservation.granted":
            self._in_turn(gate, fact)
        known = len(gate.state["reservations"])
        for what in gate.fold(fact, now):
            law(holds=False, name="S19", why=f"{key} {what}")
        is_more = len(gate.state["reservations"]) > known and not fact.get("forced")
        has_room = not is_more or known < self.reservations_max
        law(has_room, "S19", f"{key} holds {known}, and more comes in")
        match fact["type"]:
            case "reservation.granted":
                self._within(gate, fact, record, in_force)
            case "reservation.closed" if fact.get("grant") is not None:
                self._closes(key, fact)
            case "reservation.refused" if fact["reason"] == "gate_full":
                is_full = known >= self.reservations_max
                law(is_full, "S19", f"{key} says that it is full, and holds {known}")
            case "reservation.refused":
                self._refuses(gate, fact, record, in_force)
            case _:
                pass

    def _in_turn(self, gate: Gate, fact: Json) -> None:
        """Who waits longest is let in first; nobody gets a target that another one has, but by a
        person's word or because its effect is there already.
        """
        if gate.kind != "target" or fact.get("forced"):
            return
        waits = [one for one in gate.queue if one["action"] not in (fact.get("over") or ())]
        is_next = not waits or (waits[0]["action"], waits[0]["round"]) == (
            fact["action"],
            fact["round"],
        )
        over = fact.get("over") or []
        law(is_next or over, "S19", f"{gate.key} lets {fact['action']} in before {waits[:1]}")
        for one in gate.held:
            is_past = one["action"] in over
            law(is_past, "S19", f"{gate.key}: {fact['action']} beside {one['action']}")

    def _asked(self, fact: Json, record: Json) -> Json:
        """The message that a gate decided."""
        cause = record["cause"]
        place = (cause["topic"], cause["partition"], cause["offset"])
        raws = self.log.read(*place, records_max=1)
        data: Json = orjson.loads(raws[0].value)["data"] if raws else {}
        # Where the topic was made anew another message may stand in its place.
        named = (data.get("gate"), data.get("action"), data.get("round"))
        is_it = named == (record["stream"], fact["action"], fact["round"]) and "demand" in data
        return data if is_it else {"ceilings": [], "demand": fact.get("demand")}

    def _within(self, gate: Gate, fact: Json, record: Json, in_force: InForce) -> None:
        """No ceiling is passed, but by a person's word for this action, or because the effect is
        there already. What takes nothing of an amount does not pass it, however much others took.
        """
        action = self.actions[fact["action"]]
        asked = self._asked(fact, record)
        for name in fact.get("over") or ():
            law(action.may_name(name), "S19", f"{gate.key}: {name} is passed, and nobody signed it")
        if fact.get("forced"):
            is_told = action.status in FINAL or action.case in TOLD
            law(is_told, "S19", f"{fact['action']} is forced, and no effect of it is told")
            return
        for name in asked.get("ceilings", ()):
            ceiling = in_force.ceilings.get(name)
            if ceiling is None or name in (fact.get("over") or ()):
                continue
            for dimension, limit in limits_of(ceiling, fact["demand"]).items():
                if not fact["demand"].get(dimension) and dimension not in LAPSING:
                    continue
                taken = gate.taken(dimension)
                if dimension == "wall_clock_ms":
                    taken = record["decided_at"] - gate.state["opened_at"]
                is_used = dimension in LAPSING and dimension not in fact["demand"]
                is_within = taken < limit if is_used else taken <= limit
                if dimension == "wall_clock_ms":
                    is_within = is_within or gate.state["version"] == 1
                law(is_within, "S19", f"{gate.key}: {taken} {dimension} of {limit} by {name}")

    def _refuses(self, gate: Gate, fact: Json, record: Json, in_force: InForce) -> None:
        """A refusal is true: with what was asked for the ceiling would be passed; the look-alike
        asked a short while ago.
        """
        asked = self._asked(fact, record)
        if fact["reason"] == "ceiling_reached" and asked["ceilings"]:
            reached = fact["reached"]
            name, dimension = reached["ceiling"], reached["dimension"]
            limit = limits_of(in_force.ceilings[name], asked["demand"]).get(dimension)
            law(name in asked["ceilings"] and limit is not None, "S19", f"{gate.key}: {reached}")
            assert limit is not None
            taken = gate.taken(dimension)
            if dimension == "wall_clock_ms":
                taken = record["decided_at"] - gate.state["opened_at"]
            wanted = asked["demand"].get(dimension, 0)
            is_passed = taken + wanted > limit if wanted else taken >= limit
            law(
                is_passed, "S19", f"{gate.key} refuses {dimension}: {taken} and {wanted} of {limit}"
            )
            is_told = (reached["taken"], reached["limit"]) == (taken, limit)
            law(is_told, "S19", f"{gate.key} says {reached}, there are {taken} of {limit}")
        elif fact["reason"] == "suspected_duplicate":
            some = (*gate.state["recent"], *gate.state["reservations"])
            known = [one["action"] for one in some]
            law(fact["like"] in known, "S19", f"{fact['action']} looks like {fact['like']}")
            plans = [self._plan_of(one) for one in (fact["action"], fact["like"])]
            law(plans[0] is None or plans[0] != plans[1], "S19", f"{plans[0]} suspects itself")

    def _plan_of(self, key: str) -> tuple[str, str] | None:
        """The business event and the name of the plan that an action is part of, or None."""
        saga = self.actions[key].intent.get("saga") if key in self.actions else None
        return None if saga is None else (key.split(":")[3].partition("#")[0], saga["saga"])

    def _closes(self, key: str, fact: Json) -> None:
        """Nothing comes back that its action still has; what is spent has had its effect."""
        action = self.actions[fact["action"]]
        place = (key, fact["round"])
        known = action.claims.get(place, {"status": "closing"})
        is_over = known["status"] in {"closing", "refused"}
        law(is_over, "S19", f"{key} takes {fact['round']} of {fact['action']}, which has it")
        if fact["spent"]:
            is_forced = action.claims[place].get("forced")
            law(action.has_effect or is_forced, "S19", f"{fact['action']} spends without effect")
        elif "spent" in known and known.get("grant") == fact["grant"]:
            law(not known["spent"], "S19", f"{key} has {fact['action']} back, which is spent")

    # The end

    def _at_the_end(self, book: list[Entry]) -> None:
        """When all is quiet nothing is held for what has ended, everybody knows what everybody has,
        and nobody waits at a gate that nobody holds. What had its effect was given back spent.
        """
        for key, gate in self.gates.items():
            for one in gate.held:
                action = self.actions[one["action"]]
                known = action.claims.get((key, one["round"]), {})
                law(known.get("status") == "granted", "S19", f"{key} holds {one} for nobody")
                is_over = action.status in FINAL and action.case is None
                law(not is_over, "S19", f"{key} holds {one['action']}, which is {action.status}")
        for key, action in self.actions.items():
            for place, one in action.claims.items():
                waits = one["status"] in WAITING
                law(not waits, "S19", f"{key} waits for {place} for ever")
        for entry in book:
            # What came to nothing again may be spent again.
            if entry.effect and not entry.taken_back:
                self._is_counted(entry.action, entry.attempt)

    def _is_counted(self, key: str, attempt: int) -> None:
        """An effect is there: nothing that its attempt held has come back unspent, unless what came
        to light later counts it.
        """
        action = self.actions[key]
        for place, began in self.given_back.get(key, ()):
            of = action.claims.get(place)
            if began < attempt or of is None or not of.get("ceilings"):
                continue
            again = [
                one
                for other, one in action.claims.items()
                if other != place and _same_ceiling(one, of) and one.get("grant") is not None
            ]
            law(again, "S19", f"{key} had its effect, and {place} has it back unspent")


def _same_ceiling(one: Json, other: Json) -> bool:
    return bool(set(one.get("ceilings") or ()) & set(other.get("ceilings") or ()))


def _applies(ceiling: Json, action: Crossed) -> bool:
    match ceiling["per"]:
        case "run":
            return action.intent.get("run") is not None
        case "target":
            return action.request.get("target") is not None
        case "tenant":
            return True
        case _:
            return False


def limits_of(ceiling: Json, demand: Json) -> dict[str, int]:
    """Every limit of a ceiling, with a currency that it does not name at 0."""
    limits = {name: ceiling[name] for name in ("side_effects", *LAPSING) if name in ceiling}
    spend = ceiling.get("spend")
    if spend is not None:
        limits |= {name: 0 for name in demand if name.startswith("spend.")}
        limits |= {f"spend.{currency}": limit for currency, limit in spend.items()}
    return limits


def wanted_of(action: Crossed, in_force: InForce, now: int) -> set[str]:
    """The gates that its row has an action pass, in the windows of now."""
    names = [in_force.ceilings.get(name) for name in action.gates.get("ceilings", ())]
    wanted = {_gate_of(one, action, now) for one in names if one and _applies(one, action)}
    if action.gates.get("target"):
        wanted |= {f"acme/target:{target}" for target in action.targets}
    return wanted


def _gate_of(ceiling: Json, action: Crossed, now: int) -> str:
    if ceiling["per"] == "run":
        return f"acme/run:{action.intent['run']}"
    local = datetime.fromtimestamp(now // 1_000, UTC).astimezone(
        zone_of(ceiling.get("zone", "UTC"))
    )
    window = f"{local:%Y-%m-%d}" if ceiling["window"] == "day" else f"{local:%Y-%m-%dT%H}Z"
    name = f"{ceiling['name']}:{window}"
    return f"acme/window:{name}" + (
        f":{action.request['target']}" if ceiling["per"] == "target" else ""
    )
