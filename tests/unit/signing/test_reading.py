"""What counts as a person's decision, and every way in which something does not."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws as joserfc_jws
from joserfc.jwk import OctKey, OKPKey

from ledger.core.canonical import canonicalize
from ledger.core.people import Person, PersonKey
from ledger.core.public_keys import decoded, encoded
from ledger.core.rejections import Rejection
from ledger.core.statement import (
    Say,
    Signed,
    SignedByKey,
    SignedByPasskey,
    Statement,
    statement_bytes,
    statement_hash,
)
from ledger.signing import jws
from ledger.signing.keys import sign
from ledger.signing.reading import Read, read_signed
from tests.passkeys import HAS_CREDENTIAL, USER_PRESENT, USER_VERIFIED, SoftwarePasskey
from tests.unit.signing.decisions import (
    ADA_KEY,
    ADA_PASSKEY,
    BEN_KEY,
    BEN_PASSKEY,
    END,
    PEOPLE,
    STATEMENT,
    people,
    person,
    registered,
)

OTHERS: dict[str, Any] = {
    "v": 2,
    "ledger": "generation-2",
    "decision": Say.DENY,
    "approver": "ben",
    "tenant": "other",
    "environment": "test",
    "key": "payment.refund:v1:acme:order-1843",
    "request_hash": f"sha256:{'4' * 64}",
    "preview_hash": None,
    "policy_hash": f"sha256:{'5' * 64}",
    "row": "small refunds",
    "nonce": "0" * 32,
    "issued_at": STATEMENT.issued_at + 1,
    "expires_at": STATEMENT.expires_at + 1,
    "comment": None,
}

SIGNERS: dict[str, Callable[[Statement], Signed]] = {
    "key": lambda statement: sign(statement, ADA_KEY),
    "passkey": ADA_PASSKEY.sign,
}


def told(signed: Signed) -> dict[str, Any]:
    """The members of the statement as they were sent."""
    if isinstance(signed, SignedByKey):
        raw = decoded(signed.jws.split(".")[1])
        assert raw is not None
        return dict(json.loads(raw))
    return dict(json.loads(signed.statement))


def with_statement(signed: Signed, raw: bytes) -> Signed:
    """The same signature under another statement."""
    if isinstance(signed, SignedByKey):
        header, _, signature = signed.jws.split(".")
        return SignedByKey(jws=f"{header}.{encoded(raw)}.{signature}")
    return signed.model_copy(update={"statement": raw.decode()})


def token(payload: bytes, header: dict[str, Any] | None = None) -> SignedByKey:
    """A payload signed by Ada's key, under a header of one's own."""
    named = {"alg": "Ed25519", "kid": ADA_KEY.id, "typ": jws.APPROVAL} if header is None else header
    key = OKPKey.import_key(ADA_KEY._private)
    algorithms = ["Ed25519", "EdDSA"]
    return SignedByKey(
        jws=joserfc_jws.serialize_compact(named, payload, key, algorithms=algorithms)
    )


@pytest.mark.parametrize("how", SIGNERS)
def test_a_decision_is_what_was_said_by_whom_with_which_key(how: str) -> None:
    """A key of one's own and a passkey prove the same statement to be the same person's."""
    key_id = {"key": ADA_KEY.id, "passkey": ADA_PASSKEY.id}[how]
    signed = SIGNERS[how](STATEMENT)
    assert read_signed(signed, PEOPLE) == Read(STATEMENT, "ada", key_id)
    assert read_signed(signed, PEOPLE) == Read(STATEMENT, "ada", key_id)


@pytest.mark.parametrize("say", Say)
def test_every_kind_of_decision_can_be_signed(say: Say) -> None:
    """Approving, denying and taking back are proven in the same way."""
    statement = STATEMENT.model_copy(update={"decision": say})
    read = read_signed(sign(statement, ADA_KEY), PEOPLE)
    assert isinstance(read, Read)
    assert read.statement.decision is say


def test_the_matrix_of_replays_names_every_field() -> None:
    """A field that is added to what people sign is added to the matrix."""
    assert OTHERS.keys() == Statement.model_fields.keys()


@pytest.mark.parametrize("field", OTHERS)
@pytest.mark.parametrize("how", SIGNERS)
def test_a_signature_stands_for_one_statement_only(how: str, field: str) -> None:
    """No field of what was signed can be exchanged: the signature proves nothing else."""
    signed = SIGNERS[how](STATEMENT)
    members = told(signed)
    assert members == json.loads(statement_bytes(STATEMENT))
    other = OTHERS[field]
    members[field] = other.value if isinstance(other, Say) else other
    if other is None:
        del members[field]
    moved = with_statement(signed, canonicalize(members))
    assert read_signed(moved, PEOPLE) is Rejection.SIGNATURE_INVALID


@pytest.mark.parametrize("field", OTHERS)
def test_a_passkey_signs_another_challenge_for_another_statement(field: str) -> None:
    """Every field is in the hash that a passkey signs."""
    changed = STATEMENT.model_copy(update={field: OTHERS[field]})
    assert statement_hash(changed) != statement_hash(STATEMENT)


NOT_THE_STATEMENT: dict[str, Callable[[bytes], bytes]] = {
    "blank after": lambda raw: raw + b" ",
    "blank inside": lambda raw: raw.replace(b":", b": ", 1),
    "a member nobody declared": lambda raw: raw[:-1] + b',"z":1}',
    "a member twice": lambda raw: raw[:-1] + b',"v":1}',
    "members in another order": lambda raw: (
        b'{"v":1,' + raw[1:].replace(b',"v":1', b"", 1)
    ),
    "an escape that is not needed": lambda raw: raw.replace(b"acme", b"\\u0061cme", 1),
    "a null": lambda raw: raw.replace(b'"row":', b'"preview_hash":null,"row":', 1),
    "a number with a fraction": lambda raw: raw.replace(b'"v":1', b'"v":1.0', 1),
    "another version": lambda raw: raw.replace(b'"v":1', b'"v":2', 1),
    "a byte that is no text": lambda raw: raw.replace(b"acme", b"acm\xff", 1),
    "half a pair": lambda raw: raw.replace(b"acme", b"\\ud800", 1),
    "an array": lambda raw: b"[" + raw + b"]",
    "nothing": lambda raw: b"",
    "depth": lambda raw: b"[" * 4_000,
}  # fmt: skip


@pytest.mark.parametrize("fault", NOT_THE_STATEMENT)
def test_only_the_canonical_bytes_of_a_statement_count(fault: str) -> None:
    """Bytes that say the same or more in another way are no decision, though a key signed them."""
    raw = statement_bytes(STATEMENT)
    changed = NOT_THE_STATEMENT[fault](raw)
    assert changed != raw
    assert read_signed(token(raw), PEOPLE) == Read(STATEMENT, "ada", ADA_KEY.id)
    assert read_signed(token(changed), PEOPLE) is Rejection.SIGNATURE_INVALID


HEADERS: dict[str, dict[str, Any]] = {
    "an older name of the algorithm": {"alg": "EdDSA", "kid": ADA_KEY.id, "typ": jws.APPROVAL},
    "another type": {"alg": "Ed25519", "kid": ADA_KEY.id, "typ": jws.LOGIN},
    "no type": {"alg": "Ed25519", "kid": ADA_KEY.id},
    "no key": {"alg": "Ed25519", "typ": jws.APPROVAL},
    "a member more": {"alg": "Ed25519", "kid": ADA_KEY.id, "typ": jws.APPROVAL, "cty": "x"},
    "another order": {"kid": ADA_KEY.id, "alg": "Ed25519", "typ": jws.APPROVAL},
}


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@pytest.mark.parametrize("fault", HEADERS)
def test_a_token_has_one_form(fault: str) -> None:
    """A header that says anything else than the one that is taken is refused."""
    raw = statement_bytes(STATEMENT)
    assert read_signed(token(raw, HEADERS[fault]), PEOPLE) is Rejection.SIGNATURE_INVALID


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_a_token_cannot_choose_how_it_is_verified(algorithm: str) -> None:
    """No signature, and one made with the public key as a shared secret, prove nothing."""
    header = {"alg": algorithm, "kid": ADA_KEY.id, "typ": jws.APPROVAL}
    first = encoded(canonicalize(header))
    payload = encoded(statement_bytes(STATEMENT))
    signature = ""
    if algorithm != "none":
        secret = OctKey.import_key(ADA_KEY.public)
        forged = joserfc_jws.serialize_compact(header, statement_bytes(STATEMENT), secret)
        first, payload, signature = forged.split(".")
    forged = f"{first}.{payload}.{signature}"
    assert read_signed(SignedByKey(jws=forged), PEOPLE) is Rejection.SIGNATURE_INVALID


def test_the_spare_bits_of_a_text_are_no_room() -> None:
    """The same signature under another text is not the same decision again: it is none."""
    signed = sign(STATEMENT, ADA_KEY)
    last = signed.jws[-1]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    other = SignedByKey(jws=signed.jws[:-1] + alphabet[alphabet.index(last) ^ 1])
    padded = SignedByKey(jws=f"{signed.jws}==")
    assert read_signed(other, PEOPLE) is Rejection.SIGNATURE_INVALID
    assert read_signed(padded, PEOPLE) is Rejection.SIGNATURE_INVALID


@pytest.mark.parametrize("how", SIGNERS)
def test_nobody_signs_in_anothers_name(how: str) -> None:
    """A statement that names Ada and was signed by Ben is nobody's."""
    by_ben: dict[str, Callable[[Statement], Signed]] = {
        "key": lambda statement: sign(statement, BEN_KEY),
        "passkey": BEN_PASSKEY.sign,
    }
    assert read_signed(by_ben[how](STATEMENT), PEOPLE) is Rejection.OTHER_PERSON


