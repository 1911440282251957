"""Evidence in the tables: a case shows every piece, and who broke a promise is listed."""

from collections.abc import AsyncIterator
from dataclasses import replace

import asyncpg
import pytest

from gateway.http.cases import case_sheet_of, evidence_of
from gateway.signing_case import check_case
from ledger.core import inputs as i
from ledger.core.money import Money
from ledger.core.statement import Move
from ledger.log.published import Published
from projections.limits import ROWS_READ_MAX
from projections.queries import Queries
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


def given_back() -> i.Evidence:
    """A line of a settlement file: part of the charge was given back."""
    said = x.found_out(i.Meaning.REVERSED, lookup=None, source="settlement:po_1/7")
    return said.model_copy(
        update={
            "kind": i.EvidenceKind.SETTLEMENT,
            "reference": "dp_1",
            "reverses": x.REFERENCE,
            "money": Money(minor=1_200, currency="EUR"),
            "occurred_at": x.T0 - 9_000,
            "raw_sha256": "cd" * 32,
        }
    )


async def test_a_case_shows_every_piece_and_names_both_amounts(pool: asyncpg.Pool) -> None:
    """What answered, what a webhook said against it, and what a settlement file adds: each with its
    source, amount, time and the hash of its bytes; and every reason for which the case is open.
    """
    builder = LedgerBuilder()
    builder.take(x.propose())
    builder.take(x.report(x.success()))
    other = x.found_out(i.Meaning.EFFECT, lookup=None, money=x.EUR_499)
    builder.take(other.model_copy(update={"raw_sha256": "ab" * 32}))
    builder.take(given_back())
    await project(pool, builder)
    queries = Queries(pool)
    case = await queries.case_sheet("acme", x.CHARGE)
    assert case is not None
    assert case.action.status == "completed"
    pieces = list(evidence_of(case.events))
    assert [(one.kind, one.meaning, one.amount) for one in pieces] == [
        ("response", "effect", None),
        ("webhook", "effect", "499.00 EUR"),
        ("settlement", "reversed", "12.00 EUR"),
    ]
    line = pieces[-1]
    assert (line.reference, line.reverses, line.occurred_at) == (
        "dp_1",
        x.REFERENCE,
        x.T0 - 9_000,
    )
    assert [one.raw_sha256 for one in pieces] == [None, "ab" * 32, "cd" * 32]
    rows = await pool.fetch(
        "select reason, names, is_open from actionledger_api_v1.review_cases order by version"
    )
    assert [tuple(row) for row in rows] == [
        ("amount_differs", None, True),
        ("reversed_elsewhere", "12.00 EUR of 49.90 EUR: dp_1", True),
    ]
    known = await queries.actions_by_reference("main", "dp_1")
    assert known == ()


async def test_who_has_two_effects_under_one_key_is_listed(pool: asyncpg.Pool) -> None:
    """By provider, account and operation, each action once; who promised nothing is not."""
    builder = LedgerBuilder()
    for event in ("one", "two"):
        key = f"charge:v1:acme:{event}"
        builder.take(x.propose(key))
        builder.take(x.report(x.success("ch_1"), key=key))
        for name in ("ch_2", "ch_3"):
            said = x.found_out(i.Meaning.EFFECT, key=key, lookup=None, reference=name, source=name)
            builder.take(said)
    builder.take(x.propose(x.EMAIL))
    builder.take(x.report(x.success("m_1"), key=x.EMAIL))
    builder.take(x.found_out(i.Meaning.EFFECT, key=x.EMAIL, lookup=None, reference="m_2"))
    await project(pool, builder)
    rows = await pool.fetch(
        "select provider, account, operation, promise, actions"
        " from actionledger_api_v1.broken_promises"
    )
    assert [tuple(row) for row in rows] == [("simulated", "main", "charge", "keys", 2)]


async def test_who_took_note_of_an_alarm_settled_nothing_before_it(pool: asyncpg.Pool) -> None:
    """What evidence has settled bears nobody's name, whoever signs about a later case."""
    builder = LedgerBuilder(
        config=replace(ASKED, policy=asking.policy(asking.EVERYTHING_GOES_AHEAD))
    )
    builder.take(x.propose(x.EMAIL))
    builder.take(x.report(x.no_answer(), key=x.EMAIL))
    for name in ("m_1", "m_2"):
        said = x.found_out(
            i.Meaning.EFFECT, key=x.EMAIL, lookup=None, reference=name, source=f"webhook:{name}"
        )
        builder.take(said)
    action = builder.streams[x.STREAM].action(x.EMAIL)
    assert action is not None
    at, ledger = builder.decided_at(x.STREAM), builder.generation
    note = asking.judge(asking.resolution(action, "ada", Move.ACKNOWLEDGE, ledger=ledger, at=at))
    builder.take(asking.judged(note, builder.config.people, at=at, ledger=ledger))
    await project(pool, builder)
    rows = await pool.fetch(
        "select kind, reason, is_open, move, person from actionledger_api_v1.review_cases"
        " order by version"
    )
    assert [tuple(row) for row in rows] == [
        ("review", "no_way_to_find_out", False, None, None),
        ("alarm", "second_effect", False, "acknowledge", "ada"),
    ]


async def test_an_action_of_any_number_of_facts_is_what_all_of_them_make(
    pool: asyncpg.Pool,
) -> None:
    """A provider that tells of a thousand steps hides neither how the action stands nor its case:
    who settles it is shown all that is known, and a page says that it does not show all.
    """
    builder = LedgerBuilder()
    builder.take(x.propose())
    builder.take(x.report(x.no_answer()))
    for number in range(ROWS_READ_MAX):
        source = f"webhook:{number}"
        builder.take(x.found_out(i.Meaning.PENDING, lookup=None, source=source))
    for name in (x.REFERENCE, "ch_2"):
        said = x.found_out(i.Meaning.EFFECT, lookup=None, reference=name, source=f"webhook:{name}")
        builder.take(said)
    await project(pool, builder)
    known = builder.streams[x.STREAM].action(x.CHARGE)
    assert known is not None
    assert known.case is not None
    queries = Queries(pool)
    case = await queries.case_sheet("acme", x.CHARGE)
    assert case is not None
    assert case.action == known
    assert (len(case.events), case.is_whole) == (known.version, True)
    check_case(case_sheet_of(case, Published(), ledger="g", now_ms=x.T0, you="ada"))
    page = await queries.case_sheet("acme", x.CHARGE, limit=ROWS_READ_MAX)
    assert page is not None
    assert page.action == known
    assert (len(page.events), page.is_whole) == (ROWS_READ_MAX, False)
