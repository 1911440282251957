"""A provider's own list of events, read by the shipped reader and by the described one."""

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from reconciler.providers.events import EventsFailed, EventSource, ListedEvent
from reconciler.providers.port import MappedWebhook
from reconciler.providers.registry import ProviderSettings, event_sources, webhook_mappings
from tests.contract.calls import Call, performing
from tests.contract.stage import EXAMPLE, ProviderProcess, SimulatedStage
from tests.patience import PATIENCE_MS

KINDS = ("simulated", "http")


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderProcess]:
    """Run one provider for this module; nobody takes its webhooks."""
    process = ProviderProcess(tmp_path_factory.mktemp("events"))
    process.start()
    yield process
    process.stop()


def settings(kind: str, url: str, *accounts: str) -> ProviderSettings:
    """One provider with a credential for these accounts."""
    keys = {account: f"sk_sim_{account}" for account in accounts}
    file = EXAMPLE if kind == "http" else None
    return ProviderSettings("one", kind, url, keys, adapter_file=file)


async def listed(
    kind: str, url: str, account: str, since_at: int = 0
) -> tuple[list[ListedEvent], list[MappedWebhook]]:
    """Everything in the list, and what each event means."""
    one = settings(kind, url, account)
    source = event_sources([one])["one"]
    try:
        found = [
            event
            async for page in source.list_events(
                account=account, since_at=since_at, timeout_ms=PATIENCE_MS
            )
            for event in page
        ]
    finally:
        await source.close()
    mapped = [webhook_mappings([one])["one"].map(event.raw) for event in found]
    return found, [event for event in mapped if isinstance(event, MappedWebhook)]


async def performed(process: ProviderProcess, *steps: str) -> Call:
    """Perform one action whose events go through these steps."""
    stage = SimulatedStage(process)
    call = Call.on(stage)
    script = {
        "match": {"action_key": call.action_key},
        "webhooks": [{"kind": step} for step in steps],
    }
    process.control("script", {"scripts": [script]})
    async with performing(stage) as performer:
        await call.perform(performer)
    return call


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", ["normal", "lost", "twice"])
async def test_an_event_is_listed_whether_it_was_sent_or_not(
    process: ProviderProcess, kind: str, step: str
) -> None:
    """Once, with its id and with all that matching needs; one that is lost too."""
    process.control("reset", {})
    call = await performed(process, step)
    found, mapped = await listed(kind, process.url, call.account)
    assert [event.event_id for event in found] == [one.event_id for one in mapped]
    (event,) = mapped
    assert (event.effect, event.action_key, event.money) == (
        "exists",
        call.action_key,
        call.request.money,
    )
    assert await listed(kind, process.url, call.account, event.occurred_at + 1) == ([], [])
    assert await listed(kind, process.url, "another") == ([], [])


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_forged_is_not_listed(process: ProviderProcess, kind: str) -> None:
    """A list is the provider's own word."""
    process.control("reset", {})
    call = await performed(process, "forged")
    assert await listed(kind, process.url, call.account) == ([], [])


async def test_a_list_is_there_after_a_crash_of_the_provider(process: ProviderProcess) -> None:
    """What was lost before the power went is listed after it."""
    process.control("reset", {})
    call = await performed(process, "lost")
    before = await listed("simulated", process.url, call.account)
    process.kill()
    process.start()
    assert await listed("simulated", process.url, call.account) == before
    assert len(before[1]) == 1


def source_at(url: str) -> EventSource:
    """The described reader at an address."""
    return event_sources([settings("http", url, "main")])["one"]


