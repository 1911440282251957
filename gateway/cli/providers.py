"""`provider`: the descriptions of providers, checked, and those that this installation has."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.documents import text_of
from gateway.cli.output import Exit, Json, Output

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console

    from ledger.core.catalogue import Mistake
    from ledger.core.operation import Operation
    from ledger.core.toml_lines import TomlPath
    from reconciler.providers.adapter import Adapter
    from reconciler.providers.promises import Promise

group = typer.Typer(
    help="Providers that are described by a file: begin one, check one, show what is there.",
    no_args_is_help=True,
)

File = Annotated[
    Path,
    typer.Argument(
        help="A description in TOML, named after its provider.",
        exists=True,
        dir_okay=False,
        show_default=False,
    ),
]


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    from gateway.cli.new_provider import new

    group.command("new")(new)
    app.add_typer(group, name="provider", rich_help_panel="Operating")


@group.command("check")
def check(
    file: File,
    catalogue: Annotated[
        Path | None,
        typer.Option(
            help="Hold the operations of this catalogue against what the provider promises.",
            exists=True,
            dir_okay=False,
            show_default=False,
        ),
    ] = None,
    suite: Annotated[
        bool, typer.Option("--suite", help="Ask the adapter what the port promises; calls nobody.")
    ] = False,
    stage: Annotated[
        str | None,
        typer.Option(
            help="module:function that opens a stage: ask the second half of the suite there.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Read a description: every mistake with its line, then what can and cannot be promised.

    Reads the files of its credentials as well, and calls nobody but a stage that is named. Ends
    with 4 where there is a mistake, where the catalogue relies on more than the provider promises,
    or where the adapter breaks what the suite asks.

    Example: actionledger provider check bank.toml --catalogue catalogue.toml --suite
    """
    from gateway.cli.provider_suite import asked, show_verdicts
    from reconciler.providers.adapter import ProviderSettings
    from reconciler.providers.kinds import kind_of, read_adapter
    from reconciler.providers.promises import promises

    out = Output("provider check", as_json=as_json)
    kind = kind_of(file)
    settings = ProviderSettings(file.stem, kind, adapter_file=file)
    read = read_adapter(settings)
    mistakes = read if isinstance(read, tuple) else _unreadable(file, read)
    if isinstance(read, tuple) or mistakes:
        out.answer(
            {"mistakes": mistakes},
            lambda console: _show_mistakes(console, file, mistakes),
            Exit.REFUSED,
        )
    beyond = () if catalogue is None else _beyond(file.stem, read, catalogue)
    verdicts = asked(settings, suite=suite, stage=stage)
    is_broken = any(one.came == "broken" for one in verdicts)
    told = promises(read.capabilities)
    result = {**_told(file.stem, kind, read), "promises": told, "beyond": beyond, "suite": verdicts}

    def show(console: "Console") -> None:
        _show_adapter(console, file.stem, read, told)
        if catalogue is not None:
            _show_mistakes(console, catalogue, beyond)
        show_verdicts(console, verdicts)

    out.answer(result, show, Exit.REFUSED if beyond or is_broken else Exit.OK)


