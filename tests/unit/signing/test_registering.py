"""Passkeys: what a browser is asked, and which answers make one that can sign."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.people import PersonKey, parse_people
from ledger.core.public_keys import decoded, encoded
from ledger.core.statement import statement_hash
from ledger.signing.logins import NotLoggedIn, read_passkey_login
from ledger.signing.reading import Read, read_signed
from ledger.signing.registering import (
    NotRegistered,
    authentication_options,
    read_assertion,
    read_registration,
    registration_options,
    signed_by,
)
from tests.passkeys import ORIGIN, RP_ID, USER_PRESENT, SoftwarePasskey
from tests.unit.signing.decisions import (
    ADA_PASSKEY,
    BEN_PASSKEY,
    PEOPLE,
    STATEMENT,
    T0,
    people,
    person,
)

CHALLENGE = bytes(range(32))


def registered(
    text: str, *, challenge: bytes = CHALLENGE, rp_id: str = RP_ID, origin: str = ORIGIN
) -> PersonKey | NotRegistered:
    """What an answer makes, where other things may have been expected."""
    return read_registration(text, challenge=challenge, rp_id=rp_id, origin=origin)


def test_an_answer_makes_a_key_that_can_be_registered() -> None:
    """What the authenticator gave is what the document of people takes."""
    key = registered(ADA_PASSKEY.registration_json(CHALLENGE))
    assert key == ADA_PASSKEY.registered()
    document = "\n".join(
        (
            '[[person]]\nname = "ada"\ntenants = ["*"]\n[[person.keys]]',
            *(f'{name} = "{value}"' for name, value in key.model_dump(exclude_none=True).items()
              if isinstance(value, str)),
        )
    )  # fmt: skip
    assert not isinstance(parse_people(document), tuple)


def test_a_browser_is_asked_for_what_is_taken() -> None:
    """The options ask for ES256, a verified person, and no attestation."""
    options = json.loads(
        registration_options(
            ledger="generation-1",
            rp_id=RP_ID,
            person="ada",
            challenge=CHALLENGE,
            known=(ADA_PASSKEY.registered(),),
        )
    )
    assert options["rp"]["id"] == RP_ID
    assert options["challenge"] == encoded(CHALLENGE)
    assert [one["alg"] for one in options["pubKeyCredParams"]] == [-7]
    assert options["authenticatorSelection"]["userVerification"] == "required"
    assert options["attestation"] == "none"
    assert [one["id"] for one in options["excludeCredentials"]] == [ADA_PASSKEY.id]
    user = decoded(options["user"]["id"])
    assert user is not None
    assert b"ada" not in user


def test_a_browser_is_asked_to_verify_its_person() -> None:
    """An assertion is asked for with the passkeys that may answer."""
    options = json.loads(
        authentication_options(rp_id=RP_ID, challenge=CHALLENGE, known=(ADA_PASSKEY.registered(),))
    )
    assert options["userVerification"] == "required"
    assert [one["id"] for one in options["allowCredentials"]] == [ADA_PASSKEY.id]


@pytest.mark.parametrize(
    "expected",
    [{"challenge": bytes(32)}, {"rp_id": "ledger.example"}, {"origin": "http://localhost:1"}],
)
def test_an_answer_belongs_to_its_question(expected: dict[str, Any]) -> None:
    """An answer to another challenge, or of another host or page, registers nothing."""
    text = ADA_PASSKEY.registration_json(CHALLENGE)
    assert registered(text, **expected) is NotRegistered.REGISTRATION_INVALID


def test_whoever_was_not_verified_registers_nothing() -> None:
    """A passkey whose person the authenticator did not verify would never be taken."""
    text = ADA_PASSKEY.registration_json(CHALLENGE, flags=USER_PRESENT)
    assert registered(text) is NotRegistered.REGISTRATION_INVALID


@given(st.data())
def test_any_answer_has_an_answer(data: st.DataObject) -> None:
    """Whatever a browser sends is a key or a refusal, never a fault."""
    said = json.loads(ADA_PASSKEY.registration_json(CHALLENGE))
    raw = decoded(said["response"]["attestationObject"])
    assert raw is not None
    place = data.draw(st.integers(0, len(raw) - 1))
    changed = raw[:place] + data.draw(st.binary(max_size=4)) + raw[place + 1 :]
    said["response"]["attestationObject"] = encoded(changed)
    assert isinstance(registered(json.dumps(said)), PersonKey | NotRegistered)


@given(st.text(max_size=200) | st.just("[" * 60_000) | st.just("1" * 5_000))
def test_any_text_is_no_fault(text: str) -> None:
    """What is no answer at all is refused."""
    assert registered(text) is NotRegistered.REGISTRATION_INVALID
    assert read_assertion(text) is None


def test_a_browsers_assertion_is_a_decision() -> None:
    """What a page sends beside its statement is read as the person's decision."""
    assertion = read_assertion(ADA_PASSKEY.assertion_json(statement_hash(STATEMENT)))
    assert assertion is not None
    read = read_signed(signed_by(assertion, STATEMENT), PEOPLE)
    assert read == Read(STATEMENT, "ada", ADA_PASSKEY.id)


