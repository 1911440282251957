"""An object that failed, is at work or is there in part is no effect, wherever it is shown."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from ledger.core.money import Money
from reconciler.providers.http.description import Description
from reconciler.providers.http.finder import HttpFinder
from reconciler.providers.http.outcomes import outcome_of
from reconciler.providers.http.parsing import parse_description
from reconciler.providers.http_exchange import Answered
from reconciler.providers.port import (
    Absent,
    Found,
    Inconclusive,
    ListingFailed,
    Lookup,
    Outcome,
    Partial,
    ProviderRequest,
    Succeeded,
    Unresolved,
)
from tests.patience import PATIENCE_MS

KEY = "charge:v1:acme:r-1"
EQUALS = 'equals = { ok = true, "payment.status" = "succeeded" }'
EXISTS = 'exists = { status = ["succeeded", "settled"], live = [true] }'
NONE = 'none = { status = ["failed", "canceled"] }'
PARTS = 'parts = { at = "legs", equals = { done = true } }'
OK = "equals = { ok = true }"
DESCRIPTION = f"""
format = 1

[capabilities]
reliability = "keyed"
finds_by_key = "possible"
finds_by_reference = "possible"
finds_by_marker = "impossible"
lists_effects = "possible"
previews = "impossible"
key_window_ms = 86_400_000
key_chars_max = 255
settle_horizon_ms = 60_000
search_lag_ms = 30_000
replay_proven = "possible"
remembers = ["success"]
sends_webhooks = "impossible"
retries_webhooks = "impossible"

[shape.payment]
reference = "id"
action_key = "key"
operation = "=charge"
money = {{ minor = "amount", currency = "=EUR" }}
committed_at = {{ at = "booked", unit = "seconds" }}
{EXISTS}
{NONE}

[perform.charge]
method = "POST"
path = "/payments"
headers = {{ Key = "{{provider_key}}" }}
shape = "payment"
at = "payment"
success = {{ statuses = [200], {EQUALS} }}

[[find]]
by = "reference"
path = "/payments/{{reference}}"
answers = "one"
at = "payment"
shape = "payment"
absent_statuses = [404]

[[find]]
by = "key"
path = "/payments"
query = {{ key = "{{provider_key}}" }}
answers = "list"
{OK}
at = "payments"
shape = "payment"

[listing]
path = "/all"
query = {{ since = "{{since_seconds}}" }}
{OK}
at = "payments"
shape = "payment"

