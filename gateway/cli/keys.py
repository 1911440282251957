"""`keys`: API keys of tenants."""

from typing import Annotated, Literal

import typer

from gateway.cli.output import Json, Output

group = typer.Typer(help="API keys: who may ask, for which tenant.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(group, name="keys", rich_help_panel="Operating")


@group.command("create")
def create(
    tenant: Annotated[str, typer.Option(help="Whose actions the key is for.")],
    principal: Annotated[str, typer.Option(help="Who asks, such as agent:billing.")],
    role: Annotated[
        Literal["agent", "operator", "analyst"],
        typer.Option(help="agent proposes, operator too, analyst only reads."),
    ] = "agent",
    as_json: Json = False,
) -> None:
    """Make an API key and show it, the only time that it can be seen.

    It works within a second, without a restart. Only its hash is kept.

    Example: actionledger keys create --tenant acme --principal agent:billing
    """
    from gateway.cli.output import UsageError
    from gateway.cli.place import settings
    from gateway.keys import Role, create_key
    from ledger.core.ids import MalformedId

    out = Output("keys create", as_json=as_json)
    path = settings().api_keys_file
    try:
        key = create_key(path, tenant=tenant, principal=principal, role=Role(role))
    except MalformedId as malformed:
        raise UsageError(f"{malformed}.", hint="Correct it and run the command again.") from None
    result = {"key": key, "tenant": tenant, "principal": principal, "role": role}
    out.answer(result, lambda console: console.print(key, soft_wrap=True))
