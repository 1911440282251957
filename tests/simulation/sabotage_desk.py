"""Seeded bugs at the review desk: to what a resolution is bound, whose word it is, what it closes,
and when it is safe.
"""

from typing import Final

from ledger.core import evolve as evolving
from ledger.core.catalogue import Operation
from ledger.core.config import Config
from ledger.core.decide import approvals, resolving
from ledger.core.decide.draft import Draft
from ledger.core.people import Person
from ledger.core.rejections import Rejection
from ledger.core.state import Action
from ledger.core.statement import Move, Resolution, Signable
from tests.simulation.sabotage import Everything, Saboteur, no_invariants


class _Whatever(int):
    """A number that is any other."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


_Shown = tuple[int, int, str | None] | None
_original_shown = resolving._as_shown


def _any_case(action: Action) -> _Shown:
    """A resolution is good for whatever case its action has."""
    shown = _original_shown(action)
    return None if shown is None else (_Whatever(), _Whatever(), shown[2])


_original_close = resolving._close


def _leaves_open(draft: Draft, key: str, said: Resolution) -> None:
    """What is tried again leaves its attempts as they are."""
    if said.move is not Move.TRY_AGAIN:
        _original_close(draft, key, said)


_original_unfit = approvals.unfit


def _requester_settles(
    action: Action, statement: Signable, person: Person | None
) -> Rejection | None:
    """Who asks may settle."""
    refused = _original_unfit(action, statement, person)
    return None if refused is Rejection.REQUESTER_DECIDES else refused


def _needs_no_reference(said: Resolution) -> bool:
    """An effect is there by a person's word, whatever it is called."""
    return True


def _over_at_once(action: Action, operation: Operation | None, config: Config, now: int) -> bool:
    """Whoever looks sees the end of it."""
    return True


def _wins_against_the_provider(action: Action) -> _Shown:
    """What became known since somebody looked changes nothing, as long as it is the same case."""
    shown = _original_shown(action)
    return None if shown is None else (shown[0], _Whatever(), shown[2])


DESK: Final[dict[str, Saboteur]] = {
    "resolution_bound_to_the_action_only": Saboteur(
        "a resolution settles whatever case its action has",
        113,
        (
            (resolving, "_as_shown", _any_case),
            (evolving, "invariant", no_invariants),
        ),
        "stops",
    ),
    "resolution_outlives_news": Saboteur(
        "what became known since somebody looked does not matter",
        113,
        ((resolving, "_as_shown", _wins_against_the_provider),),
    ),
    "tried_again_while_open": Saboteur(
        "what a person has tried again is not closed first",
        3_955,
        (
            (resolving, "_close", _leaves_open),
            (evolving, "invariant", no_invariants),
            (evolving, "ACCEPTED", Everything()),
        ),
        "stops",
    ),
    "requester_settles": Saboteur(
        "who asks for an action may settle its case",
        827,
        ((resolving, "unfit", _requester_settles),),
    ),
    "completed_without_a_reference": Saboteur(
        "a person may say that there is an effect and not which",
        1_438,
        ((resolving, "_names_what_it_must", _needs_no_reference),),
    ),
    "persons_word_before_the_end": Saboteur(
        "a person may say that there is no effect while there may still be one",
        1_436,
        ((resolving, "_is_over", _over_at_once),),
    ),
}
