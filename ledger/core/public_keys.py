"""Public keys as text: read strictly, proven to lie on their curve, named by their thumbprint.

Guarantees that one key has one text, so that it cannot be registered twice under two names, and
that no key is taken under which a signature proves nothing. Verifies no signature. Called when who
may decide is read, and by `ledger.signing`.
"""

import hashlib
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

_ALPHABET: Final = re.compile(r"[A-Za-z0-9_-]*")
_ED25519_BYTES: Final = 32

# RFC 8032, 5.1: the field and the constant of the curve.
_P25519: Final = 2**255 - 19
_D25519: Final = -121_665 * pow(121_666, -1, _P25519) % _P25519
_DOUBLINGS_TO_THE_COFACTOR: Final = 3

# FIPS 186-5, curve P-256.
_P256: Final = 2**256 - 2**224 + 2**192 + 2**96 - 1
_B256: Final = 0x5AC635D8_AA3A93E7_B3EBBD55_769886BC_651D06B0_CC53B0F6_3BCE3C3E_27D2604B

# The one CTAP2-canonical COSE_Key of an ES256 key: {1: 2, 3: -7, -1: 1, -2: x, -3: y}.
_COSE_BEFORE_X: Final = bytes.fromhex("a5010203262001215820")
_COSE_BEFORE_Y: Final = bytes.fromhex("225820")
_COSE_BYTES: Final = len(_COSE_BEFORE_X) + 32 + len(_COSE_BEFORE_Y) + 32


def encoded(raw: bytes) -> str:
    """Base64url without padding."""
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def decoded(text: str) -> bytes | None:
    """The bytes of the only base64url text, without padding, that stands for them; None for any
    other.
    """
    if _ALPHABET.fullmatch(text) is None or len(text) % 4 == 1:
        return None
    raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    # The last character may carry bits that mean nothing: two texts would be one key.
    return raw if encoded(raw) == text else None


def ed25519_problem(public: str) -> str | None:
    """What keeps a text from being an Ed25519 public key, reading on from its path, or None."""
    raw = decoded(public)
    if raw is None or len(raw) != _ED25519_BYTES:
        return "must be 32 bytes in base64url without padding: 43 characters"
    if not _is_ed25519_point(raw):
        return "is no Ed25519 public key: no point of the curve, or one that proves nothing"
    return None


def passkey_problem(public: str) -> str | None:
    """What keeps a text from being an ES256 key as an authenticator gives it (COSE), or None."""
    raw = decoded(public)
    if raw is None or len(raw) != _COSE_BYTES:
        return f"must be {_COSE_BYTES} bytes of COSE in base64url without padding: an ES256 key"
    x, y = raw[len(_COSE_BEFORE_X) :][:32], raw[-32:]
    if raw != _COSE_BEFORE_X + x + _COSE_BEFORE_Y + y or not _is_p256_point(x, y):
        return "is no ES256 public key of a passkey"
    return None


def thumbprint(public: str) -> str:
    """The name of an Ed25519 public key: its RFC 7638 thumbprint (SHA-256) in base64url."""
    key = f'{{"crv":"Ed25519","kty":"OKP","x":"{public}"}}'
    return encoded(hashlib.sha256(key.encode()).digest())


def _is_ed25519_point(raw: bytes) -> bool:
    """Whether the bytes are the canonical text of a point whose order is not small.

    Under one of the eight points of small order a signature can be made for any text without a
    private key.
    """
    p, d = _P25519, _D25519
    y = int.from_bytes(raw, "little") & (2**255 - 1)
    if y >= p:
        return False
    if pow(_x_squared(y), (p - 1) // 2, p) != 1:
        return False
    for _ in range(_DOUBLINGS_TO_THE_COFACTOR):
        x2 = _x_squared(y)
        y = (y * y + x2) * pow(1 - d * x2 * y * y, -1, p) % p
    return y != 1


def _x_squared(y: int) -> int:
    return (y * y - 1) * pow(_D25519 * y * y + 1, -1, _P25519) % _P25519


def _is_p256_point(x_raw: bytes, y_raw: bytes) -> bool:
    x, y = int.from_bytes(x_raw), int.from_bytes(y_raw)
    return x < _P256 and y < _P256 and (y * y - (x * x * x - 3 * x + _B256)) % _P256 == 0
