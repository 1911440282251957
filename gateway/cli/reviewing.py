"""`review list | show | resolve`: cases that wait for a person, and settling one by a signature."""

from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.actions import Key
from gateway.cli.output import Json, Output, UsageError
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
    from gateway.http.case_sheets import CaseSheet
    from ledger.core.statement import Move

group = typer.Typer(
    help="Cases that wait for a person: what is known, what is safe, and settling one.",
    no_args_is_help=True,
)


def add_to(app: typer.Typer) -> None:
    """Add the group."""
    app.add_typer(group, name="review", rich_help_panel=PANEL)


@group.command("list")
def list_cases(
    blocked: Annotated[
        bool,
        typer.Option("--blocked", help="What waits for another action, and may be let pass it."),
    ] = False,
    orphans: Annotated[
        bool,
        typer.Option("--orphans", help="Effects at providers that no action has made. No login."),
    ] = False,
    key_file: KeyFile = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """List the cases that wait for a person, the oldest first, each with the reason.

    You log in with your own key: it signs that you ask, and nothing else.

    Example: actionledger review list
    """
    from gateway.cli.case_shown import show_cases

    out = Output("review list", as_json=as_json)
    if orphans:
        from gateway.cli.comparing import list_orphans

        list_orphans(out)
    with own_door(key_file, passphrase_file)[0] as door:
        found = answered(out, door.cases)
    out.answer(found, lambda console: show_cases(console, found, blocked=blocked))


@group.command("show")
def show(
    key: Key,
    key_file: KeyFile = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Show why an action needs a person, every attempt, all evidence, and each move that is safe.

    Example: actionledger review show refund:v1:acme:return-2026-11-30-07
    """
    from gateway.cli.case_shown import show_case
    from gateway.signing_case import check_case

    out = Output("review show", as_json=as_json)
    with own_door(key_file, passphrase_file)[0] as door:
        sheet = answered(out, lambda: door.case(key))
    check_case(sheet)
    out.answer(
        sheet, lambda console: show_case(console, sheet, heading=f"{sheet.key}  {sheet.status}")
    )


@group.command("resolve")
def resolve(
    key: Key,
    move: Annotated[
        str,
        typer.Option(
            help="What you say: effect_exists, no_effect, try_again, look_again, acknowledge or "
            "allow; `review show` lists those that are safe.",
            show_default=False,
        ),
    ],
    comment: Annotated[
        str,
        typer.Option(help="Why; it is signed and kept.", show_default=False),
    ],
    *,
    reference: Annotated[
        str | None,
        typer.Option(
            help="The name of the effect at the provider, with effect_exists.", show_default=False
        ),
    ] = None,
    accepts: Annotated[
        str | None,
        typer.Option(
            help="With allow: the ceiling, or the other action, that you let it pass.",
            show_default=False,
        ),
    ] = None,
    key_file: KeyFile = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Show everything about a case, ask you, and sign what settles it with your key.

    Only what was shown is signed, and it is signed on this machine. Ends with 4 where you say no,
    where the move is not safe, or where the ledger refuses.

    Example: actionledger review resolve email:v1:acme:welcome-7 --move effect_exists
    --reference 250-OK-8812 --comment "It is in the sent folder."
    """
    from gateway.cli.case_shown import asked_to_sign, outcome_line, show_case, show_signed
    from gateway.cli.sheet_shown import left, monotonic_ms
    from gateway.signing_case import resolution_of
    from ledger.signing.keys import sign

    said, why = _move_of(move), fitting(comment, "comment")
    if why is None:
        raise UsageError("A case is not settled without a comment.", hint="Say why, in one line.")
    out = Output("review resolve", as_json=as_json)
    opened, signing_key = own_door(key_file, passphrase_file)
    with opened as door:
        sheet = answered(out, lambda: door.case(key))
        began_ms = monotonic_ms()
        named = fitting(reference, "reference")
        resolution = resolution_of(sheet, said, reference=named, comment=why)
        show_case(eyes(), sheet, heading=f"{sheet.key} needs a person. You say: {move}.")
        unless_barred(out, sheet)
        _check_move(out, sheet, said, named, fitting(accepts, "accepts"))
        show_signed(eyes(), resolution)
        time_left = left(resolution.expires_at, sheet.now)
        confirm(out, asked_to_sign(resolution, time_left), comment=why)
        if sheet.now + monotonic_ms() - began_ms >= resolution.expires_at:
            unsigned(out, "approval_expired", "It came too late: nothing was signed. Look again.")
        signed = sign(resolution, signing_key)
        answer = answered(out, lambda: door.hand_in(key, signed))
    out.answer(answer, lambda console: show_answer(console, answer, outcome_line(answer, move)))


def _move_of(text: str) -> "Move":
    from ledger.core.statement import Move

    if text not in set(Move):
        raise UsageError(
            f"There is no move {text}.", hint=f"Moves: {', '.join(one.value for one in Move)}."
        )
    return Move(text)


def _check_move(
    out: Output, sheet: "CaseSheet", move: "Move", reference: str | None, accepts: str | None
) -> None:
    """Sign nothing that the ledger would refuse anyway."""
    offered = {one.move: one for one in sheet.moves}
    if move.value not in offered:
        safe = ", ".join(offered) or "nothing yet"
        unsigned(
            out,
            "move_not_safe",
            f"move_not_safe: {move.value} would not be safe now. What is safe: {safe}.",
        )
    _check_accepted(out, sheet, move, accepts)
    if offered[move.value].needs_reference and reference is None:
        unsigned(
            out,
            "reference_unfit",
            "reference_unfit: say under which name the provider has the effect: --reference.",
        )


def _check_accepted(out: Output, sheet: "CaseSheet", move: "Move", accepts: str | None) -> None:
    """Let nothing pass but what the person has named, where they name it."""
    from ledger.core.statement import Move

    meant = sheet.accepts if move is Move.ALLOW else None
    if accepts is not None and accepts != meant:
        told = "it lets nothing pass" if meant is None else f"it would let {meant} pass"
        unsigned(out, "accepts_unfit", f"accepts_unfit: you name {accepts}, and {told}.")
