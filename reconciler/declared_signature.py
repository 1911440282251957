"""The scheme of a provider whose description declares how its webhooks are signed: `hmac`.

Guarantees beyond those of every scheme that the borders of what is signed cannot be moved: ids and
time stamps hold no character that parts them from what stands beside. Where a separator is declared
the header may hold several signatures, as it does while a secret is rolled; any of them counts, and
what has another form, such as one of a later version, is passed over. Must never take an id or a
time stamp that is not among what is signed; `provider check` refuses such a description. Built from
a description, called where schemes are.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ledger.core.limits import WEBHOOK_BYTES_MAX
from reconciler.providers.limits import WEBHOOK_ID_CHARS_MAX, WEBHOOK_SIGNATURES_MAX
from reconciler.schemes import (
    SIGNATURE_CHARS_MAX,
    Verdict,
    any_fits,
    hash_id,
    in_time,
    is_key_text,
    once_each,
)
from reconciler.webhooks import (
    SECRET_BYTES_MIN,
    TOLERANCE_MS,
    Verified,
    WebhookProblem,
    WebhookRejected,
)

BODY: Final = "body"
TIMESTAMP: Final = "timestamp"
ID: Final = "id"
PLACEHOLDERS: Final = frozenset({BODY, TIMESTAMP, ID})

# What may stand in an id and a time stamp; whatever parts them from others is none of these.
_ID: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{WEBHOOK_ID_CHARS_MAX}}}")
_STAMP: Final = re.compile(r"0|[1-9][0-9]{0,13}")
_PARTS: Final = re.compile(r"[^A-Za-z0-9_-]")

KeyAs: TypeAlias = Literal["text", "hex", "base64"]
_KEYS: Final[Mapping[KeyAs, Callable[[str], bytes]]] = {
    "text": str.encode,
    "hex": binascii.unhexlify,
    # As Standard Webhooks shows it: who sends by it may name the headers otherwise.
    "base64": lambda text: base64.b64decode(text.removeprefix("whsec_"), validate=True),
}


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in what is signed: `body`, `timestamp` or `id`."""

    name: str


