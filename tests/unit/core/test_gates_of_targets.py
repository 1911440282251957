"""The gate of a target: one action at a time, who came first first; look-alikes; what a person lets
pass.
"""

from dataclasses import replace

import pytest

from ledger.core import inputs as i
from ledger.core.blocking import blocking
from ledger.core.decide.resolving import moves
from ledger.core.ids import GateKind, gate_key, stream_key_of
from ledger.core.limits import RECENT_MAX, RESERVATIONS_MAX
from ledger.core.money import Money
from ledger.core.rejections import Rejection
from ledger.core.state import Status
from ledger.core.statement import Move
from tests import examples as x
from tests.examples_of_gates import identity
from tests.unit.core.crossing import (
    ONE_AT_A_TIME,
    ORDER,
    A,
    B,
    C,
    Crossing,
    D,
    ceiling,
    passes,
    refused,
    under,
)

WINDOW_MS = 60_000
TWICE = Money(minor=4_991, currency="EUR")
OTHER = "order:B-1"


def alike() -> Crossing:
    """Everything equal is held for a minute."""
    return Crossing(ONE_AT_A_TIME, look_alike_window_ms=WINDOW_MS)


# --- the queue -----------------------------------------------------------------------------------


def test_first_come_first_served() -> None:
    """Whoever asked first goes first, whatever became of those before."""
    world = Crossing(ONE_AT_A_TIME)
    for key in (A, B, C, D):
        world.proposes(key)
    assert world.queued(world.target()) == [B, C, D]
    world.fails(A)
    assert world.status(B) is Status.ATTEMPTING
    world.hears(x.cancel(C))
    world.completes(B)
    assert world.status(D) is Status.ATTEMPTING
    world.completes(D)
    assert world.target().reservations == ()


def test_other_targets_and_tenants_do_not_wait() -> None:
    """A target is one thing of one tenant."""
    world = Crossing(ONE_AT_A_TIME)
    world.proposes(A)
    world.proposes(B, target=OTHER)
    world.proposes("charge:v1:globex:renewal-1")
    assert world.status("charge:v1:globex:renewal-1") is Status.ATTEMPTING
    assert world.status(B) is Status.ATTEMPTING


def test_what_is_unknown_keeps_the_others_waiting_until_it_is_settled() -> None:
    """Two truths about one order are one too many."""
    world = Crossing(ONE_AT_A_TIME)
    world.proposes(A)
    world.proposes(B)
    world.loses(A, at=5)
    world.hears(x.tick(), at=10)
    assert world.status(A) is Status.UNKNOWN
    assert world.status(B) is Status.BLOCKED
    world.hears(x.found_out(i.Meaning.EFFECT, lookup=None))
    assert world.status(A) is Status.COMPLETED
    assert world.status(B) is Status.ATTEMPTING


def test_two_targets_in_opposite_order_do_not_lock_each_other() -> None:
    """Everybody takes them in the order of their keys, one by one."""
    world = Crossing(ONE_AT_A_TIME, target_parameters=("text",))
    world.holds_back = True
    world.proposes(A, target=ORDER, text=OTHER)
    world.proposes(B, target=OTHER, text=ORDER)
    asks = [said for said in world.said if isinstance(said, i.GateAsk)]
    assert {said.gate for said in asks} == {gate_key("acme", GateKind.TARGET, ORDER)}
    world.holds_back = False
    world.deliver()
    assert world.statuses(A, B) == [Status.ATTEMPTING, Status.BLOCKED]
    assert world.held(world.target(OTHER)) == [A]
    world.completes(A)
    assert world.status(B) is Status.ATTEMPTING
    assert world.held(world.target()) == world.held(world.target(OTHER)) == [B]


def test_a_target_that_is_declared_later_is_taken_in_its_turn() -> None:
    """Each holds what the other needs from now on: one of them gives way."""
    world = Crossing(ONE_AT_A_TIME)
    world.proposes(A, target=ORDER, text=OTHER, starts=False)
    world.proposes(B, target=OTHER, text=ORDER, starts=False)
    assert world.statuses(A, B) == [Status.READY, Status.READY]
    declared = under(ONE_AT_A_TIME, target_parameters=("text",))
    world.ledger.config = replace(world.ledger.config, catalogue=declared.catalogue)
    for _ in range(3):
        for key in (A, B):
            world.hears(x.tick(stream_key_of(key)))
    assert sorted(world.statuses(A, B)) == [Status.ATTEMPTING, Status.BLOCKED]
    first, second = sorted((A, B), key=lambda key: world.status(key) is Status.BLOCKED)
    world.completes(first)
    assert world.status(second) is Status.ATTEMPTING


