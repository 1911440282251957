"""Facts about what an action asks of gates, and for which other action it waits.

A part of `facts`, which everybody reads them from.
"""

from typing import Literal

from ledger.core.gates import Amounts, Identity, Reaching, RefusalReason
from ledger.core.wire import Count, Milliseconds, Text, Wire


class ActionBlocked(Wire):
    """The action waits for another one of its stream (`by`), until `wait_until` if that is set: for
    the end of the one that it revises or compensates while that may still have its effect, for the
    step before it, or for a saga to need it at all.
    """

    type: Literal["action.blocked"] = "action.blocked"
    action: Text
    version: Count
    reason: Literal["revised_open", "original_open", "saga_order", "planned"]
    by: Text
    wait_until: Milliseconds | None = None


class GateAsked(Wire):
    """The action asks a gate for what it needs, and waits; once more with every one of `sends`,
    under the same `round`. `over`: what a person has signed that it may pass. `forced`: its effect
    is there already.
    """

    type: Literal["gate.asked"] = "gate.asked"
    action: Text
    version: Count
    gate: Text
    round: Count
    sends: Count
    demand: Amounts
    ceilings: tuple[Text, ...] = ()
    identity: Identity | None = None
    over: tuple[Text, ...] | None = None
    forced: bool | None = None
    wait_until: Milliseconds | None = None


class GateAnswered(Wire):
    """What a gate said: granted under a number; queued behind another action; or refused, and why.

    With the last grant the action may go ahead: then `step_deadline_at` is the end of its step.
    """

    type: Literal["gate.answered"] = "gate.answered"
    action: Text
    version: Count
    gate: Text
    round: Count
    outcome: Literal["granted", "queued", "refused"]
    grant: Count | None = None
    behind: Text | None = None
    reason: RefusalReason | None = None
    reached: Reaching | None = None
    like: Text | None = None
    step_deadline_at: Milliseconds | None = None


class GateKept(Wire):
    """The action has told the gate that it has the grant; from now on it is for the action to say
    when it gives it back, until the gate has heard it.
    """

    type: Literal["gate.kept"] = "gate.kept"
    action: Text
    version: Count
    gate: Text
    round: Count
    grant: Count


class GateClosing(Wire):
    """The action gives back what it holds of a gate, or leaves its queue; `spent` where its effect
    is there. What the gate was told is kept is given back with every one of `sends` until it has
    answered; for anything else the gate asks by itself. Where nothing else blocks the action
    `step_deadline_at` is the end of its step.
    """

    type: Literal["gate.closing"] = "gate.closing"
    action: Text
    version: Count
    gate: Text
    round: Count
    sends: Count
    grant: Count | None = None
    spent: bool
    step_deadline_at: Milliseconds | None = None


class GateClosed(Wire):
    """The gate has taken back what the action held."""

    type: Literal["gate.closed"] = "gate.closed"
    action: Text
    version: Count
    gate: Text
    round: Count
