"""The contract suite at the command line: asked of one adapter, and shown."""

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.cli.output import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from reconciler.providers.adapter import ProviderSettings
    from reconciler.providers.contract.checking import Verdict
    from reconciler.providers.contract.stage import Stage


def asked(settings: "ProviderSettings", *, suite: bool, stage: str | None) -> "tuple[Verdict, ...]":
    """What came of the first half, and in front of a stage of the second; nothing where neither was
    asked for. Raises UsageError for a stage that is none.
    """
    import asyncio

    from reconciler.providers.contract import alone, staged
    from reconciler.providers.contract.checking import verdicts

    found: list[Verdict] = []
    if suite:
        found += asyncio.run(verdicts(alone.CHECKS, settings))
    if stage is not None:
        with _opened(stage) as provider:
            found += asyncio.run(verdicts(staged.CHECKS, provider))
    return tuple(found)


def show_verdicts(console: "Console", found: "Sequence[Verdict]") -> None:
    """Each check with how it ended, and why where it was not kept."""
    marks = {"kept": "[green]✓[/]", "broken": "[red]✗[/]", "does_not_apply": "[dim]o[/]"}
    if found:
        console.print("The contract:")
    for one in found:
        console.print(f"  {marks[one.came]} {one.asks}", soft_wrap=True)
        if one.why:
            console.print(f"      {one.name}: {one.why}", soft_wrap=True, markup=False)


def _opened(named: str) -> "AbstractContextManager[Stage]":
    """Open the stage that `module:function` names, looking in the folder one is in as well."""
    from importlib import import_module

    module, _, name = named.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        function: Callable[[], object] = getattr(import_module(module), name)
        opened = function()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise UsageError(
            f"{named} is no stage: {error}.",
            hint="Name a function without parameters that returns a context manager of a stage.",
        ) from error
    finally:
        sys.path.pop(0)
    if not isinstance(opened, AbstractContextManager):
        raise UsageError(
            f"{named} opens no stage.", hint="Decorate it with contextlib.contextmanager."
        )
    return opened
