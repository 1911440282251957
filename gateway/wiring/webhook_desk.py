"""The webhook desk: one webhook in full, a test that is sent through the door, a body that is tried
without sending, and another look at what the topic holds.

Guarantees that a test is signed as its provider would sign and goes through the same door, and that
trying a body writes nothing. Called by the command line.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

import asyncpg
import httpx

from gateway.local.progress import Progress, Report
from gateway.settings import Settings
from gateway.webhook_secrets import read_secrets
from gateway.wiring.installation import open_log, open_pool, providers
from ledger.core.errors import LedgerError
from ledger.log.envelope import Unreadable
from ledger.log.follow import genesis_of, published_catalogue
from ledger.log.kafka import KafkaLog
from ledger.log.port import Record
from ledger.log.reading import read_up_to
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic
from ledger.log.webhook_record import WebhookReceived, read_webhook, webhook_outgoing
from reconciler.matching import Matched, Parked
from reconciler.parking import TEST_EVENT, Position
from reconciler.providers.http.description import Description
from reconciler.providers.http.parsing import read_description
from reconciler.providers.port import Unrecognised
from reconciler.providers.registry import (
    ProviderSettings,
    shared_accounts,
    webhook_mappings,
    webhook_schemes,
)
from reconciler.receiving import WebhookDesk
from reconciler.replaying import Replayed, replay
from reconciler.schemes import Scheme, scheme_of
from reconciler.webhook_rows import WebhookView, find_body
from reconciler.webhooks import Verified
from streams.clock import wall_ms

POLL_SECONDS: Final = 0.1


class NoSuchWebhookError(LedgerError):
    """Nothing stands at this place of the topic, or nothing that can be read."""


class NoSecretError(LedgerError):
    """There is no secret that could sign."""


@dataclass(frozen=True, slots=True)
class Tested:
    """What the door answered to a test, and what became of it; `became` is None where the
    reconciler had not come to it in time.
    """

    url: str
    status: int
    answer: Any
    became: WebhookView | None


@dataclass(frozen=True, slots=True)
class Tried:
    """What would happen to a body. `verification` is `verified`, the reason why not, or None where
    no headers were given; `match` is the row's classification, `matched_to` the action, of what is
    parked the one that it names.
    """

    verification: str | None
    meaning: Mapping[str, Any]
    match: str
    reason: str | None
    matched_to: str | None


@asynccontextmanager
async def _desk(
    settings: Settings, log: KafkaLog
) -> AsyncIterator[tuple[WebhookDesk, asyncpg.Pool, SteadyAppender, int]]:
    """A desk as the reconciler has one, with its pool, its appender and the partitions."""
    genesis = await genesis_of(log)
    known = providers(settings, await published_catalogue(log))
    appender = SteadyAppender(log.appender)
    async with await open_pool(settings) as pool:
        try:
            desk = WebhookDesk(
                appender,
                pool,
                webhook_mappings(known),
                partitions=genesis.partitions,
                now_ms=wall_ms,
                shared_accounts=shared_accounts(known),
            )
            yield desk, pool, appender, genesis.partitions
        finally:
            await appender.close()


async def record_at(log: KafkaLog, position: Position) -> tuple[Record, WebhookReceived]:
    """The record at a place, read. Raises NoSuchWebhookError."""
    place = (Topic.WEBHOOKS.value, position.partition)
    genesis = await genesis_of(log)
    found: Record | None = None
    if position.partition < genesis.partitions:
        reader = await log.reader({place: position.offset})
        try:
            if position.offset < (await reader.end_offsets([place]))[place]:
                ends = {place: position.offset + 1}
                async for records in read_up_to(reader, {place: position.offset}, ends):
                    found = next((one for one in records if one.offset == position.offset), found)
        finally:
            await reader.close()
    read = Unreadable("nothing_there", "") if found is None else read_webhook(found)
    if found is not None and isinstance(read, WebhookReceived):
        return found, read
    why = read.reason if isinstance(read, Unreadable) else "nothing_there"
    raise NoSuchWebhookError(
        f"There is no webhook at webhooks/{position.partition}/{position.offset} ({why}).",
        hint="`actionledger webhook list` has the places.",
    )


async def send_test(
    settings: Settings, provider: str, account: str, *, body: bytes | None, wait_seconds: float
) -> Tested:
    """Sign a body as the provider would, send it to the door, and wait for what becomes of it.
    Raises NoSecretError, and what the door's address gives.
    """
    known = providers(settings, None)
    event_id = f"evt_test_{time.time_ns()}"
    raw = body_of_test(known, provider, event_id) if body is None else body
    scheme = scheme_of(webhook_schemes(known), provider)
    now_ms = wall_ms()
    headers = {
        "content-type": "application/json",
        **scheme.sign(
            raw,
            event_id=event_id,
            secret=_secret(settings, scheme, provider, account),
            now_ms=now_ms,
        ),
    }
    url = f"{settings.url}/v1/webhooks/{provider}"
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(url, params={"account": account}, content=raw, headers=headers)
    told = _read_answer(answer)
    became = None
    if answer.is_success:
        async with await open_pool(settings) as pool:
            became = await _became(pool, provider, account, raw, now_ms, wait_seconds)
    return Tested(url, answer.status_code, told, became)


async def _became(
    pool: asyncpg.Pool,
    provider: str,
    account: str,
    raw: bytes,
    since_ms: int,
    wait_seconds: float,
) -> WebhookView | None:
    """The row of a body that was sent at that time, once it is there."""
    sha256 = hashlib.sha256(raw).hexdigest()
    ends_s = time.monotonic() + wait_seconds
    while True:
        # The broker's clock gives the time of arrival, and may be behind ours.
        found = await find_body(
            pool, provider, account, sha256, since_ms=since_ms - 60_000, now_ms=wall_ms()
        )
        if found is not None or time.monotonic() > ends_s:
            return found
        await asyncio.sleep(POLL_SECONDS)


async def try_body(
    settings: Settings, provider: str, account: str, raw: bytes, headers: Mapping[str, str] | None
) -> Tried:
    """Say what would happen to a body, by the secrets, mappings and references of this moment."""
    scheme = scheme_of(webhook_schemes(providers(settings, None)), provider)
    verification = None
    if headers is not None:
        verification = _verification(settings, scheme, provider, account, raw, headers)
    received = WebhookReceived.of(
        raw, provider=provider, account=account, event_id="tried", sent_at=wall_ms(), headers={}
    )
    outgoing = webhook_outgoing(received)
    record = Record(Topic.WEBHOOKS.value, 0, 0, wall_ms(), outgoing.key, outgoing.value, ())
    async with _desk(settings, open_log(settings, "cli")) as (desk, _, _, _):
        row = await desk.judge(record)
    if row is None:
        raise NoSuchWebhookError("The body cannot be recorded.", hint="It has to be text.")
    reason = row.match.code if isinstance(row.match, Unrecognised) else None
    reason = row.match.reason.value if isinstance(row.match, Parked) else reason
    named = row.match.told if isinstance(row.match, Parked) else row.match
    return Tried(
        verification,
        asdict(row.mapped),
        type(row.match).__name__.lower(),
        reason,
        named.action_key if isinstance(named, Matched) else None,
    )


async def look_again(
    settings: Settings, positions: Sequence[Position], report: Report
) -> list[Replayed]:
    """Classify the records at these places again, in the reconciler's role."""
    log = open_log(settings, "reconciler")
    wanted = {(one.partition, one.offset) for one in positions}
    partitions = (await genesis_of(log)).partitions
    for one in positions:
        if one.partition >= partitions:
            raise NoSuchWebhookError(
                f"webhooks has no partition {one.partition}: there are 0 to {partitions - 1}.",
                hint="`actionledger webhook list` has the places.",
            )
    found: list[Replayed] = []
    async with _desk(settings, log) as (desk, pool, appender, partitions):
        async for record in _records(log, positions):
            if (record.partition, record.offset) in wanted:
                found += await replay(desk, pool, appender, [record], partitions=partitions)
                report(Progress("looked at", len(found), len(wanted)))
    return found


