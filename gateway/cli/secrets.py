"""`secrets`: what verifies webhooks, looked at and replaced while everything runs."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.documents import text_of
from gateway.cli.output import Json, Output, UsageError

if TYPE_CHECKING:
    from rich.console import Console

group = typer.Typer(help="Webhook secrets: what a provider signs with.", no_args_is_help=True)

HOUR_MS = 3_600_000

Provider = Annotated[str, typer.Argument(help="The provider, as in the catalogue.")]
Account = Annotated[str, typer.Argument(help="The account at the provider.")]


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(group, name="secrets", rich_help_panel="Operating")


def _file() -> Path:
    from gateway.cli.place import settings

    path = settings().webhook_secrets_file
    if path is None:
        raise UsageError(
            "There is no file of webhook secrets.",
            hint="Set ACTIONLEDGER_WEBHOOK_SECRETS_FILE, here and for the gateway.",
        )
    return path


@group.command("list")
def list_secrets(as_json: Json = False) -> None:
    """List the secrets by account: a fingerprint of each, and until when it is accepted.

    The first of an account is the one that signs. The secrets themselves are not shown.

    Example: actionledger secrets list
    """
    from gateway.webhook_secrets import read_secrets

    out = Output("secrets list", as_json=as_json)
    documents = [
        {
            "provider": provider,
            "account": account,
            "fingerprint": one.fingerprint,
            "accepted_until": one.accepted_until,
        }
        for (provider, account), several in read_secrets(_file()).items()
        for one in several
    ]
    out.answer({"secrets": documents}, lambda console: _show(console, documents))


@group.command("rotate")
def rotate(
    provider: Provider,
    account: Account,
    secret_file: Annotated[
        Path | None, typer.Option(help="Holds the provider's new secret; else one is drawn.")
    ] = None,
    keep_hours: Annotated[
        int, typer.Option(min=0, max=8_760, help="How long the old ones are accepted.")
    ] = 24,
    as_json: Json = False,
) -> None:
    """Put a new secret in the place of the others of an account, which are accepted for a while.

    The gateway takes it within a second, without a restart. One that is drawn is shown this once:
    give it to the provider.

    Example: actionledger secrets rotate stripe main --secret-file new_secret
    """
    from gateway.cli.place import settings
    from gateway.webhook_secrets import new_secret, rotate_secret
    from gateway.wiring.installation import providers
    from reconciler.providers.registry import webhook_schemes
    from reconciler.schemes import scheme_of

    out = Output("secrets rotate", as_json=as_json)
    given = None if secret_file is None else text_of(secret_file).strip()
    schemes = webhook_schemes(providers(settings(), None))
    scheme = scheme_of(schemes, provider)
    if given is not None and not scheme.is_usable_secret(given):
        raise UsageError(
            f"{secret_file} holds no webhook secret of {provider}.",
            hint="Write it as the provider shows it, and as its description says.",
        )
    made = new_secret() if given is None else given
    if not scheme.is_usable_secret(made):
        raise UsageError(
            f"No secret is drawn for {provider}: its description says another form.",
            hint="Name a --secret-file that holds the one that the provider shows.",
        )
    rotate_secret(
        _file(),
        provider,
        account,
        keep_ms=keep_hours * HOUR_MS,
        secret=made,
        key_of=lambda name, text: scheme_of(schemes, name).key(text),
    )
    result = {"provider": provider, "account": account, "secret": made if given is None else None}
    said = "Taken." if given is not None else made
    out.answer(result, lambda console: console.print(said, soft_wrap=True))


@group.command("revoke")
def revoke(
    provider: Provider,
    account: Account,
    fingerprint: Annotated[str, typer.Argument(help="Which one, as `secrets list` shows it.")],
    as_json: Json = False,
) -> None:
    """Accept a replaced secret no longer, before its time is over.

    Example: actionledger secrets revoke stripe main 1f0c2b9e
    """
    from gateway.webhook_secrets import revoke_secret

    out = Output("secrets revoke", as_json=as_json)
    revoke_secret(_file(), provider, account, fingerprint)
    result = {"provider": provider, "account": account, "fingerprint": fingerprint}
    out.answer(result, lambda console: console.print(f"Revoked: {fingerprint}"))


def _show(console: "Console", documents: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("provider", "account", "fingerprint", "accepted until"):
        table.add_column(name)
    for one in documents:
        until = one["accepted_until"]
        day = (
            "signs"
            if until is None
            else datetime.fromtimestamp(until / 1_000, UTC).strftime("%Y-%m-%d %H:%M UTC")
        )
        table.add_row(one["provider"], one["account"], one["fingerprint"], day)
    console.print(table)
