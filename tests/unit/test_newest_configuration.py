"""Nobody is refused by a document that is not the newest: what was published before counts."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest

from gateway.http.app import create_app
from gateway.http.codes import Code
from gateway.http.doors import Doors, Instance
from gateway.http.problems import No
from gateway.http.seeing import may_ask, may_see
from gateway.keys import Caller, KeyFile, Role, create_key
from gateway.settings import Settings
from gateway.webhook_secrets import SecretsFile, rotate_secret
from gateway.wiring.publishing import default_catalogue
from ledger.client.published import PublishedFollower
from ledger.core.catalogue import Catalogue, parse_catalogue
from ledger.core.inputs import Publish
from ledger.log.envelope import outgoing
from ledger.log.port import Record
from ledger.log.published import CONFIG_PLACE, Published
from ledger.log.trouble import LogUnreachableError
from tests.doors import doors_over

if TYPE_CHECKING:
    from ledger.log.kafka import KafkaLog

OPEN = default_catalogue()
AGENT = Caller("0" * 16, "acme", "agent:new", Role.AGENT)


def catalogue(*, allows: str) -> Catalogue:
    """The shipped one, with refunds for some principals only."""
    head, refund, rest = OPEN.partition('name = "refund"')
    changed = rest.replace('principals = ["*"]', f'principals = ["{allows}"]', 1)
    read = parse_catalogue(head + refund + changed)
    assert isinstance(read, Catalogue), read
    return read


@dataclass
class Door:
    """A door that has not read yet what was published last."""

    answers: bool = True
    known: Published = field(default_factory=Published)
    asked: int = 0

    def __post_init__(self) -> None:
        self.known.catalogue = catalogue(allows="agent:other")

    async def catch_up(self) -> bool:
        """Read it, where the log answers."""
        self.asked += 1
        if self.answers:
            self.known.catalogue = catalogue(allows="agent:*")
        return self.answers

    def doors(self) -> Doors:
        """The doors over it."""
        return doors_over(self, lambda: self.known, catch_up=self.catch_up)


@dataclass(frozen=True)
class Row:
    """An action as far as lists ask."""

    action_key: str


ROWS = cast("Any", [Row("refund:v1:acme:a"), Row("charge:v1:acme:a")])


async def test_an_agent_is_not_refused_by_the_catalogue_before_the_newest() -> None:
    """The one that allows it was published: a door that is behind reads it before it says no."""
    door = Door()
    assert await may_ask(door.doors(), AGENT, "refund") is True
    assert door.asked == 1
    assert await may_ask(door.doors(), AGENT, "refund", "charge") is True
    assert door.asked == 1, "a yes asks nobody"
    door = Door()
    assert await may_see(door.doors(), AGENT, ROWS) == ROWS
    door.known.catalogue = catalogue(allows="agent:other")
    assert await may_see(door.doors(), AGENT, ROWS[1:]) == ROWS[1:]
    assert door.asked == 1


async def test_where_the_log_does_not_answer_the_refusal_says_so() -> None:
    """It is not known whether there is a newer one: that is one to try again, not a no."""
    door = Door(answers=False)
    said = await may_ask(door.doors(), AGENT, "refund")
    assert isinstance(said, No)
    assert said.code is Code.NOT_READY
    assert said.response().status_code == 503
    # A list is no refusal: what is known to be allowed is shown without the log.
    assert await may_see(door.doors(), AGENT, ROWS) == ROWS[1:]


async def test_it_holds_over_http(tmp_path: Path) -> None:
    """A log that is away is answered as such where the catalogue at hand would refuse."""
    file = tmp_path / "keys.toml"
    key = create_key(file, tenant="acme", principal="agent:new", role=Role.AGENT)
    door, nobody = Door(answers=False), cast("Any", None)
    instance = Instance("g", lambda: door.known, catch_up=door.catch_up)
    app = create_app(nobody, nobody, nobody, KeyFile(file), Settings.from_environment({}), instance)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://door") as http:
        answer = await http.get(
            "/v1/actions/refund:v1:acme:a", headers={"authorization": f"Bearer {key}"}
        )
        assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")
        assert answer.json()["problems"][0]["code"] == "log"
        person = await http.get("/v1/approvals", headers={"authorization": "Login nonsense"})
        assert (person.status_code, person.json()["code"]) == (401, "login_invalid")
    assert door.asked == 1, "what no document can change asks nobody"


# --- following ----------------------------------------------------------------------------------


def published(offset: int) -> Record:
    """A decision table of its own, as a record of the config topic."""
    text = f'[[row]]\nname = "r{offset}"\noutcome = "automatic"\nreason = "It is row {offset}."\n'
    given = Publish(kind="policy", content=text, content_hash="0" * 64)
    made = outgoing(given, stream="policy", subject=None, event_id="e", source="/test")
    return Record(*CONFIG_PLACE, offset, 0, made.key, made.value, made.headers)


@dataclass
class SlowLog:
    """A config topic that its readers see late: what is there, and what they may read."""

    records: list[Record] = field(default_factory=list)
    readable: asyncio.Event = field(default_factory=asyncio.Event)
    questions: int = 0
    is_away: bool = False
    answering: asyncio.Event = field(default_factory=asyncio.Event)

    async def reader(self, places: Mapping[tuple[str, int], int]) -> "SlowReader":
        """One that begins at the beginning."""
        return SlowReader(self)


@dataclass
class SlowReader:
    """Reads what is there once it may."""

    log: SlowLog
    at: int = 0

    async def read(self, *, timeout_ms: int) -> list[Record]:
        """What is new, once it may be read."""
        await self.log.readable.wait()
        await asyncio.sleep(0)
        found = self.log.records[self.at :]
        self.at += len(found)
        return found

    async def position(self, topic: str, partition: int) -> int:
        """Where it stands."""
        return self.at

    async def end_offsets(self, places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """How many there are when the question is answered."""
        self.log.questions += 1
        if self.log.is_away:
            raise LogUnreachableError("away", hint="wait")
        end = len(self.log.records)
        await self.log.answering.wait()
        return dict.fromkeys(places, end)

    async def close(self) -> None:
        """Nothing is held."""


async def turns() -> None:
    """Give every task that can run its turn."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_catching_up_waits_for_all_that_was_published_before() -> None:
    """Also for what came while another question was on its way; for many, two questions."""
    log = SlowLog()
    log.answering.set()
    async with PublishedFollower(cast("KafkaLog", log), on_failure=print) as follower:
        asked_at_start = log.questions
        assert await follower.catch_up()
        log.answering.clear()
        early = asyncio.create_task(follower.catch_up())
        await turns()
        log.records.append(published(0))
        late = [asyncio.create_task(follower.catch_up()) for _ in range(5)]
        await turns()
        log.answering.set()
        assert await early
        await turns()
        assert not any(one.done() for one in late)
        assert log.questions - asked_at_start == 3
        log.readable.set()
        assert all(await asyncio.gather(*late))
        assert follower.now().next_offset == 1


