"""A provider's own list of effects against the actions of the ledger, for one account and a time.

Guarantees that every listed effect which is not that of a completed action, to the last minor unit,
is brought as a line of the topic `webhooks`: so an effect that nobody asked for is raised, and one
of an uncertain action settles it. And that an effect is said to be missing only from a list that
was read to its end, for a time that the provider's search shows already. Must never conclude
anything else from absence: the lookups of the ledger do. Called by the command line and by the
inquirer's process.
"""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import asyncpg

from ledger.core.canonical import canonicalize
from ledger.core.errors import LedgerError
from ledger.core.excerpt import excerpt
from ledger.core.limits import INTEGER_MAX, TEXT_CHARS_MAX
from ledger.core.strict_json import character_fault
from reconciler.evidence import UNREPORTABLE
from reconciler.limits import (
    CLOCKS_APART_MS,
    COMPARE_BACK_MS,
    COMPARE_BEHIND_MS,
    COMPARE_EVERY_MS,
    COMPARED_AT_ONCE,
    COMPARED_MAX,
    DIFFERENCES_MAX,
    LINE_ID_CHARS_MAX,
    LISTING_PAGE_MS,
)
from reconciler.providers.port import Finder, ListedEffect, ListingFailed
from reconciler.receiving import is_trouble
from reconciler.sql_files import statements
from reconciler.statement_intake import Brought, StatementIntake
from reconciler.statement_lines import NOT_LISTED, StatementLine

logger = logging.getLogger("actionledger")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class TooManyEffectsError(LedgerError):
    """A list is longer than one comparison remembers."""


@dataclass(frozen=True, slots=True)
class Period:
    """A time in milliseconds since 1970; `until` is not in it."""

    since: int
    until: int


@dataclass(frozen=True, slots=True)
class NotListed:
    """A completed action whose effect a whole list of its time does not have."""

    action_key: str
    reference: str | None
    operation: str
    proof: str | None


@dataclass(slots=True)
class Comparison:
    """What a list said. `ended_early` is why it was not read to its end, or not all of it could be
    told; then nothing is said to be missing from it. `whole` is the time of which all was compared,
    None where not all was. `brought` are the first of the lines that were brought, `unlisted` those
    that say of `missing` what the list lacks; `told_missing` of these had not been told before.
    """

    provider: str
    account: str
    period: Period
    listed: int = 0
    in_order: int = 0
    told: int = 0
    ended_early: str | None = None
    whole: Period | None = None
    not_listed: int = 0
    missing: list[NotListed] = field(default_factory=list)
    told_missing: int = 0
    brought: list[Brought] = field(default_factory=list)
    unlisted: list[Brought] = field(default_factory=list)


@dataclass(slots=True)
class _Marks:
    """Short hashes of every name and key that a list has."""

    seen: set[bytes] = field(default_factory=set)

    def add(self, effect: ListedEffect) -> None:
        for name in (effect.reference, effect.action_key, effect.provider_key):
            if name is not None:
                self.seen.add(_short(name))

    def has(self, *names: str | None) -> bool:
        return any(_short(name) in self.seen for name in names if name is not None)


async def compare(
    finder: Finder,
    bringer: StatementIntake,
    pool: asyncpg.Pool,
    comparison: Comparison,
    *,
    shown_until: int,
    silent: Collection[str] = (),
    report: Callable[[int], None] = lambda _: None,
) -> None:
    """Read the list of a period and bring what differs. `shown_until` is up to when the provider's
    list shows effects, by our clock; operations in `silent` make no effects. Raises what Postgres
    and the log raise, and TooManyEffectsError; calling again brings nothing twice.
    """
    marks = _Marks()
    period = comparison.period
    try:
        async for page in _pages(finder, comparison):
            effects = _tellable(page, comparison)
            for effect in effects:
                marks.add(effect)
            if len(marks.seen) > 2 * COMPARED_MAX:
                raise TooManyEffectsError(
                    f"The list has more than {COMPARED_MAX} effects of this time.",
                    hint="Compare shorter periods one after the other.",
                )
            comparison.listed += len(page)
            report(comparison.listed)
            await _bring(effects, bringer, pool, comparison)
    except ListingFailed as failed:
        comparison.ended_early = failed.code
    if comparison.ended_early is not None:
        return
    whole = Period(period.since, min(period.until, shown_until))
    await _miss(marks, bringer, pool, comparison, whole, silent)
    comparison.whole = whole


