"""The table of what evidence may prove: every cell is what is decided, and it is shown as it is."""

from pathlib import Path
from typing import get_args

import pytest

from ledger.core import inputs as i
from ledger.core.decide.resolving import moves
from ledger.core.facts import Proof
from ledger.core.inputs import EvidenceKind, Meaning
from ledger.core.proof import PERSON, PROOF, May, proof_rows
from ledger.core.state import Status
from ledger.core.statement import Move
from tests import examples as x
from tests.examples import CHARGE
from tests.unit.core.language import After, Given, given

DOCUMENT = Path(__file__).parents[3] / "docs" / "EVIDENCE.md"
OVER = x.LEASE_MS + x.SKEW_MS + x.LAG_MS + x.SETTLE_MS + 1
EXTERNAL = (
    EvidenceKind.WEBHOOK,
    EvidenceKind.LOOKUP,
    EvidenceKind.SETTLEMENT,
    EvidenceKind.LISTING,
)


def running() -> Given:
    """One attempt is out."""
    return given(x.recorded(), x.automatic(), x.started())


def asked() -> Given:
    """Its answer was lost, and the provider was asked late enough to be believed."""
    lost = running().and_then(x.unresolved(), x.lookup_due(OVER))
    return lost.and_then(After(OVER, (x.asked(at=OVER),)))


def told_absent() -> Given:
    """The answer was that it is not there."""
    said = x.kept(x.found_out(Meaning.ABSENT), denies=(1,))
    return asked().and_then(said, x.absent())


# Every status that an action can have been tried in: with one attempt of which nobody knows, or
# which definitely had none; and every status without any.
OPEN: dict[Status, Given] = {
    Status.ATTEMPTING: running(),
    Status.UNKNOWN: asked(),
    Status.NEEDS_REVIEW: asked().and_then(x.review("lookups_exhausted")),
}
WITHOUT: dict[Status, Given] = {
    Status.READY: running().and_then(x.refused(), x.retry_due(50)),
    Status.FAILED: running().and_then(x.refused(retry=i.Retry.NEVER), x.failed()),
    Status.CANCELLED: running().and_then(x.unsent(), x.cancelled()),
    Status.NEEDS_REVIEW: running().and_then(x.refused(), x.review("attempts_exhausted")),
}
NOTHING_SENT: dict[Status, Given] = {
    Status.PROPOSED: given(x.recorded()),
    Status.READY: given(x.recorded(), x.automatic()),
    Status.EXPIRED: given(x.recorded(), x.automatic(), x.expired()),
    Status.CANCELLED: given(x.recorded(), x.automatic(), x.cancelled()),
}
DONE = running().and_then(x.succeeded(), x.completed())


def says(kind: EvidenceKind, meaning: Meaning, **changes: object) -> i.Evidence:
    """What a kind of source says of the charge."""
    is_lookup = kind is EvidenceKind.LOOKUP
    said = x.found_out(meaning, lookup=1 if is_lookup else None, source=f"{kind}:1")
    return said.model_copy(update={"kind": kind, **changes})


def facts(history: Given, said: i.Decidable) -> list[str]:
    """What is decided, by type, and a case by its reason."""
    decided = history.when(said, at=OVER + 5).decided
    assert decided.refused is None
    return [getattr(one, "reason", one.type) for one in decided.facts]


def of_lookup(kind: EvidenceKind, history: Given) -> bool:
    """Whether the question that a lookup answers was ever put here."""
    return kind is EvidenceKind.LOOKUP and not history.action().lookups_asked


@pytest.mark.parametrize("kind", EXTERNAL)
@pytest.mark.parametrize("status", Status)
def test_what_may_prove_an_effect_does_as_the_attempts_stand(
    kind: EvidenceKind, status: Status
) -> None:
    """P: completes what is open, contradicts a definite no, and alarms where nothing was sent."""
    if status is Status.COMPLETED:
        assert PROOF[kind, Meaning.EFFECT, status] is May.CONFIRM
        return
    assert PROOF[kind, Meaning.EFFECT, status] is May.PROVE
    said = says(kind, Meaning.EFFECT)
    for histories, expected in (
        (OPEN, "action.completed"),
        (WITHOUT, "evidence_conflicts"),
        (NOTHING_SENT, "effect_without_attempt"),
    ):
        history = histories.get(status)
        if history is not None and not of_lookup(kind, history):
            assert facts(history, said)[1:] == [expected]


@pytest.mark.parametrize("kind", EXTERNAL)
def test_what_may_confirm_is_kept_and_another_name_is_a_second_effect(kind: EvidenceKind) -> None:
    """C: of a completed action."""
    history = OPEN[Status.UNKNOWN].and_then(x.completed("webhook"))
    assert facts(history, says(kind, Meaning.EFFECT)) == ["evidence.recorded"]
    other = says(kind, Meaning.EFFECT, reference="ch_2")
    assert facts(history, other) == ["evidence.recorded", "second_effect"]


