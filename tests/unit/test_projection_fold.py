"""The projection's step: what each record becomes, and where it stops."""

import pytest
from pydantic_core import from_json

from ledger.core import inputs as i
from ledger.core.snapshot import dump
from ledger.core.state import Stream
from ledger.log.fold import PartitionFold
from ledger.log.port import Record
from projections.fold import Batch, fold_batch, read_batch
from projections.rows import ACTIONS, DECISIONS, EVENTS, PROJECTED, REVIEW_CASES, Table
from tests import examples as x
from tests.ledgers import LedgerBuilder, history

Named = dict[str, object]


def fold(records: list[Record], partitions: int = 1) -> Batch:
    """A batch from the very beginning."""
    folds = {place: PartitionFold(place) for place in range(partitions)}
    return fold_batch(read_batch(folds, records), {})


def named(batch: Batch, table: Table) -> list[Named]:
    """Rows of a table by the names of their columns."""
    rows = batch.rows.get(table.name, [])
    return [dict(zip(table.columns, row, strict=True)) for row in rows]


def one_action(batch: Batch) -> Named:
    """The row of the only action."""
    (row,) = named(batch, ACTIONS)
    return row


def test_an_intent_becomes_an_action() -> None:
    """A recorded intent without capacity is ready, has a deadline, and bears its request."""
    builder = LedgerBuilder()
    builder.take(x.propose(), executor=None)
    row = one_action(fold(builder.records()))
    assert row["action_key"] == x.CHARGE
    assert (row["tenant_id"], row["action_id"], row["operation"]) == ("acme", "renewal-1", "charge")
    assert (row["status"], row["version"], row["attempts"]) == ("ready", 2, 0)
    assert (row["amount_minor"], row["currency"], row["target"]) == (4_990, "EUR", "order:A-1842")
    assert (row["holder"], row["lease_until"]) == (None, None)
    assert row["next_due_at"] == row["step_deadline_at"] == x.T0 + x.STEP_MS
    assert (row["created_at"], row["updated_at"]) == (x.T0, x.T0)


def test_a_running_attempt_shows_its_holder() -> None:
    """While somebody may act the row names them and until when; afterwards it does not."""
    builder = LedgerBuilder()
    builder.take(x.propose())
    row = one_action(fold(builder.records()))
    assert (row["status"], row["holder"]) == ("attempting", x.HOLDER)
    assert row["lease_until"] == row["next_due_at"] == x.T0 + x.LEASE_MS
    builder.take(x.report(x.success()), later_ms=40)
    row = one_action(fold(builder.records()))
    assert (row["status"], row["holder"], row["next_due_at"]) == ("completed", None, None)
    assert (row["provider_reference"], row["result"]) == ("ch_1", '{"paid":true}')
    assert (row["proof"], row["updated_at"]) == ("report", x.T0 + 40)


def test_an_unknown_action_shows_when_it_is_asked_about() -> None:
    """Unknown keeps its next step: the time of the lookup."""
    builder = LedgerBuilder()
    builder.take(x.propose())
    builder.take(x.report(x.no_answer()), later_ms=4_000)
    row = one_action(fold(builder.records()))
    assert row["status"] == "unknown"
    assert row["next_due_at"] == x.T0 + 4_000 + x.LOOKUPS[0]


def test_every_fact_is_an_event_with_its_cause() -> None:
    """The timeline has each fact once, in the words of the log, and names its input."""
    builder = LedgerBuilder()
    builder.take(x.propose())
    decision = builder.take(x.report(x.success()), later_ms=40)
    events = named(fold(builder.records()), EVENTS)
    assert [event["version"] for event in events] == [1, 2, 3, 4, 5]
    last = events[-1]
    assert (last["type"], last["ordinal"]) == ("action.completed", 1)
    assert last["ledger_offset"] == decision.at
    cause = (last["cause_topic"], last["cause_partition"], last["cause_offset"])
    assert cause == (decision.cause.topic, 0, decision.cause.offset)
    value = builder.records()[decision.at].value
    assert str(last["data"]).encode() in value


def test_a_fact_that_looks_like_two_is_kept_whole() -> None:
    """A result that holds what stands between two facts is stored as the log has it."""
    builder = LedgerBuilder()
    builder.take(x.propose())
    several = [{"a": 1}, {"type": "attempt.succeeded"}, {"type": '"},{"type":"'}]
    outcome = x.success().model_copy(update={"result": {"several": several}})
    decision = builder.take(x.report(outcome), later_ms=40)
    value = builder.records()[decision.at].value
    stored = [str(event["data"]) for event in named(fold(builder.records()), EVENTS)[-2:]]
    assert [from_json(text)["type"] for text in stored] == ["attempt.succeeded", "action.completed"]
    assert from_json(stored[0])["result"] == {"several": several}
    assert ",".join(stored).encode() in value


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [("refused", "conflicted"), ("unchanged", "replayed"), ("quarantined", "not_json")],
)
def test_decisions_without_facts_keep_their_answer(outcome: str, reason: str) -> None:
    """What was refused, repeated or unreadable is a row that names its input."""
    builder = LedgerBuilder()
    builder.take(x.propose())
    builder.take(x.propose())
    builder.take(x.propose(request=x.request(money=x.EUR_499)))
    builder.quarantine()
    rows = {row["outcome"]: row for row in named(fold(builder.records()), DECISIONS)}
    row = rows[outcome]
    assert row["reason"] == reason
    assert row["cause_topic"] == "intents"
    assert row["action_key"] == (None if outcome == "quarantined" else x.CHARGE)
    assert row["tenant_id"] == (None if outcome == "quarantined" else "acme")


