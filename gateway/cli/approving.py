"""`waiting`, `approve`, `deny`, `withdraw`, `ask`: what people are asked, and what they sign."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from gateway.cli.actions import Key
from gateway.cli.output import Exit, Json, Output, UsageError
from gateway.cli.passphrase import PassphraseFile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import Console

    from gateway.cli.person_door import DoorRefusedError, PersonDoor
    from gateway.http.sheets import DecisionSheet
    from ledger.core.statement import Say, Statement
    from ledger.signing.keys import SigningKey

PANEL = "People"
_Answer = TypeVar("_Answer")

KeyFile = Annotated[
    Path | None,
    typer.Option(
        help="Your own key. By itself: where `actionledger people key new` keeps it.",
        show_default=False,
    ),
]
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
    with _door(key_file, passphrase_file)[0] as door:
        found = _answered(out, door.waiting)
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
    with _door(key_file, passphrase_file)[0] as door:
        answer = _answered(out, lambda: door.ask_again(key))
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
    from gateway.cli.sheet_shown import monotonic_ms, show_sheet
    from gateway.signing_sheet import statement_of
    from ledger.core.statement import Say
    from ledger.signing.keys import sign

    out = Output(word, as_json=as_json)
    say = Say(word)
    opened, signing_key = _door(key_file, passphrase_file)
    with opened as door:
        sheet = _answered(out, lambda: door.sheet(key))
        began_ms = monotonic_ms()
        statement = statement_of(sheet, say, comment=_fit(comment))
        heading = f"You are asked about {sheet.key}. You say: {word}."
        show_sheet(_eyes(), sheet, heading=heading)
        _confirm(out, sheet, statement, say)
        now_ms = sheet.now + monotonic_ms() - began_ms
        if now_ms >= statement.expires_at:
            out.answer(
                {"signed": False, "code": "approval_expired"},
                lambda console: console.print(
                    "It came too late: nothing was signed. `actionledger ask` has people asked "
                    "again."
                ),
                Exit.REFUSED,
            )
        signed = sign(statement, signing_key)
        answer = _answered(out, lambda: door.hand_in(key, signed))
    out.answer(answer, lambda console: _show_answer(console, answer))


def _eyes() -> "Console":
    """Where a person looks, also where stdout is for a program."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


def _confirm(out: Output, sheet: "DecisionSheet", statement: "Statement", say: "Say") -> None:
    """Ask, once everything was shown; whoever does not say yes has signed nothing."""
    from gateway.cli.sheet_shown import left

    if statement.comment is not None:
        typer.echo(f"Your comment: {statement.comment}", err=True)
    time_left = left(statement.expires_at, sheet.now)
    question = f"Sign this as {sheet.you}, {time_left}: {say.value}?"
    try:
        is_wanted = typer.confirm(question, default=False, err=True)
    except typer.Abort:
        typer.echo("", err=True)
        is_wanted = False
    if not is_wanted:
        out.answer(
            {"signed": False, "code": "not_signed"},
            lambda console: console.print("Nothing was signed."),
            Exit.REFUSED,
        )


def _fit(comment: str | None) -> str | None:
    from ledger.core.limits import TEXT_CHARS_MAX

    if comment is None or not comment.strip():
        return None
    if len(comment) > TEXT_CHARS_MAX or not comment.isprintable():
        raise UsageError(
            "This comment cannot be signed.",
            hint=f"Write one line of at most {TEXT_CHARS_MAX} characters that can be seen.",
        )
    return comment


def _door(key_file: Path | None, passphrase_file: Path | None) -> "tuple[PersonDoor, SigningKey]":
    """The door under the person's own key, which the passphrase opens."""
    from gateway.cli.passphrase import own_passphrase
    from gateway.cli.person_door import PersonDoor
    from gateway.cli.place import own_settings, settings
    from gateway.signing_key_file import read_key_file
    from ledger.signing.keys import load_key

    path = own_settings().signing_key_file if key_file is None else key_file
    pem = read_key_file(path)
    key = load_key(pem, own_passphrase(passphrase_file))
    return PersonDoor(settings().url, key), key


def _answered(out: Output, asking: "Callable[[], _Answer]") -> "_Answer":
    """What the door answers; a refusal is the answer of the command."""
    from gateway.cli.person_door import DoorRefusedError

    try:
        return asking()
    except DoorRefusedError as refused:
        _refuse(out, refused)


def _refuse(out: Output, told: "DoorRefusedError") -> NoReturn:
    code = Exit.REFUSED if told.status < 500 else Exit.TROUBLE  # noqa: PLR2004 - RFC 9110
    out.answer(told.problem, lambda console: _show_refusal(console, told), code)


def _show_answer(console: "Console", answer: "Mapping[str, Any]") -> None:
    from rich.text import Text

    from gateway.cli.sheet_shown import status_line

    replay = "  (it was so before: nothing was counted twice)" if answer.get("replayed") else ""
    console.print(Text(f"{answer['key']}  {answer['status']}{replay}"), soft_wrap=True)
    console.print(Text(status_line(answer)), soft_wrap=True)


def _show_refusal(console: "Console", refused: "DoorRefusedError") -> None:
    from rich.text import Text

    console.print(Text(f"{refused.code}: {refused.message}"), soft_wrap=True)
    if refused.code == "unknown_action":
        console.print(Text("Check the key, and whether you decide for its tenant."))
    elif refused.hint:
        console.print(Text(refused.hint), soft_wrap=True)
