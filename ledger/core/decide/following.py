"""What the facts of a decision make due elsewhere in their stream, before the decision is whole.

No rule has to think of gates, revisions or plans: whatever it decided, what follows from the state
it leads to is drawn here, once, in the same decision.
"""

from ledger.core.decide.draft import Draft
from ledger.core.decide.gating import follow_gates
from ledger.core.decide.sagas import follow_sagas


def follow(draft: Draft) -> None:
    """Draw what follows from the state that the facts so far lead to."""
    follow_sagas(draft)
    for action in draft.stream.actions:
        follow_gates(draft, action.key)
