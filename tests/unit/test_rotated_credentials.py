"""Credentials that are replaced while calls are made: the next call has the new one."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from reconciler.providers.adapter import ProviderSettings, UnusableProvider
from reconciler.providers.credentials import Credentials, credentials_of
from reconciler.providers.http.description import Description
from reconciler.providers.http.parsing import parse_description
from reconciler.providers.http.performer import HttpPerformer
from reconciler.providers.port import Deadlines, Outcome, Succeeded
from tests.patience import PATIENCE_MS
from tests.unit.test_cases_of_answers import DESCRIPTION, GOOD, REQUEST


def replace(path: Path, credential: str) -> None:
    """Write a file beside and move it there, as whoever rotates does."""
    beside = path.with_suffix(".new")
    beside.write_text(credential + "\n", encoding="utf-8")
    beside.replace(path)


@dataclass
class Provider:
    """Answers what is good, once it may, and remembers with which credential it was asked."""

    seen: list[str] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one call."""
        self.seen.append(request.headers["X-Api-Key"])
        self.asked.set()
        await self.may_answer.wait()
        return web.json_response({"messages": [GOOD]})


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """Start one, and end it."""
    one = Provider()
    app = web.Application()
    app.router.add_post("/sms", one.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    one.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield one
    await runner.cleanup()


async def test_a_call_under_way_keeps_its_credential_and_the_next_has_the_new_one(
    provider: Provider, tmp_path: Path
) -> None:
    """No restart, and nothing of the call that is at work is said with the other one."""
    path = tmp_path / "main.key"
    replace(path, "first")
    description = parse_description(DESCRIPTION)
    assert isinstance(description, Description)
    performer = HttpPerformer(description, provider.url, Credentials({"main": path}, {}))

    async def call() -> Outcome:
        deadlines = Deadlines(connect_ms=PATIENCE_MS, response_ms=PATIENCE_MS)
        return await performer.perform(
            REQUEST, provider_key="k", deadlines=deadlines, before_first_byte=lambda: None
        )

    under_way = asyncio.create_task(call())
    async with asyncio.timeout(PATIENCE_MS / 1_000):
        await provider.asked.wait()
    replace(path, "second")
    provider.may_answer.set()
    assert isinstance(await under_way, Succeeded)
    assert isinstance(await call(), Succeeded)
    assert provider.seen == ["first", "second"]
    await performer.close()


@pytest.mark.parametrize("spoilt", ["", "two\nlines", None])
def test_a_file_that_cannot_be_used_changes_nothing_and_is_told_once(
    spoilt: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Half a rotation stops no payment; what is mended counts, and no message quotes it."""
    path = tmp_path / "main.key"
    replace(path, "first")
    keys = Credentials({"main": path}, {})
    if spoilt is None:
        path.unlink()
    else:
        replace(path, spoilt)
    assert [keys["main"], keys["main"]] == ["first", "first"]
    (told,) = [one for one in caplog.records if one.msg == "credential_unreadable"]
    assert "lines" not in str(vars(told).get("reason"))
    replace(path, "second")
    assert keys["main"] == "second"


def test_what_the_settings_say_comes_first(tmp_path: Path) -> None:
    """And an account that nobody named has none."""
    path = tmp_path / "main.key"
    replace(path, "of the file")
    keys = Credentials({"main": path}, {"main": "of the settings", "other": "x"})
    assert dict(keys) == {"main": "of the settings", "other": "x"}
    assert (keys.get("third"), len(keys)) == (None, 2)


def test_a_missing_file_is_named_at_the_start(tmp_path: Path) -> None:
    """Before anything is carried out."""
    settings = ProviderSettings("bank", "http", adapter_file=tmp_path / "bank.toml")
    with pytest.raises(UnusableProvider, match="no credential for the account main"):
        credentials_of(settings, {"main": "main.key"})


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    """Nobody writes into it again, and whoever opened it would wait for that for ever."""
    path = tmp_path / "main.key"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=("first\n",))
    writer.start()
    keys = Credentials({"main": path}, {})
    writer.join()
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(keys["main"]), daemon=True)
    reader.start()
    reader.join(PATIENCE_MS / 1_000)
    assert found == ["first"]


def test_a_file_written_in_place_with_its_old_time_counts(tmp_path: Path) -> None:
    """As `cp -p` and `rsync --inplace` write; another of the same length is another one."""
    path = tmp_path / "main.key"
    replace(path, "first")
    before = path.stat()
    keys = Credentials({"main": path}, {})
    path.write_text("other\n", encoding="utf-8")
    # The clock of a file system ticks every few milliseconds.
    while path.stat().st_ctime_ns == before.st_ctime_ns or path.stat().st_mtime_ns != (
        before.st_mtime_ns
    ):
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert keys["main"] == "other"
