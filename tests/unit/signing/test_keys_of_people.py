"""A person's own key file, and the tokens it makes for reading."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import OKPKey

from ledger.core.rejections import Rejection
from ledger.core.statement import SignedByKey
from ledger.signing import jws
from ledger.signing.keys import SigningKey, UnusableKeyError, load_key, new_key, sign
from ledger.signing.logins import (
    LOGIN_AHEAD_S_MAX,
    LOGIN_S_MAX,
    LoginPathTooLongError,
    NotLoggedIn,
    covers_body,
    login_token,
    read_login,
)
from ledger.signing.reading import Read, read_signed
from tests.unit.signing.decisions import (
    ADA_KEY,
    PEOPLE,
    STATEMENT,
    T0,
    people,
    person,
    registered,
    signing_key,
)

PASSPHRASE = "four fair w\u00f6rds here"


def test_a_key_file_is_opened_by_its_passphrase_only() -> None:
    """What was made is read again; the same words typed on another keyboard open it too."""
    pem, key = new_key(PASSPHRASE)
    assert pem.startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    again = load_key(pem, PASSPHRASE.replace("\u00f6", "o\u0308"))
    assert (again.id, again.public) == (key.id, key.public)
    ada = people(person("ada", registered(key)))
    assert isinstance(read_signed(sign(STATEMENT, again), ada), Read)
    with pytest.raises(UnusableKeyError, match="passphrase is wrong"):
        load_key(pem, PASSPHRASE + "!")


def test_a_short_passphrase_makes_no_key() -> None:
    """Eleven characters are refused, twelve are taken."""
    with pytest.raises(UnusableKeyError, match="too short"):
        new_key("x" * 11)
    pem, _ = new_key("x" * 12)
    assert b"ENCRYPTED" in pem


def test_a_key_does_not_show_its_private_half() -> None:
    """Printing a key tells its public half only."""
    assert "Private" not in repr(ADA_KEY)
    assert ADA_KEY.public in repr(ADA_KEY)


def test_a_key_that_lies_open_is_refused() -> None:
    """A file without a passphrase has been read by anybody."""
    private = Ed25519PrivateKey.generate()
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(UnusableKeyError, match="not encrypted"):
        load_key(pem, PASSPHRASE)


def test_a_key_of_another_kind_is_refused() -> None:
    """A key that cannot sign decisions is told at once, not when it is needed."""
    private = ec.generate_private_key(ec.SECP256R1())
    scheme = BestAvailableEncryption(PASSPHRASE.encode())
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, scheme)
    with pytest.raises(UnusableKeyError, match="another kind"):
        load_key(pem, PASSPHRASE)


@given(st.binary(max_size=300))
def test_any_file_has_an_answer(raw: bytes) -> None:
    """A file that is no key is told so."""
    with pytest.raises(UnusableKeyError):
        load_key(raw, PASSPHRASE)


def test_the_name_of_a_key_is_its_thumbprint() -> None:
    """Anybody can name a key from its public half: RFC 7638, as the library computes it."""
    assert OKPKey.import_key(ADA_KEY._private).thumbprint() == ADA_KEY.id


def test_equal_statements_have_equal_signatures() -> None:
    """Signing again is the same text: nothing in it is drawn."""
    assert sign(STATEMENT, ADA_KEY) == sign(STATEMENT, signing_key(1))


HERE: dict[str, Any] = {"ledger": "generation-1", "method": "GET", "path": "/v1/actions?limit=1"}


def login(now_ms: int = T0, key: SigningKey = ADA_KEY, **other: str) -> str:
    """Ada's token for here and now, or as a test wants it."""
    return login_token(key, now_ms=now_ms, **(HERE | other))


def test_a_token_says_who_reads() -> None:
    """A request with a token of a registered key is that person's."""
    found = read_login(login(), PEOPLE, now_ms=T0, **HERE)
    assert found == PEOPLE.person("ada")


@pytest.mark.parametrize("part", HERE)
def test_a_token_is_good_for_one_request_of_one_ledger(part: str) -> None:
    """Overheard, it reads the same again and nothing else."""
    found = read_login(login(), PEOPLE, now_ms=T0, **(HERE | {part: "another"}))
    assert found is NotLoggedIn.LOGIN_ELSEWHERE


def test_a_token_covers_the_body_that_it_was_signed_for() -> None:
    """Overheard, it says nothing else in the person's name; what says nothing covers nothing."""
    bodies = (b"", b"{}", b'{"note":"x"}', b'{"note":"y"}')
    for signed in bodies:
        token = login_token(ADA_KEY, now_ms=T0, body=signed, **HERE)
        assert read_login(token, PEOPLE, now_ms=T0, **HERE) == PEOPLE.person("ada")
        assert [covers_body(token, body) for body in bodies] == [body == signed for body in bodies]
    assert not covers_body("no token", b"")