async def _pages(finder: Finder, comparison: Comparison) -> AsyncIterator[list[ListedEffect]]:
    page: list[ListedEffect] = []
    listing = finder.list_effects(
        account=comparison.account,
        since_at=comparison.period.since,
        timeout_ms=LISTING_PAGE_MS,
    )
    async for effect in listing:
        if effect.committed_at >= comparison.period.until:
            continue
        page.append(effect)
        if len(page) == COMPARED_AT_ONCE:
            yield page
            page = []
    if page:
        yield page


def _tellable(page: Sequence[ListedEffect], comparison: Comparison) -> list[ListedEffect]:
    """Those of a page that can be lines, and asked about in the tables. What an adapter gives
    besides is told in the log, and keeps none of the others from being compared.
    """
    told = []
    for effect in page:
        try:
            _require_storable(effect)
            line_of_effect(effect)
        except Exception as failure:
            comparison.ended_early = UNREPORTABLE
            logger.exception(
                "effect_unreportable",
                extra={
                    "provider": comparison.provider,
                    "account": comparison.account,
                    "reference": excerpt(str(effect.reference)),
                    "failure": type(failure).__name__,
                },
            )
        else:
            told.append(effect)
    return told


def _require_storable(effect: ListedEffect) -> None:
    """Raises ValueError for a name that no column holds."""
    names = (effect.reference, effect.operation, effect.provider_key, effect.action_key)
    if any(name is not None and character_fault(name) is not None for name in names):
        raise ValueError("a name with a character that no text here may have")


async def _bring(
    effects: Sequence[ListedEffect],
    bringer: StatementIntake,
    pool: asyncpg.Pool,
    comparison: Comparison,
) -> None:
    """Bring those that are not in order and have no row yet."""
    moneys = [effect.money for effect in effects]
    rows = await pool.fetch(
        statements("reconciler", "comparing.sql")["in_order"],
        comparison.provider,
        comparison.account,
        list(range(len(effects))),
        [effect.reference for effect in effects],
        [None if money is None else money.minor for money in moneys],
        [None if money is None else money.currency for money in moneys],
        [effect.action_key for effect in effects],
    )
    in_order = {row["place"] for row in rows}
    comparison.in_order += len(in_order)
    lines = [
        bringer.brought_line(line_of_effect(effect))
        for place, effect in enumerate(effects)
        if place not in in_order
    ]
    if not lines:
        return
    known = await bringer.rows_of([line.sought for line in lines])
    unknown = [line for line, is_known in zip(lines, known, strict=True) if not is_known]
    if unknown:
        await bringer.send(unknown)
    comparison.told += len(unknown)
    comparison.brought += lines[: DIFFERENCES_MAX - len(comparison.brought)]


async def _miss(
    marks: _Marks,
    bringer: StatementIntake,
    pool: asyncpg.Pool,
    comparison: Comparison,
    whole: Period,
    silent: Collection[str],
) -> None:
    """Find completed actions of the time whose effect no line of the list names, and bring a line
    about each: a person has to look, and nothing else follows.
    """
    since = _EPOCH + timedelta(milliseconds=whole.since + CLOCKS_APART_MS)
    until = _EPOCH + timedelta(milliseconds=whole.until - CLOCKS_APART_MS)
    after = ""
    while True:
        rows = await pool.fetch(
            statements("reconciler", "comparing.sql")["completed_within"],
            comparison.provider,
            comparison.account,
            since,
            until,
            list(silent),
            after,
            COMPARED_AT_ONCE,
        )
        missing = [
            NotListed(*row)
            for row in rows
            if not marks.has(row["provider_reference"], row["action_key"])
        ]
        lines = [bringer.brought_line(line_of_missing(one, whole.since)) for one in missing]
        known = await bringer.rows_of([line.sought for line in lines]) if lines else []
        unknown = [line for line, is_known in zip(lines, known, strict=True) if not is_known]
        if unknown:
            await bringer.send(unknown)
        comparison.not_listed += len(missing)
        comparison.told_missing += len(unknown)
        room = DIFFERENCES_MAX - len(comparison.missing)
        comparison.missing += missing[:room]
        comparison.unlisted += lines[:room]
        if len(rows) < COMPARED_AT_ONCE:
            return
        after = rows[-1]["action_key"]


