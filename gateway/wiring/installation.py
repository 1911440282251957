"""What every process finds out about its installation before it works.

Guarantees that a process refuses to run where log and database do not belong together, and that who
may begin reading late begins at a point whose epoch is known. Called by the processes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

import asyncpg

from gateway.settings import Settings
from ledger.core.catalogue import Catalogue
from ledger.core.errors import LedgerError
from ledger.core.records import Genesis
from ledger.log.admin import cluster_id
from ledger.log.fold import Begin, PartitionFold
from ledger.log.follow import genesis_of
from ledger.log.kafka import KafkaLog
from ledger.log.principals import Principal
from ledger.log.topics import Topic
from projections.errors import SchemaAheadError
from projections.migrate import missing_migrations, read_migrations
from projections.queries import Queries
from projections.query_rows import OffsetRow
from projections.text_order import require_text_order
from reconciler.providers.kinds import kind_of
from reconciler.providers.registry import ProviderSettings
from reconciler.providers.simulated.api import API_KEY_PREFIX

logger = logging.getLogger("actionledger.process")

BEGIN_SECONDS_MAX: Final = 5.0
POOL_CONNECTIONS_MAX: Final = 4
SIMULATED: Final = "simulated"
NULL: Final = "null"
"""Says that every effect exists and makes none: for benchmarks. Its address is not used."""


class ForeignDatabaseError(LedgerError):
    """The tables were filled from another log, or that log has lost its end."""


class NotSetUpError(LedgerError):
    """The database lacks tables of this version: its set-up step has not run, or elsewhere."""


class UnknownProviderError(LedgerError):
    """The settings name a provider for which there is no adapter."""


_PRINCIPALS: Final = MappingProxyType(
    {
        "processor": Principal.PROCESSOR,
        "executor": Principal.EXECUTOR,
        "inquirer": Principal.INQUIRER,
        "reconciler": Principal.RECONCILER,
        "projector": Principal.PROJECTOR,
        "gateway": Principal.GATEWAY_INTENTS,
        "gateway-approvals": Principal.GATEWAY_APPROVALS,
        "gateway-webhooks": Principal.GATEWAY_WEBHOOKS,
        "setup": Principal.OPERATOR,
        "operator": Principal.OPERATOR,
    }
)


def open_log(settings: Settings, process: str) -> KafkaLog:
    """The installation's log, under the name of the process that uses it and as its principal.

    Opens no connection. Who is none of the processes reads, as the auditor; commands that write
    call themselves "operator". Raises NoLoginError.
    """
    return KafkaLog(
        settings.kafka_bootstrap,
        prefix=settings.topic_prefix,
        client_id=f"actionledger-{process}",
        access=settings.kafka.access(_PRINCIPALS.get(process, Principal.AUDITOR)),
        group_session_ms=settings.group_session_ms,
        group_member=settings.member,
    )


async def open_pool(
    settings: Settings,
    *,
    session: Mapping[str, str] | None = None,
    reset: "Callable[[asyncpg.Connection[asyncpg.Record]], Awaitable[None]] | None" = None,
) -> asyncpg.Pool:
    """A pool that connects when it is used: the database may be away. Close it. `session` are
    Postgres's own settings, by their names, for each of its connections; `reset` is done to one
    that is given back, instead of asking Postgres to forget all that was set for it.
    """
    return await asyncpg.create_pool(
        settings.database_url,
        min_size=0,
        max_size=POOL_CONNECTIONS_MAX,
        server_settings=dict(session or {}),
        reset=reset,
    )


async def begin_at(log: KafkaLog, pool: asyncpg.Pool, genesis: Genesis) -> dict[int, Begin]:
    """By partition the ledger offset up to which the tables are, and what is known there; after
    making sure that log and tables belong together.

    Empty where the database does not answer, or has nothing yet: then the ledger is read from its
    beginning. Raises ForeignDatabaseError, NotSetUpError, MigrationError, OtherTextOrderError.
    """
    try:
        async with asyncio.timeout(BEGIN_SECONDS_MAX):
            await require_text_order(pool)
            await _require_tables(pool)
            offsets = await Queries(pool).offsets()
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as away:
        logger.warning("begins_at_zero", extra={"reason": repr(away)})
        return {}
    known = {part: view for part, view in offsets.items() if view.generation is not None}
    if known:
        await _require_same_log(log, genesis, known)
    return {part: view.begin for part, view in known.items()}


async def folds_at(settings: Settings, log: KafkaLog) -> dict[int, PartitionFold]:
    """Where a command begins to read each partition: where the tables are, or at the beginning
    while the database is away or was filled from another log.
    """
    genesis = await genesis_of(log)
    folds = {part: PartitionFold(part) for part in range(genesis.partitions)}
    try:
        async with asyncio.timeout(BEGIN_SECONDS_MAX), await open_pool(settings) as pool:
            offsets = await Queries(pool).offsets()
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as away:
        logger.warning("begins_at_zero", extra={"reason": repr(away)})
        return folds
    for part, view in offsets.items():
        if part in folds and view.generation == genesis.generation:
            folds[part].begin(view.begin)
            folds[part].positions = dict(view.positions)
    return folds


async def _require_tables(pool: asyncpg.Pool) -> None:
    """See that the set-up step of this version has run. A database that is ahead is left to whoever
    reads it: while versions are changed, older processes run beside it. One that was set up with
    other files under the same numbers is nobody's: MigrationError.
    """
    try:
        async with pool.acquire() as connection:
            missing = await missing_migrations(connection)
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        missing = [migration.file for migration in read_migrations()]
    except (SchemaAheadError, asyncpg.InsufficientPrivilegeError):
        return  # the second: set up by a version that did not let every login see this
    if missing:
        raise NotSetUpError(
            f"The database lacks tables of this version: {missing[0]} was not applied"
            f" ({len(missing)} of this kind).",
            hint="`actionledger run setup` of this version makes them, as the owner of the "
            "database; see that ACTIONLEDGER_DATABASE names the same one, and start this again.",
        )


async def _require_same_log(
    log: KafkaLog, genesis: Genesis, known: Mapping[int, OffsetRow]
) -> None:
    cluster = await cluster_id(log)
    foreign = sorted(
        part
        for part, view in known.items()
        if view.generation != genesis.generation
        or view.cluster not in {None, cluster}
        or part >= genesis.partitions
    )
    places = {(Topic.LEDGER.value, part): 0 for part in range(genesis.partitions)}
    reader = await log.reader(places)
    try:
        ends = await reader.end_offsets(places)
    finally:
        await reader.close()
    beyond = sorted(
        part
        for part, view in known.items()
        if ends.get((Topic.LEDGER.value, part), 0) < view.next_offset
    )
    if foreign or beyond:
        raise ForeignDatabaseError(
            f"The database knows another log (partitions {foreign or beyond}).",
            hint="Point ACTIONLEDGER_DATABASE at the database of this log; if the log lost "
            "records, restore it before anything runs on.",
        )


def providers(settings: Settings, catalogue: Catalogue | None) -> list[ProviderSettings]:
    """Every provider that the settings name: described by a file, or shipped with an address, with
    the accounts that the catalogue uses.

    Raises UnknownProviderError.
    """
    described = [
        ProviderSettings(
            name,
            kind_of(path),
            settings.provider_urls.get(name),
            webhook_secrets=_secrets_of(settings, name),
            adapter_file=path,
        )
        for name, path in settings.provider_files.items()
    ]
    shipped = [
        _shipped(settings, catalogue, name, url)
        for name, url in settings.provider_urls.items()
        if name not in settings.provider_files
    ]
    return described + shipped


def _shipped(
    settings: Settings, catalogue: Catalogue | None, name: str, url: str
) -> ProviderSettings:
    match name:
        case "null":
            return ProviderSettings(name, NULL)
        case "simulated":
            operations = () if catalogue is None else catalogue.operations
            accounts = {one.account for one in operations if one.provider == name}
            keys = {account: API_KEY_PREFIX + account for account in accounts}
            return ProviderSettings(name, SIMULATED, url, keys, _secrets_of(settings, name))
        case _:
            raise UnknownProviderError(
                f"There is no adapter for the provider {name!r}.",
                hint=f"Describe it in {name}.toml and name that file in "
                f"ACTIONLEDGER_PROVIDER_FILES; {SIMULATED!r} is the one that needs none.",
            )


def _secrets_of(settings: Settings, name: str) -> tuple[str, ...]:
    return tuple(
        secret
        for (provider, _), several in settings.webhook_secrets.items()
        if provider == name
        for secret in several
    )
