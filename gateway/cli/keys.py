"""`keys`: API keys of tenants: made, looked at, rotated, taken back."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gateway.cli.output import Json, Output

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.keys import StoredKey

group = typer.Typer(help="API keys: who may ask, for which tenant.", no_args_is_help=True)

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

Which = Annotated[str, typer.Argument(metavar="ID|NAME", help="Which key.", show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(group, name="keys", rich_help_panel="Operating")


@group.command("create")
def create(
    *,
    tenant: Annotated[str, typer.Option(help="Whose actions the key is for.")],
    principal: Annotated[str, typer.Option(help="Who asks, such as agent:billing.")],
    role: Annotated[
        Literal["agent", "operator", "analyst"],
        typer.Option(help="agent proposes, operator too, analyst only reads."),
    ] = "agent",
    name: Annotated[str, typer.Option(help="What people call it; for rotate and revoke.")] = "",
    behalf: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            metavar="PERSON",
            help="For whom its bearer asks: they cannot approve it. Once for each.",
        ),
    ] = None,
    days: Annotated[
        int | None, typer.Option(min=1, max=3_650, help="How long it is valid; else for ever.")
    ] = None,
    as_written: Annotated[
        bool, typer.Option("--as-written", help="A tenant beside one of another spelling is meant.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make an API key and show it, the only time that it can be seen.

    It works within a second, without a restart. Only its hash is kept. One principal may have
    several keys. Name with --for the people whose wishes the agent carries out: what it asks for
    is then approved by others.

    Example: actionledger keys create --tenant acme --principal agent:billing --name billing
    """
    from gateway.cli.output import UsageError
    from gateway.cli.place import settings
    from gateway.keys import Role, create_key
    from gateway.tenant_names import check_spelling, tenants_of
    from ledger.core.ids import MalformedId
    from ledger.core.people import NOBODY

    out = Output("keys create", as_json=as_json)
    path = settings().api_keys_file
    if not as_written:
        check_spelling(tenant, tenants_of(path, NOBODY))
    until = None if days is None else _now_ms() + days * DAY_MS
    try:
        key = create_key(
            path,
            tenant=tenant,
            principal=principal,
            role=Role(role),
            name=name,
            valid_until=until,
            behalf=behalf or (),
        )
    except MalformedId as malformed:
        raise UsageError(f"{malformed}.", hint="Correct it and run the command again.") from None
    result = {
        "key": key,
        "tenant": tenant,
        "principal": principal,
        "role": role,
        "name": name,
        "for": behalf or [],
    }
    out.answer(result, lambda console: console.print(key, soft_wrap=True))


@group.command("list")
def list_keys(as_json: Json = False) -> None:
    """List the keys: id, name, whose they are, since when, and whether they are taken.

    The keys themselves are not kept and cannot be shown.

    Example: actionledger keys list
    """
    from gateway.cli.place import settings
    from gateway.keys import read_keys

    out = Output("keys list", as_json=as_json)
    found = sorted(read_keys(settings().api_keys_file), key=lambda key: key.created_at)
    documents = [_document(key) for key in found]
    out.answer({"keys": documents}, lambda console: _show(console, documents))


@group.command("rotate")
def rotate(
    key: Which,
    keep_hours: Annotated[
        int, typer.Option(min=0, max=8_760, help="How long the old key is still taken.")
    ] = 24,
    days: Annotated[
        int | None,
        typer.Option(
            min=1, max=3_650, help="How long the new key is valid; else as long as the old one was."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a new key in the place of another and show it, the only time that it can be seen.

    The old one is taken until its time is over, so that whoever uses it can change over. Where it
    was to end, the new one ends then too, unless --days says otherwise.

    Example: actionledger keys rotate billing --keep-hours 48
    """
    from gateway.cli.place import settings
    from gateway.keys import rotate_key

    out = Output("keys rotate", as_json=as_json)
    until = None if days is None else _now_ms() + days * DAY_MS
    stored, made = rotate_key(
        settings().api_keys_file, key, keep_ms=keep_hours * HOUR_MS, valid_until=until
    )
    result = {"key": made, **_document(stored)}
    out.answer(result, lambda console: console.print(made, soft_wrap=True))


@group.command("revoke")
def revoke(key: Which, as_json: Json = False) -> None:
    """Take a key back. Within a second it is refused as api_key_revoked; nothing undoes it.

    Example: actionledger keys revoke 6f1c0a9be2d44c17
    """
    from gateway.cli.place import settings
    from gateway.keys import revoke_key

    out = Output("keys revoke", as_json=as_json)
    revoked = _document(revoke_key(settings().api_keys_file, key))
    out.answer(revoked, lambda console: console.print(f"Revoked: {revoked['id']}"))


def _now_ms() -> int:
    return round(datetime.now(UTC).timestamp() * 1_000)


def _document(key: "StoredKey") -> dict[str, Any]:
    refusal = key.refusal(_now_ms())
    return {
        "id": key.caller.key_id,
        "name": key.name,
        "tenant": key.caller.tenant,
        "principal": key.caller.principal,
        "role": key.caller.role.value,
        "for": list(key.caller.behalf),
        "state": "in use" if refusal is None else refusal.value,
        "created_at": key.created_at,
        "valid_until": key.valid_until,
        "revoked_at": key.revoked_at,
    }


def _show(console: "Console", documents: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("id", "name", "tenant", "principal", "role", "for", "state", "valid until"):
        table.add_column(name)
    for one in documents:
        texts = [str(one[name]) for name in ("id", "name", "tenant", "principal", "role")]
        table.add_row(
            *texts, ", ".join(one["for"]) or "-", str(one["state"]), _day(one["valid_until"])
        )
    console.print(table)


def _day(at_ms: int | None) -> str:
    if at_ms is None:
        return "-"
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M UTC")
