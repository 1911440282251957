"""The executor's own view of why a start may be, against the ledger's: it refuses nothing that the
ledger has started under what is published, and lets pass nothing that a newer table or document of
people would not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.core import inputs as i
from ledger.core.catalogue import Catalogue
from ledger.core.config import Config
from ledger.core.decide import decide
from ledger.core.evolve import Place, evolve
from ledger.core.facts import AttemptStarted, IntentRecorded
from ledger.core.people import People
from ledger.core.policy import Asks, Outcome, Policy
from ledger.core.rejections import Rejection
from ledger.core.state import Action, Stream
from ledger.core.statement import Say, Statement
from ledger.log.published import Published
from ledger.signing.reading import read_signed
from streams.authorization import Grounds, unallowed
from tests.examples import CHARGE, EUR_499, STREAM, T0, offer, propose, request, tick
from tests.examples_of_people import (
    ADA,
    BEN,
    CLEO,
    DAN,
    ESCALATING,
    EVE,
    FREE,
    GENERATION,
    KEYS_OF,
    NEVER,
    ONE,
    PEOPLE,
    TWO,
    ask_again,
    foresees,
    people,
    signed,
    table,
    under,
)

TABLES = (ONE, TWO, ESCALATING, FREE, NEVER, table(version=2), table("anybody", groups=()))
OFFICES = (
    PEOPLE,
    people(ADA, BEN),
    people(ADA.model_copy(update={"revoked": True}), BEN, CLEO),
    people(ADA.model_copy(update={"groups": ("managers",)}), BEN, CLEO, DAN, EVE),
)
DECLARED: tuple[dict[str, object], ...] = (
    {},
    {"amount_multiple_of": {"EUR": 1_000}},
    {"principals": ("agent:other",)},
)
"""In what a catalogue may declare every operation otherwise than the one before did."""
REVISION = f"{CHARGE}~2"
NAMES = ("ada", "ben", "cleo", "dan", "eve")


@dataclass
class World:
    """One action, decided by the real core, and what every step published."""

    config: Config
    stream: Stream = field(default_factory=lambda: Stream(STREAM))
    now: int = T0
    offset: int = 0
    starts: list[tuple[AttemptStarted, IntentRecorded, Config]] = field(default_factory=list)
    intents: dict[str, IntentRecorded] = field(default_factory=dict)
    key: str = CHARGE

    def take(self, given: i.Decidable) -> None:
        """Decide one input, with capacity at hand."""
        place = Place(self.offset, self.now)
        at = self.now - T0
        # Always somebody else: who gave a start back is not asked again.
        spends = offer(at=at, until=at + 10_000, incarnation=f"executor-{self.offset}")
        decided = decide(self.stream, self.config, given, place, spends)
        for fact in decided.facts:
            self.stream = evolve(self.stream, fact, place)
            if isinstance(fact, IntentRecorded):
                self.intents[fact.action] = fact
            if isinstance(fact, AttemptStarted):
                self.starts.append((fact, self.intents[fact.action], self.config))
        self.offset += 1

    @property
    def action(self) -> Action | None:
        """The action that is told about, as it stands."""
        return self.stream.action(self.key)

    def revise(self) -> None:
        """The same is asked for in another amount, once: from now on it is told about that."""
        if self.key == CHARGE:
            self.key = REVISION
            asked = request(CHARGE, money=EUR_499)
            self.take(i.Propose(key=REVISION, request=asked, revises=CHARGE))

    def approve(self, name: str, decision: Say) -> None:
        """Somebody signs what is asked now, or was asked last."""
        action = self.action
        if action is None or action.approval is None:
            return
        asked = action.approval
        said = Statement(
            ledger=GENERATION,
            decision=decision,
            approver=name,
            tenant="acme",
            environment=action.request.environment,
            key=self.key,
            request_hash=action.request_hash,
            preview_hash=asked.preview_hash,
            policy_hash=asked.policy_hash,
            row=asked.row,
            nonce=asked.nonce,
            issued_at=self.now,
            expires_at=asked.expires_at,
        )
        proof = signed(said, name)
        read = read_signed(proof, self.config.people)
        if isinstance(read, Rejection):
            judged = i.Judged(self.key, proof, self.now, GENERATION, refusal=read)
        else:
            judged = i.Judged(self.key, proof, self.now, GENERATION, said, KEYS_OF[name].id)
        self.take(judged)


def published(config: Config) -> Published:
    """What an executor has read when exactly this was published."""
    read = Published()
    assert isinstance(config.catalogue, Catalogue)
    read.people, read.policy = config.people, config.policy
    read.take_catalogue(config.catalogue, 0)
    read.policies |= {one.content_hash: one for one in TABLES}
    return read


def refusal(start: AttemptStarted, intent: IntentRecorded, config: Config) -> str | None:
    """What the executor says of a start when this is published."""
    code = unallowed(start, intent, Grounds(published(config), GENERATION))
    return None if code is None else code.value


STEPS = st.one_of(
    st.tuples(
        st.just("say"), st.sampled_from(NAMES), st.sampled_from((Say.APPROVE,) * 4 + (*Say,))
    ),
    st.tuples(st.just("table"), st.sampled_from(TABLES)),
    st.tuples(st.just("people"), st.sampled_from(OFFICES)),
    st.tuples(st.just("declare"), st.sampled_from(DECLARED)),
    st.tuples(st.just("wait"), st.integers(0, 70_000)),
    st.just(("tick",)),
    st.just(("again",)),
    st.just(("revise",)),
    st.just(("foresee",)),
    st.just(("decline",)),
    st.just(("lose",)),
)


def lived(first: Policy, preview: str, steps: Sequence[tuple[object, ...]]) -> World:
    """A history of one action."""
    world = World(under(first, preview=preview))
    world.take(propose())
    for step in steps:
        _step(world, step)
    return world


def _step(world: World, step: tuple[object, ...]) -> None:
    config, action = world.config, world.action
    match step:
        case "say", str(name), Say() as decision:
            world.approve(name, decision)
        case "table", Policy() as policy:
            world.config = Config(config.catalogue, config.content_hash, (), policy, config.people)
        case "people", People() as office:
            world.config = Config(config.catalogue, config.content_hash, (), config.policy, office)
        case "declare", dict(declared):
            operations = tuple(
                one.model_copy(update={"amount_multiple_of": {}, "principals": ("agent:*",)})
                for one in config.catalogue.operations
            )
            operations = tuple(one.model_copy(update=declared) for one in operations)
            other = Catalogue(operations, repr(declared), config.timing)
            world.config = replace(config, catalogue=other, content_hash=other.content_hash)
        case "wait", int(delay_ms):
            world.now += delay_ms
        case ("tick",):
            world.take(tick())
        case ("again",):
            world.take(ask_again(world.key))
        case ("revise",):
            world.revise()
        case ("foresee",) if action is not None and action.dry is not None:
            world.take(foresees(action.dry.number, key=world.key))
        case (("decline" | "lose") as what,) if action is not None and action.running is not None:
            running = action.running
            said = i.Report(
                key=world.key,
                attempt=running.number,
                fencing_token=running.fencing_token,
                holder=running.holder,
                outcome=i.NoAnswer(code="timeout"),
            )
            given_back = said.model_dump(exclude={"outcome"})
            world.take(said if what == "lose" else i.Decline(**given_back, code="lease_over"))
        case _:
            return


def test_the_histories_reach_what_they_are_about() -> None:
    """Starts on the word of two people, of people asked after a time, and second attempts."""
    said = tuple(("say", name, Say.APPROVE) for name in ("ada", "ben"))
    two = lived(TWO, "request", [*said])
    assert [len(start.approval.signed) for start, _, _ in two.starts if start.approval] == [2]
    waits = [("wait", 61_000), ("tick",), ("say", "cleo", Say.APPROVE)]
    late = lived(ESCALATING, "request", waits)
    (start, intent, config) = late.starts[0]
    assert start.approval is not None
    assert start.approval.groups == ("finance", "managers")
    assert refusal(start, intent, config) is None
    again = lived(
        ONE, "provider", [("foresee",), said[0], ("decline",), ("wait", 5_000), ("tick",)]
    )
    assert [one.attempt for one, _, _ in again.starts] == [1, 2]
    revised = lived(FREE, "request", [("revise",), said[0]])
    assert [intent.revises for _, intent, _ in revised.starts] == [None]


def test_a_revision_is_acted_on_with_a_persons_word_only() -> None:
    """Under a table by which everything goes ahead the ledger asks somebody, and an executor acts
    on nothing else.
    """
    waits = [("tick",), ("wait", 11_000), ("revise",), ("say", "ada", Say.APPROVE), ("tick",)]
    world = lived(FREE, "request", [("decline",), *waits])
    start, intent, config = world.starts[-1]
    assert intent.revises == CHARGE
    assert refusal(start, intent, config) is None
    bare = start.model_copy(update={"approval": None})
    assert refusal(bare, intent, config) == "approval_missing"


def _distinct(start: AttemptStarted, office: People) -> Iterator[str]:
    assert start.approval is not None
    for one in start.approval.signed:
        read = read_signed(one, office)
        assert not isinstance(read, Rejection)
        yield read.person


@given(
    st.sampled_from(TABLES),
    st.sampled_from(("request", "provider")),
    st.lists(STEPS, max_size=14),
)
@settings(max_examples=300)
def test_the_executor_acts_on_whatever_the_ledger_started_under_the_same(
    first: Policy, preview: str, steps: list[tuple[object, ...]]
) -> None:
    """With the same configuration both say yes: nothing that people agreed to is given back, but
    for attempts of what has begun where table or catalogue have become stricter since.
    """
    world = lived(first, preview, steps)
    for start, intent, config in world.starts:
        code = refusal(start, intent, config)
        if start.attempt == 1:
            assert code is None
        else:
            assert code in {
                None,
                "policy_denies",
                "approval_missing",
                "more_people_asked",
                "other_groups_asked",
                "not_allowed",
                "invalid_request",
            }


@given(
    st.sampled_from(TABLES),
    st.lists(STEPS, max_size=14),
    st.sampled_from(TABLES),
    st.sampled_from(OFFICES),
)
@settings(max_examples=300)
def test_nothing_passes_that_a_newer_table_or_document_would_not_let_begin(
    first: Policy, steps: list[tuple[object, ...]], newer: Policy, office: People
) -> None:
    """What the executor lets pass has as many different people as the newest table asks, each of
    whom may decide by the newest document.
    """
    world = lived(first, "request", steps)
    for start, intent, config in world.starts:
        newest = Config(config.catalogue, config.content_hash, (), newer, office)
        if refusal(start, intent, newest) is not None:
            continue
        row = newer.rows[0]
        assert row.outcome is not Outcome.DENY
        asks = row.asks
        if asks is None and intent.revises is None:
            continue
        asks = asks or Asks()
        agreed = set(_distinct(start, office))
        assert len(agreed) >= asks.quorum
        for name in agreed:
            person = office.person(name)
            assert person is not None
            assert not person.revoked
            assert person.may_decide_for("acme")
            assert not person.asks_as(intent.request.principal)
            may_decide = (*asks.groups, *asks.escalate_to)
            assert person.is_in_one_of(may_decide if asks.groups else ())
