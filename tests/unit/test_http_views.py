"""One shape of an action, whatever it was learnt from, and never an older one over a newer."""

import pytest

from gateway.http import following, views
from gateway.http.problems import LedgerPlace
from gateway.http.views import ActionView
from ledger.client.client import Progress
from ledger.core import facts as f
from ledger.core.facts import ActionCancelled, AnyFact, IntentRecorded, PolicyDecided
from ledger.core.inputs import Retry
from ledger.core.records import Cause, Decision
from ledger.core.rejections import Unchanged
from ledger.core.request import Request
from ledger.core.state import FINAL, Status
from projections.query_rows import ActionRow

KEY = "charge:v1:acme:e#1"
OTHER = "charge:v1:acme:e"
PLACE = LedgerPlace(partition=2, offset=9)


def decision(*facts: AnyFact) -> Decision:
    """A decision with these facts."""
    cause = Cause(topic="intents", partition=2, offset=4)
    return Decision(at=9, epoch=1, cause=cause, decided_at=77, stream="acme/e", facts=facts)


def recorded() -> tuple[IntentRecorded, PolicyDecided]:
    """The facts that begin an action."""
    request = Request(operation="charge", version=1, principal="p", environment="test")
    return (
        IntentRecorded(
            action=KEY,
            version=1,
            request=request,
            request_hash="sha256:0",
            provider="simulated",
            account="main",
            reliability="keyed",
            step_deadline_at=99,
        ),
        PolicyDecided(
            action=KEY, version=2, policy_hash="sha256:1", row="automatic", outcome="automatic"
        ),
    )


def row(**changes: object) -> ActionRow:
    """An action as the read model has it."""
    fields: dict[str, object] = {
        "tenant_id": "acme",
        "action_key": KEY,
        "operation": "charge",
        "stream_key": "acme/e",
        "status": "ready",
        "version": 2,
        "request_hash": "sha256:0",
        "target": None,
        "amount_minor": None,
        "currency": None,
        "principal": "p",
        "environment": "test",
        "provider": "simulated",
        "account": "main",
        "reliability": "keyed",
        "attempts": 0,
        "holder": None,
        "lease_until": None,
        "next_due_at": None,
        "step_deadline_at": 99,
        "provider_reference": None,
        "result": None,
        "proof": None,
        "code": None,
        "review": None,
        "ledger_partition": 2,
        "ledger_offset": 9,
        "created_at": 77,
        "updated_at": 77,
    }
    return ActionRow(**(fields | changes))  # type: ignore[arg-type] # as free as a row is


def test_a_decision_that_begins_an_action_is_folded() -> None:
    """The view is what the ledger's own rules make of the facts."""
    view = views.of_decision(KEY, decision(*recorded()), PLACE)
    assert (view.status, view.version, view.replayed) == ("ready", 2, False)
    assert (view.recorded_at, view.ledger) == (77, PLACE)
    assert view.href == "/v1/actions/charge:v1:acme:e%231"
    assert view.is_moving


def test_a_decision_that_cancels_ends_the_action() -> None:
    """A cancellation knows nothing but its own end."""
    fact = ActionCancelled(action=KEY, version=3, principal="p")
    view = views.of_decision(KEY, decision(fact), PLACE)
    assert (view.status, view.version, view.is_moving) == ("cancelled", 3, False)


SUCCEEDED = f.AttemptSucceeded(action=KEY, version=4, attempt=1, reference="ch_1")
UNRESOLVED = f.AttemptUnresolved(action=KEY, version=4, attempt=1, code="unattested:busy")


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (
            (SUCCEEDED, f.ActionCompleted(action=KEY, version=5, proof="report", reference="ch_1")),
            ("completed", 5, "ch_1", None),
        ),
        (
            (
                f.AttemptRefused(action=KEY, version=4, attempt=1, code="no", retry=Retry.NEVER),
                f.ActionFailed(action=KEY, version=5, code="no"),
            ),
            ("failed", 5, None, None),
        ),
        (
            (UNRESOLVED, f.TimerSet(action=KEY, version=5, purpose="lookup", due_at=123)),
            ("unknown", 5, None, 123),
        ),
        (
            (UNRESOLVED, f.ReviewOpened(action=KEY, version=5, reason="no_way_to_find_out")),
            ("needs_review", 5, None, None),
        ),
    ],
    ids=["completed", "failed", "unknown", "needs_review"],
)
def test_a_decision_about_an_action_says_what_its_facts_say(
    facts: tuple[f.AnyFact, ...], told: tuple[object, ...]
) -> None:
    """Where nothing else is known of the action at once, its newest facts are the answer."""
    view = views.of_decision(KEY, decision(*facts), PLACE)
    assert (view.status, view.version, view.reference, view.next_check_at) == told
    assert view.request_hash is None


def test_a_start_tells_the_call_how_long_it_may_take() -> None:
    """Both times count from the offer, which the call sent before the log had it."""
    started = f.AttemptStarted(
        action=KEY,
        version=3,
        attempt=1,
        fencing_token=1,
        holder="caller:5f3a",
        offer_sequence=0,
        offered_at=1_000,
        lease_until=28_200,
        deadline_at=13_200,
        connect_ms=2_000,
        response_ms=10_000,
        provider="simulated",
        account="main",
        provider_key=KEY,
        intent_offset=9,
        request_hash="sha256:0",
    )
    view = views.with_start(views.of_decision(KEY, decision(*recorded()), PLACE), started)
    assert view.start is not None
    assert (view.start.deadline_ms, view.start.lease_ms) == (12_200, 27_200)
    assert view.start.provider_key == KEY


