"""`demo`: chapters of what the product does, each on the real processes."""

from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.output import Exit, Json, Output, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rich.console import Console

    from gateway.demo.chapter import Chapter

FIRST = "story"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", rich_help_panel="On this machine")(demo)


def demo(
    chapter: Annotated[
        str, typer.Argument(help="Which chapter; --list names them.", metavar="[NAME]")
    ] = FIRST,
    list_: Annotated[
        bool, typer.Option("--list", help="Name the chapters, and play none.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave everything running, to look around.")
    ] = False,
    here: Annotated[
        bool,
        typer.Option("--here", help="Tell it on the installation that runs, beside all else."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Tell the story of 2:13 a.m.: a charge whose answer is lost, and an agent that asks again. Or
    another chapter, by its name.

    Real Kafka, real Postgres, every process of the product and a payment provider with its own
    book, in a temporary folder, ended and removed afterwards. Ends with 0 if every claim held, with
    3 if one did not. With --here the chapter is told on what `actionledger up` has started, of a
    tenant of its own; catalogue and policy are the chapter's until it is over.

    Example: actionledger demo approvals --keep
    """
    from gateway.demo.chapters import CHAPTERS
    from gateway.demo.run import run_demo
    from gateway.demo.stage import Afterwards

    out = Output("demo", as_json=as_json)
    if list_:
        listed = [{"name": one.name, "line": one.line} for one in CHAPTERS.values()]
        out.answer(listed, lambda console: _show(console, CHAPTERS.values()))
    if chapter not in CHAPTERS:
        raise UsageError(
            f"There is no chapter {chapter!r}.", hint=f"There are {', '.join(CHAPTERS)}."
        )
    if here and keep:
        raise UsageError("What is here stays anyhow.", hint="Give --here or --keep.")
    afterwards = Afterwards.STAY if keep else Afterwards.REMOVE
    told = run_demo(out, CHAPTERS[chapter], afterwards, here=_running() if here else None)
    code = Exit.OK if told.all_held else Exit.DIFFERENCES
    out.answer(told.result(), lambda _console: None, code)


def _running() -> "Path":
    """Where the local installation is. Raises NoInstallationError."""
    from gateway.cli.place import local_state, state_folder

    local_state()
    return state_folder()


def _show(console: "Console", chapters: "Iterable[Chapter]") -> None:
    for one in chapters:
        console.print(f"[bold]{one.name:<12}[/] {one.line}")
