"""Keys that are no identity: what is recognised, and which names of real systems are left alone."""

import re
from collections.abc import Iterator

import pytest

from ledger.core.ids import ActionId
from ledger.core.inputs import Propose, Success
from ledger.core.rejections import Rejection
from ledger.core.request import Request
from ledger.core.unstable_keys import (
    CLOCK_READING_MS,
    Instability,
    Unstable,
    instabilities,
    left_over,
    left_over_in_target,
)
from tests.examples import CHARGE, EMAIL, PAYOUT, automatic, propose, recorded, request
from tests.unit.core.beside import Event
from tests.unit.core.language import given

NOW = 1_796_021_534_567
"""2026-11-30T06:52:14.567Z."""
UUID = "9b2f6f0e-3c1d-4b7a-9a55-0c9a7c3d1e42"

REFUSED: dict[Unstable, tuple[str, ...]] = {
    Unstable.LEFT_OVER: (
        *("None", "bankaccount_None", "order-None-01", "null", "user.null", "NULL-1"),
        *("undefined", "invoice-undefined", "total-nan", "NaN", "due-NaT"),
        *("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    ),
    Unstable.ATTEMPT: (
        *("renewal-01-attempt-3", "attempt3", "A1_attempt_12", "ATTEMPT-2", "chargeAttempt2"),
        *("order-7-retry2", "order-7-retry-2", "order-7.retry.002", "retry_count_4", "A1Retry1"),
        *("order-7-retry", "order-7_Rerun", "try_1", "order-7-try2"),
        *(f"attempt-{UUID}", "redelivery-2", "attempt_no_3", "attempts-2"),
    ),
    Unstable.CALL: (
        *("call_Ab3dEf6hIj9lMn2pQr5tUv8x", "call_00_Ab3dEf6hIj9lMn2pQr5t", "call_a1b2c3d4"),
        *("call_AbCdEfGhIjKlMnOpQrStUvWx", f"call_0_{UUID}", f"call-{UUID}"),
        *(
            "toolu_01A09q90qw90lq917835lq9",
            "toolu_bdrk_01A09q90qw90lq917835",
            "srvtoolu_01A09q90qw",
        ),
        *(
            "tooluse_kZJMlvQmRJ6eAyJE5GIl7Q",
            "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
            f"cmpl-{UUID}",
        ),
        *("chatcmpl-tool-1a2b3c4d5e6f47a8b9c0d1e2f3a4b5c6", "function-call-13279206974635"),
        *("run_QLoItBbqwyAJEzlTy4y9kOMM", "step_Gq5eJZkmDdGNXGd9aYpCYYz2"),
        *("msg_013Zva2CMHLNnXjNJJKqJ2EF", "req_011CSHoEeqs5C35K2UUqR7Fy"),
        *(f"resp_{'67ccd2bed1ec8190' * 3}", f"fc_{'67ccd2bed1ec8190' * 3}", f"req_{'0f' * 16}"),
        *(f"run--{UUID}", f"lc_run--{UUID}-0", "refund-toolu_01A09q90qw90lq917835lq9"),
    ),
    Unstable.TRACE: (
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "order-7-00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "1-5759e988-bd862e3fe1be46a994272793",
        *("trace-4bf92f3577b34da6a3ce929d0e0e4736", "trace_id_4bf92f3577b34da6a3ce929d0e0e4736"),
        *(
            "traceId.4bf92f3577b34da6a3ce929d0e0e4736",
            "span-00f067aa0ba902b7",
            "spanId00f067aa0ba902b7",
        ),
        *(f"request-id-{UUID}", f"requestId_{UUID}", f"x-request-id-{UUID}"),
    ),
    Unstable.TIME: (
        *("2026-08-28T10-15-00Z", "renewal-2026-08-28T10.15.00.123Z", "2026-08-28t101500"),
        *("2026-08-28T10-15", "20260828T101500Z", "renewal-20260828T1015", "2026-08-28_10-15-00"),
        *("2026-08-28-10-15-00", "2026-08-28.23.59.60"),
        *("1796021534", "renewal-1796021530", "renewal1796021534", "1796021534.1234567"),
        *("1796021534567", "1796021534567890", "1796021534567890123", "r-1796021000000-x"),
    ),
    Unstable.ADDRESS: (
        *("0x7f3c8a2b1d30", "Order-object-at-0x7f3c8a2b1d30", "0xffff8a2b1d30", "0x10a3b4c50"),
        *("object.at.0x000001F2A3B4C5D0", "at_0x55d0c8a2b1d3"),
    ),
}

GOOD = (
    # Invoices, orders, renewals, tickets.
    *("renewal-2026-08-28-01", "renewal-1", "INV-2026-000123", "INV-20260828-000123", "A-1842"),
    *("114-1234567-1234567", "R123456789", "SO-10045", "PO_4500012345", "ticket-48211"),
    *("2026-08-28", "payroll-2026-08", "2026-W35", "2026Q3", "2026-08-28-01-02", "ZENDESK-1"),
    *("pull-1234", "JIRA-4821.comment-77", "PROJ-123", "release-v2.3.1", "sha-9f3c2ab"),
    # Numbers that a counter walks into: documents of SAP, providers in health, comments, orders
    # that are made of the time of day or only look like it.
    *("1900001234", "1800000001", "1600000000", "1679576722", "1784567890123", "5123456789012"),
    *("20260828000123", "20260828101500", "20260828101500123456", "20260828-101500"),
    *("1712345678", "17123456789", "1204567890123456", "1796021534567890123456"),
    # What was sent when is the name of a message.
    *("slack-C024BE91L-1796021534.123456", "C024BE91L-p1796021534123456"),
    # Rows of data bases, objects of providers.
    *(UUID, UUID.replace("-", ""), f"order-{UUID}", "018f3f6e-7c3a-7d2b-9c1e-3f2a1b0c9d8e"),
    *("01J9ZK3V7W8X9Y0Z1A2B3C4D5E", "order_01h455vb4pex5vsknk084sn02q", "66f2c1e5a3b4c5d6e7f8a9b0"),
    *(
        "call_01h455vb4pex5vsknk084sn02q",
        "tz4a98xxat96iws9zmbrgj3a",
        "run_tz4a98xxat96iws9zmbrgj3a",
    ),
    *("ch_3MmlLrLkdIwHu7ix0snN0B15", "pi_3MtwBwLkdIwHu7ix28a3tqPa", "in_1MtHbELkdIwHu7ixl4OzzPMv"),
    *("evt_1NG8Du2eZvKYlo2CUI79vXWy", "cus_NffrFeUfNV2Hib", "sub_1MowQVLkdIwHu7ixeRlqHVzs"),
    *("msg_2Lh9KRb0pzN4LePd3XiA4v12Axj", "req_01J9ZK3V7W8X9Y0Z1A2B3C4D5E", "V1StGXR8_Z5jdHi6B-myT"),
    *("00f067aa0ba902b7", "9f3c", "deadbeef", "d41d8cd98f00b204e9800998ecf8427e"),
    *("0x52908400098527886E0F7030069857D2E4169EE7", "0x00158d0001a2b3c4", f"0x{'7f' * 32}"),
    # Words that hold a word, or mean something else.
    *("country-5", "industry3", "entry-2", "payout-TRY-100", "TRY-5", "login-attempt-A17"),
    *("dunning-retry-2026-09-03", "nonexistent", "None1", "nullable", "nanjing-01", "hainan"),
    *("call-center-7", "call_20260828", "callback-2015550123", "phonecall_a4441234567890777c4a"),
    *(
        "run-7",
        "run_2026",
        "step-2",
        "request-17",
        "trace-12",
        "span-5",
        "purchase-request-9b2f6f0e",
    ),
    *("report-2026-08-28T14", "report-2026-08-28-h14", "T-1000", "2026-13-45T10-15", "-", "..."),
    # What this product derives itself, in a run that has a name of any kind.
    *(f"derived-{UUID}-00f067aa0ba902b7", "derived-run_QLoItBbqwyAJEzlTy4y9kOMM-00f067aa0ba902b7"),
    "derived-trace-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
)


CUT = ("invoice-", "bankaccount_", "order.", "bank_account-", "Invoice-", "purchase.order_")
WHOLE = (
    *("-", "...", "a-", "invoice--", "INV-", "V1StGXR8_Z5jdHi6B-my-", "invoice-1-", "order_7."),
    *("-invoice", "renewal--01", "tz4a98xxat96iws9zmbrgj3a_"),
)


def instability(action_id: ActionId, now: int) -> Instability | None:
    """The first that is found in a name, or None."""
    return next(instabilities(action_id, now), None)


@pytest.mark.parametrize("name", CUT)
def test_words_with_nothing_behind_their_joint_name_nothing(name: str) -> None:
    """Family key: what was to stand there was empty, so different things would share the key. Of an
    item it is the same, and of a run, whose ceilings they would share.
    """
    for action_id in (ActionId(name), ActionId("renewal-1", name)):
        found = instability(action_id, NOW)
        assert found is not None
        assert found.code is Unstable.LEFT_OVER
        assert name in found.message
    assert left_over(name) is not None


@pytest.mark.parametrize("name", WHOLE)
def test_what_was_drawn_or_counted_may_end_with_a_joint(name: str) -> None:
    """Family key: alphabets with joints give such names now and then; signs alone are no cut."""
    assert instability(ActionId(name), NOW) is None
    assert left_over(name) is None


@pytest.mark.parametrize(
    ("code", "text"), [(code, text) for code, texts in REFUSED.items() for text in texts]
)
@pytest.mark.parametrize("part", ["business_event", "item"])
def test_what_changes_with_every_try_is_recognised(code: Unstable, text: str, part: str) -> None:
    """In either part of an id, with the part, the kind, the piece, and what would be right."""
    action_id = ActionId(text) if part == "business_event" else ActionId("renewal-1", text)
    found = instability(action_id, NOW)
    assert found is not None
    assert (found.part, found.code) == (part, code)
    held = re.match(rf"{part} holds (\S+), .+; .+", found.message)
    assert held is not None
    assert held[1] in text


@pytest.mark.parametrize("text", GOOD)
def test_names_of_real_systems_pass(text: str) -> None:
    """Whatever a business may count, date or call its rows is an identity."""
    assert instability(ActionId(text, text, 2), NOW) is None


@pytest.mark.parametrize("run", ["None", "attempt-2", "2026-08-28T10-15-00Z"])
def test_a_derived_key_does_not_excuse_a_run_without_a_name(run: str) -> None:
    """The run of a derived key may be called after a call or a trace, and after nothing else that
    changes.
    """
    assert instability(ActionId(f"derived-{run}-00f067aa0ba902b7"), NOW) is not None


def test_a_number_is_a_time_only_while_it_is() -> None:
    """The same number is a document of a book-keeping at any other time."""
    reading = ActionId("renewal-1796021534")
    at = 1_796_021_534_000
    for now in (at - CLOCK_READING_MS, at, at + CLOCK_READING_MS):
        assert instability(reading, now) is not None
    for now in (0, at - CLOCK_READING_MS - 1, at + CLOCK_READING_MS + 1):
        assert instability(reading, now) is None


def test_only_a_key_that_is_new_is_refused() -> None:
    """The door says which part and why; what was accepted once is answered as ever, and a conflict
    as a conflict.
    """
    key = f"{CHARGE}#attempt-3"
    then = given().when(propose(key=key))
    then.then_rejected(Rejection.UNSTABLE_KEY)
    assert then.decided.refused is not None
    (detail,) = then.decided.refused.details
    assert (detail.path, detail.code) == ("/item", "attempt_number")
    assert "attempt-3" in detail.message
    known = given(recorded(key), automatic(key))
    known.when(propose(key=key)).then_unchanged("replayed")
    other = Propose(key=key, request=request(text="other"))
    known.when(other).then_rejected(Rejection.CONFLICTED, action=key)


@pytest.mark.parametrize(
    ("occurrence", "code"),
    [("attempt-2", "attempt_number"), ("None", "left_over"), ("call_9f3ac81be2d7", "call_id")],
)
def test_an_occurrence_of_every_try_is_refused(occurrence: str, code: str) -> None:
    """Beside C003: it said of each repetition that it is meant, so that no look-alike was held back
    and the act happened again. What is known is answered whatever it says now.
    """
    then = given().when(propose(occurrence=occurrence))
    then.then_rejected(Rejection.UNSTABLE_KEY)
    assert then.decided.refused is not None
    (detail,) = then.decided.refused.details
    assert (detail.path, detail.code) == ("/occurrence", code)
    known = given(recorded(), automatic())
    known.when(propose(occurrence=occurrence)).then_unchanged("replayed")
    for meant in ("second-parcel", "2026-08-28", "2"):
        assert given().when(propose(occurrence=meant)).decided.refused is None


@pytest.mark.parametrize("run", ["None", "run-null", "attempt-2-undefined"])
def test_a_run_without_a_name_is_refused(run: str) -> None:
    """All runs that nobody named would share one ceiling; what is left over is told, and where."""
    then = given().when(propose(run=run))
    then.then_rejected(Rejection.UNSTABLE_KEY)
    assert then.decided.refused is not None
    (detail,) = then.decided.refused.details
    assert (detail.path, detail.code) == ("/run", "left_over")
    assert run.rpartition("-")[2] in detail.message


def aimed(key: str, target: str) -> Request:
    """The request that a key stands for, at another target."""
    return request(key).model_copy(update={"target": target})


@pytest.mark.parametrize(
    "target",
    [
        "order:None",
        "customer:null",
        "invoice:undefined",
        "order:nan",
        "None",
        "order:",
        "order: ",
        "order:None/line:2",
        "order:None:2",
        "order-None",
        "order_null",
        "customer:00000000-0000-0000-0000-000000000000",
    ],
)
def test_a_target_without_its_value_is_refused(target: str) -> None:
    """C019: guards and ceilings would take all such orders for one. An action that is known is
    answered as ever.
    """
    then = given().when(propose(request=aimed(CHARGE, target)))
    then.then_rejected(Rejection.INVALID_REQUEST)
    assert then.decided.refused is not None
    (detail,) = then.decided.refused.details
    assert (detail.path, detail.code) == ("/target", "left_over")
    assert "value was missing" in detail.message


@pytest.mark.parametrize(
    "target",
    [
        "order:A-1842",
        "mail:null@example.com",
        "order:none",
        "https://example.com/",
        "order:attempt-2",
        "company:Nonesuch",
        "page:null-and-void",
        "order:2026-08-28T10-15-00Z",
        "file:/dev/null",
        "repo:acme/null",
        "shop/None/order:7",
        "branch:fix-null",
        "mail:a@b:null",
        "net:2001:db8::",
        "arn:aws:s3:::",
        "arn:aws:iam::123:role/",
    ],
)
def test_a_target_may_be_whatever_names_it(target: str) -> None:
    """It is no identity of an act: only what stands for nothing is refused. A thing that is called
    so was refused with no way out.
    """
    assert left_over_in_target(target) is None


def test_what_was_recorded_with_such_a_target_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an earlier version, which did not refuse it: what undoes the action has to bear it."""
    event = Event()
    with monkeypatch.context() as patch:
        patch.setattr("ledger.core.decide.intake.left_over_in_target", lambda _: None)
        event.take(propose(request=aimed(CHARGE, "order:None")), acts=True)
        event.reports(CHARGE, Success(reference="ch_1"))
    undone = propose(PAYOUT, compensates=CHARGE, request=aimed(PAYOUT, "order:None"))
    assert event.take(undone) == ["intent.recorded", "policy.decided"]
    assert event.take(propose(EMAIL, request=aimed(EMAIL, "order:None"))) == []
    assert event.refusal() is Rejection.INVALID_REQUEST


@pytest.mark.parametrize(
    "run", ["00f067aa0ba902b7", "attempt-2", "2026-08-28T10-15-00Z", "support-17", "run_none"]
)
def test_a_run_may_be_called_after_whatever_began_it(run: str) -> None:
    """It is no identity of an act: what changes from run to run is what tells them apart."""
    assert given().when(propose(run=run)).decided.refused is None


def test_what_was_recorded_under_a_name_that_none_may_bear_now_is_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a name may have been taken by an earlier version: what undoes the action has to bear it,
    and nothing else may.
    """
    event = Event()
    event.completes(CHARGE)
    trouble = Instability("business_event", Unstable.LEFT_OVER, "left over")
    monkeypatch.setattr("ledger.core.decide.intake.instabilities", lambda *_: iter((trouble,)))
    assert event.propose(EMAIL) == []
    assert event.refusal() is Rejection.UNSTABLE_KEY
    assert event.propose(PAYOUT, compensates=CHARGE) == ["intent.recorded", "policy.decided"]


def test_a_name_that_is_given_excuses_no_occurrence_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The trouble of the older name was the first one found, and the occurrence was not looked at:
    one that every try has for itself called each repetition an intended one.
    """
    event = Event()
    event.completes(CHARGE)

    def found(action_id: ActionId, now: int, occurrence: str | None) -> Iterator[Instability]:
        yield Instability("business_event", Unstable.LEFT_OVER, "left over")
        yield from instabilities(action_id, now, occurrence)

    monkeypatch.setattr("ledger.core.decide.intake.instabilities", found)
    assert event.propose(PAYOUT, compensates=CHARGE, occurrence="attempt-2") == []
    assert event.refusal() is Rejection.UNSTABLE_KEY
    assert event.propose(PAYOUT, compensates=CHARGE, occurrence="second") == [
        "intent.recorded",
        "policy.decided",
    ]


def test_every_part_that_changes_is_told() -> None:
    """In the order of the parts, each by its first trouble."""
    found = instabilities(ActionId("None", "attempt-3"), NOW, "call_9f3ac81be2d7")
    assert [one.part for one in found] == ["business_event", "item", "occurrence"]
