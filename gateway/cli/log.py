"""`log tail`: the records themselves, decoded."""

import asyncio
import sys
import time
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.output import Json, Output, UsageError, write_json

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from gateway.settings import Settings
    from ledger.log.kafka import KafkaLog
    from ledger.log.port import Record

group = typer.Typer(help="The log itself.", no_args_is_help=True)

READ_MS = 500


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(group, name="log", rich_help_panel="Actions")


@group.command("tail")
def tail(
    topic: Annotated[str, typer.Option(help="Short name: ledger, intents, webhooks, …")] = "ledger",
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    begin: Annotated[
        int | None, typer.Option("--from", min=0, help="From this offset on, not the last ones.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Only records of this action, or of this stream key.")
    ] = None,
    last: Annotated[
        int,
        typer.Option(min=1, max=100_000, help="How many at most; with --from and --follow all."),
    ] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as records come.")] = False,
    as_json: Json = False,
) -> None:
    """Show records of a topic, decoded, one line each; with --json one object a line, in full.

    Example: actionledger log tail --topic intents --key charge:v1:acme:renewal-2026-08-28-01
    """
    from gateway.cli.place import settings
    from ledger.log.topics import Topic

    try:
        wanted = Topic(topic)
    except ValueError:
        raise UsageError(
            f"There is no topic {topic!r}.", hint=f"Name one of {', '.join(Topic)}."
        ) from None
    out = Output("log tail", as_json=as_json)
    stream = None if key is None else stream_of(key)
    asyncio.run(
        _tail(out, settings(), _Wanted(wanted, partition, begin, key, stream, last, follow))
    )


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which records to show; `stream` is the key's."""

    topic: str
    partition: int | None
    begin: int | None
    key: str | None
    stream: str | None
    last: int
    follow: bool

    def has(self, record: "Record") -> bool:
        """Whether a record is of the stream, and speaks of the action where one is named."""
        if self.key is None:
            return True
        if self.key == self.stream and record.key == self.key.encode():
            return True
        from gateway.cli.reading import content_of, pretty

        if record.topic == "webhooks":  # their bodies travel encoded
            return self.key in pretty(content_of(record).get("body"))
        return self.key.encode() in (record.value or b"")


async def _tail(out: Output, settings: "Settings", wanted: _Wanted) -> None:
    from gateway.wiring.installation import open_log

    log = open_log(settings, "cli")
    places, ends = await _places(log, wanted)
    total = sum(end - places[place] for place, end in ends.items())
    async with aclosing(_read(log, places, ends)) as reading:
        async for record in _shown(reading, wanted, total):
            _say(out, record)


async def _shown(
    reading: "AsyncIterator[tuple[list[Record], bool]]", wanted: _Wanted, total: int
) -> "AsyncIterator[Record]":
    """What is shown, in order. Where it is followed from an offset on that is all from there."""
    if wanted.begin is None or not wanted.follow:
        for record in await _found(reading, wanted, total):
            yield record
    if wanted.follow:
        async for batch, _ in reading:
            for record in filter(wanted.has, batch):
                yield record


async def _found(
    reading: "AsyncIterator[tuple[list[Record], bool]]", wanted: _Wanted, total: int
) -> "list[Record]":
    """What was there at the start, as far as it is shown; `total` are looked at for it, and who
    waits for that longer than a breath sees how far it is.
    """
    from gateway.cli.progress import LINE_EVERY_S, progress
    from gateway.local.progress import Progress

    began_s, read = time.monotonic(), 0
    found: list[Record] = []
    with progress() as report:
        async for batch, is_new in reading:
            is_whole = wanted.begin is not None and len(found) >= wanted.last
            if is_new or is_whole:
                break
            found += filter(wanted.has, batch)
            if wanted.begin is None and len(found) > 2 * wanted.last:
                found = _last(found, wanted.last)
            read += len(batch)
            if time.monotonic() - began_s > LINE_EVERY_S:
                report(Progress("log", min(read, total), total))
    return found[: wanted.last] if wanted.begin is not None else _last(found, wanted.last)


def _last(records: "list[Record]", count: int) -> "list[Record]":
    """The last of them by log time: partitions come one after the other, each in its own order."""
    return sorted(records, key=lambda one: (one.timestamp, one.partition, one.offset))[-count:]


def stream_of(key: str) -> str:
    """The stream key of an action key, or the text itself where it is one."""
    from ledger.core.ids import MalformedId, stream_key_of

    if "/" in key:
        return key
    try:
        return stream_key_of(key)
    except MalformedId as malformed:
        raise UsageError(f"{malformed}.", hint="Give an action key or a stream key.") from None


async def _places(
    log: "KafkaLog", wanted: _Wanted
) -> "tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]":
    """Where to begin reading every partition that may hold some, and where each ends now."""
    from ledger.log.follow import genesis_of
    from ledger.log.topics import Topic, partition_of

    topic, stream = wanted.topic, wanted.stream
    count = 1 if topic == Topic.CONFIG else (await genesis_of(log)).partitions
    chosen = list(range(count))
    if wanted.partition is not None:
        if wanted.partition not in chosen:
            raise UsageError(
                f"{topic} has no partition {wanted.partition}.",
                hint=f"Name one of 0 to {count - 1}.",
            )
        chosen = [wanted.partition]
    elif stream is not None and topic not in {Topic.WEBHOOKS, Topic.QUARANTINE, Topic.CONFIG}:
        chosen = [partition_of(stream, count)]
    places = {(topic, part): 0 for part in chosen}
    reader = await log.reader(places)
    try:
        ends = await reader.end_offsets(places)
        begins = await reader.beginning_offsets(places)
    finally:
        await reader.close()
    for place, end in ends.items():
        first = begins[place]
        if wanted.begin is not None:
            first = max(first, wanted.begin)
        elif stream is None:
            first = max(first, end - wanted.last)
        places[place] = min(first, end)
    return places, ends


async def _read(
    log: "KafkaLog", places: "dict[tuple[str, int], int]", ends: "dict[tuple[str, int], int]"
) -> "AsyncGenerator[tuple[list[Record], bool], None]":
    """Batches, each with whether it is new: what was there at the start comes first, then one empty
    batch that says so.
    """
    reader = await log.reader(places)
    left = {place for place, end in ends.items() if places[place] < end}
    try:
        while left:
            batch = await reader.read(timeout_ms=READ_MS)
            for record in batch:
                place = (record.topic, record.partition)
                if record.offset + 1 >= ends[place]:
                    left.discard(place)
            yield sorted(batch, key=lambda record: (record.timestamp, record.offset)), False
        yield [], True
        while True:
            batch = await reader.read(timeout_ms=READ_MS)
            if batch:
                yield batch, True
    finally:
        await reader.close()


def _say(out: Output, record: "Record") -> None:
    from gateway.cli.reading import document_of, say

    document = document_of(record)
    if out.as_json:
        write_json(document)
        return
    at = datetime.fromtimestamp(record.timestamp / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    place = f"{record.topic} {record.partition}:{record.offset}"
    out.console.print(
        f"[dim]{at}[/] [cyan]{place:<16}[/] ", end="", soft_wrap=True, highlight=False
    )
    out.console.print(say(document), soft_wrap=True, markup=False, highlight=False)
    sys.stdout.flush()
