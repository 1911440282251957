"""What people see beside the payload: which effect is undone by it, and who carries it out. Both
are part of what they sign, and of what a start rests on.
"""

from dataclasses import replace

import pytest

from ledger.core.facts import AttemptStarted, IntentRecorded
from ledger.core.inputs import CallerOffer, Meaning
from ledger.core.preview import Preview, preview_hash
from ledger.core.state import Status
from ledger.log.published import Published
from streams.authorization import Grounds, unallowed
from streams.timetable import next_due_of
from tests import examples as x
from tests.asking import asked, policy
from tests.examples import CHARGE, PAYOUT
from tests.unit.core.beside import GENERATION, Event, eur, world
from tests.unit.core.crossing import passes

OTHER = f"{CHARGE}#gift"
GIFT_UNDONE = f"{PAYOUT}#gift"


def shown(event: Event, key: str = PAYOUT) -> Preview:
    """What people see of an action."""
    dry = event.action(key).dry
    assert dry is not None
    assert dry.content is not None
    return dry.content


def begun(event: Event) -> AttemptStarted:
    """The start that was decided last."""
    return [fact for fact in event.facts if isinstance(fact, AttemptStarted)][-1]


def refusal(event: Event) -> str | None:
    """What an executor says of that start, where the same is published."""
    start, config = begun(event), event.known.config
    recorded = (fact for fact in event.facts if isinstance(fact, IntentRecorded))
    intent = next(fact for fact in recorded if fact.action == start.action)
    read = Published(policy=config.policy, people=config.people)
    read.take_catalogue(config.catalogue, 0)
    read.policies[config.policy.content_hash] = config.policy
    code = unallowed(start, intent, Grounds(read, GENERATION))
    return None if code is None else code.value


def paid_twice() -> Event:
    """Two charges of one event have completed; people are asked about what undoes one."""
    event = Event(world(policy(asked("payout") + passes())))
    event.completes(CHARGE, "ch_shirt")
    event.completes(OTHER, "ch_gift")
    return event


@pytest.mark.law("S4")
def test_people_see_and_sign_what_is_undone() -> None:
    """The action, how it stands, its name at the provider, its target and amount."""
    event = paid_twice()
    event.propose(PAYOUT, compensates=CHARGE, money=eur(1_000))
    undone = shown(event).undoes
    assert undone is not None
    assert (undone.action, undone.status, undone.reference) == (CHARGE, "completed", "ch_shirt")
    assert (undone.target, undone.money) == (x.request(CHARGE).target, x.EUR_49_90)


@pytest.mark.law("S4")
def test_the_same_request_for_another_original_is_not_what_people_signed() -> None:
    """The payload says nothing of it, so its hash is the same; that of what they saw is not."""
    event = paid_twice()
    event.propose(PAYOUT, compensates=CHARGE, money=eur(1_000))
    event.propose(GIFT_UNDONE, compensates=OTHER, money=eur(1_000))
    one, other = event.action(PAYOUT), event.action(GIFT_UNDONE)
    assert one.request_hash == other.request_hash
    assert one.approval is not None
    assert other.approval is not None
    assert one.approval.preview_hash != other.approval.preview_hash


def test_a_start_rests_on_the_original_that_people_saw_at_every_attempt() -> None:
    """Also where an earlier attempt may have had its effect: then nothing of what was foreseen has
    to hold, and what it undoes has to.
    """
    event = paid_twice()
    event.propose(PAYOUT, compensates=CHARGE, money=eur(1_000))
    event.says(PAYOUT)
    assert event.goes_on() == ["attempt.started"]
    first = begun(event)
    assert first.approval is not None
    assert (first.approval.preview, first.approval.is_open) == (shown(event), None)
    assert first.original_reference == "ch_shirt"
    assert refusal(event) is None
    event.reports(PAYOUT, x.no_answer())
    assert event.action(PAYOUT).status is Status.UNKNOWN
    event.goes_on(later=x.LOOKUPS[0])
    event.take(x.found_out(Meaning.PENDING, key=PAYOUT))
    event.now += 60_000
    other = x.offer(at=event.now, until=event.now + 9, key=PAYOUT, incarnation="executor-2")
    event.hears(x.tick(), at=event.now, offer=other)
    again = begun(event)
    assert (again.action, again.attempt) == (PAYOUT, 2)
    assert again.approval is not None
    assert (again.approval.preview, again.approval.is_open) == (shown(event), True)
    assert again.original_reference == "ch_shirt"
    assert again.approval.observed is None
    assert refusal(event) is None


