"""The operation catalogue: what the ledger may be asked to do, read from TOML.

Guarantees that a catalogue is either whole or refused with every mistake on its line, in a
sentence. Must never repair or ignore anything. The text itself is what is published and hashed;
readers of the log parse the same text to the same catalogue.
"""

import hashlib
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ledger.core.contradictions import contradictions, contradictions_with_timing
from ledger.core.excerpt import excerpt
from ledger.core.ids import ProviderKeyRule
from ledger.core.limits import CATALOGUE_BYTES_MAX, CATALOGUE_OPERATIONS_MAX, MISTAKES_MAX
from ledger.core.operation import Deadlines, Level, Operation, Reliability, Retries, Risk, Target
from ledger.core.parameters import Parameter, Problem, ProblemCode
from ledger.core.timing import Timing
from ledger.core.toml_lines import TomlPath, line_of, lines_of

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
    "catalogue_hash",
    "parse_catalogue",
]

_HASH_DOMAIN: Final = "actionledger.catalogue.v1\n"
_TABLES: Final = "operation"
_TIMING: Final = "timing"
_SYNTAX_LINE: Final = re.compile(r"\(at line (\d+), column \d+\)")


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong in a catalogue: its line from 1, its dotted path, a sentence."""

    line: int
    path: str
    message: str

    def __str__(self) -> str:
        place = f"{self.path} " if self.path else ""
        return f"line {self.line}: {place}{self.message}"


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
    # Counted first in characters: at least as many bytes, and no work for what is far too long.
    if len(text) > CATALOGUE_BYTES_MAX or _bytes(text) > CATALOGUE_BYTES_MAX:
        said = f"The catalogue has more than {CATALOGUE_BYTES_MAX} bytes."
        return (Mistake(1, "", said),)
    try:
        document = tomllib.loads(text)
        lines = lines_of(text)
        content_hash = catalogue_hash(text)
    except tomllib.TOMLDecodeError as error:
        return (_syntax_mistake(text, str(error)),)
    except (RecursionError, ValueError):
        return (Mistake(1, "", "A value is nested too deeply, too long, or not Unicode text."),)
    timing, timing_found = _timing(document)
    operations, found = _operations(document, timing)
    found += timing_found
    if found:
        mistakes = (Mistake(line_of(lines, path), dotted(path), message) for path, message in found)
        return tuple(sorted(mistakes, key=lambda mistake: mistake.line)[:MISTAKES_MAX])
    return Catalogue(operations, content_hash, timing)


_Found = tuple[TomlPath, str]


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _timing(document: dict[str, Any]) -> tuple[Timing, list[_Found]]:
    try:
        return Timing.model_validate(document.get(_TIMING, {})), []
    except ValidationError as refused:
        said = map(_in_words, refused.errors(include_url=False))
        return Timing(), [((_TIMING, *path), message) for path, message in said]


def _operations(
    document: dict[str, Any], timing: Timing
) -> tuple[tuple[Operation, ...], list[_Found]]:
    found: list[_Found] = [
        ((name,), f"is not a known key here; write [[{_TABLES}]] for each operation")
        for name in document
        if name not in {_TABLES, _TIMING}
    ]
    tables = document.get(_TABLES)
    if not isinstance(tables, list) or not tables:
        return (), [*found, ((_TABLES,), f"must be given: one [[{_TABLES}]] or more")]
    if len(tables) > CATALOGUE_OPERATIONS_MAX:
        return (), [*found, ((_TABLES,), f"has more than {CATALOGUE_OPERATIONS_MAX} entries")]
    operations: list[Operation] = []
    places: list[int] = []
    for index, table in enumerate(tables):
        try:
            operation = Operation.model_validate(table)
        except ValidationError as refused:
            errors = refused.errors(include_url=False)
            found += [((_TABLES, index, *path), said) for path, said in map(_in_words, errors)]
        else:
            operations.append(operation)
            places.append(index)
    found += [
        ((_TABLES, place, *path), said)
        for place, operation in zip(places, operations, strict=True)
        for path, said in (
            *contradictions(operation),
            *contradictions_with_timing(operation, timing),
        )
    ]
    found += [
        ((_TABLES, places[index], *path), said)
        for index, path, said in _between(operations, tables)
    ]
    return tuple(operations), found


def _between(operations: list[Operation], tables: list[Any]) -> Iterator[tuple[int, TomlPath, str]]:
    """What is wrong between operations: one declared twice, a compensation that is not declared."""
    # Names as written, so that a compensation with a mistake of its own is not called missing.
    names = {table.get("name") for table in tables if isinstance(table, dict)}
    seen: set[tuple[str, int]] = set()
    for index, operation in enumerate(operations):
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


_MODELS: Final[dict[str, type[BaseModel]]] = {
    "target": Target,
    "risk": Risk,
    "deadlines": Deadlines,
    "retries": Retries,
    "provider_key": ProviderKeyRule,
}
_SENTENCES: Final = {
    "missing": "is missing",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "string_type": "must be a string",
    "tuple_type": "must be a list",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "string_too_long": "must have at most {max_length} characters",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
}
_QUOTES_VALUE: Final = frozenset({"int_type", "bool_type", "string_type", "literal_error", "enum"})


def _in_words(error: ErrorDetails) -> _Found:
    """A model's complaint as a path and a sentence."""
    path = tuple(part for part in error["loc"] if part != "[key]")
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return path, f"is not a known key here{_meant(path)}"
    sentence = _SENTENCES.get(kind)
    if sentence is None:
        return path, error["msg"].removeprefix("Value error, ")
    said = sentence.format_map(context)
    if kind in _QUOTES_VALUE:
        said = f"{said}, not {excerpt(repr(error['input']), chars_max=60)}"
    return path, said


def _meant(path: TomlPath) -> str:
    """The known key that an unknown one looks like, as the end of a sentence."""
    match path:
        case (_,):
            model: type[BaseModel] = Operation
        case ("parameters", _, _):
            model = Parameter
        case (str(table), _) if table in _MODELS:
            model = _MODELS[table]
        case _:
            return ""
    close = get_close_matches(str(path[-1]), model.model_fields, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _syntax_mistake(text: str, said: str) -> Mistake:
    """A text that is no TOML: the reader's own words, its position as the line."""
    match = _SYNTAX_LINE.search(said)
    line = int(match[1]) if match else text.count("\n") + 1
    words = said[: match.start()].strip() if match else said.removesuffix(" (at end of document)")
    return Mistake(line, "", f"This is not TOML: {excerpt(words)}.")


def dotted(path: TomlPath) -> str:
    """A path as it is written in TOML: `operation[0].deadlines.step_ms`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{excerpt(part, chars_max=60)}"
    return text.removeprefix(".")
