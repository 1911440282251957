"""How a provider signs its webhooks: Standard Webhooks, Stripe's scheme, or (in
`declared_signature`) an HMAC that its description declares.

Guarantees of every scheme: the answer is a value with a closed reason, whatever an attacker sends;
the signature is over the raw bytes and compared in constant time with that of every live secret; a
header that is there twice is refused; a time stamp counts only where it is signed, and is refused
when it lies too far away on either side. Where a scheme signs no id, the event is named by the hash
of its signed bytes: an id that is not signed could be changed by whoever caught one webhook.

Must never read the body, keep state or log a header. Called by the webhook route, by settings and
by the command that sends a test.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from ledger.core.limits import WEBHOOK_BYTES_MAX
from reconciler.providers.limits import WEBHOOK_SIGNATURES_MAX
from reconciler.webhooks import (
    SECRET_BYTES_MIN,
    TOLERANCE_MS,
    Verified,
    WebhookProblem,
    WebhookRejected,
    is_usable_secret,
    signature,
    signing_key,
    verify,
)

SIGNATURE_CHARS_MAX: Final = 4_096

_SECONDS: Final = re.compile(r"0|[1-9][0-9]{0,10}")
_STRIPE_PART: Final = re.compile(r"(t|v[0-9]{1,2})=([0-9a-zA-Z]{1,256})")
_STRIPE_SIGNATURE: Final = re.compile(r"[0-9a-f]{64}")

Verdict: TypeAlias = Verified | WebhookRejected


class Scheme(Protocol):
    """One way of signing webhooks."""

    @property
    def headers(self) -> tuple[str, ...]:
        """The headers that it reads, in lower case: kept beside the body, so that an auditor can
        check the signature again.
        """
        ...

    def verify(
        self, raw: bytes, headers: Mapping[str, str], secrets: Sequence[str], now_ms: int
    ) -> Verdict:
        """Check one webhook; never raises. `now_ms` is the wall clock."""
        ...

    def is_usable_secret(self, secret: str) -> bool:
        """Whether a configured secret can verify anything."""
        ...

    def key(self, secret: str) -> bytes | None:
        """The key that a configured secret stands for; None for what can verify nothing. Several
        spellings may stand for one key.
        """
        ...

    def sign(self, raw: bytes, *, event_id: str, secret: str, now_ms: int) -> dict[str, str]:
        """The headers of a body that is sent now. Raises ValueError for an unusable secret."""
        ...


@dataclass(frozen=True, slots=True)
class StandardWebhooks:
    """Standard Webhooks: id, time stamp and body, five minutes."""

    headers: tuple[str, ...] = ("webhook-id", "webhook-signature", "webhook-timestamp")

    def verify(
        self, raw: bytes, headers: Mapping[str, str], secrets: Sequence[str], now_ms: int
    ) -> Verdict:
        """Check one webhook; see `Scheme`."""
        return verify(raw, headers, secrets, now_ms)

    def is_usable_secret(self, secret: str) -> bool:
        """Whether it is base64 of a key that is long enough, behind `whsec_` or alone."""
        return is_usable_secret(secret)

    def key(self, secret: str) -> bytes | None:
        """What is decoded of it; see `Scheme`."""
        return signing_key(secret)

    def sign(self, raw: bytes, *, event_id: str, secret: str, now_ms: int) -> dict[str, str]:
        """The three headers; see `Scheme`."""
        key = signing_key(secret)
        if key is None:
            raise ValueError("the secret is none")
        stamp = now_ms // 1_000
        return {
            "webhook-id": event_id,
            "webhook-timestamp": str(stamp),
            "webhook-signature": signature(raw, event_id, stamp, key),
        }


@dataclass(frozen=True, slots=True)
class StripeSignature:
    """Stripe's scheme: `Stripe-Signature: t=…,v1=…`, several `v1` while a secret is rolled, five
    minutes on either side (Stripe's own package takes any time in the future).
    """

    headers: tuple[str, ...] = ("stripe-signature",)

    def verify(
        self, raw: bytes, headers: Mapping[str, str], secrets: Sequence[str], now_ms: int
    ) -> Verdict:
        """Check one webhook; see `Scheme`."""
        if len(raw) > WEBHOOK_BYTES_MAX:
            return WebhookRejected(WebhookProblem.TOO_LARGE)
        found = once_each(headers, self.headers)
        if isinstance(found, WebhookProblem):
            return WebhookRejected(found)
        parsed = _stripe_header(found["stripe-signature"])
        if isinstance(parsed, WebhookProblem):
            return WebhookRejected(parsed)
        stamp, signatures = parsed
        keys = [key for secret in secrets if (key := self.key(secret)) is not None]
        if not keys:
            return WebhookRejected(WebhookProblem.NO_USABLE_SECRET)
        signed = stamp.encode() + b"." + raw
        if not any_fits(signed, keys, [bytes.fromhex(one) for one in signatures], "sha256"):
            return WebhookRejected(WebhookProblem.SIGNATURE_MISMATCH)
        return in_time(int(stamp) * 1_000, now_ms, TOLERANCE_MS, hash_id(raw))

    def is_usable_secret(self, secret: str) -> bool:
        """Whether it can be a key: the text that Stripe shows, used whole."""
        return is_key_text(secret)

    def key(self, secret: str) -> bytes | None:
        """The text itself; see `Scheme`."""
        return secret.encode() if is_key_text(secret) else None

    def sign(self, raw: bytes, *, event_id: str, secret: str, now_ms: int) -> dict[str, str]:
        """The one header; the id stands in the body. See `Scheme`."""
        _ = event_id
        key = self.key(secret)
        if key is None:
            raise ValueError("the secret is none")
        stamp = str(now_ms // 1_000)
        signed = stamp.encode() + b"." + raw
        made = hmac.new(key, signed, hashlib.sha256).hexdigest()
        return {"stripe-signature": f"t={stamp},v1={made}"}


STANDARD: Final = StandardWebhooks()
STRIPE: Final = StripeSignature()


def scheme_of(schemes: Mapping[str, Scheme], provider: str) -> Scheme:
    """How a provider signs: as it is declared, else by Standard Webhooks."""
    return schemes.get(provider, STANDARD)


def once_each(headers: Mapping[str, str], names: Sequence[str]) -> dict[str, str] | WebhookProblem:
    """The named headers, each there exactly once and not empty."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        lowered = name.lower()
        if lowered in names:
            if lowered in found:
                return WebhookProblem.REPEATED_HEADER
            found[lowered] = value
    if not all(found.get(name) for name in names):
        return WebhookProblem.MISSING_HEADER
    return found


def _stripe_header(header: str) -> tuple[str, list[str]] | WebhookProblem:
    """The time stamp and the well-formed `v1` signatures; other versions are passed over."""
    parts = header.split(",") if len(header) <= SIGNATURE_CHARS_MAX else []
    matched = [_STRIPE_PART.fullmatch(part) for part in parts[: WEBHOOK_SIGNATURES_MAX + 1]]
    if not matched or len(matched) > WEBHOOK_SIGNATURES_MAX or not all(matched):
        return WebhookProblem.MALFORMED_SIGNATURE
    pairs = [(one.group(1), one.group(2)) for one in matched if one is not None]
    stamps = [value for name, value in pairs if name == "t"]
    if len(stamps) != 1 or _SECONDS.fullmatch(stamps[0]) is None:
        return WebhookProblem.MALFORMED_TIMESTAMP
    ours = [value for name, value in pairs if name == "v1"]
    if not ours:
        return WebhookProblem.UNSUPPORTED_SIGNATURE
    if not all(_STRIPE_SIGNATURE.fullmatch(value) for value in ours):
        return WebhookProblem.MALFORMED_SIGNATURE
    return stamps[0], ours


def any_fits(
    signed: bytes, keys: Sequence[bytes], signatures: Sequence[bytes], algorithm: str
) -> bool:
    """Every pair is compared, so that the time taken says nothing about which one came close."""
    expected = [hmac.new(key, signed, algorithm).digest() for key in keys]
    fits = [hmac.compare_digest(ours, theirs) for ours in expected for theirs in signatures]
    return any(fits)


def in_time(sent_at: int, now_ms: int, tolerance_ms: int, event_id: str) -> Verdict:
    """The verdict on an authentic webhook, by when it was sent."""
    if abs(now_ms - sent_at) > tolerance_ms:
        return WebhookRejected(WebhookProblem.TIMESTAMP_OUT_OF_TOLERANCE)
    return Verified(event_id, sent_at)


def hash_id(raw: bytes) -> str:
    """The name of an event whose scheme signs no id."""
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"


def is_key_text(secret: str) -> bool:
    """Whether a configured text can be, or be written for, a key."""
    return secret.isascii() and secret.isprintable() and len(secret) >= SECRET_BYTES_MIN
