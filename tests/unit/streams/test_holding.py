"""A hold in one partition: adopted like any configuration, heeded from there on."""

from typing import Literal

import pytest

from ledger.core import inputs as i
from ledger.core.holds import Order, Scope, order_hash
from ledger.core.limits import HOLDS_MAX
from ledger.core.records import Decision, EpochOpened
from ledger.core.rejections import Rejection
from ledger.core.state import Status
from ledger.log.adoption import Adoption
from ledger.log.envelope import read_ledger
from ledger.log.fold import PartitionFold
from ledger.log.port import Record
from ledger.log.published import Published
from tests.examples import CATALOGUE_TEXT, T0, propose
from tests.ledgers import LedgerBuilder
from tests.unit.streams.test_deciding import publish
from tests.unit.streams.test_owner import Run, charge, waiting

Kind = Literal["hold", "release"]


def ordered(kind: Kind, *, content_hash: str | None = None, **scope: str) -> i.Publish:
    """An order as an operator publishes it."""
    content = Order(scope=Scope(**scope), by="ops").model_dump_json(exclude_none=True)
    return i.Publish(kind=kind, content=content, content_hash=content_hash or order_hash(content))


def hear(run: Run, published: i.Publish) -> Decision:
    """What the owner answers to a record of the config topic."""
    (decision,) = run.decide(run.record(published, topic="config", stream=published.kind))
    return decision


def statuses(run: Run) -> list[Status]:
    """How the only action of each stream stands."""
    return [stream.actions[0].status for stream in run.owner.memory]


def decide_ticks(run: Run) -> list[Decision]:
    """Write the ticks that are due, and decide them."""
    ticks = run.owner.ticks(run.mono_ms)
    return run.decide(*(run.read(tick, topic="internal") for tick in ticks)) if ticks else []


def test_a_hold_is_adopted_with_who_and_why() -> None:
    """It stands in the ledger as it was said, and in the state of the partition."""
    run = Run()
    adopted = hear(run, ordered("hold", provider="simulated")).adopted
    assert adopted is not None
    assert (adopted.kind, adopted.content) == (
        "hold",
        ordered("hold", provider="simulated").content,
    )
    (hold,) = run.owner.fold.holds
    assert (str(hold.scope), hold.by, hold.offset) == ("provider simulated", "ops", adopted.offset)


def test_what_changes_nothing_is_answered_by_its_name() -> None:
    """The same hold twice is one; what is not held cannot be released; there is an end to holds."""
    run = Run()
    assert hear(run, ordered("hold", tenant="acme")).adopted is not None
    again = hear(run, ordered("hold", tenant="acme"))
    assert again.unchanged is not None
    assert again.unchanged.reason == "held_already"
    foreign = hear(run, ordered("release", tenant="other"))
    assert foreign.refused is not None
    assert foreign.refused.code is Rejection.INVALID_CONFIGURATION
    assert [detail.code for detail in foreign.refused.details] == ["not_held"]
    for number in range(1, HOLDS_MAX):
        hear(run, ordered("hold", tenant=f"t{number}"))
    beyond = hear(run, ordered("hold", tenant="one-more"))
    assert beyond.refused is not None
    assert [detail.code for detail in beyond.refused.details] == ["too_many_holds"]
    assert len(run.owner.fold.holds) == HOLDS_MAX


@pytest.mark.parametrize(
    "published",
    [
        ordered("hold", content_hash="sha256:00"),
        i.Publish(kind="hold", content="{}", content_hash=order_hash("{}")),
        i.Publish(kind="release", content="no json", content_hash=order_hash("no json")),
    ],
)
def test_what_is_no_order_is_refused(published: i.Publish) -> None:
    """A broken order holds nothing, releases nothing, and is refused by name."""
    run = Run()
    hear(run, ordered("hold"))
    refused = hear(run, published).refused
    assert refused is not None
    assert refused.code is Rejection.INVALID_CONFIGURATION
    assert len(run.owner.fold.holds) == 1


