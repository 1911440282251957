"""The first half of the suite: an adapter by itself, without a provider.

Guarantees that nobody is called: no check gets as far as a connection. What a check needs and this
adapter does not have is said. Called by `provider check --suite` and by tests.
"""

from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from typing import Final

from reconciler.providers.adapter import ANY_OPERATION, Adapter, ProviderSettings
from reconciler.providers.contract.checking import DoesNotApply, demand
from reconciler.providers.kinds import adapter_of
from reconciler.providers.port import (
    Capabilities,
    Deadlines,
    ListingFailed,
    MappedWebhook,
    NotSent,
    ProviderRequest,
    Retry,
    Unrecognised,
)

Check = Callable[[ProviderSettings], Awaitable[None]]

NOBODY: Final = "nobody.configured.this"
_CANARY: Final = "canary-5d3f0a9c77e1"
_DEADLINES: Final = Deadlines(connect_ms=1_000, response_ms=1_000)
_BODIES: Final = (
    b"",
    b"{}",
    b"[]",
    b"null",
    b"\xff\xfe",
    b"[" * 20_000,
    b'{"a":' * 2_000,
    b'{"id":1e400,"amount":NaN}',
    b'{"id":"\\ud800","type":"\\u0000"}',
    b'{"type":{"type":{}},"data":[{"object":7}]}',
    b"x" * 300_000,
)


async def questions_are_answered(settings: ProviderSettings) -> None:
    """Every question about the provider has an answer, and what it can perform has a name."""
    adapter = adapter_of(settings)
    for question in fields(Capabilities):
        demand(
            getattr(adapter.capabilities, question.name) is not None,
            f"{question.name} is not answered",
        )
    demand(adapter.operations, "it can perform nothing")
    names = (*adapter.operations, *adapter.foreseen, *adapter.accounts)
    demand(all(names), "a name is empty")


async def unknown_account_is_never_called(settings: ProviderSettings) -> None:
    """A request for an account without a credential is not sent, and no guard is asked."""
    adapter = adapter_of(settings)
    operation = min(adapter.operations - {ANY_OPERATION}, default="charge")
    outcome = await _performed(adapter, _request(operation, NOBODY))
    demand(outcome == NotSent("account_not_configured", Retry.LATER), f"it answered {outcome}")


async def unknown_operation_is_never_sent(settings: ProviderSettings) -> None:
    """A request for an operation that is not described is not sent, and no guard is asked."""
    adapter = adapter_of(settings)
    if ANY_OPERATION in adapter.operations:
        raise DoesNotApply("it performs every operation")
    account = min(adapter.accounts, default=NOBODY)
    outcome = await _performed(adapter, _request("no.such.operation", account))
    not_sent = isinstance(outcome, NotSent) and outcome.retry is Retry.NEVER
    demand(not_sent, f"it answered {outcome}")


async def who_looks_cannot_act(settings: ProviderSettings) -> None:
    """Neither a finder nor a previewer holds anything that performs."""
    adapter = adapter_of(settings)
    finder, previewer = adapter.finder(), adapter.previewer()
    try:
        demand(not hasattr(finder, "perform"), "its finder can perform")
        demand(not hasattr(previewer, "perform"), "its previewer can perform")
    finally:
        await finder.close()
        if previewer is not None:
            await previewer.close()


async def any_webhook_has_a_meaning(settings: ProviderSettings) -> None:
    """Whatever bytes come as a webhook, the mapping names a meaning or says that it knows none."""
    mapping = adapter_of(settings).mapping()
    for body in _BODIES:
        mapped = mapping.map(body)
        demand(
            isinstance(mapped, MappedWebhook | Unrecognised),
            f"{body[:30]!r} became {mapped!r}",
        )


async def a_list_that_is_not_there_fails(settings: ProviderSettings) -> None:
    """Where effects cannot be listed the listing breaks off loudly: empty would mean none."""
    adapter = adapter_of(settings)
    if adapter.capabilities.lists_effects:
        raise DoesNotApply("it lists effects")
    finder = adapter.finder()
    try:
        account = min(adapter.accounts, default=NOBODY)
        async for effect in finder.list_effects(account=account, since_at=0, timeout_ms=1_000):
            demand(holds=False, otherwise=f"it listed {effect}")
        demand(holds=False, otherwise="its list was empty instead of failing")
    except ListingFailed:
        return
    finally:
        await finder.close()


async def closing_twice_is_closing(settings: ProviderSettings) -> None:
    """Every client can be closed again."""
    adapter = adapter_of(settings)
    for client in (adapter.performer(), adapter.finder(), adapter.previewer()):
        if client is not None:
            await client.close()
            await client.close()


async def no_text_shows_a_credential(settings: ProviderSettings) -> None:
    """What could end up in a log line gives no credential away."""
    own = replace(settings, api_keys={**settings.api_keys, "canary": _CANARY})
    adapter = adapter_of(own)
    performer, finder = adapter.performer(), adapter.finder()
    try:
        for one in (own, adapter, performer, finder, adapter.mapping()):
            demand(_CANARY not in repr(one), f"the text of {type(one).__name__} shows it")
    finally:
        await performer.close()
        await finder.close()


CHECKS: Final[tuple[Check, ...]] = (
    questions_are_answered,
    unknown_account_is_never_called,
    unknown_operation_is_never_sent,
    who_looks_cannot_act,
    any_webhook_has_a_meaning,
    a_list_that_is_not_there_fails,
    closing_twice_is_closing,
    no_text_shows_a_credential,
)


def _request(operation: str, account: str) -> ProviderRequest:
    return ProviderRequest(
        action_key=f"{operation}:v1:acme:suite",
        operation=operation,
        version=1,
        target=None,
        params={},
        money=None,
        account=account,
        request_hash="sha256:" + "00" * 32,
    )


async def _performed(adapter: Adapter, request: ProviderRequest) -> object:
    asked: list[None] = []
    performer = adapter.performer()
    try:
        outcome = await performer.perform(
            request,
            provider_key=request.action_key,
            deadlines=_DEADLINES,
            before_first_byte=lambda: asked.append(None),
        )
    finally:
        await performer.close()
    demand(not asked, "the guard was asked: a connection was open")
    return outcome
