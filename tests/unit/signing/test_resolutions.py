"""Resolutions are signed as decisions are, under a domain of their own: neither kind passes for
the other.
"""

from typing import Any

import pytest

from ledger.core.canonical import canonicalize
from ledger.core.limits import COMMENT_CHARS_MAX
from ledger.core.rejections import Rejection
from ledger.core.statement import (
    Move,
    Resolution,
    Signable,
    SignedByKey,
    SignedByPasskey,
    statement_bytes,
    statement_hash,
)
from ledger.signing import jws
from ledger.signing.keys import sign
from ledger.signing.reading import Read, read_signed
from tests.unit.signing.decisions import ADA_KEY, ADA_PASSKEY, END, PEOPLE, STATEMENT, T0

RESOLUTION = Resolution(
    ledger="generation-1",
    move=Move.EFFECT_EXISTS,
    approver="ada",
    tenant="acme",
    environment="production",
    key="payment.refund:v1:acme:order-1842",
    request_hash=f"sha256:{'1' * 64}",
    case=7,
    moved=9,
    reference="re_1842",
    issued_at=T0,
    expires_at=END,
    comment="It stands in the provider's own list. Gr\u00fc\u00dfe \U0001f44b",
)
OTHERS: dict[str, Any] = {
    "v": 2,
    "ledger": "generation-2",
    "decision": "approve",
    "move": "no_effect",
    "approver": "ben",
    "tenant": "other",
    "environment": "test",
    "key": "payment.refund:v1:acme:order-1843",
    "request_hash": f"sha256:{'4' * 64}",
    "case": 8,
    "moved": 10,
    "reference": None,
    "accepts": "day",
    "issued_at": T0 + 1,
    "expires_at": END + 1,
    "comment": "Something else.",
}


def by_passkey(said: Signable, *, under: Signable | None = None) -> SignedByPasskey:
    """A passkey's signature over one text's challenge, sent with that text or with another."""
    proof = ADA_PASSKEY.sign(said)
    text = statement_bytes(said if under is None else under).decode()
    return proof.model_copy(update={"statement": text})


@pytest.mark.parametrize("move", Move)
def test_a_resolution_is_what_was_said_by_whom(move: Move) -> None:
    """A key of one's own and a passkey prove the same."""
    said = RESOLUTION.model_copy(update={"move": move})
    assert read_signed(sign(said, ADA_KEY), PEOPLE) == Read(said, "ada", ADA_KEY.id)
    assert read_signed(by_passkey(said), PEOPLE) == Read(said, "ada", ADA_PASSKEY.id)


@pytest.mark.parametrize(("said", "typ"), [(RESOLUTION, jws.APPROVAL), (STATEMENT, jws.RESOLUTION)])
def test_neither_kind_passes_for_the_other(said: Signable, typ: str) -> None:
    """The same bytes under the type of the other kind prove nothing."""
    token = SignedByKey(jws=ADA_KEY.token(statement_bytes(said), typ))
    assert read_signed(token, PEOPLE) is Rejection.SIGNATURE_INVALID
    login = SignedByKey(jws=ADA_KEY.token(statement_bytes(said), jws.LOGIN))
    assert read_signed(login, PEOPLE) is Rejection.SIGNATURE_INVALID


def test_a_passkey_signs_another_challenge_for_each_kind() -> None:
    """Their domains differ, whatever stands behind them."""
    assert statement_hash(RESOLUTION) != statement_hash(STATEMENT)
    swapped = by_passkey(STATEMENT, under=RESOLUTION)
    assert read_signed(swapped, PEOPLE) is Rejection.SIGNATURE_INVALID
    swapped = by_passkey(RESOLUTION, under=STATEMENT)
    assert read_signed(swapped, PEOPLE) is Rejection.SIGNATURE_INVALID


def test_the_matrix_of_replays_names_every_field() -> None:
    """A field that is added to what people sign is added to the matrix."""
    assert OTHERS.keys() == Resolution.model_fields.keys()


@pytest.mark.parametrize("field", OTHERS)
def test_a_signature_stands_for_one_resolution_only(field: str) -> None:
    """No field of what was signed can be exchanged."""
    members = RESOLUTION.model_dump(mode="json", exclude_none=True) | {field: OTHERS[field]}
    members = {name: value for name, value in members.items() if value is not None}
    raw = canonicalize(members)
    header, _, proof = sign(RESOLUTION, ADA_KEY).jws.split(".")
    payload = sign(RESOLUTION, ADA_KEY).jws.split(".")[1]
    other = SignedByKey(jws=ADA_KEY.token(raw, jws.RESOLUTION))
    assert other.jws.split(".")[1] != payload
    moved = SignedByKey(jws=f"{header}.{other.jws.split('.')[1]}.{proof}")
    assert read_signed(moved, PEOPLE) is Rejection.SIGNATURE_INVALID
    passkey = ADA_PASSKEY.sign(RESOLUTION).model_copy(update={"statement": raw.decode()})
    assert read_signed(passkey, PEOPLE) is Rejection.SIGNATURE_INVALID


def test_other_bytes_of_the_same_resolution_prove_nothing() -> None:
    """Only the canonical form is signed: spaces and a null left in make it another text."""
    raw = statement_bytes(RESOLUTION)
    for other in (raw + b" ", raw.replace(b":", b": ", 1)):
        token = SignedByKey(jws=ADA_KEY.token(other, jws.RESOLUTION))
        assert read_signed(token, PEOPLE) is Rejection.SIGNATURE_INVALID


@pytest.mark.parametrize("comment", ["", "x" * (COMMENT_CHARS_MAX + 1)])
def test_a_comment_is_there_and_can_be_read(comment: str) -> None:
    """Nobody settles anything without a word, or with a book."""
    members = RESOLUTION.model_dump(mode="json") | {"comment": comment}
    token = SignedByKey(jws=ADA_KEY.token(canonicalize(members), jws.RESOLUTION))
    assert read_signed(token, PEOPLE) is Rejection.SIGNATURE_INVALID
