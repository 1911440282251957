"""`evidence import`: lines of a provider's settlement file, told to the ledger and followed."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gateway.cli.output import Exit, Json, Output, UsageError, count_of
from ledger.core.excerpt import visible

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.settings import Settings
    from gateway.wiring.import_desk import Imported
    from reconciler.providers.settlement import Columns, FileFormat

group = typer.Typer(
    help="What providers state in files: bring it, and see what it proves.", no_args_is_help=True
)

SHOWN_LINES: Final = 20
"""Of bad lines and of differences, on a terminal; --json has more."""

ENDINGS: "Final[dict[str, FileFormat]]" = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(group, name="evidence", rich_help_panel="Operating")


@group.command("import")
def import_lines(
    file: Annotated[
        Path,
        typer.Argument(
            help="A payout report: CSV, or JSON lines.",
            exists=True,
            dir_okay=False,
            show_default=False,
        ),
    ],
    provider: Annotated[str, typer.Option(help="Whose report it is.", show_default=False)],
    *,
    account: Annotated[
        str | None,
        typer.Option(help="Which account it is about; else the only one.", show_default=False),
    ] = None,
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format", help="csv or jsonl; else as declared, or by the name.", show_default=False
        ),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Bring the good lines of a file with bad ones.")
    ] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="End when all lines are in the log.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Bring a settlement file: each line is evidence, or says what the ledger knows already.

    The file is read to its end before its first line is sent. Where the columns stand is said under
    [settlement] in the provider's description; docs/SETTLEMENT.md shows how. The same file again
    changes nothing. Ends with 3 where lines are unmatched or conflict, with 4 where bad lines kept
    it from being sent, with 1 where some lines were not decided in time.

    Example: actionledger evidence import payouts.csv --provider bank
    """
    from gateway.cli.place import settings
    from gateway.cli.progress import progress
    from gateway.wiring.import_desk import STILL_MS_MAX, FileMeant, account_of, import_file

    out = Output("evidence import", as_json=as_json)
    known = settings()
    columns = _columns(known, provider, file, out)
    fitting = _format(file, file_format, columns)

    async def bring() -> "Imported":
        chosen = await account_of(known, provider, account)
        meant = FileMeant(file, columns, fitting, provider, chosen, skips_bad=skip_bad)
        patience_ms = 0 if no_wait else STILL_MS_MAX
        with progress() as report:
            return await import_file(known, meant, report, patience_ms=patience_ms)

    done = asyncio.run(bring())
    out.answer(done, lambda console: show_imported(console, done), _code(done, waited=not no_wait))


def _columns(known: "Settings", provider: str, file: Path, out: Output) -> "Columns":
    """Where the columns of this provider's reports stand; ends the command at a mistake. The
    simulated provider has a report of its own, and takes a file with our columns as well.
    """
    from gateway.wiring.installation import SIMULATED
    from reconciler.providers import settlement
    from reconciler.settlement_files import begins_as

    path = known.provider_files.get(provider)
    declared = None if path is None else settlement.read_settlement(path)
    if isinstance(declared, tuple):
        mistakes = declared

        def show(console: "Console") -> None:
            for one in mistakes:
                console.print(f"{path}:{one.line}: {one.path} {one.message}", markup=False)

        out.answer({"mistakes": mistakes}, show, Exit.REFUSED)
    if declared is not None:
        return declared
    # A pipe can be read once, so that nobody looks into it before.
    is_own_form = file.is_file() and begins_as(file, settlement.OWN_FORM)
    is_report = provider == SIMULATED and not is_own_form
    return settlement.SIMULATED if is_report else settlement.OWN_FORM


def _format(file: Path, asked: str | None, columns: "Columns") -> "FileFormat":
    if asked is not None:
        named = ENDINGS.get(f".{asked}")
        if named is None:
            raise UsageError(f"There is no format {asked!r}.", hint="Say --format csv or jsonl.")
        return named
    found = columns.format or ENDINGS.get(file.suffix.lower())
    if found is None:
        raise UsageError(
            f"The name of {file.name} does not say what it holds.",
            hint="Say --format csv or jsonl.",
        )
    return found


def _code(done: "Imported", *, waited: bool) -> Exit:
    if done.is_refused:
        return Exit.REFUSED
    if done.unmatched or done.conflicting:
        return Exit.DIFFERENCES
    return Exit.TROUBLE if waited and done.waiting else Exit.OK


def show_imported(console: "Console", done: "Imported") -> None:
    """The counts, and the first of what is bad or differs."""
    if done.is_refused:
        of = count_of(done.lines, "line")
        are = "is" if done.bad == 1 else "are"
        console.print(f"[red]✗[/] Nothing was sent: {done.bad} of {of} {are} bad.")
    else:
        mark = "[yellow]![/]" if done.unmatched + done.conflicting + done.waiting else "[green]✓[/]"
        of = count_of(done.lines, "line")
        console.print(f"{mark} {of} of {done.provider}, account {done.account}")
        for name, count in _counts(done):
            if count or name == "matched":
                console.print(f"  {count:>9}  {name}", markup=False)
    for bad in done.bad_lines[:SHOWN_LINES]:
        said = f"line {bad.number}: {bad.code}: {bad.detail}"
        console.print(f"  {visible(said)}", markup=False)
    for one in done.differences[:SHOWN_LINES]:
        about = f", {one.action_key}" if one.action_key else ""
        said = f"line {one.line}: {one.standing}: {one.why} ({one.reference}{about})"
        console.print(f"  {visible(said)}", markup=False, soft_wrap=True)
    more = max(done.bad, len(done.differences)) - SHOWN_LINES
    if more > 0:
        console.print("  [dim]… and more; --json names up to 1000 of each.[/]")
    if done.unmatched:
        console.print("Effects without an action: actionledger review list --orphans")
    if done.conflicting:
        console.print(
            "Conflicts: actionledger review show KEY has the case of an action; actionledger "
            "webhook list --state parked has the lines without one.",
            soft_wrap=True,
        )
    if done.waiting:
        console.print("Some lines are not decided: import the same file again to see them.")


def _counts(done: "Imported") -> tuple[tuple[str, int], ...]:
    return (
        ("matched", done.matched),
        ("already known", done.already_known),
        ("unmatched", done.unmatched),
        ("conflicting", done.conflicting),
        ("not decided yet", done.waiting),
        ("say nothing about an effect", done.irrelevant),
        ("repeat a line before them", done.repeated),
        ("bad and skipped", done.bad),
    )
