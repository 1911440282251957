"""Whose question is put next, and that nobody waits for somebody else's provider."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ledger.core import inputs as i
from ledger.core.facts import LookupStarted
from streams.askers import Askers
from streams.inquiring import Asked, Inquiring
from streams.limits import LOOKUPS_AT_ONCE_MAX
from tests import examples as x
from tests.ledgers import LedgerBuilder
from tests.unit.test_inquiring import asked as asked_in_ledger
from tests.unit.test_inquiring import following

MANY = 40 * LOOKUPS_AT_ONCE_MAX


def question(
    number: int, *, provider: str = "well", account: str = "main", tenant: str = "acme"
) -> Asked:
    """A lookup that the ledger has asked for."""
    key = f"charge:v1:{tenant}:renewal-{number}"
    started = LookupStarted(
        action=key,
        version=3,
        lookup=1,
        attempts_upto=1,
        provider=provider,
        account=account,
        provider_key=key,
        answer_by=60_000,
    )
    return Asked(started, offset=number, epoch=1, decided_at=0)


def partition(number: int, *questions: Asked) -> Inquiring:
    """A partition in which these wait, in this order."""
    step = Inquiring(number)
    step.caught_up()
    for one in questions:
        step._ask(one)
    return step


class Clock:
    """Time by hand, in milliseconds."""

    def __init__(self) -> None:
        self.now_ms = 1_000

    def __call__(self) -> int:
        """Say what time it is."""
        return self.now_ms


class Provider:
    """Answers at once, hangs, or asks to be left alone; remembers who was asked about."""

    def __init__(self) -> None:
        self.hangs: set[str] = set()
        self.limits_ms: dict[str, int] = {}
        self.put: list[LookupStarted] = []
        self.answered: list[LookupStarted] = []
        self.askers: Askers

    async def __call__(self, followed: Inquiring, asked: Asked) -> None:
        """Put one question."""
        started = asked.started
        assert isinstance(started, LookupStarted)
        self.put.append(started)
        if started.provider in self.hangs:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        wait_ms = self.limits_ms.get(started.account)
        if wait_ms is not None:
            self.askers.pause(started.provider, started.account, wait_ms)
            followed.put_back(asked)
            return
        self.answered.append(started)
        followed.answered(asked)


@asynccontextmanager
async def asking(provider: Provider, clock: Clock) -> AsyncIterator[asyncio.TaskGroup]:
    """Askers that are let go of at the end."""
    provider.askers = Askers(provider, clock)
    async with asyncio.TaskGroup() as tasks:
        yield tasks
        provider.askers.cancel()


async def answered(provider: Provider, count: int) -> None:
    """Wait until so many have their answer, in turns of the loop: nothing here takes time."""
    for _ in range(100 * MANY):
        if len(provider.answered) >= count:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{len(provider.answered)} of {count} were answered")


async def quiet(provider: Provider) -> None:
    """Wait until nothing is put any more."""
    seen = -1
    while seen != len(provider.put):
        seen = len(provider.put)
        for _ in range(10):
            await asyncio.sleep(0)


async def test_a_provider_that_hangs_holds_up_nobody_else() -> None:
    """However many wait for a sick provider before them, all questions to a healthy one are
    answered while every one of the sick one's still hangs.
    """
    sick = [question(number, provider="sick") for number in range(MANY)]
    well = [question(number, provider="well", tenant="globex") for number in range(MANY)]
    provider = Provider()
    provider.hangs = {"sick"}
    async with asking(provider, Clock()) as tasks:
        provider.askers.begin(tasks, {0: partition(0, *sick, *well)})
        await answered(provider, MANY)
        assert {one.provider for one in provider.answered} == {"well"}
        at_work = [one for one in provider.put if one.provider == "sick"]
        assert len(at_work) == LOOKUPS_AT_ONCE_MAX


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one ask at a time, so that the order is seen."""
    monkeypatch.setattr("streams.askers.LOOKUPS_AT_ONCE_MAX", 1)


@pytest.mark.usefixtures("one_at_a_time")
async def test_tenants_take_turns_whoever_has_how_many() -> None:
    """One with a thousand questions delays one with two by two."""
    many = [question(number, tenant="acme") for number in range(10)]
    few = [question(number, tenant="globex") for number in range(2)]
    provider = Provider()
    async with asking(provider, Clock()) as tasks:
        provider.askers.begin(tasks, {0: partition(0, *many, *few)})
        await answered(provider, 12)
    tenants = [one.action.split(":")[2] for one in provider.answered]
    assert tenants[:4] == ["acme", "globex", "acme", "globex"]
    own = [one.action for one in provider.answered if ":acme:" in one.action]
    assert own == [one.started.action for one in many], "the oldest of a tenant is first"


