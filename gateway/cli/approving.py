"""`waiting`, `approve`, `deny`, `withdraw`, `ask`: what people are asked, and what they sign."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from gateway.cli.actions import Key
from gateway.cli.output import Json, Output
from gateway.cli.passphrase import PassphraseFile
from gateway.cli.persons_desk import (
    PANEL,
    KeyFile,
    answered,
    confirm,
    eyes,
    fitting,
    own_door,
    show_answer,
    unless_barred,
    unsigned,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

Comment = Annotated[
    str | None,
    typer.Option(help="What you say about it; it is signed and kept.", show_default=False),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (waiting, approve, deny, withdraw, ask):
        app.command(command.__name__, rich_help_panel=PANEL)(command)


def waiting(
    key_file: KeyFile = None, passphrase_file: PassphraseFile = None, as_json: Json = False
) -> None:
    """List what waits for people, who was asked longest ago first.

    You log in with your own key: it signs that you ask, and nothing else.

    Example: actionledger waiting
    """
    from gateway.cli.sheet_shown import show_waiting

    out = Output("waiting", as_json=as_json)
    with own_door(key_file, passphrase_file)[0] as door:
        found = answered(out, door.waiting)
    out.answer(found, lambda console: show_waiting(console, found))


def approve(
    key: Key,
    comment: Comment = None,
    key_file: KeyFile = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Show everything that would be signed about an action, ask you, and sign it with your key.

    Only what was shown is signed, and it is signed on this machine. Ends with 4 where you say no
    or the ledger does.

    Example: actionledger approve refund:v1:acme:return-2026-11-30-07
    """
    _decide("approve", key, comment, key_file, passphrase_file, as_json=as_json)


def deny(
    key: Key,
    comment: Comment = None,
    key_file: KeyFile = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Say no to an action: it never begins. As `approve`, everything is shown first.

    Example: actionledger deny refund:v1:acme:return-2026-11-30-07 --comment "Paid last week."
    """
    _decide("deny", key, comment, key_file, passphrase_file, as_json=as_json)


def withdraw(
    key: Key,
    key_file: KeyFile = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Take back that you agreed, as long as nothing has begun.

    Example: actionledger withdraw refund:v1:acme:return-2026-11-30-07
    """
    _decide("withdraw", key, None, key_file, passphrase_file, as_json=as_json)


def ask(
    key: Key,
    key_file: KeyFile = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Have people asked once more about an action that nobody decided in time.

    While they are asked it changes nothing.

    Example: actionledger ask refund:v1:acme:return-2026-11-30-07
    """
    out = Output("ask", as_json=as_json)
    with own_door(key_file, passphrase_file)[0] as door:
        answer = answered(out, lambda: door.ask_again(key))
    out.answer(answer, lambda console: _show_answer(console, answer))


def _decide(
    word: str,
    key: str,
    comment: str | None,
    key_file: Path | None,
    passphrase_file: Path | None,
    *,
    as_json: bool,
) -> NoReturn:
    from gateway.cli.sheet_shown import left, monotonic_ms, show_sheet
    from gateway.signing_sheet import statement_of
    from ledger.core.statement import Say
    from ledger.signing.keys import sign

    out = Output(word, as_json=as_json)
    say = Say(word)
    opened, signing_key = own_door(key_file, passphrase_file)
    with opened as door:
        sheet = answered(out, lambda: door.sheet(key))
        began_ms = monotonic_ms()
        statement = statement_of(sheet, say, comment=fitting(comment, "comment"))
        heading = f"You are asked about {sheet.key}. You say: {word}."
        show_sheet(eyes(), sheet, heading=heading)
        has_agreed = sheet.asked is not None and sheet.you in {
            one.person for one in sheet.asked.agreed
        }
        if not has_agreed:
            unless_barred(out, sheet)
        if sheet.now >= statement.expires_at:
            unsigned(out, "approval_expired", "Nobody decided in time, which is no denial.", _ASK)
        time_left = left(statement.expires_at, sheet.now)
        question = f"Sign this as {sheet.you}, {time_left}: {say.value}?"
        confirm(out, question, comment=statement.comment)
        now_ms = sheet.now + monotonic_ms() - began_ms
        if now_ms >= statement.expires_at:
            unsigned(out, "approval_expired", "It came too late: nothing was signed.", _ASK)
        signed = sign(statement, signing_key)
        answer = answered(out, lambda: door.hand_in(key, signed))
    out.answer(answer, lambda console: _show_answer(console, answer))


_ASK = "`actionledger ask` has people asked again."


def _show_answer(console: "Console", answer: "Mapping[str, Any]") -> None:
    from gateway.cli.sheet_shown import status_line

    show_answer(console, answer, status_line(answer))
