"""What is wrong in a TOML document that an operator wrote: each mistake with its line, its path and
a sentence.

Guarantees that the same text has the same mistakes in the order of their lines, at most
MISTAKES_MAX, and that no sentence holds a character that cannot be seen. Must never repair
anything. Called by whatever reads a document that is adopted as a whole: the catalogue, the policy,
the people.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ledger.core.excerpt import excerpt
from ledger.core.limits import MISTAKES_MAX
from ledger.core.money import Currency
from ledger.core.toml_lines import TomlPath, line_of, lines_of

Found = tuple[TomlPath, str]
"""A place, and a sentence that reads on from its path: `is missing`."""

_SYNTAX_LINE: Final = re.compile(r"\(at line (\d+), column \d+\)")
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
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
}
_OF_KEY: Final = "[key]"
_OF_SECRET: Final = re.compile("(?i)secret|password|credential|api_?key|token")
_QUOTES_VALUE: Final = frozenset({"int_type", "bool_type", "string_type", "literal_error", "enum"})


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong in a document: its line from 1, its dotted path, a sentence."""

    line: int
    path: str
    message: str

    def __str__(self) -> str:
        place = f"{self.path} " if self.path else ""
        return f"line {self.line}: {place}{self.message}"


@dataclass(frozen=True, slots=True)
class Document:
    """A text that is TOML: what it says, and on which line."""

    content: dict[str, Any]
    lines: dict[TomlPath, int]

    def mistakes(self, found: Iterable[Found]) -> tuple[Mistake, ...]:
        """What was found, each on its line and in the order of lines, at most MISTAKES_MAX; then
        the last one says how many more there are.
        """
        placed = (Mistake(line_of(self.lines, path), dotted(path), said) for path, said in found)
        told = sorted(placed, key=lambda mistake: mistake.line)
        more = len(told) - MISTAKES_MAX
        if more > 0:
            line = told[MISTAKES_MAX - 1].line
            told[MISTAKES_MAX - 1 :] = [Mistake(line, "", f"And {more + 1} more from here on.")]
        return tuple(told)


def read_toml(text: str, called: str, *, bytes_max: int) -> Document | tuple[Mistake, ...]:
    """A text of at most `bytes_max` bytes of UTF-8 as a document, or why it is none. `called` is
    what the document is: `catalogue`.
    """
    # Counted first in characters: at least as many bytes, and no work for what is far too long.
    if len(text) > bytes_max or len(text.encode("utf-8", "surrogatepass")) > bytes_max:
        return (Mistake(1, "", f"The {called} has more than {bytes_max} bytes."),)
    if text.startswith(_MARK):
        return (Mistake(1, "", _BEGINS_WITH_MARK),)
    try:
        text.encode()
        document = Document(tomllib.loads(text), lines_of(text))
    except tomllib.TOMLDecodeError as error:
        return (_syntax_mistake(text, str(error)),)
    except (RecursionError, ValueError):
        return (Mistake(1, "", "A value is nested too deeply, too long, or not Unicode text."),)
    # Only an escape makes this character, and what is published ends up where it cannot be kept.
    found = _nul_in(document.content, ()) if "\\" in text else ()
    return document.mistakes(found) or document


def _nul_in(value: object, path: TomlPath) -> Iterator[Found]:
    """Every place of a document that holds the character U+0000."""
    match value:
        case str() if "\0" in value:
            yield path, _HOLDS_NUL
        case dict():
            for name, item in value.items():
                if "\0" in name:
                    yield (*path, name), _HOLDS_NUL
                yield from _nul_in(item, (*path, name))
        case list():
            for index, item in enumerate(value):
                yield from _nul_in(item, (*path, index))
        case _:
            return


_MARK: Final = "\ufeff"
_BEGINS_WITH_MARK: Final = (
    "It begins with a byte order mark, which TOML has not: save it as UTF-8 without one."
)
_HOLDS_NUL: Final = "holds the character U+0000, which cannot be kept"


def complaints(
    refused: ValidationError, model: type[BaseModel], *, at: TomlPath = ()
) -> Iterator[Found]:
    """Everything a model had to say against a table that stands at a path of the document."""
    errors = refused.errors(include_url=False)
    for error in errors:
        # Of a list whose entries are refused pydantic also says that none is left.
        inside = any(one["loc"][:-1] == error["loc"] for one in errors)
        if error["type"] == "too_short" and inside:
            continue
        # Of a default that follows from what is refused pydantic says that there is none.
        if error["type"] == "default_factory_not_called":
            continue
        path, said = _in_words(error, model)
        yield (*at, *path), said


