"""The core among people: Hypothesis looks for an order of proposals, words, tables, documents of
people and times in which the ledger says something else than a plain model, or starts what people
did not agree to.

The model is a dictionary (`tests.model.plain_people`). After every step S4, S5, S6, S7, S17 and
what must be true of an approval are held against it.
"""

from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from ledger.core import inputs as i
from ledger.core.config import Config
from ledger.core.decide import Decided, decide
from ledger.core.decide.schedule import due_at
from ledger.core.evolve import Place, evolve
from ledger.core.people import People
from ledger.core.policy import Outcome
from ledger.core.preview import Change
from ledger.core.state import OPEN, Action, Stream
from ledger.core.statement import Say, SignedByKey, Statement
from tests.crash.plain_table import MAY_FOLLOW
from tests.examples import (
    CHARGE,
    EMAIL,
    PAYOUT,
    SKEW_MS,
    STREAM,
    T0,
    cancel,
    decline,
    no_answer,
    offer,
    propose,
    refusal,
    report,
    tick,
)
from tests.examples_of_people import (
    ADA,
    BEN,
    CLEO,
    DAN,
    EVE,
    GENERATION,
    KEYS_OF,
    ask_again,
    foresees,
    people,
    table,
    under,
)
from tests.model import plain_people as plain

KEYS: Final = (CHARGE, EMAIL)
_SLOW: Final[dict[str, Any]] = {"escalate_after_ms": 20_000, "escalate_to": ("managers",)}
TABLES: Final = (
    table(),
    table(version=2),
    table("pair", quorum=2, **_SLOW),
    table("open", Outcome.CONFIRMATION, groups=(), valid_ms=5_000),
    table("free", Outcome.AUTOMATIC),
    table("never", Outcome.DENY),
)
DOCUMENTS: Final = (
    people(ADA, BEN, CLEO, DAN, EVE),
    people(ADA.model_copy(update={"revoked": True}), BEN, CLEO, DAN, EVE),
    people(ADA, BEN.model_copy(update={"groups": ("sales",)}), CLEO, DAN, EVE),
    people(CLEO, DAN, EVE),
    people(ADA, BEN, CLEO, DAN.model_copy(update={"tenants": ("*",)}), EVE),
)
DECLARED: Final[dict[str, dict[str, object]]] = {
    "all": {},
    "nobody": {"principals": ("service:*",)},
    "no_such_amount": {"amount_multiple_of": {"EUR": 1_000}},
}
"""How the catalogue may declare every operation: what it takes, and from whom."""
REFUSES: Final = {"all": (), "nobody": KEYS, "no_such_amount": (CHARGE,)}
"""What would be refused if it were asked for under each."""
NAMES: Final = ("ada", "ben", "ben", "cleo", "dan", "eve", "zoe")
WRONG: Final[tuple[plain.Json, ...]] = (
    *(({},) * 20),
    {"ledger": "generation-0"},
    {"tenant": "globex"},
    {"environment": "test"},
    {"request_hash": "sha256:other"},
    {"policy_hash": "sha256:other"},
    {"row": "other"},
    {"preview_hash": None},
    {"key": PAYOUT},
    {"nonce": "nonce-0"},
)
"""What somebody may have changed in what is signed; nothing, more often than not."""
WAITING: Final = ("awaiting_approval", "ready")
OFFERABLE: Final = ("awaiting_approval", "ready", "unknown")
PROOF: Final = SignedByKey(jws="proven elsewhere")
MOVED: Final = (Change(name="balance", was="10000", now="3"),)


def by_key(registered: People) -> dict[str, plain.Json]:
    """The people by the keys of theirs that count."""
    return {
        key.id: person.model_dump()
        for person in registered.people
        for key in person.keys
        if not person.revoked and not key.revoked
    }


