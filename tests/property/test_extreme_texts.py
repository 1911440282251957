"""No follower of the ledger ends at a record that counts, however long a text is or large a number
that the door of an inbox took: one such record would end it again at each of its starts.
"""

import random
from collections.abc import Iterator
from typing import Any, Final

import pytest
from pydantic import ValidationError

from ledger.audit.replay import Replay
from ledger.client.progress import ActionsSeen
from ledger.core import inputs as i
from ledger.core.limits import INTEGER_MAX, TEXT_CHARS_MAX
from ledger.core.records import Decision
from ledger.core.wire import Wire
from ledger.log.attention_record import AttentionRaised, read_attention
from ledger.log.fold import PartitionFold
from ledger.log.port import Record
from ledger.log.topics import Topic
from projections.fold import fold_batch, read_batch
from projections.rows import PROJECTED, REFERENCES
from streams.assignments import Assignments
from streams.inquiring import Inquiring
from streams.owner import Owner
from tests import examples as x
from tests import ledgers
from tests.ledgers import GENERATION, LedgerBuilder, history, topic_of

TEXTS: Final = ("", "x" * TEXT_CHARS_MAX, "\U0001f600" * TEXT_CHARS_MAX, "a:b\tc")
NUMBERS: Final = (0, 1, INTEGER_MAX - 1, INTEGER_MAX)
FITTING: Final = frozenset(
    [
        "key",
        "holder",
        "attempt",
        "fencing_token",
        "lookup",
        "preview",
        "gate",
        "kind",
        "meaning",
        "operation",
        "version",
    ]
)
"""What has to fit the action as it stands, or the input would be refused at the door."""

INDEXED_BYTES_MAX: Final = 2_000
"""Of 2,704 that Postgres takes into one entry of a B-tree."""


class Extreme(LedgerBuilder):
    """Some of what every input from outside says is as long or as large as its door lets pass."""

    chance: random.Random

    def take(self, given: i.Decidable, **more: Any) -> Decision:  # noqa: ANN401 - passed on
        """Decide the input with some fields at their ends, or, where that is refused by a fault
        that the owner sets aside, as it was.
        """
        if isinstance(given, Wire) and topic_of(given) != Topic.INTERNAL:
            try:
                return super().take(_stretched(self.chance, given), **more)
            except ValidationError:
                pass
        return super().take(given, **more)


def _stretched(chance: random.Random, given: i.Decidable) -> i.Decidable:
    assert isinstance(given, Wire)
    said = given.model_dump(mode="json", exclude_none=True)
    for holder, name in list(_leaves(said)):
        if chance.random() < 0.3:
            was = holder[name]
            holder[name] = chance.choice(TEXTS if isinstance(was, str) else NUMBERS)
            try:
                given = type(given).model_validate(said, strict=False)
            except ValidationError:
                holder[name] = was
    return given


def _leaves(said: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - JSON
    names = said.items() if isinstance(said, dict) else enumerate(said)
    for name, value in names:
        if isinstance(value, dict | list):
            yield from _leaves(value)
        elif isinstance(value, str | int) and not isinstance(value, bool) and name not in FITTING:
            yield said, name


@pytest.fixture(params=range(12))
def records(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """A ledger of two hundred inputs."""
    monkeypatch.setattr(ledgers, "LedgerBuilder", Extreme)
    monkeypatch.setattr(Extreme, "chance", random.Random(request.param), raising=False)
    return history(request.param, events=3).records()


def test_inquirer(records: list[Record]) -> None:
    """It reads on, and what it tells can be read."""
    follower = Inquiring(0)
    for record in records:
        follower.feed(record)
    for notice in follower.notices():
        told = Record("attention", notice.partition, 0, 0, None, notice.record.value, ())
        assert isinstance(read_attention(told), AttentionRaised)


def test_a_code_of_full_length_is_told_with_what_stands_before_it() -> None:
    """Of a failure that ends an uncertain action: one such record ended every inquirer."""
    builder = LedgerBuilder()
    builder.take(x.propose())
    builder.take(x.report(x.no_answer()))
    builder.take(x.report(x.refusal("c" * TEXT_CHARS_MAX, i.Retry.NEVER)), later_ms=5)
    follower = Inquiring(0)
    for record in builder.records():
        follower.feed(record)
    *_, last = follower.notices()
    told = read_attention(Record("attention", 0, 0, 0, None, last.record.value, ()))
    assert isinstance(told, AttentionRaised)
    assert told.code == f"failed:{'c' * TEXT_CHARS_MAX}"[:TEXT_CHARS_MAX]


def test_projector(records: list[Record]) -> None:
    """Every decision becomes rows, and every key of a row fits an index."""
    batch = fold_batch(read_batch({0: PartitionFold(0)}, records), {})
    assert batch.stopped == []
    for table in PROJECTED:
        # Of a reference its hash stands in the index.
        key = [name for name in table.key if (table, name) != (REFERENCES, "reference")]
        for row in batch.rows.get(table.name, ()):
            cells = dict(zip(table.columns, row, strict=True))
            assert sum(len(str(cells[name]).encode()) for name in key) <= INDEXED_BYTES_MAX


def test_client(records: list[Record]) -> None:
    """The gateway's view, read at once and read when somebody asks."""
    at_once, later = ActionsSeen(1, {}), ActionsSeen(1, {})
    for record in records:
        at_once.feed(record)
        later.feed_later(record)
    for key in x.KEYS:
        assert at_once.progress_of(key) == later.progress_of(key)


def test_executor(records: list[Record]) -> None:
    """An incarnation that starts name."""
    assignments = Assignments("executor-1", ("charge",), {0: 10})
    assignments.caught_up(0)
    for _ in range(1_000):
        assignments.offer(0, 0, valid_ms=1)
    assert [one for record in records for one in assignments.feed(record)]


def test_audit(records: list[Record]) -> None:
    """A replay from the first record."""
    replay = Replay()
    for record in records:
        replay.feed(record)
    assert replay.streams


def test_next_owner(records: list[Record]) -> None:
    """Who takes the partition over."""
    owner = Owner(0, 1, GENERATION, "nonce")
    for record in records:
        owner.feed(record)
    assert len(owner.memory)
