"""People who may decide, their keys, and what they sign: a small office for tests of approvals.

Ann and Bob are in `finance`, Cem is in `operations`, Dee is for another tenant. Keys are made from
a letter, so equal names sign equal bytes.
"""

from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger.core.facts import IntentRecorded, StartApproval
from ledger.core.ids import ActionKey
from ledger.core.people import People, parse_people
from ledger.core.policy import Policy, parse_policy
from ledger.core.statement import Say, SignedByKey, Statement
from ledger.signing.keys import SigningKey, sign

OFFICE: Final = {
    "ann": ("finance", "acme"),
    "bob": ("finance", "acme"),
    "cem": ("operations", "acme"),
    "dee": ("finance", "other"),
}
VALID_MS: Final = 600_000


def key_of(name: str) -> SigningKey:
    """The private key of a person."""
    return SigningKey.of(Ed25519PrivateKey.from_private_bytes(name[:1].encode() * 32))


def people_text(*, replaces: str | None = None, **changes: str) -> str:
    """The document of everybody in the office; `changes` adds lines to a person, by name."""
    parts = [] if replaces is None else [f'replaces = "{replaces}"\n']
    for name, (group, tenant) in OFFICE.items():
        key = key_of(name)
        parts.append(
            f'[[person]]\nname = "{name}"\ngroups = ["{group}"]\ntenants = ["{tenant}"]\n'
            f"{changes.get(name, '')}\n"
            f'[[person.keys]]\nkind = "ed25519"\nid = "{key.id}"\npublic = "{key.public}"\n'
        )
    return "\n".join(parts)


def people(text: str | None = None) -> People:
    """The people of a document, by default the whole office."""
    parsed = parse_people(people_text() if text is None else text)
    assert isinstance(parsed, People), parsed
    return parsed


def policy_text(*rows: str) -> str:
    """A table in which charges go to people, with whatever lines a test adds to that row."""
    lines = "\n".join(rows)
    return (
        '[[row]]\nname = "charges"\nwhen.operation = ["charge"]\noutcome = "people"\n'
        f'reason = "For a person."\n{lines}\n'
        '[[row]]\nname = "rest"\noutcome = "automatic"\nreason = "Nothing to see."\n'
    )


def policy(text: str) -> Policy:
    """The table of a text."""
    parsed = parse_policy(text)
    assert isinstance(parsed, Policy), parsed
    return parsed


def statement(
    name: str,
    intent: IntentRecorded,
    approval: StartApproval,
    *,
    ledger: str,
    issued_at: int,
) -> Statement:
    """A person's yes to what a start rests on."""
    return Statement(
        ledger=ledger,
        decision=Say.APPROVE,
        approver=name,
        tenant=ActionKey.parse(intent.action).tenant,
        environment=intent.request.environment,
        key=intent.action,
        request_hash=intent.request_hash,
        preview_hash=approval.preview_hash,
        policy_hash=approval.policy_hash,
        row=approval.row,
        nonce=approval.nonce,
        issued_at=issued_at,
        expires_at=approval.expires_at,
    )


def signed_by(name: str, said: Statement, **changes: object) -> SignedByKey:
    """A statement with whatever a test changes in it, signed by a person."""
    return sign(said.model_copy(update=changes), key_of(name))
