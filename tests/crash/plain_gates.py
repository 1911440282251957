"""What actions claim of gates, and what gates hold, once more: plain and slow, over JSON.

Written from the rules and not from the product. `claim` folds a fact of an action into its state,
`Gates` folds the facts of gates and says what no rule allows: a number given twice, a reservation
given back twice, more held than facts account for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.crash.evidence import Json

RECENT_KEPT = 64
ADDED_UP_ALWAYS, ADDED_UP_EVERY = 16, 64
RESEND_MS, RESEND_MS_MAX = 5_000, 300_000
CLAIMS = frozenset({"gate.asked", "gate.answered", "gate.kept", "gate.closing", "gate.closed"})
WAITS = frozenset({"asked", "queued"})


# --- an action's side ----------------------------------------------------------------------------


def awaits(state: Json) -> bool:
    """Whether a gate has yet to grant what the action needs to start."""
    return any(one["status"] in WAITS and not one["forced"] for one in state["claims"])


def claim(state: Json, fact: Json, now: int) -> str | None:
    """Fold what an action asks of a gate or hears from it; what is wrong with it, or None."""
    named = [one for one in state["claims"] if _is_of(one, fact)]
    match fact["type"]:
        case "gate.asked":
            return _asked(state, fact, now, named)
        case "gate.answered" if named and named[0]["status"] in WAITS:
            _answered(state, fact, named[0])
        case "gate.kept" if named and named[0]["status"] == "granted" and _same(named[0], fact):
            named[0]["kept"] = True
        case "gate.closing" if named and named[0]["status"] != "closed" and _same(named[0], fact):
            _closing(state, fact, now, named[0])
            _go_on(state, fact)
        case "gate.closed" if named and named[0]["status"] == "closing":
            state["claims"] = [one for one in state["claims"] if one is not named[0]]
        case kind:
            return f"{kind} of {fact['gate']} in round {fact['round']} meets {named}"
    return None


def _is_of(one: Json, fact: Json) -> bool:
    return (one["gate"], one["round"]) == (fact["gate"], fact["round"])


def objection_to_start(state: Json) -> str | None:
    """Why an action may not start yet, as far as its own claims say it."""
    if awaits(state):
        return "starts while a gate owes it an answer"
    target, tenant = state["request"].get("target"), state["key"].split(":")[2]
    if target is None or not state.get("gates", {}).get("target"):
        return None
    granted = {one["gate"] for one in state["claims"] if one["status"] == "granted"}
    return None if f"{tenant}/target:{target}" in granted else f"starts and does not hold {target}"


def _same(one: Json, fact: Json) -> bool:
    return bool(one.get("grant") == fact.get("grant"))


def _closing(state: Json, fact: Json, now: int, named: Json) -> None:
    """What the gate was told is kept waits for it to hear; of the rest what is spent stays."""
    if named["kept"]:
        named.update(status="closing", spent=fact["spent"], sent_at=now, sends=fact["sends"])
        return
    rest = [one for one in state["claims"] if one is not named]
    if fact["spent"]:
        over = {"gate": fact["gate"], "round": fact["round"], "grant": named["grant"]}
        over |= {"status": "closed", "spent": True, "demand": {}, "ceilings": [], "over": []}
        over |= {"forced": False, "kept": False, "sent_at": 0, "sends": 1}
        rest = [over if one is named else one for one in state["claims"]]
    state["claims"] = rest


def _asked(state: Json, fact: Json, now: int, named: list[Json]) -> str | None:
    is_forced = bool(fact.get("forced"))
    asked: Json = {
        "gate": fact["gate"],
        "round": fact["round"],
        "status": "asked",
        "demand": fact["demand"],
        "ceilings": fact.get("ceilings", []),
        "over": fact.get("over", []),
        "forced": is_forced,
        "spent": False,
        "kept": False,
        "sent_at": now,
        "sends": fact["sends"],
        **({"identity": fact["identity"]} if "identity" in fact else {}),
    }
    if named:
        was = named[0]["status"]
        state["claims"] = [asked if one is named[0] else one for one in state["claims"]]
        return None if was in WAITS else f"{fact['gate']} is asked again while {was}"
    state["claims"] = [*state["claims"], asked]
    if not is_forced:
        state["status"] = "blocked"
        state.pop("wait_until", None)
        if "wait_until" in fact:
            state["wait_until"] = fact["wait_until"]
    if fact["round"] != fact["version"] or fact["sends"] != 1:
        return f"{fact['gate']} is asked in round {fact['round']}, version {fact['version']}"
    return None


def _answered(state: Json, fact: Json, named: Json) -> None:
    if fact["outcome"] == "refused":
        state["claims"] = [one for one in state["claims"] if one is not named]
        return
    named["status"] = fact["outcome"]
    named.pop("behind", None)
    if fact["outcome"] == "granted":
        named["grant"] = fact["grant"]
    else:
        named["behind"] = fact["behind"]
    _go_on(state, fact)


def _go_on(state: Json, fact: Json) -> None:
    """With the last gate that owed an answer the action may go ahead."""
    if state["status"] == "blocked" and "blocked" not in state and not awaits(state):
        state["status"] = "ready"
        state.pop("wait_until", None)
        if "step_deadline_at" in fact:
            state["step_deadline_at"] = fact["step_deadline_at"]


# --- a gate's side -------------------------------------------------------------------------------


@dataclass(slots=True)
class Gate:
    """One gate: the state that projections are to have, and its accounts, kept apart from it."""

    key: str
    state: Json
    given: dict[str, int] = field(default_factory=dict)
    back: dict[str, int] = field(default_factory=dict)
    spent: dict[str, int] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    most: dict[str, int] = field(default_factory=dict)
    """The most that it ever had out, as far as no person let anything pass."""
    out: dict[str, int] = field(default_factory=dict)
    """What its reservations hold: added up anew in every step of a small gate, and in some of a
    large one.
    """
    known: dict[tuple[str, int], Json] = field(default_factory=dict)
    """Its reservations by action and round."""

    @property
    def kind(self) -> str:
        """`run`, `window` or `target`."""
        return self.key.partition("/")[2].partition(":")[0]

    @property
    def held(self) -> list[Json]:
        """What is granted and not given back."""
        return [one for one in self.state["reservations"] if "grant" in one]

    @property
    def queue(self) -> list[Json]:
        """Who waits, who came first first."""
        return [one for one in self.state["reservations"] if "grant" not in one]

    def reservation(self, action: str, round_: int) -> Json | None:
        """What it holds for an action of a round, or None."""
        return self.known.get((action, round_))

    def taken(self, dimension: str) -> int:
        """What is used or reserved of a dimension, from its state."""
        used: int = self.state["used"].get(dimension, 0)
        return used + self.out.get(dimension, 0)

    def fold(self, fact: Json, now: int) -> Iterator[str]:
        """One fact; yields what is wrong with it."""
        if fact["version"] != self.state["version"] + 1:
            yield f"has version {fact['version']} behind {self.state['version']}"
        self.state["version"] = fact["version"]
        yield from self._take(fact, now)
        yield from self._accounts()

    def _take(self, fact: Json, now: int) -> Iterator[str]:
        match fact["type"]:
            case "reservation.granted":
                yield from self._granted(fact, now)
            case "reservation.queued":
                if self.reservation(fact["action"], fact["round"]) is not None:
                    yield f"{fact['action']} queues twice"
                waits = _reserved(fact, now)
                self.state["reservations"].append(waits)
                self.known[fact["action"], fact["round"]] = waits
            case "reservation.refused":
                if self.reservation(fact["action"], fact["round"]) is not None:
                    yield f"{fact['action']} is refused what it has"
            case "reservation.kept" | "reservation.sent_again":
                held = self.reservation(fact["action"], fact["round"])
                if held is None or held.get("grant") != fact["grant"] or held["kept"]:
                    yield f"{fact['type']} of {fact['action']}, which waits for nothing"
                elif fact["type"] == "reservation.kept":
                    held["kept"] = True
                else:
                    held.update(sends=fact["sends"], sent_at=now)
            case "reservation.closed":
                yield from self._closed(fact, now)
            case "step.reported":
                yield from self._stepped(fact)
            case kind:
                yield f"no fact is called {kind}"

    def _granted(self, fact: Json, now: int) -> Iterator[str]:
        if fact["grant"] != self.state["next_grant"]:
            yield f"gives the number {fact['grant']} and not {self.state['next_grant']}"
        self.state["next_grant"] = fact["grant"] + 1
        waits = self.reservation(fact["action"], fact["round"])
        granted = {**_reserved(fact, now), "grant": fact["grant"], "granted_at": now}
        granted |= {"sent_at": now} | {name: fact[name] for name in _PASSES if name in fact}
        granted |= {name: waits[name] for name in ("version", "asked_at") if waits is not None}
        reservations = self.state["reservations"]
        if waits is not None and "grant" in waits:
            yield f"grants {fact['action']} a second time"
        else:
            if waits is None:
                reservations.append(granted)
            else:
                reservations[:] = [granted if one is waits else one for one in reservations]
            self.known[fact["action"], fact["round"]] = granted
            _add(self.out, granted["demand"])
        _add(self.given, fact["demand"])
        if not any(name in fact for name in _PASSES):
            if self.kind == "target":
                others = [one["action"] for one in self.held if one["grant"] != fact["grant"]]
                if others:
                    yield f"is held by {fact['action']} beside {others}"
            for name in fact["demand"]:
                self.most[name] = max(self.most.get(name, 0), self.taken(name))
        if "identity" in fact:
            passed = {"action": fact["action"], "at": now, "identity": fact["identity"]}
            self.state["recent"] = [*self.state["recent"], passed][-RECENT_KEPT:]

    def _closed(self, fact: Json, now: int) -> Iterator[str]:
        held = self.reservation(fact["action"], fact["round"])
        if held is None or held.get("grant") != fact.get("grant"):
            yield f"takes back {fact.get('grant')} of {fact['action']}, which it has not given"
            return
        reservations = self.state["reservations"]
        reservations[:] = [one for one in reservations if one is not held]
        del self.known[fact["action"], fact["round"]]
        if "grant" in held:
            _add(self.out, {name: -amount for name, amount in held["demand"].items()})
            if held["grant"] in self.closed:
                yield f"takes back {held['grant']} twice"
            self.closed.add(held["grant"])
            _add(self.spent if fact["spent"] else self.back, held["demand"])
        elif fact["spent"]:
            yield f"{fact['action']} has spent what it was not given"
        here = (held["action"], held.get("granted_at"))
        if fact["spent"]:
            _add(self.state["used"], held["demand"])
            for one in self.state["recent"]:
                if (one["action"], one["at"]) == here:
                    one["settled_at"] = now
        else:
            self.state["recent"] = [
                one for one in self.state["recent"] if (one["action"], one["at"]) != here
            ]

    def _stepped(self, fact: Json) -> Iterator[str]:
        reporters = self.state["reporters"]
        known = next((one for one in reporters if one["name"] == fact["reporter"]), None)
        if known is not None and fact["step"] <= known["step"]:
            yield f"counts step {fact['step']} of {fact['reporter']} behind {known['step']}"
        if known is not None and fact["principal"] != known["principal"]:
            yield f"counts a step of {fact['principal']} as one of {known['principal']}"
        others = [one for one in reporters if one["name"] != fact["reporter"]]
        now = {"name": fact["reporter"], "principal": fact["principal"], "step": fact["step"]}
        self.state["reporters"] = [*others, now]
        _add(self.state["used"], fact["amounts"])
        _add(self.given, fact["amounts"])
        _add(self.spent, fact["amounts"])

    def _accounts(self) -> Iterator[str]:
        """Conservation: what was given is used, was given back, or is held."""
        held = self.state["reservations"]
        if len(held) <= ADDED_UP_ALWAYS or self.state["version"] % ADDED_UP_EVERY == 0:
            for name, amount in self.out.items():
                sums = sum(one["demand"].get(name, 0) for one in held if "grant" in one)
                if amount != sums:
                    yield f"has {amount} {name} out, its reservations hold {sums}"
        for dimension, given in self.given.items():
            rest = given - self.back.get(dimension, 0)
            if self.taken(dimension) != rest:
                yield f"has {self.taken(dimension)} {dimension} taken, its facts say {rest}"
            if self.state["used"].get(dimension, 0) != self.spent.get(dimension, 0):
                yield f"has used {self.state['used']}, its facts say {self.spent}"


_PASSES = ("over", "forced")


def _reserved(fact: Json, now: int) -> Json:
    return {
        "version": fact["version"],
        "asked_at": now,
        "action": fact["action"],
        "round": fact["round"],
        "demand": fact["demand"],
        **({"identity": fact["identity"]} if "identity" in fact else {}),
        "kept": False,
        "sent_at": 0,
        "sends": 1,
    }


def _add(account: dict[str, int], amounts: Json) -> None:
    for name, amount in amounts.items():
        account[name] = account.get(name, 0) + amount


def opened(key: str, now: int) -> Gate:
    """A gate before its first fact."""
    state: Json = {
        "version": 0,
        "opened_at": now,
        "used": {},
        "reservations": [],
        "next_grant": 1,
        "recent": [],
        "reporters": [],
    }
    return Gate(key, state)
