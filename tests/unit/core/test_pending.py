"""An object that the provider says is moving: it can still become an effect, so that nothing makes
its action failed or starts another attempt that could be a second one.
"""

import pytest

from ledger.core import inputs as i
from ledger.core.state import Status
from tests import examples as x
from tests.property.test_evidence_laws import BASES, Piece, told
from tests.unit.core.beside import Event

MOVING, NOTHING, THERE = i.Meaning.PENDING, i.Meaning.NO_EFFECT, i.Meaning.EFFECT


def says(meaning: i.Meaning, name: str, *, key: str = x.CHARGE) -> i.Evidence:
    """What a webhook tells of an object."""
    said = x.found_out(meaning, key=key, lookup=None, reference=name, source=f"{meaning} {name}")
    changes: dict[str, object] = {"kind": i.EvidenceKind.WEBHOOK}
    return said.model_copy(update=changes if key == x.CHARGE else changes | {"money": None})


def after(base: str, *said: i.Evidence | i.Report) -> tuple[Status, frozenset[str]]:
    """The status and the open reasons once all of this was told."""
    action = told(BASES[base], [Piece("", one) for one in said])
    return action.status, frozenset() if action.case is None else action.case.reasons


CONFLICT = frozenset({"evidence_conflicts"})


@pytest.mark.parametrize("base", ["running", "asked", "asked_of_two"])
def test_an_object_that_came_to_nothing_fails_nothing_while_another_is_moving(base: str) -> None:
    """In either order a person has both; what each would lead to alone is known from others."""
    one, other = says(MOVING, "pi_b"), says(NOTHING, "pi_a")
    status, reasons = after(base, one, other, x.report(x.no_answer()))
    assert status is not Status.FAILED
    assert reasons == (CONFLICT if base != "asked_of_two" else frozenset())
    assert after(base, other, one, x.report(x.no_answer()))[1] == reasons


def test_what_was_moving_and_came_to_nothing_is_no_effect() -> None:
    """The last word about an object counts, whichever came first."""
    said = [says(MOVING, "pi_b"), says(NOTHING, "pi_b")]
    assert after("asked", *said) == (Status.FAILED, frozenset())
    assert after("asked", *reversed(said)) == (Status.FAILED, frozenset())


def test_what_was_moving_and_is_there_completes() -> None:
    """An answer that an effect is still moving delays nothing."""
    said = [says(MOVING, x.REFERENCE), says(THERE, x.REFERENCE)]
    assert after("asked", *said) == (Status.COMPLETED, frozenset())


def test_a_search_that_does_not_show_what_is_moving_closes_nothing() -> None:
    """What the provider said itself and what it does not find contradict each other."""
    status, reasons = after("asked", says(MOVING, "pi_b"), x.found_out(i.Meaning.ABSENT))
    assert (status, reasons) == (Status.NEEDS_REVIEW, CONFLICT)


def test_an_attempts_own_refusal_stands_against_what_is_moving() -> None:
    """Its holder has heard the provider's answer to this very attempt, and a delayed word about an
    earlier state of it is nobody's case.
    """
    gone = x.report(x.refusal("card_declined", i.Retry.NEVER))
    moving = says(MOVING, "pi_b")
    assert after("running", gone, moving) == (Status.FAILED, frozenset())
    assert after("running", moving, gone) == (Status.FAILED, frozenset())


def lost(key: str) -> Event:
    """An action without an answer, about which the provider is asked."""
    event = Event()
    event.propose(key)
    event.goes_on()
    event.reports(key, x.no_answer())
    for _ in range(6):
        if "lookup.started" in event.goes_on(later=x.LEASE_MS + x.SKEW_MS + x.SETTLE_MS):
            return event
    raise AssertionError(f"nobody is asked about {key}")


@pytest.mark.parametrize("key", [x.NOTE, x.TICKET])
def test_an_absence_neither_fails_nor_repeats_what_is_moving(key: str) -> None:
    """Of a class without keys a second attempt could be a second effect."""
    event = lost(key)
    event.take(says(MOVING, "obj_1", key=key))
    event.take(x.found_out(i.Meaning.ABSENT, key=key, lookup=event.action(key).lookups_asked))
    event.goes_on(later=60_000)
    event.goes_on(later=60_000)
    assert event.action(key).status is not Status.FAILED
    assert len(event.action(key).attempts) == 1