@asynccontextmanager
async def serving(page: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[str]:
    """A provider that has a list of events and nothing else."""
    app = web.Application()
    app.add_routes([web.get("/v1/events", page)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.fixture
async def pages() -> AsyncIterator[tuple[str, dict[str, web.Response]]]:
    """A list whose pages a test writes, by the cursor that asks for each."""
    answers: dict[str, web.Response] = {}

    async def page(request: web.Request) -> web.Response:
        return answers[request.query["after"]]

    async with serving(page) as url:
        yield url, answers


async def test_pages_are_followed_and_fractions_kept(
    pages: tuple[str, dict[str, web.Response]],
) -> None:
    """An event is what the provider wrote, with every digit of its numbers."""
    url, answers = pages
    answers["0"] = web.Response(text='{"events": [{"id": "a", "n": 0.10}], "next": "p2"}')
    answers["p2"] = web.Response(text='{"events": [{"id": "b", "n": 1e2}], "next": ""}')
    source = source_at(url)
    read = [
        page
        async for page in source.list_events(account="main", since_at=5, timeout_ms=PATIENCE_MS)
    ]
    assert read == [
        (ListedEvent("a", b'{"id": "a", "n": 0.10}'),),
        (ListedEvent("b", b'{"id": "b", "n": 1e2}'),),
    ]
    await source.close()


@pytest.mark.parametrize(
    ("odd", "event_id"),
    [
        ('{"id": "odd", "memo": "cut \\ud83d"}', "odd"),
        ('{"id": "odd", "memo": %s}' % ("[" * 300 + "]" * 300), "odd"),
        ('{"id": "odd", "memo": %s}' % ("[" * 30_000 + "]" * 30_000), None),
        ('{"id": "odd", "memo": 1, "memo": 2}', None),
        ('{"id": true}', None),
        ('{"id": "odd", "memo": NaN}', None),
        ("17", None),
    ],
)
async def test_an_event_that_cannot_be_read_spoils_no_other(
    pages: tuple[str, dict[str, web.Response]], odd: str, event_id: str | None
) -> None:
    """It is brought as it was written, and so are those around it and on the next page."""
    url, answers = pages
    answers["0"] = web.Response(
        text=f'{{"events": [{{"id":"a"}}, {odd}, {{"id":"b"}}], "next": "p2"}}'
    )
    answers["p2"] = web.Response(text='{"events": [{"id":"c"}], "next": null}')
    source = source_at(url)
    read = [
        page
        async for page in source.list_events(account="main", since_at=5, timeout_ms=PATIENCE_MS)
    ]
    await source.close()
    a, b, c = (ListedEvent(name, b'{"id":"%c"}' % ord(name)) for name in "abc")
    assert read == [(a, ListedEvent(event_id, odd.encode()), b), (c,)]


async def test_where_a_page_is_too_large_half_as_many_events_are_asked_for(
    tmp_path: Path,
) -> None:
    """Down to one, if that is what fits; without a limit in the description the trouble is told."""
    events = [{"id": f"e{n}", "memo": "x" * 90_000} for n in range(5)]
    asked: list[int] = []

    async def page(request: web.Request) -> web.Response:
        start, limit = int(request.query["after"]), int(request.query.get("limit", 5))
        asked.append(limit)
        shown, following = events[start : start + limit], start + limit
        more = str(following) if following < len(events) else None
        return web.json_response({"events": shown, "next": more})

    text = EXAMPLE.read_text()
    start = text.index("[webhook.pull]")
    pull = text[start:].replace('"{cursor}" }', '"{cursor}", limit = "{limit}" }\nlimit = 5', 1)
    described = tmp_path / "limited.toml"
    described.write_text(text[:start] + pull)
    async with serving(page) as url:
        limited = dataclasses.replace(settings("http", url, "main"), adapter_file=described)
        source = event_sources([limited])["one"]
        pages = source.list_events(account="main", since_at=5, timeout_ms=PATIENCE_MS)
        read = [event.event_id async for page in pages for event in page]
        assert (read, asked) == (["e0", "e1", "e2", "e3", "e4"], [5, 2, 2, 2])
        await source.close()
        source = source_at(url)
        with pytest.raises(EventsFailed) as failed:
            _ = [
                p
                async for p in source.list_events(
                    account="main", since_at=5, timeout_ms=PATIENCE_MS
                )
            ]
        assert failed.value.code == "answer_too_large"
        await source.close()


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"status": 500}, "http_500"),
        ({"status": 202, "text": '{"events": [], "next": null}'}, "http_202"),
        ({"status": 206, "text": '{"events": [], "next": null}'}, "http_206"),
        ({"status": 429, "text": '{"error":{"code":"slow_down"}}'}, "slow_down"),
        ({"text": "not json"}, "answer_invalid"),
        ({"text": '{"events": {}}'}, "answer_invalid"),
        ({"text": '{"events": [], "next": "0"}'}, "cursor_repeats"),
        ({"text": '{"events": [], "error": {"code": "slow_down"}}'}, "slow_down"),
    ],
)
async def test_a_page_that_cannot_be_read_ends_the_list_by_name(
    pages: tuple[str, dict[str, web.Response]], answer: dict[str, object], code: str
) -> None:
    """A list with a hole never passes for a whole one."""
    url, answers = pages
    answers["0"] = web.Response(**answer)  # type: ignore[arg-type]
    source = source_at(url)
    with pytest.raises(EventsFailed) as failed:
        _ = [
            page
            async for page in source.list_events(account="main", since_at=0, timeout_ms=PATIENCE_MS)
        ]
    assert failed.value.code == code
    await source.close()


async def test_a_description_may_say_by_what_a_page_is_good(tmp_path: Path) -> None:
    """A provider whose word for success stands where others tell of trouble: its last, empty page
    is the end of its list, and one with another word is none of it, whatever it shows.
    """
    words = iter(("ok", "ok", "slow_down"))

    async def page(_: web.Request) -> web.Response:
        word = next(words)
        return web.json_response(
            {"events": [{"id": "e0"}] if word != "ok" else [], "error": {"code": word}}
        )

    text = EXAMPLE.read_text()
    described = tmp_path / "worded.toml"
    described.write_text(
        text.replace('at = "events"', 'at = "events"\nequals = { "error.code" = "ok" }', 1)
    )
    async with serving(page) as url:
        worded = dataclasses.replace(settings("http", url, "main"), adapter_file=described)
        source = event_sources([worded])["one"]
        for _ in range(2):
            pages = source.list_events(account="main", since_at=0, timeout_ms=PATIENCE_MS)
            assert [page async for page in pages] == [()]
        with pytest.raises(EventsFailed, match="slow_down"):
            _ = [
                page
                async for page in source.list_events(
                    account="main", since_at=0, timeout_ms=PATIENCE_MS
                )
            ]
        await source.close()


async def test_an_account_without_a_credential_is_named() -> None:
    """Nobody is asked without one."""
    source = source_at("http://127.0.0.1:1")
    assert source.accounts == {"main"}
    with pytest.raises(EventsFailed, match="account_not_configured"):
        _ = [page async for page in source.list_events(account="x", since_at=0, timeout_ms=100)]
    with pytest.raises(EventsFailed, match="connect"):
        _ = [
            page
            async for page in source.list_events(account="main", since_at=0, timeout_ms=PATIENCE_MS)
        ]
    await source.close()
