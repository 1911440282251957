"""Evidence in any order: late, early, repeated and reordered pieces lead to the same.

For every set of pieces about one action, of every kind that can speak of it, all orders end in the
same standing and the same open reasons. Where the pieces agree the standing is the status itself.
Where they contradict each other the status is the one that was proven first, because a final status
never changes; then every order stands the same way: in dispute, and a person has all the pieces.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from hypothesis import given as law
from hypothesis import settings
from hypothesis import strategies as st

from ledger.core import inputs as i
from ledger.core.decide import decide
from ledger.core.decide.schedule import is_disputed
from ledger.core.evolve import Place
from ledger.core.money import Money
from ledger.core.proof import given_back
from ledger.core.state import Action
from tests import examples as x
from tests.unit.core.language import After, Given, after, given

OVER = x.LEASE_MS + x.SKEW_MS + x.LAG_MS + x.SETTLE_MS + 1
"""After the start: an absence that is asked for then is reliable."""
NOW = OVER + 10

KINDS = (i.EvidenceKind.WEBHOOK, i.EvidenceKind.SETTLEMENT, i.EvidenceKind.LISTING)
MOVING = "ch_3"
"""An object of which nothing but that it is moving is told: once it is over, a person who was asked
meanwhile still has the case.
"""
USD = Money(minor=4_990, currency="USD")
HALF = Money(minor=2_495, currency="EUR")
LESS = Money(minor=300, currency="EUR")
GIVEN_BACK = (
    ("dp_1", 1_200, x.REFERENCE),
    ("dp_1", 1_200, "ch_2"),
    ("dp_2", 4_990, x.REFERENCE),
    ("dp_2", 300, x.REFERENCE),
    ("dp_2", 300, "ch_2"),
    ("dp_2", 0, x.REFERENCE),
    ("dp_2", None, x.REFERENCE),
)
"""What is given back: under which name, how much, of which effect."""


def running() -> Given:
    """One attempt, whose answer is still out."""
    return given(x.recorded(), x.automatic(), x.started())


def asked() -> Given:
    """One attempt whose answer was lost, and a question put late enough to be believed."""
    lost = running().and_then(x.unresolved(), x.lookup_due(OVER))
    return lost.and_then(after(OVER, x.asked(at=OVER)))


def asked_of_two() -> Given:
    """Two attempts, the answers of both lost, and the question put after both."""
    first = running().and_then(x.unresolved(), x.retry_due(1))
    two = first.and_then(after(1, x.started(2, at=1, first_at=0), x.unresolved(2)))
    late = two.and_then(after(1, x.lookup_due(OVER + 1)))
    return late.and_then(after(OVER + 1, x.asked(at=OVER + 1, attempts_upto=2)))


def never_started() -> Given:
    """Nothing of it was ever sent."""
    return given(x.recorded(), x.automatic())


BASES = {
    "running": running(),
    "asked": asked(),
    "asked_of_two": asked_of_two(),
    "never_started": never_started(),
}


@dataclass(frozen=True)
class Piece:
    """One input, and how it is called in a failure."""

    name: str
    said: i.Evidence | i.Report

    @property
    def source(self) -> str:
        """What says it: a source says one thing, however often."""
        if isinstance(self.said, i.Evidence):
            return self.said.source_id
        return f"report:{self.said.attempt}:{self.said.outcome.kind}"


def evidence(kind: i.EvidenceKind, meaning: i.Meaning, number: int, **more: object) -> Piece:
    """What a source of a kind says; `number` tells its sources apart."""
    base = x.found_out(meaning, lookup=None, source=f"{kind}:{meaning}:{number}")
    said = base.model_copy(update={"kind": kind, **more})
    return Piece(f"{kind} {meaning} {more}", said)


def answers(meaning: i.Meaning, **more: object) -> Piece:
    """What the provider answers to the first question."""
    return Piece(f"lookup {meaning}", x.found_out(meaning).model_copy(update=more))


def pieces(base: str) -> list[Piece]:
    """Everything that can be said in a situation."""
    said: list[Piece] = []
    for number, kind in enumerate(KINDS):
        said += [
            evidence(kind, i.Meaning.EFFECT, number),
            evidence(kind, i.Meaning.EFFECT, 10 + number, reference="ch_2"),
            evidence(kind, i.Meaning.EFFECT, 20 + number, money=x.EUR_499),
            evidence(kind, i.Meaning.EFFECT, 30 + number, money=USD),
            evidence(kind, i.Meaning.EFFECT, 40 + number, reference=None),
            evidence(kind, i.Meaning.NO_EFFECT, number),
            evidence(kind, i.Meaning.NO_EFFECT, 10 + number, reference=x.REFERENCE),
            evidence(kind, i.Meaning.NO_EFFECT, 20 + number, reference="ch_2"),
            evidence(kind, i.Meaning.PENDING, number, reference=MOVING),
            evidence(kind, i.Meaning.PENDING, 10 + number, reference=None),
            evidence(kind, i.Meaning.INCONCLUSIVE, number),
            evidence(kind, i.Meaning.ABSENT, number),
        ]
        for at, (name, minor, effect) in enumerate(GIVEN_BACK):
            money = None if minor is None else Money(minor=minor, currency="EUR")
            said.append(
                evidence(
                    kind,
                    i.Meaning.REVERSED,
                    10 * at + number,
                    reference=name,
                    reverses=effect,
                    money=money,
                )
            )
    said += _reports(base)
    if base.startswith("asked"):
        said += [
            answers(i.Meaning.EFFECT),
            answers(i.Meaning.EFFECT, money=x.EUR_499),
            answers(i.Meaning.ABSENT),
            answers(i.Meaning.PENDING, reference=MOVING),
        ]
    return said


def _reports(base: str) -> list[Piece]:
    attempts = {"never_started": 0, "asked_of_two": 2}.get(base, 1)
    said: list[Piece] = []
    for attempt in range(1, attempts + 1):
        outcomes: tuple[i.ReportedOutcome, ...] = (
            x.success(x.REFERENCE if attempt == 1 else "ch_2"),
            i.PartialSuccess(reference=x.REFERENCE, result={"parts": []}),
            x.refusal("declined", i.Retry.NEVER),
            x.refusal(),
            x.no_answer(),
        )
        said += [
            Piece(f"report {attempt} {outcome}", x.report(outcome, attempt=attempt))
            for outcome in outcomes
        ]
    return said


def told(base: Given, said: Sequence[Piece]) -> Action:
    """The action after it has heard all of this."""
    known = base
    for piece in said:
        decided = decide(
            known.stream, known.config, piece.said, Place(known.offset, x.T0 + NOW), None
        )
        known = known.and_then(After(NOW, decided.facts))
    return known.action()


def standing(action: Action) -> tuple[str, frozenset[str]]:
    """How the action stands for everybody who may rely on it, and why a person is needed."""
    reasons = frozenset[str]() if action.case is None else action.case.reasons
    return ("in dispute" if is_disputed(action) else action.status.value, reasons)


@st.composite
def orders(draw: st.DrawFn) -> tuple[str, list[Piece], list[Piece]]:
    """A situation and two orders of the same pieces, some of them told again."""
    base = draw(st.sampled_from(sorted(BASES)))
    chosen = draw(st.lists(st.sampled_from(pieces(base)), min_size=2, max_size=6))
    distinct = list({piece.source: piece for piece in chosen}.values())
    once = draw(st.permutations(distinct))
    again = draw(st.lists(st.sampled_from(distinct), max_size=2))
    return base, list(once), list(draw(st.permutations([*distinct, *again])))


@settings(max_examples=600)
@law(orders())
def test_the_order_of_evidence_makes_no_difference(
    told_twice: tuple[str, list[Piece], list[Piece]],
) -> None:
    """Whatever comes first, the action stands the same and the same reasons are open."""
    base, once, again = told_twice
    assert standing(told(BASES[base], once)) == standing(told(BASES[base], again))


def test_a_part_that_each_of_two_attempts_tells_is_kept_of_both() -> None:
    """One case, and the second is not taken for the first told again."""
    part = i.PartialSuccess(reference=x.REFERENCE, result={"parts": []})
    gone = x.refusal("declined", i.Retry.NEVER)
    parts = [Piece(f"part {number}", x.report(part, attempt=number)) for number in (1, 2)]
    none = Piece("none", x.report(gone, attempt=2))
    expected = ("in dispute", frozenset({"partly_succeeded", "evidence_conflicts"}))
    for order in ([*parts, none], [parts[0], none, parts[1]], [none, *reversed(parts)]):
        assert standing(told(BASES["asked_of_two"], order)) == expected


def test_one_name_of_what_was_given_back_of_two_effects_is_two_effects_in_every_order() -> None:
    """A provider says that one object gave back one effect, and elsewhere that it gave back another
    one. The first to say so once was all that was kept. It counts once, by the larger amount.
    """
    kind, back = i.EvidenceKind.WEBHOOK, i.Meaning.REVERSED
    both = [
        evidence(kind, back, number, reference="dp_1", reverses=effect, money=money)
        for number, (effect, money) in enumerate(((x.REFERENCE, HALF), ("ch_2", LESS)))
    ]
    whole = evidence(kind, i.Meaning.EFFECT, 3)
    for order in permutations((*both, whole)):
        action = told(BASES["running"], order)
        assert "second_effect" in standing(action)[1]
        assert [one.minor for one in given_back(action)] == [HALF.minor]
