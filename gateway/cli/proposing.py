"""Asking the HTTP door for an effect, over and over if need be, always with the same bytes.

Guarantees that the file is sent as it is: the door's strict parser judges it, not ours; and that
nobody waits longer than a breath without a word on stderr. Called by `propose`, `cancel` and
`saga`.
"""

import json
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit

import httpx

from ledger.core.errors import LedgerError

WAIT_MS_MAX: Final = 30_000
"""The longest that the door lets one request wait."""

FIRST_MS_MAX: Final = 1_000
"""How long the first request waits: after it whoever waits on is told for what."""

AGAIN_S_MAX: Final = 10.0
"""How long the door may be away, as while it is started again."""

AGAIN_EVERY_S: Final = 0.3
AGAIN: Final = frozenset({408, 429, 502, 503, 504})
MARGIN_MS: Final = 15_000
MOVING: Final = frozenset({"undecided", "proposed", "ready", "attempting"})
GOING_ON: Final = frozenset({"undecided", "running", "compensating"})
UNDECIDED: Final = "undecided"
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class NoKeyError(LedgerError):
    """The door is not told who asks."""


class UnknownActionError(LedgerError):
    """There is no such action, or not yet."""


class UnexpectedAnswerError(LedgerError):
    """Something else than a ledger answers at this address."""


def _moves(answer: Mapping[str, Any]) -> bool:
    """Whether an action goes on by itself within seconds."""
    return answer.get("status") in MOVING and not answer.get("held")


def _saga_goes_on(answer: Mapping[str, Any]) -> bool:
    """Whether a saga has not come to its end, and needs no person before anything new begins."""
    return answer.get("status") in GOING_ON and not answer.get("cases")


def _rest_unless_later(answer: Mapping[str, Any], later: Mapping[str, Any]) -> None:
    """A door with which too many wait answers at once; nobody asks it without end."""
    if later.get("version") == answer.get("version"):
        time.sleep(AGAIN_EVERY_S)


def say_away(url: object, for_s: float, status: int | None = None) -> None:
    """That a command has not stopped, where it asks again: nothing answers, or what stands there
    does with this status.
    """
    is_much = status == httpx.codes.TOO_MANY_REQUESTS
    why = "is asked too often" if is_much else "does not answer yet"
    _say(f"The ledger at {url} {why}; asking again for {for_s:.0f} s.")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def client_of(
    url: str, timeout: httpx.Timeout, *, headers: Mapping[str, str] | None = None
) -> httpx.Client:
    """A client of the door. Between this machine and itself a proxy has no business, and without
    TLS nothing is to be checked: reading the certificates that are trusted takes 40 ms.
    """
    parts = urlsplit(url)
    is_here = parts.hostname in LOOPBACK
    trusts_nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx.Client(
        base_url=url,
        headers=headers,
        timeout=timeout,
        trust_env=not is_here,
        verify=trusts_nobody if is_here and parts.scheme == "http" else True,
    )


class Proposing:
    """A connection to the door under one API key."""

    def __init__(self, url: str, api_key: str) -> None:
        self._http = client_of(
            url,
            httpx.Timeout(MARGIN_MS / 1_000, read=(WAIT_MS_MAX + MARGIN_MS) / 1_000),
            headers={"Authorization": f"Bearer {api_key}"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._http.close()
        if kind is KeyboardInterrupt:
            _say("\nNot waiting any more. What was taken goes on by itself; asking again is safe.")

    def propose(self, raw: bytes, *, wait_ms: int) -> tuple[int, dict[str, Any]]:
        """Send the intent and wait while it moves by itself, which a held one does not; status and
        body of the answer.
        """
        return self._followed("/v1/actions", raw, wait_ms, _moves)

    def cancel(self, key: str, reason: str | None) -> tuple[int, dict[str, Any]]:
        """Take an action back; status and body of the answer."""
        raw = b"{}" if reason is None else json.dumps({"reason": reason}).encode()
        return self._ask("POST", f"/v1/actions/{quote(key, safe=':~')}/cancel", raw, None)

    def ask_of_saga(self, path: str, raw: bytes, *, wait_ms: int) -> tuple[int, dict[str, Any]]:
        """Open a saga, or call one off, and wait until it has come to its end or needs a person;
        status and body of the answer.
        """
        return self._followed(path, raw, wait_ms, _saga_goes_on)

    def _followed(
        self, path: str, raw: bytes, wait_ms: int, goes_on: Callable[[Mapping[str, Any]], bool]
    ) -> tuple[int, dict[str, Any]]:
        """Send a body, and look while it goes on; how it stands, and under which status it was
        taken.
        """
        until_s = time.monotonic() + wait_ms / 1_000
        wait = {"wait_ms": min(wait_ms, FIRST_MS_MAX)} if wait_ms else None
        status, answer = self._ask("POST", path, raw, wait)
        told = None
        while goes_on(answer) and (left_s := until_s - time.monotonic()) > 0:
            if answer["status"] != told:
                told = answer["status"]
                _say(f"It is {told}; waiting.")
            params = {
                "wait_ms": min(round(left_s * 1_000), WAIT_MS_MAX),
                "after_version": answer.get("version", 0),
            }
            later_status, later = self._ask("GET", answer["href"], None, params)
            if later_status == httpx.codes.NOT_FOUND and answer["status"] == UNDECIDED:
                # It is durable, and nobody has decided it: so long the door knows nothing of it.
                time.sleep(AGAIN_EVERY_S)
                continue
            if later_status != httpx.codes.OK:
                return later_status, later
            _rest_unless_later(answer, later)
            answer = {**later, "replayed": answer.get("replayed")}
        return status, answer

    def _ask(
        self, method: str, path: str, raw: bytes | None, params: Mapping[str, int] | None
    ) -> tuple[int, dict[str, Any]]:
        """Ask, and again while the door is away: the same bytes are the same act."""
        give_up_s = time.monotonic() + AGAIN_S_MAX
        headers = None if raw is None else {"Content-Type": "application/json"}
        is_told, status = False, None
        while True:
            try:
                response = self._http.request(
                    method, path, content=raw, headers=headers, params=params
                )
            except httpx.TransportError:
                if time.monotonic() > give_up_s:
                    raise
                status = None
            else:
                # What stands before the door answers for it in words of its own.
                if response.status_code not in AGAIN or time.monotonic() > give_up_s:
                    return self._read(response)
                status = response.status_code
            if not is_told:
                is_told = True
                say_away(self._http.base_url, AGAIN_S_MAX, status)
            time.sleep(AGAIN_EVERY_S)

    def _read(self, response: httpx.Response) -> tuple[int, dict[str, Any]]:
        try:
            answer = response.json()
        except ValueError:  # no JSON, or no text
            answer = None
        named = "code" if response.is_error else "status"
        if not isinstance(answer, dict) or not isinstance(answer.get(named), str):
            raise UnexpectedAnswerError(
                f"What answers at {self._http.base_url} is no ledger ({response.status_code}).",
                hint="Look at ACTIONLEDGER_URL.",
            )
        return response.status_code, answer
