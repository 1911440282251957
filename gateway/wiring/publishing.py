"""Configuration onto the log: a catalogue is checked, then published, then adopted by its owners.

Guarantees that a text with a mistake is never published, and that publishing what is in force
changes nothing. Called by the set-up step and by the command line.
"""

from importlib.resources import files

from ledger.core.catalogue import Catalogue, Mistake, parse_catalogue
from ledger.core.errors import LedgerError
from ledger.core.inputs import Publish
from ledger.log.envelope import outgoing
from ledger.log.kafka import KafkaLog
from ledger.log.published import read_published
from ledger.log.topics import Topic


class CatalogueRefusedError(LedgerError):
    """The text is no catalogue; `mistakes` has each with its line."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        lines = "\n".join(f"  line {one.line}: {one.message}" for one in mistakes)
        super().__init__(
            f"The catalogue has {len(mistakes)} mistake(s):\n{lines}",
            hint="Correct them; `actionledger catalogue check FILE` tells the same.",
        )
        self.mistakes = mistakes


def default_catalogue() -> str:
    """Charge, refund, email and ticket on the simulated provider: published where there is none."""
    return files("ledger").joinpath("catalogue.toml").read_text(encoding="utf-8")


def checked_catalogue(text: str) -> Catalogue:
    """The catalogue of a text. Raises CatalogueRefusedError."""
    parsed = parse_catalogue(text)
    if isinstance(parsed, Catalogue):
        return parsed
    raise CatalogueRefusedError(parsed)


async def publish_catalogue(log: KafkaLog, text: str) -> tuple[int, bool]:
    """Publish a text unless it is the newest already; its offset on the config topic, and whether
    it was published now.

    Raises CatalogueRefusedError, AppendUnknownError, LogUnreachableError.
    """
    catalogue = checked_catalogue(text)
    published = await read_published(log)
    newest, offset = published.catalogue, published.catalogue_offset
    if newest is not None and offset is not None and newest.content_hash == catalogue.content_hash:
        return offset, False
    record = outgoing(
        Publish(kind="catalogue", content=text, content_hash=catalogue.content_hash),
        stream="catalogue",
        subject=None,
        event_id=catalogue.content_hash,
        source="/actionledger/operator",
    )
    appender = await log.appender()
    try:
        (appended,) = await appender.append(Topic.CONFIG, 0, [record])
    finally:
        await appender.close()
    return appended.offset, True
