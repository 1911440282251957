"""What commands about adopted documents have in common: the text of a file, mistakes with their
lines, publishing with its wait, and the text in force.

Called by `catalogue` and `policy`; by other commands for the text of a file.
"""

import asyncio
import sys
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from gateway.cli.output import Exit, Output

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from gateway.wiring.documents import PublishedEverywhere
    from gateway.wiring.publishing import Kind
    from ledger.core.mistakes import Mistake

TIMEOUT_S = 30

Timeout = Annotated[int, typer.Option(min=1, max=600, help="Seconds to wait for all partitions.")]
Source = Annotated[
    bool,
    typer.Option("--source", help="Print the text as it was published, comments included."),
]


def text_of(file: Path) -> str:
    """The text of a file. Raises UsageError where it is none."""
    from gateway.cli.output import UsageError

    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text.", hint="Save it as UTF-8.") from None


def refuse_mistakes(out: Output, file: Path, mistakes: "Iterable[Mistake]") -> NoReturn:
    """End with every mistake on its line."""
    found = tuple(mistakes)

    def show(console: "Console") -> None:
        for one in found:
            path = f"{one.path} " if one.path else ""
            said = f"{file}:{one.line}: {path}{one.message}"
            console.print(said, soft_wrap=True, markup=False)

    out.answer({"mistakes": found}, show, Exit.REFUSED)


def publish_file(out: Output, kind: "Kind", file: Path, timeout_s: int) -> NoReturn:
    """Publish a document and wait for all partitions; or end with its mistakes."""
    from gateway.cli.place import settings
    from gateway.cli.progress import progress
    from gateway.local.progress import Progress
    from gateway.wiring.publishing import DocumentRefusedError, checked_document

    text = text_of(file)
    try:
        content_hash = checked_document(kind, text).content_hash
    except DocumentRefusedError as refused:
        refuse_mistakes(out, file, refused.mistakes)
    known = settings()
    from gateway.wiring.documents import publish_everywhere

    with progress() as report:

        def tell(done: int, of: int) -> None:
            report(Progress("adopted by", done, of, "partitions"))

        done = asyncio.run(
            publish_everywhere(known, kind, text, timeout_ms=timeout_s * 1_000, progress=tell)
        )
    result: dict[str, Any] = {
        "content_hash": content_hash,
        "published": done.was_published,
        "adopted": not done.waiting,
        "config_offset": done.offset,
        "partitions": done.partitions,
        "not_adopted": done.waiting,
        "overtaken_by": done.overtaken_by,
    }
    code = Exit.TROUBLE if done.waiting or done.overtaken_by else Exit.OK
    told = partial(show_published, kind=kind, done=done, content_hash=content_hash)
    out.answer(result, told, code)


def show_published(
    console: "Console", *, kind: "Kind", done: "PublishedEverywhere", content_hash: str
) -> None:
    """What came of publishing a document, for a person."""
    if done.overtaken_by is not None:
        console.print(
            f"[red]✗[/] Published, and not in force: somebody has published another {kind} since, "
            f"{done.overtaken_by}. Look at that one (`actionledger {kind} show --source`) before "
            "you publish yours again.",
            soft_wrap=True,
        )
        return
    if not done.waiting:
        said = "Published and adopted" if done.was_published else "In force already"
        console.print(f"[green]✓[/] {said}. {content_hash}", soft_wrap=True)
        return
    missing = ", ".join(map(str, done.waiting))
    console.print(
        f"[red]✗[/] Published, and not adopted by partition {missing} in time: is the processor "
        "running? It adopts this before it decides anything else. The same command again waits "
        "again.",
        soft_wrap=True,
    )


def print_source(out: Output, kind: "Kind") -> NoReturn:
    """End with the text that is in force; nothing else stands on stdout, so it can go to a file."""
    from gateway.cli.place import settings
    from gateway.wiring.documents import source_in_force

    text = asyncio.run(source_in_force(settings(), kind))
    if text is None:
        nothing_published(kind)
    out.answer({"text": text}, lambda _console: _write(text))


def _write(text: str) -> None:
    """The text in its own bytes, whatever the terminal is: its hash is that of UTF-8."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.write(text)
    sys.stdout.flush()


def nothing_published(kind: "Kind") -> NoReturn:
    """End because there is nothing in force yet."""
    from gateway.cli.output import UsageError

    raise UsageError(
        f"No {kind} has been published.", hint=f"Publish one: `actionledger {kind} publish FILE`."
    )