def test_a_signature_under_anothers_key_proves_nothing() -> None:
    """What Ben signed does not become Ada's by naming her key."""
    header = {"alg": "Ed25519", "kid": ADA_KEY.id, "typ": jws.APPROVAL}
    key = OKPKey.import_key(BEN_KEY._private)
    forged = joserfc_jws.serialize_compact(
        header, statement_bytes(STATEMENT), key, algorithms=["Ed25519"]
    )
    assert read_signed(SignedByKey(jws=forged), PEOPLE) is Rejection.SIGNATURE_INVALID
    stolen = BEN_PASSKEY.sign(STATEMENT).model_copy(update={"credential_id": ADA_PASSKEY.id})
    assert read_signed(stolen, PEOPLE) is Rejection.SIGNATURE_INVALID


@pytest.mark.parametrize("how", SIGNERS)
def test_a_key_that_nobody_has_is_refused_by_its_name(how: str) -> None:
    """A signature that is right proves nothing where its key was never registered or is gone."""
    signed = SIGNERS[how](STATEMENT)
    assert isinstance(read_signed(signed, PEOPLE), Read)
    assert read_signed(signed, people(person("ada"))) is Rejection.UNKNOWN_SIGNER
    assert read_signed(signed, people()) is Rejection.UNKNOWN_SIGNER


