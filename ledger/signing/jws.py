"""Compact JWS in the one form that is taken: Ed25519, three header members, nothing optional.

Guarantees that what a token says has one text for its header and its payload (base64url without
spare bits, header members in their order), so that nothing ambiguous travels with a signature. Must
never choose an algorithm by what a token says. Called by what signs and reads decisions and
log-ins.
"""

import re
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey

from ledger.core.public_keys import decoded

APPROVAL: Final = "actionledger-approval+jws"
RESOLUTION: Final = "actionledger-resolution+jws"
LOGIN: Final = "actionledger-login+jws"

# RFC 9864 names the curve; the older name, EdDSA, is refused like every other algorithm.
_ALGORITHM: Final = "Ed25519"
_HEADER: Final = re.compile(
    rb'\{"alg":"Ed25519","kid":"([A-Za-z0-9_-]{43})","typ":"([a-z+-]{1,64})"\}'
)
_SEGMENTS: Final = 3


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a token says before anything is proven: whose key, of which type, about what."""

    key_id: str
    typ: str
    payload: bytes


def claimed(token: str) -> Claimed | None:
    """What a token says it is, or None where it is no token of ours."""
    segments = token.split(".", _SEGMENTS)
    if len(segments) != _SEGMENTS or not token.isascii():
        return None
    header, payload, signature = map(decoded, segments)
    if header is None or payload is None or signature is None:
        return None
    match = _HEADER.fullmatch(header)
    return None if match is None else Claimed(match[1].decode(), match[2].decode(), payload)


def is_proven(token: str, public: str) -> bool:
    """Whether a token that `claimed` has read is signed with the private half of a public key."""
    raw = decoded(public)
    if raw is None:
        return False
    try:
        key = OKPKey.import_key(Ed25519PublicKey.from_public_bytes(raw))
        jws.deserialize_compact(token, key, algorithms=[_ALGORITHM])
    except (JoseError, ValueError):
        return False
    return True


def signed(payload: bytes, typ: str, key: Ed25519PrivateKey, key_id: str) -> str:
    """A token of a type over a payload."""
    header = {"alg": _ALGORITHM, "kid": key_id, "typ": typ}
    return jws.serialize_compact(header, payload, OKPKey.import_key(key), algorithms=[_ALGORITHM])