def line_of_effect(effect: ListedEffect) -> StatementLine:
    """A listed effect as a line. The same effect gives the same line; a name that is too long to be
    an id is one by its hash.
    """
    name = effect.reference
    fits = len(name) <= LINE_ID_CHARS_MAX and name.isprintable()
    said = [
        effect.reference,
        effect.operation,
        effect.provider_key,
        effect.action_key,
        None if effect.money is None else effect.money.model_dump(),
        effect.committed_at,
    ]
    return StatementLine(
        line_id=name if fits else hashlib.sha256(name.encode()).hexdigest(),
        reference=name,
        action_key=_fitting(effect.action_key),
        provider_key=_fitting(effect.provider_key),
        operation=_fitting(effect.operation),
        money=effect.money,
        effect="exists",
        occurred_at=min(max(effect.committed_at, 0), INTEGER_MAX),
        raw_sha256=hashlib.sha256(canonicalize(said)).hexdigest(),
    )


def line_of_missing(one: NotListed, since: int) -> StatementLine:
    """What a whole list lacks as a line. The same action gives the same line, whatever the time."""
    said = [one.action_key, one.reference]
    return StatementLine(
        line_id=f"{NOT_LISTED}/{hashlib.sha256(one.action_key.encode()).hexdigest()}",
        reference=one.reference or one.action_key,
        action_key=one.action_key,
        operation=NOT_LISTED,
        effect="unlisted",
        occurred_at=min(max(since, 0), INTEGER_MAX),
        raw_sha256=hashlib.sha256(canonicalize(said)).hexdigest(),
    )


def _fitting(text: str | None) -> str | None:
    """A mark that fits a line; a longer one is none of ours."""
    return text if text is not None and len(text) <= TEXT_CHARS_MAX else None


def _short(name: str) -> bytes:
    return hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=12).digest()


@dataclass(frozen=True, slots=True)
class Compared:
    """One account that a running installation compares by itself."""

    provider: str
    account: str
    finder: Finder
    bringer: StatementIntake
    search_lag_ms: int
    silent: frozenset[str] = frozenset()


async def compare_by_itself(
    accounts: Sequence[Compared],
    pool: asyncpg.Pool,
    stop: asyncio.Event,
    *,
    now_ms: Callable[[], int],
    every_ms: int = COMPARE_EVERY_MS,
) -> None:
    """Compare the last day of every account, again and again. One account's trouble is told and
    delays the others no longer than its own pages take.
    """
    while not stop.is_set():
        for one in accounts:
            try:
                await _compare_one(one, pool, now_ms())
            except Exception as failure:
                # Whatever an adapter does against its word, the others are compared.
                stack = None if is_trouble(failure) else failure
                logger.warning(
                    "compare_failed",
                    exc_info=stack,
                    extra={
                        "provider": one.provider,
                        "account": one.account,
                        "failure": repr(failure),
                    },
                )
        try:
            async with asyncio.timeout(every_ms / 1_000):
                await stop.wait()
        except TimeoutError:
            continue


async def _compare_one(one: Compared, pool: asyncpg.Pool, now: int) -> None:
    period = Period(now - COMPARE_BACK_MS, now - COMPARE_BEHIND_MS)
    comparison = Comparison(one.provider, one.account, period)
    await compare(
        one.finder,
        one.bringer,
        pool,
        comparison,
        shown_until=now - one.search_lag_ms,
        silent=one.silent,
    )
    told = {
        "provider": one.provider,
        "account": one.account,
        "listed": comparison.listed,
        "in_order": comparison.in_order,
        "told": comparison.told,
        "not_listed": comparison.not_listed,
        "told_missing": comparison.told_missing,
        "missing": [each.action_key for each in comparison.missing[:10]],
        "ended_early": comparison.ended_early,
    }
    if comparison.told or comparison.told_missing or comparison.ended_early:
        logger.warning("provider_compared", extra=told)
    else:
        logger.info("provider_compared", extra=told)
