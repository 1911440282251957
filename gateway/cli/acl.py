"""`acl`: who may do what on the broker, shown, compared and applied."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.output import Exit, Json, Output

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.settings import Settings
    from ledger.log.declared import Declared, Entry
    from ledger.log.permissions import Comparison, Permissions

group = typer.Typer(help="Who may do what on the broker.", no_args_is_help=True)

HEAD_CHARS_MAX = 5

Logins = Annotated[
    bool,
    typer.Option(
        "--logins/--no-logins", help="Passwords too, where the credentials file has them (SCRAM)."
    ),
]


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(group, name="acl", rich_help_panel="Operating")


@group.command("print")
def print_table(as_json: Json = False) -> None:
    """Show what each component may do, under the name by which it logs in. Asks no broker.

    Example: actionledger acl print
    """
    from gateway.cli.place import NoInstallationError, own_settings, settings
    from ledger.log.authority import GROUPS, TOPICS, Operation
    from ledger.log.topics import Topic

    out = Output("acl print", as_json=as_json)
    try:
        known = settings()
    except NoInstallationError:
        known = own_settings()  # the usual names, for whoever plans an installation
    declared = known.kafka.declared(known.topic_prefix)
    letters = {Operation.READ: "r", Operation.WRITE: "w"}
    cells = {
        topic.value: {
            principal.value: "".join(letters[one] for one in letters if one in allowed[topic])
            for principal, allowed in TOPICS.items()
        }
        for topic in Topic
    }
    result = {
        "prefix": known.topic_prefix,
        "names": {principal.value: name for principal, name in declared.names.items()},
        "topics": cells,
        "groups": {who.value: known.topic_prefix + name for who, name in GROUPS.items()},
        "entries": [_told(one) for one in sorted(declared.entries)],
    }
    out.answer(result, lambda console: _show_table(console, cells, declared))


def _broken(name: str) -> str:
    """A name over several short lines: eleven columns have to fit beside each other."""
    lines = [
        part[at : at + HEAD_CHARS_MAX]
        for part in name.split("-")
        for at in range(0, len(part), HEAD_CHARS_MAX)
    ]
    return "\n".join(lines)


def _show_table(console: "Console", cells: dict[str, dict[str, str]], declared: "Declared") -> None:
    from rich.table import Table

    from ledger.log.authority import Operation, Resource

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("topic", no_wrap=True)
    for principal in declared.names:
        table.add_column(_broken(principal), justify="center", no_wrap=True)
    for topic, row in cells.items():
        table.add_row(topic, *(cell or "[dim]·[/]" for cell in row.values()))
    console.print(table)
    console.print("\nr reads, w writes. Besides:")
    plain = {Operation.READ, Operation.WRITE}
    for one in sorted(declared.entries):
        if one.right.resource is not Resource.TOPIC or one.right.operation not in plain:
            console.print(f"  {one}", markup=False, soft_wrap=True)
    console.print("Everything else is refused, to everybody.")


@group.command("check")
def check(logins: Logins = True, as_json: Json = False) -> None:
    """Compare the broker with what is declared. Changes nothing.

    Names every right that is missing and every one too many, of our own principals. Those of others
    on our topics are shown and count for nothing. Ends with 3 where something differs.

    Example: actionledger acl check
    """
    from gateway.cli.place import settings

    out = Output("acl check", as_json=as_json)
    known = settings()
    found = asyncio.run(reader_of(known).compare(_declared(known, logins=logins)))
    code = Exit.OK if found.is_equal else Exit.DIFFERENCES
    out.answer(_result(found), lambda console: _show(console, found, "missing", "surplus"), code)


@group.command("apply")
def apply(logins: Logins = True, as_json: Json = False) -> None:
    """Give our principals what is declared, and take from them what is not; set their passwords.

    What is right stays untouched, and so does everybody else. The first time it needs a super user
    of the broker (ACTIONLEDGER_KAFKA_USERNAME), later the operator is enough. Safe to repeat.

    Example: actionledger acl apply
    """
    from gateway.cli.place import settings
    from gateway.cli.progress import progress
    from gateway.local.progress import Progress

    out = Output("acl apply", as_json=as_json)
    known = settings()
    with progress() as report:
        before = asyncio.run(
            _writer(known).apply(
                _declared(known, logins=logins),
                lambda step, done, total: report(Progress(step, done, total)),
            )
        )
    out.answer(_result(before), lambda console: _show(console, before, "added", "removed"))


@group.command("logins")
def logins(
    folder: Annotated[Path, typer.Argument(help="Where to write them; made if it is not there.")],
    as_json: Json = False,
) -> None:
    """Draw a new password for every component, as a file for each process.

    Each file holds its process's own logins and no other's; permissions.toml has all, for `acl
    apply`. Readable by you alone. A folder that has them already is left as it is.

    Example: actionledger acl logins /etc/actionledger/kafka
    """
    import tomllib

    from gateway.cli.output import UsageError
    from gateway.cli.place import own_settings
    from gateway.credentials import files_of, new_credentials, parse_credentials
    from gateway.local.state import make_folder, write_private

    out = Output("acl logins", as_json=as_json)
    if any(folder.glob("*.toml")):
        raise UsageError(
            f"{folder} has logins already.",
            hint="Name another folder: to rotate, give the new ones to `acl apply` and to the "
            "processes.",
        )
    made = parse_credentials(tomllib.loads(new_credentials(own_settings().topic_prefix)))
    make_folder(folder)
    files = {process: folder / f"{process}.toml" for process in files_of(made)}
    for process, text in files_of(made).items():
        write_private(files[process], text)
    result = {"folder": str(folder), "files": {who: str(path) for who, path in files.items()}}
    out.answer(result, lambda console: console.print(f"{len(files)} files are in {folder}."))


def _declared(settings: "Settings", *, logins: bool) -> "Declared":
    from dataclasses import replace

    declared = settings.kafka.declared(settings.topic_prefix)
    return declared if logins else replace(declared, passwords={})


def reader_of(settings: "Settings") -> "Permissions":
    """Whoever this process is, or the auditor: seeing is enough."""
    from ledger.log.permissions import Permissions
    from ledger.log.principals import Principal

    own = settings.kafka.own
    access = settings.kafka.administrator() if own else settings.kafka.access(Principal.AUDITOR)
    return Permissions(settings.kafka_bootstrap, access, "actionledger-acl")


def _writer(settings: "Settings") -> "Permissions":
    from ledger.log.permissions import Permissions

    return Permissions(settings.kafka_bootstrap, settings.kafka.administrator(), "actionledger-acl")


def _told(entry: "Entry") -> dict[str, Any]:
    right = entry.right
    return {
        "principal": entry.principal,
        "permission": "deny" if entry.is_denial else "allow",
        "operation": right.operation.value,
        "resource": right.resource.value,
        "name": right.name,
        "pattern": right.pattern.value,
        "host": entry.host,
    }


def _result(found: "Comparison") -> dict[str, Any]:
    return {
        "missing": [_told(one) for one in found.missing],
        "surplus": [_told(one) for one in found.surplus],
        "others": [_told(one) for one in found.others],
        "logins_missing": list(found.users_missing),
    }


def _show(console: "Console", found: "Comparison", missing: str, surplus: str) -> None:
    for one in found.missing:
        console.print(f"[red]✗[/] {missing}: {one}", soft_wrap=True)
    for one in found.surplus:
        console.print(f"[red]✗[/] {surplus}: {one}", soft_wrap=True)
    for name in found.users_missing:
        console.print(f"[red]✗[/] {missing}: the login {name}", soft_wrap=True)
    for one in found.others:
        console.print(f"[yellow]![/] of others: {one}", soft_wrap=True)
    if found.is_equal:
        console.print("[green]✓[/] All permissions are as they must be.")
