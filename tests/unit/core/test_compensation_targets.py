"""On what a compensation acts: on what its original did, unless the catalogue lets it be any."""

from dataclasses import replace

from ledger.core import inputs as i
from ledger.core.rejections import Rejection
from ledger.core.state import Status
from tests import examples as x
from tests.examples import CHARGE
from tests.unit.core.beside import Event, world
from tests.unit.core.test_compensations import UNDO, charged, undo


def elsewhere(target: str | None = "order:A-9999") -> i.Propose:
    """The charge given back on another target."""
    request = x.request(UNDO).model_copy(update={"target": target})
    return i.Propose(key=UNDO, request=request, compensates=CHARGE)


def test_it_acts_on_the_target_of_its_original() -> None:
    """Another one is refused by name, with both, and the same key is free for the right one."""
    event = charged()
    event.take(elsewhere())
    assert event.refusal() is Rejection.OTHER_TARGET
    assert [(one.path, one.message) for one in event.details] == [
        ("/target", f"{event.action().request.target} -> order:A-9999")
    ]
    assert undo(event) == ["intent.recorded", "policy.decided"]


def test_it_acts_elsewhere_where_the_catalogue_lets_it() -> None:
    """What is undone says so: then the refund may go to another order."""
    event = Event(world(compensation_target="any"))
    event.completes(CHARGE)
    assert event.take(elsewhere()) == ["intent.recorded", "policy.decided"]
    event.goes_on()
    event.reports(UNDO, x.success("re_1"))
    assert event.action(UNDO).status is Status.COMPLETED


def test_what_takes_no_target_has_none_to_compare() -> None:
    """An operation that undoes without a target of its own is asked for without one."""
    config = world()
    operations = tuple(
        one.model_copy(update={"target": None}) if one.name == "payout" else one
        for one in config.catalogue.operations
    )
    event = Event(replace(config, catalogue=replace(config.catalogue, operations=operations)))
    event.completes(CHARGE)
    assert event.take(elsewhere(None)) == ["intent.recorded", "policy.decided"]


def test_a_revision_does_not_move_it_elsewhere() -> None:
    """A refund that is asked for anew is still one of the same order."""
    event = charged()
    undo(event)
    event.take(elsewhere().model_copy(update={"key": f"{UNDO}~2", "revises": UNDO}))
    assert event.refusal() is Rejection.OTHER_TARGET
