"""What the read model says of people: who is asked about what, and what they have signed."""

from collections.abc import AsyncIterator

import asyncpg
import httpx
import pytest
from fastapi import FastAPI

from gateway.console.app import Console, add_console
from gateway.console.limits import WAITING_ROWS_MAX
from gateway.console.reading import ConsoleReading
from gateway.console.site_file import Site
from gateway.orphans import NoOrphans
from gateway.passkeys import PasskeyLinks
from ledger.client.client import Answer
from ledger.core import inputs as i
from ledger.core.state import Action
from ledger.core.statement import Say
from ledger.log.published import Published
from projections.queries import Queries
from projections.query_rows import ALL, WaitingRow
from reconciler.windows import read_live
from tests import asking
from tests import examples as x
from tests.ledgers import ASKED, LedgerBuilder
from tests.passkeys import ORIGIN
from tests.projecting import project, projected

pytestmark = pytest.mark.servers


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    """A pool on a migrated database."""
    async with projected(database_url) as made:
        yield made


def _said(builder: LedgerBuilder, key: str, who: str, say: Say = Say.APPROVE) -> None:
    """A person signs what they are asked about an action."""
    stream = "/".join(key.split(":")[2:])
    at = builder.decided_at(stream)
    said = asking.statement(_action(builder, key), who, say, ledger=builder.generation, at=at)
    people = builder.config.people
    builder.take(asking.judged(asking.judge(said), people, at=at, ledger=builder.generation))


def _action(builder: LedgerBuilder, key: str) -> Action:
    action = builder.streams["/".join(key.split(":")[2:])].action(key)
    assert action is not None
    return action


async def test_who_was_asked_longest_ago_comes_first(pool: asyncpg.Pool) -> None:
    """What waits is told with everything a list of it shows, and only to whose it is."""
    builder = LedgerBuilder(config=ASKED)
    keys = ["note:v1:acme:late", "payout:v1:globex:later", "payout:v1:acme:last"]
    for key in keys:
        builder.take(x.propose(key), later_ms=1_000)
    builder.take(x.propose("ticket:v1:acme:goes-ahead"))
    _said(builder, keys[0], "ada")
    await project(pool, builder)
    queries = Queries(pool)
    assert [one.action_key for one in await queries.waiting(ALL)] == keys
    assert [one.action_key for one in await queries.waiting(["acme"])] == [keys[0], keys[2]]
    assert [one.action_key for one in await queries.waiting(["acme", "globex"])] == keys
    assert [one.action_key for one in await queries.waiting(["*"])] == keys
    assert await queries.waiting([]) == ()
    (first, *_) = await queries.waiting(ALL, limit=1)
    asked = _action(builder, keys[0]).approval
    assert asked is not None
    assert (first.round, first.nonce, first.expires_at) == (1, asked.nonce, asked.expires_at)
    assert (first.quorum, first.granted, first.granted_by) == (2, 1, ("ada",))
    assert first.preview is not None
    assert first.preview["request_hash"] == _action(builder, keys[0]).request_hash
    assert first.preview_hash == asked.preview_hash


async def test_what_can_be_decided_is_seen_beside_any_number_that_ran_out(
    pool: asyncpg.Pool,
) -> None:
    """What ran out waits for as long as nobody asks again. Two hundred of them fill a list: what is
    newer than all of them, and has half a minute, stands in it all the same.
    """
    builder = LedgerBuilder(config=ASKED)
    over = [f"note:v1:acme:over-{number:03}" for number in range(WAITING_ROWS_MAX + 1)]
    for key in over:
        builder.take(x.propose(key))
    for number, key in enumerate(over):
        builder.take(x.tick("/".join(key.split(":")[2:])), later_ms=0 if number else 31_000)
    now = "note:v1:acme:now"
    builder.take(x.propose(now))
    await project(pool, builder)
    queries = Queries(pool)
    first, second = await queries.waiting(ALL, limit=2)
    assert (first.action_key, first.ended) == (now, None)
    assert (second.action_key, second.ended) == (over[0], "expired")
    page = await waiting_page(pool, builder)
    assert page.index(over[0]) < page.index(now)
    assert page.count("<tr class=") == WAITING_ROWS_MAX
    assert "More wait than are shown here" in page


