"""A statement, and the people who may sign it, for tests of signatures."""

from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger.core.people import People, Person, PersonKey
from ledger.core.statement import Say, Statement
from ledger.signing.keys import SigningKey
from tests.passkeys import SoftwarePasskey

T0: Final = 1_790_000_000_000
END: Final = T0 + 600_000


def signing_key(seed: int) -> SigningKey:
    """The key of a seed from 1 to 255."""
    return SigningKey.of(Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32))


ADA_KEY: Final = signing_key(1)
BEN_KEY: Final = signing_key(2)
ADA_PASSKEY: Final = SoftwarePasskey.of(11)
BEN_PASSKEY: Final = SoftwarePasskey.of(12)

STATEMENT: Final = Statement(
    ledger="generation-1",
    decision=Say.APPROVE,
    approver="ada",
    tenant="acme",
    environment="production",
    key="payment.refund:v1:acme:order-1842",
    request_hash=f"sha256:{'1' * 64}",
    preview_hash=f"sha256:{'2' * 64}",
    policy_hash=f"sha256:{'3' * 64}",
    row="refunds above the limit",
    nonce="5f0f" * 8,
    issued_at=T0,
    expires_at=END,
    comment="Called the customer: she never got it. Gr\u00fc\u00dfe \U0001f44b",
)


def registered(key: SigningKey) -> PersonKey:
    """A key as the document of people holds it."""
    return PersonKey(id=key.id, kind="ed25519", public=key.public)


def person(name: str, *keys: PersonKey) -> Person:
    """A person for every tenant."""
    return Person(name=name, tenants=("*",), keys=keys)


def people(*persons: Person) -> People:
    """Exactly these people."""
    return People(persons, "sha256:of a test")


PEOPLE: Final = people(
    person("ada", registered(ADA_KEY), ADA_PASSKEY.registered()),
    person("ben", registered(BEN_KEY), BEN_PASSKEY.registered()),
)
