"""`provider new`: the beginning of a provider, as a description or as a package of its own."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.output import Json, Output, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


def new(
    name: Annotated[
        str, typer.Argument(help="What the catalogue calls the provider.", show_default=False)
    ],
    kind: Annotated[
        str, typer.Option(help="What to describe: http, stripe, smtp, postgres or kafka.")
    ] = "http",
    python: Annotated[
        bool,
        typer.Option(
            "--python", help="A package that brings a kind of its own, instead of a description."
        ),
    ] = False,
    into: Annotated[Path, typer.Option(help="The folder to write into.", file_okay=False)] = Path(),
    as_json: Json = False,
) -> None:
    """Begin a provider: files to change, which pass the first half of the contract suite.

    No file that is there is written over. Everything that it says about the provider is a guess on
    the safe side: find out, and change it.

    Example: actionledger provider new bank --kind http
    """
    from ledger.core.ids import COMPONENT

    out = Output("provider new", as_json=as_json)
    if COMPONENT.fullmatch(name) is None or name.startswith("."):
        raise UsageError(f"{name!r} is no name of a provider.", hint="Use a-z, digits, - and _.")
    files = _package(name) if python else _description(name, kind)
    taken = [path for path in files if os.path.lexists(into / path)]
    if taken:
        raise UsageError(
            f"{into / taken[0]} is there already.", hint="Give another name or another --into."
        )
    for path, text in files.items():
        (into / path).parent.mkdir(parents=True, exist_ok=True)
        # A credential is for nobody else to read, from its first byte on.
        mode = 0o600 if path.endswith(".key") else 0o666
        made = os.open(into / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(made, "w", encoding="utf-8") as file:
            file.write(text)
    written = [str(into / path) for path in files]
    described = into / (f"{name}/{name}.toml" if python else f"{name}.toml")
    after = f"actionledger provider check {described} --suite"
    if python:
        after = f"pip install --editable {into / name} && {after}"
    out.answer(
        {"written": written, "next": after},
        lambda console: console.print("\n".join([*written, f"Then: {after}"]), markup=False),
    )


def _description(name: str, kind: str) -> "Mapping[str, str]":
    """The files of a description, by their paths."""
    files = {f"{name}.toml": _skeleton(f"{kind}.toml", name)}
    if kind in {"http", "smtp", "stripe"}:
        files[f"{name}_main.key"] = "write-the-credential-here\n"
    if kind == "postgres":
        from importlib import resources

        effects = resources.files("reconciler.providers.postgres").joinpath("effects.sql")
        files["actionledger_effects.sql"] = effects.read_text(encoding="utf-8")
        files[f"{name}_main.key"] = "postgresql://user:password@localhost:5432/database\n"
    return files


def _package(name: str) -> "Mapping[str, str]":
    """The files of a package, by their paths."""
    module = f"{name.replace('-', '_').replace('.', '_')}_adapter"
    paths = {
        "pyproject.toml.txt": f"{name}/pyproject.toml",
        "adapter.py.txt": f"{name}/{module}.py",
        "test_contract.py.txt": f"{name}/test_contract.py",
        "python.toml": f"{name}/{name}.toml",
    }
    return {
        path: _skeleton(skeleton, name).replace("MODULE", module)
        for skeleton, path in paths.items()
    }


def _skeleton(file: str, name: str) -> str:
    from importlib import resources

    found = resources.files("reconciler.providers").joinpath("skeletons", file)
    if "/" in file or not found.is_file():
        raise UsageError(
            f"There is no description to begin with for the kind {file.removesuffix('.toml')!r}.",
            hint="Take http, stripe, smtp, postgres or kafka; --python begins a kind of your own.",
        )
    return found.read_text(encoding="utf-8").replace("NAME", name)
