"""The executors' offers as the owner of a partition sees them: who has how many slots, until when.

Offers are not state: they are read from the end of their topic, lapse, and are never replayed.
Starts that an incarnation cannot have read when it made its offer count against that offer, so an
offer is never spent twice, not even by a new owner.
"""

from collections import deque
from dataclasses import dataclass, field

from ledger.core.facts import AttemptStarted
from ledger.core.inputs import Offered
from ledger.core.limits import OFFERS_REMEMBERED_MAX, STARTS_REMEMBERED_MAX
from ledger.core.offers import Offer, is_caller
from ledger.core.records import Decision


@dataclass(slots=True)
class _Standing:
    offered: Offered
    appended_at: int
    reserved: int = 0

    @property
    def until_at(self) -> int:
        """Log time at which the offer lapses."""
        return self.appended_at + self.offered.valid_ms


@dataclass(slots=True)
class OfferBook:
    """Standing offers by incarnation, and the ledger offsets of the starts that name each and were
    not seen by whoever made it.
    """

    counts_from: int = 0
    """The ledger offset from which starts were counted here."""
    _standing: dict[str, _Standing] = field(default_factory=dict)
    _starts: dict[str, deque[int]] = field(default_factory=dict)

    def offered(self, offered: Offered, appended_at: int) -> None:
        """A newer offer of an incarnation replaces its older one; what has lapsed by then goes.

        One that was made before its executor had read up to where counting began here is not
        believed: starts may have spent it that nobody here knows of. Its next one will do.
        """
        if offered.seen_offset + 1 < self.counts_from:
            return
        known = self._standing.get(offered.incarnation)
        if known is not None and known.offered.sequence >= offered.sequence:
            return
        lapsed = [name for name, one in self._standing.items() if one.until_at < appended_at]
        for name in lapsed:
            del self._standing[name]
        self._standing.pop(offered.incarnation, None)
        self._standing[offered.incarnation] = _Standing(offered, appended_at)
        while len(self._standing) > OFFERS_REMEMBERED_MAX:
            self._standing.pop(next(iter(self._standing)))
        starts = self._starts.get(offered.incarnation, deque())
        while starts and starts[0] <= offered.seen_offset:
            starts.popleft()

    def saw(self, decision: Decision) -> None:
        """Count the starts of a decision that landed against the offers they spend."""
        for fact in decision.facts:
            # A caller's offer is spent by the one start that it was for.
            if isinstance(fact, AttemptStarted) and not is_caller(fact.holder):
                standing = self._standing.get(fact.holder)
                if standing is not None and decision.at <= standing.offered.seen_offset:
                    continue  # its executor had read this start when it offered
                starts = self._starts.setdefault(fact.holder, deque(maxlen=STARTS_REMEMBERED_MAX))
                starts.append(decision.at)
        while len(self._starts) > OFFERS_REMEMBERED_MAX:
            self._starts.pop(next(iter(self._starts)))

    def pick(self, operation: str, running_at: int, declined: frozenset[str]) -> Offer | None:
        """A slot for an operation, from whoever has most left; reserve it with `reserve` when it is
        spent.
        """
        best: _Standing | None = None
        for standing in self._standing.values():
            offered = standing.offered
            if (
                operation in offered.operations
                and running_at <= standing.until_at
                and offered.incarnation not in declined
                and self._left(standing) > 0
                and (best is None or self._left(standing) > self._left(best))
            ):
                best = standing
        if best is None:
            return None
        offered = best.offered
        return Offer(
            offered.incarnation, operation, offered.sequence, best.appended_at, best.until_at
        )

    def operations(self, running_at: int) -> set[str]:
        """What is offered now, whether its slots are taken or not."""
        return {
            operation
            for standing in self._standing.values()
            if running_at <= standing.until_at and standing.offered.slots
            for operation in standing.offered.operations
        }

    def slots_left(self, running_at: int) -> int:
        """Slots of all offers that stand, whatever operations they are for."""
        left = 0
        for standing in self._standing.values():
            if running_at <= standing.until_at:
                left += max(0, self._left(standing))
        return left

    def reserve(self, offer: Offer) -> None:
        """Hold a slot for a start that is decided and not yet known to have landed."""
        standing = self._standing.get(offer.incarnation)
        if standing is not None:
            standing.reserved += 1

    def settle_reservations(self) -> None:
        """The batch landed (its starts were counted by `saw`) or was lost: nothing is held any
        more.
        """
        for standing in self._standing.values():
            standing.reserved = 0

    def _left(self, standing: _Standing) -> int:
        # What its executor had seen is left out when the offer comes, and when a start does.
        unseen = self._starts.get(standing.offered.incarnation, ())
        return standing.offered.slots - len(unseen) - standing.reserved
