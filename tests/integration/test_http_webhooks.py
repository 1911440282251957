"""The webhook door: in the log byte for byte before any 2xx, refused by name and then not kept."""

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gateway.http.doors import doors_in
from ledger.core.limits import WEBHOOK_BYTES_MAX
from ledger.log.topics import Topic
from ledger.log.webhook_record import WebhookReceived, read_webhook
from tests.integration.door import Door, code_of, opened, signed
from tests.integration.installation import PARTITIONS
from tests.servers import Addresses

pytestmark = [pytest.mark.servers, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door(servers: Addresses, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Door]:
    """Open one door for all tests, with nobody behind it: webhooks wait for nobody."""
    async with opened(servers, tmp_path_factory.mktemp("webhooks")) as one:
        yield one


async def webhooks_in(door: Door) -> list[WebhookReceived]:
    """Every webhook in the log."""
    found = []
    for partition in range(PARTITIONS):
        for record in await door.one.records(Topic.WEBHOOKS, partition):
            webhook = read_webhook(record)
            assert isinstance(webhook, WebhookReceived)
            found.append(webhook)
    return found


async def test_a_signed_webhook_is_in_the_log_byte_for_byte_before_the_answer(door: Door) -> None:
    """202 only once it is durable; escapes, order and blanks of the body are kept."""
    raw = '{ "b": "\\ud83d\\ude0a é\u2028", "a": 1.50, "a": 2 }'.encode()
    response = await door.http.post(
        "/v1/webhooks/simulated?account=main", content=raw, headers=signed(raw, event_id="evt_kept")
    )
    assert response.status_code == 202
    assert response.json() == {"event_id": "evt_kept"}
    (webhook,) = [one for one in await webhooks_in(door) if one.event_id == "evt_kept"]
    assert webhook.raw() == raw
    assert (webhook.provider, webhook.account) == ("simulated", "main")
    assert webhook.headers["content-type"] == "application/json"
    assert "authorization" not in webhook.headers


async def test_the_only_account_of_a_provider_need_not_be_named(door: Door) -> None:
    """A provider with one account posts to the short address."""
    headers = signed(b"{}", event_id="evt_short")
    response = await door.http.post("/v1/webhooks/simulated", content=b"{}", headers=headers)
    assert response.status_code == 202


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ({"webhook-signature": "v1," + "A" * 43 + "="}, 401, "signature_mismatch"),
        ({"webhook-signature": "garbage"}, 400, "malformed_signature"),
        ({"webhook-signature": "v1a,AAAA"}, 400, "unsupported_signature"),
        ({"webhook-signature": ""}, 400, "missing_header"),
        ({"webhook-id": "a.b"}, 400, "malformed_id"),
        ({"webhook-timestamp": "soon"}, 400, "malformed_timestamp"),
    ],
)
async def test_a_webhook_that_is_not_signed_right_is_counted_and_not_kept(
    door: Door, change: dict[str, str], status: int, reason: str
) -> None:
    """The answer names the reason, the counter has it, and the log has nothing of the body."""
    raw = json.dumps({"canary": f"forged-{reason}"}).encode()
    before = len(await webhooks_in(door))
    response = await door.http.post(
        "/v1/webhooks/simulated", content=raw, headers=signed(raw) | change
    )
    assert response.status_code == status
    assert code_of(response) == "webhook_rejected"
    assert response.json()["detail"] == reason
    assert len(await webhooks_in(door)) == before
    counted = (await door.http.get("/metrics")).text
    assert f'actionledger_webhooks_total{{provider="simulated",result="{reason}"}}' in counted


async def test_a_webhook_from_an_unknown_source_is_not_found(door: Door) -> None:
    """An unknown provider and an unknown account of a known one are answered alike."""
    for path in ("stripe", "simulated?account=other", "simulated?account=&x=1"):
        response = await door.http.post(f"/v1/webhooks/{path}", content=b"{}")
        assert response.status_code in {400, 404}
        assert code_of(response) in {"webhook_source_unknown", "invalid_query"}


async def test_a_webhook_over_the_limit_is_refused_and_one_at_it_is_kept(door: Door) -> None:
    """1 MiB is taken, one byte more is not."""
    largest = b"x" * WEBHOOK_BYTES_MAX
    kept = await door.http.post(
        "/v1/webhooks/simulated", content=largest, headers=signed(largest, event_id="evt_large")
    )
    assert kept.status_code == 202
    larger = largest + b"x"
    refused = await door.http.post("/v1/webhooks/simulated", content=larger, headers=signed(larger))
    assert refused.status_code == 413
    (webhook,) = [one for one in await webhooks_in(door) if one.event_id == "evt_large"]
    assert webhook.raw() == largest


async def test_c067_webhooks_refused_for_the_time_are_counted_and_their_repetition_comes_in(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    """C067: with the clock six minutes off 30 hooks are refused as such; set right, all come in."""
    doors = doors_in(door.app)
    right, hooks = doors.wall_clock_ms, [f"evt_clock_{number}" for number in range(30)]
    sent = {hook: signed(b"{}", event_id=hook) for hook in hooks}
    doors.wall_clock_ms = lambda: right() + 6 * 60_000
    try:
        refused = [
            await door.http.post("/v1/webhooks/simulated", content=b"{}", headers=sent[hook])
            for hook in hooks
        ]
    finally:
        doors.wall_clock_ms = right
    assert {answer.status_code for answer in refused} == {401}
    named = 'provider="simulated",result="timestamp_out_of_tolerance"} 30.0'
    assert named in (await door.http.get("/metrics")).text
    assert {
        record.__dict__["reason"] for record in caplog.records if record.msg == "webhook_rejected"
    } == {"timestamp_out_of_tolerance"}
    for hook in hooks:
        answer = await door.http.post("/v1/webhooks/simulated", content=b"{}", headers=sent[hook])
        assert answer.status_code == 202
    kept = [webhook.event_id for webhook in await webhooks_in(door)]
    assert sorted(hook for hook in kept if hook.startswith("evt_clock_")) == sorted(hooks)
