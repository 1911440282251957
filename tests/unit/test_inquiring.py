"""The inquirer's step: which questions it puts and what it tells, from records alone."""

import pytest

from ledger.core import inputs as i
from ledger.log.attention_record import AttentionKind, AttentionRaised, read_attention
from ledger.log.port import Record
from streams.inquiring import BEGINNING, Inquiring, Position
from tests import examples as x
from tests.ledgers import LedgerBuilder, history

LOOKUP_DUE_MS = x.LOOKUPS[0] + 1


def uncertain(builder: LedgerBuilder, key: str = x.CHARGE) -> None:
    """Propose an action, start it, and lose its answer."""
    builder.take(x.propose(key, request=x.request(key)))
    builder.take(x.report(x.no_answer(), key=key))


def asked(builder: LedgerBuilder, key: str = x.CHARGE) -> None:
    """Lose an answer and let the ledger ask for it."""
    uncertain(builder, key)
    builder.take(x.tick(), later_ms=LOOKUP_DUE_MS)


def following(builder: LedgerBuilder, begin: Position = BEGINNING) -> Inquiring:
    """Read everything that was built, as an inquirer does when it begins."""
    step = Inquiring(0, begin)
    for record in builder.records():
        if record.offset >= begin.next_offset:
            step.feed(record)
    return step


def raised(step: Inquiring) -> list[AttentionRaised]:
    """What the step would tell, read back from the bytes."""
    found = []
    for notice in step.notices():
        record = Record("attention", notice.partition, 0, 0, None, notice.record.value, ())
        read = read_attention(record)
        assert isinstance(read, AttentionRaised)
        assert notice.record.key == read.stream.encode()
        found.append(read)
    return found


def test_it_asks_what_the_ledger_asks_once_everything_was_read() -> None:
    """A question is put when all that lay in the partition has been read, and only once."""
    builder = LedgerBuilder()
    asked(builder)
    step = following(builder)
    assert step.take_questions(10) == []
    step.caught_up()
    (question,) = step.take_questions(10)
    assert (question.started.action, question.number) == (x.CHARGE, 1)
    assert step.take_questions(10) == []


def test_a_question_that_was_answered_before_is_not_put_again() -> None:
    """Evidence in the ledger takes the question away, whoever asked it."""
    builder = LedgerBuilder()
    asked(builder)
    builder.take(x.found_out(i.Meaning.INCONCLUSIVE, lookup=1, source="lookup:1"))
    step = following(builder)
    step.caught_up()
    assert step.take_questions(10) == []


def test_a_newer_question_replaces_an_older_one() -> None:
    """Of two questions about an action the newest is put."""
    builder = LedgerBuilder()
    asked(builder)
    builder.take(x.tick(), later_ms=x.LOOKUP_ANSWER_MS + 1)
    step = following(builder)
    step.caught_up()
    assert [one.number for one in step.take_questions(10)] == [2]


def test_the_end_of_an_action_takes_its_question_away() -> None:
    """A webhook settled what was to be asked: nobody asks any more."""
    builder = LedgerBuilder()
    asked(builder)
    builder.take(x.found_out(i.Meaning.EFFECT, lookup=None))
    step = following(builder)
    step.caught_up()
    assert step.take_questions(10) == []


def test_what_a_former_owner_wrote_is_not_asked() -> None:
    """A record that does not count leads to no question, whatever its marks say."""
    builder = LedgerBuilder()
    asked(builder)
    overtaken = [record for record in builder.records() if b"lookup.started" in record.value]
    builder.open_epoch()
    step = Inquiring(0)
    genesis = builder.records()[0]
    for record in builder.records():
        # In its place stands what counts nowhere but at offset 0.
        void = record._replace(value=genesis.value, headers=genesis.headers)
        step.feed(void if record in overtaken else record)
    late = overtaken[0]._replace(offset=len(builder.records()))
    step.feed(late)
    step.caught_up()
    assert step.take_questions(10) == []


def test_it_begins_in_the_middle_where_the_epoch_is_known() -> None:
    """With the epoch of its position it accepts what follows and asks it."""
    builder = LedgerBuilder()
    uncertain(builder)
    begin = Position(len(builder.records()), 1)
    builder.take(x.tick(), later_ms=LOOKUP_DUE_MS)
    step = following(builder, begin)
    step.caught_up()
    assert len(step.take_questions(10)) == 1


