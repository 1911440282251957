"""S4, judged from the log alone: who was asked, who said what, and what every start rested on.

Written once more from the rules, over the JSON of records and the texts that operators published:
tables and people are read here with nothing of the product, and a statement is read out of the
inbox record that a decision names as its cause.
"""

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tests.simulation.broken import law
from tests.simulation.catalogue import SKEW_MS
from tests.simulation.signatures import _decoded, told
from tests.simulation.world import GENERATION

Json = dict[str, Any]
ReadInput = Callable[[str, int, int], tuple[int, bytes]]
"""Append time and value of an inbox record, by topic, partition and offset."""
FACTS: Final = frozenset(
    {
        "policy.decided",
        "preview.started",
        "preview.failed",
        "preview.recorded",
        "approval.requested",
        "approval.escalated",
        "approval.granted",
        "approval.withdrawn",
        "approval.ended",
    }
)
_LINKS: Final = ("revises", "compensates", "saga")
_NOBODY: Final[tuple[Json, ...]] = ()
_DEFAULT: Final = {"name": "default", "outcome": "people"}
_AUTOMATIC: Final = {"name": "automatic", "outcome": "automatic"}


@lru_cache
def _read_text(text: str) -> Json:
    return tomllib.loads(text)


@dataclass
class InForce:
    """The table, the people and the holds that a partition has adopted."""

    table: tuple[Json, ...] | None = None
    table_hash: str | None = None
    people: tuple[Json, ...] = _NOBODY
    held: list[Json] = field(default_factory=list)
    ceilings: dict[str, Json] = field(default_factory=dict)

    def adopt(self, adopted: Json) -> None:
        """Another text holds from here on."""
        if adopted["kind"] == "policy":
            text = _read_text(adopted["content"])
            self.table = tuple(text["row"])
            self.ceilings = {one["name"]: one for one in text.get("ceiling", ())}
            self.table_hash = adopted["content_hash"]
        elif adopted["kind"] == "people":
            self.people = tuple(_read_text(adopted["content"]).get("person", ()))
        elif adopted["kind"] in {"hold", "release"}:
            scope = orjson.loads(adopted["content"])["scope"]
            self.held = [one for one in self.held if one != scope]
            if adopted["kind"] == "hold":
                self.held.append(scope)

    def holds(self, intent: Json) -> bool:
        """Whether an operator keeps an action from starting."""
        is_of = {
            "provider": intent["provider"],
            "tenant": intent["action"].split(":")[2],
            "operation": intent["request"]["operation"],
        }
        return any(all(is_of[name] == it for name, it in scope.items()) for scope in self.held)

    def row_for(self, operation: str) -> Json:
        """The first row that is for an operation."""
        if self.table is None:
            return _AUTOMATIC
        for row in self.table:
            if operation in row.get("when", {}).get("operation", (operation,)):
                return row
        return _DEFAULT

    def signer(self, key_id: str) -> tuple[Json, Json] | None:
        """Whose key it is, with the key, where both count."""
        for person in self.people:
            for key in person.get("keys", ()):
                if key["id"] == key_id and not person.get("revoked") and not key.get("revoked"):
                    return person, key
        return None


def at_least_asked(row: Json) -> Json:
    """A row as it holds for what revises another action: that never goes ahead by itself."""
    return row | {"outcome": "confirmation"} if row["outcome"] == "automatic" else row


def asks_of(row: Json) -> Json | None:
    """What a row asks of people."""
    if row["outcome"] not in {"confirmation", "people"}:
        return None
    names = ("groups", "escalate_to")
    return {
        "quorum": row.get("quorum", 1),
        "valid_ms": row.get("valid_ms", 600_000),
        "escalate_after_ms": row.get("escalate_after_ms"),
        **{name: list(row.get(name, ())) for name in names},
    }


def gates_of(row: Json) -> Json | None:
    """What a row has actions pass."""
    gates = {"ceilings": row.get("ceilings", []), "target": row.get("block_target", False)}
    return gates if any(gates.values()) else None


@dataclass
class Round:
    """What people were asked once, and what they said."""

    request: Json
    groups: list[str]
    grants: dict[str, Json] = field(default_factory=dict)
    void_until: dict[str, int] = field(default_factory=dict)
    ended: str | None = None

    @property
    def is_met(self) -> bool:
        """Whether enough different people agreed."""
        return self.ended is None and len(self.grants) >= self.request["quorum"]

    @property
    def valid_until(self) -> int:
        """When the first of it is over."""
        ends: list[int] = [one["expires_at"] for one in (self.request, *self.grants.values())]
        return min(ends)


