"""Laws of the envelope: what is written is read back the same, and no bytes break a reader."""

import json

from hypothesis import given
from hypothesis import strategies as st

from ledger.core import gates as g
from ledger.core.facts import (
    ActionBlocked,
    ActionCancelled,
    AnyFact,
    AttemptSucceeded,
    EvidenceRecorded,
    GateAnswered,
    GateAsked,
    GateClosing,
    IntentRecorded,
    ReviewOpened,
    SagaPlace,
)
from ledger.core.inputs import (
    Cancel,
    EvidenceKind,
    GateAnswer,
    GateAsk,
    GateClose,
    GateKeep,
    GateTaken,
    Meaning,
    Message,
    Propose,
    Report,
    ReportStep,
    Success,
)
from ledger.core.money import Money
from ledger.core.records import Cause, Decision
from ledger.core.rejections import Detail, Refused, Rejection, Unchanged
from ledger.core.request import Request
from ledger.core.request import recorded as as_recorded
from ledger.log.envelope import (
    Unreadable,
    encode,
    encode_ledger,
    outgoing,
    read_input,
    read_ledger,
)
from ledger.log.port import Record
from ledger.log.topics import INBOXES, Topic
from tests.examples import CHARGE, STREAM, T0

characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
texts = st.text(characters, max_size=30)
integers = st.integers(-(2**53) + 1, 2**53 - 1)
counts = st.integers(0, 2**53 - 1)
values = st.recursive(
    st.none() | st.booleans() | integers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
results = st.dictionaries(texts, values, max_size=3)
params = st.dictionaries(st.text("abcxyz", min_size=1, max_size=5), values, max_size=3)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """A request that a door would let in."""
    document = {
        "operation": "charge",
        "version": 1,
        "params": {
            key: value for key, value in draw(params).items() if "$" not in json.dumps(value)
        },
        "money": draw(st.none() | st.just({"minor": 4_990, "currency": "EUR"})),
        "principal": "agent:billing",
        "environment": "live",
    }
    return Request.model_validate(document)


@st.composite
def facts(draw: st.DrawFn) -> AnyFact:
    """A fact whose free parts are anything."""
    said, version = draw(texts), draw(counts)
    succeeded = {"action": CHARGE, "version": version, "attempt": 1, "reference": said}
    every: list[AnyFact] = [
        IntentRecorded(
            action=CHARGE,
            version=version,
            request=as_recorded(draw(requests())),
            request_hash="sha256:00",
            provider="p",
            account="a",
            reliability="keyed",
            step_deadline_at=T0,
            performer=draw(st.sampled_from([None, "caller"])),
        ),
        AttemptSucceeded.model_validate({**succeeded, "result": draw(results)}),
        EvidenceRecorded(
            action=CHARGE,
            version=version,
            kind=EvidenceKind.WEBHOOK,
            source_id=said,
            meaning=draw(st.sampled_from(list(Meaning))),
            attempts_upto=1,
            money=Money(minor=draw(st.integers(1, 10**9)), currency="EUR"),
        ),
        ActionCancelled(action=CHARGE, version=version, principal=said, reason=said),
        ReviewOpened(action=CHARGE, version=version, reason="ceiling_reached", names=said),
    ]
    return draw(st.sampled_from(every))


amounts = st.dictionaries(texts, counts, max_size=4)
identities = st.none() | st.builds(
    g.Identity,
    operation=texts,
    request_hash=texts,
    run=st.none() | texts,
    occurrence=st.none() | texts,
    look_alike_ms=counts,
)
reaches = st.builds(g.Reaching, ceiling=texts, dimension=texts, taken=counts, limit=counts)
names = st.none() | st.lists(texts, max_size=3).map(tuple)
flags = st.none() | st.just(value=True)


charges = st.just(CHARGE)
facts_of_claims: st.SearchStrategy[AnyFact] = st.one_of(
    st.builds(
        GateAsked,
        action=charges,
        version=counts,
        gate=texts,
        round=counts,
        sends=counts,
        demand=amounts,
        identity=identities,
        over=names,
        forced=flags,
    ),
    st.builds(
        GateAnswered,
        action=charges,
        version=counts,
        gate=texts,
        round=counts,
        outcome=st.just("refused"),
        grant=st.none() | counts,
        reached=st.none() | reaches,
        like=texts,
    ),
    st.builds(
        GateClosing,
        action=charges,
        version=counts,
        gate=texts,
        round=counts,
        sends=counts,
        spent=st.booleans(),
    ),
    st.builds(
        ActionBlocked,
        action=charges,
        version=counts,
        reason=st.just("saga_order"),
        by=texts,
        wait_until=st.none() | counts,
    ),
    st.builds(
        IntentRecorded,
        action=charges,
        version=counts,
        request=requests().map(as_recorded),
        request_hash=texts,
        provider=texts,
        account=texts,
        reliability=st.just("keyed"),
        step_deadline_at=counts,
        run=texts,
        batch=texts,
        saga=st.none() | st.builds(SagaPlace, saga=texts, step=counts, steps=counts),
    ),
)
"""What an action asks of gates, and how it waits for others."""

_held = {"version": counts, "action": texts, "round": counts}
facts_of_gates: st.SearchStrategy[g.AnyGateFact] = st.one_of(
    st.builds(
        g.ReservationGranted,
        **_held,
        grant=counts,
        demand=amounts,
        identity=identities,
        over=names,
        forced=flags,
    ),
    st.builds(g.ReservationQueued, **_held, demand=amounts, behind=texts, identity=identities),
    st.builds(
        g.ReservationRefused,
        **_held,
        reason=st.just("suspected_duplicate"),
        reached=st.none() | reaches,
        like=texts,
    ),
    st.builds(g.ReservationKept, **_held, grant=counts),
    st.builds(g.ReservationSentAgain, **_held, grant=counts, sends=counts),
    st.builds(g.ReservationClosed, **_held, spent=st.booleans()),
    st.builds(
        g.StepReported,
        version=counts,
        reporter=texts,
        step=counts,
        amounts=amounts,
        reached=st.none() | st.lists(reaches, max_size=2).map(tuple),
    ),
)
"""What a gate holds and what an agent says of its run."""

_to_gate = {"gate": texts, "round": counts, "generation": texts, "action": texts}
_to_action = {"gate": texts, "round": counts, "generation": texts, "key": charges}
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(GateAsk, **_to_gate, demand=amounts, identity=identities, over=names, forced=flags),
    st.builds(
        GateAnswer,
        **_to_action,
        outcome=st.just("granted"),
        grant=st.none() | counts,
        reached=st.none() | reaches,
    ),
    st.builds(GateKeep, **_to_gate, grant=counts),
    st.builds(GateClose, **_to_gate, spent=st.booleans()),
    st.builds(GateTaken, **_to_action),
)
"""What actions and gates say to each other."""


