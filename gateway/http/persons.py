"""Who asks, where it is a person: by a token that their own key has signed for this one request.

Guarantees that an API key is never a person's log-in, and that a person is known by the people in
force now. Sessions of the pages are one more way beside it. Called by the routes for people.
"""

import logging
from collections.abc import Awaitable
from typing import Final, TypeVar

from starlette.requests import Request as HttpRequest

from gateway.http import following
from gateway.http.bodies import parsed_key
from gateway.http.codes import Code
from gateway.http.doors import Doors
from gateway.http.problems import No
from ledger.core.ids import ActionKey
from ledger.core.invariants import BrokenInvariantError
from ledger.core.people import Person
from ledger.core.rejections import Rejection
from ledger.signing.logins import NotLoggedIn, covers_body, read_login

logger = logging.getLogger("actionledger.http")

SCHEME: Final = "login "
_Found = TypeVar("_Found")

_CODES: Final = {
    NotLoggedIn.LOGIN_INVALID: Code.LOGIN_INVALID,
    NotLoggedIn.LOGIN_UNKNOWN_SIGNER: Code.LOGIN_UNKNOWN_SIGNER,
    NotLoggedIn.LOGIN_SIGNER_REVOKED: Code.LOGIN_SIGNER_REVOKED,
    NotLoggedIn.LOGIN_ELSEWHERE: Code.LOGIN_ELSEWHERE,
    NotLoggedIn.LOGIN_NOT_YET: Code.LOGIN_NOT_YET,
    NotLoggedIn.LOGIN_OVER: Code.LOGIN_OVER,
}
_BY_PEOPLE: Final = frozenset({Code.LOGIN_UNKNOWN_SIGNER, Rejection.UNKNOWN_ACTION})
"""Refusals for which a document of people that is not the newest may be to blame."""


class LoginTokens:
    """The header `Authorization: Login` with a token of `ledger.signing.logins`."""

    def person(self, http: HttpRequest, doors: Doors) -> Person | No | None:
        """The person of the token, or why it is none; None without the header."""
        token = _token_of(http)
        if token is None:
            return None
        query = f"?{http.url.query}" if http.url.query else ""
        path = http.scope.get("raw_path", b"").decode("latin-1") or http.url.path
        read = read_login(
            token,
            doors.published().people,
            ledger=doors.ledger_id,
            method=http.method,
            path=path + query,
            now_ms=doors.wall_clock_ms(),
        )
        return _no(doors, _CODES[read]) if isinstance(read, NotLoggedIn) else read


def _token_of(http: HttpRequest) -> str | None:
    given = http.headers.getlist("authorization")
    header = given[0] if len(given) == 1 else ""
    return header[len(SCHEME) :].strip() if header.lower().startswith(SCHEME) else None


def uncovered(http: HttpRequest, doors: Doors, body: bytes) -> No | None:
    """Why a body is not the word of the person who logged in, or None: a token covers it too."""
    token = _token_of(http)
    if token is None or covers_body(token, body):
        return None
    return _no(doors, Code.LOGIN_ELSEWHERE)


async def person_of(http: HttpRequest, doors: Doors) -> Person | No:
    """The person whose request this is, or why it is nobody's."""
    return await doors.by_newest(lambda: _person_of(http, doors), _is_by_people)


def _is_by_people(said: object) -> bool:
    return isinstance(said, No) and said.code in _BY_PEOPLE


def _person_of(http: HttpRequest, doors: Doors) -> Person | No:
    for way in doors.persons:
        found = way.person(http, doors)
        if found is not None:
            return found
    return _no(doors, Code.LOGIN_INVALID)


async def looking_at(http: HttpRequest, doors: Doors, text: str) -> tuple[Person, ActionKey] | No:
    """Who asks for the sheet of an action, and its key; or why they are shown nothing."""
    return await doors.by_newest(lambda: _looking_at(http, doors, text), _is_by_people)


def _looking_at(http: HttpRequest, doors: Doors, text: str) -> tuple[Person, ActionKey] | No:
    person = _person_of(http, doors)
    if isinstance(person, No):
        return person
    key = parsed_key(text)
    if isinstance(key, No):
        return key
    # Answered as one that nobody ever used, without a look at it.
    may_look = person.may_decide_for(key.tenant)
    return (person, key) if may_look else No(Rejection.UNKNOWN_ACTION)


async def readable(text: str, asking: Awaitable[_Found]) -> _Found | No:
    """What the read model has of an action, or why nothing is shown of it."""
    try:
        return await following.read(asking)
    except (BrokenInvariantError, ValueError) as lying:
        # Why is told in a line; where it came to light helps nobody.
        told = {"action": text, "reason": str(lying)}
        logger.error("sheet_unreadable", extra=told)  # noqa: TRY400
        return No(Code.READ_MODEL_UNAVAILABLE)


def _no(doors: Doors, code: Code) -> No:
    """The refusal, with the ledger that a token has to be signed for: no secret."""
    challenge = f'Login realm="actionledger", ledger="{doors.ledger_id}"'
    return No(code, headers={"WWW-Authenticate": challenge})


def is_from_person(http: HttpRequest, doors: Doors) -> bool:
    """Whether somebody has tried to log in as a person, rather than with an API key."""
    return any(way.person(http, doors) is not None for way in doors.persons)
