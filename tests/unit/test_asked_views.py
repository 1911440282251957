"""What a caller is told of people: the same from the log, from the read model, from a decision."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.http import views
from gateway.http.problems import LedgerPlace
from gateway.http.views import ApprovalView
from ledger.client.progress import ActionsSeen
from ledger.core import inputs as i
from ledger.core.state import Action, Approval, Status
from ledger.core.statement import Say
from tests import asking
from tests import examples as x
from tests.ledgers import ASKED, LedgerBuilder

PLACE = LedgerPlace(partition=0, offset=4)


class Asking:
    """A ledger in which two people have to agree to a note, and a client that reads it."""

    def __init__(self) -> None:
        self.ledger = LedgerBuilder(config=ASKED)
        self.seen = ActionsSeen(1, {})
        self.ledger.take(x.propose(x.NOTE))

    @property
    def action(self) -> Action:
        """The note, as the ledger folds it."""
        found = self.ledger.streams[x.STREAM].action(x.NOTE)
        assert found is not None
        return found

    def say(self, who: str, say: Say = Say.APPROVE, **changes: object) -> None:
        """Somebody signs what is asked."""
        ledger, at = self.ledger.generation, self.ledger.decided_at(x.STREAM)
        said = asking.statement(self.action, who, say, ledger=ledger, at=at, **changes)
        people = self.ledger.config.people
        given = asking.judged(asking.judge(said), people, at=at, ledger=ledger)
        self.ledger.take(given, executor=None)

    def told(self) -> views.ActionView:
        """What a client that has read everything tells a caller."""
        for record in self.ledger.records()[self.seen.next_offset(0) :]:
            self.seen.feed(record)
        progress = self.seen.progress_of(x.NOTE)
        assert progress is not None
        return views.of_progress(progress)


def of_action(action: Action) -> ApprovalView | None:
    """What a folded action is told as."""
    return views.of_action(action, PLACE).approval


def test_whoever_waits_learns_until_when_and_how_far_people_are() -> None:
    """Each yes is told, and the last one as granted."""
    asked = Asking()
    first = asked.told().approval
    assert first is not None
    assert (first.state, first.round, first.quorum, first.granted) == ("waiting", 1, 2, 0)
    assert first.expires_at == x.T0 + 30_000
    asked.say("ada")
    asked.say("ben")
    granted = asked.told().approval
    assert granted is not None
    assert (granted.state, granted.granted) == ("granted", 2)
    assert granted == of_action(asked.action)


def test_a_lapse_is_told_as_one_and_not_as_a_denial() -> None:
    """Then people are asked again, once more."""
    asked = Asking()
    asked.ledger.take(x.tick(), later_ms=60_000)
    lapsed = asked.told()
    assert lapsed.status is Status.AWAITING_APPROVAL
    assert lapsed.approval is not None
    assert lapsed.approval.state == "expired"
    asked.ledger.take(i.AskAgain(key=x.NOTE, principal="agent:billing"))
    again = asked.told().approval
    assert again is not None
    assert (again.state, again.round) == ("waiting", 2)


def test_who_said_no_is_told_with_their_words() -> None:
    """And nothing more of what people were asked."""
    asked = Asking()
    asked.say("cyd", Say.DENY, comment="Not this month.")
    denied = asked.told()
    assert (denied.status, denied.approval) == (Status.DENIED, None)
    assert denied.denied == views.DeniedView(by="person", person="cyd", comment="Not this month.")


def test_before_the_provider_has_spoken_nobody_is_asked() -> None:
    """There is nothing to sign, and the caller is told so."""
    unasked = replace(Asking().action, approval=None)
    told = of_action(unasked)
    assert told is not None
    assert (told.state, told.expires_at, told.quorum) == ("preparing", None, None)
    assert told.page == f"/console/approve/{x.NOTE}"


@pytest.mark.parametrize(
    ("ended", "state"), [(None, "waiting"), ("expired", "expired"), ("policy_changed", "ended")]
)
def test_a_row_and_a_fold_say_the_same(ended: str | None, state: str) -> None:
    """Whatever an answer was learnt from."""
    action = Asking().action
    assert action.approval is not None
    folded = replace(action, approval=replace(action.approval, ended=ended))
    told = of_action(folded)
    assert told is not None
    assert told.state == state
    row = _row(folded.approval)
    assert views._approval(x.NOTE, action.status, row) == told


def _row(asked: Approval | None) -> dict[str, Any]:
    """What the query of an action has of a round."""
    assert asked is not None
    return {
        "round": asked.round,
        "expires_at": asked.expires_at,
        "quorum": asked.quorum,
        "granted": len(asked.grants),
        "groups": list(asked.groups),
        "ended": asked.ended,
    }


def test_what_has_begun_says_nothing_of_people_any_more() -> None:
    """It is over with them."""
    begun = replace(Asking().action, status=Status.ATTEMPTING)
    assert of_action(begun) is None
