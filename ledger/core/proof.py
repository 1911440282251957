"""What a piece of evidence may prove: a table of its kind, its meaning and the action's status.

Guarantees that a rule about evidence stands in one place: `decide` reads the table and draws what
follows, and nothing else asks what kind a piece is of. A test walks every cell, and
`docs/EVIDENCE.md` shows the table as it stands here.

Whatever a piece may prove, three things hold beside the table. Other money than was asked for is a
case (`amount_differs`) and completes nothing. Every piece is kept. And what pieces say together
makes no difference by their order: `contradicts_itself` asks what has been told, never what came
last.
"""

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from typing import Final

from ledger.core.inputs import EvidenceKind, Meaning
from ledger.core.state import (
    DEFINITELY_WITHOUT,
    Action,
    Attempt,
    AttemptStatus,
    Reversal,
    Status,
)
from ledger.core.transitions import COLUMNS

PERSON: Final = "person"
"""What a person has signed at the review desk: evidence too, though no input of its kind."""


def report_source(attempt: int, kind: str) -> str:
    """The name of a holder's word about an attempt as a source, by the kind of its outcome."""
    return f"report:{attempt}:{kind}"


class May(StrEnum):
    """What a piece may prove. The letter is its mark in the table."""

    PROVE = "P"
    """An effect. It completes an action with an open attempt; where every attempt had definitely
    none it is `evidence_conflicts`, and where nothing was sent `effect_without_attempt`."""
    CONFIRM = "C"
    """The effect that is there, once more; under another name it is a `second_effect`."""
    CLOSE = "N"
    """No effect of the attempts that it can speak for: they are closed by it. Where an effect has
    been told it is `evidence_conflicts`."""
    DENY = "D"
    """No effect, of what is settled: `evidence_conflicts` where an effect has been told and either
    no attempt is left to have had it, or it is the very one. Else it is kept only."""
    GIVE_BACK = "R"
    """The effect was there and was given back. Beyond what the ledger itself had given back it is
    `reversed_elsewhere`, and `returned_too_much` where more came back than was taken; before the
    effect is told it waits for it."""
    KEEP = "K"
    """Nothing: it is kept, and shown to whoever looks."""
    NEVER = "."
    """A kind that cannot say this, or not of this status."""


_ROWS: Final = """
                            pr aa bl re at un nr  co fa de ex ca su
effect        report        .  P  P  P  P  P  P   C  P  P  P  P  P
effect        webhook       P  P  P  P  P  P  P   C  P  P  P  P  P
effect        lookup        P  P  P  P  P  P  P   C  P  P  P  P  P
effect        settlement    P  P  P  P  P  P  P   C  P  P  P  P  P
effect        listing       P  P  P  P  P  P  P   C  P  P  P  P  P
effect        person        .  .  .  .  .  .  P   .  .  .  .  .  .
no_effect     report        .  N  N  N  N  N  N   D  D  D  D  D  D
no_effect     webhook       N  N  N  N  N  N  N   D  D  D  D  D  D
no_effect     lookup        N  N  N  N  N  N  N   D  D  D  D  D  D
no_effect     settlement    N  N  N  N  N  N  N   D  D  D  D  D  D
no_effect     listing       N  N  N  N  N  N  N   D  D  D  D  D  D
no_effect     person        .  .  .  .  .  .  N   .  .  .  .  .  .
absent        webhook       K  K  K  K  K  K  K   K  K  K  K  K  K
absent        lookup        N  N  N  N  N  N  N   D  D  D  D  D  D
absent        settlement    K  K  K  K  K  K  K   K  K  K  K  K  K
absent        listing       K  K  K  K  K  K  K   K  K  K  K  K  K
reversed      webhook       R  R  R  R  R  R  R   R  R  R  R  R  R
reversed      lookup        R  R  R  R  R  R  R   R  R  R  R  R  R
reversed      settlement    R  R  R  R  R  R  R   R  R  R  R  R  R
reversed      listing       R  R  R  R  R  R  R   R  R  R  R  R  R
pending       webhook       K  K  K  K  K  K  K   K  K  K  K  K  K
pending       lookup        K  K  K  K  K  K  K   K  K  K  K  K  K
pending       settlement    K  K  K  K  K  K  K   K  K  K  K  K  K
pending       listing       K  K  K  K  K  K  K   K  K  K  K  K  K
inconclusive  report        .  .  .  .  K  K  K   K  K  K  K  K  K
inconclusive  webhook       K  K  K  K  K  K  K   K  K  K  K  K  K
inconclusive  lookup        K  K  K  K  K  K  K   K  K  K  K  K  K
inconclusive  settlement    K  K  K  K  K  K  K   K  K  K  K  K  K
inconclusive  listing       K  K  K  K  K  K  K   K  K  K  K  K  K
"""


