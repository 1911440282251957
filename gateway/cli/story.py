"""`demo`: the story of one lost answer, on the real processes."""

from typing import Annotated

import typer

from gateway.cli.output import Exit, Json, Output


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", rich_help_panel="On this machine")(demo)


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave everything running, to look around.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Tell the story of 2:13 a.m.: a charge whose answer is lost, and an agent that asks again.

    Real Kafka, real Postgres, every process of the product and a payment provider with its own
    book, in a temporary folder, ended and removed afterwards. Ends with 0 if every claim held, with
    3 if one did not.

    Example: actionledger demo --keep
    """
    from gateway.demo.run import run_demo
    from gateway.demo.stage import Afterwards

    out = Output("demo", as_json=as_json)
    told = run_demo(out, Afterwards.STAY if keep else Afterwards.REMOVE)
    code = Exit.OK if told.all_held else Exit.DIFFERENCES
    out.answer(told.result(), lambda _console: None, code)
