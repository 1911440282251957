"""What the read model says of people: who is asked about what, and what they have signed."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from ledger.core import inputs as i
from ledger.core.state import Action
from ledger.core.statement import Say
from projections.queries import Queries
from projections.views import ALL, WaitingView
from tests import asking
from tests import examples as x
from tests.ledgers import ASKED, LedgerBuilder
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


async def test_an_action_is_read_whole(pool: asyncpg.Pool) -> None:
    """What people sign is folded from the stored facts: the very state that the log leads to."""
    builder = LedgerBuilder(config=ASKED)
    builder.take(x.propose(x.PAYOUT))
    builder.take(x.propose(x.NOTE))
    await project(pool, builder)
    queries = Queries(pool)
    assert await queries.recorded("acme", x.PAYOUT) == _action(builder, x.PAYOUT)
    assert await queries.recorded("acme", x.NOTE) == _action(builder, x.NOTE)
    assert await queries.recorded("globex", x.PAYOUT) is None
    assert await queries.recorded("acme", "payout:v1:acme:nobody-asked") is None


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


async def _waiting(pool: asyncpg.Pool, builder: LedgerBuilder) -> tuple[WaitingView, ...]:
    await project(pool, builder)
    return await Queries(pool).waiting(ALL)
