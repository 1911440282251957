"""Asks the simulated provider what a request would do.

Guarantees that nothing can be caused: it knows the preview route alone, and no provider key. Built
by the registry, held by the inquirer, and by executors for the look just before they act.
"""

import asyncio
from collections.abc import Mapping
from urllib.parse import quote

import orjson
from pydantic import JsonValue

from ledger.core.preview import Foreseen
from reconciler.providers.http_exchange import (
    Broken,
    Exchanges,
    HttpClient,
    Message,
    Trouble,
)
from reconciler.providers.lookups import Unanswered
from reconciler.providers.port import Deadlines, ProviderRequest, Unforeseen
from reconciler.providers.simulated.adapter import read_form
from reconciler.providers.simulated.api import PREVIEWS_PATH, PreviewAnswer


class SimulatedPreviewer:
    """Foresees at a simulated provider."""

    def __init__(
        self, base_url: str, api_keys: Mapping[str, str], *, http: Exchanges | None = None
    ) -> None:
        """`api_keys` by account name; `http` stands in for the network. Nothing is opened yet."""
        self._http = HttpClient(base_url) if http is None else http
        self._api_keys = dict(api_keys)

    async def preview(self, request: ProviderRequest, *, timeout_ms: int) -> Foreseen | Unforeseen:
        """Ask what it would do; see the port."""
        api_key = self._api_keys.get(request.account)
        if api_key is None:
            return Unforeseen("account_not_configured")
        try:
            message = _message(request, api_key)
        except TypeError:
            return Unforeseen(Trouble.UNSENDABLE.value)
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                exchanged = await self._http.exchange(
                    message, deadlines=Deadlines(connect_ms=timeout_ms, response_ms=timeout_ms)
                )
        except TimeoutError:
            return Unforeseen("preview_timed_out")
        if isinstance(exchanged, Broken):
            return Unforeseen(exchanged.trouble.value)
        try:
            read = read_form(PreviewAnswer, exchanged)
        except Unanswered as unanswered:
            return Unforeseen(unanswered.code)
        return Foreseen(
            effect=read.effect, target=read.target, scope=read.scope, observed=dict(read.observed)
        )

    async def recheck(
        self, request: ProviderRequest, *, timeout_ms: int
    ) -> Mapping[str, JsonValue] | Unforeseen:
        """Ask again, for the volatile facts alone; see the port."""
        read = await self.preview(request, timeout_ms=timeout_ms)
        return read if isinstance(read, Unforeseen) else read.observed

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._http.close()


def _message(request: ProviderRequest, api_key: str) -> Message:
    """What would be asked for, without a key or a reference; raises TypeError for no JSON."""
    money = request.money
    body: dict[str, object] = {
        "version": request.version,
        "target": request.target,
        "amount": None if money is None else {"minor": money.minor, "currency": money.currency},
        "params": request.params,
        "metadata": {"action_key": request.action_key, "request_hash": request.request_hash},
    }
    if request.original_reference is not None:
        body["original"] = request.original_reference
    return Message(
        "POST",
        f"{PREVIEWS_PATH}{quote(request.operation, safe='')}",
        (("Authorization", f"Bearer {api_key}"), ("Content-Type", "application/json")),
        orjson.dumps(body, default=dict, option=orjson.OPT_SORT_KEYS),
        api_key,
    )