@given(
    st.lists(facts() | facts_of_claims, max_size=4),
    st.none() | st.lists(facts_of_gates, max_size=4),
    counts,
    counts,
)
def test_a_decision_is_read_back_as_it_was_written(
    some: list[AnyFact], about: list[g.AnyGateFact] | None, at: int, decided_at: int
) -> None:
    """The owner folds the bytes that it writes: they must say all that it decided, and the same
    decision is the same bytes.
    """
    decision = Decision(
        at=at,
        epoch=3,
        cause=Cause(topic="intents", partition=1, offset=7, copied="copied"),
        decided_at=decided_at,
        stream=STREAM,
        gate=None if about is None else tuple(about),
        facts=tuple(some),
    )
    raw = encode_ledger(decision, generation="g", partition=1)
    read = read_ledger(raw)
    assert read == decision
    assert encode_ledger(read, generation="g", partition=1) == raw
    assert json.loads(raw)["specversion"] == "1.0"


@given(texts, texts, st.sampled_from(list(Rejection)), st.none() | counts)
def test_an_answer_is_read_back_as_it_was_written(
    path: str, message: str, code: Rejection, version: int | None
) -> None:
    """Refusals and unchanged answers too, with whatever text they quote."""
    refused = Refused(
        code=code, action=CHARGE, details=(Detail(path=path, code="differs", message=message),)
    )
    unchanged = Unchanged(reason=path, action=CHARGE, reference=message, action_version=version)
    for answer in ({"refused": refused}, {"unchanged": unchanged}):
        decision = Decision.model_validate(
            {
                "at": 1,
                "epoch": 1,
                "cause": {"topic": "intents", "partition": 0, "offset": 1},
                "decided_at": T0,
                "stream": STREAM,
                **answer,
            }
        )
        assert read_ledger(encode_ledger(decision, generation="g", partition=0)) == decision


@given(requests(), texts, results)
def test_an_input_is_read_back_as_it_was_said(
    request: Request, said: str, result: dict[str, object]
) -> None:
    """What a door or an executor appends is what the processor decides."""
    proposal = Propose(key=CHARGE, request=request)
    cancellation = Cancel(key=CHARGE, principal=said, reason=said)
    success = Success.model_validate({"reference": said, "result": result})
    report = Report(key=CHARGE, attempt=1, fencing_token=1, holder="h", outcome=success)
    for topic, given_input in (
        ("intents", proposal),
        ("intents", cancellation),
        ("attempts", report),
    ):
        sent = outgoing(given_input, stream=STREAM, subject=None, event_id=said, source="/s")
        read = read_input(Record(topic, 0, 1, T0, sent.key, sent.value, sent.headers))
        assert read == given_input


@given(messages, amounts, counts)
def test_a_message_is_read_back_as_it_was_said(
    message: Message, took: dict[str, int], step: int
) -> None:
    """What a gate is told and what it answers, and what an agent says of its run."""
    said = ReportStep(gate="acme/run:r1", principal="agent:b", step=max(step, 1), amounts=took)
    for topic, given_input in ((Topic.INTERNAL, message), (Topic.INTENTS, said)):
        sent = outgoing(given_input, stream=STREAM, subject=None, event_id="e", source="/s")
        read = read_input(Record(topic.value, 0, 1, T0, sent.key, sent.value, sent.headers))
        assert read == given_input


@given(st.binary(max_size=200), st.sampled_from([*INBOXES, Topic.CONFIG, Topic.OFFERS]))
def test_no_bytes_break_a_reader(raw: bytes, topic: Topic) -> None:
    """Whatever stands in an inbox is an input or has a name for why it is none."""
    read = read_input(Record(topic.value, 0, 1, T0, None, raw, ()))
    assert isinstance(read, Unreadable)
    assert read.reason
    assert len(read.detail) < 2_000


@given(st.data())
def test_no_damage_breaks_a_reader(data: st.DataObject) -> None:
    """A record with one byte changed, cut or added is an input or is refused by name."""
    sent = encode(
        Cancel(key=CHARGE, principal="agent:billing"), event_id="e", source="/s", subject=CHARGE
    )
    place = data.draw(st.integers(0, len(sent) - 1))
    byte = bytes([data.draw(st.integers(0, 255))])
    kind = data.draw(st.sampled_from(["change", "cut", "add"]))
    match kind:
        case "change":
            damaged = sent[:place] + byte + sent[place + 1 :]
        case "cut":
            damaged = sent[:place]
        case _:
            damaged = sent[:place] + byte + sent[place:]
    read = read_input(Record("intents", 0, 1, T0, None, damaged, ()))
    assert isinstance(read, Cancel | Unreadable)
