"""`run list | show`, `ceiling list`: what runs and windows have used of their ceilings."""

import asyncio
import time
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.output import Json, Output, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console
    from rich.text import Text

    from gateway.cli.proposing import UnknownActionError
    from gateway.http.budgets import BudgetView
    from gateway.http.run_views import CeilingList, RunList, RunView
    from gateway.settings import Settings

PANEL = "Actions"
RUNS_MAX = 200
BAR_CHARS = 24
USED, RESERVED, LEFT = "█", "▒", "·"

run_group = typer.Typer(
    help="Runs of agents: what each has used of its ceilings, and its actions. And the processes "
    "of an installation, each by its name.",
    no_args_is_help=True,
)
ceiling_group = typer.Typer(
    help="Ceilings of the policy in force: what their windows of now have used.",
    no_args_is_help=True,
)

Tenant = Annotated[str | None, typer.Option(help="Of this tenant.", show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Add the groups."""
    app.add_typer(run_group, name="run", rich_help_panel=PANEL)
    app.add_typer(ceiling_group, name="ceiling", rich_help_panel=PANEL)


@run_group.command("list")
def list_runs(
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=1, max=RUNS_MAX, help="How many at most.")] = 20,
    as_json: Json = False,
) -> None:
    """List the runs that a ceiling or a report counts, the newest first.

    Example: actionledger run list --tenant acme
    """
    from gateway.cli.place import settings

    out = Output("run list", as_json=as_json)
    found = asyncio.run(_runs(settings(), tenant, limit))
    out.answer(found, lambda console: _show_runs(console, found))


@run_group.command("show")
def show_run(
    run: Annotated[str, typer.Argument(help="The name of the run.", show_default=False)],
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Show a bar for every ceiling of a run: used, reserved and left, and whose word it is; and its
    actions by status.

    Example: actionledger run show support-2026-11-30-17
    """
    from gateway.cli.place import settings

    out = Output("run show", as_json=as_json)
    found = asyncio.run(_run(settings(), run, tenant))
    out.answer(found, lambda console: _show_run(console, found))


@ceiling_group.command("list")
def list_ceilings(
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """List every ceiling of the policy in force, with a bar for what its windows of now have used.

    Windows are each tenant's own: where several tenants have actions, say whose.

    Example: actionledger ceiling list --tenant acme
    """
    from gateway.cli.place import settings

    out = Output("ceiling list", as_json=as_json)
    found = asyncio.run(_ceilings(settings(), tenant))
    out.answer(found, lambda console: _show_ceilings(console, found))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def _runs(settings: "Settings", tenant: str | None, limit: int) -> "RunList":
    from gateway.cli.tenants import tell_if_without_action
    from gateway.http.run_views import run_list
    from gateway.wiring.documents import published_now
    from gateway.wiring.installation import open_pool
    from projections.queries import Queries
    from projections.query_rows import ALL

    policy = (await published_now(settings)).policy
    async with await open_pool(settings) as pool:
        found = await Queries(pool).runs(ALL if tenant is None else tenant, limit=limit)
        await tell_if_without_action(Queries(pool), tenant)
    return run_list(found, policy, _now_ms())


async def _run(settings: "Settings", run: str, tenant: str | None) -> "RunView":
    from gateway.http.limits import RUN_ACTIONS_MAX
    from gateway.http.run_views import cut, gate_of_run, run_view
    from gateway.wiring.documents import published_now
    from gateway.wiring.installation import open_pool
    from ledger.core.ids import MalformedId
    from projections.limits import ROWS_READ_MAX
    from projections.queries import Queries
    from projections.query_rows import ALL

    policy = (await published_now(settings)).policy
    async with await open_pool(settings) as pool:
        queries = Queries(pool)
        newest = await queries.runs(ALL)
        gates = [one for one in newest if one.name == run]
        scope = ALL if tenant is None else tenant
        actions = await queries.actions_of_run(scope, run, limit=RUN_ACTIONS_MAX)
        named = {one.tenant_id for one in gates} | {one.tenant_id for one in actions}
        tenants = named if tenant is None else {tenant}
        if len(tenants) > 1:
            raise UsageError(
                f"Several tenants have a run {run}: {', '.join(sorted(tenants))}.",
                hint="Say which with --tenant.",
            )
        own = next(iter(tenants), None)
        try:
            gate = None if own is None else await queries.gate(own, gate_of_run(own, run))
        except MalformedId as malformed:
            raise UsageError(
                f"{run} is no name of a run: {malformed}.", hint=malformed.hint
            ) from None
    if own is None or (gate is None and not actions):
        raise _no_run(run, is_cut=tenant is None and len(newest) >= ROWS_READ_MAX)
    return run_view(own, run, gate, actions, policy, _now_ms(), more=cut(actions))


def _no_run(run: str, *, is_cut: bool) -> "UnknownActionError":
    """Why a run is not shown; one that only steps named is found among the newest, or by tenant."""
    from gateway.cli.proposing import UnknownActionError

    if is_cut:
        return UnknownActionError(
            f"No action names a run {run}, and it is none of the newest.",
            hint="An older one that only steps have named is found with --tenant.",
        )
    return UnknownActionError(
        f"The read model has no run {run}.",
        hint="A run is known once an action or a step names it: `actionledger run list`.",
    )


async def _ceilings(settings: "Settings", tenant: str | None) -> "CeilingList":
    from gateway.cli.tenants import tell_if_without_action
    from gateway.http.run_views import ceiling_list
    from gateway.http.windows import gates_of_windows
    from gateway.wiring.documents import published_now
    from gateway.wiring.installation import open_pool
    from projections.queries import Queries
    from projections.query_rows import ALL

    policy, now_ms = (await published_now(settings)).policy, _now_ms()
    async with await open_pool(settings) as pool:
        own = tenant or _only_one(await Queries(pool).tenants(ALL))
        gates = await gates_of_windows(Queries(pool), own, policy, now_ms)
        await tell_if_without_action(Queries(pool), tenant)
    return ceiling_list(own, gates, policy, now_ms)


def _only_one(tenants: "Sequence[str]") -> str:
    """The tenant that is meant where nobody names one."""
    from gateway.cli.tenants import named
    from gateway.wiring.local import TENANT

    if len(tenants) > 1:
        raise UsageError(
            "Several tenants have actions.",
            hint=f"Say which with --tenant: {named(tenants)}.",
        )
    return tenants[0] if tenants else TENANT


def _show_runs(console: "Console", found: "RunList") -> None:
    from gateway.cli.actions import moment

    if not found.runs:
        console.print("No ceiling has counted a run.")
        return
    for one in found.runs:
        began = "" if one.opened_at is None else f"  began {moment(one.opened_at)} UTC"
        console.print(f"[bold]{one.run}[/]  {one.tenant}{began}", soft_wrap=True)
        show_bars(console, one.budgets)


def _show_run(console: "Console", found: "RunView") -> None:
    from gateway.cli.actions import coloured, moment

    began = "" if found.opened_at is None else f"  began {moment(found.opened_at)} UTC"
    console.print(f"[bold]{found.run}[/]  {found.tenant}{began}", soft_wrap=True)
    show_bars(console, found.budgets)
    counts = ", ".join(f"{count} {coloured(name)}" for name, count in found.by_status.items())
    console.print(f"\nActions: {counts or 'none'}")
    if found.more:
        console.print("These are the first ones that were recorded; there may be more.")
    for one in found.actions or ():
        told = "  ".join(part for part in (one.amount, one.target, one.review) if part)
        console.print(f"  {coloured(one.status)}  {one.key}", end="", soft_wrap=True)
        console.print(f"  {told}".rstrip(), markup=False, soft_wrap=True)
    console.print(f"[dim]{found.policy_hash}[/]")


def _show_ceilings(console: "Console", found: "CeilingList") -> None:
    from gateway.http.budgets import limits_words

    if not found.ceilings:
        console.print("The policy in force has no ceiling.")
    else:
        console.print(f"Of {found.tenant}:", markup=False)
    for one in found.ceilings:
        window = "" if one.window is None else f", by the {one.window} in {one.zone}"
        limits = limits_words(one.limits)
        console.print(f"[bold]{one.name}[/]  per {one.per}{window}: {limits}", soft_wrap=True)
        for window_view in one.windows:
            target = "" if window_view.target is None else f" on {window_view.target}"
            console.print(f"  {window_view.window}{target}", markup=False, soft_wrap=True)
            show_bars(console, window_view.budgets)
    console.print(f"[dim]{found.policy_hash}[/]")


def show_bars(console: "Console", budgets: "Sequence[BudgetView]") -> None:
    """A bar for every ceiling."""
    if not budgets:
        console.print("  no ceiling counts it", style="dim")
    for line in bar_lines(budgets):
        console.print(line, soft_wrap=True)


def bar_lines(budgets: "Sequence[BudgetView]") -> "Iterator[Text]":
    """A bar for every ceiling: used, reserved, left; and whose word it is."""
    from rich.text import Text

    from gateway.http.budgets import budget_line, dimension_words

    names = [
        " ".join(part for part in (one.ceiling, dimension_words(one.dimension)) if part)
        for one in budgets
    ]
    width = max(map(len, names), default=0)
    for name, one in zip(names, budgets, strict=True):
        whose = "" if one.kind == "enforced" else "  (the agent's own word)"
        line = Text(f"  {name:<{width}}  ").append_text(_bar(one))
        line.append(f"  {budget_line(one)}{whose}")
        if one.is_reached:
            line.append("  reached", style="red")
        yield line


def _bar(one: "BudgetView") -> "Text":
    from rich.text import Text

    if one.limit is None:
        return Text(" " * BAR_CHARS)
    used, taken = (_chars(amount, one.limit) for amount in (one.used, one.used + one.reserved))
    bar = Text(USED * used, style="red" if one.is_reached else "green")
    bar.append(RESERVED * (taken - used), style="yellow")
    return bar.append(LEFT * (BAR_CHARS - taken), style="dim")


def _chars(amount: int, limit: int) -> int:
    """How many characters of a bar an amount fills; a little is never shown as nothing."""
    if not amount:
        return 0
    return BAR_CHARS if amount >= limit else max(1, amount * BAR_CHARS // limit)
