"""Evidence: what a webhook or a lookup says about an action, in the words of the ledger's topic
`evidence`.

Guarantees that one source counts once: every piece bears an id of its source that follows from the
source alone, so a webhook delivered five times, or a lookup answered again after a crash, is the
same piece. The record's own id keeps where it came from. Must never soften what was found, nor say
what the ledger should make of it. Called by the webhook agent and the inquirer.
"""

import hashlib
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, assert_never

from ledger.core.facts import LookupStarted
from ledger.core.ids import stream_key_of
from ledger.core.inputs import Evidence, EvidenceKind, Meaning, PreviewRead
from ledger.core.limits import INTEGER_MAX
from ledger.log.envelope import outgoing
from ledger.log.port import Outgoing
from ledger.log.topics import Topic, partition_of
from ledger.log.webhook_record import WebhookSource
from reconciler.limits import FURTHER_REFERENCES_MAX, SOURCE_PART_CHARS_MAX
from reconciler.matching import Matched
from reconciler.providers.port import Absent, Found, Inconclusive, Lookup, MappedWebhook
from reconciler.repeats import fact_of

SOURCE: Final = "/actionledger/reconciler"

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


def webhook_source_id(provider: str, account: str, named: str) -> str:
    """The id of a webhook as a source, whatever the delivery: `named` by what it says happened,
    else by the provider's own id of the event.
    """
    return f"webhook:{_part(provider)}:{_part(account)}:{_part(named)}"


def lookup_source_id(key: str, lookup: int) -> str:
    """The id of an answered lookup as a source."""
    return f"lookup:{key}:{lookup}"


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


def webhook_evidence(matched: Matched, mapped: MappedWebhook, receipt: Receipt) -> Evidence:
    """What a matched webhook says, as evidence from the account that verified it."""
    return Evidence(
        key=matched.action_key,
        kind=KIND_OF_SOURCE[receipt.source],
        source_id=webhook_source_id(
            receipt.provider,
            receipt.account,
            fact_of(mapped, receipt.source) or mapped.event_id,
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


def lookup_evidence(started: LookupStarted, answer: Lookup) -> tuple[Evidence, ...]:
    """What a lookup found out, as evidence that names the lookup.

    More than one effect under one key gives one piece each: the first settles the action, each
    further one is the ledger's proof that the act happened again.
    """
    source_id = lookup_source_id(started.action, started.lookup)
    match answer:
        case Found(reference=reference, money=money, further_references=further):
            first = _answer(started, source_id, Meaning.EFFECT, reference=reference).model_copy(
                update={"money": money}
            )
            others = (
                _answer(
                    started,
                    f"{source_id}:{_part(other)}",
                    Meaning.EFFECT,
                    reference=other,
                    code="further_effect",
                )
                for other in further[:FURTHER_REFERENCES_MAX]
            )
            return (first, *others)
        case Absent():
            return (_answer(started, source_id, Meaning.ABSENT),)
        case Inconclusive(code=code):
            return (_answer(started, source_id, Meaning.INCONCLUSIVE, code=code),)
        case _:
            assert_never(answer)


def _answer(
    started: LookupStarted,
    source_id: str,
    meaning: Meaning,
    *,
    reference: str | None = None,
    code: str | None = None,
) -> Evidence:
    return Evidence(
        key=started.action,
        kind=EvidenceKind.LOOKUP,
        source_id=source_id,
        provider=started.provider,
        account=started.account,
        meaning=meaning,
        lookup=started.lookup,
        reference=reference,
        code=code,
    )


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
