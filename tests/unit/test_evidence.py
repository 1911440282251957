"""Evidence: one source is one piece, and what was found is said as it was found."""

import dataclasses

import pytest

from ledger.core.decide.schedule import awaits_offer
from ledger.core.facts import LookupStarted, PreviewStarted
from ledger.core.ids import ActionKey
from ledger.core.inputs import Evidence, EvidenceKind, Meaning
from ledger.core.limits import ACTION_KEY_CHARS_MAX, TEXT_CHARS_MAX
from ledger.core.money import Money
from ledger.core.preview import Foreseen
from ledger.core.proof import effects_told
from ledger.log.envelope import read_input
from ledger.log.port import Record
from ledger.log.topics import partition_of
from reconciler.evidence import (
    Placed,
    Receipt,
    lookup_evidence,
    lookup_record,
    lookup_source_id,
    meaning_of,
    preview_read,
    preview_record,
    reportable,
    tellable,
    webhook_evidence,
    webhook_record,
    webhook_source_id,
)
from reconciler.limits import FURTHER_REFERENCES_MAX
from reconciler.matching import Matched, MatchedBy
from reconciler.providers.port import Absent, Found, Inconclusive, Lookup, Unforeseen, Unrecognised
from reconciler.repeats import fact_of
from tests.examples import CHARGE, T0, no_answer, offer, propose, report, tick
from tests.unit.core.language import Story
from tests.unit.test_matching import KEY, SETTLED, says

MONEY = Money(minor=4990, currency="EUR")
RECEIPT = Receipt("simulated", "main", partition=3, offset=17, sha256="ab" * 32)
STARTED = LookupStarted(
    action=KEY,
    version=9,
    lookup=2,
    attempts_upto=1,
    provider="simulated",
    account="main",
    provider_key=KEY,
    answer_by=1_700_000_060_000,
)
PREVIEWED = PreviewStarted(
    action=KEY,
    version=2,
    preview=1,
    provider="simulated",
    account="main",
    intent_offset=2,
    answer_by=1_700_000_060_000,
)


def test_a_matched_webhook_says_what_the_provider_said() -> None:
    """Reference, money, hash and the account that verified it are the webhook's own."""
    evidence = webhook_evidence(Matched(KEY, MatchedBy.METADATA), SETTLED, RECEIPT)
    assert evidence == Evidence(
        key=KEY,
        kind=EvidenceKind.WEBHOOK,
        source_id=f"webhook:simulated:main:{fact_of(SETTLED, 'webhook')}",
        provider="simulated",
        account="main",
        meaning=Meaning.EFFECT,
        reference="ch_1",
        money=MONEY,
        code="effect.settled",
        raw_sha256="ab" * 32,
        occurred_at=SETTLED.occurred_at,
    )


@pytest.mark.case("C055")
def test_every_delivery_of_an_event_is_the_same_source() -> None:
    """A redelivery at another offset bears the same source id, and its own place as record id."""
    again = dataclasses.replace(RECEIPT, partition=5, offset=99)
    matched = Matched(KEY, MatchedBy.METADATA)
    first, second = (webhook_evidence(matched, SETTLED, one) for one in (RECEIPT, again))
    assert first == second
    records = [webhook_record(first, RECEIPT, 6), webhook_record(second, again, 6)]
    assert b'"id":"webhooks/3/17"' in records[0].record.value
    assert b'"id":"webhooks/5/99"' in records[1].record.value
    assert records[0].partition == records[1].partition


@pytest.mark.parametrize(
    ("meaning", "effect", "says_so"),
    [
        ("final", "exists", Meaning.EFFECT),
        ("final", "none", Meaning.NO_EFFECT),
        ("final", "reversed", Meaning.REVERSED),
        ("final", "pending", Meaning.PENDING),
        ("progress", "exists", Meaning.PENDING),
        ("progress", "none", Meaning.PENDING),
        ("progress", "reversed", Meaning.PENDING),
    ],
)
def test_only_a_final_word_is_final(meaning: str, effect: str, says_so: Meaning) -> None:
    """What is still moving proves neither effect nor its absence."""
    assert meaning_of(says(meaning=meaning, effect=effect)) is says_so


def test_evidence_stands_where_its_stream_lives() -> None:
    """The record is keyed by the stream and reads back as the same input."""
    placed = lookup_record(lookup_evidence(STARTED, Absent())[0], 6)
    stream = ActionKey.parse(KEY).stream_key
    assert placed.partition == partition_of(stream, 6)
    assert placed.record.key == stream.encode()
    record = Record("evidence", placed.partition, 1, 0, placed.record.key, placed.record.value, ())
    assert read_input(record) == lookup_evidence(STARTED, Absent())[0]


def test_a_lookup_that_found_the_effect_says_so_with_its_money() -> None:
    """The ledger compares the money; the evidence carries what the provider has."""
    (evidence,) = lookup_evidence(STARTED, Found("ch_1", MONEY, {}, KEY))
    assert (evidence.meaning, evidence.reference, evidence.money) == (
        Meaning.EFFECT,
        "ch_1",
        MONEY,
    )
    assert (evidence.lookup, evidence.source_id) == (2, f"lookup:{KEY}:2:ch_1")


