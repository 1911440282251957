"""`unknowns`: what may have happened, what is known of it so far, and what comes next."""

import asyncio
import time
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.output import Json, Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from gateway.settings import Settings
    from gateway.unknowns import KeyWindow
    from projections.query_rows import UnknownRow


def unknowns(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many at most.")] = 100,
    as_json: Json = False,
) -> None:
    """List the actions whose effect may have happened: since when, and what happens next.

    Beside each stand the evidence so far, the newest last, and how much of the time is gone in
    which its key may be used. The page of the console says the same.

    Example: actionledger unknowns --tenant acme
    """
    from gateway.cli.place import settings

    out = Output("unknowns", as_json=as_json)
    found, is_stranger = asyncio.run(_unknowns(settings(), tenant, limit))

    def shown(console: "Console") -> None:
        if not is_stranger:
            _show(console, found, tenant, limit)

    out.answer({"unknowns": found}, shown)


async def _unknowns(
    settings: "Settings", tenant: str | None, limit: int
) -> "tuple[tuple[UnknownRow, ...], bool]":
    """What is uncertain, and whether the tenant that is named has no action at all."""
    from gateway.cli.tenants import tell_if_without_action
    from gateway.wiring.installation import open_pool
    from projections.queries import Queries
    from projections.query_rows import ALL

    async with await open_pool(settings) as pool:
        queries = Queries(pool)
        found = await queries.unknowns(ALL if tenant is None else tenant, limit=limit)
        return found, await tell_if_without_action(queries, tenant)


def _show(
    console: "Console", found: "Sequence[UnknownRow]", tenant: str | None, limit: int
) -> None:
    """What was found; whose, where one tenant was named, and whether there may be more."""
    from rich.markup import escape

    if not found:
        whose = "" if tenant is None else f" of {escape(tenant)}"
        console.print(f"[green]✓[/] No action{whose} is uncertain.")
        return
    show_unknowns(console, found)
    if len(found) >= limit:
        console.print(f"[dim]The oldest {len(found)}; there may be more: see --limit.[/]")


def show_unknowns(console: "Console", found: "Sequence[UnknownRow]") -> None:
    """Each action that is uncertain, in a line."""
    from rich.markup import escape
    from rich.table import Table

    from gateway.console.why import span
    from gateway.unknowns import unknown_of
    from ledger.core.money import format_money

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("action", "amount", "attempts", "unknown for", "evidence", "next", "key window"):
        is_number = name in {"amount", "attempts", "unknown for"}
        table.add_column(name, overflow="fold", justify="right" if is_number else "left")
    now_ms = int(time.time() * 1_000)
    for one in (unknown_of(view, now_ms) for view in found):
        table.add_row(
            one.key,
            "" if one.money is None else format_money(one.money),
            str(one.attempts),
            span(one.age_ms),
            escape("\n".join(one.evidence)) or "none so far",
            one.next_told
            if one.next_at is None
            else f"{_in(one.next_at, now_ms)}: {one.next_told}",
            _window(one.window, now_ms),
        )
    console.print(table)


def _window(window: "KeyWindow | None", now_ms: int) -> str:
    if window is None:
        return "none"
    if window.is_over:
        return "over: only looked up"
    return f"{window.used} % gone, ends {_in(window.until, now_ms)}"


def _in(at_ms: int, now_ms: int) -> str:
    from gateway.console.why import span

    return f"in {span(at_ms - now_ms)}" if at_ms > now_ms else "now"