@pytest.mark.parametrize("name", ["x" * 300, "two\nlines", " blank", "e\u0301", "a b/c"])
def test_any_text_may_name_a_target(name: str) -> None:
    """What no key can hold is guarded under its hash, and two of the same are one."""
    text = f"""{ceiling("each-hour", "target", window="hour", side_effects=9)}
{passes("each-hour", target=True)}"""
    world = Crossing(text, target_parameters=("text",))
    world.proposes(A, target="order:" + "y" * 240, text=name)
    world.proposes(B, target="order:other", text=name)
    assert world.statuses(A, B) == [Status.ATTEMPTING, Status.BLOCKED]


def test_a_target_that_is_named_twice_is_one() -> None:
    """Nobody waits behind themselves."""
    world = Crossing(ONE_AT_A_TIME, target_parameters=("text",))
    world.proposes(A, text=ORDER)
    assert world.status(A) is Status.ATTEMPTING
    assert len(world.action(A).claims) == 1


@pytest.mark.case("C003")
def test_c003_another_spelling_of_what_it_acts_on_is_the_same_target() -> None:
    """C003: composed or decomposed, the provider hears the same, and so do queue and window."""
    world = Crossing(ONE_AT_A_TIME, target_parameters=("text",), look_alike_window_ms=WINDOW_MS)
    world.proposes(A, target="order:A", text="R\u00e9")
    world.proposes(B, target="order:B", text="Re\u0301")
    assert world.status(B) is Status.BLOCKED
    world.completes(A)
    world.proposes(C, target="order:A", text="Re\u0301", starts=False)
    assert world.status(C) is Status.NEEDS_REVIEW


def test_a_person_lets_two_at_one_target() -> None:
    """The one who is blocked names whom it may pass, and nobody else gets through with it."""
    world = Crossing(ONE_AT_A_TIME)
    for key in (A, B, C):
        world.proposes(key)
    world.loses(A, at=5)
    waits = blocking(world.action(B))
    assert waits is not None
    assert waits.may_be_allowed
    assert refused(world.allows(B, C)) is Rejection.ACCEPTS_UNFIT
    assert refused(world.allows(B, None)) is Rejection.ACCEPTS_UNFIT
    assert world.status(B) is Status.BLOCKED
    world.allows(B, A)
    assert world.status(B) is Status.ATTEMPTING
    assert world.held(world.target()) == [A, B]
    assert world.status(C) is Status.BLOCKED
    world.completes(B)
    assert world.status(C) is Status.BLOCKED


def test_what_was_let_pass_is_not_let_pass_again() -> None:
    """The same signature about the same version counts once."""
    world = Crossing(ONE_AT_A_TIME)
    world.proposes(A)
    world.proposes(B)
    world.allows(B, A)
    assert refused(world.allows(B, A)) is Rejection.NO_CASE
    assert world.status(B) is Status.ATTEMPTING


def test_a_full_gate_says_so() -> None:
    """Whoever comes when a gate holds as much as it can comes to a person, and holds nothing."""
    world = Crossing(ONE_AT_A_TIME)
    keys = [f"charge:v1:acme:event-{number}" for number in range(RESERVATIONS_MAX + 1)]
    for key in keys:
        world.proposes(key, starts=False)
    assert world.refusal(keys[-1]) == ("gate_full", None)
    assert len(world.target().reservations) == RESERVATIONS_MAX
    world.hears(x.cancel(keys[1]))
    world.settles(keys[-1], Move.TRY_AGAIN)
    assert world.status(keys[-1]) is Status.BLOCKED


# --- look-alikes ---------------------------------------------------------------------------------


def test_the_same_again_under_another_key_is_held() -> None:
    """Equal in everything but its key, within the window: a person looks first."""
    world = alike()
    world.proposes(A)
    world.completes(A)
    world.proposes(B)
    assert world.refusal(B) == ("suspected_duplicate", A)
    assert world.target().reservations == ()


def test_something_else_is_let_through() -> None:
    """Another amount at the same target, of another run or of none, is another thing."""
    world = alike()
    world.proposes(A, run="r1")
    world.completes(A)
    for key, run in ((B, "r2"), (C, None)):
        world.proposes(key, money=TWICE if key == B else Money(minor=1, currency="EUR"), run=run)
        assert world.status(key) is Status.ATTEMPTING
        world.completes(key)


def test_something_like_it_in_the_same_run_is_held() -> None:
    """An agent that tries again with other words means the same."""
    world = alike()
    world.proposes(A, run="r1")
    world.completes(A)
    world.proposes(B, money=TWICE, run="r1")
    assert world.refusal(B) == ("suspected_duplicate", A)


