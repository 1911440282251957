"""Configuration onto the log: a document is checked, then published, then adopted by its owners.

Guarantees that a text with a mistake is never published, that publishing what is in force changes
nothing, and that nobody is told of a document that another one overtook. Called by the set-up step
and by the command line.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final, Literal, assert_never

from ledger.core.catalogue import Catalogue, Mistake, parse_catalogue
from ledger.core.errors import LedgerError
from ledger.core.inputs import Publish
from ledger.core.people import (
    NotReplacing,
    People,
    back_from_revocation,
    objection_to_people,
    parse_people,
)
from ledger.core.policy import Policy, parse_policy
from ledger.log.envelope import outgoing
from ledger.log.kafka import KafkaLog
from ledger.log.published import Published, read_published
from ledger.log.topics import Topic

Kind = Literal["catalogue", "policy", "people"]
Document = Catalogue | Policy | People


class DocumentRefusedError(LedgerError):
    """The text is no such document; `kind` says which, `mistakes` has each with its line."""

    def __init__(self, kind: Kind, mistakes: tuple[Mistake, ...]) -> None:
        lines = "\n".join(f"  {one}" for one in mistakes)
        super().__init__(
            f"The {_CALLED[kind]} has {len(mistakes)} mistake(s):\n{lines}",
            hint=f"Correct them; `actionledger {kind} check FILE` tells the same.",
        )
        self.kind = kind
        self.mistakes = mistakes


class CatalogueRefusedError(DocumentRefusedError):
    """The text is no catalogue."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        super().__init__("catalogue", mistakes)


class OvertakenDocumentError(LedgerError):
    """The document was made from an older one than is in force: somebody else was faster."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(
            f"Somebody else changed the {_CALLED[kind]} in between. Nothing was changed.",
            hint="Begin again with what is in force now.",
        )
        self.kind = kind


class RevokedComesBackError(LedgerError):
    """A document of people in which a revoked person or key, `name`, would be in force again."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} was revoked and has to stay so. Nothing was changed.",
            hint="Write it there too, with `revoked = true`; who comes back gets another key.",
        )
        self.name = name


_CALLED: Final[Mapping[Kind, str]] = {
    "catalogue": "catalogue",
    "policy": "policy",
    "people": "document of people",
}
_PARSERS: Final[Mapping[Kind, Callable[[str], Document | tuple[Mistake, ...]]]] = {
    "catalogue": parse_catalogue,
    "policy": parse_policy,
    "people": parse_people,
}


@dataclass(frozen=True, slots=True)
class InForce:
    """The hash of a document that was published last, and where it stands on the config topic."""

    content_hash: str
    offset: int


def default_catalogue() -> str:
    """Charge, refund, email and ticket on the simulated provider: published where there is none."""
    return _shipped("catalogue.toml")


def default_policy() -> str:
    """Small payments and routine messages go ahead by themselves, people are asked about the rest:
    published where there is none.
    """
    return _shipped("policy.toml")


def _shipped(name: str) -> str:
    return files("ledger").joinpath(name).read_text(encoding="utf-8")


def checked_catalogue(text: str) -> Catalogue:
    """The catalogue of a text. Raises CatalogueRefusedError."""
    parsed = parse_catalogue(text)
    if isinstance(parsed, Catalogue):
        return parsed
    raise CatalogueRefusedError(parsed)


def checked_document(kind: Kind, text: str) -> Document:
    """The document of a text. Raises DocumentRefusedError."""
    if kind == "catalogue":
        return checked_catalogue(text)
    parsed = _PARSERS[kind](text)
    if isinstance(parsed, tuple):
        raise DocumentRefusedError(kind, parsed)
    return parsed


async def publish_catalogue(log: KafkaLog, text: str) -> tuple[int, bool]:
    """See `publish_document`."""
    return await publish_document(log, "catalogue", text)


async def publish_document(log: KafkaLog, kind: Kind, text: str) -> tuple[int, bool]:
    """Publish a text unless it is the newest already; its offset on the config topic, and whether
    it was published now.

    Raises DocumentRefusedError, OvertakenDocumentError and RevokedComesBackError where a document
    of people would undo what was changed, AppendUnknownError, LogUnreachableError.
    """
    document = checked_document(kind, text)
    published = await read_published(log)
    known = in_force(published, kind)
    if known is not None and known.content_hash == document.content_hash:
        return known.offset, False
    if isinstance(document, People):
        _check_replaces(document, published.people)
    record = outgoing(
        Publish(kind=kind, content=text, content_hash=document.content_hash, checked=True),
        stream=kind,
        subject=None,
        event_id=document.content_hash,
        source="/actionledger/operator",
    )
    appender = await log.appender()
    try:
        (appended,) = await appender.append(Topic.CONFIG, 0, [record])
    finally:
        await appender.close()
    if isinstance(document, People):
        await _refuse_if_overtaken(log, appended.offset)
    return appended.offset, True


def _check_replaces(new: People, known: People) -> None:
    match objection_to_people(new, known):
        case None:
            return
        case NotReplacing.REVOKED_COMES_BACK:
            raise RevokedComesBackError(back_from_revocation(new, known) or "")
        case NotReplacing.REPLACES_NOTHING | NotReplacing.REPLACES_ANOTHER:
            raise OvertakenDocumentError("people")


async def _refuse_if_overtaken(log: KafkaLog, offset: int) -> None:
    """Of two that replace the same document at the same moment, the log says which came first."""
    after = in_force(await read_published(log, end=offset + 1), "people")
    if after is None or after.offset != offset:
        raise OvertakenDocumentError("people")


def in_force(published: Published, kind: Kind) -> InForce | None:
    """The newest document of a kind that owners adopt, or None where there was none."""
    document: Document | None
    match kind:
        case "catalogue":
            document, offset = published.catalogue, published.catalogue_offset
        case "policy":
            document, offset = published.policy, published.policy_offset
        case "people":
            document, offset = published.people, published.people_offset
        case _:
            assert_never(kind)
    if document is None or offset is None:
        return None
    return InForce(document.content_hash, offset)
