"""The door as a person's command has it: asked again while it is away, named when it is none."""

import httpx
import pytest

from gateway.cli import person_door
from gateway.cli.person_door import AwayError, PersonDoor
from gateway.cli.proposing import UnexpectedAnswerError
from ledger.signing.keys import SigningKey
from tests.asking import signing_key

KEY: SigningKey = signing_key(7)
WAITING = {"ledger": "g", "now": 0, "you": "ada", "tenants": ["acme"], "waiting": []}


def door(*answers: httpx.Response) -> PersonDoor:
    """A door that answers so, one after the other, and then always with the last."""
    left = list(answers)

    def answered(_request: httpx.Request) -> httpx.Response:
        return left.pop(0) if len(left) > 1 else left[0]

    made = PersonDoor("http://door.invalid", KEY)
    made._http = httpx.Client(
        base_url="http://door.invalid", transport=httpx.MockTransport(answered)
    )
    return made


def challenge() -> httpx.Response:
    """What somebody is told who has not logged in."""
    return httpx.Response(401, headers={"WWW-Authenticate": 'Login realm="x", ledger="g"'}, json={})


def test_a_door_that_starts_behind_a_proxy_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for which ledger it is, which is asked before anything is signed."""
    monkeypatch.setattr(person_door, "AGAIN_EVERY_S", 0.0)
    with door(
        *(httpx.Response(502, text="bad gateway"), httpx.Response(503, text="not yet")),
        *(challenge(), httpx.Response(200, json=WAITING)),
    ) as opened:
        assert opened.waiting().you == "ada"


def test_a_door_that_stays_away_is_no_other_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told as one that does not answer, and what is no ledger by its status."""
    monkeypatch.setattr(person_door, "AGAIN_S_MAX", -1.0)
    with door(httpx.Response(502, text="bad gateway")) as opened, pytest.raises(AwayError):
        opened.waiting()
    with (
        door(httpx.Response(404, text="nothing")) as opened,
        pytest.raises(UnexpectedAnswerError, match=r"no ledger that asks people \(404\)"),
    ):
        opened.waiting()
