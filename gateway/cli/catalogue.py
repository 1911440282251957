"""`catalogue`: the operations that may be asked for: checked, shown, compared, published, and begun
from a schema.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.documents import (
    TIMEOUT_S,
    Source,
    Timeout,
    nothing_published,
    print_source,
    publish_file,
    refuse_mistakes,
    text_of,
)
from gateway.cli.output import Exit, Json, Output, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ledger.core.catalogue import Catalogue
    from ledger.core.operation import Operation

group = typer.Typer(
    help="The catalogue of operations: what may be asked for, and how it is carried out.",
    no_args_is_help=True,
)

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
    out = Output("catalogue check", as_json=as_json)
    parsed = _catalogue(out, file)
    names = [f"{one.name} v{one.version}" for one in parsed.operations]
    out.answer(
        {"mistakes": [], "operations": names, "content_hash": parsed.content_hash},
        lambda console: console.print(f"[green]✓[/] {len(names)} operations: {', '.join(names)}"),
    )


@group.command("publish")
def publish(file: File, timeout: Timeout = TIMEOUT_S, as_json: Json = False) -> None:
    """Publish a catalogue and wait until every partition has adopted it.

    From then on every decision follows it: what waits and would be refused under it is denied.
    Publishing what is in force changes nothing. See first what callers would notice: `actionledger
    catalogue diff`. Notes on stderr tell what the policy in force leaves out of it.

    Example: actionledger catalogue publish catalogue.toml
    """
    out = Output("catalogue publish", as_json=as_json)
    for one in _notes(_catalogue(out, file)):
        typer.echo(f"Note: {one}.", err=True)
    publish_file(out, "catalogue", file, timeout)


@group.command("show")
def show(
    name: Annotated[
        str | None,
        typer.Argument(help="One operation, as charge or charge:v2.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            help="A catalogue in TOML, instead of the one in force.", exists=True, dir_okay=False
        ),
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of the parameters.")
    ] = False,
    source: Source = False,
    as_json: Json = False,
) -> None:
    """Show the operations in force, or one of them whole.

    Example: actionledger catalogue show charge --schema
    """
    from gateway.cli.catalogue_shown import show_operations, show_whole
    from ledger.core.schema_writing import schema_of

    out = Output("catalogue show", as_json=as_json)
    if source:
        if file is not None or name is not None or schema:
            raise UsageError("--source is the whole text in force.", hint="Give it alone.")
        print_source(out, "catalogue")
    known = _in_force() if file is None else _catalogue(out, file)
    chosen = known.operations if name is None else _named(known, name)
    if schema:
        schemas = {f"{one.name}:v{one.version}": schema_of(one) for one in chosen}
        told = schemas if len(schemas) != 1 else next(iter(schemas.values()))
        out.answer(told, lambda console: console.print_json(data=told, ensure_ascii=True))
    if name is not None:
        out.answer(
            {"operations": chosen, "content_hash": known.content_hash},
            lambda console: show_whole(console, chosen, known.timing),
        )
    out.answer(
        {"operations": chosen, "timing": known.timing, "content_hash": known.content_hash},
        lambda console: show_operations(console, known),
    )


@group.command("diff")
def diff(
    file: File,
    against: Annotated[
        Path | None,
        typer.Option(
            help="A catalogue in TOML to begin from, instead of the one in force.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell what would change if a catalogue were published: what callers would notice, and what
    would break them.

    Breaking is what may refuse a request that was taken before, also of an action that waits, or
    bring an effect about another way. Ends with 3 where something differs.

    Example: actionledger catalogue diff catalogue.toml
    """
    from gateway.cli.catalogue_shown import show_changes
    from ledger.core.catalogue_changes import catalogue_changes

    out = Output("catalogue diff", as_json=as_json)
    after = _catalogue(out, file)
    before = _in_force() if against is None else _catalogue(out, against)
    changes = catalogue_changes(before, after)
    result = {
        "before": before.content_hash,
        "after": after.content_hash,
        "breaking": sum(one.is_breaking for one in changes),
        "changes": changes,
    }
    code = Exit.DIFFERENCES if changes else Exit.OK
    out.answer(result, lambda console: show_changes(console, before, after, changes), code)


