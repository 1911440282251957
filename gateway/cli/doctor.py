"""`doctor`: look at everything the ledger needs, one line each, with what to do where it fails."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from gateway.cli.output import Exit, Json, Output
from ledger.core.errors import LedgerError

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.settings import Settings

CHECK_SECONDS_MAX = 10.0
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Finding:
    """What one look found. `hint` says what to do where it is not well."""

    check: str
    is_well: bool
    detail: str
    hint: str = ""


Check = Callable[["Settings"], Awaitable[str]]
"""One look: returns what it saw, raises what is wrong."""


class FoundError(LedgerError):
    """Something is not as it must be."""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor", rich_help_panel="Operating")(doctor)


def doctor(as_json: Json = False) -> None:
    """Look at everything that the ledger needs; say what to do where it is wrong. Read only.

    Settings, servers, topics, permissions, tables, clocks and processes, one line each. Ends with
    1 where something is wrong.

    Example: actionledger doctor
    """
    from gateway.cli.place import own_settings

    out = Output("doctor", as_json=as_json)
    own = own_settings()
    findings = [asyncio.run(_look(name, check, own)) for name, check in _MACHINE]
    findings += asyncio.run(_installation())
    code = Exit.OK if all(one.is_well for one in findings) else Exit.TROUBLE
    out.answer({"findings": findings}, lambda console: _show(console, findings), code)


def _show(console: "Console", findings: list[Finding]) -> None:
    for one in findings:
        mark = "[green]✓[/]" if one.is_well else "[red]✗[/]"
        console.print(f"{mark} {one.check:<12} ", end="")
        console.print(one.detail, markup=False, soft_wrap=True)
        if not one.is_well and one.hint:
            console.print(f"  {'':<12} {one.hint}", markup=False, soft_wrap=True)


async def _installation() -> list[Finding]:
    """Everything beyond this machine, all at once."""
    from gateway.cli.place import settings

    try:
        known = settings()
    except LedgerError as missing:
        return [Finding("installation", is_well=False, detail=missing.message, hint=missing.hint)]
    return await asyncio.gather(*(_look(name, check, known) for name, check in _INSTALLATION))


async def _look(name: str, check: Check, settings: "Settings") -> Finding:
    from gateway.cli.trouble import as_trouble

    try:
        async with asyncio.timeout(CHECK_SECONDS_MAX):
            return Finding(name, is_well=True, detail=await check(settings))
    except Exception as fault:  # noqa: BLE001 - whatever it is, the other looks go on
        trouble = as_trouble(fault)
        if trouble is None:
            return Finding(name, is_well=False, detail=f"{type(fault).__name__}: {fault}")
        return Finding(name, is_well=False, detail=trouble.message, hint=trouble.hint)


# --- this machine ------------------------------------------------------------------------------


async def _python(_: "Settings") -> str:
    import platform

    return f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"


async def _folder(settings: "Settings") -> str:
    import shutil

    from gateway.local.state import require_space

    folder = settings.state_dir
    there = next(path for path in (folder, *folder.parents) if path.exists())
    require_space(there)
    free = shutil.disk_usage(there).free // 1_000_000
    return f"{folder}, {free:,} MB free"


async def _kafka_files(settings: "Settings") -> str:
    from gateway.local.jars import ensure_jars
    from gateway.local.java import find_java

    if not settings.cache_dir.exists():
        return f"{settings.cache_dir} is empty: the first `actionledger up` fetches 45 MB"
    java = find_java(settings.cache_dir, await asyncio.to_thread(ensure_jars, settings.cache_dir))
    made = "with" if java.aot_cache.exists() else "without"
    return f"{settings.cache_dir}, every file as locked, {made} the cache for a fast start"


async def _local(settings: "Settings") -> str:
    from gateway.local.control import status
    from gateway.local.state import Phase

    found = status(settings.state_dir)
    if found.failure is not None:
        raise FoundError(found.failure[0], hint=found.failure[1])
    bad = [one for one in found.processes if one.phase not in {Phase.READY, Phase.DONE}]
    if found.phase is Phase.READY and bad:
        names = ", ".join(f"{one.name} ({one.phase.value})" for one in bad)
        raise FoundError(f"Not running: {names}.", hint=f"See {bad[0].log}.")
    for one in found.processes:
        if one.is_still:
            raise FoundError(
                f"{one.name} runs and has not moved for {one.still_ms // 1_000} s.",
                hint=f"See {one.log}. Somebody may have stopped it: `kill -CONT {one.pid}`; ended "
                f"with `kill -KILL {one.pid}` it is started again, and nothing is lost.",
            )
    again = sum(one.restarts for one in found.processes)
    return f"{found.phase.value}, {len(found.processes)} programs, started again: {again}"


# --- the installation --------------------------------------------------------------------------


async def _kafka(settings: "Settings") -> str:
    from gateway.wiring.installation import open_log
    from ledger.log.follow import genesis_of

    genesis = await genesis_of(open_log(settings, "doctor"))
    return (
        f"{settings.kafka_bootstrap}, {genesis.partitions} partitions, "
        f"generation {genesis.generation}"
    )


async def _topics(settings: "Settings") -> str:
    from gateway.wiring.installation import open_log
    from ledger.log.admin import check_topics

    differences = await check_topics(
        open_log(settings, "doctor"),
        partitions=settings.partitions,
        flush_records=settings.flush.records,
    )
    if differences:
        first = differences[0]
        raise FoundError(
            f"{len(differences)} differences, such as {first.topic}: {first.setting} is "
            f"{first.found}, must be {first.wanted}.",
            hint="See `actionledger topics check`.",
        )
    return "all as they must be"


async def _permissions(settings: "Settings") -> str:
    from gateway.cli.acl import reader_of

    if not settings.kafka.protocol.has_login:
        return "nobody logs in at this broker, so nobody is kept from anything"
    declared = settings.kafka.declared(settings.topic_prefix)
    found = await reader_of(settings).compare(declared)
    if not found.is_equal:
        wrong = [f"missing: {one}" for one in found.missing]
        wrong += [f"missing: the login {name}" for name in found.users_missing]
        wrong += [f"surplus: {one}" for one in found.surplus]
        raise FoundError(
            f"{len(wrong)} permissions differ, such as {wrong[0]}.",
            hint="See `actionledger acl check`; `acl apply` sets them right.",
        )
    return f"{len(declared.entries)} permissions of {len(declared.names)} principals, as declared"


async def _database(settings: "Settings") -> str:
    from gateway.wiring.installation import begin_at, open_log, open_pool
    from ledger.log.follow import genesis_of
    from projections.migrate import missing_migrations, read_migrations

    log = open_log(settings, "doctor")
    async with await open_pool(settings) as pool:
        version = await pool.fetchval("show server_version")
        async with pool.acquire() as connection:
            missing = await missing_migrations(connection)
        await begin_at(log, pool, await genesis_of(log))
    wanted = len(read_migrations())
    if missing:
        raise FoundError(
            f"{wanted - len(missing)} of {wanted} migrations are applied.",
            hint="Run `actionledger run setup`.",
        )
    return f"Postgres {version}, {wanted} migrations, of the same log"


async def _rights(settings: "Settings") -> str:
    from gateway.wiring.installation import open_pool
    from projections.grants import access_differences
    from projections.statements import LIVE_SCHEMA

    async with await open_pool(settings) as pool, pool.acquire() as connection:
        differences = await access_differences(connection, LIVE_SCHEMA)
    if differences:
        raise FoundError(
            f"{len(differences)} differences from what is declared, such as: {differences[0]}.",
            hint="Run `actionledger run setup` as the owner of the database.",
        )
    return "every role has what is declared, and row-level security is forced"


async def _lag(settings: "Settings") -> str:
    from gateway.wiring.installation import open_log, open_pool
    from ledger.log.topics import Topic
    from projections.queries import Queries, lag

    log = open_log(settings, "doctor")
    async with await open_pool(settings) as pool:
        offsets = await Queries(pool).offsets()
    places = {(Topic.LEDGER.value, part): 0 for part in range(settings.partitions)}
    reader = await log.reader(places)
    try:
        ends = await reader.end_offsets(places)
    finally:
        await reader.close()
    behind = sum(lag(offsets, {part: end for (_, part), end in ends.items()}).values())
    return f"the tables are {behind:,} records behind the ledger"


async def _providers(settings: "Settings") -> str:
    """Read every description and credential that the settings name, and hold the catalogue against
    what they promise. Asks no provider anything.
    """
    from gateway.wiring.installation import open_log, providers
    from ledger.log.follow import published_catalogue
    from reconciler.providers.promises import beyond
    from reconciler.providers.registry import capabilities, finders

    catalogue = await published_catalogue(open_log(settings, "doctor"))
    known = providers(settings, catalogue)
    for client in finders(known).values():
        await client.close()
    can = capabilities(known)
    for operation in () if catalogue is None else catalogue.operations:
        kept = can.get(operation.provider)
        for path, said in () if kept is None else beyond(operation, kept):
            raise FoundError(
                f"{operation.name} v{operation.version}: {'.'.join(map(str, path))} {said}.",
                hint="Correct the catalogue; `actionledger provider check` names every line.",
            )
    return f"{', '.join(can) or 'none'} named by these settings, and nothing relied on beyond them"


async def _webhooks(settings: "Settings") -> str:
    """How much that providers said is nobody's, and since when."""
    from gateway.wiring.installation import open_pool
    from reconciler.limits import UNMATCHED_ALARM_MS
    from reconciler.webhook_rows import unmatched
    from streams.clock import wall_ms

    now_ms = wall_ms()
    async with await open_pool(settings) as pool:
        found = await unmatched(pool, now_ms=now_ms)
    oldest_at = min((one.oldest_at for one in found if one.oldest_at is not None), default=now_ms)
    waiting, expired = sum(one.waiting for one in found), sum(one.expired for one in found)
    said = f"{waiting:,} webhooks are nobody's yet, {expired:,} have expired"
    if now_ms - oldest_at > UNMATCHED_ALARM_MS:
        minutes = (now_ms - oldest_at) // 60_000
        raise FoundError(
            f"{said}; the oldest waits for {minutes:,} minutes.",
            hint="See `actionledger webhook list --state parked`; `webhook show` names what each "
            "may be about.",
        )
    return said