@group.command("show")
def show(
    name: Annotated[
        str | None, typer.Argument(help="One provider; else all.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the providers that the settings name: where each is, and what it promises.

    From ACTIONLEDGER_PROVIDER_FILES and ACTIONLEDGER_PROVIDER_URLS. No credential is shown.

    Example: actionledger provider show bank
    """
    from gateway.cli.output import UsageError
    from gateway.cli.place import own_settings, settings
    from gateway.wiring.installation import providers
    from reconciler.providers.promises import promises, ways_out
    from reconciler.providers.registry import capabilities

    out = Output("provider show", as_json=as_json)
    own = own_settings()
    here = own if own.provider_files or own.provider_urls else settings()
    known = [one for one in providers(here, None) if name in {None, one.name}]
    if name is not None and not known:
        raise UsageError(
            f"No provider here is called {name!r}.",
            hint="Name its description in ACTIONLEDGER_PROVIDER_FILES.",
        )
    can = capabilities(known)
    shown = [
        {
            "name": one.name,
            "kind": one.kind,
            "file": None if one.adapter_file is None else str(one.adapter_file),
            "base_url": one.base_url,
            "verifies_webhooks": bool(one.webhook_secrets),
            "promises": promises(can[one.name]),
            "ways_out": ways_out(can[one.name]),
        }
        for one in known
    ]

    def tell(console: "Console") -> None:
        for one in known:
            place = one.adapter_file or one.base_url or "in this process"
            console.print(f"[bold]{one.name}[/] {one.kind}, {place}")
            _show_promises(console, promises(can[one.name]), ways_out(can[one.name]))
        if not known:
            console.print("No provider is configured.")

    out.answer(shown, tell)


def _told(name: str, kind: str, read: "Adapter") -> "Mapping[str, object]":
    from reconciler.providers.promises import ways_out

    return {
        "mistakes": [],
        "provider": name,
        "kind": kind,
        "base_url": read.place,
        "operations": sorted(read.operations),
        "accounts": sorted(read.accounts),
        "ways_out": ways_out(read.capabilities),
    }


def _unreadable(file: Path, adapter: "Adapter") -> "tuple[Mistake, ...]":
    """What a client would need and cannot be read, each on its line."""
    from ledger.core.catalogue import Mistake, dotted
    from ledger.core.toml_lines import line_of, lines_of

    lines = lines_of(file.read_text(encoding="utf-8"))
    return tuple(
        Mistake(line_of(lines, path), dotted(path), said) for path, said in adapter.unreadable()
    )


def _beyond(name: str, adapter: "Adapter", file: Path) -> "tuple[Mistake, ...]":
    """Where the catalogue's operations on this provider rely on more than it promises."""
    from ledger.core.catalogue import Catalogue, Mistake, dotted, parse_catalogue
    from ledger.core.toml_lines import line_of, lines_of
    from reconciler.providers.promises import beyond

    text = text_of(file)
    parsed = parse_catalogue(text)
    if not isinstance(parsed, Catalogue):
        return parsed
    lines = lines_of(text)
    found = []
    for index, operation in enumerate(parsed.operations):
        if operation.provider != name:
            continue
        table = ("operation", index)
        if not _is_in(adapter.operations, operation) and operation.performer != "caller":
            said = f"{operation.name} is not described in {name}.toml"
            found.append(Mistake(line_of(lines, table), dotted((*table, "name")), said))
        for path, said in (
            *_unforeseen(name, operation, adapter),
            *beyond(operation, adapter.capabilities),
        ):
            place = (*table, *path)
            found.append(Mistake(line_of(lines, place), dotted(place), f"{dotted(place)} {said}"))
    return tuple(sorted(found, key=lambda mistake: mistake.line))


def _unforeseen(
    name: str, operation: "Operation", adapter: "Adapter"
) -> "Iterator[tuple[TomlPath, str]]":
    """That previews are described, and not the one that an operation asks for."""
    is_asked = operation.preview == "provider" and bool(adapter.foreseen)
    if is_asked and not _is_in(adapter.foreseen, operation):
        yield ("preview",), f"is provider, and {name}.toml has no [preview] for {operation.name}"


def _is_in(described: frozenset[str], operation: "Operation") -> bool:
    from reconciler.providers.adapter import ANY_OPERATION

    return not described.isdisjoint({operation.name, ANY_OPERATION})


def _show_mistakes(console: "Console", file: Path, mistakes: "Sequence[Mistake]") -> None:
    for one in mistakes:
        place = "" if one.message.startswith(one.path) or not one.path else f"{one.path} "
        console.print(f"{file}:{one.line}: {place}{one.message}", soft_wrap=True, markup=False)


def _show_adapter(
    console: "Console", name: str, read: "Adapter", told: "Sequence[Promise]"
) -> None:
    console.print(f"[bold]{name}[/] at {read.place or 'the address in the settings'}")
    console.print(f"  operations: {', '.join(sorted(read.operations))}", markup=False)
    accounts = ", ".join(sorted(read.accounts)) or "none with a credential here"
    console.print(f"  accounts: {accounts}", markup=False)
    from reconciler.providers.promises import ways_out

    _show_promises(console, told, ways_out(read.capabilities))


def _show_promises(console: "Console", told: "Sequence[Promise]", out: "Sequence[str]") -> None:
    for one in told:
        mark = "[green]✓[/]" if one.is_kept else "[yellow]✗[/]"
        console.print(f"  {mark} {one.sentence}")
    if out:
        console.print("  What helps where a second call may be a second effect:")
    for number, way in enumerate(out, start=1):
        console.print(f"    {number}. {way}", soft_wrap=True)