@pytest.mark.parametrize("status", Status)
def test_what_moves_by_itself_is_never_final(status: Status) -> None:
    """A wait ends with every status that needs time, a person or nothing more."""
    view = ActionView(key=KEY, href="", status=status)
    assert not (view.is_moving and status in FINAL)


def test_an_unchanged_answer_is_a_replay() -> None:
    """It shows the action as it stood when the repetition was decided."""
    answer = Unchanged(reason="replayed", status="completed", reference="ch_1", action_version=5)
    view = views.of_unchanged(KEY, answer, PLACE)
    assert (view.status, view.reference, view.version) == ("completed", "ch_1", 5)
    assert view.replayed is True


@pytest.mark.parametrize(("status", "code"), [("needs_review", None), ("failed", "declined")])
def test_progress_tells_a_review_from_a_failure(status: str, code: str | None) -> None:
    """One field of the follower is two of the view."""
    progress = Progress(
        key=KEY,
        version=4,
        status=status,
        reference=None,
        result=None,
        code="declined",
        proof=None,
        ledger_partition=2,
        ledger_offset=9,
    )
    view = views.of_progress(progress)
    assert view.code == code
    assert view.review == (None if code else "declined")


def test_the_newer_of_two_wins_and_what_never_changes_is_kept() -> None:
    """The reason of an earlier status does not stick to a later one."""
    older = ActionView(
        key=KEY, href="h", status=Status.UNKNOWN, version=3, code="timeout", request_hash="sha256:0"
    )
    newer = ActionView(key=KEY, href="h", status=Status.COMPLETED, version=5, reference="ch_1")
    for merged in (views.newer(older, newer), views.newer(newer, older)):
        assert (merged.status, merged.version, merged.reference) == ("completed", 5, "ch_1")
        assert merged.code is None
        assert merged.request_hash == "sha256:0"
    assert views.newer(older, None) is older


def test_what_blocks_an_action_is_told_by_the_facts_of_a_decision() -> None:
    """Of an action whose beginning stands elsewhere: what it waits for, and what took its place."""
    waits = f.ActionBlocked(action=KEY, version=4, reason="revised_open", by=OTHER, wait_until=99)
    view = views.of_decision(KEY, decision(waits), PLACE)
    assert (view.status, view.is_moving) == ("blocked", False)
    assert view.blocked is not None
    assert (view.blocked.by, view.blocked.href) == (OTHER, f"/v1/actions/{OTHER}")
    gone = f.ActionSuperseded(action=KEY, version=4, by="charge:v1:acme:e~2")
    assert views.of_decision(KEY, decision(gone), PLACE).status == "superseded"


@pytest.mark.parametrize(
    ("reason", "by"),
    [("original_open", OTHER), ("revised_open", OTHER), ("target", None), ("saga_order", None)],
)
def test_what_waits_for_its_line_takes_as_long_as_that_does(reason: str, by: str | None) -> None:
    """A turn comes by itself; what it undoes or revises is looked at."""
    view = views.of_row(row(status="blocked", blocked_reason=reason, blocked_by=OTHER))
    assert following.waits_for_line(view) == by
    assert following.waits_for_line(ActionView(key=KEY, href="h", status=Status.READY)) is None


@pytest.mark.parametrize(
    ("status", "told", "is_soon"),
    [
        (Status.ATTEMPTING, None, True),
        (Status.COMPLETED, None, True),
        (Status.COMPLETED, "evidence_conflicts", False),
        (Status.FAILED, None, True),
        (Status.UNKNOWN, None, False),
        (Status.AWAITING_APPROVAL, None, False),
        (Status.NEEDS_REVIEW, "declined", False),
    ],
)
def test_an_end_that_is_told_frees_soon_what_waits_for_it(
    status: Status, told: str | None, *, is_soon: bool
) -> None:
    """Also where the ledger has drawn nothing from it yet; not where a person has to move it. What
    followed the log tells an alarm under `code`, the read model under `review`.
    """
    for name in ("review", "code"):
        other = ActionView(key=OTHER, href="h", status=status).model_copy(update={name: told})
        assert following.is_settled_soon(other) is is_soon


def test_what_a_case_is_about_is_told() -> None:
    """The ceiling, by its name."""
    opened = f.ReviewOpened(action=KEY, version=4, reason="ceiling_reached", names="run")
    view = views.of_decision(KEY, decision(opened), PLACE)
    assert (view.status, view.review, view.review_names) == (
        "needs_review",
        "ceiling_reached",
        "run",
    )


@pytest.mark.parametrize(
    ("reason", "by", "told"),
    [
        ("target", "charge:v1:acme:a", ("target", "charge:v1:acme:a", None, True)),
        ("planned", "charge:v1:acme:a", ("planned", "charge:v1:acme:a", None, False)),
        ("unanswered", "acme/run:r1", ("gates", None, ("acme/run:r1",), True)),
    ],
)
def test_the_read_model_tells_what_blocks(
    reason: str, by: str, told: tuple[str, str | None, tuple[str, ...] | None, bool]
) -> None:
    """As the log does, where nobody here has followed the action."""
    view = views.of_row(row(status="blocked", blocked_reason=reason, blocked_by=by))
    assert view.blocked is not None
    waits = view.blocked
    assert (waits.reason, waits.by, waits.gates, view.is_moving) == told
