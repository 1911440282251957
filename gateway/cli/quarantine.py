"""`quarantine`: records that were set aside, looked at safely, and put back."""

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from gateway.cli.numbers import whole_number
from gateway.cli.output import Exit, Json, Output, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from gateway.wiring.quarantine_desk import Summary
    from ledger.log.quarantine import QuarantinedRecord
    from ledger.log.redrive import Blocked, Redrive

group = typer.Typer(
    help="Records that were set aside: look at them, put them back.", no_args_is_help=True
)

SHOWN_BYTES: Final = 4_096
ROW_BYTES: Final = 16
PRINTABLE: Final = range(0x20, 0x7F)
"""The bytes, and characters, that are themselves on every terminal."""

Place = Annotated[
    str, typer.Argument(help="Where it stood, such as intents/3/17.", show_default=False)
]


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(group, name="quarantine", rich_help_panel="Operating")


@group.command("list")
def list_records(
    *,
    topic: Annotated[str | None, typer.Option(help="Only from this topic.")] = None,
    reason: Annotated[str | None, typer.Option(help="Only set aside for this.")] = None,
    hours: Annotated[int | None, typer.Option(min=1, help="Only the last so many hours.")] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only what was not put back.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The newest so many.")] = 100,
    as_json: Json = False,
) -> None:
    """List what was set aside: where it stood, why, when, and whether it was put back.

    Example: actionledger quarantine list --topic webhooks --hours 24
    """
    from gateway.cli.place import settings
    from gateway.wiring.installation import open_log
    from gateway.wiring.quarantine_desk import Filter, list_quarantine
    from ledger.log.topics import Topic

    out = Output("quarantine list", as_json=as_json)
    if topic is not None and topic not in set(Topic):
        raise UsageError(f"There is no topic {topic!r}.", hint=f"Name one of {', '.join(Topic)}.")
    since = 0 if hours is None else int(_now_ms() - hours * 3_600_000)
    wanted = Filter(topic=topic, reason=reason, since=since, is_waiting=waiting)
    found = asyncio.run(list_quarantine(open_log(settings(), "cli"), wanted))
    shown = found[-limit:]
    out.answer(
        {"records": shown, "total": len(found)},
        lambda console: _show_list(console, shown, len(found)),
    )


@group.command("show")
def show(
    place: Place,
    *,
    in_hex: Annotated[bool, typer.Option("--hex", help="The bytes in hexadecimal.")] = False,
    as_json: Json = False,
) -> None:
    """Show a record that was set aside: its bytes, why, and what a redrive would do.

    What it says is shown as text and never as commands to your terminal.

    Example: actionledger quarantine show intents/3/17 --hex
    """
    from gateway.cli.place import settings
    from gateway.wiring.installation import open_log
    from gateway.wiring.quarantine_desk import (
        answers_of_ledger,
        blocked_again,
        find_quarantined,
    )
    from ledger.log.redrive import Blocked

    out = Output("quarantine show", as_json=as_json)
    known = settings()
    log = open_log(known, "cli")
    summary, entry, planned = asyncio.run(find_quarantined(log, _checked(place)))
    planned = blocked_again(summary) or planned
    answered = asyncio.run(answers_of_ledger(known, entry))
    result = {
        "record": summary,
        "entry": entry,
        "redrive": _told(planned),
        "ledger": answered,
    }

    def shown(console: "Console") -> None:
        _show_record(console, summary, entry, in_hex=in_hex)
        for one in answered:
            console.print(f"The ledger set it aside at {one}.", markup=False)
        if isinstance(planned, Blocked):
            said = f"A redrive cannot help: {planned.obstacle}. {planned.why}"
        else:
            said = f"A redrive would append it again to {planned.topic} {planned.partition}."
        console.print(visible(said), markup=False, soft_wrap=True)

    out.answer(result, shown)


@group.command("redrive")
def redrive(
    place: Place,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Also if it was put back before.")] = False,
    by: Annotated[str | None, typer.Option(help="Who does it. By itself: this user.")] = None,
    as_json: Json = False,
) -> None:
    """Put a record back where it stood: the same bytes, key and headers, with its source named.

    For what was set aside because of a fault that is mended now. It is decided like a new arrival,
    and counts once however often it is put back. Ends with 4 where it cannot help, and says why.

    Example: actionledger quarantine redrive intents/3/17 --dry-run
    """
    from gateway.cli.holds import user
    from gateway.cli.place import settings
    from gateway.wiring import quarantine_desk as desk
    from gateway.wiring.installation import open_log
    from ledger.log.redrive import Blocked

    out = Output("quarantine redrive", as_json=as_json)
    log = open_log(settings(), "operator")
    summary, entry, planned = asyncio.run(desk.find_quarantined(log, _checked(place)))
    if not again:
        planned = desk.blocked_again(summary) or planned
    if isinstance(planned, Blocked):
        why = planned
        out.answer(
            {"redriven": False, **_told(why)},
            lambda console: console.print(f"{why.obstacle}: {why.why}", markup=False),
            Exit.REFUSED,
        )
    if dry_run:
        said = f"Would append {summary.size_bytes} bytes to {planned.topic} {planned.partition}."
        out.answer(
            {"redriven": False, **_told(planned)},
            lambda console: console.print(said, markup=False),
        )
    who = user() if by is None else by
    offset = asyncio.run(desk.redrive(log, entry, planned, by=who))
    where = f"{planned.topic}/{planned.partition}/{offset}"
    out.answer(
        {"redriven": True, "place": where, "by": who},
        lambda console: console.print(
            f"[green]✓[/] It stands at {where} now. What became of it: "
            f"actionledger why --cause {where}",
            soft_wrap=True,
        ),
    )