def test_what_undoes_by_itself_is_acted_on() -> None:
    """Where the table asks nobody an executor takes the ledger's word for the effect."""
    event = Event()
    event.completes(CHARGE, "ch_shirt")
    event.propose(PAYOUT, compensates=CHARGE, money=eur(1_000))
    assert event.goes_on() == ["attempt.started"]
    assert (begun(event).original_reference, refusal(event)) == ("ch_shirt", None)


def forget(event: Event, name: str, key: str = PAYOUT) -> None:
    """People were asked by a preview of before, which shows less."""
    earlier = event.action(key)
    assert earlier.dry is not None
    assert earlier.approval is not None
    content = shown(event, key).model_copy(update={name: None})
    digest = preview_hash(content)
    told = replace(
        earlier,
        dry=replace(earlier.dry, content=content, content_hash=digest),
        approval=replace(earlier.approval, preview_hash=digest),
    )
    actions = (told if one.key == key else one for one in event.known.stream.actions)
    stream = replace(event.known.stream, actions=tuple(actions))
    event.known = replace(event.known, stream=stream)


@pytest.mark.parametrize("has_agreed", [False, True])
def test_who_was_shown_no_original_is_asked_anew(has_agreed: bool) -> None:  # noqa: FBT001
    """A log may hold what was asked before people saw it: nothing starts on that."""
    event = paid_twice()
    event.propose(PAYOUT, compensates=CHARGE, money=eur(1_000))
    if has_agreed:
        event.says(PAYOUT)
    forget(event, "undoes")
    now = x.T0 + event.now
    assert next_due_of(event.known.stream, now, event.known.config) == now
    assert event.goes_on() == ["approval.ended", "preview.recorded", "approval.requested"]
    assert shown(event).undoes is not None


def test_what_nobody_is_asked_about_any_more_starts_whatever_was_shown() -> None:
    """Another table lets it go ahead by itself: what people saw before keeps nothing back."""
    event = paid_twice()
    event.propose(PAYOUT, compensates=CHARGE, money=eur(1_000))
    forget(event, "undoes")
    event.known = event.known.under(world(policy(passes())))
    event.goes_on()
    assert event.action(PAYOUT).asks is None
    event.goes_on()
    assert begun(event).action == PAYOUT


def test_people_see_and_sign_that_the_caller_carries_it_out() -> None:
    """The same request of the same agent by the caller itself and by an executor."""
    event = Event(world(policy(asked("charge") + passes()), performer="either"))
    event.propose(CHARGE)
    event.propose(OTHER, caller=CallerOffer(nonce="n" * 20, valid_ms=5_000))
    assert shown(event, CHARGE).performer is None
    assert shown(event, OTHER).performer == "caller"
    assert preview_hash(shown(event, CHARGE)) != preview_hash(shown(event, OTHER))


@pytest.mark.parametrize("has_agreed", [False, True])
def test_who_was_not_shown_who_acts_is_asked_anew(has_agreed: bool) -> None:  # noqa: FBT001
    """By time alone, since nothing else would ever say it; and once."""
    event = Event(world(policy(asked("charge") + passes()), performer="either"))
    event.propose(OTHER, caller=CallerOffer(nonce="n" * 20, valid_ms=5_000))
    if has_agreed:
        event.says(OTHER)
    forget(event, "performer", OTHER)
    now = x.T0 + event.now
    assert next_due_of(event.known.stream, now, event.known.config) == now
    assert event.goes_on() == ["approval.ended", "preview.recorded", "approval.requested"]
    assert shown(event, OTHER).performer == "caller"
    assert event.goes_on() == []


@pytest.mark.law("S4")
def test_a_table_that_demands_an_executor_is_asked_of_every_ruling() -> None:
    """What its caller carries out is denied by it, when it is proposed and under another table."""
    text = (
        passes(more='when.performer = ["executor"]')
        + '[[row]]\nname = "callers"\noutcome = "deny"\nreason = "An executor does it."\n'
    )
    event = Event(world(policy(text), performer="either"))
    event.propose(CHARGE)
    assert event.action(CHARGE).status is Status.READY
    caller = CallerOffer(nonce="n" * 20, valid_ms=5_000)
    assert event.propose(OTHER, caller=caller)[-1] == "action.denied"
    event = Event(world(policy(asked("charge") + passes()), performer="either"))
    event.propose(OTHER, caller=caller)
    event.known = event.known.under(world(policy(text), performer="either"))
    assert event.goes_on()[-1] == "action.denied"
