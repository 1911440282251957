"""`people passkey`: a one-time link to make a passkey, and the yes that registers it."""

import asyncio
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from gateway.cli.output import Exit, Json, Output
from gateway.cli.people import Name, Timeout, change_and_tell, group, refuse

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.passkeys import Enrolled
    from gateway.settings import Settings
    from ledger.core.people import PersonKey

TIMEOUT_S = 30

Open = Annotated[bool, typer.Option("--open", help="Open the link in this machine's browser.")]


def add_to(_app: typer.Typer) -> None:
    """Add the command to the group `people`."""
    group.command("passkey")(passkey)


def passkey(
    name: Name, *, open_it: Open = False, timeout: Timeout = TIMEOUT_S, as_json: Json = False
) -> None:
    """Have a registered person make a passkey in their browser, and register it.

    Prints a link that works once, for ten minutes. When the passkey is made, its device and
    fingerprint are shown here: compare them with what the person sees, by voice or in person, and
    say y. Only then, and only by your own rights, it can decide; the pages themselves can add no
    key.

    Example: actionledger people passkey ada
    """
    from gateway.cli.place import settings
    from gateway.passkeys import made_here
    from gateway.wiring.people_desk import people_in_force
    from ledger.core.people_text import NotChanged, with_key

    out = Output("people passkey", as_json=as_json)
    where = settings()
    known = asyncio.run(people_in_force(where)).person(name)
    if known is None or known.revoked:
        refuse(out, NotChanged.PERSON_UNKNOWN if known is None else NotChanged.PERSON_REVOKED)
    made = asyncio.run(_made(where, name, to_stderr=as_json, open_it=open_it))
    if made is None or made.key is None:
        _nothing(out, "link_over", "No passkey was made in time.")
    key = made_here(made.key, where.console_origin)
    if key is None:
        _nothing(out, "not_made_here", "What was made is no passkey of these pages.")
    if not typer.confirm(_question(name, made.device or "", key), default=False, err=as_json):
        _nothing(out, "not_confirmed", "Nothing was registered.")
    change_and_tell("passkey", lambda people: with_key(people, name, key), timeout, as_json=as_json)


async def _made(
    settings: "Settings", name: str, *, to_stderr: bool, open_it: bool
) -> "Enrolled | None":
    from datetime import UTC, datetime

    from gateway.wiring.passkey_desk import passkey_link

    async with passkey_link(settings, name) as link:
        until = datetime.fromtimestamp(link.expires_at / 1_000, UTC).strftime("%H:%M:%S UTC")
        typer.echo(f"For {name}, once, until {until}:", err=to_stderr)
        typer.echo(link.url, err=to_stderr)
        if open_it:
            typer.launch(link.url)
        typer.echo("Waiting for the passkey. Ctrl-C ends the link.", err=True)
        return await link.made()


def _question(name: str, device: str, key: "PersonKey") -> str:
    from gateway.passkeys import fingerprint
    from ledger.core.excerpt import excerpt

    return (
        f"\n{name} made a passkey on {excerpt(device)}\n"
        f"for {key.origin}, with the fingerprint\n\n  {' '.join(fingerprint(key))}\n\n"
        "Does the person see the same? Register it"
    )


def _nothing(out: Output, code: str, message: str) -> NoReturn:
    def show(console: "Console") -> None:
        console.print(message, markup=False)

    out.answer({"refused": {"code": code, "message": message}}, show, Exit.REFUSED)
