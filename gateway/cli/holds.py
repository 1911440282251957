"""`hold`, `release`, `holds`: the emergency stop."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from gateway.cli.output import Exit, Json, Output, UsageError
from ledger.core.excerpt import visible

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.wiring.ordering import Ordered
    from ledger.core.holds import Holds, Order, Scope

PANEL = "Operating"
TIMEOUT_S = 30

Provider = Annotated[str | None, typer.Option(help="Everything at this provider.")]
Tenant = Annotated[str | None, typer.Option(help="Everything of this tenant.")]
Operation = Annotated[str | None, typer.Option(help="This operation, in every version.")]
All = Annotated[bool, typer.Option("--all", help="Everything there is.")]
Reason = Annotated[str | None, typer.Option(help="Why; whoever looks at a held action sees it.")]
AsWritten = Annotated[
    bool, typer.Option("--as-written", help="The tenant is no slip of the pen for another one.")
]
By = Annotated[str | None, typer.Option(help="Who says so. By itself: the user of this shell.")]
Timeout = Annotated[int, typer.Option(min=1, max=600, help="Seconds to wait for all partitions.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("hold", rich_help_panel=PANEL)(hold)
    app.command("release", rich_help_panel=PANEL)(release)
    app.command("holds", rich_help_panel=PANEL)(holds)


def hold(
    *,
    provider: Provider = None,
    tenant: Tenant = None,
    operation: Operation = None,
    everything: All = False,
    reason: Reason = None,
    by: By = None,
    as_written: AsWritten = False,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Keep new attempts from starting, until a release. The emergency stop.

    Names given together must all apply; several holds stand side by side, and an action starts only
    when none covers it. Attempts that were sent before go on: what left cannot be called back, and
    its outcome, lookups and evidence are recorded as always. What is held waits as it is, its own
    deadline runs on, and after the release it goes on by itself.

    Returns when every partition has adopted it. The same hold twice is one.

    Example: actionledger hold --provider simulated --reason "double charges seen"
    """
    order = _order(_scope("hold", provider, tenant, operation, everything), reason, by)
    _run("hold", order, timeout, as_written=as_written, as_json=as_json)


def release(
    *,
    provider: Provider = None,
    tenant: Tenant = None,
    operation: Operation = None,
    everything: All = False,
    reason: Reason = None,
    by: By = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """End a hold: name exactly what it named. What no other hold covers goes on by itself.

    Ends with 4 where that is not held; `actionledger holds` lists what is.

    Example: actionledger release --provider simulated
    """
    order = _order(_scope("release", provider, tenant, operation, everything), reason, by)
    _run("release", order, timeout, as_json=as_json)


def holds(as_json: Json = False) -> None:
    """List what is held: since when, by whom, and why.

    Example: actionledger holds
    """
    from gateway.cli.place import settings
    from gateway.wiring.ordering import holds_in_force

    out = Output("holds", as_json=as_json)
    found = asyncio.run(holds_in_force(settings()))
    out.answer({"holds": found}, lambda console: _show_holds(console, found))


def _scope(
    command: str,
    provider: str | None,
    tenant: str | None,
    operation: str | None,
    everything: bool,
) -> "Scope":
    from pydantic import ValidationError

    from ledger.core.holds import Scope

    names = (provider, tenant, operation)
    if not everything and names == (None, None, None):
        raise UsageError(
            f"Say what to {command}.",
            hint="Name a --provider, a --tenant or an --operation; for everything, say --all.",
        )
    if everything and names != (None, None, None):
        raise UsageError(
            "--all is everything; it takes no name beside it.", hint="Leave one of both out."
        )
    try:
        return Scope(provider=provider, tenant=tenant, operation=operation)
    except ValidationError as refused:
        said = refused.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise UsageError(
            f"{said[:1].upper()}{said[1:]}.", hint="Write it as it stands in the catalogue."
        ) from None


def _order(scope: "Scope", reason: str | None, by: str | None) -> "Order":
    from pydantic import ValidationError

    from ledger.core.holds import Order

    try:
        return Order(scope=scope, by=user() if by is None else by, reason=reason)
    except ValidationError as refused:
        where = refused.errors(include_url=False)[0]
        raise UsageError(
            f"--{where['loc'][0]}: {where['msg']}.", hint="Write a name, or a short sentence."
        ) from None


def user() -> str:
    """The name of the user whose process this is: who gives an order, unless it is said."""
    import os
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def _run(
    kind: str, order: "Order", timeout_s: int, *, as_written: bool = False, as_json: bool
) -> None:
    from gateway.cli.place import settings
    from gateway.cli.progress import progress
    from gateway.local.progress import Progress
    from gateway.tenant_names import TenantSpellingError
    from gateway.wiring import ordering

    out = Output(kind, as_json=as_json)
    with progress() as report:

        def tell(done: int, of: int) -> None:
            report(Progress("adopted by", done, of, "partitions"))

        try:
            ordered = asyncio.run(
                ordering.order(
                    settings(),
                    kind,
                    order,
                    timeout_ms=timeout_s * 1_000,
                    spelling="as_written" if as_written else "checked",
                    progress=tell,
                )
            )
        except (
            ordering.NotHeldError,
            ordering.TooManyHoldsError,
            ordering.UnknownScopeError,
            TenantSpellingError,
        ) as refused:
            _refuse(out, refused)
    result: dict[str, Any] = {
        "scope": order.scope,
        "by": order.by,
        "reason": order.reason,
        "published": ordered.was_published,
        "config_offset": ordered.offset,
        "partitions": ordered.partitions,
        "not_adopted": ordered.waiting,
    }
    code = Exit.TROUBLE if ordered.waiting else Exit.OK
    out.answer(result, lambda console: _show_ordered(console, kind, ordered), code)


def _refuse(out: Output, refused: Any) -> NoReturn:  # noqa: ANN401 - one of four errors
    from gateway.cli.output import code_of

    def show(console: "Console") -> None:
        console.print(refused.message, markup=False)
        console.print(refused.hint, markup=False)

    told = {"code": code_of(refused), "message": refused.message, "hint": refused.hint}
    out.answer({"refused": told}, show, Exit.REFUSED)


def _show_ordered(console: "Console", kind: str, ordered: "Ordered") -> None:
    done = {"hold": "Held", "release": "Released"}[kind]
    again = "" if ordered.was_published else " It was held before: this is the same hold."
    if not ordered.waiting:
        console.print(
            f"[green]✓[/] {done}: {ordered.scope}, in all {ordered.partitions} partitions.{again}"
        )
        return
    missing = ", ".join(map(str, ordered.waiting))
    console.print(
        f"[red]✗[/] Published, and not adopted by partition {missing} in time: is the processor "
        "running? It adopts this before it decides anything else, and executors that run heed it "
        "already. The same command again waits again.",
        soft_wrap=True,
    )


def _show_holds(console: "Console", found: "Holds") -> None:
    from datetime import UTC, datetime

    from rich.table import Table

    if not found:
        console.print("[green]✓[/] Nothing is held.")
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("held", "since", "by", "why"):
        table.add_column(name, overflow="fold")
    for one in found:
        since = datetime.fromtimestamp(one.since / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        table.add_row(*map(_plain, (str(one.scope), since, one.by, one.reason or "")))
    console.print(table)


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(visible(text))