def _keys(how: str) -> PersonKey:
    return {"key": registered(ADA_KEY), "passkey": ADA_PASSKEY.registered()}[how]


@pytest.mark.parametrize("how", SIGNERS)
def test_a_revoked_key_or_person_counts_no_more(how: str) -> None:
    """From the moment it is revoked nothing counts, though it was read and proven before."""
    signed, key = SIGNERS[how](STATEMENT), _keys(how)
    ada = person("ada", key)
    assert isinstance(read_signed(signed, people(ada)), Read)
    revoked_key = person("ada", key.model_copy(update={"revoked": True}))
    revoked_person: Person = ada.model_copy(update={"revoked": True})
    assert read_signed(signed, people(revoked_key)) is Rejection.SIGNER_REVOKED
    assert read_signed(signed, people(revoked_person)) is Rejection.SIGNER_REVOKED
    assert isinstance(read_signed(signed, people(ada)), Read)


@pytest.mark.parametrize("how", SIGNERS)
def test_a_key_with_an_end_proves_what_is_over_by_then(how: str) -> None:
    """A signer writes the time of signing himself; when a decision ends, the ledger said."""
    signed, key = SIGNERS[how](STATEMENT), _keys(how)
    until = person("ada", key.model_copy(update={"not_after": END}))
    before = person("ada", key.model_copy(update={"not_after": END - 1}))
    assert isinstance(read_signed(signed, people(until)), Read)
    assert read_signed(signed, people(before)) is Rejection.SIGNER_REVOKED


@pytest.mark.parametrize("how", SIGNERS)
def test_a_key_is_of_one_kind(how: str) -> None:
    """The name of a passkey is no name of a key, and the other way round."""
    signed = SIGNERS[how](STATEMENT)
    other = {"key": "passkey", "passkey": "ed25519"}[how]
    key = _keys(how).model_copy(update={"kind": other})
    assert read_signed(signed, people(person("ada", key))) is Rejection.SIGNATURE_INVALID


def passkey_signed(
    passkey: SoftwarePasskey = ADA_PASSKEY,
    *,
    data: bytes | None = None,
    client_data: bytes | None = None,
) -> SignedByPasskey:
    """The statement, with the authenticator's or the browser's part as a test wants it."""
    challenge = statement_hash(STATEMENT)
    data = passkey.authenticator_data() if data is None else data
    client_data = passkey.client_data(challenge) if client_data is None else client_data
    return SignedByPasskey(
        statement=statement_bytes(STATEMENT).decode(),
        credential_id=passkey.id,
        authenticator_data=encoded(data),
        client_data=encoded(client_data),
        signature=encoded(passkey.signature(data, client_data)),
    )