@pytest.mark.usefixtures("one_at_a_time")
async def test_partitions_take_turns_too() -> None:
    """A partition with many questions does not keep the others' waiting."""
    full = partition(0, *(question(number) for number in range(5)))
    other = partition(3, question(100), question(101))
    provider = Provider()
    async with asking(provider, Clock()) as tasks:
        provider.askers.begin(tasks, {0: full, 3: other})
        await answered(provider, 7)
    order = [int(one.action.rpartition("-")[2]) >= 100 for one in provider.answered]
    assert order[:4] == [False, True, False, True]


@pytest.mark.usefixtures("one_at_a_time")
async def test_an_account_that_asks_for_a_pause_gets_it_and_others_go_on() -> None:
    """Retry-After: nothing more is asked of that account until then, all is asked of the others;
    afterwards the question that was turned away comes first.
    """
    limited = [question(number, account="limited") for number in range(3)]
    free = [question(number, account="free", tenant="globex") for number in range(3)]
    clock, provider = Clock(), Provider()
    provider.limits_ms = {"limited": 30_000}
    followed = {0: partition(0, *limited, *free)}
    async with asking(provider, clock) as tasks:
        provider.askers.begin(tasks, followed)
        await answered(provider, 3)
        clock.now_ms += 29_999
        provider.askers.begin(tasks, followed)
        await quiet(provider)
        assert [one.account for one in provider.put].count("limited") == 1
        assert {one.account for one in provider.answered} == {"free"}
        provider.limits_ms = {}
        clock.now_ms += 1
        provider.askers.begin(tasks, followed)
        await answered(provider, 6)
    again = [one.action for one in provider.answered if one.account == "limited"]
    assert again == [one.started.action for one in limited]


async def test_a_shorter_pause_does_not_cut_a_longer_one_short() -> None:
    """Of two answers the longer wait counts, whichever comes last."""
    clock, provider = Clock(), Provider()
    followed = {0: partition(0, question(1))}
    async with asking(provider, clock) as tasks:
        provider.askers.pause("well", "main", 10_000)
        provider.askers.pause("well", "main", 1_000)
        clock.now_ms += 9_999
        provider.askers.begin(tasks, followed)
        await quiet(provider)
        assert provider.put == []
        clock.now_ms += 1
        provider.askers.begin(tasks, followed)
        await answered(provider, 1)


def taken(builder: LedgerBuilder) -> tuple[Inquiring, Asked]:
    """A partition whose one question is at work."""
    step = following(builder)
    step.caught_up()
    (asked,) = step.take_questions(1)
    return step, asked


def test_what_is_put_back_keeps_the_position_and_is_asked_again() -> None:
    """A question that was turned away is not answered: a crash would ask it again as well."""
    builder = LedgerBuilder()
    asked_in_ledger(builder)
    step, asked = taken(builder)
    step.told(len(step.notices()))
    before = step.position
    step.put_back(asked)
    assert step.position == before
    assert step.take_questions(10) == [asked]


@pytest.mark.parametrize("meaning", [i.Meaning.EFFECT, i.Meaning.INCONCLUSIVE])
def test_what_was_answered_meanwhile_is_not_put_again(meaning: i.Meaning) -> None:
    """The action ended, or its question has an answer: whoever turned it away need not know."""
    builder = LedgerBuilder()
    asked_in_ledger(builder)
    step, asked = taken(builder)
    builder.take(x.found_out(meaning, lookup=1, source="lookup:1"))
    step.feed(builder.records()[-1])
    step.put_back(asked)
    assert step.take_questions(10) == []


def test_a_newer_question_stands_for_one_that_is_put_back() -> None:
    """The ledger asked anew while the old one was at work: only the new one is put."""
    builder = LedgerBuilder()
    asked_in_ledger(builder)
    step, asked = taken(builder)
    builder.take(x.tick(), later_ms=x.LOOKUP_ANSWER_MS + 1)
    step.feed(builder.records()[-1])
    step.put_back(asked)
    assert [one.number for one in step.take_questions(10)] == [2]
