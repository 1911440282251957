"""The error table: what is not proven to have no effect stays unresolved."""

import pytest

from reconciler.providers.error_table import DEFAULT, ErrorTable, Verdict, judge, retry_after_ms
from reconciler.providers.http_exchange import (
    AFTER_FIRST_BYTE,
    BEFORE_FIRST_BYTE,
    Answered,
    Broken,
    Trouble,
)
from reconciler.providers.limits import RETRY_AFTER_MS_MAX
from reconciler.providers.port import NotSent, Refused, Retry, Unresolved

REFUSALS = {400, 401, 402, 403, 404, 405, 413, 414, 415, 422, 431}


def answered(status: int, **headers: str) -> Answered:
    """An answer with this status."""
    pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Answered(status, pairs, b"")


@pytest.mark.parametrize("trouble", sorted(BEFORE_FIRST_BYTE))
def test_before_the_first_byte_nothing_was_sent(trouble: Trouble) -> None:
    """Every trouble of that phase is a definite not-sent."""
    outcome = judge(Broken(trouble), DEFAULT, None)
    retry = Retry.NEVER if trouble is Trouble.UNSENDABLE else Retry.LATER
    assert outcome == NotSent(trouble.value, retry)


@pytest.mark.parametrize("trouble", sorted(AFTER_FIRST_BYTE))
def test_after_the_first_byte_nothing_is_known(trouble: Trouble) -> None:
    """Every trouble of that phase leaves the outcome open."""
    assert judge(Broken(trouble), DEFAULT, None) == Unresolved(trouble.value)


def test_only_a_listed_status_is_a_refusal() -> None:
    """Each status has its verdict, and whatever has no row is unresolved."""
    for status in range(200, 600):
        outcome = judge(answered(status), DEFAULT, None)
        if status in REFUSALS:
            assert outcome == Refused(f"http_{status}", Retry.NEVER)
        elif status == 429:
            assert outcome == Refused("http_429", Retry.LATER)
        else:
            assert outcome == Unresolved(f"http_{status}")


def test_a_provider_may_promise_more() -> None:
    """A status that a provider declares to be without effect becomes a refusal, there only."""
    table = ErrorTable({**DEFAULT.statuses, 503: Verdict.REFUSED_LATER})
    assert judge(answered(503, retry_after="2"), table, "busy") == Refused(
        "busy", Retry.LATER, 2_000
    )
    assert judge(answered(503), DEFAULT, "busy") == Unresolved("busy")
    assert judge(answered(402), table, "card_declined") == Refused("card_declined", Retry.NEVER)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", 0),
        ("120", 120_000),
        ("9" * 400, RETRY_AFTER_MS_MAX),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 0),
        ("Fri, 31 Dec 2199 23:59:59 GMT", RETRY_AFTER_MS_MAX),
        ("Fri, 31 Dec 1999 23:59:59 -0000", 0),
        ("soon", None),
        ("-1", None),
        ("1.5", None),
        ("٣", None),
        ("", None),
        ("Fri, 99 Dec 1999 23:59:59 GMT", None),
    ],
)
def test_retry_after_is_read_in_both_forms(value: str, expected: int | None) -> None:
    """Seconds and dates are bounded; what cannot be read is no wish at all."""
    assert retry_after_ms(answered(429, retry_after=value)) == expected
