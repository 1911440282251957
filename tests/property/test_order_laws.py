"""Laws of what revises and what compensates another action, over histories of one business event in
which everything may happen in any order.
"""

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.core import inputs as i
from ledger.core.facts import AttemptStarted
from ledger.core.inputs import Meaning, Retry
from ledger.core.order import is_reversed, is_without_effect, lineage, original_of
from ledger.core.state import Action, Status
from ledger.core.statement import Move, Say
from tests import examples as x
from tests.examples import CHARGE, PAYOUT
from tests.unit.core.beside import Event, eur

CHARGES = (CHARGE, f"{CHARGE}~2", f"{CHARGE}~3")
REFUNDS = (PAYOUT, f"{PAYOUT}~2", f"{PAYOUT}#more")
KEYS = (*CHARGES, *REFUNDS)
EARLIER = {CHARGES[1]: CHARGES[0], CHARGES[2]: CHARGES[1], REFUNDS[1]: REFUNDS[0]}
ANSWERS: tuple[i.ReportedOutcome, ...] = (
    x.success(),
    x.no_answer(),
    x.refusal(),
    x.refusal("declined", Retry.NEVER),
)

STEPS = st.one_of(
    st.tuples(st.just("propose"), st.sampled_from(KEYS), st.sampled_from((1_000, 3_000, 4_990))),
    st.tuples(st.just("go"), st.sampled_from((1, 40_000))),
    st.tuples(st.just("answer"), st.sampled_from(KEYS), st.sampled_from(ANSWERS)),
    st.tuples(st.just("evidence"), st.sampled_from(KEYS), st.sampled_from(list(Meaning))),
    st.tuples(st.just("say"), st.sampled_from(KEYS), st.sampled_from((Say.APPROVE,) * 3 + (*Say,))),
    st.tuples(st.just("settle"), st.sampled_from(KEYS), st.sampled_from(list(Move))),
    st.tuples(st.just("allow"), st.sampled_from(KEYS)),
    st.tuples(st.just("cancel"), st.sampled_from(KEYS)),
)


def _take(event: Event, step: tuple[object, ...]) -> None:
    """One step, where it makes sense at all."""
    match step:
        case "propose", str(key), int(minor):
            links = {"revises": EARLIER.get(key)}
            if key in REFUNDS:
                links["compensates"] = CHARGE
            event.propose(key, acts=True, money=eur(minor), **links)
        case "go", int(later):
            event.goes_on(later=later)
        case "cancel", str(key):
            event.take(x.cancel(key))
        case str(what), str(key), *said:
            action = event.known.stream.action(key)
            if action is not None:
                _about(event, what, action, *said)
        case _:
            raise AssertionError(step)


def _about(event: Event, what: str, action: Action, said: object = None) -> None:
    match what, said:
        case "answer", _ if action.attempts:
            event.reports(action.key, said)  # type: ignore[arg-type] # an answer of the list
        case "evidence", Meaning() as meaning:
            lookup = action.lookups_asked or None
            reference = action.reference or x.REFERENCE
            money = action.request.money
            number = len(event.facts)
            event.take(
                x.found_out(
                    meaning,
                    key=action.key,
                    lookup=lookup,
                    source=f"source:{number}",
                    reference=reference,
                    money=money,
                )
            )
        case "say", Say() as say if action.approval is not None:
            event.says(action.key, say)
        case "settle", Move() as move if action.case is not None:
            event.settles(action.key, move)
        case "allow", None if action.blocked is not None:
            event.allows(action.key, action.blocked.by)
        case _:
            return


def _undone(event: Event) -> Iterator[Action]:
    """What undoes the charge, or still may."""
    for action in event.known.stream.actions:
        if action.compensates == CHARGE and not is_without_effect(action):
            yield action


@given(st.lists(STEPS, max_size=24))
@settings(max_examples=250, deadline=None)
def test_whatever_happens_order_and_amounts_hold(steps: list[tuple[object, ...]]) -> None:
    """Nothing that is revised starts; nothing is undone before it is settled that there is
    something to undo; what is undone, and may be, is never more than what was done; nobody but a
    person lets a second request of one act begin.
    """
    event = Event()
    for step in steps:
        told = len(event.facts)
        before = event.known.stream
        _take(event, step)
        stream = event.known.stream
        started = {f.action for f in event.facts[told:] if isinstance(f, AttemptStarted)}
        for key in started:
            action = event.action(key)
            earlier = before.action(key) or action
            assert action.revised_by is None
            if earlier.is_open:
                continue
            original = original_of(stream, action)
            assert original is None or (original.is_final and not original.is_open)
            for one in lineage(stream, action):
                assert not one.is_open or one.key in action.allowed
            if action.revises is not None:
                assert action.approval is not None
                assert action.approval.is_met
        original = stream.action(CHARGE)
        counted = [one for one in _undone(event) if not is_reversed(one)]
        if original is not None and original.request.money is not None:
            whole = original.request.money.minor
            assert sum(one.request.money.minor for one in counted if one.request.money) <= whole
        for one in stream.actions:
            assert one.revised_by is None or one.status is not Status.READY


def test_the_histories_reach_what_they_are_about() -> None:
    """Revisions and refunds that begin, and one of each that is blocked."""
    event = Event()
    told: tuple[tuple[object, ...], ...] = (
        ("propose", CHARGE, 4_990),
        ("propose", CHARGES[1], 3_000),
        ("propose", PAYOUT, 1_000),
        ("answer", CHARGE, x.success()),
        ("say", CHARGES[1], Say.APPROVE),
        ("go", 1),
        ("go", 1),
    )
    for step in told:
        _take(event, step)
    begun = [fact.action for fact in event.facts if isinstance(fact, AttemptStarted)]
    assert begun == [CHARGE, PAYOUT, CHARGES[1]] or begun == [CHARGE, CHARGES[1], PAYOUT]
    assert event.count("action.blocked", CHARGES[1]) == 1
    assert event.count("action.blocked", PAYOUT) == 1