def test_an_intended_repetition_says_so() -> None:
    """`occurrence` tells the second from the first; the second of the same name is held again."""
    world = alike()
    world.proposes(A, occurrence="january")
    world.completes(A)
    world.proposes(B, occurrence="february")
    assert world.status(B) is Status.ATTEMPTING
    world.completes(B)
    world.proposes(C, occurrence="january")
    assert world.refusal(C) == ("suspected_duplicate", A)


@pytest.mark.case("C003")
@pytest.mark.parametrize("run", [None, "r1"])
def test_c003_what_is_not_settled_is_seen_however_long_ago_it_was_asked_for(
    run: str | None,
) -> None:
    """C003: the first is unknown for longer than the window. Asked for again it is held: behind the
    first it would have waited, and gone out by itself once that was found to be there.
    """
    world = alike()
    world.proposes(A, run=run)
    world.loses(A, at=5)
    world.proposes(B, run=run, money=TWICE if run else None, at=2 * WINDOW_MS)
    assert world.refusal(B) == ("suspected_duplicate", A)
    world.proposes(C, run="r2", money=Money(minor=1, currency="EUR"))
    world.proposes(D, run="r2", money=TWICE, at=4 * WINDOW_MS)
    assert world.statuses(A, C) == [Status.UNKNOWN, Status.BLOCKED]
    assert world.refusal(D) == ("suspected_duplicate", C)
    world.hears(x.found_out(i.Meaning.EFFECT, lookup=None))
    assert world.statuses(A, B, C) == [Status.COMPLETED, Status.NEEDS_REVIEW, Status.ATTEMPTING]
    assert world.action(B).attempts == ()


def test_an_operation_without_a_window_suspects_nothing() -> None:
    """Two of the same go one after the other."""
    world = Crossing(ONE_AT_A_TIME)
    world.proposes(A, run="r1")
    world.proposes(B, run="r1")
    assert world.status(B) is Status.BLOCKED
    world.completes(A)
    assert world.status(B) is Status.ATTEMPTING


def test_what_waits_in_the_queue_is_seen_too() -> None:
    """Two of the same behind a third are two of the same."""
    world = alike()
    world.proposes(A, money=TWICE)
    world.proposes(B)
    world.proposes(C)
    assert world.status(B) is Status.BLOCKED
    assert world.refusal(C) == ("suspected_duplicate", B)


def test_each_look_alike_is_let_pass_by_its_own_name() -> None:
    """The newest is told first, and whoever lets it pass reads that another one may follow."""
    world = alike()
    world.proposes(A)
    world.completes(A)
    world.proposes(B)
    world.allows(B, A)
    world.completes(B)
    world.proposes(C)
    assert world.refusal(C) == ("suspected_duplicate", B)
    operation = world.ledger.config.operation("charge", 1)
    (said,) = (
        one.sentence
        for one in moves(world.action(C), operation, world.ledger.config, world.now)
        if one.move is Move.ALLOW
    )
    assert B in said
    assert "should another look like it too, a person is asked about that one" in said
    world.allows(C, B)
    assert world.refusal(C) == ("suspected_duplicate", A)
    world.allows(C, A)
    assert world.status(C) is Status.ATTEMPTING


def test_over_the_window_it_is_another_time() -> None:
    """The window counts from when the effect of the first was there, to the millisecond."""
    for late, expected in ((WINDOW_MS - 1, Status.NEEDS_REVIEW), (WINDOW_MS, Status.ATTEMPTING)):
        world = alike()
        world.proposes(A)
        world.completes(A)
        world.proposes(B, at=late)
        assert world.status(B) is expected


@pytest.mark.case("C003")
@pytest.mark.parametrize("late", [WINDOW_MS - 1, WINDOW_MS])
def test_c003_what_was_settled_late_is_known_for_the_whole_window_from_then(late: int) -> None:
    """C003: the first was unknown for longer than the window, and was found to be there. Whoever
    had waited for that with the same under another key is held, as right after any effect.
    """
    world = alike()
    world.proposes(A)
    world.loses(A, at=5)
    settled_at = 3 * WINDOW_MS
    world.hears(x.found_out(i.Meaning.EFFECT, lookup=None), at=settled_at)
    assert world.target().reservations == ()
    world.proposes(B, at=settled_at + late)
    expected = Status.NEEDS_REVIEW if late < WINDOW_MS else Status.ATTEMPTING
    assert world.status(B) is expected