CHALLENGE = statement_hash(STATEMENT)
PASSKEY_FAULTS: dict[str, SignedByPasskey] = {
    "nobody was verified": passkey_signed(data=ADA_PASSKEY.authenticator_data(flags=USER_PRESENT)),
    "nobody was there": passkey_signed(data=ADA_PASSKEY.authenticator_data(flags=USER_VERIFIED)),
    "another host": passkey_signed(
        data=SoftwarePasskey.of(11, rp_id="evil.example").authenticator_data()
    ),
    "another origin": passkey_signed(
        client_data=ADA_PASSKEY.client_data(CHALLENGE, origin="http://localhost:8081")
    ),
    "another challenge": passkey_signed(client_data=ADA_PASSKEY.client_data(bytes(32))),
    "the hash without its domain": passkey_signed(
        client_data=ADA_PASSKEY.client_data(statement_bytes(STATEMENT))
    ),
    "a registration": passkey_signed(
        client_data=ADA_PASSKEY.client_data(CHALLENGE, kind="webauthn.create")
    ),
    "framed by a foreign page": passkey_signed(
        client_data=ADA_PASSKEY.client_data(CHALLENGE, crossOrigin=True)
    ),
    "bytes after the counter": passkey_signed(data=ADA_PASSKEY.authenticator_data() + b"\xa0"),
    "a credential inside": passkey_signed(
        data=ADA_PASSKEY.authenticator_data(flags=USER_PRESENT | USER_VERIFIED | HAS_CREDENTIAL)
    ),
    "no JSON": passkey_signed(client_data=b"{"),
    "no object": passkey_signed(client_data=b"[]"),
    "a challenge that is no text": passkey_signed(
        client_data=ADA_PASSKEY.client_data(CHALLENGE).replace(
            f'"{encoded(CHALLENGE)}"'.encode(), b"7"
        )
    ),
    "depth": passkey_signed(client_data=b"[" * 10_000),
}


@pytest.mark.parametrize("fault", PASSKEY_FAULTS)
def test_a_passkey_counts_only_for_what_was_asked_where_it_belongs(fault: str) -> None:
    """An assertion of another ceremony, host or page proves nothing, though the key is right."""
    assert isinstance(read_signed(passkey_signed(), PEOPLE), Read)
    assert read_signed(PASSKEY_FAULTS[fault], PEOPLE) is Rejection.SIGNATURE_INVALID


def test_the_counter_of_a_passkey_means_nothing() -> None:
    """Passkeys that live on several devices count nothing, or each for itself."""
    for counter in (0, 1, 2**32 - 1, 5):
        data = ADA_PASSKEY.authenticator_data(counter=counter)
        assert isinstance(read_signed(passkey_signed(data=data), PEOPLE), Read)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=400) | st.binary(max_size=300).map(encoded)
PARTS = ("statement", "credential_id", "authenticator_data", "client_data", "signature")


@given(TEXTS)
def test_any_text_in_the_place_of_a_token_has_an_answer(text: str) -> None:
    """Whatever stands where a token should is refused by name."""
    assert read_signed(SignedByKey(jws=text), PEOPLE) is Rejection.SIGNATURE_INVALID


@given(st.data())
def test_any_change_to_a_token_has_an_answer(data: st.DataObject) -> None:
    """A character of a token that is another one makes it prove nothing."""
    whole = sign(STATEMENT, ADA_KEY).jws
    place = data.draw(st.integers(0, len(whole) - 1))
    other = data.draw(st.characters(codec="utf-8").filter(lambda c: c != whole[place]))
    changed = SignedByKey(jws=whole[:place] + other + whole[place + 1 :])
    refused = {Rejection.SIGNATURE_INVALID, Rejection.UNKNOWN_SIGNER}
    assert read_signed(changed, PEOPLE) in refused


@given(payload=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_that_a_key_signed_have_an_answer(payload: bytes) -> None:
    """A key that is registered and signs something else has said nothing."""
    assert read_signed(token(payload), PEOPLE) is Rejection.SIGNATURE_INVALID


@given(st.sampled_from(PARTS), TEXTS)
def test_any_text_in_a_part_of_an_assertion_has_an_answer(part: str, text: str) -> None:
    """Whatever stands in a part of an assertion is refused by name."""
    changed = ADA_PASSKEY.sign(STATEMENT).model_copy(update={part: text})
    refused = {Rejection.SIGNATURE_INVALID, Rejection.UNKNOWN_SIGNER}
    assert read_signed(changed, PEOPLE) in refused


@given(client_data=st.binary(max_size=200), data=st.binary(max_size=80))
def test_any_bytes_that_a_passkey_signed_have_an_answer(client_data: bytes, data: bytes) -> None:
    """A passkey that signs anything but the question proves nothing."""
    signed = passkey_signed(client_data=client_data, data=data)
    assert read_signed(signed, PEOPLE) is Rejection.SIGNATURE_INVALID


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["type", "origin", "crossOrigin", "tokenBinding"]), JSON))
def test_anything_a_browser_may_say_has_an_answer(members: dict[str, Any]) -> None:
    """Client data with members of any kind are a decision or a refusal, never a fault."""
    client_data = ADA_PASSKEY.client_data(CHALLENGE, **members)
    read = read_signed(passkey_signed(client_data=client_data), PEOPLE)
    assert isinstance(read, Read) or read is Rejection.SIGNATURE_INVALID
