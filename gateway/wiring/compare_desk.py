"""Comparing a provider with the ledger: by command for a period, and by itself in a running
installation.

Guarantees that what is reported is what the ledger made of each difference. Called by the command
line and by the inquirer's process.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import asyncpg

from gateway.credentials import NoLoginError
from gateway.settings import Settings
from gateway.wiring.import_desk import bringing, decided
from gateway.wiring.installation import open_log, open_pool, providers
from ledger.core.catalogue import Catalogue
from ledger.core.errors import LedgerError
from ledger.log.follow import published_catalogue
from ledger.log.steady import SteadyAppender
from reconciler.comparing import Compared, Comparison, NotListed, Period, compare
from reconciler.providers import registry
from reconciler.providers.adapter import ProviderSettings
from reconciler.providers.port import IMPOSSIBLE, Duration, Finder
from reconciler.pulling import Hole, close_hole
from reconciler.statement_intake import Finding, Standing, StatementIntake
from streams.clock import wall_ms

logger = logging.getLogger("actionledger")

READS: Final = "read"
"""The kind of operations that have no effect at the provider, so that no list can have it."""


class CannotCompareError(LedgerError):
    """This provider has no list of its effects, or is not known here."""


@dataclass(frozen=True, slots=True)
class Told:
    """A listed effect that is not simply in order, and what the ledger made of it; whether a person
    has looked at it.
    """

    reference: str
    standing: Standing
    why: str | None
    action_key: str | None
    is_noted: bool = False


@dataclass(slots=True)
class Report:
    """What a comparison found. `settled` are lines that agreed with an action which had not been
    completed; `listed` is the sum of `in_order` and what follows it up to `noted`, where at most
    1,000 differ. `noted` are differences that a person has looked at, of `not_listed` those are
    `not_listed_noted`.
    """

    provider: str
    account: str
    since: int
    until: int
    listed: int = 0
    in_order: int = 0
    settled: int = 0
    orphans: int = 0
    conflicting: int = 0
    waiting: int = 0
    noted: int = 0
    not_listed_noted: int = 0
    not_followed: int = 0
    not_listed: int = 0
    ended_early: str | None = None
    differences: list[Told] = field(default_factory=list)
    missing: list[NotListed] = field(default_factory=list)


async def compare_provider(
    settings: Settings, provider: str, account: str, period: Period, *, patience_ms: int
) -> Report:
    """Compare one account, and follow what was brought as an import does.

    Raises CannotCompareError, UnusableProvider, and what log and tables raise.
    """
    catalogue = await published_catalogue(open_log(settings, "cli"))
    known = [one for one in providers(settings, catalogue) if one.name == provider]
    _require_list(known, provider)
    finder = registry.finders(known)[provider]
    try:
        async with (
            bringing(settings, "listing", provider, account) as bringer,
            await open_pool(settings) as pool,
        ):
            comparison = Comparison(provider, account, period)
            await compare(
                finder,
                bringer,
                pool,
                comparison,
                shown_until=wall_ms() - _lag_ms(known[0]),
                silent=_silent(catalogue, provider),
            )
            findings = await decided(
                bringer,
                [one.sought for one in (*comparison.brought, *comparison.unlisted)],
                patience_ms=patience_ms,
            )
            # Whoever was kept from hearing what the comparison found is told of the hole still.
            if (whole := comparison.whole) is not None:
                await close_hole(pool, Hole(provider, account, whole.since, whole.until))
    finally:
        await finder.close()
    return report_of(comparison, findings)


def receivers_appender(settings: Settings) -> SteadyAppender | None:
    """An appender in the receiver's role, the only one that may write what providers say; None for
    a process that was not given its login.
    """
    try:
        return SteadyAppender(open_log(settings, "gateway-webhooks").appender)
    except NoLoginError:
        logger.warning("compares_nothing", extra={"reason": "no login as gateway-webhooks"})
        return None


def compared_accounts(
    known: Sequence[ProviderSettings],
    finders: Mapping[str, Finder],
    catalogue: Catalogue | None,
    appender: SteadyAppender,
    pool: asyncpg.Pool,
    *,
    partitions: int,
) -> list[Compared]:
    """Every account of the catalogue whose provider lists its effects."""
    operations = () if catalogue is None else catalogue.operations
    can = registry.capabilities(known)
    found = []
    for provider, account in sorted({(one.provider, one.account) for one in operations}):
        if provider not in can or not can[provider].lists_effects:
            continue
        bringer = StatementIntake(
            appender,
            pool,
            partitions=partitions,
            source="listing",
            provider=provider,
            account=account,
        )
        lag_ms = _bounded(can[provider].search_lag_ms)
        silent = _silent(catalogue, provider)
        found.append(Compared(provider, account, finders[provider], bringer, lag_ms, silent))
    return found


def _require_list(known: Sequence[ProviderSettings], provider: str) -> None:
    if not known:
        raise CannotCompareError(
            f"No provider here is called {provider!r}.",
            hint="Name its description in ACTIONLEDGER_PROVIDER_FILES.",
        )
    if not registry.capabilities(known)[provider].lists_effects:
        raise CannotCompareError(
            f"{provider} has no list of its effects.",
            hint="`actionledger provider show` says what it can do. A settlement file tells the "
            "same: `actionledger evidence import`.",
        )


def _lag_ms(one: ProviderSettings) -> int:
    return _bounded(registry.capabilities([one])[one.name].search_lag_ms)


def _bounded(lag: Duration) -> int:
    return 0 if lag is IMPOSSIBLE else lag


def _silent(catalogue: Catalogue | None, provider: str) -> frozenset[str]:
    operations = () if catalogue is None else catalogue.operations
    return frozenset(
        one.name for one in operations if one.provider == provider and one.kind == READS
    )


def report_of(comparison: Comparison, findings: Sequence[Finding]) -> Report:
    """What a comparison found, given what became of what it brought: of the effects that differ,
    then of those that the list lacks.
    """
    differing = findings[: len(comparison.brought)]
    unlisted = findings[len(comparison.brought) :]
    noted = sum(one.is_noted for one in unlisted)
    report = Report(
        comparison.provider,
        comparison.account,
        comparison.period.since,
        comparison.period.until,
        listed=comparison.listed,
        in_order=comparison.in_order,
        not_followed=comparison.listed - comparison.in_order - len(differing),
        not_listed=comparison.not_listed - noted,
        not_listed_noted=noted,
        ended_early=comparison.ended_early,
        missing=[
            one
            for one, found in zip(comparison.missing, unlisted, strict=True)
            if not found.is_noted
        ],
    )
    for brought, found in zip(comparison.brought, differing, strict=True):
        match found.standing:
            case _ if found.is_noted:
                report.noted += 1
            case Standing.MATCHED:
                report.settled += 1
            case Standing.UNMATCHED:
                report.orphans += 1
            case Standing.CONFLICTING:
                report.conflicting += 1
            case Standing.WAITING:
                report.waiting += 1
        reference = brought.said.reference or ""
        report.differences.append(
            Told(reference, found.standing, found.why, found.action_key, found.is_noted)
        )
    return report
