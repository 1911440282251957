"""A reader of the ledger that acts on nothing: it knows what is settled, and what may yet start."""

from ledger.core.records import Decision
from ledger.core.state import Action, Status, Stream
from ledger.log.fold import PartitionFold, fold_decision
from ledger.log.topics import Topic
from tests.simulation.catalogue import CLASSES
from tests.simulation.world import World

LEDGER, CONFIG = Topic.LEDGER.value, Topic.CONFIG.value
INBOXES = (
    Topic.INTENTS.value,
    Topic.APPROVALS.value,
    Topic.ATTEMPTS.value,
    Topic.EVIDENCE.value,
)


class Observer:
    """The product's fold of every partition, as far as it was asked for."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.folds = [PartitionFold(part) for part in range(world.partitions)]
        self.streams: dict[str, Stream] = {}
        self._looked_at = -1
        self._is_settled = False

    def look(self) -> None:
        """Fold what has landed."""
        for fold in self.folds:
            for record in self.world.log.read(LEDGER, fold.partition, fold.next_offset):
                read = fold.feed(record)
                if isinstance(read, Decision) and (read.facts or read.gate):
                    stream = self.streams.get(read.stream) or Stream(read.stream)
                    self.streams[read.stream] = fold_decision(stream, read)

    def actions(self) -> list[Action]:
        """Every action that is known."""
        return [action for stream in self.streams.values() for action in stream.actions]

    def known_end(self, partition: int) -> tuple[int, int]:
        """Where a partition ends, and the epoch there."""
        self.look()
        fold = self.folds[partition]
        return fold.next_offset, fold.epoch

    def position(self, topic: str, partition: int) -> int:
        """The offset behind the last input of an inbox that the ledger has answered, or 0."""
        self.look()
        return self.folds[partition].positions.get(topic, 0)

    def is_undecided(self, partition: int) -> bool:
        """Whether an inbox of a partition holds what was not decided yet."""
        log, positions = self.world.log, self.folds[partition].positions
        if log.end_offset(CONFIG, 0) > positions.get(CONFIG, 0):
            return True
        for topic in INBOXES:
            if log.end_offset(topic, partition) > (positions.get(topic) or 1):
                return True
        return False

    def is_settled(self) -> bool:
        """Whether everything that was asked has an end or a person."""
        if self._looked_at != self.world.log.landings:
            self._looked_at = self.world.log.landings
            self.look()
            self._is_settled = self._judge()
        return self._is_settled

    def _judge(self) -> bool:
        if any(self.is_undecided(fold.partition) for fold in self.folds):
            return False
        if any(stream.gate is not None and stream.gate.due_at for stream in self.streams.values()):
            return False
        return all(
            (
                action.is_final
                or action.status is Status.NEEDS_REVIEW
                or _awaits_person(action, stream)
            )
            and not any(claim.waits_for_message for claim in action.claims)
            for stream in self.streams.values()
            for action in stream.actions
        )

    def may_start(self) -> bool:
        """Whether anything may be started that is known or lies in an inbox."""
        if self.is_settled():
            return False
        if any(self.is_undecided(fold.partition) for fold in self.folds):
            return True
        return any(_may_start(action) for action in self.actions())


def _awaits_person(action: Action, stream: Stream) -> bool:
    """Whether it waits, without an end, for what a person has to settle: of what it undoes, or of
    its plan.
    """
    blocked = action.blocked if action.status is Status.BLOCKED else None
    if blocked is None or action.wait_until is not None:
        return False
    if action.saga is not None:
        name = action.saga.saga
        some = (one for one in stream.actions if one.saga is not None and one.saga.saga == name)
        return any(one.case is not None for one in some)
    other = stream.action(blocked.by)
    return other is not None and (other.case is not None or _awaits_person(other, stream))


def _may_start(action: Action) -> bool:
    if action.is_final or action.status in {Status.NEEDS_REVIEW, Status.AWAITING_APPROVAL}:
        return False
    return not action.counted_attempts or CLASSES[action.request.operation] != "none"