@dataclass
class Asked:
    """How an action stands with people."""

    ruled: Json | None = None
    shown: str | None = None
    question: int | None = None
    """The number of what the provider was asked last and has not said."""
    foreseen_anew: bool | None = None
    """Whether what the provider foresaw was told since the last round; None where it was not asked
    what it foresees.
    """
    rounds: list[Round] = field(default_factory=list)
    moved: set[str] = field(default_factory=set)
    """Nonces under which an executor found that what people saw is no longer so."""
    deadline: int = 0
    people_until: int | None = None

    @property
    def asks(self) -> Json | None:
        """Whose word it needs."""
        return None if self.ruled is None else self.ruled.get("asks")

    @property
    def last(self) -> Round | None:
        """What people were asked last."""
        return self.rounds[-1] if self.rounds else None

    @property
    def is_met(self) -> bool:
        """Whether people agreed, and it is not over."""
        return self.last is not None and self.last.is_met


@dataclass
class Case:
    """One fact about people, with everything that it is held against."""

    key: str
    intent: Json
    asked: Asked
    fact: Json
    record: Json
    in_force: InForce
    read: ReadInput
    status: str
    has_begun: bool
    nonces: set[str]

    @property
    def now(self) -> int:
        """Log time of the decision."""
        at: int = self.record["decided_at"]
        return at

    @property
    def operation(self) -> str:
        """The name of the operation."""
        return self.key.partition(":")[0]

    @property
    def row(self) -> Json:
        """What the table in force says of the action."""
        row = self.in_force.row_for(self.operation)
        return row if self.intent.get("revises") is None else at_least_asked(row)

    @property
    def tenant(self) -> str:
        """The tenant that the key names."""
        return self.key.split(":")[2]

    def must(self, holds: object, why: object) -> None:
        """S4, or the history is broken."""
        if not holds:
            law(holds, "S4", f"{self.key} {self.fact['type']}: {why}")

    def fold(self) -> str:
        """The status after the fact."""
        match self.fact["type"]:
            case "policy.decided":
                return self.ruled()
            case "preview.started":
                self.asked.question = self.fact["preview"]
            case "preview.recorded":
                self.asked.shown = self.fact["preview_hash"]
                acts = self.fact["content"].get("performer")
                self.must(acts == self.intent.get("performer"), f"shown to be done by {acts}")
                is_foreseen = self.fact["content"].get("foreseen") is not None
                is_answer = self.fact["preview"] == self.asked.question
                self.must(is_answer or not is_foreseen, "foreseen, and nobody was asked")
                self.asked.question = None
                self.asked.foreseen_anew = True if is_foreseen else None
            case "approval.requested":
                self.requested()
            case "approval.escalated":
                last = self.alive()
                self.must(self.now >= last.request["escalate_at"], "turned to others too early")
                self.must(self.fact["groups"] == last.request["escalate_to"], "other groups")
                last.groups = [*last.groups, *self.fact["groups"]]
            case "approval.granted":
                return self.granted()
            case "approval.withdrawn":
                return self.withdrawn()
            case "approval.ended":
                return self.ended()
            case _:
                pass
        return self.status

    # The table

    def ruled(self) -> str:
        """The row is that of the table in force; what was asked ends where the row is another."""
        fact, asked = self.fact, self.asked
        row = self.row
        # What another action held back is ruled at its turn, also where it had been sent before.
        may_be = not self.has_begun or self.status == "blocked"
        self.must(may_be, "ruled anew after it began")
        self.must((fact["row"], fact["outcome"]) == (row["name"], row["outcome"]), f"not {row}")
        if self.in_force.table_hash is not None:
            self.must(fact["policy_hash"] == self.in_force.table_hash, "another table")
        self.must(fact.get("gates") == gates_of(row), f"gates {fact.get('gates')}")
        asks, given = asks_of(row), fact.get("asks")
        told_asks = None if given is None else {"escalate_after_ms": None, **given}
        self.must(told_asks == asks, f"asks {given} and not {asks}")
        is_same = asked.ruled is not None and (asked.ruled["row"], asked.asks) == (
            fact["row"],
            given,
        )
        last = asked.last
        self.must(last is None or last.ended or is_same, "another row and the same round")
        asked.ruled = fact
        if "step_deadline_at" in fact:
            asked.deadline = fact["step_deadline_at"]
            asked.people_until = asked.deadline if given else None
        if row["outcome"] == "automatic":
            return "ready"
        stays = self.status in {"ready", "blocked"} and asks and asked.is_met
        return self.status if stays else "awaiting_approval"

    # Asking

    def alive(self) -> Round:
        """What is asked now; somebody must be."""
        last = self.asked.last
        self.must(last is not None and last.ended is None, "nobody is asked")
        assert last is not None
        return last

    def requested(self) -> None:
        """A new nonce for what is shown, under the table that rules it, for whom that asks."""
        fact, asked = self.fact, self.asked
        asks, ruled, last = asked.asks, asked.ruled, asked.last
        self.must(last is None or last.ended, "asked twice at once")
        self.must(fact["nonce"] not in self.nonces, "a nonce again")
        self.nonces.add(fact["nonce"])
        assert asks is not None
        assert ruled is not None
        self.must(fact["preview_hash"] == asked.shown, "another preview than the last")
        self.must(asked.foreseen_anew is not False, "what was foreseen for an earlier round")
        asked.foreseen_anew = None if asked.foreseen_anew is None else False
        self.must(
            (fact["policy_hash"], fact["row"]) == (ruled["policy_hash"], ruled["row"]),
            "another table than ruled it",
        )
        self.must(fact["quorum"] == asks["quorum"], "another quorum")
        self.must(fact["groups"] == asks["groups"], "other groups")
        self.must(fact["expires_at"] == self.now + asks["valid_ms"], "another time")
        asked.rounds.append(Round(fact, list(fact["groups"])))

    # Answering

    def statement(self, decision: str) -> Json:
        """What the input says that caused the fact: signed by whom it names, about exactly what is
        asked now, in time.
        """
        cause = self.record["cause"]
        self.must(cause["topic"] == "approvals", f"caused by {cause}")
        appended_at, value = self.read("approvals", cause["partition"], cause["offset"])
        data = orjson.loads(value)["data"]
        self.must(data["key"] == self.key, "sent for another action")
        self.must(data["signed"] == self.fact["signed"], "another signature than was sent")
        try:
            key_id, said, proof = told(data["signed"]["jws"])
        except ValueError:
            self.must(holds=False, why="a forged signature")
            raise
        found = self.in_force.signer(key_id)
        self.must(found is not None, f"{said['approver']} does not count any more, or never did")
        assert found is not None
        person, key = found
        if proof is not None:
            self.must(_is_proven(data["signed"]["jws"], key["public"], proof), "a bad signature")
        last = self.alive()
        wanted = {
            "ledger": GENERATION,
            "decision": decision,
            "approver": person["name"],
            "tenant": self.tenant,
            "environment": self.intent["request"]["environment"],
            "key": self.key,
            "request_hash": self.intent["request_hash"],
            "preview_hash": last.request["preview_hash"],
            "policy_hash": last.request["policy_hash"],
            "row": last.request["row"],
            "nonce": last.request["nonce"],
        }
        for name, value_of in wanted.items():
            self.must(said.get(name) == value_of, f"signed {name} {said.get(name)}")
        self.must(said["expires_at"] <= last.request["expires_at"], "longer than asked for")
        self.must(appended_at < said["expires_at"], "said when it was over")
        self.must(said["issued_at"] <= appended_at + SKEW_MS, "issued in the future")
        self.must(self.may_decide(person, last.groups), f"{person['name']} may not decide this")
        void = last.void_until.get(person["name"], -1)
        self.must(decision == "deny" or said["issued_at"] > void, "a copy from before a withdrawal")
        return said | {"appended_at": appended_at, "key_id": key_id}

    def may_decide(self, person: Json, groups: list[str]) -> bool:
        """For the tenant, in a group, and neither who asks nor for whom."""
        asks_for = {self.intent["request"]["principal"], *self.intent.get("behalf", ())}
        names = {person["name"], *person.get("principals", ())}
        tenants = person["tenants"]
        is_for = "*" in tenants or self.tenant in tenants
        is_in = not groups or bool(set(groups) & set(person.get("groups", ())))
        return is_for and is_in and not names & asks_for

    def granted(self) -> str:
        """A yes counts once for each person."""
        said, last = self.statement("approve"), self.alive()
        self.must(said["approver"] not in last.grants, "a person counts twice")
        self.must(not last.is_met, "more than were asked for")
        self.must(self.fact["person"] == said["approver"], "granted by another")
        self.must(self.fact["expires_at"] == said["expires_at"], "another end than was signed")
        last.grants[said["approver"]] = said | {"signed": self.fact["signed"]}
        if not last.is_met:
            return self.status
        self.asked.deadline = self.fact.get("step_deadline_at", self.asked.deadline)
        return "ready"

    def withdrawn(self) -> str:
        """A yes is taken back by who gave it, and everything else of theirs from before."""
        said, last = self.statement("withdraw"), self.alive()
        self.must(said["approver"] in last.grants, "nothing to take back")
        del last.grants[said["approver"]]
        last.void_until[said["approver"]] = said["appended_at"] + SKEW_MS
        return self.waits()

    def ended(self) -> str:
        """Why it is over is true."""
        fact, last = self.fact, self.alive()
        row = self.row
        ruled = self.asked.ruled
        assert ruled is not None
        match fact["reason"]:
            case "expired":
                self.must(self.now >= last.valid_until, "expired too early")
            case "policy_changed":
                is_same = (ruled["row"], ruled["outcome"]) == (row["name"], row["outcome"])
                self.must(not is_same, "the row is the same")
            case "signer_revoked":
                self.must(not all(self.count(last)), "everybody still counts")
            case "volatile_changed":
                # Beside an earlier action it is what became of that.
                is_linked = any(self.intent.get(name) for name in _LINKS)
                self.must(fact.get("changes") or is_linked, "nothing changed")
            case _:
                self.must(holds=False, why="no such reason")
        last.ended = fact["reason"]
        return self.waits()

    def waits(self) -> str:
        """Back to people, as long as it may wait for them."""
        asked = self.asked
        if self.status in {"ready", "blocked"}:
            asked.deadline = asked.people_until or asked.deadline
        return "awaiting_approval"

    def count(self, last: Round) -> Iterator[bool]:
        """Of each who agreed, whether they still count."""
        for name, said in last.grants.items():
            found = self.in_force.signer(said["key_id"])
            is_same = found is not None and found[0]["name"] == name
            yield is_same and found is not None and self.may_decide(found[0], last.groups)

    # Starting

    def start(self) -> None:
        """Every start rests on what the table asks, said by enough people who still count, in time,
        about what was shown.
        """
        asked, given = self.asked, self.fact.get("approval")
        law(not self.in_force.holds(self.intent), "hold", f"{self.key} is held and started")
        row = self.row
        if not self.has_begun:
            self.must(row["outcome"] != "deny", "the table refuses it")
            given_asks = None if asked.asks is None else {"escalate_after_ms": None, **asked.asks}
            assert asked.ruled is not None
            is_ruled = (asked.ruled["row"], given_asks) == (row["name"], asks_of(row))
            self.must(is_ruled, f"ruled by a table of another time, {asked.ruled['row']}")
        self.must(self.now < asked.deadline, "after its deadline")
        if asked.asks is None:
            self.must(given is None, "a word that nobody asked for")
            return
        self.must(given is not None, "on nobody's word")
        last = self.alive()
        assert given is not None
        self.must(last.is_met, f"only {sorted(last.grants)} agreed")
        self.must(self.now < last.valid_until, f"over since {self.now - last.valid_until} ms")
        self.must(all(self.count(last)), "somebody does not count any more")
        self.must(given["nonce"] == last.request["nonce"], "another nonce")
        self.must(given["nonce"] not in asked.moved, "what people saw is no longer so")
        self.must(given["preview_hash"] == asked.shown == last.request["preview_hash"], "preview")
        proofs = [said["signed"] for said in last.grants.values()]
        self.must(given["signed"] == proofs, "other signatures than were counted")


def _is_proven(jws: str, public: str, proof: bytes) -> bool:
    body = jws.rpartition(".")[0].encode()
    try:
        Ed25519PublicKey.from_public_bytes(_decoded(public)).verify(proof, body)
    except InvalidSignature:
        return False
    return True
