"""`notify`: who is told that an action waits for people; check the file, and try it out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.output import Exit, Json, Output, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from ledger.core.mistakes import Mistake
    from reconciler.notifying.destinations import Destination, Destinations

group = typer.Typer(
    help="Who is told that an action waits for people: by webhook and by mail.",
    no_args_is_help=True,
)

File = Annotated[
    Path | None,
    typer.Argument(
        help="A file of destinations in TOML; else that of ACTIONLEDGER_NOTIFY_FILE.",
        exists=True,
        dir_okay=False,
        show_default=False,
    ),
]


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(group, name="notify", rich_help_panel="Operating")


@group.command("check")
def check(file: File = None, as_json: Json = False) -> None:
    """Read a file of destinations and its secrets: every mistake with its line, or who is told.

    Calls nobody. No secret is shown. Ends with 4 where there is a mistake.

    Example: actionledger notify check notify.toml
    """
    out = Output("notify check", as_json=as_json)
    path = _path(file)
    known = _known(path, out)
    told = [_told(one) for one in known.all]
    smtp = known.smtp
    server = None if smtp is None else f"{smtp.host}:{smtp.port} ({smtp.security})"

    def show(console: "Console") -> None:
        for one in told:
            console.print(f"{one['name']} {one['where']}", markup=False, highlight=False)
        if server is not None:
            console.print(f"mail leaves by {server}", markup=False, highlight=False)
        if not told:
            console.print("Nobody is told.")

    out.answer({"mistakes": [], "destinations": told, "smtp": server}, show)


@group.command("test")
def try_out(
    file: File = None,
    to: Annotated[
        str | None,
        typer.Option(help="One destination, as `check` names it; else all.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Send a trial to each destination, once, and say which took it.

    It says that nothing waits, and bears the same signature and sender as the real ones. Ends with
    4 where one was not taken.

    Example: actionledger notify test --to webhook:ops-chat
    """
    import asyncio
    import secrets

    from gateway.cli.place import settings
    from reconciler.notifying.messages import Message, Pages
    from reconciler.notifying.sending import send
    from streams.clock import wall_ms

    out = Output("notify test", as_json=as_json)
    known = _known(_path(file), out)
    chosen = [one for one in known.all if to in {None, one.id}]
    if not chosen:
        raise UsageError(
            "No destination of this file is called so.",
            hint="`actionledger notify check` names them, as in mail:ann.",
        )
    pages = Pages(settings().console_origin)
    trial = Message(f"msg_{secrets.token_hex(12)}", (), wall_ms())

    async def tried() -> list[str | None]:
        return list(await asyncio.gather(*(send(one, trial, pages, known.smtp) for one in chosen)))

    results = [
        {"name": one.id, "taken": why is None, "reason": why}
        for one, why in zip(chosen, asyncio.run(tried()), strict=True)
    ]

    def show(console: "Console") -> None:
        for one in results:
            said = "has taken it" if one["taken"] else f"has not taken it: {one['reason']}"
            console.print(f"{one['name']} {said}", markup=False, highlight=False)

    all_taken = all(one["taken"] for one in results)
    out.answer({"results": results}, show, Exit.OK if all_taken else Exit.REFUSED)


def _path(file: Path | None) -> Path:
    from gateway.cli.place import settings

    path = file or settings().notify_file
    if path is None:
        raise UsageError(
            "There is no file of destinations.",
            hint="Name one, or set ACTIONLEDGER_NOTIFY_FILE, here and for the reconciler.",
        )
    return path


def _known(path: Path, out: Output) -> "Destinations":
    """What the file says; where it has mistakes the command ends with them."""
    from reconciler.notifying.destinations import Destinations, read_destinations

    read = read_destinations(path)
    if not isinstance(read, Destinations):
        out.answer(
            {"mistakes": read}, lambda console: _show_mistakes(console, path, read), Exit.REFUSED
        )
    return read


def _told(one: "Destination") -> dict[str, str]:
    from reconciler.notifying.destinations import Webhook

    if isinstance(one, Webhook):
        groups = f", groups {', '.join(one.groups)}" if one.groups else ""
        where = f"{one.url} (tenants {', '.join(one.tenants)}{groups})"
    else:
        where = f"{one.to} (when {one.person} may decide)"
    return {"name": one.id, "where": where}


def _show_mistakes(console: "Console", file: Path, mistakes: "Sequence[Mistake]") -> None:
    for one in mistakes:
        place = f"{one.path} " if one.path else ""
        console.print(f"{file}:{one.line}: {place}{one.message}", soft_wrap=True, markup=False)
