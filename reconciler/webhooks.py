"""Says whether the bytes of an inbound webhook may be believed, by Standard Webhooks.

Guarantees: the answer is a value with a closed reason, whatever an attacker sends; the signature is
checked over the raw bytes, in constant time over all secrets; a rejection for its time stamp is of
an authentic message, so counting those watches our clock and not an attacker's.

Must never read the body, keep state, or log a header. Deduplication needs the event id returned
here. Called by the webhook route before anything is published; replays do not verify again.
"""

import base64
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ledger.core.limits import WEBHOOK_BYTES_MAX
from reconciler.providers.limits import WEBHOOK_ID_CHARS_MAX, WEBHOOK_SIGNATURES_MAX

TOLERANCE_MS: Final = 300_000
SECRET_BYTES_MIN: Final = 8
"""Shorter ones are found by trying. Providers draw twenty and more."""

_ID_HEADER: Final = "webhook-id"
_TIMESTAMP_HEADER: Final = "webhook-timestamp"
_SIGNATURE_HEADER: Final = "webhook-signature"
_HEADERS: Final = frozenset({_ID_HEADER, _TIMESTAMP_HEADER, _SIGNATURE_HEADER})

# A dot parts id, time stamp and body in what is signed; inside an id it could move the borders.
_ID: Final = re.compile(rf"[!-\-/-~]{{1,{WEBHOOK_ID_CHARS_MAX}}}")
# Eleven digits reach beyond the year 5000 and stay within what `datetime` can hold.
_TIMESTAMP: Final = re.compile(r"[0-9]{1,11}")
_SIGNATURE: Final = re.compile(r"v1,[A-Za-z0-9+/]{43}=")
_OTHER_VERSION: Final = re.compile(r"v(?!1,)[0-9a-z]{1,8},[A-Za-z0-9+/=]{1,512}")
_SIGNATURE_CHARS_MAX: Final = 4_096


class WebhookProblem(StrEnum):
    """Why a webhook is not believed; the first that applies, in this order."""

    TOO_LARGE = "too_large"
    MISSING_HEADER = "missing_header"
    REPEATED_HEADER = "repeated_header"
    MALFORMED_ID = "malformed_id"
    MALFORMED_TIMESTAMP = "malformed_timestamp"
    MALFORMED_SIGNATURE = "malformed_signature"
    UNSUPPORTED_SIGNATURE = "unsupported_signature"
    NO_USABLE_SECRET = "no_usable_secret"  # noqa: S105 - the name of a problem
    SIGNATURE_MISMATCH = "signature_mismatch"
    TIMESTAMP_OUT_OF_TOLERANCE = "timestamp_out_of_tolerance"


@dataclass(frozen=True, slots=True)
class Verified:
    """The bytes were signed with one of the secrets; `event_id` is stable over redeliveries."""

    event_id: str
    sent_at: int


@dataclass(frozen=True, slots=True)
class WebhookRejected:
    """The bytes are not believed; nothing of them may be used."""

    code: WebhookProblem


def verify(
    raw: bytes,
    headers: Mapping[str, str],
    secrets: Sequence[str],
    now_ms: int,
    tolerance_ms: int = TOLERANCE_MS,
) -> Verified | WebhookRejected:
    """Check one webhook; never raises.

    `headers` are compared without case and may be a multi-mapping; `secrets` are `whsec_` texts,
    several during a rotation; `now_ms` is the wall clock. A time stamp is refused when it lies more
    than the tolerance away on either side.
    """
    if len(raw) > WEBHOOK_BYTES_MAX:
        return WebhookRejected(WebhookProblem.TOO_LARGE)
    named = _named(headers)
    if isinstance(named, WebhookProblem):
        return WebhookRejected(named)
    event_id, stamp, signature_header = named
    if _ID.fullmatch(event_id) is None:
        return WebhookRejected(WebhookProblem.MALFORMED_ID)
    if _TIMESTAMP.fullmatch(stamp) is None or str(int(stamp)) != stamp:
        return WebhookRejected(WebhookProblem.MALFORMED_TIMESTAMP)
    signatures = _signatures(signature_header)
    if isinstance(signatures, WebhookProblem):
        return WebhookRejected(signatures)
    expected = _expected(raw, event_id, int(stamp), secrets)
    if isinstance(expected, WebhookProblem):
        return WebhookRejected(expected)
    # Every pair is compared, so that the time taken says nothing about which one came close.
    matches = [hmac.compare_digest(ours, theirs) for ours in expected for theirs in signatures]
    if not any(matches):
        return WebhookRejected(WebhookProblem.SIGNATURE_MISMATCH)
    sent_at = int(stamp) * 1000
    if abs(now_ms - sent_at) > tolerance_ms:
        return WebhookRejected(WebhookProblem.TIMESTAMP_OUT_OF_TOLERANCE)
    return Verified(event_id, sent_at)


def is_usable_secret(secret: str) -> bool:
    """Whether a configured secret can verify anything; settings ask before a process starts."""
    return signing_key(secret) is not None


def signing_key(secret: str) -> bytes | None:
    """The key that a secret stands for: base64, padded or not, behind `whsec_` or alone. None for
    every other text, and for a key that could be found by trying.
    """
    text = secret.removeprefix("whsec_").rstrip("=")
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return None
    return key if len(key) >= SECRET_BYTES_MIN else None


def signature(raw: bytes, event_id: str, stamp: int, key: bytes) -> str:
    """What a body is signed with at a time in seconds, over its bytes: the package signs texts."""
    made = hmac.digest(key, f"{event_id}.{stamp}.".encode() + raw, "sha256")
    return f"v1,{base64.b64encode(made).decode()}"


def _named(headers: Mapping[str, str]) -> tuple[str, str, str] | WebhookProblem:
    """Id, time stamp and signature headers, each there exactly once."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        lowered = name.lower()
        if lowered in _HEADERS:
            if lowered in found:
                return WebhookProblem.REPEATED_HEADER
            found[lowered] = value
    if not all(found.get(name) for name in _HEADERS):
        return WebhookProblem.MISSING_HEADER
    return found[_ID_HEADER], found[_TIMESTAMP_HEADER], found[_SIGNATURE_HEADER]


def _signatures(header: str) -> list[str] | WebhookProblem:
    """The well-formed `v1` signatures; unknown versions are passed over, as the standard says."""
    if len(header) > _SIGNATURE_CHARS_MAX:
        return WebhookProblem.MALFORMED_SIGNATURE
    parts = header.split(" ")
    if len(parts) > WEBHOOK_SIGNATURES_MAX:
        return WebhookProblem.MALFORMED_SIGNATURE
    signatures = [part for part in parts if _SIGNATURE.fullmatch(part)]
    if signatures:
        return signatures
    if all(_OTHER_VERSION.fullmatch(part) for part in parts):
        return WebhookProblem.UNSUPPORTED_SIGNATURE
    return WebhookProblem.MALFORMED_SIGNATURE


def _expected(
    raw: bytes, event_id: str, stamp: int, secrets: Sequence[str]
) -> list[str] | WebhookProblem:
    """The signature that each usable secret gives to these bytes, which need be no text."""
    usable = [key for key in map(signing_key, secrets) if key is not None]
    return [signature(raw, event_id, stamp, key) for key in usable] or (
        WebhookProblem.NO_USABLE_SECRET
    )