async def _events(settings: "Settings") -> str:
    """Whether a provider may have told something that nobody read, and that it keeps no more."""
    from datetime import UTC, datetime

    from gateway.wiring.installation import open_pool
    from reconciler.pulling import holes

    async with await open_pool(settings) as pool:
        found = await holes(pool)
    for one in found:
        since, until = (
            datetime.fromtimestamp(at_ms // 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            for at_ms in (one.since, one.until + 999)
        )
        raise FoundError(
            f"Events of {one.provider}.{one.account} from {since} to {until} may be lost: its list "
            "was not read for longer than it keeps them.",
            hint=f"Compare the effects of that time: `actionledger provider compare {one.provider} "
            f"--account {one.account} --since {since} --until {until}`, or shorter times from "
            "either end one after the other. It finds effects alone: look at the provider for what "
            "else it told then, such as disputes.",
        )
    return "every list of events was read in time"


async def _quarantine(settings: "Settings") -> str:
    """How much was set aside in the last day and not put back. Nothing waits for it."""
    from gateway.wiring.installation import open_log
    from gateway.wiring.quarantine_desk import Filter, list_quarantine
    from streams.clock import wall_ms

    wanted = Filter(since=wall_ms() - DAY_MS, is_waiting=True)
    found = await list_quarantine(open_log(settings, "cli"), wanted)
    if not found:
        return "nothing was set aside in the last day"
    return f"{len(found):,} set aside in the last day: actionledger quarantine list --waiting"


async def _notices(settings: "Settings") -> str:
    """Read who is told that something waits, with the secrets of each. Calls nobody."""
    from reconciler.notifying.destinations import load_destinations

    if settings.notify_file is None:
        return "nobody is told that something waits"
    told = load_destinations(settings.notify_file).all
    return f"told what waits: {', '.join(one.id for one in told) or 'nobody'}"


async def _clock(settings: "Settings") -> str:
    """Compare this machine's clock with that of the database; the broker's needs a write."""
    from gateway.wiring.installation import open_log
    from ledger.log.follow import published_catalogue
    from streams.clock import wall_ms

    log = open_log(settings, "doctor")
    catalogue = await published_catalogue(log)
    allowed_ms = 5_000 if catalogue is None else catalogue.timing.skew_ms
    apart_ms = await _apart_ms(settings, wall_ms)
    if apart_ms > allowed_ms:
        raise FoundError(
            f"This machine's clock and Postgres's are {apart_ms} ms apart, not {allowed_ms}.",
            hint="Set both clocks right (NTP).",
        )
    ahead_ms = await _log_ahead_ms(settings, wall_ms)
    if ahead_ms > allowed_ms:
        raise FoundError(
            f"The ledger was decided on by clocks that were {ahead_ms} ms ahead of now, and have "
            "been set back: nothing is started before they are there again.",
            hint="Keep the clocks right (NTP), and wait: no time that stands in the log is undone.",
        )
    return f"{apart_ms} ms apart from Postgres, {allowed_ms} ms allowed"


async def _log_ahead_ms(settings: "Settings", wall_ms: Callable[[], int]) -> int:
    from gateway.wiring.installation import open_pool
    from projections.queries import Queries

    async with await open_pool(settings) as pool:
        offsets = await Queries(pool).offsets()
    return max((one.decided_at - wall_ms() for one in offsets.values()), default=0)


async def _apart_ms(settings: "Settings", wall_ms: Callable[[], int]) -> int:
    from gateway.wiring.installation import open_pool

    async with await open_pool(settings) as pool:
        await pool.fetchval("select 1")
        before = wall_ms()
        there = await pool.fetchval("select (extract(epoch from clock_timestamp()) * 1000)::bigint")
        after = wall_ms()
    return abs(int(there) - (before + after) // 2)


async def _door(settings: "Settings") -> str:
    import httpx

    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(f"{settings.url}/readyz")
    if not answer.is_success:
        raise FoundError(
            f"{settings.url} answers that it is not ready.", hint=f"See {settings.url}/readyz."
        )
    return f"{settings.url}, ready"


_MACHINE: tuple[tuple[str, Check], ...] = (
    ("python", _python),
    ("state folder", _folder),
    ("Kafka files", _kafka_files),
    ("processes", _local),
)
_INSTALLATION: tuple[tuple[str, Check], ...] = (
    ("Kafka", _kafka),
    ("topics", _topics),
    ("permissions", _permissions),
    ("database", _database),
    ("rights", _rights),
    ("projector", _lag),
    ("providers", _providers),
    ("webhooks", _webhooks),
    ("events", _events),
    ("quarantine", _quarantine),
    ("notices", _notices),
    ("clocks", _clock),
    ("HTTP door", _door),
)
