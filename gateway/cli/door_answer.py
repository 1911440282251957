"""What the HTTP door answers to whoever asks with an API key, and how the command ends by it.

Guarantees one exit code for each kind of answer: 4 where the ledger refuses, 1 where it is not
known what it took. Called by `propose`, `cancel` and `saga`.
"""

from typing import TYPE_CHECKING, Any, Final, NoReturn

from gateway.cli.output import Exit, Output

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import Console

    from gateway.cli.proposing import Proposing

UNAUTHORIZED: Final = 401
REFUSED_FROM: Final = 400
TROUBLE_FROM: Final = 500

Answered = tuple[int, dict[str, Any]]
"""Status and body."""


def answer_of_door(
    out: Output,
    ask: "Callable[[Proposing], Answered]",
    shown: "Callable[[Console, Mapping[str, Any]], None]",
) -> NoReturn:
    """Ask the door under the API key that is configured, and end with what it says. Raises
    NoKeyError where there is none, or none that is known there.
    """
    from gateway.cli.place import settings
    from gateway.cli.proposing import NoKeyError, Proposing

    known = settings()
    if known.api_key is None:
        raise NoKeyError(
            "No API key is known.", hint="Set ACTIONLEDGER_API_KEY, or run `actionledger up`."
        )
    with Proposing(known.url, known.api_key) as asking:
        status, answer = ask(asking)
    if status == UNAUTHORIZED:
        raise NoKeyError(
            "The ledger does not know this API key.",
            hint="Make one with `actionledger keys create` and set ACTIONLEDGER_API_KEY.",
        )
    if status >= REFUSED_FROM:
        code = Exit.TROUBLE if status >= TROUBLE_FROM else Exit.REFUSED
        out.answer(answer, lambda console: show_refusal(console, answer), code)
    out.answer(answer, lambda console: shown(console, answer))


def show_refusal(console: "Console", answer: "Mapping[str, Any]") -> None:
    """Why the ledger refused, and what to do."""
    console.print(f"[red]{answer.get('code', 'refused')}[/]: {answer.get('title', '')}")
    if answer.get("detail"):
        console.print(answer["detail"], markup=False)
    for one in answer.get("problems", ()):
        console.print(f"  {one['path'] or '/'}  {one['message']}", markup=False, soft_wrap=True)
    if original := answer.get("original"):
        told = " ".join(filter(None, (original.get("status"), original.get("reference"))))
        console.print(f"  original   {original['key']} {told}", markup=False, soft_wrap=True)
    if answer.get("hint"):
        console.print(answer["hint"], markup=False)
