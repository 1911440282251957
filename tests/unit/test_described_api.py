"""Another API than the one of the contract suite, described: other words, other places.

Here the key is in the path, amounts are decimals, times are texts, a no comes with status 200, and
charges and refunds are two kinds of objects.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import orjson
import pytest
from aiohttp import web

from ledger.core.money import Money
from reconciler.providers.http.parsing import parse_description
from reconciler.providers.port import (
    Absent,
    Deadlines,
    Finder,
    Found,
    Inconclusive,
    ListedEffect,
    ListingFailed,
    Lookup,
    NotSent,
    Outcome,
    Performer,
    ProviderRequest,
    Refused,
    Retry,
    Succeeded,
    Unresolved,
)
from reconciler.providers.registry import (
    ProviderSettings,
    finders,
    performers,
)
from tests.patience import PATIENCE_MS

DESCRIPTION = """
format = 1

[headers]
X-Api-Key = "{credential}"
X-Actor = "ledger/{account}"

[capabilities]
reliability = "keyed"
finds_by_key = "possible"
finds_by_reference = "impossible"
finds_by_marker = "impossible"
lists_effects = "possible"
previews = "impossible"
key_window_ms = 1_000
key_chars_max = "impossible"
settle_horizon_ms = 0
search_lag_ms = 0
replay_proven = "impossible"
remembers = []
sends_webhooks = "possible"
retries_webhooks = "impossible"

[shape.charge]
reference = "ref"
operation = "=charge"
provider_key = "ours.key"
money = { decimal = "total.value", currency = "total.currency" }
committed_at = { at = "made", unit = "rfc3339" }
exists = { state = ["paid"] }
result = { state = "state" }

[shape.refund]
reference = "number"
provider_key = "key"
money = { minor = "cents", currency = "=EUR" }

[perform.charge]
method = "PUT"
path = "/charges/{provider_key}"
shape = "charge"
success = { statuses = [200, 201], equals = { state = "paid" } }

[perform.charge.body]
total = { value = "{money.decimal}", currency = "{money.currency_lower}" }
memo = "{params.memo}"

[perform.refund]
method = "POST"
path = "/refunds"
query = { key = "{provider_key}", dry = "{params.dry}" }
shape = "refund"
at = "refunds.0"
success = { statuses = [200] }

[[find]]
by = "key"
path = "/charges/{provider_key}"
answers = "one"
shape = "charge"
absent_statuses = [404]
absent_codes = ["no-such-charge"]

[[find]]
by = "key"
path = "/archive"
query = { key = "{provider_key}" }
answers = "list"
at = "items"
more = "next"
shape = "charge"

[[find]]
by = "key"
path = "/refunds"
query = { key = "{provider_key}" }
answers = "list"
at = "refunds"
shape = "refund"

[listing]
path = "/charges"
query = { from = "{since_rfc3339}", cursor = "{cursor}" }
at = "items"
next = "next"
shape = "charge"

[errors]
code = "error"
otherwise = "unresolved"

[[errors.row]]
phase = "answered"
statuses = [200]
codes = ["Declined-By-Bank"]
verdict = "refused_never"

[[errors.row]]
phase = "answered"
statuses = [503]
verdict = "refused_later"

[[errors.row]]
phase = "before_first_byte"
troubles = ["connect_refused"]
verdict = "not_sent_never"

[webhook]
event_id = "id"
event_type = "kind"
account = "=main"
occurred_at = { at = "at", unit = "seconds" }
reference = "charge.ref"

[webhook.type]
"charge.paid" = { meaning = "final", effect = "exists" }
"charge.opened" = { meaning = "irrelevant", effect = "pending" }
"""
REQUEST = ProviderRequest(
    action_key="charge:v1:acme:e1",
    operation="charge",
    version=1,
    target=None,
    params={"memo": "May {credential}"},
    money=Money(minor=4_990, currency="EUR"),
    account="main",
    request_hash="sha256:00",
)
CHARGE = {
    "ref": "C-1",
    "ours": {"key": "k-1"},
    "total": {"value": 49.90, "currency": "eur"},
    "made": "2026-01-02T03:04:05Z",
    "state": "paid",
    "confidence": 0.93,
}
OTHER_AMOUNT = Unresolved("answer_with_another_amount")
DEADLINES = Deadlines(connect_ms=PATIENCE_MS, response_ms=PATIENCE_MS)


@dataclass(slots=True)
class Api:
    """A provider that answers what it is told, and remembers what it was asked."""

    answers: dict[str, tuple[int, object]] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        """Answer by path, and by path with query where there is one."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.asked.append((request.method, request.raw_path, headers, await request.read()))
        status, body = self.answers.get(request.raw_path) or self.answers[request.path]
        moved = {"Location": "/elsewhere"} if status == 302 else {}
        more = moved | self.headers.get(request.path, {})
        return web.Response(status=status, body=orjson.dumps(body), headers=more)


