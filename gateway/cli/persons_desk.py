"""What every command of a person shares: their door, their key, and the question before signing.

Guarantees that nothing is signed before everything was shown and somebody has typed a yes. Called
by `approving` and `reviewing`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from gateway.cli.output import Exit, Output, UsageError
from ledger.core.excerpt import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import Console

    from gateway.cli.person_door import DoorRefusedError, PersonDoor
    from gateway.http.sheets import ActionSheet
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


def own_door(
    key_file: Path | None, passphrase_file: Path | None
) -> "tuple[PersonDoor, SigningKey]":
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


def eyes() -> "Console":
    """Where a person looks, also where stdout is for a program."""
    from gateway.cli.output import safe_console

    return safe_console(to="stderr")


def confirm(out: Output, question: str, *, comment: str | None) -> None:
    """Ask, once everything was shown; whoever does not say yes has signed nothing. What the
    question names may be a provider's word: no byte of it commands the terminal.
    """
    if comment is not None:
        typer.echo(f"Your comment: {comment}", err=True)
    try:
        is_wanted = typer.confirm(visible(question), default=False, err=True)
    except typer.Abort:
        typer.echo("", err=True)
        is_wanted = False
    if not is_wanted:
        unsigned(out, "not_signed", "Nothing was signed.")


def unsigned(out: Output, code: str, *sentences: str) -> NoReturn:
    """End without a signature, and say why."""
    out.answer(
        {"signed": False, "code": code},
        lambda console: console.print("\n".join(sentences), markup=False, soft_wrap=True),
        Exit.REFUSED,
    )


def unless_barred(out: Output, sheet: "ActionSheet") -> None:
    """End without a signature where none of whoever looks would count."""
    if sheet.barred is not None:
        unsigned(out, sheet.barred.code, sheet.barred.sentence, sheet.barred.hint)


def fitting(text: str | None, what: str) -> str | None:
    """A person's own words as they can be signed; None for none. Raises UsageError."""
    from ledger.core.limits import TEXT_CHARS_MAX

    if text is None or not text.strip():
        return None
    if len(text) > TEXT_CHARS_MAX or not text.isprintable():
        raise UsageError(
            f"This {what} cannot be signed.",
            hint=f"Write one line of at most {TEXT_CHARS_MAX} characters that can be seen.",
        )
    return text


def answered(out: Output, asking: "Callable[[], _Answer]") -> "_Answer":
    """What the door answers; a refusal is the answer of the command."""
    from gateway.cli.person_door import DoorRefusedError

    try:
        return asking()
    except DoorRefusedError as refused:
        _refuse(out, refused)


def show_answer(console: "Console", answer: "Mapping[str, Any]", sentence: str) -> None:
    """What the ledger made of what was signed, and in a sentence what becomes of the action."""
    from rich.text import Text

    replay = "  (it was so before: nothing was counted twice)" if answer.get("replayed") else ""
    console.print(Text(visible(f"{answer['key']}  {answer['status']}{replay}")), soft_wrap=True)
    console.print(Text(sentence), soft_wrap=True)


def _refuse(out: Output, told: "DoorRefusedError") -> NoReturn:
    code = Exit.REFUSED if told.status < 500 else Exit.TROUBLE  # noqa: PLR2004 - RFC 9110
    out.answer(told.problem, lambda console: _show_refusal(console, told), code)


def _show_refusal(console: "Console", refused: "DoorRefusedError") -> None:
    from rich.text import Text

    console.print(Text(visible(f"{refused.code}: {refused.message}")), soft_wrap=True)
    if refused.code == "unknown_action":
        console.print(Text("Check the key, and whether you decide for its tenant."))
    elif refused.hint:
        console.print(Text(visible(refused.hint)), soft_wrap=True)
