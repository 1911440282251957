"""What a person signs, and in which two ways: one decision about one payload of one action.

Guarantees that equal statements are equal bytes. Everything that a person could be misled about
stands in it by value or by hash, so a signature cannot be carried over to another action, payload,
tenant, preview, policy or time. Knows no cryptography: `ledger.signing` verifies. Made by the
approval pages and the command line, read by owners and executors.
"""

import hashlib
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from ledger.core.canonical import canonicalize
from ledger.core.wire import Milliseconds, Text, Wire

DOMAIN: Final = b"actionledger.approval.v1\n"
SIGNED_CHARS_MAX: Final = 16_384

Encoded = Annotated[str, Field(max_length=SIGNED_CHARS_MAX)]
"""Base64url without padding, or a compact JWS."""


class Say(StrEnum):
    """What a person decides: yes, no, or an earlier yes taken back."""

    APPROVE = "approve"
    DENY = "deny"
    WITHDRAW = "withdraw"


class Statement(Wire):
    """One decision of one person. `ledger` is the generation of the log; times are log time."""

    v: Literal[1] = 1
    ledger: Text
    decision: Literal[Say.APPROVE, Say.DENY, Say.WITHDRAW]
    approver: Text
    tenant: Text
    environment: Text
    key: Text
    request_hash: Text
    preview_hash: Text | None = None
    policy_hash: Text
    row: Text
    nonce: Text
    issued_at: Milliseconds
    expires_at: Milliseconds
    comment: Text | None = None


def statement_bytes(statement: Statement) -> bytes:
    """The RFC 8785 bytes: what is signed."""
    return canonicalize(statement.model_dump(mode="json", exclude_none=True))


def statement_hash(statement: Statement) -> bytes:
    """SHA-256 over the domain and the bytes: what a passkey signs as its challenge."""
    return hashlib.sha256(DOMAIN + statement_bytes(statement)).digest()


class SignedByKey(Wire):
    """Ed25519 over the statement's bytes, as a compact JWS."""

    kind: Literal["jws"] = "jws"
    jws: Encoded


class SignedByPasskey(Wire):
    """A WebAuthn assertion whose challenge is the statement's hash."""

    kind: Literal["passkey"] = "passkey"
    statement: Encoded
    credential_id: Encoded
    authenticator_data: Encoded
    client_data: Encoded
    signature: Encoded


Signed = Annotated[SignedByKey | SignedByPasskey, Field(discriminator="kind")]
"""A statement with its proof; kept in the log as it was given."""
