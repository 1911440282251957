"""Asks a described provider what a request would do.

Guarantees that nothing can be caused: the request goes to an address where nothing is performed, by
GET or POST, and bears no provider key. An answer counts only if every fact that the description
names is in it. Built by the registry, held by the inquirer, and by executors for the look just
before they act.
"""

import asyncio
from collections.abc import Mapping
from typing import assert_never

from pydantic import JsonValue

from ledger.core.preview import Foreseen
from reconciler.providers.http.answers import (
    UnreadableAnswer,
    code_at,
    kept,
    matches,
    read_json,
    recorded,
    text_at,
    value_at,
)
from reconciler.providers.http.description import Description, Preview, written
from reconciler.providers.http.performer import names_of, with_body
from reconciler.providers.http.templates import Unsendable
from reconciler.providers.http_exchange import Answered, Broken, HttpClient, Message, Trouble
from reconciler.providers.port import Deadlines, ProviderRequest, Unforeseen


class HttpPreviewer:
    """Foresees as a description says."""

    def __init__(
        self, description: Description, base_url: str, api_keys: Mapping[str, str]
    ) -> None:
        """`api_keys` by account name. Nothing is opened yet; raises ValueError for the URL."""
        self._description = description
        self._http = HttpClient(base_url)
        self._api_keys = api_keys

    async def preview(self, request: ProviderRequest, *, timeout_ms: int) -> Foreseen | Unforeseen:
        """Ask, and read what the description names; see the port."""
        preview = self._description.preview(request.operation)
        if preview is None:
            return Unforeseen("preview_not_described")
        credential = self._api_keys.get(request.account)
        if credential is None:
            return Unforeseen("account_not_configured")
        try:
            message = message_of(preview, request, credential)
        except (Unsendable, TypeError):
            return Unforeseen(Trouble.UNSENDABLE.value)
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                exchanged = await self._http.exchange(
                    message, deadlines=Deadlines(connect_ms=timeout_ms, response_ms=timeout_ms)
                )
        except TimeoutError:
            return Unforeseen("preview_timed_out")
        return self._read(exchanged, preview)

    async def recheck(
        self, request: ProviderRequest, *, timeout_ms: int
    ) -> Mapping[str, JsonValue] | Unforeseen:
        """Ask again, for the volatile facts alone; see the port."""
        read = await self.preview(request, timeout_ms=timeout_ms)
        return read if isinstance(read, Unforeseen) else read.observed

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._http.close()

    def _read(self, exchanged: Answered | Broken, preview: Preview) -> Foreseen | Unforeseen:
        match exchanged:
            case Broken(trouble):
                return Unforeseen(trouble.value)
            case Answered(status=status, body=body):
                try:
                    answer = read_json(body)
                except UnreadableAnswer:
                    usable = status in preview.statuses
                    return Unforeseen(Trouble.ANSWER_INVALID.value if usable else f"http_{status}")
                says_so = all(matches(value_at(answer, at), one) for at, one in preview.equals)
                if status in preview.statuses and says_so:
                    return _foreseen(answer, preview)
                code = recorded(code_at(answer, self._description.errors.code))
                return Unforeseen(code or f"http_{status}")
            case _:
                assert_never(exchanged)


def message_of(preview: Preview, request: ProviderRequest, credential: str) -> Message:
    """The question on the wire; raises Unsendable, or TypeError for what is no JSON."""
    names = names_of(request)
    headers = written(preview.headers, {**names, "credential": credential})
    target = preview.address.target(names)
    message = Message(preview.method, target, headers, credential=credential)
    return message if preview.body is None else with_body(message, preview.body.value(names))


def _foreseen(answer: object, preview: Preview) -> Foreseen | Unforeseen:
    """What the answer says, or that a fact is missing without which it says nothing."""
    observed: dict[str, JsonValue] = {}
    for name, path in preview.observed:
        value = kept(value_at(answer, path))
        if value is None:
            return Unforeseen("observed_missing")
        observed[name] = value
    try:
        return Foreseen(
            effect=text_at(answer, preview.effect),
            target=text_at(answer, preview.target),
            scope=text_at(answer, preview.scope),
            observed=observed,
        )
    except UnreadableAnswer:
        return Unforeseen(Trouble.ANSWER_INVALID.value)
