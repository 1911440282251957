"""What a run leaves behind, as the checker sees it: bytes of the log, lines of books, rows.

Guarantees that nothing here interprets: a record is its offset, the broker's time, its key and its
bytes. A run that was gathered can be written to one file and judged again, elsewhere and later.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

Json = dict[str, Any]
Place = tuple[str, int]
"""A topic by its short name, and a partition."""


@dataclass(frozen=True, slots=True)
class Raw:
    """One record as it stands on the broker."""

    offset: int
    appended_at: int
    key: bytes | None
    value: bytes


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: the law that is broken, where, and in words."""

    law: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.law} {self.where}: {self.what}"


@dataclass(slots=True)
class Run:
    """Everything that the checker looks at, and nothing else.

    `book` and `webhooks_sent` are the provider's own files, `tables` the projections by name,
    `clients` what callers were told and `people` what people were: one line an answer. `secrets`
    are planted, by what they are, and `words` is what the processes wrote to their logs.
    """

    partitions: int
    log: Mapping[Place, Sequence[Raw]]
    book: Sequence[Json] = ()
    webhooks_sent: Sequence[Json] = ()
    tables: Mapping[str, Sequence[Json]] = field(default_factory=dict)
    clients: Sequence[Json] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    people: Sequence[Json] = ()

    def records(self, topic: str, partition: int) -> Sequence[Raw]:
        """A partition of a topic, from its first record on."""
        return self.log.get((topic, partition), ())

    def save(self, path: Path) -> None:
        """Write it to one file."""
        log = [
            [topic, partition, [_packed(raw) for raw in records]]
            for (topic, partition), records in self.log.items()
        ]
        whole = {
            "partitions": self.partitions,
            "log": log,
            "book": list(self.book),
            "webhooks_sent": list(self.webhooks_sent),
            "tables": {name: list(rows) for name, rows in self.tables.items()},
            "clients": list(self.clients),
            "secrets": dict(self.secrets),
            "words": dict(self.words),
            "people": list(self.people),
        }
        path.write_bytes(orjson.dumps(whole))

    @staticmethod
    def load(path: Path) -> "Run":
        """Read what `save` wrote."""
        whole = orjson.loads(path.read_bytes())
        whole["log"] = {
            (topic, partition): [_unpacked(packed) for packed in records]
            for topic, partition, records in whole["log"]
        }
        return Run(**whole)


def _packed(raw: Raw) -> list[Any]:
    key = None if raw.key is None else base64.b64encode(raw.key).decode()
    return [raw.offset, raw.appended_at, key, base64.b64encode(raw.value).decode()]


def _unpacked(packed: list[Any]) -> Raw:
    offset, appended_at, key, value = packed
    raw_key = None if key is None else base64.b64decode(key)
    return Raw(offset, appended_at, raw_key, base64.b64decode(value))


def event_of(raw: Raw) -> tuple[str, Json]:
    """Type and data of an event, or two empty ones where the bytes are none."""
    try:
        event = orjson.loads(raw.value)
    except orjson.JSONDecodeError:
        return "", {}
    if not isinstance(event, dict) or not isinstance(event.get("data"), dict):
        return "", {}
    return str(event.get("type", "")), event["data"]
