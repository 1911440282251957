"""How operations, their changes and their parameters look for a person. Called by `catalogue`."""

import sys
from typing import TYPE_CHECKING, Any

from ledger.core.decide.questions import bound_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from ledger.core.catalogue import Catalogue
    from ledger.core.catalogue_changes import CatalogueChange
    from ledger.core.operation import Operation
    from ledger.core.schema_reading import Lost
    from ledger.core.timing import Timing


def show_operations(console: "Console", catalogue: "Catalogue") -> None:
    """Every operation on a line."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("operation", "kind", "provider", "class", "who may ask", "what it does"):
        table.add_column(name, overflow="fold")
    for one in catalogue.operations:
        told = (
            f"{one.name}:v{one.version}",
            one.kind or "(not said)",
            f"{one.provider} / {one.account}",
            one.reliability,
            ", ".join(one.principals),
            one.description or "",
        )
        table.add_row(*map(escape, told))
    console.print(table)
    console.print(f"[dim]{catalogue.content_hash}[/]", soft_wrap=True)


def show_whole(console: "Console", operations: "Sequence[Operation]", timing: "Timing") -> None:
    """Operations whole: every field, defaults included, and when an unknown outcome of one has
    come to an end at the latest.
    """
    for one in operations:
        _show_operation(console, one)
        told = f"  {'unknown ends within, ms':<28} {bound_of(one, timing)}"
        console.print(told, markup=False, soft_wrap=True)


def _show_operation(console: "Console", operation: "Operation") -> None:
    from rich.markup import escape

    console.print(f"[bold]{escape(operation.name)}:v{operation.version}[/]")
    for name, value in operation.model_dump().items():
        if name in {"name", "version", "parameters"}:
            continue
        console.print(f"  {name:<28} {_said(value)}", markup=False, soft_wrap=True)
    for name, parameter in operation.parameters.items():
        facts = parameter.model_dump(exclude_none=True)
        console.print(f"  parameter {name:<18} {_said(facts)}", markup=False, soft_wrap=True)


def _said(value: Any) -> str:  # noqa: ANN401 - any field of an operation
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(f"{key} {_quoted(one)}" for key, one in value.items()) or "-"
        case list() | tuple():
            return ", ".join(map(_said, value)) or "-"
        case _:
            return str(value)


def _quoted(value: Any) -> str:  # noqa: ANN401 - any field of a table
    """A value among others: a sentence says where it ends."""
    return f"“{value}”" if isinstance(value, str) and " " in value else _said(value)


def show_changes(
    console: "Console",
    before: "Catalogue",
    after: "Catalogue",
    changes: "Sequence[CatalogueChange]",
) -> None:
    """What differs, breaking changes marked."""
    from rich.markup import escape
    from rich.table import Table

    if not changes:
        same = before.content_hash == after.content_hash
        said = "It is the same catalogue." if same else "Only comments and spelling differ."
        console.print(f"[green]✓[/] {said}")
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("", "operation", "what", "before", "after", "who notices"):
        table.add_column(name, overflow="fold")
    for one in changes:
        told = (one.operation or "(all)", one.path or "(as a whole)", one.was, one.now, one.says)
        table.add_row("[red]breaks[/]" if one.is_breaking else "", *map(escape, told))
    console.print(table)
    count = sum(one.is_breaking for one in changes)
    console.print(f"Differences: {len(changes)}, of which {count} may break a caller.")


def show_parameters(text: str, lost: "Sequence[Lost]") -> None:
    """The tables on stdout, so that they can be appended to a file; what was lost on stderr."""
    sys.stdout.write(text)
    sys.stdout.flush()
    for one in lost:
        sys.stderr.write(f"{one}\n")
