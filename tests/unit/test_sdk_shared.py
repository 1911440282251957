"""One client in several event loops, threads and forked processes, over real connections: nobody is
ever given the answer to somebody else's question.

Family `conc`, beside C039: the same connection, asked through by two.
"""

import asyncio
import gc
import json
import multiprocessing
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import httpx
import pytest

from actionledger import Intent, Ledger, Plan, Portal, Retries, UnexpectedAnswer
from actionledger.results import Result
from tests.flaky import FlakyTransport
from tests.patience import PATIENCE_SECONDS

FORK = multiprocessing.get_context("fork")
QUICK = Retries(attempts_max=1)


def intent(event: str, *, item: str | None = None, revises: str | None = None) -> Intent:
    """An intent of this business event."""
    return Intent(
        operation="note", business_event=event, environment="test", item=item, revises=revises
    )


def answer(event: str) -> bytes:
    """How the ledger says that it has recorded it."""
    key = f"note:v1:acme:{event}"
    return json.dumps({"key": key, "status": "proposed", "version": 1}).encode()


class Door:
    """A ledger that keeps its connections and answers each request with the action it asks for;
    while `holds`, answers wait, so that a second request can come before the first is answered.
    """

    def __init__(self) -> None:
        """Listen on a free port, in a thread of its own."""
        self.heard = threading.Semaphore(0)
        self.let_go = threading.Event()
        self.let_go.set()
        self.url = ""
        self._loop = asyncio.new_event_loop()
        listening = threading.Event()

        async def listen() -> None:
            server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            listening.set()

        def run() -> None:
            self._loop.run_until_complete(listen())
            self._loop.run_forever()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        assert listening.wait(PATIENCE_SECONDS)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            await self._answer(reader, writer)
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
            asked = json.loads(await reader.readexactly(int(length)))
            self.heard.release()
            await asyncio.to_thread(self.let_go.wait, PATIENCE_SECONDS)
            body = answer(asked["business_event"])
            line = f"HTTP/1.1 202 Accepted\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(line.encode() + body)
            await writer.drain()


@pytest.fixture(scope="module")
def door() -> Door:
    """One for all: it ends with the tests."""
    return Door()


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What a closed event loop leaves behind goes before the next test begins."""
    yield
    gc.collect()


pytestmark = [
    # It is closed when it is collected, and says so.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def ask(ledger: Ledger, event: str) -> str:
    """Ask in an event loop of its own: the key, or what was raised instead."""
    try:
        return asyncio.run(ledger.propose(intent(event))).key
    except Exception as raised:  # noqa: BLE001 - compared as it is
        return repr(raised)


def test_a_client_outlives_the_event_loop_in_which_it_was_first_used(door: Door) -> None:
    """A worker that runs a loop for each of its tasks asks with the same client: the connections
    of a loop that is closed are not used again.
    """
    ledger = Ledger(door.url, "al_key", retries=QUICK)
    events = [f"loop-{number}" for number in range(4)]
    assert [ask(ledger, event) for event in events] == [f"note:v1:acme:{one}" for one in events]


def test_no_proxy_stands_between_a_machine_and_itself(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy of the environment is for what lies outside: it is not given the API key of a ledger
    on this machine, as the command line does not give it either.
    """
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    ledger = Ledger(door.url, "al_key", retries=QUICK)
    assert ask(ledger, "proxied") == "note:v1:acme:proxied"


def test_threads_with_loops_of_their_own_share_a_client(door: Door) -> None:
    """Each of them is told about what it has asked for."""
    ledger = Ledger(door.url, "al_key", retries=QUICK)
    told: dict[str, str] = {}

    def work(thread: int) -> None:
        for number in range(5):
            event = f"thread-{thread}-{number}"
            told[event] = ask(ledger, event)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(PATIENCE_SECONDS)
    assert told == {event: f"note:v1:acme:{event}" for event in told}
    assert len(told) == 20


