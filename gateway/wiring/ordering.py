"""Holds and releases onto the log: published at once, then adopted by every partition.

Guarantees that an order which is published stands whatever else is away, that the same hold twice
is one, and that nobody is told of a hold that is not in force. Called by the command line.
"""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from gateway.settings import Settings
from gateway.tenant_names import Spelling, check_spelling, tenants_of
from gateway.wiring.installation import folds_at, open_log
from ledger.core.errors import LedgerError
from ledger.core.holds import (
    HOLD,
    RELEASE,
    Hold,
    Holds,
    NotOrderable,
    Order,
    Scope,
    hold_of,
    objection_to,
    order_hash,
)
from ledger.core.inputs import Publish
from ledger.core.limits import HOLDS_MAX
from ledger.log.adoption import await_adopted
from ledger.log.envelope import outgoing
from ledger.log.kafka import KafkaLog
from ledger.log.published import Published, read_published
from ledger.log.topics import Topic


class NotHeldError(LedgerError):
    """A release names what is not held."""


class TooManyHoldsError(LedgerError):
    """There are as many holds as there may be."""


class UnknownScopeError(LedgerError):
    """A hold names a provider or an operation that the catalogue does not have: it would look like
    safety and be none.
    """


class OvertakenError(LedgerError):
    """Another order about the same came in between, so that this one is not in force."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """An order in the log. `was_published` is False where it was in force before; `waiting` are the
    partitions that have not adopted it yet.
    """

    scope: Scope
    was_published: bool
    offset: int
    partitions: int
    waiting: tuple[int, ...]


async def holds_in_force(settings: Settings) -> Holds:
    """Every hold that was published and not released, in their order."""
    return (await read_published(open_log(settings, "cli"))).holds


async def order(
    settings: Settings,
    kind: str,
    given: Order,
    *,
    timeout_ms: int,
    spelling: Spelling = "checked",
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> Ordered:
    """Publish a hold or a release, and wait until every partition has adopted it. A tenant in
    another spelling than a known one is held where it is meant as written.

    Raises NotHeldError, TooManyHoldsError, UnknownScopeError, TenantSpellingError, OvertakenError,
    AppendUnknownError, and what reading the log raises.
    """
    log = open_log(settings, "operator")
    published = await read_published(log)
    known = hold_of(published.holds, given.scope)
    objection = _objection(kind, given, published)
    if objection is not None:
        raise objection
    tenant = given.scope.tenant if spelling == "checked" else None
    if kind == HOLD and known is None and tenant is not None:
        # As with a provider that nobody has: it would look like safety and be none.
        check_spelling(tenant, tenants_of(settings.api_keys_file, published.people))
    was_published = kind == RELEASE or known is None
    offset = await _publish(log, kind, given) if was_published else _offset_of(known)
    # The order stands from here on: what follows only tells who has heard of it.
    folds = await folds_at(settings, log)
    waiting = await await_adopted(
        log,
        folds,
        offset,
        timeout_ms=timeout_ms,
        progress=lambda done: progress(done, len(folds)),
    )
    in_force = hold_of((await read_published(log)).holds, given.scope)
    if (in_force is not None) != (kind == HOLD):
        raise OvertakenError(
            f"Another order about {given.scope} came in between.",
            hint="Look at `actionledger holds`, and say it again if it is still meant.",
        )
    return Ordered(given.scope, was_published, offset, len(folds), waiting)


def _offset_of(known: Hold | None) -> int:
    assert known is not None  # noqa: S101 - the caller has looked
    return known.offset


def _objection(kind: str, given: Order, published: Published) -> LedgerError | None:
    match objection_to(kind, given, published.holds):
        case NotOrderable.NOT_HELD:
            held = ", ".join(f"[{one.scope}]" for one in published.holds) or "nothing"
            named = str(given.scope)
            return NotHeldError(
                f"{named[:1].upper()}{named[1:]} is not held.",
                hint=f"A release names exactly what a hold named. Held: {held}.",
            )
        case NotOrderable.TOO_MANY_HOLDS:
            return TooManyHoldsError(
                f"There are {HOLDS_MAX} holds already.",
                hint="Hold a provider or a tenant as a whole, or everything with --all.",
            )
        case NotOrderable.HELD_ALREADY | None:
            pass
    if kind == HOLD and published.catalogue is not None:
        operations = published.catalogue.operations
        return _unknown("provider", given.scope.provider, {one.provider for one in operations}) or (
            _unknown("operation", given.scope.operation, {one.name for one in operations})
        )
    return None


def _unknown(what: str, name: str | None, known: set[str]) -> UnknownScopeError | None:
    if name is None or name in known:
        return None
    close = get_close_matches(name, sorted(known), n=1)
    meant = f"Did you mean {close[0]}? " if close else ""
    return UnknownScopeError(
        f"The catalogue has no {what} {name!r}: this hold would hold nothing.",
        hint=f"{meant}It has: {', '.join(sorted(known))}.",
    )


async def _publish(log: KafkaLog, kind: str, given: Order) -> int:
    """Append the order; its offset on the config topic."""
    content = given.model_dump_json(exclude_none=True)
    content_hash = order_hash(content)
    published = Publish.model_validate(
        {"kind": kind, "content": content, "content_hash": content_hash}
    )
    record = outgoing(
        published,
        stream=kind,
        subject=None,
        event_id=content_hash,
        source="/actionledger/operator",
    )
    appender = await log.appender()
    try:
        (appended,) = await appender.append(Topic.CONFIG, 0, [record])
    finally:
        await appender.close()
    return appended.offset
