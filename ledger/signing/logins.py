"""Who reads: a token of a person's own key for one request of one minute, or a passkey's answer.

Guarantees that a token that was overheard reads the same thing again for a minute and nothing else,
and that it is no decision: its type is another. It covers a body by its hash, which a door that
takes one has to ask for (`covers_body`). Must never ask a clock: the time is given. Called by the
doors and the command line.
"""

import hashlib
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, ValidationError

from ledger.core.canonical import NotCanonical, canonicalize
from ledger.core.errors import LedgerError
from ledger.core.people import People, Person, PersonKey
from ledger.core.wire import Text, Wire
from ledger.signing import jws
from ledger.signing.keys import SigningKey
from ledger.signing.passkeys import Assertion, asserts

LOGIN_S_MAX: Final = 60
"""How long a token is good; it is made anew for every request."""
LOGIN_AHEAD_S_MAX: Final = 30
"""How far the clock of whoever signed may be ahead."""
LOGIN_CHARS_MAX: Final = 8_192
_PATH_CHARS_MAX: Final = 4_096

_Seconds = Annotated[int, Field(ge=0, le=2**40)]


class NotLoggedIn(StrEnum):
    """Why somebody is not taken for a person."""

    LOGIN_INVALID = "login_invalid"
    LOGIN_UNKNOWN_SIGNER = "login_unknown_signer"
    LOGIN_SIGNER_REVOKED = "login_signer_revoked"
    LOGIN_ELSEWHERE = "login_elsewhere"
    LOGIN_NOT_YET = "login_not_yet"
    LOGIN_OVER = "login_over"


class LoginPathTooLongError(LedgerError):
    """A request for a path so long that no log-in covers it."""

    def __init__(self) -> None:
        super().__init__(
            f"A log-in is for a path of at most {_PATH_CHARS_MAX:,} characters, as no key needs.",
            hint="Name one action by its key: `actionledger waiting` lists them.",
        )


class _Login(Wire):
    """What the token says. Times are seconds since the epoch, as in every JWT (RFC 7519)."""

    ledger: Text
    iat: _Seconds
    exp: _Seconds
    method: Annotated[str, Field(max_length=16)]
    path: Annotated[str, Field(max_length=_PATH_CHARS_MAX)]
    body: Text | None = None
    """The SHA-256 of the body in hexadecimal digits; left out where there is none."""


def login_token(
    key: SigningKey, *, ledger: str, method: str, path: str, now_ms: int, body: bytes = b""
) -> str:
    """A token for one request: its method, its path with the query as it is sent, and its body.

    `ledger` is the generation of the log, so that a token for one ledger is none for another.
    Raises LoginPathTooLongError.
    """
    if len(path) > _PATH_CHARS_MAX:
        raise LoginPathTooLongError
    issued_at = now_ms // 1_000
    login = _Login(
        ledger=ledger,
        iat=issued_at,
        exp=issued_at + LOGIN_S_MAX,
        method=method,
        path=path,
        body=_body_hash(body),
    )
    return key.token(_bytes_of(login), jws.LOGIN)


def _body_hash(body: bytes) -> str | None:
    return hashlib.sha256(body).hexdigest() if body else None


def _bytes_of(login: _Login) -> bytes:
    return canonicalize(login.model_dump(exclude_none=True))


def read_login(
    token: str, people: People, *, ledger: str, method: str, path: str, now_ms: int
) -> Person | NotLoggedIn:
    """The person whose request this is, or why it is nobody's. Any text has an answer. Whether a
    body is theirs too is asked once it was read: `covers_body`.
    """
    claimed = jws.claimed(token) if len(token) <= LOGIN_CHARS_MAX else None
    if claimed is None or claimed.typ != jws.LOGIN:
        return NotLoggedIn.LOGIN_INVALID
    found = people.person_of(claimed.key_id)
    if found is None:
        return NotLoggedIn.LOGIN_UNKNOWN_SIGNER
    person, key = found
    login = _read(claimed.payload)
    if key.kind != "ed25519" or login is None or not jws.is_proven(token, key.public):
        return NotLoggedIn.LOGIN_INVALID
    if _is_over(person, key, now_ms):
        return NotLoggedIn.LOGIN_SIGNER_REVOKED
    if (login.ledger, login.method, login.path) != (ledger, method, path):
        return NotLoggedIn.LOGIN_ELSEWHERE
    if not 0 < login.exp - login.iat <= LOGIN_S_MAX:
        return NotLoggedIn.LOGIN_INVALID
    if login.iat * 1_000 > now_ms + LOGIN_AHEAD_S_MAX * 1_000:
        return NotLoggedIn.LOGIN_NOT_YET
    return NotLoggedIn.LOGIN_OVER if now_ms >= login.exp * 1_000 else person


def covers_body(token: str, body: bytes) -> bool:
    """Whether a token that `read_login` has taken was signed for this body, or for none at all."""
    claimed = jws.claimed(token)
    login = None if claimed is None else _read(claimed.payload)
    return login is not None and login.body == _body_hash(body)


def read_passkey_login(
    assertion: Assertion, people: People, *, challenge: bytes, now_ms: int
) -> Person | NotLoggedIn:
    """The person whose passkey answered a challenge, or why it is nobody's.

    Whoever asks draws the challenge at random, gives it out once and lets it lapse.
    """
    found = people.person_of(assertion.credential_id)
    if found is None:
        return NotLoggedIn.LOGIN_UNKNOWN_SIGNER
    person, key = found
    if key.kind != "passkey" or not asserts(assertion, challenge, key):
        return NotLoggedIn.LOGIN_INVALID
    return NotLoggedIn.LOGIN_SIGNER_REVOKED if _is_over(person, key, now_ms) else person


def _is_over(person: Person, key: PersonKey, now_ms: int) -> bool:
    return person.revoked or key.revoked or (key.not_after is not None and now_ms >= key.not_after)


def _read(payload: bytes) -> _Login | None:
    """What a token says, in the only bytes that say it."""
    try:
        login = _Login.model_validate_json(payload)
        return login if _bytes_of(login) == payload else None
    except (ValidationError, NotCanonical):
        return None