def test_a_forked_process_and_its_parent_are_each_told_of_their_own(door: Door) -> None:
    """The child asks on the client that it inherited while the parent goes on with it. Over one
    connection the parent would be told of the child's action, and from then on of the one before.
    """
    ledger = Ledger(door.url, "al_key", retries=QUICK)

    def child(into: Connection) -> None:
        asyncio.events._set_running_loop(None)  # a fork within a coroutine inherits the mark of it
        into.send(ask(ledger, "child"))
        into.close()

    async def parent() -> list[str]:
        told = [(await ledger.propose(intent("parent-0"))).key]
        while door.heard.acquire(blocking=False):
            pass
        door.let_go.clear()
        ours, theirs = FORK.Pipe(duplex=False)
        process = FORK.Process(target=child, args=(theirs,), daemon=True)
        process.start()
        try:
            assert await asyncio.to_thread(door.heard.acquire, timeout=PATIENCE_SECONDS)
            asked = asyncio.create_task(ledger.propose(intent("parent-1")))
            assert await asyncio.to_thread(door.heard.acquire, timeout=PATIENCE_SECONDS)
        finally:
            door.let_go.set()
        told.append((await asked).key)
        told.append((await ledger.propose(intent("parent-2"))).key)
        assert await asyncio.to_thread(ours.poll, PATIENCE_SECONDS)
        told.append(ours.recv())
        process.join(PATIENCE_SECONDS)
        await ledger.close()
        return told

    names = ("parent-0", "parent-1", "parent-2", "child")
    assert asyncio.run(parent()) == [f"note:v1:acme:{name}" for name in names]


async def test_the_answer_to_a_call_that_was_given_up_is_nobodys(door: Door) -> None:
    """It comes when nobody waits for it any more, on a connection that is not asked through again:
    whoever asks next is told of what it has asked.
    """
    async with Ledger(door.url, "al_key", retries=QUICK) as ledger:
        assert (await ledger.propose(intent("first"))).key == "note:v1:acme:first"
        while door.heard.acquire(blocking=False):
            pass
        door.let_go.clear()
        try:
            given_up = asyncio.create_task(ledger.propose(intent("given-up")))
            assert await asyncio.to_thread(door.heard.acquire, timeout=PATIENCE_SECONDS)
            given_up.cancel()
            with suppress(asyncio.CancelledError):
                await given_up
        finally:
            door.let_go.set()
        asked = [asyncio.create_task(ledger.propose(intent(f"next-{n}"))) for n in range(8)]
        told = [one.key for one in await asyncio.gather(*asked)]
        assert told == [f"note:v1:acme:next-{number}" for number in range(8)]


def test_a_portal_that_a_forked_process_inherits_says_so_and_never_waits() -> None:
    """Its thread is not there, so nothing would ever come back."""

    def child(portal: Portal, into: Connection) -> None:
        try:
            portal.call(asyncio.sleep, 0)
        except RuntimeError as raised:
            into.send(str(raised))

    with Portal() as portal:
        portal.call(asyncio.sleep, 0)
        ours, theirs = FORK.Pipe(duplex=False)
        process = FORK.Process(target=child, args=(portal, theirs), daemon=True)
        process.start()
        assert ours.poll(PATIENCE_SECONDS)
        assert "before the fork" in ours.recv()
        process.join(PATIENCE_SECONDS)


def test_a_portal_does_not_wait_for_itself() -> None:
    """Called in its own thread it would never come back."""

    async def inside(portal: Portal) -> None:
        portal.call(asyncio.sleep, 0)

    with Portal() as portal, pytest.raises(RuntimeError, match="await the function"):
        portal.call(inside, portal)


def test_a_portal_that_is_not_open_says_so_and_never_waits() -> None:
    """Nothing runs in it yet, or any more."""
    portal = Portal()
    with pytest.raises(RuntimeError, match="not open"):
        portal.call(asyncio.sleep, 0)
    with portal:
        portal.call(asyncio.sleep, 0)
    with pytest.raises(RuntimeError, match="not open"):
        portal.call(asyncio.sleep, 0)


def test_a_closed_client_stays_closed(door: Door) -> None:
    """In every loop: who goes on with it is told."""

    async def main(ledger: Ledger) -> None:
        await ledger.propose(intent("closed-1"))
        await ledger.close()
        await ledger.close()

    ledger = Ledger(door.url, "al_key")
    asyncio.run(main(ledger))
    assert "was closed" in ask(ledger, "closed-2")


