"""What a record of the outbox says of its action, in headers: written by the adapter, read by
consumers.

Guarantees that what is written is read back the same. Must never hold the request: that is the
record's value.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ledger.core.limits import TEXT_CHARS_MAX
from ledger.core.money import Money
from reconciler.providers.port import ProviderRequest

_PREFIX: Final = "actionledger-"
_TEXTS: Final = ("provider-key", "action-key", "request-hash", "operation", "account")


@dataclass(frozen=True, slots=True)
class Asked:
    """Which effect a record asks for; `provider_key` is what makes it one."""

    provider_key: str
    action_key: str
    request_hash: str
    operation: str
    account: str
    money: Money | None


def headers_of(request: ProviderRequest, provider_key: str) -> list[tuple[str, bytes]]:
    """The headers of one record, the same for each attempt. Raises UnicodeError."""
    texts = (
        provider_key,
        request.action_key,
        request.request_hash,
        request.operation,
        request.account,
    )
    written = [(_PREFIX + name, text.encode()) for name, text in zip(_TEXTS, texts, strict=True)]
    if request.money is not None:
        written.append((f"{_PREFIX}amount-minor", str(request.money.minor).encode()))
        written.append((f"{_PREFIX}currency", request.money.currency.encode()))
    return written


def asked_by(headers: Sequence[tuple[str, bytes | None]]) -> Asked | None:
    """What a record asks for, or None for one that no adapter wrote."""
    found: dict[str, bytes] = {}
    for name, value in headers:
        if name.startswith(_PREFIX):
            # Kafka has headers without any value; an adapter writes none.
            if value is None:
                return None
            found[name] = value
    try:
        texts = [found[_PREFIX + name].decode() for name in _TEXTS]
        minor = found.get(f"{_PREFIX}amount-minor")
        money = None
        if minor is not None:
            currency = found[f"{_PREFIX}currency"].decode()
            money = Money(minor=int(minor.decode()), currency=currency)
    except (KeyError, ValueError):
        return None
    if any(len(text) > TEXT_CHARS_MAX for text in texts):
        return None
    provider_key, action_key, request_hash, operation, account = texts
    return Asked(provider_key, action_key, request_hash, operation, account, money)