def test_an_adopted_configuration_is_a_decision_without_its_text() -> None:
    """The row says which configuration holds; the text stands beside the offsets."""
    (row,) = named(fold(LedgerBuilder().records()), DECISIONS)
    assert (row["outcome"], row["reason"]) == ("adopted", "catalogue")
    assert "[[operation]]" not in str(row["details"])


def test_a_case_about_a_final_action_is_an_alarm() -> None:
    """Evidence against a final status opens a case that its status does not close."""
    builder = LedgerBuilder()
    builder.take(x.propose(x.EMAIL))
    builder.take(x.report(x.no_answer(), key=x.EMAIL))
    builder.take(x.propose())
    builder.take(x.report(x.success()))
    builder.take(x.found_out(i.Meaning.EFFECT, lookup=None, reference="ch_2"))
    cases = named(fold(builder.records()), REVIEW_CASES)
    assert [(case["action_key"], case["kind"]) for case in cases] == [
        (x.EMAIL, "review"),
        (x.CHARGE, "alarm"),
    ]


def test_void_records_count_and_change_nothing() -> None:
    """What an overtaken owner wrote moves the offset, is counted, and has no row."""
    builder = LedgerBuilder()
    builder.open_epoch()
    builder.void()
    batch = fold(builder.records())
    assert batch.folds[0].void_count == 1
    assert batch.folds[0].next_offset == len(builder.records())
    assert len(named(batch, DECISIONS)) == 1


def poisons() -> dict[str, bytes | None]:
    """Records that count, or may, and that cannot be folded; None is a fact about nothing."""
    builder = LedgerBuilder()
    builder.take(x.propose(request=x.request(text="plain")))
    value = builder.records()[-1].value
    return {
        "no json": b"{",
        "no event": b"{}",
        "nul": value.replace(b"plain", b"pl\\u0000n"),
        "half a character": value.replace(b"plain", b"hi \\ud83d"),
        "illegal fact": None,
    }


@pytest.mark.case("C183")
@pytest.mark.parametrize("name", poisons())
def test_a_record_that_cannot_be_folded_stops_its_partition(name: str) -> None:
    """Everything before it is written, the partition stands exactly there, the other goes on."""
    builder = LedgerBuilder(2)
    streams = {builder.partition(f"acme/renewal-{n}"): f"acme/renewal-{n}" for n in range(20)}
    stopping, healthy = streams[0], streams[1]
    for stream in (stopping, healthy):
        builder.take(x.propose(f"charge:v1:{stream.replace('/', ':')}"), executor=None)
    value = poisons()[name]
    if value is None:
        offset = builder.break_decision(stopping)
    else:
        # The bytes say which place they were written for.
        offset = len(builder.records(0))
        builder.put(0, value.replace(b'"at":3', b'"at":%d' % offset))
    for stream in (stopping, healthy):
        key = f"ticket:v1:{stream.replace('/', ':')}"
        builder.take(x.propose(key, request=x.request(x.TICKET)), executor=None)
    batch = fold(builder.everything(), 2)
    (stopped,) = batch.stopped
    assert (stopped.partition, stopped.offset) == (0, offset)
    assert batch.folds[0].next_offset == offset
    assert batch.folds[1].next_offset == len(builder.records(1))
    keys = [row["action_key"] for row in named(batch, ACTIONS)]
    assert sorted(str(key).split(":")[0] for key in keys) == ["charge", "charge", "ticket"]


def test_text_that_only_looks_like_a_nul_is_kept() -> None:
    """A backslash before u0000 is text of the caller's, not the character."""
    builder = LedgerBuilder()
    builder.take(x.propose(request=x.request(text="a \\u0000 in words")))
    batch = fold(builder.records())
    assert not batch.stopped
    assert batch.folds[0].next_offset == len(builder.records())


def test_an_action_in_a_foreign_stream_stops_the_partition() -> None:
    """An action whose key belongs to another stream would never be found again."""
    builder = LedgerBuilder()
    builder.take(x.propose())
    value = builder.records()[-1].value.replace(b'"stream":"acme/', b'"stream":"other/')
    records = [*builder.records()[:-1], builder.records()[-1]._replace(value=value)]
    (stopped,) = fold(records).stopped
    assert "foreign stream" in stopped.why


def test_a_row_has_a_value_for_every_column() -> None:
    """Rows are tuples in the order of the columns: none is longer or shorter."""
    seen: set[str] = set()
    for seed in (3, 4):
        batch = fold(history(seed, steps=300).records())
        for table in PROJECTED:
            for row in batch.rows.get(table.name, ()):
                assert len(row) == len(table.columns), table.name
                seen.add(table.name)
    assert seen == {table.name for table in PROJECTED if table.name != "projection_offsets"}


def test_the_state_column_is_the_state() -> None:
    """A stream's row carries the bytes of `core.snapshot`."""
    builder = LedgerBuilder()
    builder.take(x.propose())
    (row,) = fold(builder.records()).rows["streams"]
    assert row[-1] == dump(builder.streams[x.STREAM])
    assert row[-1] != dump(Stream(x.STREAM))
