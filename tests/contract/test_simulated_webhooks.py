"""What the simulated provider tells by webhook, true or not, before a strict receiver."""

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from reconciler.providers.port import MappedWebhook, Succeeded, Unrecognised
from reconciler.providers.registry import ProviderSettings, webhook_mappings
from reconciler.providers.simulated.mapping import SimulatedMapping
from reconciler.webhooks import Verified, WebhookProblem, WebhookRejected, verify
from tests.contract.calls import Call, eventually, now_ms, performing
from tests.contract.stage import EXAMPLE, Behaviour, ProviderProcess, SimulatedStage

DESCRIBED = webhook_mappings([ProviderSettings("one", "http", adapter_file=EXAMPLE)])["one"]
SECRET = "whsec_c2VjcmV0IG9mIHRoZSBzaW11bGF0ZWQgcHJvdmlkZXI="


@dataclass(slots=True)
class Receiver:
    """A door that takes webhooks as they come, and answers as it is told."""

    url: str = ""
    received: list[tuple[bytes, Mapping[str, str], Verified | WebhookRejected]] = field(
        default_factory=list
    )
    accounts: list[str] = field(default_factory=list)
    refusals_left: int = 0

    async def take(self, request: web.Request) -> web.Response:
        """Verify one webhook over its raw bytes."""
        raw = await request.read()
        self.accounts.append(request.query["account"])
        verdict = verify(raw, request.headers, [SECRET], now_ms())
        self.received.append((raw, dict(request.headers), verdict))
        if self.refusals_left > 0:
            self.refusals_left -= 1
            return web.Response(status=503)
        return web.Response(status=202 if isinstance(verdict, Verified) else 401)

    @property
    def events(self) -> list[MappedWebhook]:
        """What the believed ones mean, in order of arrival."""
        believed = [raw for raw, _, verdict in self.received if isinstance(verdict, Verified)]
        mapped = [SimulatedMapping().map(raw) for raw in believed]
        described = [_without_composite(DESCRIBED.map(raw)) for raw in believed]
        assert mapped == described, "both adapters read the same"
        assert all(isinstance(one, MappedWebhook) for one in mapped)
        return [one for one in mapped if isinstance(one, MappedWebhook)]


def _without_composite(mapped: MappedWebhook | Unrecognised) -> MappedWebhook | Unrecognised:
    """What the example declares and the kind of adapter that knows our keys needs not."""
    if isinstance(mapped, Unrecognised):
        return mapped
    assert mapped.about is not None
    return dataclasses.replace(mapped, about=None)


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderProcess]:
    """Run one provider for this module."""
    process = ProviderProcess(tmp_path_factory.mktemp("hooks"), "--webhook-retry-ms", "40")
    process.start()
    yield process
    process.stop()


