"""The route of webhooks: verified on the raw bytes by its provider's scheme, in the log before the
answer, never judged.

Guarantees that a 2xx answer means that the webhook is durable, byte for byte as it was signed. Must
never parse a body, keep one that is not believed, or say what it made of it. Called by providers.
"""

import asyncio
import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Final, NamedTuple

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json
from starlette.datastructures import Headers
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.http.bodies import read_query
from gateway.http.body_bytes import Arriving, declared_length, is_held, read_body
from gateway.http.codes import Code
from gateway.http.doors import Doors, doors_of
from gateway.http.limits import (
    BODY_HELD_BYTES,
    WEBHOOK_BYTES_IN_FLIGHT_MAX,
    WEBHOOKS_ARRIVING_MAX,
)
from gateway.http.openapi import answer, problems, query, raw_body
from gateway.http.problems import No, Trouble
from ledger.core.errors import LedgerError
from ledger.core.limits import TEXT_CHARS_MAX, WEBHOOK_BYTES_MAX
from ledger.log.crashpoints import crash_point, crash_while
from ledger.log.port import Outgoing
from ledger.log.topics import Topic, partition_of
from ledger.log.webhook_record import WebhookReceived, webhook_key, webhook_outgoing
from reconciler.schemes import Scheme, Verdict, scheme_of
from reconciler.webhooks import Verified, WebhookProblem

logger = logging.getLogger("actionledger.http")

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"])

KEPT_HEADERS: Final = ("content-type", "user-agent")
"""What is kept beside the body, and beside what the scheme reads: with that the signature can be
checked again by an auditor."""

QUERIES_REMEMBERED: Final = 256
_QUERY_BYTES_REMEMBERED: Final = 256

STATUSES: Final[Mapping[WebhookProblem, int]] = {
    WebhookProblem.TOO_LARGE: 413,
    WebhookProblem.MISSING_HEADER: 400,
    WebhookProblem.REPEATED_HEADER: 400,
    WebhookProblem.MALFORMED_ID: 400,
    WebhookProblem.MALFORMED_TIMESTAMP: 400,
    WebhookProblem.MALFORMED_SIGNATURE: 400,
    WebhookProblem.UNSUPPORTED_SIGNATURE: 400,
    # A secret of ours that verifies nothing is our trouble: the sender is to try again.
    WebhookProblem.NO_USABLE_SECRET: 503,
    WebhookProblem.SIGNATURE_MISMATCH: 401,
    # Our clock may be the wrong one, so it is answered with what senders repeat.
    WebhookProblem.TIMESTAMP_OUT_OF_TOLERANCE: 401,
}
"""The status of each reason for which a webhook is not believed."""