def test_a_passkey_logs_its_person_in() -> None:
    """Who answers the challenge of the page is the person of that passkey."""
    assertion = read_assertion(ADA_PASSKEY.assertion_json(CHALLENGE))
    assert assertion is not None
    found = read_passkey_login(assertion, PEOPLE, challenge=CHALLENGE, now_ms=T0)
    assert found == PEOPLE.person("ada")
    other = read_passkey_login(assertion, PEOPLE, challenge=bytes(32), now_ms=T0)
    assert other is NotLoggedIn.LOGIN_INVALID
    nobody = people(person("ben", BEN_PASSKEY.registered()))
    refused = read_passkey_login(assertion, nobody, challenge=CHALLENGE, now_ms=T0)
    assert refused is NotLoggedIn.LOGIN_UNKNOWN_SIGNER


@pytest.mark.parametrize("ends", [{"revoked": True}, {"not_after": T0}])
def test_a_passkey_that_ended_logs_nobody_in(ends: dict[str, Any]) -> None:
    """A passkey that was revoked or is past its end opens no page; up to its end it does."""
    assertion = read_assertion(ADA_PASSKEY.assertion_json(CHALLENGE))
    assert assertion is not None
    key = ADA_PASSKEY.registered()
    ended = people(person("ada", key.model_copy(update=ends)))
    found = read_passkey_login(assertion, ended, challenge=CHALLENGE, now_ms=T0)
    assert found is NotLoggedIn.LOGIN_SIGNER_REVOKED
    until = person("ada", key.model_copy(update={"not_after": T0 + 1}))
    assert read_passkey_login(assertion, people(until), challenge=CHALLENGE, now_ms=T0) == until


def test_a_decision_logs_nobody_in_and_a_login_decides_nothing() -> None:
    """What was signed for one purpose is refused for the other."""
    decided = read_assertion(ADA_PASSKEY.assertion_json(statement_hash(STATEMENT)))
    assert decided is not None
    found = read_passkey_login(decided, PEOPLE, challenge=CHALLENGE, now_ms=T0)
    assert found is NotLoggedIn.LOGIN_INVALID
    logged_in = read_assertion(ADA_PASSKEY.assertion_json(CHALLENGE))
    assert logged_in is not None
    assert not isinstance(read_signed(signed_by(logged_in, STATEMENT), PEOPLE), Read)


def test_a_passkey_of_a_served_host_is_registered_for_it() -> None:
    """Host and origin stand in the key, as they will be checked."""
    passkey = SoftwarePasskey.of(3, rp_id="ledger.example", origin="https://a.ledger.example")
    key = registered(
        passkey.registration_json(CHALLENGE), rp_id=passkey.rp_id, origin=passkey.origin
    )
    assert key == passkey.registered()