async def waiting_page(pool: asyncpg.Pool, builder: LedgerBuilder) -> str:
    """What ada sees of what waits, in the moment of the newest decision."""
    published = Published(people=builder.config.people)
    reading = ConsoleReading(
        Queries(pool),
        Unasked(),
        PasskeyLinks(pool),
        lambda: published,
        generation=builder.generation,
        live=lambda now_ms: read_live(pool, now_ms=now_ms),
        orphans=NoOrphans(),
    )
    console = Console(reading, Site(ORIGIN, b"s" * 32), lambda: builder.decided_at(x.STREAM))
    person = builder.config.people.person("ada")
    assert person is not None
    _, cookie = console.seals.session("ada", person.keys[0].id, now_ms=console.wall_clock_ms())
    app = FastAPI()
    add_console(app, console)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as http:
        answer = await http.get(
            "/console/waiting", headers={"Cookie": f"{console.cookie}={cookie}"}
        )
    assert answer.status_code == 200
    return answer.text


class Unasked:
    """A log that nobody hands anything in to."""

    async def judge(self, given: i.Judge, *, timeout_ms: int) -> Answer:
        """Nobody does."""
        raise AssertionError(given, timeout_ms)

    async def ask_again(self, given: i.AskAgain, *, timeout_ms: int) -> Answer:
        """Nobody does."""
        raise AssertionError(given, timeout_ms)


async def test_an_action_is_read_whole(pool: asyncpg.Pool) -> None:
    """What people sign is folded from the stored facts: the very state that the log leads to."""
    builder = LedgerBuilder(config=ASKED)
    builder.take(x.propose(x.PAYOUT))
    builder.take(x.propose(x.NOTE))
    await project(pool, builder)
    queries = Queries(pool)
    for key in (x.PAYOUT, x.NOTE):
        found = await queries.case_sheet("acme", key)
        assert found is not None
        assert (found.action, found.is_whole) == (_action(builder, key), True)
    assert await queries.case_sheet("globex", x.PAYOUT) is None
    assert await queries.case_sheet("acme", "payout:v1:acme:nobody-asked") is None


async def test_every_round_and_every_signature_has_a_row(pool: asyncpg.Pool) -> None:
    """Asked, expired, asked again, granted, taken back, denied: nothing of it is overwritten."""
    builder = LedgerBuilder(config=ASKED)
    builder.take(x.propose(x.NOTE))
    builder.take(x.tick(x.STREAM), later_ms=60_000)
    builder.take(i.AskAgain(key=x.NOTE, principal="agent:billing"), later_ms=1_000)
    _said(builder, x.NOTE, "ada")
    _said(builder, x.NOTE, "ada", Say.WITHDRAW)
    (waiting,) = await _waiting(pool, builder)
    assert (waiting.round, waiting.granted, waiting.granted_by) == (2, 0, ())
    _said(builder, x.NOTE, "ben", Say.DENY)
    assert await _waiting(pool, builder) == ()
    queries = Queries(pool)
    said = [(one.round, one.decision, one.person) for one in await queries.signed("acme", x.NOTE)]
    assert said == [(2, "approve", "ada"), (2, "withdraw", "ada"), (2, "deny", "ben")]
    rows = await pool.fetch(
        "select round, ended, granted from actionledger.approvals order by round"
    )
    assert [tuple(row) for row in rows] == [(1, "expired", 0), (2, "denied", 0)]
    told = await pool.fetch("select outcome from actionledger_api_v1.approvals order by round")
    assert [row["outcome"] for row in told] == ["expired", "denied"]


async def test_an_action_says_what_is_asked(pool: asyncpg.Pool) -> None:
    """How an action stands has what its caller is told: until when, how many, and how far."""
    builder = LedgerBuilder(config=ASKED)
    builder.take(x.propose(x.NOTE))
    _said(builder, x.NOTE, "cyd")
    await project(pool, builder)
    view = await Queries(pool).action("acme", x.NOTE)
    asked = _action(builder, x.NOTE).approval
    assert view is not None
    assert asked is not None
    assert view.approval == {
        "round": 1,
        "expires_at": asked.expires_at,
        "quorum": 2,
        "granted": 1,
        "groups": [],
        "ended": None,
    }
    assert view.step_deadline_at == _action(builder, x.NOTE).step_deadline_at


async def test_a_deadline_that_people_put_off_is_told(pool: asyncpg.Pool) -> None:
    """The step's deadline begins with the last grant, and the row says so."""
    builder = LedgerBuilder(config=ASKED)
    builder.take(x.propose(x.PAYOUT), executor=None)
    await project(pool, builder)
    before = await Queries(pool).action("acme", x.PAYOUT)
    _said(builder, x.PAYOUT, "ada")
    await project(pool, builder)
    after = await Queries(pool).action("acme", x.PAYOUT)
    assert before is not None
    assert after is not None
    assert after.step_deadline_at == _action(builder, x.PAYOUT).step_deadline_at
    assert after.step_deadline_at < before.step_deadline_at


async def _waiting(pool: asyncpg.Pool, builder: LedgerBuilder) -> tuple[WaitingRow, ...]:
    await project(pool, builder)
    return await Queries(pool).waiting(ALL)