@group.command("from-schema")
def from_schema(
    schema: Annotated[
        str,
        typer.Argument(
            metavar="FILE.json|MODULE:MODEL",
            help="A JSON Schema, or a model of pydantic that can be imported from here.",
            show_default=False,
        ),
    ],
    as_json: Json = False,
) -> None:
    """Print the parameters of an operation as a schema describes them, ready for a catalogue.

    What a catalogue cannot say is named with its place, on stderr and in the JSON. Ends with 3
    where something was lost.

    Example: actionledger catalogue from-schema shop.models:Refund >> catalogue.toml
    """
    from gateway.cli.catalogue_shown import show_parameters
    from ledger.core.schema_reading import NoObjectSchemaError, parameters_from
    from ledger.core.schema_writing import parameters_toml

    out = Output("catalogue from-schema", as_json=as_json)
    try:
        parameters, lost = parameters_from(_schema(schema))
    except NoObjectSchemaError as refused:
        raise UsageError(
            f"{schema}: {refused}.", hint="Give the schema of one object, with its properties."
        ) from None
    text = parameters_toml(parameters)
    result = {"parameters": parameters, "toml": text, "lost": lost}
    code = Exit.DIFFERENCES if lost else Exit.OK
    out.answer(result, lambda _console: show_parameters(text, lost), code)


def _catalogue(out: Output, file: Path) -> "Catalogue":
    from ledger.core.catalogue import Catalogue, parse_catalogue

    parsed = parse_catalogue(text_of(file))
    if not isinstance(parsed, Catalogue):
        refuse_mistakes(out, file, parsed)
    return parsed


def _notes(catalogue: "Catalogue") -> "Sequence[object]":
    """What the decision table in force leaves out of what the catalogue declares."""
    from gateway.cli.place import settings
    from ledger.core.policy_notes import unguarded

    known = settings()
    from gateway.wiring.documents import published_now

    return unguarded(asyncio.run(published_now(known)).policy, catalogue)


def _in_force() -> "Catalogue":
    from gateway.cli.place import settings

    known = settings()
    from gateway.wiring.documents import published_now

    catalogue = asyncio.run(published_now(known)).catalogue
    if catalogue is None:
        nothing_published("catalogue")
    return catalogue


def _named(catalogue: "Catalogue", text: str) -> "tuple[Operation, ...]":
    name, _, version = text.partition(":v")
    found = tuple(
        one
        for one in catalogue.operations
        if one.name == name and version in {"", str(one.version)}
    )
    if not found:
        names = ", ".join(dict.fromkeys(one.name for one in catalogue.operations))
        raise UsageError(f"There is no operation {text}.", hint=f"There are {names}.")
    return found


def _schema(text: str) -> "Mapping[str, Any]":
    """The schema in a file, or of a model."""
    module, colon, name = text.partition(":")
    if colon and not Path(text).exists():
        return _schema_of_model(module, name)
    import json

    try:
        read = json.loads(text_of(Path(text)))
    except ValueError as malformed:
        raise UsageError(f"{text} is no JSON: {malformed}.", hint="Give a JSON Schema.") from None
    return read if isinstance(read, dict) else {}


def _schema_of_model(module: str, name: str) -> "Mapping[str, Any]":
    import importlib
    import sys

    # As `python -m` does: what lies where the command is called can be imported.
    sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
    except ImportError as missing:
        raise UsageError(
            f"{module} cannot be imported: {missing}.",
            hint="Call the command where `python -c 'import ...'` finds it.",
        ) from None
    finally:
        sys.path.remove("")
    for part in name.split("."):
        found = getattr(found, part, None)
    describe = getattr(found, "model_json_schema", None)
    if describe is None:
        raise UsageError(f"{module} has no model {name}.", hint="Name a model of pydantic.")
    described: Mapping[str, Any] = describe()
    return described