def _checked(place: str) -> str:
    topic, _, rest = place.partition("/")
    partition, _, offset = rest.partition("/")
    if not topic or whole_number(partition) is None or whole_number(offset) is None:
        raise UsageError(f"{place!r} is no place.", hint="Write it as the list does: intents/3/17.")
    return place


def _now_ms() -> float:
    return datetime.now(UTC).timestamp() * 1_000


def _told(planned: "Redrive | Blocked") -> dict[str, Any]:
    from ledger.log.redrive import Blocked

    if isinstance(planned, Blocked):
        return {"obstacle": planned.obstacle, "why": planned.why}
    return {"topic": planned.topic, "partition": planned.partition}


def _show_list(console: "Console", found: "Sequence[Summary]", total: int) -> None:
    from rich.markup import escape
    from rich.table import Table

    if not total:
        console.print("[green]✓[/] Nothing is in quarantine.")
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("stood at", "set aside", "bytes", "reason", "put back"):
        table.add_column(name, overflow="fold", justify="right" if name == "bytes" else "left")
    for one in found:
        back = "" if one.redriven_to is None else f"{one.redriven_to}, by {one.redriven_by}"
        row = (one.place, _moment(one.set_aside_at), _size(one), one.reason, back)
        table.add_row(*(escape(visible(text)) for text in row))
    console.print(table)
    if len(found) < total:
        console.print(f"[dim]The newest {len(found)} of {total}; see --limit.[/]")


def _size(one: "Summary") -> str:
    """How many bytes it had, and how many of them there are where that is a part."""
    if one.kept_bytes is None:
        return str(one.size_bytes)
    return f"{one.kept_bytes} of {one.size_bytes}"


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")


_CUT: Final = " are kept: the beginning of key and value, and no header"


def _show_record(
    console: "Console",
    summary: "Summary",
    entry: "QuarantinedRecord",
    *,
    in_hex: bool,
) -> None:
    from ledger.log.quarantine import sha256_of

    is_whole = summary.kept_bytes is None
    rows = (
        ("stood at", summary.place),
        ("set aside", f"{_moment(summary.set_aside_at)} UTC"),
        ("reason", f"{entry.reason}: {entry.detail}"),
        ("sha256", entry.sha256),
        ("bytes", f"{_size(summary)}{'' if is_whole else _CUT}"),
    )
    for name, value in rows:
        console.print(f"{name:<10} {visible(value)}", markup=False, soft_wrap=True)
    try:
        kept = entry.kept()
    except ValueError as damaged:
        console.print(f"damaged    {damaged}", markup=False, soft_wrap=True)
        return
    if is_whole and sha256_of(kept.value) != entry.sha256:
        console.print("damaged    these bytes have another hash", markup=False, soft_wrap=True)
    console.print(f"key        {visible(_text(kept.key))}", markup=False, soft_wrap=True)
    for header, raw in kept.headers:
        told = f"{visible(header)}: {visible(_text(raw))}"
        console.print(f"header     {told}", markup=False, soft_wrap=True)
    shown = _view(kept.value, in_hex=in_hex, is_whole=is_whole)
    console.print(f"\n{shown}\n", markup=False, soft_wrap=True)


def _view(value: bytes, *, in_hex: bool, is_whole: bool) -> str:
    """The bytes for a person: JSON laid out where it is JSON, else text; or both beside each other
    in hexadecimal. The beginning, where there is much.
    """
    import json

    head = value[:SHOWN_BYTES]
    left = len(value) - len(head)
    has = "all of them" if is_whole else "what is kept"
    more = f"\n… and {left} bytes more; --json has {has}" if left else ""
    if in_hex:
        return hex_rows(head) + more
    try:
        # Escaped, so that nothing in it reaches the terminal but printable ASCII.
        return json.dumps(json.loads(value), indent=2, ensure_ascii=True)[:SHOWN_BYTES] + more
    except (ValueError, RecursionError):
        return visible(_text(head)) + more


def hex_rows(raw: bytes) -> str:
    """Offset, hexadecimal and printable characters, sixteen bytes a row."""
    rows = []
    for at in range(0, len(raw), ROW_BYTES):
        part = raw[at : at + ROW_BYTES]
        seen = "".join(chr(byte) if byte in PRINTABLE else "." for byte in part)
        rows.append(f"{at:08x}  {part.hex(' '):<{ROW_BYTES * 3}} {seen}")
    return "\n".join(rows)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def visible(text: str) -> str:
    """A text in which everything but printable ASCII and line ends is written out as an escape: no
    byte of a stranger's reaches the terminal as a command, or turns what stands beside it around.
    """
    return "".join(
        char if char == "\n" or ord(char) in PRINTABLE else char.encode("unicode_escape").decode()
        for char in text
    )