@dataclass(frozen=True, slots=True)
class Clients:
    """Both clients of the described API."""

    api: Api
    performer: Performer
    finder: Finder

    async def perform(self, request: ProviderRequest = REQUEST, key: str = "k-1") -> Outcome:
        """Make one call."""
        return await self.performer.perform(
            request, provider_key=key, deadlines=DEADLINES, before_first_byte=lambda: None
        )

    async def find(self, key: str = "k-1") -> Lookup:
        """Look the charge up."""
        return await self.finder.find(
            account="main", provider_key=key, action_key="a", reference=None, timeout_ms=PATIENCE_MS
        )

    async def listed(self, since_at: int = 0) -> list[ListedEffect]:
        """List all charges."""
        pages = self.finder.list_effects(account="main", since_at=since_at, timeout_ms=PATIENCE_MS)
        return [effect async for effect in pages]


def settings(folder: Path, url: str) -> ProviderSettings:
    """The provider as an operator configures it."""
    path = folder / "adapter.toml"
    path.write_text(DESCRIPTION, encoding="utf-8")
    return ProviderSettings("shop", "http", url, {"main": "s3cret"}, adapter_file=path)


@asynccontextmanager
async def built(one: ProviderSettings, api: Api) -> AsyncIterator[Clients]:
    """Clients of these settings, closed at the end."""
    performer, finder = performers([one])["shop"], finders([one])["shop"]
    try:
        yield Clients(api, performer, finder)
    finally:
        await performer.close()
        await finder.close()


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Clients]:
    """Run the API on a free port, and build clients for it."""
    api = Api()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", api.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with built(settings(tmp_path, url), api) as clients:
        yield clients
    await runner.cleanup()


async def test_the_request_is_what_the_description_says(shop: Clients) -> None:
    """Method, path, headers and body are the description's, filled from the request."""
    shop.api.answers["/charges/k%2F%C3%A9%3Fx"] = (201, CHARGE)
    assert await shop.perform(key="k/é?x") == Unresolved("answer_for_another_action")
    [(method, path, headers, body)] = shop.api.asked
    assert (method, path) == ("PUT", "/charges/k%2F%C3%A9%3Fx")
    assert headers["x-api-key"] == "s3cret"
    assert headers["x-actor"] == "ledger/main"
    assert headers["content-type"] == "application/json"
    assert orjson.loads(body) == {
        "memo": "May {credential}",
        "total": {"value": "49.90", "currency": "eur"},
    }


async def test_the_same_request_is_the_same_bytes(shop: Clients) -> None:
    """A second attempt cannot be taken for another request."""
    shop.api.answers["/charges/k-1"] = (201, CHARGE)
    await shop.perform()
    await shop.perform(replace(REQUEST, params=dict(REQUEST.params)))
    first, second = shop.api.asked
    assert first == second


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (201, CHARGE, Succeeded("C-1", {"state": "paid"})),
        (200, {**CHARGE, "state": "open"}, Unresolved("answer_not_recognised")),
        (202, CHARGE, Unresolved("http_202")),
        (200, {"error": "Declined-By-Bank"}, Refused("declined_by_bank", Retry.NEVER)),
        (200, {"error": "something else"}, Unresolved("something_else")),
        (200, {**CHARGE, "error": "Declined-By-Bank"}, Unresolved("answer_contradicts_itself")),
        (200, {**CHARGE, "total": {"value": 4.99, "currency": "eur"}}, OTHER_AMOUNT),
        (200, {**CHARGE, "total": None}, OTHER_AMOUNT),
        (200, {**CHARGE, "ours": {"key": "k-2"}}, Unresolved("answer_for_another_action")),
        (200, {**CHARGE, "ours": {}}, Unresolved("answer_for_another_action")),
        (200, {**CHARGE, "ref": None}, Unresolved("answer_invalid")),
        (200, [CHARGE], Unresolved("answer_not_recognised")),
        (402, {"error": "no_money"}, Unresolved("no_money")),
        (503, {}, Refused("http_503", Retry.LATER)),
        (302, {}, Unresolved("http_302")),
    ],
)
async def test_an_answer_proves_what_the_description_says(
    shop: Clients, status: int, body: object, outcome: Outcome
) -> None:
    """Success takes status, words, marker and amount; a no takes a row; all else stays open."""
    shop.api.answers["/charges/k-1"] = (status, body)
    assert await shop.perform() == outcome
    assert len(shop.api.asked) == 1, "no redirect followed, nothing repeated"


