"""`saga open | show | list | cancel`, `batch show`: plans of several actions, and what is shown
together.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.output import Json, Output, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from gateway.http.saga_views import BatchView, SagaList, SagaView
    from gateway.settings import Settings
    from ledger.core.sagas import Saga

PANEL = "Actions"
COLOURS = {
    "completed": "green",
    "compensated": "green",
    "compensating": "yellow",
    "stuck": "red",
}
UNDONE = {
    "planned": "planned, if it is needed",
    "needed": "its turn now",
    "done": "undone",
    "not_needed": "not needed",
    "by_a_person": "taken over by a person",
}

saga_group = typer.Typer(
    help="Sagas: several effects of one business event, one after the other, and undone in "
    "reverse where one comes to nothing.",
    no_args_is_help=True,
)
batch_group = typer.Typer(
    help="Batches: independent actions that were proposed under one name.", no_args_is_help=True
)

Tenant = Annotated[str | None, typer.Option(help="Of this tenant.", show_default=False)]
Event = Annotated[str, typer.Argument(help="The business event.", show_default=False)]
Name = Annotated[str, typer.Argument(help="The name of the saga.", show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Add the groups."""
    app.add_typer(saga_group, name="saga", rich_help_panel=PANEL)
    app.add_typer(batch_group, name="batch", rich_help_panel=PANEL)


@saga_group.command("open")
def open_saga(
    file: Annotated[Path, typer.Argument(help="The plan in JSON; - reads stdin.")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait while it goes on by itself.")] = False,
    timeout: Annotated[int, typer.Option(min=1, help="How long to wait, in seconds.")] = 60,
    as_json: Json = False,
) -> None:
    """Ask for several effects of one business event, whole or not at all. The same file again is
    the same saga: nothing happens twice. Ends with 4 where the ledger refuses, and names the step.

    Example: actionledger saga open examples/saga.json --wait
    """
    out = Output("saga open", as_json=as_json)
    raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    _answered(out, "/v1/sagas", raw, timeout * 1_000 if wait else 0)


@saga_group.command("cancel")
def cancel_saga(event: Event, saga: Name, as_json: Json = False) -> None:
    """Call off what of a saga has not begun; what is open is settled, and what is done is undone.

    Example: actionledger saga cancel order-2026-11-30-07 order
    """
    from gateway.http.saga_views import saga_href

    out = Output("saga cancel", as_json=as_json)
    _answered(out, f"{saga_href(event, saga)}/cancel", b"{}", 0)


@saga_group.command("show")
def show_saga(event: Event, saga: Name, tenant: Tenant = None, as_json: Json = False) -> None:
    """Show the steps of a saga in order, what undoes each, and what is next.

    Example: actionledger saga show order-2026-11-30-07 order
    """
    from gateway.cli.place import settings
    from gateway.http.saga_views import saga_view

    out = Output("saga show", as_json=as_json)
    found = saga_view(asyncio.run(_saga(settings(), event, saga, tenant)))
    out.answer(found, lambda console: _show_saga(console, found))


@saga_group.command("list")
def list_sagas(
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=1, max=50, help="How many at most.")] = 20,
    as_json: Json = False,
) -> None:
    """List sagas, the newest first.

    Example: actionledger saga list --tenant acme
    """
    from gateway.cli.place import settings

    out = Output("saga list", as_json=as_json)
    found = asyncio.run(_sagas(settings(), tenant, limit))
    out.answer(found, lambda console: _show_list(console, found))


