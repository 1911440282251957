"""`replay` and `rebuild`: fold the log again and hold the database against it."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.numbers import moment_of, whole_number
from gateway.cli.output import Exit, Json, Output, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from gateway.local.progress import Report
    from gateway.settings import Settings
    from ledger.audit.replay import Head, Replay
    from projections.rebuild import Afterwards, Rebuilt

PANEL = "Proof"
SHOWN_MAX = 20
SHA256_DIGITS = 64


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("replay", rich_help_panel=PANEL)(replay)
    app.command("rebuild", rich_help_panel=PANEL)(rebuild)


def replay(
    to_offset: Annotated[
        list[str] | None,
        typer.Option(help="Up to an offset of a partition, as P:O. Repeatable; others are left."),
    ] = None,
    to_time: Annotated[
        str | None, typer.Option(help="Up to a log time: 2026-08-28T02:13:00Z, or milliseconds.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="Show this action as it was then.")] = None,
    since: Annotated[
        Path | None,
        typer.Option(
            help="The JSON of an earlier replay that was kept elsewhere: what was in the log then "
            "has to be there now, byte for byte."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fold the ledger from offset 0 and compare the state of every stream with the one that the
    database keeps of it, byte for byte. The tables that people read are compared by `rebuild`.
    Every hash and every signature of a person in the log is checked anew.

    Without a limit it goes as far as the database does. With one it shows the state as of then, and
    compares the streams that have not moved since. It only reads: no replay causes an effect. Ends
    with 3 where something differs, is missing, or does not prove itself.

    Example: actionledger replay --to-time 2026-08-28T02:13:00Z
    """
    from gateway.cli.log import stream_of
    from gateway.cli.place import settings
    from gateway.cli.progress import progress

    out = Output("replay", as_json=as_json)
    if to_offset and to_time:
        raise UsageError("Two limits at once.", hint="Give --to-offset or --to-time.")
    if since is not None and (to_offset or to_time):
        raise UsageError(
            "A limit and an earlier replay at once.", hint="Give --since alone, or a limit."
        )
    heads = None if since is None else _heads(since)
    if key is not None:
        stream_of(key)
    until = _offsets(to_offset) if to_offset else None
    as_of = _time(to_time) if to_time else None
    with progress() as report:
        result = asyncio.run(
            replayed(settings(), report, until=until, as_of=as_of, key=key, heads=heads)
        )
    is_off = result["differences"] or result["unproven_count"] or result["missing"]
    code = Exit.DIFFERENCES if is_off else Exit.OK
    out.answer(result, lambda console: _show_replay(console, result), code)


def _heads(file: Path) -> "dict[int, Head]":
    """What an earlier replay told of each partition."""
    import json

    from gateway.cli.documents import text_of
    from ledger.audit.replay import Head

    heads: dict[int, Head] = {}
    try:
        told = json.loads(text_of(file))["result"]["partitions"]
        for part, one in told.items():
            if _is_head(one["next_offset"], one["sha256"]):
                heads[int(part)] = Head(one["next_offset"], one["sha256"])
    except (ValueError, KeyError, TypeError, AttributeError):
        told = None
    if not heads or told is None or len(told) != len(heads):
        raise UsageError(
            f"{file} is not what a replay told.",
            hint="Keep the output of `actionledger replay --json` whole.",
        )
    return heads


def _is_head(size: object, sha256: object) -> bool:
    """Whether anything can be held against it: against what is no head nothing would be held, and
    all would be well.
    """
    is_size = type(size) is int and size > 0
    return is_size and isinstance(sha256, str) and len(sha256) == SHA256_DIGITS


def _offsets(given: list[str]) -> dict[int, int]:
    found: dict[int, int] = {}
    for text in given:
        partition, offset = map(whole_number, text.partition(":")[::2])
        if partition is None or offset is None:
            raise UsageError(f"--to-offset {text} is not P:O.", hint="Write 3:120.")
        found[partition] = offset
    return found


def _time(text: str) -> int:
    at = moment_of(text)
    if at is None:
        raise UsageError(
            f"--to-time {text} is no time.", hint="Write 2026-08-28T02:13:00Z, or milliseconds."
        )
    return at


