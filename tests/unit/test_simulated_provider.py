"""Parts of the simulated provider without a network: its book on disk, its chance, its mapping."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.core.money import Money
from reconciler.providers.http_exchange import Answered
from reconciler.providers.port import MappedWebhook, ProviderRequest, Unrecognised, Unresolved
from reconciler.providers.simulated.adapter import outcome_of
from reconciler.providers.simulated.api import EffectRequest
from reconciler.providers.simulated.book import Book, Line, UnreadableBook
from reconciler.providers.simulated.control import Control, UnreadableState
from reconciler.providers.simulated.faults import (
    NORMAL,
    NORMAL_WEBHOOKS,
    Asked,
    Faults,
    Mix,
    Script,
)
from reconciler.providers.simulated.foresight import Foresight
from reconciler.providers.simulated.mapping import SimulatedMapping
from reconciler.providers.simulated.webhooks import Outbox


def line(number: int, effect_id: str | None = None, account: str = "main") -> Line:
    """One line of a book."""
    return Line(
        request_id=f"rq_{number}",
        account=account,
        operation="charge",
        key=f"key-{number}",
        reference=None,
        action_key=f"charge:v1:acme:e-{number}",
        request_hash=None,
        parameters_hash="sha256:00",
        target=None,
        description="Zoë",
        amount=Money(minor=4_990, currency="USD"),
        arrived_at=1,
        decided_at=2,
        committed_at=2 if effect_id else None,
        effect_id=effect_id,
        replayed_effect_id=None,
        status=200 if effect_id else 500,
        code=None,
        answer="sent",
        remembered="effect" if effect_id else "nothing",
    )


# --- the book -------------------------------------------------------------------------------------


def test_a_book_gives_everything_back(tmp_path: Path) -> None:
    """Read again, it has the same effects, goes on numbering, and remembers keys."""
    book = Book(tmp_path)
    book.write(line(1, "ch_1"))
    book.write(line(2))
    book.write(line(3, "ch_2"))
    book.close()
    again = Book(tmp_path)
    assert [effect.id for effect in again.effects("main")] == ["ch_1", "ch_2"]
    assert again.next_request_id() == "rq_4"
    assert again.next_effect_id("charge") == "ch_3"
    assert again.next_effect_id("refund") == "re_1"
    assert again.line_of_key("main", "key-1") == line(1, "ch_1")
    assert again.line_of_key("main", "key-2") is None
    again.close()


def test_a_torn_last_line_was_never_answered(tmp_path: Path) -> None:
    """Half a line is cut off, and the next one stands on a line of its own."""
    book = Book(tmp_path)
    book.write(line(1, "ch_1"))
    book.close()
    with book.path.open("ab") as file:
        file.write(line(2, "ch_2").model_dump_json().encode()[:50])
    again = Book(tmp_path)
    assert again.next_effect_id("charge") == "ch_2"
    again.write(line(2, "ch_2"))
    again.close()
    written = [json.loads(raw)["effect_id"] for raw in book.path.read_bytes().splitlines()]
    assert written == ["ch_1", "ch_2"]


def test_a_whole_line_that_is_not_ours_stops_the_start(tmp_path: Path) -> None:
    """A book that cannot be read is never gone past, and the message says which line."""
    (tmp_path / "book.jsonl").write_bytes(line(1, "ch_1").model_dump_json().encode() + b"\n{}\n")
    with pytest.raises(UnreadableBook, match="Line 2"):
        Book(tmp_path)


def test_a_book_has_one_writer(tmp_path: Path) -> None:
    """A second provider on the same folder is told so, until the first is gone."""
    first = Book(tmp_path)
    with pytest.raises(UnreadableBook, match="Another provider"):
        Book(tmp_path)
    first.close()
    Book(tmp_path).close()


async def test_a_broken_file_of_personalities_is_told(tmp_path: Path) -> None:
    """What steers the provider is not guessed."""
    (tmp_path / "control.json").write_text("{}{")
    book, outbox = Book(tmp_path), Outbox(tmp_path, seed=0, retry_first_ms=1)
    with pytest.raises(UnreadableState):
        Control(tmp_path, book, outbox, Faults(0), Foresight())
    book.close()
    outbox.close()


# --- chance ---------------------------------------------------------------------------------------

MIX = Mix.model_validate(
    {
        "faults": [
            {"per_thousand": 300, "fault": {"kind": "commit_then_drop"}},
            {"per_thousand": 200, "fault": {"kind": "fail_before_commit"}},
        ],
        "webhooks": [{"per_thousand": 250, "webhooks": [{"kind": "late", "delay_ms": 5}]}],
    }
)


def asked(number: int) -> Asked:
    """The request of one action."""
    return Asked("main", "charge", f"charge:v1:acme:e-{number}")


def test_chance_does_not_depend_on_the_order_of_arrival() -> None:
    """The same seed gives each action the same faults however requests interleave."""
    forwards, backwards = Faults(7), Faults(7)
    forwards.mix(MIX)
    backwards.mix(MIX)
    drawn = {number: forwards.next(asked(number)) for number in range(200)}
    assert {number: backwards.next(asked(number)) for number in reversed(range(200))} == drawn


def test_another_seed_and_another_attempt_draw_again() -> None:
    """Neither all seeds nor all attempts of an action meet the same fault."""
    one, other = Faults(1), Faults(2)
    one.mix(MIX)
    other.mix(MIX)
    first = [one.next(asked(number)) for number in range(200)]
    assert [other.next(asked(number)) for number in range(200)] != first
    assert [one.next(asked(number)) for number in range(200)] != first


def test_shares_are_what_they_say() -> None:
    """Of many requests about the named share is hit, and the rest is normal."""
    faults = Faults(3)
    faults.mix(MIX)
    drawn = [faults.next(asked(number)) for number in range(4_000)]
    normal = sum(course == NORMAL for course, _ in drawn)
    late = sum(webhooks != NORMAL_WEBHOOKS for _, webhooks in drawn)
    assert 1_850 < normal < 2_150
    assert 870 < late < 1_130


def test_scripts_go_before_chance_and_are_used_up() -> None:
    """A script befalls the requests it fits, in its order and as often as it says."""
    faults = Faults(0)
    script = Script.model_validate(
        {
            "match": {"action_key": asked(1).action_key},
            "times": 2,
            "fault": {"kind": "refuse", "code": "no"},
        }
    )
    faults.add([script])
    assert faults.next(asked(2)) == (NORMAL, NORMAL_WEBHOOKS)
    codes = [faults.next(asked(1))[0].code for _ in range(3)]
    assert codes == ["no", "no", ""]
    faults.add([script])
    faults.clear()
    assert faults.next(asked(1)) == (NORMAL, NORMAL_WEBHOOKS)


def test_scripts_that_wait_are_bounded() -> None:
    """A test that scripts without end is told so."""
    faults = Faults(0)
    faults.add([Script()] * 10_000)
    with pytest.raises(ValueError, match="10000"):
        faults.add([Script()])


# --- answers that lie, webhooks that make no sense ------------------------------------------------

REQUEST = ProviderRequest(
    "charge:v1:acme:e-1",
    "charge",
    1,
    None,
    {},
    Money(minor=4_990, currency="USD"),
    "main",
    "sha256:00",
)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"metadata": {"action_key": "charge:v1:acme:e-2"}}, "answer_for_another_action"),
        ({"metadata": {}}, "answer_for_another_action"),
        ({"account": "other"}, "answer_for_another_action"),
        ({"amount": {"minor": 49_900, "currency": "USD"}}, "answer_with_another_amount"),
        ({"amount": {"minor": 4_990, "currency": "EUR"}}, "answer_with_another_amount"),
        ({"amount": None}, "answer_with_another_amount"),
        ({"id": 7}, "answer_invalid"),
        ({"surprise": 1}, "answer_invalid"),
    ],
)
def test_a_success_must_be_about_our_request(changes: dict[str, object], code: str) -> None:
    """An answer with another action, account or amount is not our success."""
    effect: dict[str, object] = {
        "id": "ch_1",
        "account": "main",
        "operation": "charge",
        "target": None,
        "description": None,
        "amount": {"minor": 4_990, "currency": "USD"},
        "key": "k",
        "reference": "k",
        "metadata": {"action_key": "charge:v1:acme:e-1", "request_hash": "sha256:00"},
        "committed_at": 1,
    }
    body = json.dumps({"effect": effect | changes, "replayed": False}).encode()
    assert outcome_of(REQUEST, Answered(200, (), body)) == Unresolved(code)


@pytest.mark.parametrize("status", [201, 202, 204])
def test_another_kind_of_success_proves_nothing(status: int) -> None:
    """Accepted is not done."""
    assert outcome_of(REQUEST, Answered(status, (), b"")) == Unresolved(f"http_{status}")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", Unrecognised("not_json")),
        (b"[]", Unrecognised("no_event_type")),
        (b'{"type":7}', Unrecognised("no_event_type")),
        (b'{"type":"payout.paid"}', Unrecognised("unknown_event_type", "payout.paid")),
        (b'{"type":"effect.settled"}', Unrecognised("malformed_event", "effect.settled")),
        (b'{"type":"a","type":"b"}', Unrecognised("duplicate_key")),
        (b'{"type":1.5}', Unrecognised("float_refused")),
    ],
)
def test_a_webhook_without_meaning_is_said_to_have_none(raw: bytes, expected: Unrecognised) -> None:
    """Each way of making no sense has its name; the type is kept where there is one."""
    assert SimulatedMapping().map(raw) == expected


@given(raw=st.binary(max_size=120) | st.text(max_size=60).map(str.encode))
@settings(max_examples=200, deadline=None)
def test_no_webhook_makes_the_mapping_raise(raw: bytes) -> None:
    """Any bytes have an answer."""
    assert isinstance(SimulatedMapping().map(raw), MappedWebhook | Unrecognised)


@pytest.mark.parametrize(
    ("money", "said"),
    [
        (Money(minor=12_000, currency="EUR"), "One refund of 120.00 EUR on order:A-1"),
        (Money(minor=500, currency="JPY"), "One refund of 500 JPY on order:A-1"),
        (Money(minor=1_250, currency="KWD"), "One refund of 1.250 KWD on order:A-1"),
        (None, "One refund on order:A-1"),
    ],
)
def test_people_read_what_would_happen_in_the_units_of_the_money(
    money: Money | None, said: str
) -> None:
    """As it stands beside it on the sheet, and not a hundred times as much."""
    asked = EffectRequest(target="order:A-1", amount=money)
    fault, answer = Foresight().see(Asked("main", "refund", None), asked)
    assert (fault, answer.effect) == (None, said)