@batch_group.command("show")
def show_batch(
    batch: Annotated[str, typer.Argument(help="The name of the batch.", show_default=False)],
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Show the actions of a batch by status. Each stands for itself.

    Example: actionledger batch show reminders-2026-11-30
    """
    from gateway.cli.place import settings

    out = Output("batch show", as_json=as_json)
    found = asyncio.run(_batch(settings(), batch, tenant))
    out.answer(found, lambda console: _show_batch(console, found))


def _answered(out: Output, path: str, raw: bytes, wait_ms: int) -> None:
    """Ask the door, and say what it answers."""
    from gateway.cli.door_answer import answer_of_door

    answer_of_door(out, lambda asking: asking.ask_of_saga(path, raw, wait_ms=wait_ms), _show_answer)


async def _saga(settings: "Settings", event: str, saga: str, tenant: str | None) -> "Saga":
    from gateway.cli.proposing import UnknownActionError
    from gateway.wiring.installation import open_pool
    from gateway.wiring.local import TENANT
    from ledger.core.ids import MalformedId, stream_key
    from projections.queries import Queries

    try:
        stream = stream_key(tenant or TENANT, event)
    except MalformedId as malformed:
        raise UsageError(
            f"{event} is no business event: {malformed}.", hint=malformed.hint
        ) from None
    async with await open_pool(settings) as pool:
        found = await Queries(pool).saga(stream, saga)
    if found is None:
        raise UnknownActionError(
            f"The read model has no saga {saga} of {stream}.",
            hint="Look for it with `actionledger saga list`; another tenant's with --tenant.",
        )
    return found


async def _sagas(settings: "Settings", tenant: str | None, limit: int) -> "SagaList":
    from gateway.cli.tenants import tell_if_without_action
    from gateway.http.saga_views import SagaList, saga_line
    from gateway.wiring.installation import open_pool
    from projections.queries import Queries
    from projections.query_rows import ALL

    async with await open_pool(settings) as pool:
        found = await Queries(pool).sagas(ALL if tenant is None else tenant, limit=limit)
        await tell_if_without_action(Queries(pool), tenant)
    return SagaList(now=time.time_ns() // 1_000_000, sagas=tuple(map(saga_line, found)))


async def _batch(settings: "Settings", batch: str, tenant: str | None) -> "BatchView":
    from gateway.cli.proposing import UnknownActionError
    from gateway.http.limits import RUN_ACTIONS_MAX
    from gateway.http.run_views import cut
    from gateway.http.saga_views import batch_view
    from gateway.wiring.installation import open_pool
    from gateway.wiring.local import TENANT
    from projections.queries import Queries

    async with await open_pool(settings) as pool:
        rows = await Queries(pool).actions_of_batch(tenant or TENANT, batch, limit=RUN_ACTIONS_MAX)
    if not rows:
        raise UnknownActionError(
            f"The read model has no action of a batch {batch}.",
            hint="A batch is known once an action names it; another tenant's with --tenant.",
        )
    return batch_view(batch, rows, more=cut(rows))


def _show_answer(console: "Console", answer: "Mapping[str, Any]") -> None:
    from gateway.http.saga_views import SagaView

    if answer.get("replayed"):
        console.print("[dim]It was there before: nothing new was started.[/]")
    _show_saga(console, SagaView.model_validate(answer))


def _show_saga(console: "Console", found: "SagaView") -> None:
    from gateway.cli.actions import coloured

    console.print(f"[bold]{found.saga}[/] of {found.business_event}", end="  ", soft_wrap=True)
    console.print(_coloured(found.status))
    for one in found.steps:
        console.print(f"  {one.step}  {coloured(one.action.status)}", end="  ")
        told = " ".join(filter(None, (one.action.reference, one.action.code, one.action.review)))
        console.print(f"{one.action.key}  {told}".rstrip(), markup=False, soft_wrap=True)
        if one.undone is None:
            continue
        console.print(f"     undo: {UNDONE[one.undone]}", end="", style="dim")
        if one.compensation is not None:
            undo = one.compensation
            told = " ".join(filter(None, (undo.reference, undo.code, undo.review)))
            console.print(f"  {undo.key}  {undo.status}  {told}".rstrip(), markup=False, end="")
        console.print()
    console.print(f"\n{found.sentence}", markup=False, soft_wrap=True)
    for key in found.cases:
        console.print(f"Settle it: actionledger review show {key}", markup=False, soft_wrap=True)


def _show_list(console: "Console", found: "SagaList") -> None:
    from gateway.cli.actions import moment

    if not found.sagas:
        console.print("There is no saga.")
    for one in found.sagas:
        console.print(f"[bold]{one.saga}[/] of {one.business_event}", end="  ", soft_wrap=True)
        console.print(f"{_coloured(one.status)}  {one.completed} of {one.steps} steps", end="  ")
        console.print(f"opened {moment(one.opened_at)} UTC")


def _show_batch(console: "Console", found: "BatchView") -> None:
    from gateway.cli.actions import coloured

    console.print(f"[bold]{found.batch}[/]", end="  ", soft_wrap=True)
    console.print(", ".join(f"{count} {coloured(name)}" for name, count in found.by_status.items()))
    if found.more:
        console.print("These are the first ones that were recorded; there may be more.")
    for one in found.actions:
        told = "  ".join(part for part in (one.amount, one.target, one.review) if part)
        console.print(f"  {coloured(one.status)}  {one.key}", end="", soft_wrap=True)
        console.print(f"  {told}".rstrip(), markup=False, soft_wrap=True)


def _coloured(status: str) -> str:
    colour = COLOURS.get(status)
    return f"[{colour}]{status}[/]" if colour else status
