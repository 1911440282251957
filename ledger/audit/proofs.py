"""What in a ledger record proves itself, proven again: hashes over what stands beside them, names
that follow from others, and signatures of people.

Guarantees that a record whose content was changed where a hash or a signature covers it is found
from the log alone. What nothing covers, such as a reference that an executor reported, is not. Must
never end a reading: what does not hold is told, and folded all the same. Called by replays.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ledger.core.catalogue import catalogue_hash
from ledger.core.facts import ActionDenied, Fact, IntentRecorded
from ledger.core.facts_of_people import (
    ApprovalGranted,
    ApprovalWithdrawn,
    PreviewRecorded,
    ReviewResolved,
)
from ledger.core.holds import order_hash
from ledger.core.ids import stream_key_of
from ledger.core.people import NOBODY, People, adopted_people, people_hash
from ledger.core.policy import policy_hash
from ledger.core.preview import preview_hash
from ledger.core.records import Adopted, Decision, EpochOpened, LedgerRecord
from ledger.core.request import request_hash
from ledger.core.statement import Resolution, Say, Signed, Statement
from ledger.log.port import Record
from ledger.log.topics import partition_of
from ledger.signing.reading import Read, read_signed

_HASHES: Final[Mapping[str, Callable[[str], str]]] = {
    "catalogue": catalogue_hash,
    "policy": policy_hash,
    "people": people_hash,
    "hold": order_hash,
    "release": order_hash,
}


@dataclass(frozen=True, slots=True)
class Unproven:
    """One thing in a record that does not prove what it should. `action` where it is about one."""

    partition: int
    offset: int
    what: str
    action: str | None = None

    def __str__(self) -> str:
        about = "" if self.action is None else f" of {self.action}"
        return f"ledger {self.partition}:{self.offset}: {self.what}{about}"


def unproven(
    record: Record, read: LedgerRecord, *, partitions: int | None, people: Adopted | None
) -> Iterator[Unproven]:
    """Everything in an accepted record that does not hold. `partitions` is how many there are,
    where that is known, and `people` who might decide in its partition before it.
    """
    for action, what in _unproven(record, read, partitions, people):
        yield Unproven(record.partition, record.offset, what, action)


def _unproven(
    record: Record, read: LedgerRecord, partitions: int | None, people: Adopted | None
) -> Iterator[tuple[str | None, str]]:
    if isinstance(read, EpochOpened):
        for adopted in (read.adopted, read.policy, read.people):
            yield from _adopted(adopted)
    if not isinstance(read, Decision):
        return
    yield from _adopted(read.adopted)
    if read.facts and (record.key or b"") != read.stream.encode():
        yield None, f"the record has another key than its stream {read.stream}"
    if read.facts and partitions:
        home = partition_of(read.stream, partitions)
        if home != record.partition:
            yield None, f"the stream {read.stream} belongs to partition {home}"
    deciding = NOBODY if people is None else _people(people.content)
    for fact in read.facts:
        for what in _of_fact(fact, read.stream, deciding):
            yield fact.action, what


def _adopted(adopted: Adopted | None) -> Iterator[tuple[str | None, str]]:
    if adopted is not None and _HASHES[adopted.kind](adopted.content) != adopted.content_hash:
        yield None, f"the hash of the adopted {adopted.kind} is not that of its text"


def _of_fact(fact: Fact, stream: str, people: People) -> Iterator[str]:
    if stream_key_of(fact.action) != stream:
        yield f"a fact stands in the stream {stream}, which is another's"
    match fact:
        case IntentRecorded():
            if request_hash(fact.request) != fact.request_hash:
                yield "the request hash is not that of the recorded request"
        case PreviewRecorded():
            if preview_hash(fact.content) != fact.preview_hash:
                yield "the preview hash is not that of the recorded preview"
        case ApprovalGranted():
            said = _said(fact.action, fact.person, fact.signed, people)
            told = (Say.APPROVE, fact.nonce, fact.expires_at, fact.comment)
            if not isinstance(said, Statement) or told != (
                (said.decision, said.nonce, said.expires_at, said.comment)
            ):
                yield _NOT_SIGNED.format("approval", fact.person)
        case ApprovalWithdrawn():
            said = _said(fact.action, fact.person, fact.signed, people)
            if not isinstance(said, Statement) or said.decision is not Say.WITHDRAW:
                yield _NOT_SIGNED.format("withdrawal", fact.person)
        case ActionDenied(by="person", person=person, signed=signed):
            said = None if signed is None else _said(fact.action, person, signed, people)
            told_no = (Say.DENY, fact.comment)
            if not isinstance(said, Statement) or told_no != (said.decision, said.comment):
                yield _NOT_SIGNED.format("denial", person)
        case ReviewResolved():
            said = _said(fact.action, fact.person, fact.signed, people)
            settled = (fact.move, fact.case, fact.reference, fact.accepts, fact.comment)
            if not isinstance(said, Resolution) or settled != (
                (said.move, said.case, said.reference, said.accepts, said.comment)
            ):
                yield _NOT_SIGNED.format("resolution", fact.person)
        case _:
            pass


_NOT_SIGNED: Final = "the {} is not what {} signed"


def _said(
    action: str, person: str | None, signed: Signed, people: People
) -> Statement | Resolution | None:
    """What a person signed about an action, by the people in force then; None for anything else."""
    read = read_signed(signed, people)
    if not isinstance(read, Read) or read.person != person or read.statement.key != action:
        return None
    return read.statement


@lru_cache(maxsize=64)
def _people(text: str) -> People:
    parsed = adopted_people(text)
    return parsed if isinstance(parsed, People) else NOBODY
