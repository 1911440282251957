"""What the pages hand out and take back: sessions, form tokens, and values that count once.

Guarantees that nothing which was not sealed here, for this purpose, in time, is believed: an
HMAC over purpose and content under the site's secret. A session reads; it is bound to a person and
to the key that they logged in with, and ends with either. It never decides anything. Must never ask
a clock: the time is given.
"""

import hmac
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from gateway.console.limits import CHALLENGE_MS, SESSION_MS
from ledger.core.people import People, Person

_ID_BYTES: Final = 16
_SEALED_CHARS_MAX: Final = 32 * 1_024


class Purpose(StrEnum):
    """What a sealed text is for; it is worth nothing for anything else."""

    SESSION = "session"
    FORM = "form"
    LOGIN = "login"
    STATEMENT = "statement"
    RESOLUTION = "resolution"
    ENROLMENT = "enrolment"


@dataclass(frozen=True, slots=True)
class Session:
    """Who logged in with which key, and until when that lets them read."""

    id: str
    person: str
    key_id: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class Visitor:
    """A session whose person may still log in."""

    session: Session
    person: Person


@dataclass(frozen=True, slots=True)
class Once:
    """A value that may be handed back once: its id, and what was sealed with it."""

    id: str
    content: Mapping[str, Any]


class Seals:
    """Seals and opens under one secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def session(self, person: str, key_id: str, *, now_ms: int) -> tuple[Session, str]:
        """A new session, and the cookie that says so."""
        session = Session(_drawn(), person, key_id, now_ms + SESSION_MS)
        said = {
            "id": session.id,
            "person": person,
            "key": key_id,
            "until": session.expires_at,
        }
        return session, self._seal(Purpose.SESSION, said)

    def visitor(self, cookie: str | None, people: People, *, now_ms: int) -> Visitor | None:
        """Who a cookie belongs to, if they may log in with the same key now; or None."""
        said = None if cookie is None else self._open(Purpose.SESSION, cookie)
        if said is None or now_ms >= said["until"]:
            return None
        session = Session(said["id"], said["person"], said["key"], said["until"])
        person = people.signer(session.key_id, now_ms)
        if person is None or person.name != session.person:
            return None
        return Visitor(session, person)

    def form(self, session: Session) -> str:
        """The token that every form of a session carries."""
        return self._mac(Purpose.FORM, session.id)

    def is_form_of(self, token: str, session: Session) -> bool:
        """Whether a form came from a page of this session; in constant time."""
        return hmac.compare_digest(token.encode(), self.form(session).encode())

    def once(
        self,
        purpose: Purpose,
        content: Mapping[str, Any],
        *,
        now_ms: int,
        valid_ms: int = CHALLENGE_MS,
    ) -> str:
        """A value that may be handed back once, within its time. Whoever takes it spends it."""
        return self._seal(purpose, {"id": _drawn(), "until": now_ms + valid_ms, "of": content})

    def opened(self, purpose: Purpose, text: str, *, now_ms: int) -> Once | None:
        """What was sealed in a one-time value, or None where it is none or is over."""
        said = self._open(purpose, text)
        if said is None or now_ms >= said["until"]:
            return None
        return Once(said["id"], said["of"])

    def _seal(self, purpose: Purpose, said: Mapping[str, Any]) -> str:
        raw = json.dumps(said, separators=(",", ":"), sort_keys=True).encode()
        text = urlsafe_b64encode(raw).decode().rstrip("=")
        return f"{text}.{self._mac(purpose, text)}"

    def _open(self, purpose: Purpose, sealed: str) -> dict[str, Any] | None:
        text, dot, mac = sealed.rpartition(".")
        if not dot or len(sealed) > _SEALED_CHARS_MAX:
            return None
        if not hmac.compare_digest(mac.encode(), self._mac(purpose, text).encode()):
            return None
        # Only what was sealed above comes here.
        said: dict[str, Any] = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return said

    def _mac(self, purpose: Purpose, text: str) -> str:
        signed = hmac.digest(self._secret, f"{purpose.value}\n{text}".encode(), "sha256")
        return urlsafe_b64encode(signed).decode().rstrip("=")


def _drawn() -> str:
    return secrets.token_urlsafe(_ID_BYTES)
