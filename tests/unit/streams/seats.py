"""Where a decision will stand, and records as they are read: to test what comes of an input."""

from collections.abc import Callable

from ledger.core.config import Config
from ledger.core.offers import Offer
from ledger.core.state import Stream
from ledger.core.wire import Wire
from ledger.log.envelope import outgoing
from ledger.log.fold import InForce
from ledger.log.port import Record
from ledger.log.topics import partition_of
from streams.deciding import Made, Seat, make_decision
from tests.examples import CONFIG, STREAM, T0
from tests.unit.core.language import Given

PARTITIONS = 4
PARTITION = partition_of(STREAM, PARTITIONS)


def no_capacity(operation: str, declined_by: frozenset[str]) -> Offer | None:
    """Nobody offers anything."""
    return None


def seat(
    history: Given | None = None,
    *,
    config: Config | None = CONFIG,
    partition: int = PARTITION,
    pick: Callable[[str, frozenset[str]], Offer | None] = no_capacity,
) -> Seat:
    """A place for the next decision, in view of a history."""
    known = Stream(STREAM) if history is None else history.stream

    def stream_of(key: str) -> Stream:
        return known if key == STREAM else Stream(key)

    return Seat(
        at=7,
        epoch=2,
        generation="generation-1",
        partition=partition,
        partitions=PARTITIONS,
        decided_at=T0,
        running_at=T0,
        config=config,
        in_force=InForce() if config is None else InForce(holds=config.holds),
        stream_of=stream_of,
        pick=pick,
        pick_for_new=lambda operation: pick(operation, frozenset()),
    )


def record(
    given_input: Wire, *, topic: str = "intents", stream: str = STREAM, offset: int = 3
) -> Record:
    """An input as it is read from its inbox."""
    sent = outgoing(given_input, stream=stream, subject=None, event_id="e-1", source="/tests")
    return Record(topic, PARTITION, offset, T0, sent.key, sent.value, sent.headers)


def made(read: Record, at: Seat) -> Made:
    """The answer to a record that is an input."""
    answer = make_decision(read, at)
    assert answer is not None
    return answer