def _read(rows: str) -> dict[tuple[str, str, Status], May]:
    """The rows as cells; what stands in no row is never said."""
    cells: dict[tuple[str, str, Status], May] = {
        (kind, meaning, status): May.NEVER
        for kind in (*EvidenceKind, PERSON)
        for meaning in Meaning
        for status in Status
    }
    for line in rows.strip().splitlines()[1:]:
        meaning, kind, *marks = line.split()
        for status, mark in zip(COLUMNS, marks, strict=True):
            cells[kind, meaning, status] = May(mark)
    return cells


PROOF: Final[dict[tuple[str, str, Status], May]] = _read(_ROWS)
"""Every triple of kind (or `person`), meaning and status."""


def proof_rows() -> str:
    """The table as it is written here, for whoever shows it."""
    return _ROWS.strip("\n")


# --- what has been told --------------------------------------------------------------------------


def effects_told(action: Action) -> tuple[str, ...]:
    """The names of every effect that is known or was told; the action's key for one without."""
    own = () if action.reference is None else (action.reference,)
    told = () if action.told is None else action.told.effects
    return tuple(dict.fromkeys((*own, *told)))


def names_told(action: Action) -> frozenset[str]:
    """The names of effects, with those that something given back names: two of them are two
    effects.
    """
    reversed_ones = (one.reverses for one in reversals_told(action))
    given = {name for name in reversed_ones if name is not None}
    return frozenset(effects_told(action)) - {action.key} | given


def reversals_told(action: Action) -> tuple[Reversal, ...]:
    """What was given back, as far as it was told of this action."""
    return () if action.told is None else action.told.reversals


def given_back(action: Action) -> tuple[Reversal, ...]:
    """What was given back and stayed so: neither a dispute that was won nor a refund that failed
    after all. What bears one name counts once, by the larger amount, of whichever effects it is
    said.
    """
    nothing = () if action.told is None else action.told.nothing
    named: dict[str, Reversal] = {}
    for one in reversals_told(action):
        if one.reference in nothing:
            continue
        other = named.setdefault(one.name, one)
        if other is not one:
            minor, raised = larger(other.minor, one.minor), other.raised and one.raised
            foreign = other.other_currency or one.other_currency
            named[one.name] = replace(other, minor=minor, raised=raised, other_currency=foreign)
    return tuple(named.values())


def larger(one: int | None, other: int | None) -> int | None:
    """The larger of two amounts that were told of the same; None only where nobody has told any."""
    return max([minor for minor in (one, other) if minor is not None], default=None)


def is_told(action: Action) -> bool:
    """Whether anything has told of an effect; what was given back was there."""
    return bool(effects_told(action) or reversals_told(action))


def pending_told(action: Action) -> tuple[str, ...]:
    """The names of objects that were told to be moving, and of which nobody has told yet that they
    are there or came to nothing.
    """
    if action.told is None:
        return ()
    over = {*effects_told(action), *names_told(action), *action.told.nothing}
    return tuple(name for name in action.told.pending if name not in over)


def is_denied(action: Action, attempt: Attempt) -> bool:
    """Whether the attempt definitely had no effect, by its own outcome or by what was told."""
    told = () if action.told is None else action.told.denied
    return attempt.status in DEFINITELY_WITHOUT or attempt.number in told


def counted(action: Action) -> Iterator[Attempt]:
    """Every attempt that was acted on."""
    return (one for one in action.attempts if one.status is not AttemptStatus.DECLINED)


def contradicts_itself(action: Action) -> bool:
    """Whether what is known cannot all be true: an effect that no attempt is left to have had, one
    under the name of what came to nothing, or an attempt that both succeeded and had none. An
    object that is still moving can become an effect: it speaks against the word of others that
    there was none, though not against an attempt's own outcome.
    """
    told = action.told
    nothing = frozenset[str]() if told is None else frozenset(told.nothing)
    done = () if told is None else told.done
    if not names_told(action).isdisjoint(nothing):
        return True
    tries = tuple(counted(action))
    if any(
        (one.status is AttemptStatus.SUCCEEDED or one.number in done) and is_denied(action, one)
        for one in tries
    ):
        return True
    if not tries or not all(is_denied(action, one) for one in tries):
        return False
    denied = () if told is None else told.denied
    is_word_of_others = any(one.number in denied for one in tries)
    return is_told(action) or (is_word_of_others and bool(pending_told(action)))