@pytest.fixture
async def receiver(process: ProviderProcess) -> AsyncIterator[Receiver]:
    """Run a receiver, and let the provider start over and send to it."""
    receiver = Receiver()
    app = web.Application()
    app.add_routes([web.post("/hooks", receiver.take)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hooks?account={{account}}"
    process.control("reset", {})
    process.control("webhooks", {"url": receiver.url, "secret": SECRET})
    yield receiver
    process.control("webhooks", {"url": None, "secret": None})
    await runner.cleanup()


async def performed(process: ProviderProcess, *steps: str, **fields: object) -> tuple[Call, object]:
    """Perform one action whose webhooks go through these steps."""
    stage = SimulatedStage(process)
    call = Call.on(stage)
    webhooks = [{"kind": step, **fields} for step in steps]
    script = {"match": {"action_key": call.action_key}, "webhooks": webhooks}
    process.control("script", {"scripts": [script]})
    async with performing(stage) as performer:
        return call, await call.perform(performer)


async def test_a_settled_effect_is_told_with_all_that_matching_needs(
    process: ProviderProcess, receiver: Receiver
) -> None:
    """The normal webhook carries marker, reference, key, account and amount."""
    stage = SimulatedStage(process)
    call = Call.on(stage)
    async with performing(stage) as performer:
        outcome = await call.perform(performer)
    await eventually(lambda: len(receiver.events) == 1)
    [event] = receiver.events
    assert isinstance(outcome, Succeeded)
    assert (event.meaning, event.effect) == ("final", "exists")
    assert event.reference == outcome.reference
    assert event.action_key == event.provider_key == call.action_key
    assert event.account == call.account
    assert receiver.accounts == [call.account], "each account may have its own door"
    assert event.money == call.request.money


@pytest.mark.case("C071")
async def test_c071_the_signed_bytes_are_the_sent_bytes(
    process: ProviderProcess, receiver: Receiver
) -> None:
    """C071: an event with text beyond ASCII is verified by a strict receiver as it arrives."""
    await performed(process, "normal")
    await eventually(lambda: len(receiver.received) == 1)
    [(raw, _, verdict)] = receiver.received
    assert "Zoë, 東京".encode() in raw
    assert isinstance(verdict, Verified)


async def test_a_refused_request_is_told_as_no_effect(
    process: ProviderProcess, receiver: Receiver
) -> None:
    """A refusal has a webhook of its own, without a reference."""
    stage = SimulatedStage(process)
    call = Call.on(stage)
    stage.script(call.action_key, "refuse")
    async with performing(stage) as performer:
        await call.perform(performer)
    await eventually(lambda: len(receiver.events) == 1)
    [event] = receiver.events
    assert (event.meaning, event.effect, event.reference) == ("final", "none", None)
    assert event.action_key == call.action_key


async def test_twice_is_the_same_event_two_times(
    process: ProviderProcess, receiver: Receiver
) -> None:
    """A repeated delivery keeps its event id and its bytes."""
    await performed(process, "twice")
    await eventually(lambda: len(receiver.events) == 2)
    first, second = receiver.events
    assert first.event_id == second.event_id
    assert receiver.received[0][0] == receiver.received[1][0]


async def test_early_is_before_the_answer(process: ProviderProcess, receiver: Receiver) -> None:
    """The webhook is here by the time the caller has its answer."""
    await performed(process, "early")
    assert [event.effect for event in receiver.events] == ["exists"]


async def test_late_is_after_its_delay(process: ProviderProcess, receiver: Receiver) -> None:
    """A late webhook comes when its time has come, and not before."""
    started = time.monotonic()
    await performed(process, "late", delay_ms=300)
    await eventually(lambda: len(receiver.events) == 1)
    assert time.monotonic() - started >= 0.3


async def test_out_of_order_settles_before_it_is_pending(
    process: ProviderProcess, receiver: Receiver
) -> None:
    """The event that should come last comes first."""
    await performed(process, "out_of_order")
    await eventually(lambda: len(receiver.events) == 2)
    assert [event.effect for event in receiver.events] == ["exists", "pending"]


async def test_an_account_can_tell_of_pending_first(
    process: ProviderProcess, receiver: Receiver
) -> None:
    """Where effects settle later, the events come in the order of what they tell."""
    stage = SimulatedStage(process)
    call = Call.on(stage)
    personality = {"account": call.account, "personality": {"settlement": "pending_first"}}
    process.control("personality", personality)
    async with performing(stage) as performer:
        await call.perform(performer)
    await eventually(lambda: len(receiver.events) == 2)
    assert [event.effect for event in receiver.events] == ["pending", "exists"]


async def test_a_forged_one_is_not_believed(process: ProviderProcess, receiver: Receiver) -> None:
    """The forgery is refused for its signature, not repeated, and holds up no true one."""
    await performed(process, "forged", "normal")
    await eventually(lambda: len(receiver.received) == 2)
    (_, _, forged), (_, _, genuine) = receiver.received
    assert forged == WebhookRejected(WebhookProblem.SIGNATURE_MISMATCH)
    assert isinstance(genuine, Verified)


async def test_a_wrong_amount_is_signed_well(process: ProviderProcess, receiver: Receiver) -> None:
    """A webhook can be genuine and tell another amount: matching has to notice, not the door."""
    call, _ = await performed(process, "wrong_amount")
    await eventually(lambda: len(receiver.events) == 1)
    [event] = receiver.events
    assert event.money != call.request.money


async def test_nothing_is_told_when_the_plan_is_empty(
    process: ProviderProcess, receiver: Receiver
) -> None:
    """A lost webhook is one that never comes: after the next one it is still missing."""
    silent, _ = await performed(process)
    told, _ = await performed(process, "normal")
    await eventually(lambda: len(receiver.events) >= 1)
    assert [event.action_key for event in receiver.events] == [told.action_key]
    assert len(silent.effects) == 1


async def test_a_receiver_that_is_down_gets_it_later(
    process: ProviderProcess, receiver: Receiver
) -> None:
    """An event is sent again until it is taken, with the same id and a fresh time stamp."""
    receiver.refusals_left = 3
    await performed(process, "normal")
    await eventually(lambda: len(receiver.received) == 4)
    assert len({event.event_id for event in receiver.events}) == 1
    # Beside the loop, on which the last of them may have been taken and not answered yet.
    waiting = await asyncio.to_thread(process.control, "webhooks/flush", {})
    assert waiting == {"waiting": 0}
    assert len(receiver.received) == 4


async def test_flushing_sends_what_would_come_later(
    process: ProviderProcess, receiver: Receiver
) -> None:
    """What waits for its time is sent at once when told to."""
    await performed(process, "late", delay_ms=60_000)
    waiting = await asyncio.to_thread(process.control, "webhooks/flush", {})
    assert waiting == {"waiting": 0}
    assert len(receiver.events) == 1


async def test_the_same_effect_twice_is_told_once(
    process: ProviderProcess, receiver: Receiver
) -> None:
    """A replayed answer is no new event."""
    stage = SimulatedStage(process)
    call = Call.on(stage)
    async with performing(stage) as performer:
        await call.perform(performer)
        await call.perform(performer)
    await asyncio.to_thread(process.control, "webhooks/flush", {})
    assert len(receiver.events) == 1


async def test_what_was_not_taken_outlives_the_provider(
    process: ProviderProcess, receiver: Receiver
) -> None:
    """Killed with an event in hand, the provider sends it when it is back, to the same address."""
    call, _ = await performed(process, "late", delay_ms=400)
    process.kill()
    process.start()
    await eventually(lambda: len(receiver.events) == 1)
    assert receiver.events[0].action_key == call.action_key
    assert process.control("personality", {"personality": {}}) == {}
    assert Behaviour.HONOURS_KEYS.value in call.account