class Machine(RuleBasedStateMachine):
    """One stream, two actions, and everybody who may say something about them."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = Stream(STREAM)
        self.now, self.offset, self.holders = T0, 0, 0
        self.table, self.document, self.source = 0, 0, "request"
        self.declared = "all"
        self.model: dict[str, plain.Json] = {}
        self.finals: dict[str, str] = {}
        self.nonces: list[str] = []
        self.requests: list[tuple[str, plain.Json]] = []
        self.words: list[tuple[str, plain.Json, str]] = []

    # Telling the ledger

    @property
    def config(self) -> Config:
        """What is in force."""
        declared = DECLARED[self.declared] | {"preview": self.source}
        return under(TABLES[self.table], DOCUMENTS[self.document], **declared)

    def tell(self, said: i.Decidable, *, capacity: bool = False) -> Decided:
        """Decide and fold one input, in the product and in the model; with capacity for what the
        input is about, or for what is ready.
        """
        at_hand = None
        if capacity:
            self.holders += 1
            at, holder = self.now - T0, f"executor-{self.holders}"
            key = CHARGE if isinstance(said, i.Tick) else getattr(said, "key", CHARGE)
            if isinstance(said, i.Tick):
                may = [one for one, known in self.model.items() if known["status"] in OFFERABLE]
                key = may[self.holders % len(may)] if may else CHARGE
            at_hand = offer(at=at, until=at, key=key, incarnation=holder)
        place = Place(self.offset, self.now)
        outcome = decide(self.stream, self.config, said, place, at_hand)
        for fact in outcome.facts:
            self.takes(fact.model_dump(mode="json", exclude_none=True))
            self.stream = evolve(self.stream, fact, place)
            self.model[fact.action]["status"] = str(self.action(fact.action).status)
        self.offset += 1
        return outcome

    def takes(self, fact: plain.Json) -> None:
        """S6, S7, S17, S4: what must be true when a fact comes."""
        key, kind = fact["action"], fact["type"]
        if kind == "intent.recorded":
            assert key not in self.model
            self.model[key] = plain.new(fact)
            return
        action = self.model[key]
        assert kind in MAY_FOLLOW[action["status"]], f"{kind} while {action['status']}"
        assert fact["version"] == action["version"] + 1
        if kind == "attempt.started":
            assert not action["running"]
            assert fact["attempt"] == len(action["tokens"]) + 1
            assert fact["fencing_token"] > max(action["tokens"], default=0)
            wrong = plain.wrong_with_start(action, fact, self.row(), self.registered(), self.now)
            assert wrong is None, wrong
            assert plain.begun(action) or key not in REFUSES[self.declared]
        if kind == "approval.requested":
            assert fact["nonce"] not in self.nonces
            assert fact["preview_hash"] == action["shown"]
            assert action["round"] is None or action["round"]["ended"]
            self.nonces.append(fact["nonce"])
            self.requests.append((key, fact))
        plain.fold(action, fact)

    def row(self) -> plain.Json:
        """The one row of the table in force."""
        (row,) = TABLES[self.table].rows
        asks = None if row.asks is None else row.asks.model_dump(mode="json", exclude_none=True)
        return {"name": row.name, "outcome": row.outcome.value, "asks": asks}

    def registered(self) -> dict[str, plain.Json]:
        """Who counts now, by key."""
        return by_key(DOCUMENTS[self.document])

    def action(self, key: str) -> Action:
        """The action as the ledger knows it."""
        action = self.stream.action(key)
        assert action is not None
        return action

    # Callers

    @initialize(number=st.sampled_from((0, 0, 2, 2, 3, 4)), key=st.sampled_from(KEYS))
    def begins(self, number: int, key: str) -> None:
        """There is a table, and something to be asked about."""
        self.table = number
        self.tell(propose(key))

    @rule(key=st.sampled_from(KEYS), ready=st.booleans())
    def proposes(self, key: str, *, ready: bool) -> None:
        """An agent asks, for the first time or again: what is known is answered for ever."""
        is_refused = key not in self.model and key in REFUSES[self.declared]
        outcome = self.tell(propose(key), capacity=ready)
        assert (outcome.refused is not None) is is_refused
        assert is_refused or outcome.facts or outcome.unchanged is not None

    @rule(key=st.sampled_from(KEYS))
    def cancels(self, key: str) -> None:
        """An agent takes it back."""
        self.tell(cancel(key))

    @rule(key=st.sampled_from(KEYS))
    def asks_again(self, key: str) -> None:
        """Somebody asks once more: while a request is alive it is that one."""
        known = self.model.get(key)
        asked = None if known is None else known["round"]
        alive = asked is not None and asked["ended"] is None and self.now < asked["expires_at"]
        outcome = self.tell(ask_again(key))
        assert not (alive and outcome.facts)

    # People

    @precondition(lambda self: self.alive())
    @rule(
        data=st.data(),
        name=st.sampled_from(("ada", "ben", "ben", "cleo")),
        capacity=st.sampled_from((True, False, False)),
    )
    def agrees(self, data: st.DataObject, name: str, *, capacity: bool) -> None:
        """Somebody signs exactly what is asked now."""
        key, asked = data.draw(st.sampled_from(self.alive()))
        said = self.statement(
            key, asked, Say.APPROVE, name, issued_at=self.now, expires_at=asked["expires_at"]
        )
        self.words.append((key, said, name))
        self.hears(key, said, name, self.now, capacity=capacity)

    @precondition(lambda self: any(known["round"]["yes"] for known in self.asked()))
    @rule(data=st.data())
    def takes_back(self, data: st.DataObject) -> None:
        """Somebody who agreed does not any more."""
        known = data.draw(st.sampled_from([one for one in self.asked() if one["round"]["yes"]]))
        asked = known["round"]
        name = data.draw(st.sampled_from(sorted(asked["yes"])))
        times = {"issued_at": self.now, "expires_at": asked["expires_at"]}
        said = self.statement(known["key"], asked, Say.WITHDRAW, name, **times)
        self.words.append((known["key"], said, name))
        self.hears(known["key"], said, name, self.now, capacity=False)

    def asked(self) -> list[plain.Json]:
        """Actions about which people were asked."""
        return [known for known in self.model.values() if known["round"] is not None]

    def alive(self) -> list[tuple[str, plain.Json]]:
        """Requests that nobody has ended."""
        return [(one["key"], one["round"]) for one in self.asked() if not one["round"]["ended"]]

    @precondition(lambda self: self.requests)
    @rule(
        data=st.data(),
        name=st.sampled_from(NAMES),
        says=st.sampled_from((Say.APPROVE, Say.APPROVE, Say.APPROVE, Say.DENY, Say.WITHDRAW)),
        wrong=st.sampled_from(WRONG),
        ago=st.sampled_from((0, 0, 0, 1, 3_000)),
        capacity=st.booleans(),
    )
    def says(
        self,
        data: st.DataObject,
        name: str,
        says: Say,
        wrong: plain.Json,
        ago: int,
        *,
        capacity: bool,
    ) -> None:
        """Somebody signs about a request, mostly the last; and the ledger says what it is worth."""
        newest = len(self.requests) - 1
        key, asked = self.requests[data.draw(st.sampled_from((newest, newest, *range(newest))))]
        at = max(T0, self.now - ago)
        until = asked["expires_at"] + data.draw(st.sampled_from((0, 0, 0, 0, 1, -2_000)))
        said = self.statement(key, asked, says, name, issued_at=at, expires_at=until) | wrong
        self.words.append((key, said, name))
        self.hears(key, said, name, at, capacity=capacity)

    @precondition(lambda self: self.words)
    @rule(data=st.data(), capacity=st.booleans())
    def comes_again(self, data: st.DataObject, *, capacity: bool) -> None:
        """Whoever has the bytes of a word sends them once more."""
        key, said, name = data.draw(st.sampled_from(self.words[-4:]))
        self.hears(key, said, name, self.now, capacity=capacity)

    def statement(
        self,
        key: str,
        asked: plain.Json,
        says: Say,
        name: str,
        **when: Any,  # noqa: ANN401
    ) -> plain.Json:
        """What is signed about a request."""
        names = ("nonce", "policy_hash", "row", "preview_hash")
        return {
            "ledger": GENERATION,
            "decision": says,
            "approver": name,
            "tenant": "acme",
            "environment": "live",
            "key": key,
            "request_hash": self.model[key]["hash"],
            **{one: asked[one] for one in names},
            **when,
        }

    def hears(self, key: str, said: plain.Json, name: str, at: int, *, capacity: bool) -> None:
        """The ledger answers as the model foretells."""
        key_id = KEYS_OF[name].id
        who = self.registered().get(key_id)
        expected = plain.worth(self.model.get(key), said, who, at, SKEW_MS)
        statement = Statement.model_validate(said)
        word = i.Judged(key, PROOF, at, GENERATION, statement, key_id)
        outcome = self.tell(word, capacity=capacity)
        match outcome:
            case Decided(refused=refused) if refused is not None:
                assert refused.code.value == expected
            case Decided(unchanged=unchanged) if unchanged is not None:
                assert unchanged.reason == expected
            case _:
                assert outcome.facts[0].type == expected
                extra = {fact.type for fact in outcome.facts[1:]}
                assert extra <= {"attempt.started"}

    # Configuration

    @rule(number=st.integers(0, len(TABLES) - 1), capacity=st.booleans())
    def adopts_a_table(self, number: int, *, capacity: bool) -> None:
        """Another decision table, and the tick that its adoption makes due."""
        self.table = number
        self.tell(tick(), capacity=capacity)

    @rule(number=st.integers(0, len(DOCUMENTS) - 1), capacity=st.sampled_from((True, True, False)))
    def adopts_people(self, number: int, *, capacity: bool) -> None:
        """Somebody is revoked, moves to another group, or may decide again."""
        self.document = number
        self.tell(tick(), capacity=capacity)

    @rule(source=st.sampled_from(("request", "provider")))
    def declares_the_preview(self, source: str) -> None:
        """The catalogue says who foresees."""
        self.source = source

    @rule(
        declared=st.sampled_from(("all", "all", "all", "nobody", "no_such_amount")),
        capacity=st.booleans(),
    )
    def declares_who_may_ask_for_what(self, declared: str, *, capacity: bool) -> None:
        """Another catalogue, and the tick that its adoption makes due: what it refuses and has not
        begun is over.
        """
        self.declared = declared
        self.tell(tick(), capacity=capacity)
        for key in REFUSES[declared]:
            known = self.model.get(key)
            assert known is None or plain.begun(known) or known["status"] not in WAITING

    # Time

    @rule(ahead=st.sampled_from((400, 25_000, 120_000)))
    def time_passes(self, ahead: int) -> None:
        """Nobody notices: the owner of the partition is away."""
        self.now += ahead

    @rule(ahead=st.sampled_from((0, 400, 120_000)))
    def capacity_comes(self, ahead: int) -> None:
        """A tick with capacity at hand."""
        self.now += ahead
        self.tell(tick(), capacity=True)

    @rule(early=st.sampled_from((0, 0, 1)), capacity=st.booleans())
    def time_comes(self, early: int, *, capacity: bool) -> None:
        """A tick when something is due, or a millisecond before."""
        dues = [
            due
            for action in self.stream.actions
            if not action.is_final
            and (due := due_at(action, self.now, skew_ms=SKEW_MS)) is not None
        ]
        if dues:
            self.now = max(self.now, min(dues) - early)
            self.tell(tick(), capacity=capacity)

    # Executors and providers

    def running(self) -> list[Action]:
        """Actions with a start under way."""
        return [action for action in self.stream.actions if action.running is not None]

    @precondition(lambda self: self.running())
    @rule(data=st.data(), how=st.sampled_from(("decline", "moved", "moved", "refusal", "nothing")))
    def holder_says(self, data: st.DataObject, how: str) -> None:
        """A holder gives its start back, finds that something moved, or tells what came of it."""
        action = data.draw(st.sampled_from(self.running()))
        attempt = action.running
        assert attempt is not None
        key, number, holder = action.key, attempt.number, attempt.holder
        back = decline(key=key, attempt=number, holder=holder)
        match how:
            case "decline":
                self.tell(back)
            case "moved":
                self.moves(action, back.model_copy(update={"changes": MOVED}))
            case "refusal":
                self.tell(report(refusal(), key=key, attempt=number, holder=holder))
            case _:
                self.tell(report(no_answer(), key=key, attempt=number, holder=holder))

    def moves(self, before: Action, back: i.Decline) -> None:
        """What people saw is no longer so: what they granted is over, unless an attempt is open."""
        model = self.model[before.key]
        nonce = None if model["round"] is None else model["round"]["nonce"]
        is_only = all(one.status not in OPEN for one in before.attempts[:-1])
        self.tell(back)
        asked = model["round"]
        if model["asks"] is not None and asked is not None and is_only:
            assert asked["nonce"] != nonce or asked["ended"]

    @rule(key=st.sampled_from(KEYS), fails=st.booleans(), number=st.integers(0, 1))
    def provider_foresees(self, key: str, number: int, *, fails: bool) -> None:
        """The provider says what would happen, or that it cannot; also of an earlier question."""
        known = self.stream.action(key)
        dry = None if known is None else known.dry
        said = foresees((dry.number if dry else 1) - number, key=key)
        self.tell(said.model_copy(update={"foreseen": None}) if fails else said)

    # Laws

    @invariant()
    def final_stays(self) -> None:
        """S5: a final status never changes."""
        for action in self.stream.actions:
            known = self.finals.get(action.key)
            assert known is None or known == action.status
            if action.is_final:
                self.finals[action.key] = action.status

    @invariant()
    def the_model_agrees(self) -> None:
        """S6, S7: what the facts say is what the product holds."""
        for action in self.stream.actions:
            model = self.model[action.key]
            assert model["version"] == action.version
            assert model["tokens"] == [one.fencing_token for one in action.attempts]
            assert model["row"] == action.policy_row
            asked, ours = model["round"], action.approval
            assert (asked is None) is (ours is None)
            if asked is not None and ours is not None:
                assert (asked["nonce"], asked["ended"]) == (ours.nonce, ours.ended)
                assert set(asked["yes"]) == {grant.person for grant in ours.grants}
                assert asked["groups"] == set(ours.groups)

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        """What waits is asked about, or will be; what is ready by people's word is so by theirs."""
        for action in self.stream.actions:
            model = self.model[action.key]
            if model["status"] == "ready" and model["asks"] is not None:
                assert plain.is_met(model)
            if model["status"] == "awaiting_approval":
                assert model["asks"] is not None
                assert not model["running"]
                assert not plain.is_met(model)
                assert due_at(action, self.now, skew_ms=SKEW_MS) is not None
