"""Makes effects at a described provider.

Guarantees the promises of the port: the same request under the same key is the same bytes, one
call, no retries, no redirects. What a request holds chooses among configured credentials and fills
templates; it never makes an address. Built by the registry, held by executors only.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import orjson

from reconciler.providers.http.description import Description, Perform
from reconciler.providers.http.outcomes import outcome_of
from reconciler.providers.http.templates import Unsendable, money_names
from reconciler.providers.http_exchange import HttpClient, Message, Trouble
from reconciler.providers.port import (
    Deadlines,
    Declined,
    NotSent,
    Outcome,
    ProviderRequest,
    Retry,
)

CONTENT_TYPE = "content-type"


class HttpPerformer:
    """Makes effects as a description says."""

    def __init__(
        self, description: Description, base_url: str, api_keys: Mapping[str, str]
    ) -> None:
        """`api_keys` by account name. Nothing is opened yet; raises ValueError for the URL."""
        self._description = description
        self._http = HttpClient(base_url)
        self._api_keys = api_keys

    async def perform(
        self,
        request: ProviderRequest,
        *,
        provider_key: str,
        deadlines: Deadlines,
        before_first_byte: Callable[[], None],
    ) -> Outcome:
        """Make one call; see the port."""
        perform = self._description.perform(request.operation)
        if perform is None:
            return NotSent("operation_not_described", Retry.NEVER)
        credential = self._api_keys.get(request.account)
        if credential is None:
            return NotSent("account_not_configured", Retry.LATER)
        try:
            message = message_of(perform, request, provider_key, credential)
        except (Unsendable, TypeError):
            return NotSent(Trouble.UNSENDABLE.value, Retry.NEVER)
        try:
            exchanged = await self._http.exchange(
                message, deadlines=deadlines, before_first_byte=before_first_byte
            )
        except Declined as declined:
            return NotSent(declined.code, Retry.LATER)
        return outcome_of(request, provider_key, exchanged, perform, self._description.errors)

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._http.close()


def message_of(
    perform: Perform, request: ProviderRequest, provider_key: str, credential: str
) -> Message:
    """The request on the wire; raises Unsendable, or TypeError for what is no JSON."""
    names = {**names_of(request), "provider_key": provider_key}
    call = perform.call
    target = call.target.target(names)
    headers = call.written_headers({**names, "credential": credential})
    if perform.body is None:
        return Message(perform.method, target, headers, credential=credential)
    body = perform.body.value(names)
    return with_body(Message(perform.method, target, headers, credential=credential), body)


def names_of(request: ProviderRequest) -> dict[str, object]:
    """What templates may name of a request, but for the key that only an effect is made under."""
    return {
        "action_key": request.action_key,
        "operation": request.operation,
        "version": request.version,
        "target": request.target,
        "account": request.account,
        "request_hash": request.request_hash,
        "original_reference": request.original_reference,
        "money": money_names(request.money),
        "params": request.params,
    }


def with_body(message: Message, body: object) -> Message:
    """The same request with a JSON body; raises TypeError for what is no JSON."""
    headers = message.headers
    if not any(name.lower() == CONTENT_TYPE for name, _ in headers):
        headers = (*headers, ("Content-Type", "application/json"))
    raw = orjson.dumps(body, default=dict, option=orjson.OPT_SORT_KEYS)
    return replace(message, headers=headers, body=raw)