Call = Callable[[Ledger], Coroutine[Any, Any, Result]]
OTHERS: list[tuple[str, Call]] = [
    ("note:v1:acme:e-2", lambda ledger: ledger.propose(intent("e-1"))),
    ("note:v1:acme:e-1#x", lambda ledger: ledger.propose(intent("e-1"))),
    ("note:v1:acme:e-1", lambda ledger: ledger.propose(intent("e-1", item="x"))),
    ("note:v2:acme:e-1", lambda ledger: ledger.propose(intent("e-1"))),
    ("memo:v1:acme:e-1", lambda ledger: ledger.propose(intent("e-1"))),
    ("note:v1:acme:e-1~2", lambda ledger: ledger.propose(intent("e-1"))),
    (
        "note:v1:acme:e-1",
        lambda ledger: ledger.propose(intent("e-1", revises="note:v1:acme:e-1")),
    ),
    ("note:v1:acme:e-2", lambda ledger: ledger.get("note:v1:acme:e-1")),
    ("note:v1:globex:e-1", lambda ledger: ledger.wait("note:v1:acme:e-1")),
    ("note:v1:acme:e-2", lambda ledger: ledger.cancel("note:v1:acme:e-1")),
    ("note:v1:acme:e-2", lambda ledger: ledger.ask_again("note:v1:acme:e-1")),
]


@pytest.mark.parametrize(("key", "call"), OTHERS)
async def test_an_answer_about_another_action_is_nobodys_result(key: str, call: Call) -> None:
    """A proxy or a cache that mixes up answers makes nothing done that is not: neither a result
    nor a conflict of another action comes back, and a model is told that nothing is known.
    """
    said = json.dumps({"key": key, "status": "completed", "version": 5, "reference": "ch_1"})
    problem = {"title": "No.", "code": "conflicted", "hint": "Stop.", "original": {"key": key}}
    for status, text in ((200, said), (422, json.dumps(problem))):
        behind = httpx.MockTransport(lambda _, s=status, t=text: httpx.Response(s, text=t))
        async with Ledger("http://ledger", "k", transport=FlakyTransport(behind, [])) as ledger:
            with pytest.raises(UnexpectedAnswer, match="another action") as raised:
                await call(ledger)
        assert "not known whether" in raised.value.text_for_model


Asked = Callable[[Ledger], Coroutine[Any, Any, object]]
OTHER_SAGA = {"saga": "order", "business_event": "e-2", "status": "completed", "version": 5}
OTHER_RUN = {"run": "run-2", "budgets": []}
PLAN = Plan(saga="order", business_event="e-1", environment="test", steps=())
ABOUT_OTHERS: list[tuple[dict[str, Any], Asked]] = [
    (OTHER_SAGA, lambda ledger: ledger.open_saga(PLAN)),
    (OTHER_SAGA, lambda ledger: ledger.saga("e-1", "order")),
    (OTHER_SAGA, lambda ledger: ledger.cancel_saga("e-1", "order")),
    (OTHER_SAGA | {"business_event": "e-1", "saga": "x"}, lambda ledger: ledger.open_saga(PLAN)),
    (OTHER_RUN, lambda ledger: ledger.run("run-1")),
    (OTHER_RUN, lambda ledger: ledger.report_step("run-1", 1)),
]


@pytest.mark.parametrize(("said", "call"), ABOUT_OTHERS)
async def test_an_answer_about_another_saga_or_run_is_nobodys_result(
    said: dict[str, Any], call: Asked
) -> None:
    """As with actions: a saga of somebody else that is done makes none done here, and what another
    run has left is no leave to go on.
    """
    behind = httpx.MockTransport(lambda _: httpx.Response(200, json=said))
    async with Ledger("http://ledger", "k", transport=FlakyTransport(behind, [])) as ledger:
        with pytest.raises(UnexpectedAnswer, match="about another"):
            await call(ledger)


async def test_a_conflict_of_another_saga_is_nobodys() -> None:
    """Its plan was not compared with this one."""
    original = {"key": "charge:v1:acme:e-2#x~2"}
    problem = {"title": "No.", "code": "conflicted", "hint": "Stop.", "original": original}
    behind = httpx.MockTransport(lambda _: httpx.Response(422, json=problem))
    async with Ledger("http://ledger", "k", transport=FlakyTransport(behind, [])) as ledger:
        with pytest.raises(UnexpectedAnswer, match="another saga"):
            await ledger.open_saga(PLAN)