async def test_each_operation_has_its_own_table(shop: Clients) -> None:
    """A refund goes elsewhere, without a body, and its object has another shape."""
    shop.api.answers["/refunds"] = (200, {"refunds": [{"number": 7, "key": "k-1", "cents": 4_990}]})
    refund = replace(REQUEST, operation="refund", params={"dry": False})
    assert await shop.perform(refund) == Succeeded("7", {})
    [(method, path, headers, body)] = shop.api.asked
    assert (method, path, body) == ("POST", "/refunds?key=k-1&dry=false", b"")
    assert "content-type" not in headers


async def test_an_operation_that_is_not_described_is_not_sent(shop: Clients) -> None:
    """Nothing is guessed for an operation without a table."""
    unknown = replace(REQUEST, operation="transfer")
    assert await shop.perform(unknown) == NotSent("operation_not_described", Retry.NEVER)
    assert shop.api.asked == []


@pytest.mark.parametrize("key", ["..", ".", "", "a\ud800"])
async def test_a_key_that_leads_elsewhere_is_not_sent(shop: Clients, key: str) -> None:
    """A step that a server would resolve, or that vanishes, never leaves; nor does a lookup."""
    assert await shop.perform(key=key) == NotSent("request_unsendable", Retry.NEVER)
    assert await shop.find(key=key) == Inconclusive("request_unsendable")
    assert shop.api.asked == []


async def test_an_account_cannot_write_a_header(tmp_path: Path) -> None:
    """A line break in a name that stands in a header is not sent, even if it is configured."""
    account = "main\r\nHost: evil.example"
    one = replace(settings(tmp_path, "http://127.0.0.1:1"), api_keys={account: "s"})
    async with built(one, Api()) as clients:
        outcome = await clients.perform(replace(REQUEST, account=account))
    assert outcome == NotSent("request_unsendable", Retry.NEVER)


async def test_a_row_decides_before_the_first_byte(tmp_path: Path) -> None:
    """Nothing was sent either way; the row says whether to come again."""
    async with built(settings(tmp_path, "http://127.0.0.1:1"), Api()) as clients:
        assert await clients.perform() == NotSent("connect_refused", Retry.NEVER)


ABSENT = (404, {"error": "no-such-charge"})
NO_REFUNDS: tuple[int, object] = (200, {"refunds": []})
EMPTY: tuple[int, object] = (200, {"items": [], "next": None})


@pytest.mark.parametrize(
    ("charge", "archive", "lookup"),
    [
        (ABSENT, EMPTY, Absent(None)),
        ((404, {"error": "no such page"}), EMPTY, Inconclusive("no_such_page")),
        ((404, "a proxy's page"), EMPTY, Inconclusive("http_404")),
        (ABSENT, (200, {"items": [], "next": "p2"}), Inconclusive("search_not_whole")),
        (ABSENT, (200, {"items": None}), Inconclusive("answer_invalid")),
        (ABSENT, (200, {}), Inconclusive("answer_invalid")),
        (ABSENT, (302, {}), Inconclusive("http_302")),
        # Not made yet, another's copy, and a part: each calls itself a success.
        (ABSENT, (202, {"items": [], "next": None}), Inconclusive("http_202")),
        (ABSENT, (203, {"items": [], "next": None}), Inconclusive("http_203")),
        (ABSENT, (206, {"items": [], "next": None}), Inconclusive("http_206")),
        (ABSENT, (429, {}), Inconclusive("http_429")),
        (
            ABSENT,
            (200, {"items": [{**CHARGE, "ours": {"key": "k-2"}}]}),
            Inconclusive("effect_of_another_action"),
        ),
    ],
)
async def test_absent_is_said_only_after_whole_answers(
    shop: Clients, charge: tuple[int, object], archive: tuple[int, object], lookup: Lookup
) -> None:
    """Every search has to answer, whole and in the described words, before nothing is there."""
    shop.api.answers |= {"/charges/k-1": charge, "/archive": archive, "/refunds": NO_REFUNDS}
    assert await shop.find() == lookup


async def test_a_search_that_is_to_wait_says_for_how_long(shop: Clients) -> None:
    """Who asks again learns from the provider when it may."""
    shop.api.answers |= {"/charges/k-1": (429, {}), "/archive": EMPTY, "/refunds": NO_REFUNDS}
    shop.api.headers["/charges/k-1"] = {"Retry-After": "7"}
    assert await shop.find() == Inconclusive("http_429", 7_000)


