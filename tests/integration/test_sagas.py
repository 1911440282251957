"""Sagas on real servers: through the door, and with a processor that is killed in the middle."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from actionledger import CallerMistake, Ledger, Money, Plan, PlannedAction, PlannedStep, SagaResult
from ledger.core.statement import Move
from reconciler.providers import port
from tests import asking
from tests.integration.asking_people import POLL_SECONDS, Office, office
from tests.integration.counting import CountingProvider
from tests.integration.test_reviews import case_of, hand_in, said
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

TEN = Money(minor=1_000, currency="EUR")
ITEMS = ("goods", "freight", "gift")
SAGA = "order"


class Moody(CountingProvider):
    """A provider that says definitely no to some actions, and keeps the order of the others."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses: set[str] = set()
        self.done: list[str] = []

    async def perform(
        self,
        request: port.ProviderRequest,
        *,
        provider_key: str,
        deadlines: port.Deadlines,
        before_first_byte: Callable[[], None],
    ) -> port.Outcome:
        """Refuse what is to be refused; do everything else."""
        outcome = await super().perform(
            request,
            provider_key=provider_key,
            deadlines=deadlines,
            before_first_byte=before_first_byte,
        )
        if request.action_key in self.refuses:
            return port.Refused("declined", port.Retry.NEVER)
        self.done.append(request.action_key)
        return outcome


@pytest.fixture
def provider() -> Moody:
    """Who carries it out."""
    return Moody()


@pytest.fixture
async def desk(servers: Addresses, tmp_path: Path, provider: Moody) -> AsyncIterator[Office]:
    """An installation in which nobody is asked beforehand."""
    async with office(servers, tmp_path, asking.EVERYTHING_GOES_AHEAD, provider=provider) as made:
        yield made


def order(event: str, *items: str) -> Plan:
    """Charges of one order, each undone by a refund."""
    return Plan(
        saga=SAGA,
        business_event=event,
        environment="production",
        steps=tuple(
            PlannedStep(
                operation="charge",
                item=item,
                target="order:A-1842",
                money=TEN,
                compensation=PlannedAction(
                    operation="refund", item=item, target="order:A-1842", money=TEN
                ),
            )
            for item in items or ITEMS
        ),
    )


def charge(event: str, item: str) -> str:
    """The key of a step."""
    return f"charge:v1:acme:{event}#{item}"


def refund(event: str, item: str) -> str:
    """The key of what undoes it."""
    return f"refund:v1:acme:{event}#{item}"


async def stands(ledger: Ledger, event: str, *, timeout_ms: int = 0) -> SagaResult:
    """How the saga stands."""
    result = await ledger.saga(event, SAGA, timeout_ms=timeout_ms)
    assert isinstance(result, SagaResult)
    return result


async def opened(ledger: Ledger, plan: Plan) -> SagaResult:
    """Open it, without waiting."""
    result = await ledger.open_saga(plan, wait_ms=0)
    assert isinstance(result, SagaResult)
    return result


async def test_a_saga_is_carried_out_undone_and_settled_through_the_door(
    desk: Office, provider: Moody
) -> None:
    """The third charge is declined, the second refund too: a person takes that over under their
    signature, and the first is undone; what the list, the batch and the read model say is the same.
    """
    event = "order-1"
    provider.refuses = {charge(event, "gift"), refund(event, "freight")}
    async with desk.door.ledger() as ledger:
        assert (await opened(ledger, order(event))).status == "running"
        stuck = await stands(ledger, event, timeout_ms=PATIENCE_MS)
        assert stuck.status == "stuck"
        assert stuck.cases == (refund(event, "freight"),)
        assert provider.done == [charge(event, "goods"), charge(event, "freight")]
        sheet = await case_of(desk, quote(refund(event, "freight"), safe=":~"))
        assert [one.move for one in sheet.moves] == [Move.ACKNOWLEDGE]
        answer = await hand_in(desk, said(sheet, Move.ACKNOWLEDGE))
        assert answer.is_success, answer.text
        result = await stands(ledger, event, timeout_ms=PATIENCE_MS)
        assert result.status == "compensated"
        assert [one.undone for one in result.steps] == ["done", "by_a_person", "not_needed"]
        assert provider.done[2:] == [refund(event, "goods")]
        again = await opened(ledger, order(event))
        assert (again.replayed, again.version) == (True, result.version)
        with pytest.raises(CallerMistake) as refused:
            await ledger.saga("order-of-nobody", SAGA)
        assert refused.value.code == "unknown_saga"
    await _is_listed(desk, event, "compensated")
    globex = await desk.door.get(f"/v1/sagas/{event}/{SAGA}", tenant="globex")
    assert globex.json()["code"] == "unknown_saga"


async def _is_listed(desk: Office, event: str, status: str) -> None:
    """The read model comes to say so too."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            listed = (await desk.door.get("/v1/sagas")).json()["sagas"]
            if [(one["business_event"], one["status"]) for one in listed] == [(event, status)]:
                return
            await asyncio.sleep(POLL_SECONDS)


async def test_a_batch_is_independent_actions_with_a_view(desk: Office, provider: Moody) -> None:
    """One of three is declined, and that is nobody else's affair."""
    provider.refuses = {"charge:v1:acme:batch-2"}
    for number in range(1, 4):
        body = {
            "operation": "charge",
            "version": 1,
            "business_event": f"batch-{number}",
            "target": f"order:A-{number}",
            "money": {"minor": 1_000, "currency": "EUR"},
            "environment": "production",
            "batch": "reminders",
        }
        assert (await desk.door.propose(body)).status_code == 201
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            answer = await desk.door.get("/v1/batches/reminders")
            if answer.is_success and answer.json()["by_status"] == {"completed": 2, "failed": 1}:
                break
            await asyncio.sleep(POLL_SECONDS)
    assert len(answer.json()["actions"]) == 3
    assert (await desk.door.get("/v1/batches/nothing")).status_code == 404


async def test_a_processor_that_is_killed_in_the_middle_changes_nothing(
    desk: Office, provider: Moody
) -> None:
    """It is killed while a step is at the provider, and again while an undo is: another one goes on
    from the log, and everything happens once.
    """
    event = "order-2"
    provider.refuses = {charge(event, "gift")}
    async with desk.door.ledger() as ledger:
        for held in (charge(event, "freight"), refund(event, "freight")):
            provider.waits_for = {held}
            provider.may_answer.clear()
            if not held.startswith("refund"):
                await opened(ledger, order(event))
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not provider.calls[held]:
                    await asyncio.sleep(POLL_SECONDS)
            await desk.door.one.crash(0)
            next_held = refund(event, "freight") if held.startswith("charge") else None
            provider.may_answer.set()
            if next_held is not None:
                provider.waits_for = {next_held}
                provider.may_answer.clear()
            await desk.door.one.processor()
            desk.door.one.tasks.insert(0, desk.door.one.tasks.pop())
        provider.may_answer.set()
        result = await stands(ledger, event, timeout_ms=PATIENCE_MS)
    assert result.status == "compensated"
    assert set(provider.calls.values()) == {1}
    assert provider.done == [
        charge(event, "goods"),
        charge(event, "freight"),
        refund(event, "freight"),
        refund(event, "goods"),
    ]
