"""A list of Stripe's that does not say whether it goes on, or says it and does not; and what it or
a search shows that is not there when it is read: no absence.
"""

import json
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest

from reconciler.providers.http_exchange import Answered, Message
from reconciler.providers.port import Absent, Deadlines, Inconclusive, Lookup
from reconciler.providers.stripe.finder import StripeFinder
from reconciler.providers.stripe.names import ACTION_KEY
from tests.patience import PATIENCE_MS

ANOTHER = {
    "object": "payment_intent",
    "id": "pi_another",
    "status": "succeeded",
    "amount": 100,
    "amount_received": 100,
    "currency": "eur",
    "created": 1,
    "metadata": {},
}


class Lists:
    """Two lists and a search; the first list has the pages of a test, the others are empty."""

    def __init__(self, *pages: dict[str, object]) -> None:
        self._pages = pages

    async def exchange(
        self,
        message: Message,
        *,
        deadlines: Deadlines,
        before_first_byte: Callable[[], None] = lambda: None,
    ) -> Answered:
        """The first page, or the second where it is asked what follows."""
        _ = deadlines, before_first_byte
        asked = urlsplit(message.path)
        page: dict[str, object] = {"data": [], "has_more": False}
        if asked.path.endswith("/payment_intents"):
            page = self._pages["starting_after" in parse_qs(asked.query)]
        return Answered(200, (), json.dumps(page).encode())

    async def close(self) -> None:
        """There is nothing to close."""


@pytest.mark.case("C097")
@pytest.mark.parametrize(
    ("pages", "lookup"),
    [
        ([{"data": [], "has_more": False}], Absent()),
        ([{"data": []}], Inconclusive("answer_invalid")),
        ([{"data": [], "has_more": None}], Inconclusive("answer_invalid")),
        ([{"data": [], "has_more": "false"}], Inconclusive("answer_invalid")),
        (
            [{"data": [ANOTHER], "has_more": True}, {"data": [], "has_more": False}],
            Inconclusive("list_not_whole"),
        ),
        (
            [{"data": [ANOTHER], "has_more": True}, {"data": [ANOTHER], "has_more": False}],
            Absent(),
        ),
    ],
)
async def test_c097_only_a_list_that_ends_as_it_says_is_an_absence(
    pages: list[dict[str, object]], lookup: Lookup
) -> None:
    """C097: a cursor may lose the rest of the second in which its object was created: what a page
    announces has to come.
    """
    finder = StripeFinder("http://none", {"main": "sk_test_12345678"}, http=Lists(*pages))
    found = await finder.find(
        account="main",
        provider_key="k",
        action_key="charge:v1:acme:renewal-1",
        reference=None,
        timeout_ms=PATIENCE_MS,
    )
    assert found == lookup


class Gone(Lists):
    """A payment of the action stands in one list, and read by its name it is not there."""

    def __init__(self, resource: str) -> None:
        super().__init__()
        self._resource = resource

    async def exchange(
        self,
        message: Message,
        *,
        deadlines: Deadlines,
        before_first_byte: Callable[[], None] = lambda: None,
    ) -> Answered:
        """The payment where its list is asked for, and nowhere else."""
        _ = deadlines, before_first_byte
        path = urlsplit(message.path).path
        if path.endswith(f"/{ANOTHER['id']}"):
            missing = {"error": {"code": "resource_missing", "type": "invalid_request_error"}}
            return Answered(404, (), json.dumps(missing).encode())
        shown = [{**ANOTHER, "metadata": {ACTION_KEY: "charge:v1:acme:renewal-1"}}]
        data = shown if path.endswith(self._resource) else []
        return Answered(200, (), json.dumps({"data": data, "has_more": False}).encode())


@pytest.mark.case("C097")
@pytest.mark.parametrize("resource", ["/payment_intents", "/payment_intents/search"])
async def test_c097_what_is_shown_and_not_there_when_it_is_read_is_no_absence(
    resource: str,
) -> None:
    """C097: a list shows the action's payment and the direct read does not find it: one of the two
    is behind, so nothing is concluded.
    """
    finder = StripeFinder("http://none", {"main": "sk_test_12345678"}, http=Gone(resource))
    found = await finder.find(
        account="main",
        provider_key="k",
        action_key="charge:v1:acme:renewal-1",
        reference=None,
        timeout_ms=PATIENCE_MS,
    )
    assert found == Inconclusive("shown_and_not_found")