@pytest.mark.parametrize(
    ("made_at", "refusal"),
    [
        (T0 - LOGIN_S_MAX * 1_000 + 1_000, None),
        (T0 - LOGIN_S_MAX * 1_000, NotLoggedIn.LOGIN_OVER),
        (T0 + LOGIN_AHEAD_S_MAX * 1_000, None),
        (T0 + LOGIN_AHEAD_S_MAX * 1_000 + 1_000, NotLoggedIn.LOGIN_NOT_YET),
    ],
)
def test_a_token_is_good_for_a_minute(made_at: int, refusal: NotLoggedIn | None) -> None:
    """It ends after its minute, and one from a clock far ahead has not begun."""
    found = read_login(login(made_at), PEOPLE, now_ms=T0, **HERE)
    assert found == (PEOPLE.person("ada") if refusal is None else refusal)


@pytest.mark.parametrize("seconds", [LOGIN_S_MAX + 1, 0, -1])
def test_nobody_gives_a_token_a_longer_life(seconds: int) -> None:
    """A token that says it is good for longer, or for no time, is none."""
    now = T0 // 1_000
    payload = (
        f'{{"exp":{now + seconds},"iat":{now},"ledger":"generation-1","method":"GET",'
        '"path":"/v1/actions?limit=1"}'
    )
    token = ADA_KEY.token(payload.encode(), jws.LOGIN)
    found = read_login(token, PEOPLE, now_ms=T0 - 10_000, **HERE)
    assert found is NotLoggedIn.LOGIN_INVALID


def test_a_path_that_no_token_covers_is_refused_by_name() -> None:
    """The longest that one covers is read again; what does not fit is no fault of ours."""
    at = HERE | {"path": "/" + "a" * 4_095}
    assert read_login(login_token(ADA_KEY, now_ms=T0, **at), PEOPLE, now_ms=T0, **at) == (
        PEOPLE.person("ada")
    )
    with pytest.raises(LoginPathTooLongError, match="4,096 characters"):
        login_token(ADA_KEY, now_ms=T0, **(at | {"path": at["path"] + "a"}))


def test_a_token_of_a_key_that_ended_reads_nothing() -> None:
    """A key or person that was revoked, or a key past its end, opens nothing; nor does nobody's."""
    key = registered(ADA_KEY)
    for ada in (
        person("ada", key.model_copy(update={"revoked": True})),
        person("ada", key.model_copy(update={"not_after": T0})),
        person("ada", key).model_copy(update={"revoked": True}),
    ):
        found = read_login(login(), people(ada), now_ms=T0, **HERE)
        assert found is NotLoggedIn.LOGIN_SIGNER_REVOKED
    until = person("ada", key.model_copy(update={"not_after": T0 + 1}))
    assert read_login(login(), people(until), now_ms=T0, **HERE) == until
    assert read_login(login(), people(), now_ms=T0, **HERE) is NotLoggedIn.LOGIN_UNKNOWN_SIGNER


def test_a_token_under_anothers_name_is_none() -> None:
    """A signature of one key does not become another's."""
    mine, hers = login(key=signing_key(9)), login()
    forged = ".".join((*hers.split(".")[:2], mine.split(".")[2]))
    assert read_login(forged, PEOPLE, now_ms=T0, **HERE) is NotLoggedIn.LOGIN_INVALID


def test_a_login_is_no_decision_and_a_decision_no_login() -> None:
    """Each is refused in the place of the other, though the same key signed it."""
    assert read_signed(SignedByKey(jws=login()), PEOPLE) is Rejection.SIGNATURE_INVALID
    decided = sign(STATEMENT, ADA_KEY).jws
    assert read_login(decided, PEOPLE, now_ms=T0, **HERE) is NotLoggedIn.LOGIN_INVALID


@given(st.text(max_size=300))
def test_any_text_in_the_place_of_a_token_has_an_answer(text: str) -> None:
    """Whatever stands where a token should is refused."""
    assert read_login(text, PEOPLE, now_ms=T0, **HERE) is NotLoggedIn.LOGIN_INVALID


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_that_a_key_signed_have_an_answer(payload: bytes) -> None:
    """A token of the right type that says anything else logs nobody in."""
    token = ADA_KEY.token(payload, jws.LOGIN)
    assert read_login(token, PEOPLE, now_ms=T0, **HERE) is NotLoggedIn.LOGIN_INVALID
