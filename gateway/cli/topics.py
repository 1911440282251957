"""`topics`: the topics on the broker, made and compared with what they must be."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.output import Exit, Json, Output

if TYPE_CHECKING:
    from rich.console import Console

    from ledger.log.admin import Difference

group = typer.Typer(help="The topics on the broker: make them, compare them.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(group, name="topics", rich_help_panel="Operating")


Replicas = Annotated[int, typer.Option(min=1, help="Copies of each partition.")]
InSync = Annotated[int, typer.Option(min=1, help="Copies that must have a record.")]


@group.command("apply")
def apply(replicas: Replicas = 1, in_sync_min: InSync = 1, as_json: Json = False) -> None:
    """Create what is missing, with genesis records; change nothing that is there.

    ACTIONLEDGER_PARTITIONS holds for life: keys would move. Three brokers want --replicas 3
    --in-sync-min 2. One broker that must not lose what it acknowledged when its power fails wants
    ACTIONLEDGER_FLUSH=every_record, which makes every append slower.

    Example: actionledger topics apply --replicas 3 --in-sync-min 2
    """
    import secrets

    from gateway.cli.place import settings
    from gateway.wiring.installation import open_log
    from ledger.log.admin import apply_topics

    out = Output("topics apply", as_json=as_json)
    known = settings()
    generation = asyncio.run(
        apply_topics(
            open_log(known, "operator"),
            partitions=known.partitions,
            generation=secrets.token_hex(8),
            replicas=replicas,
            replicas_in_sync_min=in_sync_min,
            flush_records=known.flush.records,
        )
    )
    result = {
        "generation": generation,
        "partitions": known.partitions,
        "prefix": known.topic_prefix,
    }
    out.answer(
        result,
        lambda console: console.print(
            f"All topics are in place: {known.partitions} partitions, generation {generation}."
        ),
    )


@group.command("check")
def check(in_sync_min: InSync = 1, as_json: Json = False) -> None:
    """Compare the topics on the broker with what they must be. Changes nothing.

    Ends with 3 where something differs.

    Example: actionledger topics check
    """
    from gateway.cli.place import settings
    from gateway.wiring.installation import open_log
    from ledger.log.admin import check_topics

    out = Output("topics check", as_json=as_json)
    known = settings()
    found = asyncio.run(
        check_topics(
            open_log(known, "cli"),
            partitions=known.partitions,
            replicas_in_sync_min=in_sync_min,
            flush_records=known.flush.records,
        )
    )
    code = Exit.DIFFERENCES if found else Exit.OK
    out.answer({"differences": found}, lambda console: show_differences(console, found), code)


def show_differences(console: "Console", found: "tuple[Difference, ...]") -> None:
    """One line for each, or that there is none."""
    for one in found:
        console.print(f"[red]✗[/] {one.topic}: {one.setting} is {one.found}, must be {one.wanted}")
    if not found:
        console.print("[green]✓[/] All topics are as they must be.")