@dataclass(frozen=True, slots=True)
class DeclaredHmac:
    """An HMAC as a description declares it. Header names are in lower case.

    `signed` is what is signed, in pieces: texts, and `Slot`s for the body (once), the time stamp
    and the id. `key_as` says how the configured text becomes the key, `separator` what parts the
    signatures of a header that may hold several, each behind the prefix.
    """

    header: str
    signed: tuple[str | Slot, ...]
    algorithm: Literal["sha256", "sha512"]
    encoding: Literal["hex", "base64"]
    prefix: str = ""
    key_as: KeyAs = "text"
    timestamp_header: str | None = None
    timestamp_unit: Literal["seconds", "milliseconds"] = "seconds"
    tolerance_ms: int = TOLERANCE_MS
    id_header: str | None = None
    keep: tuple[str, ...] = ()
    separator: str | None = None

    @property
    def headers(self) -> tuple[str, ...]:
        """What it reads, and what its description wants kept beside."""
        return tuple(dict.fromkeys((*self._read, *self.keep)))

    @property
    def _read(self) -> tuple[str, ...]:
        named = (self.header, self.timestamp_header, self.id_header)
        return tuple(name for name in named if name is not None)

    def verify(
        self, raw: bytes, headers: Mapping[str, str], secrets: Sequence[str], now_ms: int
    ) -> Verdict:
        """Check one webhook; see `Scheme`."""
        if len(raw) > WEBHOOK_BYTES_MAX:
            return WebhookRejected(WebhookProblem.TOO_LARGE)
        found = once_each(headers, self._read)
        if isinstance(found, WebhookProblem):
            return WebhookRejected(found)
        event_id = None if self.id_header is None else found[self.id_header]
        if event_id is not None and _ID.fullmatch(event_id) is None:
            return WebhookRejected(WebhookProblem.MALFORMED_ID)
        stamp = None if self.timestamp_header is None else found[self.timestamp_header]
        if stamp is not None and _STAMP.fullmatch(stamp) is None:
            return WebhookRejected(WebhookProblem.MALFORMED_TIMESTAMP)
        signatures = self._signatures(found[self.header])
        if not signatures:
            return WebhookRejected(WebhookProblem.MALFORMED_SIGNATURE)
        keys = [key for secret in secrets if (key := self.key(secret)) is not None]
        if not keys:
            return WebhookRejected(WebhookProblem.NO_USABLE_SECRET)
        signed = self._signed(raw, stamp, event_id)
        if not any_fits(signed, keys, signatures, self.algorithm):
            return WebhookRejected(WebhookProblem.SIGNATURE_MISMATCH)
        name = event_id or hash_id(raw)
        if stamp is None:
            return Verified(name, now_ms)
        sent_at = int(stamp) * (1_000 if self.timestamp_unit == "seconds" else 1)
        return in_time(sent_at, now_ms, self.tolerance_ms, name)

    def is_usable_secret(self, secret: str) -> bool:
        """Whether it is a key in the form that the description says."""
        return self.key(secret) is not None

    def key(self, secret: str) -> bytes | None:
        """The key in the form that the description says; see `Scheme`."""
        if not is_key_text(secret):
            return None
        try:
            key = _KEYS[self.key_as](secret)
        except (ValueError, binascii.Error):
            return None
        return key if len(key) >= SECRET_BYTES_MIN else None

    def sign(self, raw: bytes, *, event_id: str, secret: str, now_ms: int) -> dict[str, str]:
        """The headers that are declared; see `Scheme`."""
        key = self.key(secret)
        if key is None:
            raise ValueError("the secret is none")
        stamp = str(now_ms // (1_000 if self.timestamp_unit == "seconds" else 1))
        made = hmac.new(key, self._signed(raw, stamp, event_id), self.algorithm).digest()
        text = made.hex() if self.encoding == "hex" else base64.b64encode(made).decode()
        written = {self.header: self.prefix + text}
        if self.timestamp_header is not None:
            written[self.timestamp_header] = stamp
        if self.id_header is not None:
            written[self.id_header] = event_id
        return written

    def _signed(self, raw: bytes, stamp: str | None, event_id: str | None) -> bytes:
        values = {
            BODY: raw,
            TIMESTAMP: (stamp or "").encode(),
            ID: (event_id or "").encode(),
        }
        return b"".join(
            values[piece.name] if isinstance(piece, Slot) else piece.encode()
            for piece in self.signed
        )

    def _signatures(self, header: str) -> list[bytes]:
        """The bytes of every signature of the form that is declared; none where there are more than
        a sender can mean.
        """
        if len(header) > SIGNATURE_CHARS_MAX:
            return []
        parts = [header]
        if self.separator is not None:
            parts = [part.strip(" ") for part in header.split(self.separator)]
        if len(parts) > WEBHOOK_SIGNATURES_MAX:
            return []
        return [made for part in parts if (made := self._signature(part)) is not None]

    def _signature(self, written: str) -> bytes | None:
        """The bytes of one signature; None for what has not the form that is declared."""
        if not written.startswith(self.prefix):
            return None
        text = written[len(self.prefix) :]
        try:
            if not text.isascii():
                return None
            made = (
                binascii.unhexlify(text)
                if self.encoding == "hex"
                else base64.b64decode(text, validate=True)
            )
        except (ValueError, binascii.Error):
            return None
        return made if len(made) == hashlib.new(self.algorithm).digest_size else None


class BadSigned(ValueError):
    """What is said to be signed cannot be; the text says why."""


def signed_pieces(text: str) -> tuple[str | Slot, ...]:
    """`{timestamp}.{body}` as pieces. Raises BadSigned.

    Two slots are parted by a text with a character that no id and no time stamp can hold: else the
    border between them could be moved.
    """
    pieces: list[str | Slot] = []
    for at, part in enumerate(re.split(r"\{([a-z_]*)\}", text)):
        if at % 2 == 0:
            if "{" in part or "}" in part:
                raise BadSigned("has a brace that belongs to no {body}, {timestamp} or {id}")
            if part:
                pieces.append(part)
        elif part in PLACEHOLDERS:
            is_first = not any(isinstance(piece, Slot) for piece in pieces)
            before = pieces[-1] if pieces and isinstance(pieces[-1], str) else ""
            if not is_first and _PARTS.search(before) is None:
                raise BadSigned("needs a character such as . or : between its values")
            pieces.append(Slot(part))
        else:
            raise BadSigned(f"has {{{part[:40]}}}; known are {{body}}, {{timestamp}} and {{id}}")
    slots = [piece.name for piece in pieces if isinstance(piece, Slot)]
    if slots.count(BODY) != 1:
        raise BadSigned("must have {body} once: a signature over less proves nothing of it")
    if len(slots) != len(set(slots)):
        raise BadSigned("has a value twice")
    return tuple(pieces)
