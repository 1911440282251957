"""Gates: rules that cross business events, each a small aggregate with a stream of its own.

A gate of a run or of a window holds a budget, a gate of a target holds a queue. An action *claims*
what it needs, and the gate *reserves* it: the reservation is the action's key and the version at
which it asked, so a message that comes twice, late or out of turn changes nothing. Every grant has
a number that is never given again; whoever closes one names it, so nothing closed has to be
remembered.

Guarantees at every prefix of a log: what a gate has used and reserved is the sum over its facts,
and no ceiling is passed but where a person has signed it. State is derived from facts by
`evolve_gate` and from nothing else.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Final, Literal, assert_never

from pydantic import Field

from ledger.core.invariants import invariant
from ledger.core.limits import (
    CEILINGS_MAX,
    GATE_RESEND_MS,
    GATE_RESEND_MS_MAX,
    INTEGER_MAX,
    RECENT_MAX,
    REPORTERS_MAX,
)
from ledger.core.unchecked import maker_of
from ledger.core.wire import Count, Milliseconds, Text, Wire

SIDE_EFFECTS: Final = "side_effects"
STEPS: Final = "steps"
TOOL_CALLS: Final = "tool_calls"
TOKENS: Final = "tokens"
WALL_CLOCK: Final = "wall_clock_ms"
REPORTED: Final = frozenset({STEPS, TOOL_CALLS, TOKENS})
"""What only the agent knows of its run and says itself; everything else the ledger enforces."""


def spend(currency: str) -> str:
    """The dimension of an amount of money, in minor units."""
    return f"spend.{currency}"


Amounts = Annotated[dict[Text, Count], Field(max_length=CEILINGS_MAX)]
"""Whole numbers by dimension: `side_effects`, `spend.EUR`, `steps` …"""


class Reaching(Wire):
    """A ceiling that was reached: which, in which dimension, how much of it is used and reserved,
    and where it lies.
    """

    ceiling: Text
    dimension: Text
    taken: Count
    limit: Count


RefusalReason = Literal["ceiling_reached", "suspected_duplicate", "gate_full"]
"""Why a gate grants nothing."""


class Identity(Wire):
    """What is asked for, so that the same again is known: at a target within `look_alike_ms`, or
    within the same run. `occurrence` tells an intended second one from the first; what stands in
    one `plan` stands there beside the others because it is meant.
    """

    operation: Text
    request_hash: Text
    run: Text | None = None
    occurrence: Text | None = None
    look_alike_ms: Milliseconds = 0
    plan: Text | None = None


# --- what an action holds ------------------------------------------------------------------------


class ClaimStatus(StrEnum):
    """What became of what an action asked of a gate. One that is closed is remembered only where
    its effect is there: should the word of it be lost, the gate asks for it.
    """

    ASKED = "asked"
    QUEUED = "queued"
    GRANTED = "granted"
    CLOSING = "closing"
    CLOSED = "closed"


_GIVEN_BACK: Final = frozenset({ClaimStatus.CLOSING, ClaimStatus.CLOSED})
_SAID: Final = frozenset({ClaimStatus.ASKED, ClaimStatus.CLOSING})


@dataclass(frozen=True, slots=True)
class Claim:
    """What an action asked of one gate, in which `round` (its version then), and what came of it.

    `sent_at` and `sends` are those of the message that waits for an answer; `behind` is the action
    that holds the target; `spent` says of one that is given back whether its effect is there. While
    a grant is not `kept` the gate sends it again by itself, so giving it back needs no answer.
    """

    gate: str
    round: int
    status: ClaimStatus
    demand: Mapping[str, int]
    ceilings: tuple[str, ...] = ()
    identity: Identity | None = None
    over: tuple[str, ...] = ()
    forced: bool = False
    grant: int | None = None
    kept: bool = False
    behind: str | None = None
    spent: bool = False
    sent_at: int = 0
    sends: int = 1

    @property
    def is_held(self) -> bool:
        """Whether the action has it, or has asked for it, and gives nothing back yet."""
        return self.status not in _GIVEN_BACK

    @property
    def waits_for_message(self) -> bool:
        """Whether the gate owes an answer, so that the message is sent again."""
        return self.status in _SAID

    @property
    def due_at(self) -> int | None:
        """When the message is sent again."""
        return resend_at(self.sent_at, self.sends) if self.waits_for_message else None


def resend_at(sent_at: int, sends: int) -> int:
    """When a message that was sent so often is sent again, unless an answer has come."""
    doublings = min(sends - 1, 16)
    return sent_at + min(GATE_RESEND_MS << doublings, GATE_RESEND_MS_MAX)


# --- what a gate holds ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a gate holds for one action: granted under a number, or waiting in its queue without
    one. A grant is sent again until the action has answered that it keeps it.

    `version` is the fact by which the gate took it in, at `asked_at`; it tells this reservation
    from any other for ever.
    """

    action: str
    round: int
    demand: Mapping[str, int]
    version: int
    asked_at: int
    identity: Identity | None = None
    grant: int | None = None
    granted_at: int | None = None
    over: tuple[str, ...] | None = None
    forced: bool | None = None
    kept: bool = False
    sent_at: int = 0
    sends: int = 1

    @property
    def due_at(self) -> int | None:
        """When the grant is sent again."""
        waits = self.grant is not None and not self.kept
        return resend_at(self.sent_at, self.sends) if waits else None