async def test_what_two_searches_show_is_one_effect_or_two(shop: Clients) -> None:
    """The same reference in two places is one effect, another one is a second."""
    later = {**CHARGE, "ref": "C-2", "made": "2026-01-02T03:04:06Z"}
    shop.api.answers["/charges/k-1"] = (200, CHARGE)
    shop.api.answers["/archive"] = (200, {"items": [later, CHARGE]})
    shop.api.answers["/refunds"] = NO_REFUNDS
    found = await shop.find()
    assert isinstance(found, Found)
    assert found.money == Money(minor=4_990, currency="EUR")
    assert (found.reference, found.further_references) == ("C-1", ("C-2",))
    assert {method for method, *_ in shop.api.asked} == {"GET"}


async def test_two_kinds_of_objects_may_share_a_number(shop: Clients) -> None:
    """A charge and a refund with the same reference are two effects, and both are shown."""
    shop.api.answers["/charges/k-1"] = (200, CHARGE)
    shop.api.answers["/archive"] = EMPTY
    refunds = [{"number": "C-1", "key": "k-1", "cents": 4_990}]
    shop.api.answers["/refunds"] = (200, {"refunds": refunds})
    found = await shop.find()
    assert isinstance(found, Found)
    assert (found.reference, found.further_references) == ("C-1", ("C-1",))


def page(path: str, items: list[object], following: object) -> dict[str, tuple[int, object]]:
    """One page of the list."""
    return {path: (200, {"items": items, "next": following})}


FIRST = "/charges?from=1970-01-01T00%3A00%3A00Z"
LATER = {**CHARGE, "ref": "C-2", "made": "2026-01-02T03:04:06Z"}


async def test_a_list_is_paged_by_its_cursor(shop: Clients) -> None:
    """The first page has no cursor, the last no next, and a key that is shown is told."""
    shop.api.answers |= page(FIRST, [CHARGE], "c&2") | page(f"{FIRST}&cursor=c%262", [LATER], None)
    effects = await shop.listed()
    assert [effect.reference for effect in effects] == ["C-1", "C-2"]
    assert {effect.account for effect in effects} == {"main"}
    assert {effect.operation for effect in effects} == {"charge"}
    assert effects[0].provider_key == "k-1"


@pytest.mark.parametrize("end", [None, "", False])
async def test_a_list_ends_where_no_page_is_named(shop: Clients, end: object) -> None:
    """Null, an empty text and false say so; a cursor may be long, since some hold what was asked
    for.
    """
    long = "c" * 4_000
    shop.api.answers |= page(FIRST, [CHARGE], long) | page(f"{FIRST}&cursor={long}", [LATER], end)
    assert [effect.reference for effect in await shop.listed()] == ["C-1", "C-2"]


async def test_a_list_begins_where_it_was_told(shop: Clients) -> None:
    """What the provider's coarser clock shows too early is left out."""
    start = 1_767_323_045_500
    shop.api.answers |= page("/charges?from=2026-01-02T03%3A04%3A05Z", [CHARGE, LATER], None)
    assert [effect.reference for effect in await shop.listed(start)] == ["C-2"]


@pytest.mark.parametrize(
    ("items", "following", "code"),
    [
        ([LATER, CHARGE], None, "list_out_of_order"),
        ([{**CHARGE, "made": None}], None, "answer_invalid"),
        ([{**CHARGE, "ref": {}}], None, "answer_invalid"),
        ([CHARGE], "again", "cursor_repeats"),
        ([CHARGE], True, "answer_invalid"),
        ([CHARGE], "c" * 4_097, "answer_invalid"),
    ],
)
async def test_a_list_that_is_not_whole_breaks_off(
    shop: Clients, items: list[object], following: object, code: str
) -> None:
    """Order, times and cursors are checked, since nobody sees what a list leaves out."""
    shop.api.answers |= page(FIRST, items, following)
    shop.api.answers |= page(f"{FIRST}&cursor=again", [], following)
    with pytest.raises(ListingFailed) as failed:
        await shop.listed()
    assert failed.value.code == code


def test_what_no_search_shows_is_a_mistake() -> None:
    """A refund that can be made and not be found would be called absent, and made again."""
    head, _, tail = DESCRIPTION.partition('[[find]]\nby = "key"\npath = "/refunds"')
    _, listing, rest = tail.partition("[listing]")
    mistakes = parse_description(head + listing + rest)
    assert isinstance(mistakes, tuple)
    assert [one.path for one in mistakes] == ["perform.refund.shape"]
