"""Evidence: what a webhook or a lookup says about an action, in the words of the ledger's topic
`evidence`.

Guarantees that one source counts once: every piece bears an id of its source that follows from the
source alone, so a webhook delivered five times, or a lookup answered again after a crash, is the
same piece. The record's own id keeps where it came from. An adapter's answer to a question that
does not fit the log is an answer too: that it could not be told. Must never soften what was found,
nor say what the ledger should make of it. Called by the webhook agent and the inquirer.
"""

import hashlib
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeVar, assert_never

from ledger.core.facts import LookupStarted, PreviewStarted
from ledger.core.ids import stream_key_of
from ledger.core.inputs import Evidence, EvidenceKind, Meaning, PreviewRead
from ledger.core.limits import DURATION_MS_MAX, INTEGER_MAX
from ledger.core.money import Money
from ledger.core.preview import Foreseen
from ledger.log.envelope import Unreadable, outgoing, read_input
from ledger.log.port import Outgoing, Record
from ledger.log.topics import Topic, partition_of
from ledger.log.webhook_record import WebhookSource
from reconciler.limits import FURTHER_REFERENCES_MAX, SOURCE_PART_CHARS_MAX
from reconciler.matching import Matched, MatchedBy
from reconciler.providers.port import (
    Absent,
    Found,
    Inconclusive,
    Lookup,
    MappedWebhook,
    Unforeseen,
    Unrecognised,
)
from reconciler.repeats import fact_of

SOURCE: Final = "/actionledger/reconciler"

UNREPORTABLE: Final = "unreportable_answer"
"""What is told of an answer for which the log has no words."""

