"""The operation catalogue: what the ledger may be asked to do, read from TOML.

Guarantees that a catalogue is either whole or refused with every mistake on its line, in a
sentence. Must never repair or ignore anything. The text itself is what is published and hashed;
readers of the log parse the same text to the same catalogue.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from ledger.core.contradictions import contradictions, contradictions_with_timing
from ledger.core.limits import CATALOGUE_BYTES_MAX, CATALOGUE_OPERATIONS_MAX
from ledger.core.mistakes import Document, Found, Mistake, complaints, dotted, read_toml
from ledger.core.operation import Deadlines, Level, Operation, Reliability, Retries, Risk, Target
from ledger.core.parameters import Parameter, Problem, ProblemCode
from ledger.core.timing import Timing
from ledger.core.toml_lines import TomlPath

__all__ = [
    "Catalogue",
    "Deadlines",
    "Level",
    "Mistake",
    "Operation",
    "Parameter",
    "Problem",
    "ProblemCode",
    "Reliability",
    "Retries",
    "Risk",
    "Target",
    "Timing",
    "adopted_catalogue",
    "catalogue_hash",
    "dotted",
    "parse_catalogue",
]

_HASH_DOMAIN: Final = "actionledger.catalogue.v1\n"
_TABLES: Final = "operation"
_TIMING: Final = "timing"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The operations of one catalogue text, in its order, and the hash of that text."""

    operations: tuple[Operation, ...]
    content_hash: str
    timing: Timing = field(default_factory=Timing)
    _by_name: dict[tuple[str, int], Operation] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name = {(one.name, one.version): one for one in self.operations}
        object.__setattr__(self, "_by_name", by_name)

    def operation(self, name: str, version: int) -> Operation | None:
        """The declaration of an operation and version, or None."""
        return self._by_name.get((name, version))


def catalogue_hash(text: str) -> str:
    """`sha256:` and the hex digest of the domain and the catalogue's text, comments included."""
    return f"sha256:{hashlib.sha256((_HASH_DOMAIN + text).encode()).hexdigest()}"


def parse_catalogue(text: str) -> Catalogue | tuple[Mistake, ...]:
    """The catalogue of a TOML text, or its mistakes in the order of their lines, at most
    MISTAKES_MAX.
    """
    return _catalogue(text, is_adopted=False)


def adopted_catalogue(text: str) -> Catalogue | tuple[Mistake, ...]:
    """The catalogue of a text that a partition has adopted; see `adopted_policy`."""
    return _catalogue(text, is_adopted=True)


def _catalogue(text: str, *, is_adopted: bool) -> Catalogue | tuple[Mistake, ...]:
    document = read_toml(text, "catalogue", bytes_max=CATALOGUE_BYTES_MAX)
    if not isinstance(document, Document):
        return document
    timing, timing_found = _timing(document.content)
    operations, found = _operations(document.content)
    found += timing_found
    if not is_adopted:
        found += _contradictions(operations, timing, document.content.get(_TABLES))
    if found:
        return document.mistakes(found)
    return Catalogue(tuple(one for _, one in operations), catalogue_hash(text), timing)


def _timing(document: dict[str, Any]) -> tuple[Timing, list[Found]]:
    try:
        return Timing.model_validate(document.get(_TIMING, {})), []
    except ValidationError as refused:
        return Timing(), list(complaints(refused, Timing, at=(_TIMING,)))


_Operations = list[tuple[int, Operation]]
"""Operations that could be read, with the numbers of their tables."""


def _operations(document: dict[str, Any]) -> tuple[_Operations, list[Found]]:
    found: list[Found] = [
        ((name,), f"is not a known key here; write [[{_TABLES}]] for each operation")
        for name in document
        if name not in {_TABLES, _TIMING}
    ]
    tables = document.get(_TABLES)
    if not isinstance(tables, list) or not tables:
        return [], [*found, ((_TABLES,), f"must be given: one [[{_TABLES}]] or more")]
    if len(tables) > CATALOGUE_OPERATIONS_MAX:
        return [], [*found, ((_TABLES,), f"has more than {CATALOGUE_OPERATIONS_MAX} entries")]
    operations: _Operations = []
    for index, table in enumerate(tables):
        try:
            operations.append((index, Operation.model_validate(table)))
        except ValidationError as refused:
            found += complaints(refused, Operation, at=(_TABLES, index))
    return operations, found


def _contradictions(operations: _Operations, timing: Timing, tables: object) -> Iterator[Found]:
    """What is well-formed and cannot be meant."""
    for index, operation in operations:
        found = (*contradictions(operation), *contradictions_with_timing(operation, timing))
        for path, said in found:
            yield (_TABLES, index, *path), said
    for index, path, said in _between(operations, tables):
        yield (_TABLES, index, *path), said


def _between(operations: _Operations, tables: object) -> Iterator[tuple[int, TomlPath, str]]:
    """What is wrong between operations: one declared twice, a compensation that is not declared."""
    # Names as written, so that a compensation with a mistake of its own is not called missing.
    tables = tables if isinstance(tables, list) else []
    written = [table.get("name") for table in tables if isinstance(table, dict)]
    names = {name for name in written if isinstance(name, str)}
    seen: set[tuple[str, int]] = set()
    for index, operation in operations:
        identity = (operation.name, operation.version)
        if identity in seen:
            yield index, ("name",), f"{operation.name} v{operation.version} is declared twice"
        seen.add(identity)
        if operation.compensation is not None and operation.compensation not in names:
            yield (
                index,
                ("compensation",),
                f"names {operation.compensation}, which this catalogue does not declare",
            )
