"""The HTTP door as a person has it: each request with a log-in of its own key, decisions without.

Guarantees that the private key stays on this machine: what leaves it are signatures. Called by the
commands of people.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import ValidationError

from gateway.cli.proposing import MARGIN_MS, UnexpectedAnswerError, client_of, say_away
from gateway.http.case_sheets import CaseList, CaseSheet
from gateway.http.sheets import DecisionSheet, WaitingList
from ledger.core.errors import LedgerError
from ledger.core.statement import SignedByKey
from ledger.signing.keys import SigningKey
from ledger.signing.logins import login_token

AGAIN_S_MAX: Final = 20.0
"""How long the door may be away, or behind, before a command gives up."""

AGAIN_EVERY_S: Final = 0.3
_AGAIN: Final = frozenset({408, 502, 503, 504})
_LEDGER: Final = re.compile(r'ledger="([A-Za-z0-9._-]{1,128})"')
_Model = TypeVar("_Model", WaitingList, DecisionSheet, CaseList, CaseSheet)
_OK: Final = 200
_UNDECIDED: Final = 202


class DoorRefusedError(LedgerError):
    """The door says no; `problem` is what it says, `code` the name of it."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        title = str(problem.get("title", f"It answered with {status}."))
        detail = problem.get("detail")
        super().__init__(
            title if detail is None else f"{title} {detail}", hint=str(problem.get("hint", ""))
        )
        self.status = status
        self.problem = dict(problem)
        self.code = str(problem.get("code", "refused"))


class AwayError(httpx.TransportError):
    """What stands before the door answers for it: it is asked again, as where nobody answers."""

    def __init__(self) -> None:
        super().__init__("the door is away")


class PersonDoor:
    """A connection to the door under a person's key."""

    def __init__(self, url: str, key: SigningKey) -> None:
        self._key = key
        self._ledger: str | None = None
        self._http = client_of(url, httpx.Timeout(MARGIN_MS / 1_000))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._http.close()

    def waiting(self) -> WaitingList:
        """What waits for people. Raises DoorRefusedError, UnexpectedAnswerError."""
        return self._model(WaitingList, "/v1/approvals")

    def sheet(self, key: str) -> DecisionSheet:
        """Everything that would be signed about an action; as `waiting`."""
        return self._model(DecisionSheet, f"/v1/approvals/{quote(key, safe=':~')}")

    def cases(self) -> CaseList:
        """The cases that wait for a person; as `waiting`."""
        return self._model(CaseList, "/v1/reviews")

    def case(self, key: str) -> CaseSheet:
        """Everything about a case, and what would settle it; as `waiting`."""
        return self._model(CaseSheet, f"/v1/reviews/{quote(key, safe=':~')}")

    def hand_in(self, key: str, signed: SignedByKey) -> dict[str, Any]:
        """Send a decision, and again while it is not known whether it arrived: it counts once."""
        body = {"key": key, "signed": signed.model_dump(mode="json")}
        return self._sent("POST", "/v1/decisions", dict, body)

    def ask_again(self, key: str) -> dict[str, Any]:
        """Have people asked once more, as a person."""
        path = f"/v1/actions/{quote(key, safe=':~')}/ask"
        return self._sent("POST", path, lambda: self._login("POST", path), None)

    def _model(self, model: type[_Model], path: str) -> _Model:
        answer = self._sent("GET", path, lambda: self._login("GET", path), None)
        try:
            return model.model_validate_json(json.dumps(answer))
        except ValidationError:
            raise self._unexpected(_OK) from None

    def _login(self, method: str, path: str) -> dict[str, str]:
        if self._ledger is None:
            # Whoever has not logged in is told which ledger this is.
            response = self._http.get("/v1/approvals")
            if response.status_code in _AGAIN:
                raise AwayError
            named = _LEDGER.search(response.headers.get("www-authenticate", ""))
            if named is None:
                raise self._unexpected(response.status_code)
            self._ledger = named[1]
        token = login_token(
            self._key,
            ledger=self._ledger,
            method=method,
            path=path,
            now_ms=time.time_ns() // 1_000_000,
        )
        return {"Authorization": f"Login {token}"}

    def _sent(
        self,
        method: str,
        path: str,
        headers: Callable[[], dict[str, str]],
        body: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        """Ask, and again while the door is away or nothing is known; the answer."""
        give_up_s = time.monotonic() + AGAIN_S_MAX
        is_told = False
        while True:
            is_late = time.monotonic() > give_up_s
            try:
                response = self._http.request(method, path, headers=headers(), json=body)
            except httpx.TransportError:
                if is_late:
                    raise
            else:
                is_moot = response.status_code == _UNDECIDED or response.status_code in _AGAIN
                if is_late or not is_moot:
                    return self._read(response)
            if not is_told:
                is_told = True
                say_away(self._http.base_url, AGAIN_S_MAX)
            time.sleep(AGAIN_EVERY_S)

    def _read(self, response: httpx.Response) -> dict[str, Any]:
        try:
            answer = response.json()
        except ValueError:  # no JSON, or no text
            answer = None
        if not isinstance(answer, dict):
            raise self._unexpected(response.status_code)
        if response.status_code not in {_OK, _UNDECIDED}:
            raise DoorRefusedError(response.status_code, answer)
        return answer

    def _unexpected(self, status: int) -> UnexpectedAnswerError:
        return UnexpectedAnswerError(
            f"What answers at {self._http.base_url} is no ledger that asks people ({status}).",
            hint="Look at ACTIONLEDGER_URL.",
        )