@dataclass(frozen=True, slots=True)
class Recent:
    """A request that passed a target, when it did, and when its effect was there."""

    action: str
    at: int
    identity: Identity
    settled_at: int | None = None

    @property
    def last_at(self) -> int:
        """From when on its look-alikes are known for as long as their window is."""
        return self.at if self.settled_at is None else self.settled_at


@dataclass(frozen=True, slots=True)
class Reporter:
    """A name under which steps of a run are reported, the principal that reported under it first
    and alone may, and the highest number it has used.
    """

    name: str
    principal: str
    step: int


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate: what it has used for good, what it holds, in the order in which it was asked."""

    version: int
    opened_at: int
    used: Mapping[str, int]
    reservations: tuple[Reservation, ...] = ()
    next_grant: int = 1
    recent: tuple[Recent, ...] = ()
    reporters: tuple[Reporter, ...] = ()

    def reporter(self, name: str) -> Reporter | None:
        """Who reports under a name, or None."""
        return next((one for one in self.reporters if one.name == name), None)

    def reservation(self, action: str, round_: int) -> Reservation | None:
        """What it holds for an action of that round, or None."""
        for one in self.reservations:
            if one.action == action and one.round == round_:
                return one
        return None

    @property
    def granted(self) -> Iterator[Reservation]:
        """What is reserved."""
        return (one for one in self.reservations if one.grant is not None)

    @property
    def queue(self) -> Iterator[Reservation]:
        """Who waits, who came first first."""
        return (one for one in self.reservations if one.grant is None)

    def taken(self, dimension: str) -> int:
        """What is used or reserved of a dimension."""
        reserved = sum(one.demand.get(dimension, 0) for one in self.granted)
        return min(self.used.get(dimension, 0) + reserved, INTEGER_MAX)

    @property
    def due_at(self) -> int | None:
        """When the first grant that nobody has answered is sent again."""
        if not self.reservations:
            return None
        times = [one.due_at for one in self.reservations]
        return min([time for time in times if time is not None], default=None)


# --- facts ---------------------------------------------------------------------------------------


class ReservationGranted(Wire):
    """What an action asked for is its own until it closes it. `over` names ceilings that it passes
    because a person has signed it; `forced`: its effect is there already, so it counts whatever the
    ceilings say.
    """

    type: Literal["reservation.granted"] = "reservation.granted"
    version: Count
    action: Text
    round: Count
    grant: Count
    demand: Amounts
    identity: Identity | None = None
    over: tuple[Text, ...] | None = None
    forced: bool | None = None


class ReservationQueued(Wire):
    """Another action holds the target: this one waits behind it, first come first served."""

    type: Literal["reservation.queued"] = "reservation.queued"
    version: Count
    action: Text
    round: Count
    demand: Amounts
    behind: Text
    identity: Identity | None = None


class ReservationRefused(Wire):
    """The gate does not grant it: a ceiling would be passed, the same was asked for before under
    another key (`like`), or the gate holds as much as it can. Nothing is held for it.
    """

    type: Literal["reservation.refused"] = "reservation.refused"
    version: Count
    action: Text
    round: Count
    reason: RefusalReason
    reached: Reaching | None = None
    like: Text | None = None


class ReservationKept(Wire):
    """The action has the grant; it is not sent again."""

    type: Literal["reservation.kept"] = "reservation.kept"
    version: Count
    action: Text
    round: Count
    grant: Count


class ReservationSentAgain(Wire):
    """Nobody has answered the grant: it was sent once more."""

    type: Literal["reservation.sent_again"] = "reservation.sent_again"
    version: Count
    action: Text
    round: Count
    grant: Count
    sends: Count


class ReservationClosed(Wire):
    """The action needs it no more: what it reserved is used where its effect is there (`spent`),
    and free again where it is not. One without a grant leaves the queue.
    """

    type: Literal["reservation.closed"] = "reservation.closed"
    version: Count
    action: Text
    round: Count
    grant: Count | None = None
    spent: bool


class StepReported(Wire):
    """An agent said what a step of its run took. It is the agent's word, and counts once: steps of
    one reporter only grow, and come from one principal.
    """

    type: Literal["step.reported"] = "step.reported"
    version: Count
    principal: Text
    reporter: Text
    step: Count
    amounts: Amounts
    reached: tuple[Reaching, ...] | None = None


GateFact = Annotated[
    ReservationGranted
    | ReservationQueued
    | ReservationRefused
    | ReservationKept
    | ReservationSentAgain
    | ReservationClosed
    | StepReported,
    Field(discriminator="type"),
]
AnyGateFact = (
    ReservationGranted
    | ReservationQueued
    | ReservationRefused
    | ReservationKept
    | ReservationSentAgain
    | ReservationClosed
    | StepReported
)
GATE_FACT_TYPES: tuple[str, ...] = tuple(
    kind.model_fields["type"].default for kind in AnyGateFact.__args__
)
"""Every wire name of a fact about a gate."""


# --- fold ----------------------------------------------------------------------------------------

_gate_with = maker_of(Gate)[1]
_reservation_of, _reservation_with, _ = maker_of(Reservation)


def evolve_gate(gate: Gate | None, fact: AnyGateFact, decided_at: int) -> Gate:
    """The gate after one fact; its first fact makes it. Raises BrokenInvariantError where the order
    of versions or what it holds forbids the fact.
    """
    before = gate or Gate(0, decided_at, {})
    invariant(fact.version == before.version + 1, "a gate's versions have no gap")
    gate = _gate_with(before, {"version": fact.version})
    match fact:
        case ReservationGranted():
            return _granted(gate, fact, decided_at)
        case ReservationQueued():
            invariant(gate.reservation(fact.action, fact.round) is None, "an action queues once")
            waits = _reservation_of(
                fact.action, fact.round, fact.demand, fact.version, decided_at, fact.identity
            )
            return _gate_with(gate, {"reservations": (*gate.reservations, waits)})
        case ReservationRefused():
            return gate
        case ReservationKept():
            held = _held(gate, fact)
            return _with(gate, _reservation_with(held, {"kept": True}))
        case ReservationSentAgain():
            held = _held(gate, fact)
            sent = {"sends": fact.sends, "sent_at": decided_at}
            return _with(gate, _reservation_with(held, sent))
        case ReservationClosed():
            return _closed(gate, fact, decided_at)
        case StepReported():
            return _stepped(gate, fact)
        case _:
            assert_never(fact)


def _held(gate: Gate, fact: ReservationKept | ReservationSentAgain) -> Reservation:
    held = gate.reservation(fact.action, fact.round)
    invariant(held is not None and held.grant == fact.grant, "a fact names a grant that is held")
    assert held is not None  # noqa: S101 - for the type checker; the line above survives -O
    return held


def _with(gate: Gate, changed: Reservation) -> Gate:
    """The gate with one of its reservations as it is now."""
    reservations = tuple(
        changed if (one.action, one.round) == (changed.action, changed.round) else one
        for one in gate.reservations
    )
    return _gate_with(gate, {"reservations": reservations})


def _granted(gate: Gate, fact: ReservationGranted, at: int) -> Gate:
    invariant(fact.grant == gate.next_grant, "grants are numbered without a gap")
    waits = gate.reservation(fact.action, fact.round)
    invariant(waits is None or waits.grant is None, "a reservation is granted once")
    granted = _reservation_of(
        fact.action,
        fact.round,
        fact.demand,
        fact.version if waits is None else waits.version,
        at if waits is None else waits.asked_at,
        fact.identity,
        fact.grant,
        granted_at=at,
        over=fact.over,
        forced=fact.forced,
        sent_at=at,
    )
    recent = gate.recent
    if fact.identity is not None:
        recent = (*recent, Recent(fact.action, at, fact.identity))[-RECENT_MAX:]
    gate = _gate_with(gate, {"next_grant": fact.grant + 1, "recent": recent})
    if waits is not None:
        return _with(gate, granted)
    return _gate_with(gate, {"reservations": (*gate.reservations, granted)})


def _closed(gate: Gate, fact: ReservationClosed, at: int) -> Gate:
    held = gate.reservation(fact.action, fact.round)
    invariant(held is not None and held.grant == fact.grant, "what is closed was held")
    assert held is not None  # noqa: S101 - for the type checker; the line above survives -O
    invariant(not fact.spent or held.grant is not None, "only a grant is spent")
    used, recent = gate.used, gate.recent
    place = (held.action, held.granted_at)
    if fact.spent:
        used = _sum(used, held.demand)
        recent = tuple(
            replace(one, settled_at=at) if (one.action, one.at) == place else one for one in recent
        )
    else:
        # What had no effect is nobody's duplicate; what another grant of it had stays known.
        recent = tuple(one for one in recent if (one.action, one.at) != place)
    rest = tuple(one for one in gate.reservations if one is not held)
    return _gate_with(gate, {"used": used, "recent": recent, "reservations": rest})


def _stepped(gate: Gate, fact: StepReported) -> Gate:
    known = gate.reporter(fact.reporter)
    invariant(fact.step > (0 if known is None else known.step), "a step counts once")
    is_same = known is None or known.principal == fact.principal
    invariant(is_same, "a reporter is one principal")
    others = tuple(one for one in gate.reporters if one is not known)
    reporters = (*others, Reporter(fact.reporter, fact.principal, fact.step))
    invariant(len(reporters) <= REPORTERS_MAX, "reporters of a run are few")
    used = _sum(gate.used, fact.amounts)
    return _gate_with(gate, {"used": used, "reporters": reporters})


def _sum(used: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Both together; what is beyond any ceiling stays there, as large as a number can be."""
    sums = {name: min(used.get(name, 0) + amount, INTEGER_MAX) for name, amount in more.items()}
    return {**used, **sums}
