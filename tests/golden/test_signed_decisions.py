"""What people signed once is proven for ever: with a key, and with a passkey in a real browser."""

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.core.people import People, parse_people, people_hash
from ledger.core.public_keys import decoded
from ledger.core.statement import Signed, SignedByKey, Statement, statement_bytes, statement_hash
from ledger.signing.keys import sign
from ledger.signing.reading import Read, read_signed
from ledger.signing.registering import read_assertion, read_registration, signed_by
from tests.unit.signing.decisions import ADA_KEY

KEPT: dict[str, Any] = json.loads(
    Path(__file__).with_name("signed_decisions.json").read_text(encoding="utf-8")
)
STATEMENT = Statement.model_validate_json(KEPT["statement"])


@pytest.fixture
def people() -> People:
    """The people of the document that was kept."""
    parsed = parse_people(KEPT["people"])
    assert isinstance(parsed, People)
    return parsed


def by_passkey() -> Signed:
    """What the browser sent."""
    assertion = read_assertion(json.dumps(KEPT["assertion"]))
    assert assertion is not None
    return signed_by(assertion, STATEMENT)


@pytest.mark.parametrize(
    "signed", [SignedByKey(jws=KEPT["jws"]), by_passkey()], ids=["key", "passkey"]
)
def test_a_kept_decision_is_proven(signed: Signed, people: People) -> None:
    """The bytes in the log are a decision of the same person as on the day they were signed."""
    read = read_signed(signed, people)
    assert isinstance(read, Read)
    assert (read.statement, read.person) == (STATEMENT, "ada")


def test_the_same_is_signed_today(people: People) -> None:
    """Statement, hashes and token come out byte for byte as they were kept."""
    assert statement_bytes(STATEMENT).decode() == KEPT["statement"]
    assert statement_hash(STATEMENT).hex() == KEPT["statement_hash"]
    assert people_hash(KEPT["people"]) == KEPT["people_hash"] == people.content_hash
    assert sign(STATEMENT, ADA_KEY).jws == KEPT["jws"]


def test_what_a_browser_answered_registers_its_passkey(people: People) -> None:
    """A real browser's answer to our options is the key that the document holds."""
    challenge = decoded(KEPT["challenge"])
    assert challenge is not None
    ada = people.person("ada")
    assert ada is not None
    kept = ada.keys[1]
    assert kept.rp_id is not None
    assert kept.origin is not None
    key = read_registration(
        json.dumps(KEPT["registration"]),
        challenge=challenge,
        rp_id=kept.rp_id,
        origin=kept.origin,
    )
    assert key == kept