async def replayed(
    settings: "Settings",
    report: "Report",
    *,
    until: "Mapping[int, int] | None" = None,
    as_of: int | None = None,
    key: str | None = None,
    heads: "Mapping[int, Head] | None" = None,
) -> dict[str, Any]:
    """A replay beside the rows of the database, as the JSON answer has it. With `heads` it goes at
    least as far as these do.
    """
    from gateway.local.progress import Progress
    from gateway.wiring.installation import open_log, open_pool
    from ledger.audit import replay as audit
    from ledger.log.follow import genesis_of
    from projections.checksum import offsets_of
    from projections.statements import LIVE_SCHEMA
    from projections.states import stored_streams

    log = open_log(settings, "cli")
    partitions = range((await genesis_of(log)).partitions)
    chosen = sorted(until) if until else list(partitions)
    for part in chosen:
        if part not in partitions:
            raise UsageError(
                f"ledger has no partition {part}.", hint=f"Name one of 0 to {partitions[-1]}."
            )
    async with (
        await open_pool(settings) as pool,
        pool.acquire() as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        offsets = await offsets_of(connection, LIVE_SCHEMA)
        found = await stored_streams(connection, chosen)
    ends = {part: offsets.get(part, 0) for part in chosen} if until is None else dict(until)
    for part, head in (heads or {}).items():
        ends[part] = max(ends.get(part, 0), head.size)
    done = await audit.replay(
        log,
        chosen,
        until=None if as_of is not None else ends,
        as_of=as_of,
        heads=heads,
        progress=lambda read, total: report(Progress("replay", read, total)),
    )
    limits = {part: fold.next_offset for part, fold in done.folds.items()}
    stored = [
        row for row in found.rows if row.next_offset <= _limit(limits, row.key, len(partitions))
    ]
    later = len(found.rows) - len(stored)
    known = {row.key for row in stored} | (
        # A stream that the tables have not reached yet is no difference.
        set() if until is not None or as_of is not None else set(done.streams)
    )
    compared = {name: one for name, one in done.streams.items() if name in known}
    return {
        **_summary(done, key),
        # As of a time a partition is not read to its end.
        "missing": [] if as_of is not None else _missing(done, ends),
        "compared": len(stored),
        "moved_on": later,
        "other_fold_versions": found.other_versions,
        "differences": [
            {"stream": one.stream, "path": one.path, "log": one.log, "database": one.stored}
            for one in audit.compare(compared, stored)
        ],
    }


def _missing(done: "Replay", ends: "Mapping[int, int]") -> list[dict[str, int]]:
    """Where the log ends before what was asked for, or before what the tables have read."""
    reached = {part: fold.next_offset for part, fold in done.folds.items()}
    return [
        {"partition": part, "ends_at": reached.get(part, 0), "expected": end}
        for part, end in sorted(ends.items())
        if reached.get(part, 0) < end
    ]


def _limit(limits: "Mapping[int, int]", stream: str, partitions: int) -> int:
    from ledger.log.topics import partition_of

    return limits.get(partition_of(stream, partitions), 0)


def _summary(done: "Replay", key: str | None) -> dict[str, Any]:
    statuses = Counter(
        action.status.value for one in done.streams.values() for action in one.stream.actions
    )
    found: dict[str, Any] = {
        "partitions": {
            str(part): {
                "next_offset": fold.next_offset,
                "epoch": fold.epoch,
                "sha256": done.trees[part].head(),
            }
            for part, fold in sorted(done.folds.items())
        },
        "decisions": done.decision_count,
        "facts": done.fact_count,
        "void_records": done.void_count,
        "streams": len(done.streams),
        "actions_by_status": dict(sorted(statuses.items())),
        "unproven_count": done.unproven_count,
        "unproven": done.unproven,
    }
    if key is not None:
        found["action"] = _action(done, key)
    return found


def _action(done: "Replay", key: str) -> dict[str, Any] | None:
    from gateway.cli.log import stream_of

    known = done.streams.get(stream_of(key))
    action = None if known is None else known.stream.action(key)
    if action is None:
        return None
    return {
        "key": action.key,
        "status": action.status.value,
        "version": action.version,
        "attempts": len(action.attempts),
        "reference": action.reference,
        "proof": action.proof,
        "code": action.code,
    }


def _show_replay(console: "Console", result: "Mapping[str, Any]") -> None:
    console.print(
        f"Folded decisions: {result['decisions']:,}, facts: {result['facts']:,}, streams: "
        f"{result['streams']:,}."
    )
    for status, count in result["actions_by_status"].items():
        console.print(f"  {status:<18}{count:>8,}")
    if result["void_records"]:
        console.print(f"  [dim]{result['void_records']} void records count for nobody[/]")
    for one in result["missing"]:
        console.print(
            f"✗ ledger partition {one['partition']} ends at offset {one['ends_at']}, before "
            f"{one['expected']}: records are missing, or there never were so many.",
            style="red",
            soft_wrap=True,
        )
    for one in result["unproven"]:
        console.print(f"✗ {one}", style="red", markup=False, soft_wrap=True)
    if result["unproven_count"]:
        console.print(
            f"{result['unproven_count']} things in the log do not prove themselves: a record was "
            "changed after it was written, or was written by another program.",
            soft_wrap=True,
        )
    if "action" in result and result["action"] is None:
        console.print("The action was not there then.")
    elif "action" in result:
        console.print_json(data=result["action"], ensure_ascii=True)
    for one in result["differences"][:SHOWN_MAX]:
        console.print(
            f"✗ {one['stream']} {one['path']}: the log says {one['log']!r}, the database "
            f"{one['database']!r}",
            style="red",
            markup=False,
            soft_wrap=True,
        )
    _show_versions(console, result["other_fold_versions"])
    if result["differences"]:
        console.print(
            f"{len(result['differences'])} differences. The log is right: rows were edited, or "
            "this program folds otherwise than the one that wrote them."
        )
    else:
        moved = f"; moved on since: {result['moved_on']:,}" if result["moved_on"] else ""
        console.print(
            "[green]✓[/] Compared with the states that the database keeps: "
            f"{result['compared']:,}, all as the log says{moved}."
        )
        console.print("[dim]The tables that people read: actionledger rebuild[/]")


def _show_versions(console: "Console", versions: "Mapping[int, int]") -> None:
    """What another version of the program wrote: by itself nothing is wrong with that."""
    for version, count in sorted(versions.items()):
        console.print(
            f"  [dim]{count:,} states are of fold version {version}, from before an upgrade: they "
            "are folded again from their stored facts whenever they are read. "
            "`actionledger rebuild --swap` writes them anew.[/]",
            soft_wrap=True,
        )


def rebuild(
    swap: Annotated[
        bool, typer.Option("--swap", help="Let the new tables take the place of the live ones.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Project the whole log anew into a second schema and compare checksums with the live one.

    The live schema is only read; the second, actionledger_beside, is left for you to look at. With
    --swap it catches up and takes over in one transaction, equal or not, while everything runs on;
    the old tables are dropped. Ends with 3 where the two differed.

    Example: actionledger rebuild --swap
    """
    from gateway.cli.place import settings
    from gateway.cli.progress import progress
    from projections.rebuild import Afterwards

    out = Output("rebuild", as_json=as_json)
    afterwards = Afterwards.SWAP if swap else Afterwards.KEEP
    with progress() as report:
        done = asyncio.run(rebuilt(settings(database_role=None), report, afterwards))
    code = Exit.OK if done.is_equal else Exit.DIFFERENCES
    out.answer(rebuilt_result(done), lambda console: _show_rebuild(console, done), code)


async def rebuilt(
    settings: "Settings", report: "Report", afterwards: "Afterwards | None" = None
) -> "Rebuilt":
    """Rebuild beside the live schema, and compare; by default the live one stays."""
    from gateway.cli.pace import Pace
    from gateway.wiring.installation import open_log, open_pool
    from projections.rebuild import Afterwards, RebuildProgress, rebuild

    pace = Pace(report)

    def say(step: RebuildProgress) -> None:
        pace.tell(step.phase, step.done, step.total)

    async with await open_pool(settings) as pool:
        return await rebuild(
            open_log(settings, "cli"),
            pool,
            afterwards=afterwards or Afterwards.KEEP,
            progress=say,
        )


def rebuilt_result(done: "Rebuilt") -> dict[str, Any]:
    """A rebuild as the JSON answer has it."""
    return {
        "is_equal": done.is_equal,
        "live_sha256": done.live.sha256,
        "rebuilt_sha256": done.beside.sha256,
        "records": done.record_count,
        "seconds": done.seconds,
        "swapped_at": done.swapped_at,
        "other_fold_versions": done.other_versions,
        "tables": {
            name: {"live": digest, "rebuilt": done.beside.tables[name]}
            for name, digest in done.live.tables.items()
        },
        "differences": done.differences,
    }


def _show_rebuild(console: "Console", done: "Rebuilt") -> None:
    console.print(f"Projected {done.record_count:,} records anew, in {done.seconds:,.1f} s.")
    console.print(f"  live     {done.live.sha256}")
    console.print(f"  rebuilt  {done.beside.sha256}")
    if done.swapped_at is not None:
        console.print("The new tables have taken the place of the old ones.")
    if done.is_equal:
        console.print("[green]✓[/] Equal: every row is what the log says.")
        return
    tables = ", ".join(done.live.differing_tables(done.beside))
    console.print(f"[red]✗[/] They differ in {tables}.")
    if done.swapped_at is None:
        _show_versions(console, done.other_versions)
    for one in (done.differences or ())[:SHOWN_MAX]:
        console.print(
            f"  {one.table} {'/'.join(one.key)}: live {one.live}, rebuilt {one.beside}",
            markup=False,
            soft_wrap=True,
        )
