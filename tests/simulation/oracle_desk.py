"""The review desk, judged from the log alone: whose word settled a case, that it was this case, and
that nothing could come of an attempt any more of which they said that nothing had.

Written once more from the rules, over the JSON of records, with nothing of the product.
"""

from dataclasses import dataclass
from typing import Any, Final

import orjson

from tests.simulation.catalogue import CLASSES, LAG_MS, SETTLE_MS, SKEW_MS
from tests.simulation.oracle_people import Case, _is_proven
from tests.simulation.signatures import told
from tests.simulation.world import GENERATION

Json = dict[str, Any]
VALID_MS: Final = 600_000
WEIGHTS: Final = (
    "second_effect",
    "returned_too_much",
    "evidence_conflicts",
    "amount_differs",
    "effect_without_attempt",
    "reversed_elsewhere",
    "partly_succeeded",
)
"""What evidence gives a case for, the weightiest first: it shows, in whatever order they came."""
DISPUTED: Final = frozenset(WEIGHTS)
_TELLING: Final = ("evidence.recorded", "attempt.")


def _weight(reason: str) -> int:
    return WEIGHTS.index(reason) if reason in WEIGHTS else len(WEIGHTS)


@dataclass
class OnDesk:
    """Whether an action needs a person, and what one said of it last."""

    opened: int | None = None
    moved: int = 0
    reason: str = ""
    names: str | None = None
    settled: Json | None = None
    settled_at: int = -1
    """The place of the decision in which it was settled."""
    tried_from: int = 0
    """Attempts before the last time that a person had it tried again."""

    def leading(self, reason: str) -> str:
        """Under which reason a case shows once one more has come."""
        if self.opened is None or _weight(reason) <= _weight(self.reason):
            return reason
        return self.reason

    def takes(self, fact: Json) -> None:
        """One fact more, after everything was held against it."""
        kind, version = fact["type"], fact["version"]
        if kind == "review.opened":
            leading = self.leading(fact["reason"])
            if leading == fact["reason"]:
                self.names = fact.get("names")
            self.opened = version if self.opened is None else self.opened
            self.moved, self.reason = version, leading
        elif kind in {"action.completed", "action.superseded"}:
            self.opened = None
        elif kind.startswith(_TELLING):
            self.moved = version

    def says(self, record: Json, *moves: str) -> Json | None:
        """What a person signed in this very decision, if it was one of these moves."""
        here = self.settled is not None and self.settled_at == record["at"]
        return self.settled if here and self.settled and self.settled["move"] in moves else None


@dataclass(frozen=True)
class Settling:
    """A resolution with everything that it is held against."""

    case: Case
    desk: OnDesk
    open_until: tuple[int, ...]
    """Until when the leases of open attempts lasted."""
    is_running: bool
    is_confirmed: bool
    is_final: bool
    blocked: tuple[int, str] | None
    """Since when, and by what, it is blocked."""
    names: str | None

    def judge(self) -> None:
        """Signed by whom it names, about this case as it stood, in time; and a move that is
        safe.
        """
        fact, must = self.case.fact, self.case.must
        is_let = self.desk.opened is None and self.blocked is not None
        shown = self.blocked[0] if is_let and self.blocked else self.desk.opened
        must(shown is not None, "nobody had to settle anything")
        must(fact["case"] == shown, f"another case than {shown}")
        self.allows(self.blocked[1] if is_let and self.blocked else self.names, is_let=is_let)
        said, appended_at = self.said(shown if is_let and shown else self.desk.moved)
        for name in ("move", "reference", "comment", "case", "accepts"):
            must(said.get(name) == fact.get(name), f"signed another {name}")
        must(fact["person"] == said["approver"], "settled by another")
        must((said.get("reference") is not None) is (fact["move"] == "effect_exists"), "reference")
        self.safe(min(said["issued_at"], self.case.now))
        must(appended_at < said["expires_at"], "signed and over")

    def allows(self, names: str | None, *, is_let: bool) -> None:
        """What somebody lets pass is what it is about, and nothing else is asked where there is no
        case.
        """
        fact, must = self.case.fact, self.case.must
        is_allowed = fact["move"] == "allow"
        must(is_allowed or not is_let, f"{fact['move']} of what is only blocked")
        must(fact.get("accepts") == (names if is_allowed else None), f"accepts, of {names}")

    def said(self, moved: int) -> tuple[Json, int]:
        """What was signed, and when it came."""
        case, must = self.case, self.case.must
        cause = case.record["cause"]
        must(cause["topic"] == "approvals", f"caused by {cause}")
        appended_at, value = case.read("approvals", cause["partition"], cause["offset"])
        data = orjson.loads(value)["data"]
        must(data["key"] == case.key and data["signed"] == case.fact["signed"], "another word")
        try:
            key_id, said, proof = told(data["signed"]["jws"])
        except ValueError:
            must(holds=False, why="a forged signature")
            raise
        found = case.in_force.signer(key_id)
        must(found is not None, f"{said['approver']} does not count")
        assert found is not None
        person, key = found
        if proof is not None:
            must(_is_proven(data["signed"]["jws"], key["public"], proof), "a bad signature")
        wanted = {
            "ledger": GENERATION,
            "decision": "resolve",
            "approver": person["name"],
            "tenant": case.tenant,
            "environment": case.intent["request"]["environment"],
            "key": case.key,
            "request_hash": case.intent["request_hash"],
            "moved": moved,
        }
        for name, value_of in wanted.items():
            must(said.get(name) == value_of, f"signed {name} {said.get(name)}, not {value_of}")
        must(case.may_decide(person, []), f"{person['name']} may not settle this")
        must(said["issued_at"] <= appended_at + SKEW_MS, "issued in the future")
        must(said["expires_at"] <= said["issued_at"] + VALID_MS, "good for too long")
        return said, appended_at

    def safe(self, looked_at: int) -> None:
        """The move by itself: what its person saw could not change any more."""
        move, must = self.case.fact["move"], self.case.must
        must((move == "acknowledge") is self.is_final, f"{move} of what is final or not")
        if move in {"no_effect", "try_again"}:
            settle_ms = 0 if CLASSES[self.case.operation] == "none" else LAG_MS + SETTLE_MS
            ends = [until + SKEW_MS + settle_ms for until in self.open_until]
            must(looked_at > max(ends, default=-1), "looked before the end of it")
            must(not self.is_running, "said of what is under way")
            must(not self.is_confirmed, "said against the provider")
        if move in {"try_again", "look_again", "allow"}:
            must(self.desk.reason not in DISPUTED, f"{move} of {self.desk.reason}")
        if move == "look_again":
            must(self.open_until and not self.is_running, "looked again after nothing")