@pytest.mark.parametrize("blind", [Absent(), Inconclusive("http_503")])
@pytest.mark.parametrize("is_found_first", [True, False])
def test_who_found_it_is_heard_beside_who_put_the_same_question_and_did_not(
    blind: Lookup, *, is_found_first: bool
) -> None:
    """Family `search`, beside C095: two inquirers put one question while their partition changes
    hands, and the replica that the one asks is behind. The effect is known whoever is read first,
    and nothing is sent again.
    """
    story = Story()
    story.hears(propose(CHARGE), offer=offer(key=CHARGE))
    story.hears(report(no_answer(), key=CHARGE), at=5)
    asked_at = 0
    while story.action(CHARGE).lookup is None:
        timer = story.action(CHARGE).timer
        assert timer is not None
        asked_at = timer.due_at - T0
        story.hears(tick(), at=asked_at)
    started = next(fact for fact in story.facts if isinstance(fact, LookupStarted))
    found = Found("ch_1", story.action(CHARGE).request.money, {}, "k")
    for answer in (found, blind) if is_found_first else (blind, found):
        for piece in lookup_evidence(started, answer):
            story.hears(piece, at=asked_at + 1)
    action = story.action(CHARGE)
    assert "ch_1" in effects_told(action)
    assert not awaits_offer(action, T0 + 400 * 24 * 3_600_000)


def test_a_second_effect_under_one_key_is_told_too() -> None:
    """Each further reference is a piece of its own, up to a bound; two are a case already."""
    further = tuple(f"ch_{number}" for number in range(2, 50))
    pieces = lookup_evidence(STARTED, Found("ch_1", MONEY, {}, KEY, further))
    assert len(pieces) == 1 + FURTHER_REFERENCES_MAX
    assert [piece.reference for piece in pieces[:3]] == ["ch_1", "ch_2", "ch_3"]
    assert len({piece.source_id for piece in pieces}) == len(pieces)


@pytest.mark.parametrize(
    ("answer", "meaning", "code"),
    [
        (Absent(), Meaning.ABSENT, None),
        (Inconclusive("timeout"), Meaning.INCONCLUSIVE, "timeout"),
    ],
)
def test_an_absence_is_not_an_answer_that_never_came(
    answer: Absent | Inconclusive, meaning: Meaning, code: str | None
) -> None:
    """Not there and not known are told apart."""
    (evidence,) = lookup_evidence(STARTED, answer)
    assert (evidence.meaning, evidence.code, evidence.reference) == (meaning, code, None)


TOO_LONG = "x" * (TEXT_CHARS_MAX + 1)
HALF = "ch_\ud800"


@pytest.mark.parametrize(
    "answer",
    [
        Found(TOO_LONG, None, {}, None),
        Found(HALF, None, {}, None),
        Found("ch_\0", None, {}, None),
        Found(12345, None, {}, None),  # type: ignore[arg-type]
        Found(None, None, {}, None),  # type: ignore[arg-type]
        Found("ch_1", "49.90 EUR", {}, None),  # type: ignore[arg-type]
        Found("ch_1", Money.model_construct(minor=2**60, currency="EUR"), {}, None),
        Found("ch_1", None, {}, None, (TOO_LONG,)),
        Found("ch_1", None, {}, None, (HALF,)),
        Found("ch_1", None, {}, None, (7,)),  # type: ignore[arg-type]
        Found("ch_1", None, {}, None, None),  # type: ignore[arg-type]
        Absent("yesterday"),  # type: ignore[arg-type]
        Inconclusive(TOO_LONG),
        Inconclusive("error: \udfff"),
        Inconclusive(None),  # type: ignore[arg-type]
        Inconclusive("busy", "60"),  # type: ignore[arg-type]
        Inconclusive("busy", -1),
        Inconclusive("busy", 2**70),
        None,
        "nothing found",
    ],
)
def test_an_answer_that_the_log_cannot_hold_is_no_answer(answer: Lookup) -> None:
    """Whatever an adapter returns, its question is answered in words that the ledger reads: else it
    would be put again at each start, and end each of them.
    """
    assert reportable(STARTED, answer) == Inconclusive("unreportable_answer")
    (evidence,) = lookup_evidence(STARTED, answer)
    assert (evidence.meaning, evidence.code) == (Meaning.INCONCLUSIVE, "unreportable_answer")
    assert read_back(lookup_record(evidence, 6)) == evidence


def test_an_answer_at_the_bounds_of_the_log_is_told_as_it_is() -> None:
    """What the log can hold is never softened."""
    longest = "\U0001f600" * TEXT_CHARS_MAX
    for answer in (
        Found(longest, MONEY, {}, longest, (longest,)),
        Absent(1_700_000_000_000),
        Inconclusive(longest, 0),
    ):
        assert reportable(STARTED, answer) is answer
        for evidence in lookup_evidence(STARTED, answer):
            assert read_back(lookup_record(evidence, 6)) == evidence