@pytest.mark.parametrize(
    ("kind", "meaning"),
    [(kind, Meaning.NO_EFFECT) for kind in EXTERNAL] + [(EvidenceKind.LOOKUP, Meaning.ABSENT)],
)
@pytest.mark.parametrize("status", Status)
def test_what_may_close_closes_what_it_can_speak_for(
    kind: EvidenceKind, meaning: Meaning, status: Status
) -> None:
    """N and D: of an open action the attempt is closed; of a completed one it is a conflict; of
    what is final without an effect it says nothing new.
    """
    may = PROOF[kind, meaning, status]
    is_final = status in {Status.COMPLETED, *(one for one in Status if one in _FINAL)}
    assert may is (May.DENY if is_final else May.CLOSE)
    said = says(kind, meaning)
    closes = "attempt.absent" if meaning is Meaning.ABSENT else "attempt.refused"
    history = OPEN.get(status)
    if history is not None and not of_lookup(kind, history):
        outs = facts(history, said)
        is_out = status is Status.ATTEMPTING
        assert (closes in outs) is not is_out
    if status is Status.COMPLETED:
        done = asked().and_then(x.completed("webhook"))
        assert facts(done, said) == ["evidence.recorded", "evidence_conflicts"]
    if status in {Status.FAILED, Status.EXPIRED, Status.CANCELLED} and not of_lookup(
        kind, running()
    ):
        ended = WITHOUT.get(status) or NOTHING_SENT[status]
        assert facts(ended, said) == ["evidence.recorded"]


_FINAL = frozenset(
    {Status.FAILED, Status.DENIED, Status.EXPIRED, Status.CANCELLED, Status.SUPERSEDED}
)


@pytest.mark.parametrize("kind", EXTERNAL)
@pytest.mark.parametrize("status", Status)
def test_what_was_given_back_follows_the_effect(kind: EvidenceKind, status: Status) -> None:
    """R: an alarm of what is completed, a contradiction of what was refused, kept until then."""
    assert PROOF[kind, Meaning.REVERSED, status] is May.GIVE_BACK
    said = says(kind, Meaning.REVERSED, reference="dp_1", reverses="ch_1", money=x.EUR_49_90)
    histories = {
        "reversed_elsewhere": {Status.COMPLETED: asked().and_then(x.completed("webhook"))},
        "evidence_conflicts": WITHOUT,
        "effect_without_attempt": NOTHING_SENT,
    }
    for reason, of in histories.items():
        history = of.get(status)
        if history is not None and not of_lookup(kind, history):
            assert facts(history, said)[1:] == [reason]
    if status in OPEN and not of_lookup(kind, OPEN[status]):
        assert facts(OPEN[status], said)[0] == "evidence.recorded"
        assert "review.opened" not in facts(OPEN[status], said)


@pytest.mark.parametrize("kind", EXTERNAL)
@pytest.mark.parametrize("meaning", [Meaning.PENDING, Meaning.INCONCLUSIVE, Meaning.ABSENT])
@pytest.mark.parametrize("status", Status)
def test_what_proves_nothing_is_kept(kind: EvidenceKind, meaning: Meaning, status: Status) -> None:
    """K: the status stays and nobody is called; a lookup's answer only leads to the next one."""
    if (kind, meaning) == (EvidenceKind.LOOKUP, Meaning.ABSENT):
        return
    assert PROOF[kind, meaning, status] is May.KEEP
    said = says(kind, meaning)
    for of in (OPEN, WITHOUT, NOTHING_SENT, {Status.COMPLETED: DONE}):
        history = of.get(status)
        if history is not None and not of_lookup(kind, history):
            assert set(facts(history, said)) <= {"evidence.recorded", "timer.set"}


@pytest.mark.parametrize("status", Status)
def test_a_report_speaks_for_its_own_attempt(status: Status) -> None:
    """A report proves and denies as the others do, in every status in which something was sent."""
    for meaning, outcome in ((Meaning.EFFECT, x.success()), (Meaning.NO_EFFECT, x.refusal())):
        may = PROOF[EvidenceKind.REPORT, meaning, status]
        assert (may is May.NEVER) is (status is Status.PROPOSED)
        if status in OPEN:
            ends = facts(OPEN[status], x.report(outcome))[0]
            assert ends == f"attempt.{'succeeded' if meaning is Meaning.EFFECT else 'refused'}"
    if status in WITHOUT:
        late = facts(WITHOUT[status], x.report(x.success()))
        assert late == ["evidence.recorded", "evidence_conflicts"]


@pytest.mark.parametrize("status", Status)
def test_a_person_speaks_of_what_waits_for_them(status: Status) -> None:
    """By what they sign over a case, and of nothing that is final: there they take note only."""
    offered = set[Move]()
    for of in (OPEN, WITHOUT, {Status.COMPLETED: DONE.and_then(x.review("second_effect"))}):
        history = of.get(status)
        if history is not None:
            action = history.action()
            operation = x.CONFIG.operation(action.request.operation, action.request.version)
            offered |= {one.move for one in moves(action, operation, x.CONFIG, x.T0 + 10 * OVER)}
    can = PROOF[PERSON, Meaning.EFFECT, status] is May.PROVE
    assert (Move.EFFECT_EXISTS in offered) is can
    assert (Move.NO_EFFECT in offered) is (PROOF[PERSON, Meaning.NO_EFFECT, status] is May.CLOSE)


def test_every_triple_has_its_cell() -> None:
    """Each kind, meaning and status; what completes can be named as proof."""
    kinds = {*EvidenceKind, PERSON}
    assert set(PROOF) == {(k, m, s) for k in kinds for m in Meaning for s in Status}
    proving = {kind for (kind, _, _), may in PROOF.items() if may is May.PROVE}
    assert proving == set(get_args(Proof))


def test_the_page_shows_the_table_as_it_is() -> None:
    """docs/EVIDENCE.md holds the rows letter by letter, and says every mark."""
    page = DOCUMENT.read_text(encoding="utf-8")
    assert f"```\n{proof_rows()}\n```" in page
    for mark in May:
        assert f"| `{mark.value}` |" in page


def test_a_reliable_absence_stays_what_it_was() -> None:
    """The same answer again is the same source."""
    history = told_absent()
    history.when(x.found_out(Meaning.ABSENT), at=OVER + 9).then_unchanged("evidence_known")
    assert history.action(CHARGE).status is Status.READY
