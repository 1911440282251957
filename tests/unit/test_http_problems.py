"""Problems of the HTTP door: one status, one hint and one documented name for each refusal."""

import json
import re
from pathlib import Path

import pytest

from gateway.http.codes import KINDS, REJECTED, Code
from gateway.http.problems import MEDIA_TYPE, TYPE_PREFIX, LedgerPlace, No, Trouble, refused
from gateway.http.webhooks import STATUSES
from ledger.core.limits import DIFFERENCES_MAX
from ledger.core.rejections import Detail, Refused, Rejection
from reconciler.webhooks import WebhookProblem

NAMES = [*Code, *Rejection]
# What a request names may be made known later; then the same request is in order.
_MAY_BECOME_KNOWN = {Rejection.UNKNOWN_OPERATION, Rejection.UNKNOWN_SIGNER}


def test_every_refusal_of_the_ledger_has_a_status() -> None:
    """The table is complete, and nothing in it was removed from the ledger."""
    assert set(REJECTED) == set(Rejection)
    assert set(KINDS) == set(Code)


def test_every_reason_for_not_believing_a_webhook_has_a_status() -> None:
    """A sender repeats what is answered with 4xx or 5xx, never with 2xx."""
    assert set(STATUSES) == set(WebhookProblem)
    assert all(400 <= status < 600 for status in STATUSES.values())


def test_door_and_ledger_never_use_one_name_for_two_things() -> None:
    """A code alone says which refusal it is."""
    assert {code.value for code in Code}.isdisjoint(code.value for code in Rejection)


@pytest.mark.parametrize("name", NAMES)
def test_a_refusal_is_a_problem_with_a_hint(name: Code | Rejection) -> None:
    """Every problem is RFC 9457: type, title, status; and says what to do."""
    response = No(name).response()
    problem = json.loads(bytes(response.body))
    assert response.media_type == MEDIA_TYPE
    assert problem["type"] == TYPE_PREFIX + name.value
    assert problem["code"] == name.value
    assert problem["status"] == response.status_code >= 400
    assert problem["title"].endswith(".")
    assert problem["hint"].endswith(".")
    assert problem["asking_again"] in {
        "never_helps",
        "may_help_later",
        "is_safe_with_the_same_request",
    }


@pytest.mark.parametrize("name", NAMES)
def test_only_what_may_succeed_unchanged_is_worth_asking_again(name: Code | Rejection) -> None:
    """5xx that are ours invite the same request; a refusal of the request as it is does not."""
    kind = No(name).kind
    if kind.status == 503 and name is not Code.NOT_READY:
        assert kind.asking_again == "is_safe_with_the_same_request"
        assert No(name).response().headers["retry-after"] == "1"
    if kind.status in {400, 403, 413, 415, 422} and name not in _MAY_BECOME_KNOWN:
        assert kind.asking_again == "never_helps"


def test_every_code_is_documented_with_its_status() -> None:
    """Whoever meets a problem finds its code in the documentation, and no code that is gone."""
    text = Path("docs/HTTP.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \|", text, re.MULTILINE)
    documented = {(code, int(status)) for code, status in rows}
    assert documented == {(name.value, No(name).kind.status) for name in NAMES}


def test_a_conflict_says_where_it_differs_and_what_not_to_do() -> None:
    """The words against a new key are in every conflict."""
    answer = Refused(
        code=Rejection.CONFLICTED,
        action="charge:v1:acme:e",
        details=(Detail(path="/money/minor", code="differs", message="4990 -> 49900"),),
    )
    no = refused(answer, place=LedgerPlace(partition=1, offset=7))
    problem = json.loads(bytes(no.response().body))
    assert problem["status"] == 422
    assert problem["problems"] == [
        {"path": "/money/minor", "code": "differs", "message": "4990 -> 49900"}
    ]
    assert problem["ledger"] == {"partition": 1, "offset": 7}
    assert "A new key is the wrong move" in problem["hint"]


def test_a_problem_is_bounded() -> None:
    """However much is wrong, the answer names the first things only."""
    troubles = tuple(Trouble(path=f"/{n}", code="c", message="m") for n in range(1_000))
    problem = json.loads(bytes(No(Code.INVALID_BODY, problems=troubles).response().body))
    assert len(problem["problems"]) == DIFFERENCES_MAX


def test_a_missing_key_is_told_how_to_present_one() -> None:
    """RFC 9110 asks for the scheme with every 401."""
    assert "Bearer" in No(Code.UNAUTHENTICATED).response().headers["www-authenticate"]