@pytest.mark.parametrize(
    "seen",
    [
        Unforeseen(TOO_LONG),
        Unforeseen(HALF),
        Unforeseen(None),  # type: ignore[arg-type]
        Foreseen(target="order\0"),
        Foreseen.model_construct(target=HALF, observed={}),
        Foreseen.model_construct(effect=TOO_LONG, observed={}),
        Foreseen.model_construct(observed={"left": object()}),  # type: ignore[dict-item]
        Absent(),
        None,
    ],
)
def test_a_preview_that_the_log_cannot_hold_was_not_given(seen: Foreseen | Unforeseen) -> None:
    """People are asked without it, or nobody is, as the operation says; the inquirer goes on."""
    read = preview_read(PREVIEWED, seen)
    assert (read.foreseen, read.code) == (None, "unreportable_answer")
    assert read_back(preview_record(read, 6)) == read


def test_a_preview_that_the_log_can_hold_is_told_as_it_is() -> None:
    """What the provider foresees, or why it does not, in its own words."""
    seen = Foreseen(effect="Takes 49.90 EUR.", target="Jana", observed={"left": 3})
    assert preview_read(PREVIEWED, seen).foreseen == seen
    assert preview_read(PREVIEWED, Unforeseen("busy")).code == "busy"


@pytest.mark.parametrize(
    "changed",
    [
        {"reference": TOO_LONG},
        {"reference": HALF},
        {"reverses": TOO_LONG},
        {"event_type": TOO_LONG},
        {"money": "49.90 EUR"},
        {"effect": "perhaps"},
        {"occurred_at": "yesterday"},
    ],
)
def test_a_webhook_that_the_log_cannot_hold_has_no_meaning(changed: dict[str, object]) -> None:
    """Whatever an adapter says: it is kept as one that nobody understood, and told of no action."""
    mapped = dataclasses.replace(SETTLED, **changed)  # type: ignore[arg-type]
    assert tellable(mapped) == Unrecognised("unreportable_answer")
    assert tellable(SETTLED) is SETTLED


def read_back(placed: Placed) -> object:
    """What the ledger reads of a record for the topic."""
    sent = placed.record
    return read_input(Record("evidence", placed.partition, 0, 0, sent.key, sent.value, ()))


@pytest.mark.case("C057")
def test_c057_one_fact_under_several_event_ids_is_one_source() -> None:
    """C057: same object, type and provider time under other event ids is the same source; any of
    them different is another. A line of a file, whose time is a day, is known by its own id.
    """
    matched = Matched(KEY, MatchedBy.METADATA)

    def source(receipt: Receipt = RECEIPT, **changed: object) -> str:
        mapped = dataclasses.replace(SETTLED, **changed)  # type: ignore[arg-type]
        return webhook_evidence(matched, mapped, receipt).source_id

    first = source()
    assert {source(event_id=f"evt_{number}") for number in range(11)} == {first}
    others = {
        source(reference="ch_2"),
        source(event_type="effect.refunded"),
        source(occurred_at=SETTLED.occurred_at + 1),
        source(money=Money(minor=1, currency="EUR")),
        source(account="other"),
    }
    assert len(others | {first}) == 6
    # The same object, type and second, and yet it went on: pending first, then settled.
    moving = dataclasses.replace(SETTLED, meaning="progress", effect="pending")
    assert webhook_evidence(matched, moving, RECEIPT).source_id != first
    line = dataclasses.replace(RECEIPT, source="settlement")
    assert source(line, event_id="line_1") != source(line, event_id="line_2")
    # What has no time that can be compared is known by its own id too.
    assert source(occurred_at=0) == "webhook:simulated:main:evt_1"


@pytest.mark.parametrize(
    ("reference", "reverses"), [(None, "ch_1"), ("ch_1", "ch_1"), ("ch_1", None)]
)
def test_equal_refunds_without_names_of_their_own_are_as_many_as_were_told(
    reference: str | None, reverses: str | None
) -> None:
    """Two of one charge, of one amount, in one second: by their event ids they are two. With names
    of their own each is one, under however many ids.
    """
    refund = dataclasses.replace(
        SETTLED, event_type="refunded", effect="reversed", reverses=reverses, reference=reference
    )
    again = dataclasses.replace(refund, event_id="evt_2")
    matched = Matched(KEY, MatchedBy.REFERENCE)
    sources = {webhook_evidence(matched, one, RECEIPT).source_id for one in (refund, again)}
    assert len(sources) == 2
    named = [dataclasses.replace(one, reference="re_1", reverses="ch_1") for one in (refund, again)]
    assert len({webhook_evidence(matched, one, RECEIPT).source_id for one in named}) == 1


def test_source_ids_are_short_and_cannot_be_mistaken() -> None:
    """Long or colon-bearing parts are hashed, so no two sources share an id."""
    assert webhook_source_id("a", "b:c", "d") != webhook_source_id("a:b", "c", "d")
    assert len(webhook_source_id("p" * 500, "a" * 500, "e" * 5_000)) <= TEXT_CHARS_MAX
    longest = lookup_source_id("k" * ACTION_KEY_CHARS_MAX, 2**53 - 1, "f" * 5_000)
    assert len(longest) <= TEXT_CHARS_MAX
