"""The streams that the owner of a partition holds in memory, bounded, and what it knows of those
that it does not hold.

A stream may be let go once the projection has passed the last decision about it; when it is needed
again it is read back from the projection. What the database says counts only if it has passed every
decision about what is not held (`cold_floor`), so that "no row" means "new" and never "not
projected yet". A filter of all keys that the projection has spares that question for most new keys,
once it is filled: the keys of streams that are let go later are added to it, and nobody else
writes. A stream whose rows lie is left out: decisions about it are passed over, and it is taken in
once its row has all of them. Without I/O; called by the owner of a partition.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ledger.core.invariants import invariant
from ledger.core.snapshot import dump
from ledger.core.state import Stream
from ledger.log.sizes import Sizes
from projections.fold import Held
from projections.states import ColdStreams
from streams.key_filter import KeyFilter
from streams.limits import STREAMS_HELD_BYTES_MAX


class StreamMemory:
    """Streams by key, the longest unused first. `held_max` and `held_bytes_max` may be passed only
    by streams that the projection does not have yet, or that are pinned.
    """

    def __init__(self, held_max: int, held_bytes_max: int = STREAMS_HELD_BYTES_MAX) -> None:
        self.held_max = held_max
        self.held_bytes_max = held_bytes_max
        self._held: OrderedDict[str, Held] = OrderedDict()
        self._sizes = Sizes()
        self._new: set[str] = set()
        """Keys that are known to have no stream yet, for the length of one round."""
        self._left_out: dict[str, int] = {}
        """Streams with damaged rows, and how far a row must go that says how they stand."""
        self.cold_floor = -1
        """The highest ledger offset of a decision about anything not held; -1: all is held."""
        self.projected_offset = 0
        """How far the projection is known to have come."""
        self._filter: KeyFilter | None = None
        self._is_filled = False
        self._filter_floor = -1
        """`cold_floor` when the filter was begun: keys from before the projection had passed it may
        be missing.
        """

    def begin_at(self, offset: int) -> None:
        """Nothing below this ledger offset is held."""
        self.cold_floor = offset - 1
        self.projected_offset = offset

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Stream]:
        return (held.stream for held in self._held.values())

    def get(self, key: str) -> Stream | None:
        """The stream, if it is held."""
        held = self._held.get(key)
        return None if held is None else held.stream

    def folded_to(self, key: str) -> int:
        """The ledger offset below which every decision about a held stream is in it."""
        held = self._held.get(key)
        return 0 if held is None else held.next_offset

    def knows(self, key: str) -> bool:
        """Whether the stream is held, or is known to be new."""
        if key in self._left_out:
            return False
        return (
            self.cold_floor < 0
            or key in self._held
            or key in self._new
            or self._is_filtered_out(key)
        )

    def leave_out(self, keys: Iterable[str]) -> None:
        """Nothing says how these streams stand: fold what comes without them. One that has been
        taken in since the database was asked stands as it is held.
        """
        for key in keys:
            if key not in self._held:
                self._left_out.setdefault(key, 0)

    def is_left_out(self, key: str) -> bool:
        """Whether decisions about the stream are passed over."""
        return key in self._left_out

    def pass_over(self, key: str, next_offset: int) -> None:
        """A decision about a stream that is left out: its row must have it before it counts."""
        self._left_out[key] = next_offset

    def _is_filtered_out(self, key: str) -> bool:
        """Whether the filter says that the key is new; then it stays known for this round."""
        if self._filter is None or not self._is_filled or self._filter.may_have(key):
            return False
        self._new.add(key)
        return True

    def stream(self, key: str) -> Stream:
        """The stream as it is, empty where it is new; it must be known."""
        held = self._held.get(key)
        if held is not None:
            return held.stream
        invariant(self.knows(key), "a stream is used before it was loaded")
        return Stream(key)

    def put(self, stream: Stream, next_offset: int, size_bytes: int = 0) -> None:
        """Hold a stream as it is after a decision of so many bytes; it is now the one used last."""
        self._held[stream.key] = Held(stream, next_offset)
        self._held.move_to_end(stream.key)
        self._sizes.add(stream.key, size_bytes, lambda: len(dump(stream)))
        self._new.discard(stream.key)

    def take_in(self, keys: Sequence[str], cold: ColdStreams) -> Mapping[str, Stream] | None:
        """Hold the streams of `keys` that the database has; those that came, in their order. None
        where the database has not passed `cold_floor`: then it proves nothing, and is asked again.
        A stream with damaged rows is not taken in, and does not count as new; nor does one that is
        left out, until its row has every decision that was passed over.
        """
        self.projected(cold.projected_offset)
        if cold.projected_offset <= self.cold_floor:
            return None
        came: dict[str, Stream] = {}
        for key in keys:
            if key in self._held or key in cold.damaged:
                continue
            held = cold.streams.get(key)
            if key in self._left_out:
                if held is None or held.next_offset < self._left_out[key]:
                    continue
                del self._left_out[key]
            if held is None:
                self._new.add(key)
            else:
                self._held[key] = held
                self._sizes.add(key, len(dump(held.stream)))
                came[key] = held.stream
        return came

    def forget_new(self) -> None:
        """Forget which keys were new, so that their number is bounded: one of which nothing came is
        asked for again.
        """
        self._new.clear()

    def projected(self, offset: int) -> None:
        """The projection of the partition has come this far."""
        self.projected_offset = max(self.projected_offset, offset)

    @property
    def wants_filter(self) -> bool:
        """Whether something is not held and no filter knows which keys that may be."""
        return self.cold_floor >= 0 and self._filter is None

    def begin_filter(self, size_bytes: int) -> None:
        """Let a filter be filled: `fill` comes for every stream that the projection has, from a
        question that is asked after this, and then `filled`.
        """
        self._filter = KeyFilter(size_bytes)
        self._is_filled = False
        self._filter_floor = self.cold_floor

    def fill(self, keys: Collection[str], projected_offset: int) -> bool:
        """Add keys that the database had when it had come as far as this. False where that is not
        past what was not held, so that other keys may be missing: the filter is given up.
        """
        self.projected(projected_offset)
        if self._filter is None or projected_offset <= self._filter_floor:
            self._filter = None
            return False
        for key in keys:
            self._filter.add(key)
        return True

    def filled(self) -> None:
        """Every key that is not held has been added: what is not in it is new."""
        self._is_filled = self._filter is not None

    @property
    def is_over(self) -> bool:
        """Whether more is held than there should be."""
        return len(self._held) > self.held_max or self._sizes.total_bytes > self.held_bytes_max

    def let_go(self, pinned: Collection[str]) -> list[Stream]:
        """Let go of what has been unused for longest until the bound is kept, or until the next one
        is pinned or not projected yet.
        """
        gone: list[Stream] = []
        while self._held and self.is_over:
            key, held = next(iter(self._held.items()))
            if key in pinned or held.next_offset > self.projected_offset:
                break
            del self._held[key]
            self._sizes.drop(key)
            self.cold_floor = max(self.cold_floor, held.next_offset - 1)
            if self._filter is not None:
                self._filter.add(key)
            gone.append(held.stream)
        return gone