async def _records(log: KafkaLog, positions: Sequence[Position]) -> AsyncIterator[Record]:
    """What stands between the first and the last place of each partition."""
    topic = Topic.WEBHOOKS.value
    begins: dict[tuple[str, int], int] = {}
    ends: dict[tuple[str, int], int] = {}
    for one in positions:
        place = (topic, one.partition)
        begins[place] = min(begins.get(place, one.offset), one.offset)
        ends[place] = max(ends.get(place, 0), one.offset + 1)
    if not begins:
        return
    reader = await log.reader(begins)
    try:
        there = await reader.end_offsets(begins)
        ends = {place: min(end, there[place]) for place, end in ends.items()}
        async for records in read_up_to(reader, begins, ends):
            for record in records:
                yield record
    finally:
        await reader.close()


def body_of_test(known: Sequence[ProviderSettings], provider: str, event_id: str) -> bytes:
    """An event of a type that no mapping knows, so that nothing can come of it but its arrival."""
    described = next((one.adapter_file for one in known if one.name == provider), None)
    event_type: tuple[str, ...] = ("type",)
    named: tuple[str, ...] = ("id",)
    if described is not None:
        read = read_description(described)
        if isinstance(read, Description) and read.webhook is not None:
            event_type = read.webhook.event_type or event_type
            named = read.webhook.event_id or named
    body: dict[str, Any] = {}
    for path, value in ((named, event_id), (event_type, TEST_EVENT)):
        inner = body
        for step in path[:-1]:
            inner = inner.setdefault(step, {})
        inner[path[-1]] = value
    return json.dumps(body).encode()


def _secret(settings: Settings, scheme: Scheme, provider: str, account: str) -> str:
    path = settings.webhook_secrets_file
    several = () if path is None else read_secrets(path).get((provider, account), ())
    if not several:
        raise NoSecretError(
            f"There is no webhook secret of {provider}.{account} here.",
            hint="See `actionledger secrets list`, and ACTIONLEDGER_WEBHOOK_SECRETS_FILE.",
        )
    secret = several[0].secret
    if not scheme.is_usable_secret(secret):
        raise NoSecretError(
            f"The newest webhook secret of {provider}.{account} signs nothing.",
            hint="Put another one in its place: `actionledger secrets rotate`.",
        )
    return secret


def _verification(
    settings: Settings,
    scheme: Scheme,
    provider: str,
    account: str,
    raw: bytes,
    headers: Mapping[str, str],
) -> str:
    path, now_ms = settings.webhook_secrets_file, wall_ms()
    several = () if path is None else read_secrets(path).get((provider, account), ())
    live = [one.secret for one in several if one.is_live(now_ms)]
    verdict = scheme.verify(raw, headers, live, now_ms)
    return "verified" if isinstance(verdict, Verified) else verdict.code.value


def _read_answer(answer: httpx.Response) -> Any:  # noqa: ANN401 - whatever JSON the door gives
    try:
        return answer.json()
    except ValueError:
        return answer.text[:200]