[errors]
code = "error"
otherwise = "usual_statuses"
"""
REQUEST = ProviderRequest(
    action_key=KEY,
    operation="charge",
    version=1,
    target=None,
    params={},
    money=Money(minor=4_990, currency="EUR"),
    account="main",
    request_hash="sha256:" + "ab" * 32,
)
Object = dict[str, object]


def payment(status: str, name: str = "p-1", **more: object) -> Object:
    """One payment of ours; what is not there yet has no time."""
    booked = 1_700_000_000 if status in {"succeeded", "settled"} else None
    fields = {"id": name, "key": KEY, "amount": 4_990, "status": status, "live": True}
    return {**fields, "booked": booked, **more}


def described(text: str = DESCRIPTION) -> Description:
    """A description without mistakes."""
    description = parse_description(text)
    assert isinstance(description, Description), description
    return description


@dataclass
class Provider:
    """A provider that shows what it is told."""

    description: Description
    shown: list[Object] = field(default_factory=list)
    named: Object | None = None
    is_ok: bool = True
    error: object = "busy"
    url: str = ""
    asked: list[int] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        """By its key, all of them, or one by its name."""
        if request.path.startswith("/payments/"):
            named = self.named
            return web.json_response({"payment": named}, status=404 if named is None else 200)
        start = int(request.query.get("after", 0))
        until = start + int(request.query.get("limit", len(self.shown)))
        self.asked.append(until - start)
        return web.json_response(
            {
                "ok": self.is_ok,
                "payments": self.shown[start:until],
                "next": str(until) if until < len(self.shown) else None,
                "error": self.error,
            }
        )

    @asynccontextmanager
    async def finder(self) -> AsyncIterator[HttpFinder]:
        """What looks there."""
        finder = HttpFinder(self.description, self.url, {"main": "credential"})
        yield finder
        await finder.close()

    async def find(self, reference: str | None = None) -> Lookup:
        """Look the action up."""
        async with self.finder() as finder:
            return await finder.find(
                account="main",
                provider_key=KEY,
                action_key=KEY,
                reference=reference,
                timeout_ms=PATIENCE_MS,
            )

    async def listed(self) -> list[str]:
        """List everything."""
        async with self.finder() as finder:
            effects = finder.list_effects(account="main", since_at=0, timeout_ms=PATIENCE_MS)
            return [effect.reference async for effect in effects]


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """Run the provider on a free port."""
    provider = Provider(described())
    app = web.Application()
    app.router.add_get("/{tail:.*}", provider.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    provider.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield provider
    await runner.cleanup()


def called(description: Description, shown: Object, *, is_ok: bool = True) -> Outcome:
    """What a call comes to whose answer shows this."""
    body = json.dumps({"ok": is_ok, "payment": shown}).encode()
    perform = description.perform("charge")
    assert perform is not None
    return outcome_of(REQUEST, KEY, Answered(200, (), body), perform, description.errors)


PENDING = Inconclusive("effect_pending")
STATES: list[tuple[list[Object], str]] = [
    ([payment("succeeded")], "found"),
    ([payment("settled")], "found"),
    ([payment("failed")], "absent"),
    ([payment("failed"), payment("canceled", "p-2")], "absent"),
    ([payment("processing")], "pending"),
    ([payment("a state of next year")], "pending"),
    ([payment("succeeded", live=False)], "pending"),
    ([payment("succeeded", live=1)], "pending"),
    ([payment("failed"), payment("processing", "p-2")], "pending"),
    ([payment("failed", "p-0"), payment("succeeded"), payment("processing", "p-2")], "found"),
    ([], "absent"),
]


@pytest.mark.case("C085")
@pytest.mark.parametrize(("shown", "comes_to"), STATES)
async def test_c085_only_what_exists_is_found_and_listed(
    provider: Provider, shown: list[Object], comes_to: str
) -> None:
    """C085: what failed is no effect, what is at work proves nothing, and neither is listed: an
    action that is found is completed.
    """
    provider.shown = shown
    found = await provider.find()
    match comes_to:
        case "found":
            assert isinstance(found, Found)
            assert (found.reference, found.further_references) == ("p-1", ())
        case "absent":
            assert found == Absent()
        case _:
            assert found == PENDING
    there = [one["id"] for one in shown if one["status"] in {"succeeded", "settled"}]
    assert await provider.listed() == [name for name in there if comes_to == "found"]


async def test_a_reference_that_leads_to_what_failed_is_no_effect(provider: Provider) -> None:
    """What has the name and failed is absent; what is nowhere under that name proves nothing."""
    provider.named, provider.shown = payment("failed"), [payment("failed")]
    assert await provider.find("p-1") == Absent()
    provider.named = payment("processing")
    assert await provider.find("p-1") == PENDING
    provider.named = None
    assert await provider.find("p-2") == Inconclusive("reference_not_found")


async def test_two_searches_that_disagree_prove_nothing(provider: Provider) -> None:
    """One of them is behind: of the same object one says that it failed, one that it is there."""
    provider.named, provider.shown = payment("succeeded"), [payment("failed")]
    assert await provider.find("p-1") == PENDING
    provider.named, provider.shown = payment("failed"), [payment("succeeded")]
    assert await provider.find("p-1") == PENDING


async def test_an_answer_that_says_no_of_itself_shows_nothing(provider: Provider) -> None:
    """An empty list beside ok = false is no absence, and no end of a list."""
    provider.is_ok = False
    assert await provider.find() == Inconclusive("busy")
    with pytest.raises(ListingFailed, match="busy"):
        await provider.listed()


@pytest.mark.parametrize("limit", ["limit = 5", ""])
async def test_where_a_page_is_too_large_half_as_many_effects_are_asked_for(
    provider: Provider, limit: str
) -> None:
    """With a limit in the description the same page is asked for again; without it the listing
    breaks off by name.
    """
    head, _, listing = DESCRIPTION.partition("[listing]")
    asked = ', limit = "{limit}"' if limit else ""
    listing = listing.replace(" }", f', after = "{{cursor}}"{asked} }}', 1)
    listing = listing.replace('at = "payments"', f'at = "payments"\nnext = "next"\n{limit}', 1)
    provider.description = described(f"{head}[listing]{listing}")
    provider.shown = [payment("succeeded", f"p-{n}", memo="x" * 90_000) for n in range(5)]
    if limit:
        assert await provider.listed() == [f"p-{n}" for n in range(5)]
        assert provider.asked == [5, 2, 2, 2]
    else:
        with pytest.raises(ListingFailed, match="answer_too_large"):
            await provider.listed()


@pytest.mark.case("C085")
@pytest.mark.parametrize("status", ["failed", "processing", "canceled"])
def test_c085_a_call_means_what_a_lookup_means(status: str) -> None:
    """C085: what is not found is no success either, whatever success.equals says."""
    lenient = described(DESCRIPTION.replace(f", {EQUALS}", ""))
    assert called(lenient, payment("succeeded")) == Succeeded("p-1", {})
    assert called(lenient, payment(status)) == Unresolved("answer_not_recognised")
    assert called(described(), payment("succeeded"), is_ok=False) == Unresolved(
        "answer_not_recognised"
    )


LEGS = DESCRIPTION.replace(NONE, f"{NONE}\n{PARTS}").replace(
    f", {EQUALS}", ', parts = { at = "payment.legs", equals = { done = true } }'
)


@pytest.mark.case("C015")
@pytest.mark.parametrize(
    ("status", "legs", "lookup"),
    [
        ("succeeded", [True, True], "found"),
        ("succeeded", [True, False], "effect_in_part"),
        ("processing", [True, False], "effect_in_part"),
        ("failed", [True, False], "effect_in_part"),
        ("processing", [True, True], "effect_pending"),
        ("processing", [False, False], "effect_pending"),
        ("succeeded", [False, False], "effect_pending"),
        ("succeeded", [], "effect_pending"),
        ("failed", [False], "absent"),
        ("failed", [], "absent"),
    ],
)
async def test_c015_what_is_there_in_part_is_not_found(
    provider: Provider, status: str, legs: list[bool], lookup: str
) -> None:
    """C015: a lookup looks at the parts as the call does: some of them are neither the effect nor
    none, and the ledger goes on asking.
    """
    provider.description = described(LEGS)
    shown = payment(status, legs=[{"done": one} for one in legs])
    provider.shown = [shown]
    found = await provider.find()
    match lookup:
        case "found":
            assert isinstance(found, Found)
        case "absent":
            assert found == Absent()
        case _:
            assert found == Inconclusive(lookup)
    assert await provider.listed() == (["p-1"] if lookup == "found" else [])
    outcome = called(provider.description, shown)
    assert isinstance(outcome, Succeeded) == (lookup == "found")
    assert isinstance(outcome, Partial) == (lookup == "effect_in_part")


async def test_parts_that_are_not_there_prove_nothing(provider: Provider) -> None:
    """A shape with parts and an object without them is not the object that was described."""
    provider.description = described(LEGS)
    provider.shown = [payment("succeeded")]
    assert await provider.find() == Inconclusive("answer_invalid")


def lacking() -> Iterator[tuple[str, list[str]]]:
    """Descriptions that ask for more of a call than of a lookup, and where that is told."""
    shown = ["find[0].shape", "find[1].shape", "listing.shape"]
    bare = DESCRIPTION.replace(EXISTS, "").replace(NONE, "")
    yield bare, shown
    only_ok = bare.replace(EQUALS, "equals = { ok = true }")
    yield only_ok, ["find[0].shape"]
    yield LEGS.replace(PARTS, ""), shown


@pytest.mark.parametrize(("text", "places"), list(lacking()))
def test_what_a_call_asks_for_a_lookup_has_to_ask_for(text: str, places: list[str]) -> None:
    """A description without the counterpart is refused, at each search and at the listing."""
    mistakes = parse_description(text)
    assert isinstance(mistakes, tuple)
    assert [one.path for one in mistakes] == places
    assert all("needs exists" in one.message or "needs parts" in one.message for one in mistakes)


@pytest.mark.parametrize(
    ("error", "code"),
    [("busy", "busy"), ({"message": "busy"}, "answer_with_error"), (True, "answer_with_error")],
)
async def test_an_empty_list_beside_an_error_is_no_absence(
    provider: Provider, error: object, code: str
) -> None:
    """Family search: some providers answer 200 with an empty list and a word for their trouble.
    Where the description asks nothing of the answer itself, that word is heard; with what it shows
    beside it, what is shown counts.
    """
    provider.description, provider.error = described(DESCRIPTION.replace(OK, "")), error
    assert await provider.find() == Inconclusive(code)
    with pytest.raises(ListingFailed, match=code):
        await provider.listed()
    provider.shown = [payment("succeeded")]
    assert isinstance(await provider.find(), Found)


@pytest.mark.parametrize("error", [None, "", 0, False, {}, []])
async def test_an_empty_envelope_of_an_error_is_none(provider: Provider, error: object) -> None:
    """Family search: nothing said is no trouble."""
    provider.description, provider.error = described(DESCRIPTION.replace(OK, "")), error
    assert await provider.find() == Absent()
    assert await provider.listed() == []
