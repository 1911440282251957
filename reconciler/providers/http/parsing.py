"""From the text of a description to the description, or to its mistakes.

Guarantees that a description is either whole or refused with every mistake on its line, in a
sentence; the same text is always the same description. Must never repair or ignore anything, or
quote a value that could be a secret. Called by the registry, and by whoever checks a file.
"""

import re
import tomllib
from pathlib import Path
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ledger.core.catalogue import Mistake, dotted
from ledger.core.excerpt import excerpt
from ledger.core.limits import MISTAKES_MAX
from ledger.core.toml_lines import TomlPath, line_of, lines_of
from reconciler.providers.http.checks import Found, contradictions
from reconciler.providers.http.description import Description, built
from reconciler.providers.http.forms import AdapterForm
from reconciler.providers.limits import DESCRIPTION_BYTES_MAX

_SYNTAX_LINE: Final = re.compile(r" ?\(at line (\d+), column \d+\)")
_SENTENCES: Final = {
    "missing": "is missing",
    "extra_forbidden": "is not a known key here",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "string_type": "must be a text",
    "dict_type": "must be a table",
    "list_type": "must be a list",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "literal_error": "must be {expected}",
}
# What pydantic adds to a place to say which of several types it tried; no key of the file.
_TRIED: Final = frozenset({"str", "int", "bool"})


def parse_description(text: str) -> Description | tuple[Mistake, ...]:
    """The description of a TOML text, or its mistakes in the order of their lines, at most
    MISTAKES_MAX.
    """
    if len(text.encode("utf-8", "surrogatepass")) > DESCRIPTION_BYTES_MAX:
        return (Mistake(1, "", f"The file has more than {DESCRIPTION_BYTES_MAX} bytes."),)
    try:
        document = tomllib.loads(text)
        lines = lines_of(text)
    except tomllib.TOMLDecodeError as error:
        return (_syntax_mistake(text, str(error)),)
    except (RecursionError, ValueError):
        return (Mistake(1, "", "A value is nested too deeply, too long, or not Unicode text."),)
    try:
        form = AdapterForm.model_validate(document)
    except ValidationError as refused:
        found = [_in_words(error) for error in refused.errors(include_url=False)]
        return _mistakes(found, lines)
    found = list(contradictions(form))
    if not found:
        try:
            return built(form)
        except ValueError as error:
            found = [(("capabilities",), str(error).removeprefix("capabilities "))]
    return _mistakes(found, lines)


def read_description(path: Path) -> Description | tuple[Mistake, ...]:
    """The description in a file, or its mistakes; raises OSError."""
    try:
        return parse_description(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        return (Mistake(1, "", "The file is not UTF-8 text."),)


def _mistakes(found: list[Found], lines: dict[TomlPath, int]) -> tuple[Mistake, ...]:
    unique = dict.fromkeys((path, said) for path, said in found)
    mistakes = (Mistake(line_of(lines, path), dotted(path), said) for path, said in unique)
    return tuple(sorted(mistakes, key=lambda mistake: mistake.line)[:MISTAKES_MAX])


def _in_words(error: ErrorDetails) -> Found:
    """A form's complaint as a path and a sentence."""
    place = [part for part in error["loc"] if part != "[key]"]
    while place and place[-1] in _TRIED:
        place.pop()
    sentence = _SENTENCES.get(error["type"])
    if sentence is None:
        return tuple(place), error["msg"].removeprefix("Value error, ")
    return tuple(place), sentence.format_map(error.get("ctx", {}))


def _syntax_mistake(text: str, said: str) -> Mistake:
    match = _SYNTAX_LINE.search(said)
    line = int(match[1]) if match else text.count("\n") + 1
    words = said[: match.start()] if match else said.removesuffix(" (at end of document)")
    return Mistake(line, "", f"This is not TOML: {excerpt(words)}.")
