"""`provider compare` and `review note`: effects at providers that no action has made."""

import asyncio
import re
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from gateway.cli import providers, reviewing
from gateway.cli.output import Exit, Json, Output, UsageError, count_of, plain, write_json
from ledger.core.excerpt import visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from gateway.wiring.compare_desk import Report
    from reconciler.orphans import Orphan

SHOWN_LINES: Final = 20
_AGO: Final = re.compile(r"([0-9]{1,6})([smhd])")
_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def add_to(_app: typer.Typer) -> None:
    """Add the commands to the groups that they belong to."""
    providers.group.command("compare")(compare)
    reviewing.group.command("note")(note)


def compare(
    provider: Annotated[str, typer.Argument(help="The provider.", show_default=False)],
    *,
    since: Annotated[
        str, typer.Option(help="From when on: 24h ago, 7d ago, or 2026-11-30T10:00:00Z.")
    ] = "24h",
    until: Annotated[
        str | None, typer.Option(help="Until when; else now.", show_default=False)
    ] = None,
    account: Annotated[
        str | None,
        typer.Option(help="Which account; else the only one.", show_default=False),
    ] = None,
    every: Annotated[
        int | None,
        typer.Option(
            min=1, help="Again and again, so many seconds after the last.", show_default=False
        ),
    ] = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Do not wait for what the ledger makes of it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List a provider's effects of a time and hold them against the ledger.

    An effect of an uncertain action settles it; one without an action is raised, see `review list
    --orphans`; an action that is completed and not in a whole list is named. Ends with 3 where
    something differs, with 1 where the list ended early.

    Example: actionledger provider compare bank --since 7d
    """
    from gateway.cli.place import settings
    from gateway.wiring.compare_desk import compare_provider
    from gateway.wiring.import_desk import STILL_MS_MAX, account_of
    from reconciler.comparing import Period

    out = Output("provider compare", as_json=as_json)
    known = settings()
    chosen = asyncio.run(account_of(known, provider, account))

    def once() -> "Report":
        now = int(datetime.now(UTC).timestamp() * 1_000)
        period = Period(_moment(since, now), now if until is None else _moment(until, now))
        if period.since >= period.until:
            raise UsageError("The time ends before it begins.", hint="See --since and --until.")
        patience_ms = 0 if no_wait else STILL_MS_MAX
        return asyncio.run(
            compare_provider(known, provider, chosen, period, patience_ms=patience_ms)
        )

    def tell(report: "Report") -> None:
        if as_json:
            write_json(plain(report))
        else:
            show_report(out.console, report)

    if every is not None:
        again_and_again(once, tell, every_s=every)
    report = once()
    out.answer(report, lambda console: show_report(console, report), code_of(report))


def again_and_again(
    once: "Callable[[], Report]",
    tell: "Callable[[Report], None]",
    *,
    every_s: int,
    sleep: "Callable[[float], None]" = time.sleep,
) -> NoReturn:
    """Compare until somebody ends it. Where log or tables do not answer that is said in a line, and
    tried again at the next time; any other trouble is raised.
    """
    from gateway.cli.trouble import as_trouble
    from gateway.database_trouble import DatabaseTroubleError
    from ledger.log.port import AppendUnknownError
    from ledger.log.trouble import LogUnreachableError

    while True:
        try:
            tell(once())
        except Exception as failure:
            away = as_trouble(failure)
            if not isinstance(
                away, LogUnreachableError | AppendUnknownError | DatabaseTroubleError
            ):
                raise
            at = datetime.now(UTC).strftime("%H:%M:%S")
            said = visible(f"{at} compare_failed: {away.message} Again in {every_s} s.")
            sys.stderr.write(f"{said}\n")
            sys.stderr.flush()
        sleep(every_s)


def note(
    place: Annotated[
        str,
        typer.Argument(help="Its place, as `review list --orphans` has it.", show_default=False),
    ],
    text: Annotated[
        str,
        typer.Option("--note", help="What came of it; kept in the log.", show_default=False),
    ],
    by: Annotated[str | None, typer.Option(help="Who says it. By itself: this user.")] = None,
    as_json: Json = False,
) -> None:
    """Say of an effect without an action what came of it, and take it off the list.

    An event in the log with your name, not a signature: it settles nothing. Should an action appear
    that the effect belongs to, it is matched all the same.

    Example: actionledger review note 3/17 --note "A manual charge in the provider's dashboard."
    """
    from rich.markup import escape

    from gateway.cli.holds import user
    from gateway.cli.place import settings
    from gateway.wiring.orphan_desk import note_orphan
    from ledger.core.strict_json import character_fault
    from reconciler.limits import NOTE_CHARS_MAX
    from reconciler.orphan_notes import OrphanNote
    from reconciler.orphans import place_of

    out = Output("review note", as_json=as_json)
    partition, _, offset = place.partition("/")
    at = place_of(partition, offset)
    if at is None:
        raise UsageError(f"{place!r} is no place.", hint="Write it as the list does: 3/17.")
    who = user() if by is None else by
    if character_fault(text + who) is not None:
        raise UsageError("A note is text.", hint="Say it in UTF-8, without a NUL.")
    if not (0 < len(text) <= NOTE_CHARS_MAX and 0 < len(who) <= NOTE_CHARS_MAX):
        raise UsageError(f"A note has 1 to {NOTE_CHARS_MAX} characters.", hint="Say it shorter.")
    said = OrphanNote(by=who, note=text)
    asyncio.run(note_orphan(settings(), at, said))
    told = f"{place} is off the list, by {visible(who)}."
    out.answer(
        {"place": place, "by": who},
        lambda console: console.print("[green]✓[/]", escape(told)),
    )


def list_orphans(out: Output) -> None:
    """The answer of `review list --orphans`."""
    from gateway.cli.place import settings
    from gateway.wiring import orphan_desk

    found, count = asyncio.run(orphan_desk.list_orphans(settings(), 1_000))
    out.answer(
        {"orphans": found, "total": count},
        lambda console: show_orphans(console, found, count),
    )


def _moment(text: str, now: int) -> int:
    """Milliseconds since 1970 of a time as it is typed."""
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return max(now - int(ago[1]) * _MS[ago[2]], 0)
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is not None:
            return max(int(at.timestamp() * 1_000), 0)
    except (ValueError, OverflowError):
        pass
    raise UsageError(
        f"{text!r} is no time.",
        hint="Write 24h, 7d, or a time with its zone: 2026-11-30T10:00:00Z.",
    )


def code_of(report: "Report") -> Exit:
    """How the command ends: what somebody has looked at is no difference any more."""
    if report.orphans or report.conflicting or report.not_listed:
        return Exit.DIFFERENCES
    return Exit.TROUBLE if report.ended_early or report.waiting else Exit.OK


def show_report(console: "Console", report: "Report") -> None:
    """The counts, and the first of what differs."""
    differs = report.orphans + report.conflicting + report.not_listed
    mark = "[yellow]![/]" if differs or report.ended_early else "[green]✓[/]"
    of = count_of(report.listed, "effect")
    console.print(f"{mark} {of} of {report.provider}, account {report.account}")
    counts = (
        ("in order", report.in_order),
        ("agree with an action that was uncertain", report.settled),
        ("without an action", report.orphans),
        ("conflicting", report.conflicting),
        ("differ, and somebody has looked", report.noted),
        ("not decided yet", report.waiting),
        ("differ as well, and were brought", report.not_followed),
        ("completed, and not in the list", report.not_listed),
        ("not in the list, and somebody has looked", report.not_listed_noted),
    )
    for name, count in counts:
        if count:
            console.print(f"  {count:>9}  {name}", markup=False)
    for one in [one for one in report.differences if not one.is_noted][:SHOWN_LINES]:
        about = f", {one.action_key}" if one.action_key else ""
        said = f"{one.reference}: {one.standing}: {one.why}{about}"
        console.print(f"  {visible(said)}", markup=False, soft_wrap=True)
    for gone in report.missing[:SHOWN_LINES]:
        said = f"{gone.action_key}: effect_not_listed ({gone.reference}, proof {gone.proof})"
        console.print(f"  {visible(said)}", markup=False, soft_wrap=True)
    if report.ended_early:
        said = (
            f"The list ended early ({report.ended_early}); nothing is said to be missing from it."
        )
        console.print(said, markup=False, soft_wrap=True)


def show_orphans(console: "Console", found: "list[Orphan]", count: int) -> None:
    """The oldest, and how many there are."""
    from rich.markup import escape
    from rich.table import Table

    from ledger.core.money import format_money

    if not count:
        console.print("[green]✓[/] No effect is without an action.")
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("place", "provider", "effect", "money", "why", "received"):
        table.add_column(name, overflow="fold")
    for one in found:
        money = "" if one.money is None else format_money(one.money)
        at = datetime.fromtimestamp(one.received_at / 1_000, UTC).strftime("%Y-%m-%d %H:%M")
        provider = f"{one.provider}/{one.account}"
        names = dict.fromkeys((one.reference, one.claimed_key, one.provider_key))
        named = "\n".join(escape(visible(name)) for name in names if name)
        texts = (one.place, provider, money, one.why, at)
        place, whose, sum_, why, since = (escape(visible(text)) for text in texts)
        table.add_row(place, whose, named, sum_, why, since)
    console.print(table)
    if len(found) < count:
        console.print(f"[dim]The oldest {len(found)} of {count}.[/]")
    console.print("Close one with what came of it: actionledger review note PLACE --note …")