def test_the_position_stays_behind_what_is_not_answered_and_told() -> None:
    """From its position another inquirer would ask and tell the same again, and no more."""
    builder = LedgerBuilder()
    asked(builder)
    end = len(builder.records())
    step = following(builder)
    step.caught_up()
    told_at, asked_at = end - 2, end - 1
    assert step.position == Position(told_at, 1)
    step.told(len(step.notices()))
    assert step.position == Position(asked_at, 1)
    (question,) = step.take_questions(10)
    assert step.position == Position(asked_at, 1)
    again = following(builder, step.position)
    again.caught_up()
    assert again.take_questions(10) == [question]
    step.answered(question)
    assert step.position == Position(end, 1)


def test_it_tells_what_became_unknown_and_how_it_was_settled() -> None:
    """Each is told once, under the place of its fact in the ledger."""
    builder = LedgerBuilder()
    uncertain(builder)
    unknown_at = len(builder.records()) - 1
    builder.take(x.found_out(i.Meaning.EFFECT, lookup=None))
    step = following(builder)
    unknown, settled = raised(step)
    assert (unknown.kind, unknown.code) == (AttentionKind.BECAME_UNKNOWN, "response_timeout")
    assert (unknown.ledger_partition, unknown.ledger_offset) == (0, unknown_at)
    assert (settled.kind, settled.code) == (AttentionKind.SETTLED, "completed:webhook")
    assert settled.action == unknown.action == x.CHARGE


def test_what_was_never_uncertain_is_not_told() -> None:
    """An action that went well needs no eyes, and its records are not even read."""
    builder = LedgerBuilder()
    builder.take(x.propose())
    builder.take(x.report(x.success()))
    step = following(builder)
    assert step.notices() == []


def test_a_settlement_is_told_after_a_restart_too() -> None:
    """Actions that the read model calls unknown are watched from the beginning."""
    builder = LedgerBuilder()
    uncertain(builder)
    begin = Position(len(builder.records()), 1)
    builder.take(x.report(x.success()))
    watching, blind = Inquiring(0, begin), Inquiring(0, begin)
    watching.watch([(x.CHARGE, x.STREAM)])
    for step in (watching, blind):
        step.feed(builder.records()[-1])
    assert [one.code for one in raised(watching)] == ["completed:report"]
    assert blind.notices() == []


def test_a_review_is_told_with_its_reason() -> None:
    """What waits for a person is told, and stays uncertain until it is settled."""
    builder = LedgerBuilder()
    uncertain(builder)
    builder.take(x.found_out(i.Meaning.EFFECT, lookup=None).model_copy(update={"money": None}))
    step = following(builder)
    kinds = [(one.kind, one.code) for one in raised(step)]
    assert kinds[-1] == (AttentionKind.NEEDS_REVIEW, "amount_differs")


def test_told_notices_are_gone() -> None:
    """What is durable is not told again by this inquirer."""
    builder = LedgerBuilder()
    uncertain(builder)
    step = following(builder)
    first = step.notices()
    step.told(1)
    assert step.notices() == first[1:]


def test_too_many_questions_stop_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """The step says when nothing more should be read before something is answered."""
    monkeypatch.setattr("streams.inquiring.LOOKUPS_WAITING_MAX", 1)
    builder = LedgerBuilder()
    asked(builder)
    step = following(builder)
    assert step.is_full
    step.caught_up()
    step.take_questions(1)
    assert not step.is_full


@pytest.mark.parametrize("seed", range(20))
def test_skipping_changes_nothing(seed: int) -> None:
    """With marks or without, the same questions are asked and the same notices told."""
    builder = history(seed, steps=150)
    marked, unmarked = Inquiring(0), Inquiring(0)
    for record in builder.records():
        marked.feed(record)
        unmarked.feed(record._replace(headers=()))
    for step in (marked, unmarked):
        step.caught_up()
    assert marked.notices() == unmarked.notices()
    assert marked.position == unmarked.position
    assert marked.take_questions(1_000) == unmarked.take_questions(1_000)


@pytest.mark.parametrize("seed", range(20))
def test_every_open_question_of_the_ledger_is_asked(seed: int) -> None:
    """What the folded state holds as asked and not answered is exactly what is taken."""
    builder = history(seed, steps=150)
    step = following(builder)
    step.caught_up()
    taken = {(one.started.action, one.number) for one in step.take_questions(1_000)}
    open_now = {
        (action.key, action.lookup.number)
        for stream in builder.streams.values()
        for action in stream.actions
        if action.lookup is not None
    }
    assert open_now <= taken