class _Query(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    account: Annotated[str, Field(min_length=1, max_length=TEXT_CHARS_MAX)] | None = None


@lru_cache(maxsize=QUERIES_REMEMBERED)
def _asked(query: bytes) -> _Query | No:
    """What a query says: those of an endpoint are all the same."""
    return read_query(_Query, HttpRequest({"type": "http", "query_string": query}))


class Accepted(BaseModel):
    """The webhook is durable. `event_id` is the sender's own."""

    model_config = ConfigDict(frozen=True)

    event_id: str


class _Believed(NamedTuple):
    """A verified webhook as it is to be appended; `room` is what it takes of
    WEBHOOK_BYTES_IN_FLIGHT_MAX, in bytes.
    """

    event_id: str
    partition: int
    record: Outgoing
    room: int


class _Receipt(Response):
    """`Accepted` on its way: one is written for every webhook, so it is written at once."""

    def __init__(self, event_id: str) -> None:
        self.status_code, self.background = 202, None
        self.body = b'{"event_id":%b}' % to_json(event_id)
        length = str(len(self.body)).encode()
        self.raw_headers = [(b"content-length", length), (b"content-type", b"application/json")]


@router.post(
    "/{provider}",
    operation_id="receiveWebhook",
    summary="Receive a webhook",
    response_model=None,
    status_code=202,
    responses=answer(202, Accepted, "Durable. What it means is found out later.")
    | problems(400, 401, 404, 408, 413, 500, 503),
    openapi_extra=raw_body()
    | {
        "security": [],
        "parameters": [query("account", "The account at the provider, where there are several.")],
    },
)
async def receive(http: HttpRequest, provider: str) -> Response:
    """Verify a webhook by its provider's scheme and put it into the log.

    Deliveries of one event are kept as often as they come and count once.
    """
    doors = doors_of(http)
    account = _account(http, doors, provider)
    if isinstance(account, No):
        doors.metrics.webhook(None, account.code.value)
        return account.response()
    event_id = await _received(http, doors, provider, account)
    if isinstance(event_id, No):
        reason = event_id.detail if event_id.code is Code.WEBHOOK_REJECTED else None
        doors.metrics.webhook(provider, reason or event_id.code.value)
        return event_id.response()
    doors.metrics.webhook(provider, "accepted")
    return _Receipt(event_id)


_ROUTE: Final = router.routes[-1]
_PATH: Final = "/v1/webhooks/"


def is_delivery(scope: Scope) -> bool:
    """Whether a request is one that `receive` takes, by its method and path alone."""
    path: str = scope["path"]
    provider = path[len(_PATH) :] if path.startswith(_PATH) else ""
    return bool(provider) and "/" not in provider and scope["method"] == "POST"


async def deliver(scope: Scope, receive_part: Receive, send: Send) -> None:
    """Take a delivery to `receive` at once: the framework's way there costs as much as its work."""
    provider = scope["path"][len(_PATH) :]
    scope["route"] = _ROUTE
    response = await receive(HttpRequest(scope, receive_part), provider)
    await response(scope, receive_part, send)


def _account(http: HttpRequest, doors: Doors, provider: str) -> str | No:
    """The account whose secrets verify this webhook: the one named, or the provider's only one."""
    query: bytes = http.scope["query_string"]
    asked = read_query(_Query, http) if len(query) > _QUERY_BYTES_REMEMBERED else _asked(query)
    if isinstance(asked, No):
        return asked
    found = _configured(doors, provider, asked.account)
    if found is None and doors.webhook_secrets.has_changed():
        found = _configured(doors, provider, asked.account)
    return found or No(Code.WEBHOOK_SOURCE_UNKNOWN)


def _configured(doors: Doors, provider: str, asked: str | None) -> str | None:
    accounts = doors.webhook_secrets.accounts(provider)
    if asked is None and len(accounts) == 1:
        return accounts[0]
    return asked if asked in accounts else None


async def _body(http: HttpRequest, doors: Doors) -> bytes | No:
    """The raw bytes. Of those that are large few are read at a time; one far behind gives way."""
    if is_held(http):
        return await read_body(http, bytes_max=WEBHOOK_BYTES_MAX)
    now_s = asyncio.get_running_loop().time()
    if len(doors.webhooks_arriving) >= WEBHOOKS_ARRIVING_MAX:
        late = next((one for one in doors.webhooks_arriving if one.is_late(now_s)), None)
        if late is None:
            return No(Code.TOO_BUSY)
        late.send_away()
        doors.webhooks_arriving.discard(late)
    length = declared_length(http)
    arriving = Arriving(WEBHOOK_BYTES_MAX if length is None else length, now_s)
    doors.webhooks_arriving.add(arriving)
    try:
        return await read_body(http, bytes_max=WEBHOOK_BYTES_MAX, arriving=arriving)
    finally:
        doors.webhooks_arriving.discard(arriving)


async def _received(http: HttpRequest, doors: Doors, provider: str, account: str) -> str | No:
    """The sender's id of a webhook that is durable."""
    believed = await _believed(http, doors, provider, account)
    if isinstance(believed, No):
        return believed
    doors.webhook_bytes_in_flight += believed.room
    try:
        appending = doors.webhooks.append(Topic.WEBHOOKS, believed.partition, [believed.record])
        await crash_while("webhook_sent", appending)
    except LedgerError as trouble:
        logger.warning("webhook_not_kept", extra={"provider": provider, "reason": repr(trouble)})
        return No(Code.WEBHOOK_NOT_DURABLE)
    finally:
        doors.webhook_bytes_in_flight -= believed.room
    crash_point("webhook_acked")
    return believed.event_id


async def _believed(http: HttpRequest, doors: Doors, provider: str, account: str) -> _Believed | No:
    """Read and verify it. Apart from its appending, so that of thousands that wait for it the
    record is held and neither the body nor what stands between the two.
    """
    raw = await _body(http, doors)
    if isinstance(raw, No):
        return raw
    room = max(len(raw), BODY_HELD_BYTES)
    if doors.webhook_bytes_in_flight + room > WEBHOOK_BYTES_IN_FLIGHT_MAX:
        return No(Code.TOO_BUSY)
    crash_point("webhook_read")
    now_ms = doors.wall_clock_ms()
    scheme = scheme_of(doors.webhook_schemes, provider)

    def verdict_now() -> Verdict:
        secrets = doors.webhook_secrets.live(provider, account, now_ms)
        return scheme.verify(raw, http.headers, secrets, now_ms)

    verdict = verdict_now()
    if not isinstance(verdict, Verified) and _is_by_secret(verdict.code):
        # The secret may have been put into the file a moment ago.
        verdict = verdict_now() if doors.webhook_secrets.has_changed() else verdict
    if not isinstance(verdict, Verified):
        return _not_believed(doors, provider, account, verdict.code, len(raw))
    webhook = WebhookReceived.of(
        raw,
        provider=provider,
        account=account,
        event_id=verdict.event_id,
        sent_at=verdict.sent_at,
        headers=_kept(http.headers, scheme),
    )
    partition = partition_of(webhook_key(webhook), doors.partitions)
    crash_point("webhook_verified")
    return _Believed(webhook.event_id, partition, webhook_outgoing(webhook), room)


def _is_by_secret(problem: WebhookProblem) -> bool:
    return problem in {WebhookProblem.SIGNATURE_MISMATCH, WebhookProblem.NO_USABLE_SECRET}


def _not_believed(
    doors: Doors, provider: str, account: str, reason: WebhookProblem, size_bytes: int
) -> No:
    """Count and name the refusal; of the body nothing is kept but its size. A flood of forgeries is
    logged every few seconds, with how many lines were left out; each of them is counted.
    """
    unsaid = doors.refusals_logged.left_out((provider, account, reason.value), doors.monotonic_s())
    if unsaid is not None:
        logger.warning(
            "webhook_rejected",
            extra={
                "provider": provider,
                "account": account,
                "reason": reason.value,
                "size_bytes": size_bytes,
                "unsaid": unsaid,
            },
        )
    return No(
        Code.WEBHOOK_REJECTED,
        detail=reason.value,
        problems=(Trouble(path="", code=reason.value, message=reason.value.replace("_", " ")),),
        status=STATUSES[reason],
    )


def _kept(headers: Headers, scheme: Scheme) -> dict[str, str]:
    kept: dict[str, str] = {}
    for name, value in headers.items():
        if (name in KEPT_HEADERS or name in scheme.headers) and name not in kept:
            kept[name] = value
    return {name: kept[name] for name in sorted(kept) if len(kept[name]) <= TEXT_CHARS_MAX}
