"""`catalogue`: the operations that may be asked for, checked and published."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.output import Exit, Json, Output

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.settings import Settings
    from ledger.core.catalogue import Mistake

group = typer.Typer(help="The catalogue of operations: check it, publish it.", no_args_is_help=True)

ADOPTED_MS_MAX = 30_000

File = Annotated[
    Path,
    typer.Argument(help="A catalogue in TOML.", exists=True, dir_okay=False, show_default=False),
]


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(group, name="catalogue", rich_help_panel="Operating")


@group.command("check")
def check(file: File, as_json: Json = False) -> None:
    """Read a catalogue and name every mistake with its line. Needs no server.

    Ends with 4 where there is one.

    Example: actionledger catalogue check catalogue.toml
    """
    from ledger.core.catalogue import Catalogue, parse_catalogue

    out = Output("catalogue check", as_json=as_json)
    parsed = parse_catalogue(_text(file))
    if not isinstance(parsed, Catalogue):
        mistakes = parsed
        out.answer(
            {"mistakes": mistakes},
            lambda console: _show_mistakes(console, file, mistakes),
            Exit.REFUSED,
        )
    names = [f"{one.name} v{one.version}" for one in parsed.operations]
    out.answer(
        {"mistakes": [], "operations": names, "content_hash": parsed.content_hash},
        lambda console: console.print(f"[green]✓[/] {len(names)} operations: {', '.join(names)}"),
    )


@group.command("publish")
def publish(file: File, as_json: Json = False) -> None:
    """Publish a catalogue and wait until every partition has adopted it.

    From then on every decision follows it. Publishing what is in force changes nothing.

    Example: actionledger catalogue publish catalogue.toml
    """
    from gateway.cli.place import settings
    from gateway.wiring.publishing import CatalogueRefusedError, checked_catalogue

    out = Output("catalogue publish", as_json=as_json)
    text = _text(file)
    try:
        content_hash = checked_catalogue(text).content_hash
    except CatalogueRefusedError as refused:
        mistakes = refused.mistakes
        out.answer(
            {"mistakes": mistakes},
            lambda console: _show_mistakes(console, file, mistakes),
            Exit.REFUSED,
        )
    published, waiting = asyncio.run(_publish(settings(), text))
    result = {
        "content_hash": content_hash,
        "published": published,
        "adopted": not waiting,
        "not_adopted": waiting,
    }
    said = "Published and adopted" if published else "In force already"
    if waiting:
        missing = ", ".join(map(str, waiting))
        said = f"Published; not adopted by partition {missing} yet: is the processor running?"
    code = Exit.TROUBLE if waiting else Exit.OK
    out.answer(result, lambda console: console.print(f"{said}. {content_hash}"), code)


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _show_mistakes(console: "Console", file: Path, mistakes: "tuple[Mistake, ...]") -> None:
    for one in mistakes:
        console.print(f"{file}:{one.line}: {one.message}", soft_wrap=True, markup=False)


async def _publish(settings: "Settings", text: str) -> tuple[bool, tuple[int, ...]]:
    """Whether it was published now, and the partitions that do not have it in time."""
    from gateway.wiring.installation import folds_at, open_log
    from gateway.wiring.publishing import publish_catalogue
    from ledger.log.adoption import await_adopted

    log = open_log(settings, "operator")
    offset, was_published = await publish_catalogue(log, text)
    folds = await folds_at(settings, log)
    waiting = await await_adopted(log, folds, offset, timeout_ms=ADOPTED_MS_MAX)
    return was_published, waiting