def test_nothing_starts_under_a_hold_and_everything_does_after_it() -> None:
    """Capacity comes and is left alone, with no tick for nothing; the release brings the ticks."""
    run = Run()
    waiting(run, 3)
    hear(run, ordered("hold", operation="charge"))
    run.offered(10)
    assert decide_ticks(run) == []
    run.decide(run.record(charge(9), stream="acme/e9"))
    assert set(statuses(run)) == {Status.READY}
    hear(run, ordered("release", operation="charge"))
    decide_ticks(run)
    assert set(statuses(run)) == {Status.ATTEMPTING}


def test_a_hold_in_the_same_batch_comes_before_what_follows_it() -> None:
    """An intent that is decided behind the hold does not start, though it came in one batch."""
    run = Run()
    run.offered(10)
    hold = run.record(ordered("hold", tenant="acme"), topic="config", stream="hold")
    run.decide(hold, run.record(propose(), stream="acme/renewal-1"))
    assert statuses(run) == [Status.READY]


def test_only_what_is_covered_waits() -> None:
    """Another tenant's action starts while the first one is held."""
    run = Run()
    run.offered(10)
    hear(run, ordered("hold", tenant="acme"))
    other = propose("charge:v1:other:e1")
    run.decide(run.record(charge(1), stream="acme/e1"), run.record(other, stream="other/e1"))
    assert statuses(run) == [Status.READY, Status.ATTEMPTING]


def test_the_next_epoch_tells_the_holds_and_the_next_owner_heeds_them() -> None:
    """Who takes the partition over reads them from its ledger, as every other reader does."""
    run = Run()
    hear(run, ordered("hold", provider="simulated"))
    opened = read_ledger(run.owner.barrier().value)
    assert isinstance(opened, EpochOpened)
    assert opened.holds == run.owner.fold.holds
    fold = PartitionFold(0, epoch=opened.epoch - 1, next_offset=opened.at)
    fold.apply(opened)
    assert fold.holds == run.owner.fold.holds


def test_a_hold_before_any_catalogue_counts_from_the_first_one() -> None:
    """Nothing is lost of an order that came before there was anything to hold."""
    run = Run(LedgerBuilder().records()[:1])
    hear(run, ordered("hold"))
    assert not run.owner.is_configured
    hear(run, publish(CATALOGUE_TEXT))
    run.offered(10)
    run.decide(run.record(propose(), stream="acme/renewal-1"))
    assert statuses(run) == [Status.READY]


# --- as it was published, and who has adopted it -----------------------------------------------


def test_what_was_published_is_folded_as_owners_do() -> None:
    """A broken order, a hold twice and a release of nothing leave what was."""
    run, published = Run(), Published()
    said = (
        ordered("hold", tenant="acme"),
        ordered("hold", tenant="acme"),
        ordered("hold", content_hash="sha256:00"),
        ordered("release", tenant="other"),
        ordered("hold", provider="simulated"),
        ordered("release", tenant="acme"),
    )
    for offset, one in enumerate(said):
        sent = run.record(one, topic="x", stream="hold")
        published.feed(sent._replace(topic="config", offset=offset))
    assert [(str(hold.scope), hold.offset) for hold in published.holds] == [
        ("provider simulated", 4)
    ]
    assert published.next_offset == len(said)


def test_a_partition_has_adopted_what_its_accepted_ledger_answers() -> None:
    """An answer of an owner that was overtaken counts for nothing; the records between are passed
    over by their marks.
    """
    run = Run()
    epoch = run.owner.fold.epoch
    begin = run.owner.fold.next_offset
    records = [
        run.record(charge(1), stream="acme/e1"),
        run.record(ordered("hold"), topic="config", stream="hold"),
    ]
    offset = records[1].offset
    batch = run.owner.take(records, 0)
    written = [
        Record("ledger", 0, begin + place, T0, sent.key, sent.value, sent.headers)
        for place, sent in enumerate(batch.records)
    ]

    def adoption(epoch: int) -> Adoption:
        return Adoption({0: PartitionFold(0, epoch=epoch, next_offset=begin)}, offset)

    current, later = adoption(epoch), adoption(epoch + 1)
    waited = current.waiting
    for record in written:
        current.feed(record)
        later.feed(record)
    assert (waited, current.waiting, later.waiting) == ((0,), (), (0,))
