"""What the config topic says, as it was published: the newest catalogue, decision table and people,
and what is held.

Guarantees to read as the owners of partitions do: what they would refuse changes nothing here. It
is never what a partition has adopted: that stands in its own ledger. Without I/O but for
`read_published`; called by processes at their start, by executors all the time, and by commands.
"""

from dataclasses import dataclass, field
from typing import assert_never

from ledger.core.catalogue import Catalogue, Mistake, adopted_catalogue, parse_catalogue
from ledger.core.holds import Holds, after_order, objection_to, order_hash, parse_order
from ledger.core.ids import ProviderKeyRule
from ledger.core.inputs import Publish
from ledger.core.invariants import invariant
from ledger.core.operation import Operation
from ledger.core.people import NOBODY, People, adopted_people, objection_to_people, parse_people
from ledger.core.policy import AUTOMATIC, Policy, adopted_policy, parse_policy
from ledger.core.timing import Timing
from ledger.log.envelope import read_input
from ledger.log.kafka import KafkaLog
from ledger.log.port import Record
from ledger.log.reading import read_up_to
from ledger.log.topics import Topic

CONFIG_PLACE = (Topic.CONFIG.value, 0)


def read_document(given: Publish) -> Catalogue | Policy | People | tuple[Mistake, ...]:
    """What a published document says, or its mistakes; of one that was judged when it was published
    only what cannot be read. A fault of ours is a mistake too: a document that nobody can read is
    adopted by nobody, and stops nobody.
    """
    text = given.content
    try:
        match given.kind:
            case "policy":
                return adopted_policy(text) if given.checked else parse_policy(text)
            case "people":
                return adopted_people(text) if given.checked else parse_people(text)
            case _:
                return adopted_catalogue(text) if given.checked else parse_catalogue(text)
    except Exception as fault:  # noqa: BLE001 - it is the same for every reader, for ever
        return (Mistake(1, "", f"It could not be read: {type(fault).__name__}."),)


@dataclass(frozen=True, slots=True)
class Terms:
    """What the declaration of an operation puts into a start: the rule for its key at the provider
    and for how long that may be used, how long the call and its lease last; and what undoes it.
    """

    key_rule: ProviderKeyRule
    key_usable_ms: int | None
    connect_ms: int
    response_ms: int
    lease_margin_ms: int
    compensation: str | None


def terms_of(operation: Operation, timing: Timing) -> Terms:
    """The terms of a declaration in a catalogue with this timing."""
    window_ms = operation.key_window_ms
    return Terms(
        key_rule=operation.provider_key,
        key_usable_ms=None if window_ms is None else window_ms - operation.key_margin_ms,
        connect_ms=operation.deadlines.connect_ms,
        response_ms=operation.deadlines.response_ms,
        lease_margin_ms=timing.lease_margin_ms,
        compensation=operation.compensation,
    )


@dataclass(slots=True)
class Published:
    """The config topic up to an offset. `since` of a hold is when it was published; `policies` has
    every decision table that was ever published, by its hash; `terms` all that an operation, by
    name and version, was ever declared with.
    """

    next_offset: int = 0
    catalogue: Catalogue | None = None
    catalogue_offset: int | None = None
    holds: Holds = ()
    policy: Policy = AUTOMATIC
    policy_offset: int | None = None
    people: People = NOBODY
    people_offset: int | None = None
    policies: dict[str, Policy] = field(default_factory=lambda: {AUTOMATIC.content_hash: AUTOMATIC})
    terms: dict[tuple[str, int], tuple[Terms, ...]] = field(default_factory=dict)

    def feed(self, record: Record) -> None:
        """Read the next record; what is no configuration is passed over."""
        invariant(record.offset == self.next_offset, "configuration has no gap")
        self.next_offset = record.offset + 1
        given = read_input(record)
        if not isinstance(given, Publish):
            return
        match given.kind:
            case "catalogue":
                parsed = read_document(given)
                if isinstance(parsed, Catalogue) and parsed.content_hash == given.content_hash:
                    self.take_catalogue(parsed, record.offset)
            case "policy":
                policy = read_document(given)
                if isinstance(policy, Policy) and policy.content_hash == given.content_hash:
                    self.policy, self.policy_offset = policy, record.offset
                    self.policies[policy.content_hash] = policy
            case "people":
                self._feed_people(given, record.offset)
            case "hold" | "release":
                self._feed_order(given, record)
            case _:
                assert_never(given.kind)

    def take_catalogue(self, catalogue: Catalogue, offset: int) -> None:
        """A catalogue was published there; what operations were declared with before is kept."""
        self.catalogue, self.catalogue_offset = catalogue, offset
        for one in catalogue.operations:
            kept = self.terms.get((one.name, one.version), ())
            terms = terms_of(one, catalogue.timing)
            if terms not in kept:
                self.terms[one.name, one.version] = (terms, *kept)

    def _feed_people(self, given: Publish, offset: int) -> None:
        people = read_document(given)
        if not isinstance(people, People) or people.content_hash != given.content_hash:
            return
        if objection_to_people(people, self.people) is None:
            self.people, self.people_offset = people, offset

    def _feed_order(self, given: Publish, record: Record) -> None:
        order = parse_order(given.content)
        if order is None or order_hash(given.content) != given.content_hash:
            return
        if objection_to(given.kind, order, self.holds) is None:
            self.holds = after_order(
                self.holds, given.kind, order, at=record.timestamp, offset=record.offset
            )


async def read_published(log: KafkaLog, *, end: int | None = None) -> Published:
    """The config topic to its end, or to an earlier offset. Raises what a reader raises."""
    published = Published()
    reader = await log.reader({CONFIG_PLACE: 0})
    try:
        ends = await reader.end_offsets([CONFIG_PLACE]) if end is None else {CONFIG_PLACE: end}
        async for records in read_up_to(reader, {CONFIG_PLACE: 0}, ends):
            for record in records:
                if record.offset < ends[CONFIG_PLACE]:
                    published.feed(record)
    finally:
        await reader.close()
    return published