WebhookKind: TypeAlias = Literal[
    EvidenceKind.WEBHOOK, EvidenceKind.SETTLEMENT, EvidenceKind.LISTING
]


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where a webhook stands on its topic, who verified what, and how it came."""

    provider: str
    account: str
    partition: int
    offset: int
    sha256: str
    source: WebhookSource = "webhook"


@dataclass(frozen=True, slots=True)
class Placed:
    """An input with the partition of the stream it concerns."""

    partition: int
    record: Outgoing


KIND_OF_SOURCE: Final[dict[WebhookSource, WebhookKind]] = {
    "webhook": EvidenceKind.WEBHOOK,
    "pulled": EvidenceKind.WEBHOOK,
    "settlement": EvidenceKind.SETTLEMENT,
    "listing": EvidenceKind.LISTING,
    # A note is no evidence: it matches nothing.
    "note": EvidenceKind.WEBHOOK,
}
"""What kind of evidence a record of the topic `webhooks` is, by the way it came."""


_ANYBODY: Final = Matched("charge:v1:tenant:event", MatchedBy.METADATA)
_ANYWHERE: Final = Receipt("provider", "account", partition=0, offset=0, sha256="")


def webhook_source_id(provider: str, account: str, named: str) -> str:
    """The id of a webhook as a source, whatever the delivery: `named` by what it says happened,
    else by the provider's own id of the event.
    """
    return f"webhook:{_part(provider)}:{_part(account)}:{_part(named)}"


def lookup_source_id(key: str, lookup: int, reference: str | None = None) -> str:
    """The id of an answered lookup as a source; of each effect that it found an id of its own, so
    that whoever puts the same question again and finds it is heard behind who did not.
    """
    named = "" if reference is None else f":{_part(reference)}"
    return f"lookup:{key}:{lookup}{named}"


def meaning_of(mapped: MappedWebhook) -> Meaning:
    """What a webhook says about the effect. Only a final word is one."""
    if mapped.meaning != "final":
        return Meaning.PENDING
    match mapped.effect:
        case "exists":
            return Meaning.EFFECT
        case "none":
            return Meaning.NO_EFFECT
        case "reversed":
            return Meaning.REVERSED
        case "pending" | "unlisted":
            return Meaning.PENDING
        case _:
            assert_never(mapped.effect)


def webhook_evidence(
    matched: Matched,
    mapped: MappedWebhook,
    receipt: Receipt,
    *,
    event_id: str | None = None,
    fact: str | None = None,
) -> Evidence:
    """What a matched webhook says, as evidence from the account that verified it. `event_id` is
    what it is known by where that is not its event's own id, `fact` what `fact_of` says of it for
    who has asked already.
    """
    return Evidence(
        key=matched.action_key,
        kind=KIND_OF_SOURCE[receipt.source],
        source_id=webhook_source_id(
            receipt.provider,
            receipt.account,
            fact or fact_of(mapped, receipt.source) or event_id or mapped.event_id,
        ),
        provider=receipt.provider,
        account=receipt.account,
        meaning=meaning_of(mapped),
        reference=mapped.reference,
        money=mapped.money,
        code=mapped.event_type,
        raw_sha256=receipt.sha256,
        occurred_at=mapped.occurred_at if 0 < mapped.occurred_at <= INTEGER_MAX else None,
        reverses=mapped.reverses,
    )


def reportable(started: LookupStarted, answer: Lookup) -> Lookup:
    """The answer of a finder where the log can hold it, else that it said nothing. Never raises,
    whatever an adapter returned.
    """
    try:
        _pieces(started, answer)
    except Exception:  # noqa: BLE001 - no adapter may end the questions of all the others
        return Inconclusive(UNREPORTABLE)
    return answer


def tellable(mapped: MappedWebhook | Unrecognised) -> MappedWebhook | Unrecognised:
    """What a mapping says where the log can hold it as evidence of whatever action; else that it
    put no meaning to the webhook. Never raises, whatever an adapter returned.
    """
    if isinstance(mapped, Unrecognised):
        return mapped
    try:
        webhook_evidence(_ANYBODY, mapped, _ANYWHERE)
    except Exception:  # noqa: BLE001 - what is parked is told later, where nobody looks at it
        return Unrecognised(UNREPORTABLE)
    return mapped


def lookup_evidence(started: LookupStarted, answer: Lookup) -> tuple[Evidence, ...]:
    """What a lookup found out, as evidence that names the lookup.

    More than one effect under one key gives one piece each: the first settles the action, each
    further one is the ledger's proof that the act happened again.
    """
    return _pieces(started, reportable(started, answer))


def _pieces(started: LookupStarted, answer: Lookup) -> tuple[Evidence, ...]:
    """As `lookup_evidence`; raises what there is to raise where the log cannot hold the answer."""
    match answer:
        case Found(reference=str(reference), money=money, further_references=further):
            others = (
                _answer(started, Meaning.EFFECT, reference=other, code="further_effect")
                for other in further[:FURTHER_REFERENCES_MAX]
            )
            first = _answer(started, Meaning.EFFECT, reference=reference, money=money)
            return (first, *others)
        case Absent(searched_until_at=int() | None):
            return (_answer(started, Meaning.ABSENT),)
        case Inconclusive(code=str(code), retry_after_ms=int() | None as wait_ms):
            if not 0 <= (wait_ms or 0) <= DURATION_MS_MAX:
                raise ValueError("no time to wait")
            return (_answer(started, Meaning.INCONCLUSIVE, code=code),)
        case _:
            raise ValueError("no answer")


def _answer(
    started: LookupStarted,
    meaning: Meaning,
    *,
    reference: str | None = None,
    money: Money | None = None,
    code: str | None = None,
) -> Evidence:
    return _legible(
        Evidence(
            key=started.action,
            kind=EvidenceKind.LOOKUP,
            source_id=lookup_source_id(started.action, started.lookup, reference),
            provider=started.provider,
            account=started.account,
            meaning=meaning,
            lookup=started.lookup,
            reference=reference,
            money=money,
            code=code,
        )
    )


def preview_read(started: PreviewStarted, seen: Foreseen | Unforeseen) -> PreviewRead:
    """What a previewer said, or that it said nothing the log can hold. Never raises, whatever an
    adapter returned.
    """
    try:
        return _legible(_read(started, seen))
    except Exception:  # noqa: BLE001 - as above
        return _read(started, Unforeseen(UNREPORTABLE))


def _read(started: PreviewStarted, seen: Foreseen | Unforeseen) -> PreviewRead:
    if not isinstance(seen, Foreseen) and not isinstance(seen.code, str):
        raise ValueError("no answer")  # noqa: TRY004 - as for lookups
    return PreviewRead(
        key=started.action,
        preview=started.preview,
        provider=started.provider,
        account=started.account,
        foreseen=seen if isinstance(seen, Foreseen) else None,
        code=None if isinstance(seen, Foreseen) else seen.code,
    )


_Said = TypeVar("_Said", Evidence, PreviewRead)


def _legible(said: _Said) -> _Said:
    """The same, once the door of its topic can read it. Raises ValueError where it could not."""
    sent = outgoing(said, stream="", subject=said.key, event_id="", source=SOURCE)
    read = read_input(Record(Topic.EVIDENCE, 0, 0, 0, sent.key, sent.value, sent.headers))
    if isinstance(read, Unreadable):
        raise ValueError(read.reason)  # noqa: TRY004 - of what it says, not of its type
    return said


def webhook_record(evidence: Evidence, receipt: Receipt, partitions: int) -> Placed:
    """Evidence of a webhook for the topic; the record's id says where the webhook stands."""
    event_id = f"{Topic.WEBHOOKS}/{receipt.partition}/{receipt.offset}"
    return _placed(evidence, event_id, partitions)


def lookup_record(evidence: Evidence, partitions: int) -> Placed:
    """Evidence of a lookup for the topic; its source is all there is to it."""
    return _placed(evidence, evidence.source_id, partitions)


def preview_record(read: PreviewRead, partitions: int) -> Placed:
    """What a provider said of a preview, for the topic: each preview is answered once."""
    return _placed(read, f"preview:{read.key}:{read.preview}", partitions)


def _placed(said: Evidence | PreviewRead, event_id: str, partitions: int) -> Placed:
    stream = stream_key_of(said.key)
    record = outgoing(said, stream=stream, subject=said.key, event_id=event_id, source=SOURCE)
    return Placed(partition_of(stream, partitions), record)


def _part(text: str) -> str:
    """A part of a source id: as it is where it is short and cannot be mistaken, else its hash."""
    if len(text) <= SOURCE_PART_CHARS_MAX and ":" not in text and text.isprintable():
        return text
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
