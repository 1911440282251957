"""What a person said, proven: a signed decision, or a signed resolution of a case, read against the
people who may decide.

Guarantees that the answer is a function of the two arguments, so that processor, executor and
auditor come to the same one, and that every byte of the statement was signed, as what it is. Any
bytes have an answer: what was said or a refusal by name. Remembers what was proven, which cannot
change; asks anew whose key it is and whether it is revoked. Called by owners of partitions,
executors and doors.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, assert_never

from pydantic import ValidationError

from ledger.core.canonical import NotCanonical
from ledger.core.people import People, Person, PersonKey
from ledger.core.rejections import Rejection
from ledger.core.statement import (
    Resolution,
    Signable,
    Signed,
    SignedByKey,
    SignedByPasskey,
    Statement,
    statement_bytes,
    statement_hash,
)
from ledger.core.strict_json import MalformedJson, parse
from ledger.signing import jws
from ledger.signing.passkeys import Assertion, asserts

_PROVEN_REMEMBERED: Final = 1_024


@dataclass(frozen=True, slots=True)
class Read:
    """What was proven to be said, by whom, with which key."""

    statement: Signable
    person: str
    key_id: str


def read_signed(signed: Signed, people: People) -> Read | Rejection:
    """Who said what, or which refusal it is: of a decision that is not proven, of a key that nobody
    has, in the name of another person, of a key or a person that was revoked, in this order of what
    can be known.

    A key with an end (`not_after`) proves only decisions that are over by then. Whether the person
    may decide this, and whether it is still time, is asked elsewhere.
    """
    key_id = _key_id(signed)
    if key_id is None:
        return Rejection.SIGNATURE_INVALID
    found = people.person_of(key_id)
    if found is None:
        return Rejection.UNKNOWN_SIGNER
    person, key = found
    try:
        statement = _proven(signed, key)
    except _NotProven:
        return Rejection.SIGNATURE_INVALID
    if statement.approver != person.name:
        return Rejection.OTHER_PERSON
    if _ends_before(person, key, statement.expires_at):
        return Rejection.SIGNER_REVOKED
    return Read(statement, person.name, key_id)


def _ends_before(person: Person, key: PersonKey, end: int) -> bool:
    """Whether the key proves nothing any more before an end: neither does any more at that moment,
    so both may be the same.
    """
    return person.revoked or key.revoked or (key.not_after is not None and end > key.not_after)


class _NotProven(Exception):
    """Raised and not returned, so that only what was proven is remembered."""


def _key_id(signed: Signed) -> str | None:
    match signed:
        case SignedByKey(jws=token):
            claimed = jws.claimed(token)
            return None if claimed is None else claimed.key_id
        case SignedByPasskey(credential_id=credential_id):
            return credential_id
        case _:
            assert_never(signed)


def _proven(signed: Signed, key: PersonKey) -> Signable:
    match signed:
        case SignedByKey(jws=token) if key.kind == "ed25519":
            return _proven_by_key(token, key.public)
        case SignedByPasskey() if key.kind == "passkey":
            # Not the whole key: what was proven stays so when it is revoked or given an end.
            bare = PersonKey(
                id=key.id, kind=key.kind, public=key.public, rp_id=key.rp_id, origin=key.origin
            )
            return _proven_by_passkey(signed, bare)
        case SignedByKey() | SignedByPasskey():
            raise _NotProven
        case _:
            assert_never(signed)


@lru_cache(maxsize=_PROVEN_REMEMBERED)
def _proven_by_key(token: str, public: str) -> Signable:
    claimed = jws.claimed(token)
    kind = None if claimed is None else _KINDS.get(claimed.typ)
    if claimed is None or kind is None or not jws.is_proven(token, public):
        raise _NotProven
    return _read(kind, claimed.payload)


@lru_cache(maxsize=_PROVEN_REMEMBERED)
def _proven_by_passkey(signed: SignedByPasskey, key: PersonKey) -> Signable:
    raw = signed.statement.encode("utf-8", "surrogatepass")
    statement = _read_either(raw)
    assertion = Assertion(
        signed.credential_id, signed.authenticator_data, signed.client_data, signed.signature
    )
    if not asserts(assertion, statement_hash(statement), key):
        raise _NotProven
    return statement


_KINDS: Final[Mapping[str, type[Signable]]] = {
    jws.APPROVAL: Statement,
    jws.RESOLUTION: Resolution,
}
"""What a token of a type holds, and nothing else."""


def _read_either(raw: bytes) -> Signable:
    """What a passkey signed: the challenge says of which kind it is, because each has its domain.
    No bytes are both: they name what is decided.
    """
    try:
        return _read(Statement, raw)
    except _NotProven:
        return _read(Resolution, raw)


def _read(kind: type[Signable], raw: bytes) -> Signable:
    """The statement whose canonical bytes these are, and no other bytes."""
    try:
        # What travels inside a signature has not met the strict reader of the door.
        parse(raw)
        statement = kind.model_validate_json(raw)
        if statement_bytes(statement) == raw:
            return statement
    except (MalformedJson, ValidationError, NotCanonical):
        pass
    raise _NotProven
