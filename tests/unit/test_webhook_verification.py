"""Whether inbound bytes are believed: signature, time and form, whatever an attacker sends."""

import base64
import hashlib
import hmac
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook

from ledger.core.limits import WEBHOOK_BYTES_MAX
from reconciler.webhooks import (
    TOLERANCE_MS,
    Verified,
    WebhookProblem,
    WebhookRejected,
    is_usable_secret,
    verify,
)

KEY = b"thirty-two bytes of pure secret!"
SECRET = "whsec_" + base64.b64encode(KEY).decode()
OTHER_SECRET = "whsec_" + base64.b64encode(b"another secret of some length").decode()
NOW = 1_800_000_000_000
RAW = b'{"id":"evt_1","type":"effect.settled"}'


def signature(
    raw: bytes, event_id: str = "evt_1", stamp: str | None = None, key: bytes = KEY
) -> str:
    """Sign by hand, so that the package is not its own judge."""
    stamp = str(NOW // 1000) if stamp is None else stamp
    signed = event_id.encode() + b"." + stamp.encode() + b"." + raw
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def headers(
    raw: bytes = RAW, *, event_id: str = "evt_1", at: int = NOW, **overrides: str
) -> dict[str, str]:
    """Headers of a genuine webhook, with some replaced."""
    genuine = {
        "webhook-id": event_id,
        "webhook-timestamp": str(at // 1000),
        "webhook-signature": signature(raw, event_id, str(at // 1000)),
    }
    return genuine | {f"webhook-{name}": value for name, value in overrides.items()}


def rejected(given_headers: Mapping[str, str], raw: bytes = RAW) -> WebhookProblem | None:
    """Why these headers are refused, if they are."""
    verdict = verify(raw, given_headers, [SECRET], NOW)
    return verdict.code if isinstance(verdict, WebhookRejected) else None


def test_a_genuine_webhook_is_believed() -> None:
    """The right signature gives the event's id and the time it was sent."""
    assert verify(RAW, headers(), [SECRET], NOW) == Verified("evt_1", NOW)


def test_header_names_are_compared_without_case() -> None:
    """Proxies write header names as they like."""
    assert rejected({name.title(): value for name, value in headers().items()}) is None


@pytest.mark.case("C065")
@pytest.mark.parametrize(
    "text",
    ['{"t":"😊"}', '{"t":"ñ"}', '{"t":"\u2028"}', r'{"t":"\ud83d\ude0a"}', '{"t":"Zoë 東京"}'],
)
def test_c065_text_beyond_ascii_is_believed_as_it_was_signed(text: str) -> None:
    """C065: whatever way a character was written, the signature over those bytes holds."""
    raw = text.encode()
    assert rejected(headers(raw), raw) is None


@pytest.mark.case("C065")
def test_c065_a_rewritten_body_is_not_believed() -> None:
    """C065: the same text in other bytes is another body."""
    written, rewritten = '{"t":"😊"}'.encode(), rb'{"t":"\ud83d\ude0a"}'
    assert rejected(headers(written), rewritten) is WebhookProblem.SIGNATURE_MISMATCH


@pytest.mark.case("C067")
@pytest.mark.parametrize("minutes", [-6, 6])
def test_c067_a_clock_six_minutes_off_refuses_by_name(minutes: int) -> None:
    """C067: an authentic webhook outside the tolerance is refused with the time as the reason."""
    verdict = verify(RAW, headers(), [SECRET], NOW + minutes * 60_000)
    assert verdict == WebhookRejected(WebhookProblem.TIMESTAMP_OUT_OF_TOLERANCE)


@pytest.mark.case("C067")
def test_c067_the_same_webhook_sent_again_is_believed_when_the_clock_is_right() -> None:
    """C067: nothing remembers the refusal, so a redelivery with a new time stamp comes through."""
    later = NOW + 3_600_000
    assert verify(RAW, headers(at=later), [SECRET], later) == Verified("evt_1", later)


@pytest.mark.parametrize("offset", [-TOLERANCE_MS, TOLERANCE_MS])
def test_the_tolerance_is_reached_on_both_sides(offset: int) -> None:
    """Exactly five minutes is inside, a millisecond more is outside."""
    assert isinstance(verify(RAW, headers(), [SECRET], NOW + offset), Verified)
    beyond = offset + (1 if offset > 0 else -1)
    assert isinstance(verify(RAW, headers(), [SECRET], NOW + beyond), WebhookRejected)


def test_a_forgery_is_never_counted_as_a_clock_problem() -> None:
    """Only authentic webhooks may say that our clock is off."""
    forged = headers(at=NOW - 3_600_000, signature=signature(RAW, key=b"wrong"))
    assert rejected(forged) is WebhookProblem.SIGNATURE_MISMATCH


@pytest.mark.case("C069")
@pytest.mark.parametrize("name", ["id", "timestamp", "signature"])
def test_c069_a_missing_header_is_refused(name: str) -> None:
    """C069: leaving out what deduplication needs is a refusal, not a way round it."""
    partial = headers()
    del partial[f"webhook-{name}"]
    assert rejected(partial) is WebhookProblem.MISSING_HEADER
    assert rejected(headers() | {f"webhook-{name}": ""}) is WebhookProblem.MISSING_HEADER


@pytest.mark.case("C069")
def test_c069_the_event_id_is_signed() -> None:
    """C069: a repetition under another id is a forgery, so the id is fit to deduplicate by."""
    assert rejected(headers(id="evt_2")) is WebhookProblem.SIGNATURE_MISMATCH


def test_a_repeated_header_is_refused() -> None:
    """Two ids leave open which one was signed, even if they are equal."""
    doubled = headers() | {"Webhook-Id": "evt_1"}
    assert rejected(doubled) is WebhookProblem.REPEATED_HEADER


@pytest.mark.parametrize("event_id", ["a.b", "a b", "ümlaut", "x" * 257, "evt\r\n1", "\x00"])
def test_an_id_that_could_be_read_two_ways_is_refused(event_id: str) -> None:
    """A dot would move the border of what was signed; the rest cannot be a header value."""
    assert rejected(headers(event_id=event_id)) is WebhookProblem.MALFORMED_ID


def test_borders_of_the_signed_text_cannot_be_moved() -> None:
    """The end of an id that is followed by digits cannot become a time stamp of its own."""
    stamp = str(NOW // 1000)
    raw = f"{stamp}.{{}}".encode()
    honest = headers(raw, event_id="evt")
    assert rejected(honest, raw) is None
    moved = {
        "webhook-id": f"evt.{stamp}",
        "webhook-timestamp": stamp,
        "webhook-signature": honest["webhook-signature"],
    }
    assert rejected(moved, b"{}") is WebhookProblem.MALFORMED_ID


@pytest.mark.parametrize(
    "stamp",
    ["now", "-1", "1.5", "1e9", " 1800000000", "01800000000", "٣", "9" * 12, "9" * 5000, "NaN"],
)
def test_a_time_stamp_is_plain_seconds(stamp: str) -> None:
    """What is not a plain whole number is refused before anything converts it."""
    assert rejected(headers(timestamp=stamp)) is WebhookProblem.MALFORMED_TIMESTAMP


@pytest.mark.parametrize(
    "value",
    ["garbage", "v1,a,b", "v1,", ",", "v1", "v1,ü", "v1," + "A" * 5_000, " ".join(["v1,x"] * 20)],
)
def test_a_malformed_signature_is_refused(value: str) -> None:
    """What would raise inside a parser is a named refusal."""
    assert rejected(headers(signature=value)) is WebhookProblem.MALFORMED_SIGNATURE


def test_a_signature_of_another_kind_alone_is_unsupported() -> None:
    """An asymmetric signature cannot be checked here, and that is what is said."""
    asymmetric = "v1a," + base64.b64encode(b"x" * 64).decode()
    assert rejected(headers(signature=asymmetric)) is WebhookProblem.UNSUPPORTED_SIGNATURE
    both = f"{asymmetric} {signature(RAW)}"
    assert rejected(headers(signature=both)) is None


def test_a_rotated_secret_is_believed_on_either_side() -> None:
    """Any of our secrets and any of the sender's signatures may be the one that fits."""
    assert isinstance(verify(RAW, headers(), [OTHER_SECRET, SECRET], NOW), Verified)
    several = headers(signature=f"{signature(RAW, key=b'old')} {signature(RAW)}")
    assert rejected(several) is None


@pytest.mark.parametrize(
    "secrets",
    [[], [""], ["whsec_"], ["whsec_ü"], ["whsec_A"], ["\ud800"], ["hello world!"], ["whsec_b2xk"]],
)
def test_without_a_usable_secret_nothing_is_believed(secrets: list[str]) -> None:
    """A secret that cannot be used is no reason to believe, nor to fail."""
    verdict = verify(RAW, headers(), secrets, NOW)
    assert verdict == WebhookRejected(WebhookProblem.NO_USABLE_SECRET)
    assert not any(is_usable_secret(secret) for secret in secrets)


def test_an_unusable_secret_does_not_disturb_a_usable_one() -> None:
    """A broken entry in the list is passed over."""
    assert isinstance(verify(RAW, headers(), ["whsec_A", SECRET], NOW), Verified)


@pytest.mark.parametrize("raw", [b'{"name":"caf\xe9"}', b"\xff\xfe\x00", b""])
def test_a_body_that_is_no_text_is_believed_by_its_signature(raw: bytes) -> None:
    """It is the sender's, whatever it is: kept as unrecognised, where a refusal would lose it."""
    assert verify(raw, headers(raw), [SECRET], NOW) == Verified("evt_1", NOW)
    assert rejected(headers(b"another"), raw) is WebhookProblem.SIGNATURE_MISMATCH


def test_a_body_beyond_the_limit_is_refused_unread() -> None:
    """A megabyte is taken, one byte more is not."""
    largest = b" " * WEBHOOK_BYTES_MAX
    assert rejected(headers(largest), largest) is None
    assert rejected(headers(), largest + b" ") is WebhookProblem.TOO_LARGE


class Pairs(Mapping[str, str]):
    """Headers that may name one thing twice, as servers hand them over."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        """Keep the pairs as they came."""
        self._pairs = pairs

    def __getitem__(self, name: str) -> str:
        """The first value."""
        return next(value for key, value in self._pairs if key == name)

    def __iter__(self) -> Iterator[str]:
        """Every name, as often as it is there."""
        return (name for name, _ in self._pairs)

    def __len__(self) -> int:
        """How many pairs there are."""
        return len(self._pairs)


NAMES = st.sampled_from(["webhook-id", "Webhook-Timestamp", "webhook-signature", "other"])


@given(
    raw=st.binary(max_size=64),
    pairs=st.lists(st.tuples(NAMES, st.text(max_size=40)), max_size=5),
    secrets=st.lists(st.text(max_size=20), max_size=2),
)
@settings(max_examples=300, deadline=None)
def test_nothing_that_is_sent_makes_it_raise(
    raw: bytes, pairs: list[tuple[str, str]], secrets: list[str]
) -> None:
    """Whatever comes, the answer is a named rejection."""
    verdict = verify(raw, Pairs(pairs), [SECRET, *secrets], NOW)
    assert isinstance(verdict, WebhookRejected)


@given(text=st.text(max_size=200), event_id=st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True))
@settings(max_examples=100, deadline=None)
def test_what_the_reference_implementation_signs_is_believed(text: str, event_id: str) -> None:
    """Any text that a sender signs with the public package is verified here."""
    raw = text.encode()
    made = Webhook(SECRET).sign(event_id, datetime.fromtimestamp(NOW // 1000, UTC), text)
    given_headers = {
        "webhook-id": event_id,
        "webhook-timestamp": str(NOW // 1000),
        "webhook-signature": made,
    }
    assert verify(raw, given_headers, [SECRET], NOW) == Verified(event_id, NOW)