def dotted(path: TomlPath) -> str:
    """A path as it is written in TOML: `operation[0].deadlines.step_ms`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{excerpt(part, chars_max=60)}"
    return text.removeprefix(".")


def _in_words(error: ErrorDetails, model: type[BaseModel]) -> Found:
    """A model's complaint as a path and a sentence."""
    path = error["loc"]
    # Pydantic's own mark behind the key of a table that is itself wrong; a document may hold a key
    # of this name, and then the mark is its.
    if len(path) > 1 and path[-1] == _OF_KEY and error["type"] != "extra_forbidden":
        path = path[:-1]
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return path, f"is not a known key here{_meant(model, path)}"
    sentence = _SENTENCES.get(kind)
    if sentence is None:
        return path, error["msg"].removeprefix("Value error, ")
    said = sentence.format_map(context)
    if kind in _QUOTES_VALUE:
        said = f"{said}, not {excerpt(repr(error['input']), chars_max=60)}"
    return path, f"{said}{_written(kind, error['input'], _at(model, path))}"


def _written(kind: str, given: object, wanted: Any) -> str:  # noqa: ANN401 - any type expression
    """How it is written instead, as the end of a sentence."""
    if kind == "tuple_type" and isinstance(given, str):
        return f", such as [{excerpt(repr(given), chars_max=60)}]"
    if kind == "dict_type" and any(
        get_args(one)[:1] == (Currency,) for one in _alternatives(wanted)
    ):
        return " by currency, such as { EUR = 50_00 }"
    if kind in {"model_type", "model_attributes_type"}:
        fields = [name for one in _models(wanted) for name in one.model_fields]
        return f" of {', '.join(fields)}" if fields else ""
    return ""


def _meant(model: type[BaseModel], path: TomlPath) -> str:
    """The known key that an unknown one looks like, as the end of a sentence."""
    if not path:
        return ""
    if _OF_SECRET.search(str(path[-1])):
        return "; a secret never goes into the log: the file of its account has it"
    fields = [name for one in _models(_at(model, path[:-1])) for name in one.model_fields]
    close = get_close_matches(str(path[-1]), fields, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _at(model: type[BaseModel], path: TomlPath) -> Any:  # noqa: ANN401 - any type expression
    """The type of what stands at a path."""
    here: Any = model
    for part in path:
        here = _inside(here, part)
    return here


def _inside(annotation: Any, part: str | int) -> Any:  # noqa: ANN401 - any type expression
    """The type of a member: a field of a model, an element of a list, a value of a table."""
    for model in _models(annotation):
        field = model.model_fields.get(str(part))
        if field is not None:
            return field.annotation
    inner = [get_args(one) for one in _alternatives(annotation) if get_args(one)]
    # A list's type ends in an ellipsis.
    return next((args[0] if args[-1] is Ellipsis else args[-1] for args in inner), None)


def _models(annotation: Any) -> list[type[BaseModel]]:  # noqa: ANN401 - any type expression
    return [
        one
        for one in _alternatives(annotation)
        if isinstance(one, type) and issubclass(one, BaseModel)
    ]


def _alternatives(annotation: Any) -> Iterator[Any]:  # noqa: ANN401 - any type expression
    """The types of a union, or the one type there is, without what is annotated to it."""
    if hasattr(annotation, "__metadata__"):
        yield from _alternatives(annotation.__origin__)
    elif get_origin(annotation) in _UNIONS:
        for one in get_args(annotation):
            yield from _alternatives(one)
    else:
        yield annotation


_UNIONS: Final = frozenset({UnionType, Union})


def _syntax_mistake(text: str, said: str) -> Mistake:
    """A text that is no TOML: the reader's own words, its position as the line."""
    match = _SYNTAX_LINE.search(said)
    line = int(match[1]) if match else text.count("\n") + 1
    words = said[: match.start()].strip() if match else said.removesuffix(" (at end of document)")
    return Mistake(line, "", f"This is not TOML: {excerpt(words)}.")