async def test_a_question_that_failed_answers_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Who waited behind it asks again; without an answer nothing is claimed."""
    log = SlowLog()
    log.answering.set()
    with caplog.at_level(logging.WARNING):
        async with PublishedFollower(cast("KafkaLog", log), on_failure=print) as follower:
            log.is_away = True
            assert await asyncio.gather(*(follower.catch_up() for _ in range(3))) == [False] * 3
            log.is_away = False
            assert await follower.catch_up()
    told = [one for one in caplog.records if one.message == "configuration_not_caught_up"]
    assert len(told) == 3


# --- files --------------------------------------------------------------------------------------


def test_a_key_and_a_secret_count_from_the_moment_they_stand_in_their_files(
    tmp_path: Path,
) -> None:
    """Whoever was just given one is not refused until the door happens to look again."""
    keys, secrets = tmp_path / "keys.toml", tmp_path / "secrets.toml"
    rotate_secret(secrets, "simulated", "main", keep_ms=0)
    door = KeyFile(keys, clock_s=lambda: 0.0)
    watched = SecretsFile(secrets, clock_s=lambda: 0.0)
    key = create_key(keys, tenant="acme", principal="agent:new", role=Role.AGENT)
    caller = door.caller(key)
    assert isinstance(caller, Caller)
    assert caller.principal == "agent:new"
    assert door.caller(key[:-1] + ("A" if key[-1] != "A" else "B")) is None
    assert not watched.has_changed()
    made = rotate_secret(secrets, "simulated", "main", keep_ms=1_000)
    assert watched.has_changed()
    assert watched.live("simulated", "main", 0)[0] == made