def test_what_had_no_effect_is_nobodys_duplicate() -> None:
    """The first came to nothing: the same again is the way to go."""
    world = alike()
    world.proposes(A)
    world.fails(A)
    world.proposes(B)
    assert world.status(B) is Status.ATTEMPTING


def test_a_look_alike_that_a_person_lets_pass_goes_on() -> None:
    """It waits for its turn at the target as any other, and is remembered itself."""
    world = alike()
    world.proposes(A)
    world.completes(A)
    world.proposes(B)
    assert refused(world.allows(B, C)) is Rejection.ACCEPTS_UNFIT
    world.allows(B, A)
    assert world.status(B) is Status.ATTEMPTING
    world.completes(B)
    world.proposes(C)
    assert world.refusal(C) == ("suspected_duplicate", B)


def test_a_gate_remembers_so_many_and_no_more() -> None:
    """The oldest are forgotten first: a gate stays small."""
    world = alike()
    keys = [f"charge:v1:acme:event-{number}" for number in range(RECENT_MAX + 2)]
    for number, key in enumerate(keys):
        world.proposes(key, money=Money(minor=100 + number, currency="EUR"))
        world.completes(key)
    recent = world.target().recent
    assert [one.action for one in recent] == keys[2:]


# --- what is said to a gate ----------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["granted", "queued"])
def test_an_answer_that_nobody_waits_for_goes_back(outcome: str) -> None:
    """A grant that comes after the action was taken back is closed at once."""
    world = Crossing(ONE_AT_A_TIME)
    if outcome == "queued":
        world.proposes(B)
    world.holds_back = True
    world.proposes(A)
    world.hears(world.ledger.said.popleft())
    (answer,) = world.said
    assert isinstance(answer, i.GateAnswer)
    assert answer.outcome == outcome
    world.hears(x.cancel(A))
    world.ledger.said.clear()
    decision = world.hears(answer)
    assert decision.unchanged is not None
    assert decision.unchanged.reason == "not_wanted"
    (closing,) = world.said
    assert isinstance(closing, i.GateClose)
    assert (closing.grant, closing.spent) == (answer.grant, False)
    world.deliver()
    assert A not in world.held(world.target())
    assert A not in world.queued(world.target())


def test_a_question_that_comes_after_its_end_is_closed_again() -> None:
    """The broker delivers an old question: what is granted for it does not stay."""
    world = Crossing(ONE_AT_A_TIME)
    world.holds_back = True
    world.proposes(A)
    (question,) = world.said
    world.deliver()
    world.completes(A)
    world.deliver()
    world.hears(question)
    assert world.held(world.target()) == [A]
    world.deliver()
    assert world.target().reservations == ()
    assert world.status(A) is Status.COMPLETED


def test_a_lost_word_of_an_effect_is_asked_for() -> None:
    """The gate sends a grant again that nobody kept, and hears that it is spent."""
    world = Crossing(ceiling(side_effects=3) + passes("run"))
    world.proposes(A, run="r1")
    world.holds_back = True
    world.completes(A)
    world.ledger.said.clear()
    world.holds_back = False
    assert world.held(world.run()) == [A]
    world.waits(ms=5_000)
    assert world.run().reservations == ()
    assert world.run().used["side_effects"] == 1


def test_messages_about_nothing_change_nothing() -> None:
    """What names no action, no reservation or another grant is answered and leaves no trace."""
    world = Crossing(ONE_AT_A_TIME)
    world.proposes(A)
    gate = gate_key("acme", GateKind.TARGET, ORDER)
    before = world.target()
    held = before.reservations[0]
    for said in (
        i.GateKeep(gate=gate, action=B, round=1, grant=1),
        i.GateKeep(gate=gate, action=A, round=held.round, grant=9),
        i.GateClose(gate=gate, action=A, round=held.round, grant=9),
        i.GateClose(gate=gate, action=B, round=held.round),
    ):
        assert world.hears(said).gate is None
    assert world.target() == before
    for answer in (
        i.GateAnswer(key=B, gate=gate, round=1, outcome="granted", grant=1),
        i.GateTaken(key=B, gate=gate, round=1),
    ):
        assert refused(world.hears(answer)) is Rejection.UNKNOWN_ACTION
    assert world.hears(i.GateTaken(key=A, gate=gate, round=held.round)).facts == ()


def test_identity_is_what_is_asked_for() -> None:
    """The examples of golden bytes say what an action says."""
    world = alike()
    world.holds_back = True
    world.proposes(A, run="run-7")
    (question,) = world.said
    assert isinstance(question, i.GateAsk)
    assert question.identity == identity()
