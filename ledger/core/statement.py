"""What a person signs, and in which two ways: a decision about one payload of one action, or what
settles one case of it.

Guarantees that equal statements are equal bytes, and that neither kind passes for the other: each
is signed under a domain of its own. Everything that a person could be misled about stands in it by
value or by hash, so a signature cannot be carried over to another action, payload, tenant, preview,
policy, case or time. Knows no cryptography: `ledger.signing` verifies. Made by the pages and the
command line, read by owners and executors.
"""

import hashlib
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from ledger.core.canonical import canonicalize
from ledger.core.limits import COMMENT_CHARS_MAX
from ledger.core.wire import Count, Milliseconds, Text, Wire

DOMAIN: Final = b"actionledger.approval.v1\n"
RESOLUTION_DOMAIN: Final = b"actionledger.resolution.v1\n"
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


class Move(StrEnum):
    """What a person does about a case: says what is so, has it tried or asked again, takes note of
    it, or allows what the ledger alone does not.
    """

    EFFECT_EXISTS = "effect_exists"
    NO_EFFECT = "no_effect"
    TRY_AGAIN = "try_again"
    LOOK_AGAIN = "look_again"
    ACKNOWLEDGE = "acknowledge"
    ALLOW = "allow"


Comment = Annotated[str, Field(min_length=1, max_length=COMMENT_CHARS_MAX)]
"""Why somebody settles a case as they do: never left out."""


class Resolution(Wire):
    """What one person says that settles one case of one action, as it stood when they looked.

    `case` is the version of the fact that opened it, `moved` that of the newest fact which told
    something about it; of an action that is only blocked both are the version of what blocks it.
    `reference` is the name of the effect at the provider. `accepts` is what the person lets pass
    with their name: the ceiling, the look-alike, or the action that is not settled.
    """

    v: Literal[1] = 1
    ledger: Text
    decision: Literal["resolve"] = "resolve"
    move: Literal[
        Move.EFFECT_EXISTS,
        Move.NO_EFFECT,
        Move.TRY_AGAIN,
        Move.LOOK_AGAIN,
        Move.ACKNOWLEDGE,
        Move.ALLOW,
    ]
    approver: Text
    tenant: Text
    environment: Text
    key: Text
    request_hash: Text
    case: Count
    moved: Count
    reference: Annotated[Text, Field(min_length=1)] | None = None
    accepts: Annotated[Text, Field(min_length=1)] | None = None
    issued_at: Milliseconds
    expires_at: Milliseconds
    comment: Comment


Signable = Statement | Resolution
"""Everything that a person signs about an action."""


def statement_bytes(statement: Signable) -> bytes:
    """The RFC 8785 bytes: what is signed."""
    return canonicalize(statement.model_dump(mode="json", exclude_none=True))


def statement_hash(statement: Signable) -> bytes:
    """SHA-256 over the domain of its kind and the bytes: what a passkey signs as its challenge."""
    domain = RESOLUTION_DOMAIN if isinstance(statement, Resolution) else DOMAIN
    return hashlib.sha256(domain + statement_bytes(statement)).digest()


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
