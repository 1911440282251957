"""Signatures of the simulated world: drawn and read in a microsecond, and as hard to transplant.

A stub stands where the product reads a signature: it knows the same refusals, in the same order,
and proves nothing but what the simulated people sign. One history in some is lived with the real
scheme instead, so that nothing rests on the stub.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger.core.people import People
from ledger.core.rejections import Rejection
from ledger.core.statement import (
    Resolution,
    Signable,
    Signed,
    SignedByKey,
    Statement,
    statement_bytes,
)
from ledger.signing.keys import SigningKey
from ledger.signing.keys import sign as sign_really
from ledger.signing.reading import Read
from ledger.signing.reading import read_signed as _really
from streams import deciding

_STUB: Final = "stub~"
_PROVEN, _FORGED = "proven", "forged"
_KEPT_MAX: Final = 4_096
_statements: dict[str, Signable] = {}
_RESOLVES: Final = b'"decision":"resolve"'


@cache
def key_of(name: str) -> SigningKey:
    """The private key of a name, the same in every history."""
    seed = sum(name.encode()) % 255 + 1
    return SigningKey.of(Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32))


def sign(statement: Signable, name: str, *, really: bool) -> SignedByKey:
    """A statement under the key of a name."""
    key = key_of(name)
    if really:
        return sign_really(statement, key)
    return SignedByKey(jws=f"{_STUB}{key.id}.{_encoded(statement_bytes(statement))}.{_PROVEN}")


def forge(statement: Signable, name: str, *, really: bool) -> SignedByKey:
    """A statement under the name of a key that did not sign it."""
    if not really:
        payload = _encoded(statement_bytes(statement))
        return SignedByKey(jws=f"{_STUB}{key_of(name).id}.{payload}.{_FORGED}")
    header, payload, _ = sign_really(statement, key_of(name)).jws.split(".")
    other = statement.model_copy(update={"comment": "another"})
    return SignedByKey(jws=f"{header}.{payload}.{sign_really(other, key_of(name)).jws[-86:]}")


def told(jws: str) -> tuple[str, dict[str, Any], bytes | None]:
    """What a reader that shares no code with the product makes of it: the key's id, the statement,
    and the signature where it is a real one. Raises ValueError for a stub that is forged.
    """
    header, payload, proof = jws.split(".")
    statement: dict[str, Any] = json.loads(_decoded(payload))
    if not header.startswith(_STUB):
        return json.loads(_decoded(header))["kid"], statement, _decoded(proof)
    if proof != _PROVEN:
        raise ValueError("forged")
    return header.removeprefix(_STUB), statement, None


def _encoded(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _read(signed: Signed, people: People) -> Read | Rejection:
    """As the product reads a signature, with the stub's proof."""
    assert isinstance(signed, SignedByKey)
    if not signed.jws.startswith(_STUB):
        return _really(signed, people)
    header, payload, proof = signed.jws.split(".")
    key_id = header.removeprefix(_STUB)
    found = people.person_of(key_id)
    if found is None:
        return Rejection.UNKNOWN_SIGNER
    if proof != _PROVEN:
        return Rejection.SIGNATURE_INVALID
    statement = _statements.get(payload)
    if statement is None:
        if len(_statements) > _KEPT_MAX:
            _statements.clear()
        raw = _decoded(payload)
        kind = Resolution if _RESOLVES in raw else Statement
        statement = _statements[payload] = kind.model_validate_json(raw)
    person, key = found
    if statement.approver != person.name:
        return Rejection.OTHER_PERSON
    if person.revoked or key.revoked:
        return Rejection.SIGNER_REVOKED
    return Read(statement, person.name, key_id)


@contextmanager
def stubbed() -> Iterator[None]:
    """While it lasts the product believes the stub."""
    setattr(deciding, "read_signed", _read)  # noqa: B010 - a name in a module of the product
    try:
        yield
    finally:
        setattr(deciding, "read_signed", _really)  # noqa: B010
