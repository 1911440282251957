"""From the text of a description to the description, or to its mistakes.

Guarantees that a description is either whole or refused with every mistake on its line, in a
sentence; the same text is always the same description. Must never repair or ignore anything, or
quote a value that could be a secret. Called by the registry, and by whoever checks a file.
"""

from pathlib import Path
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ledger.core.mistakes import Document, Mistake, read_toml
from reconciler.providers.http.checks import Found, contradictions
from reconciler.providers.http.description import Description, built
from reconciler.providers.http.forms import AdapterForm
from reconciler.providers.limits import DESCRIPTION_BYTES_MAX

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
    document = read_toml(text, "file", bytes_max=DESCRIPTION_BYTES_MAX)
    if not isinstance(document, Document):
        return document
    try:
        form = AdapterForm.model_validate(document.content)
    except ValidationError as refused:
        found = [_in_words(error) for error in refused.errors(include_url=False)]
        return document.mistakes(dict.fromkeys(found))
    found = list(contradictions(form))
    if not found:
        try:
            return built(form)
        except ValueError as error:
            found = [(("capabilities",), str(error).removeprefix("capabilities "))]
    return document.mistakes(dict.fromkeys(found))


def read_description(path: Path) -> Description | tuple[Mistake, ...]:
    """The description in a file, or its mistakes; raises OSError."""
    try:
        return parse_description(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        return (Mistake(1, "", "The file is not UTF-8 text."),)


def _in_words(error: ErrorDetails) -> Found:
    """A form's complaint as a path and a sentence."""
    place = [part for part in error["loc"] if part != "[key]"]
    while place and place[-1] in _TRIED:
        place.pop()
    sentence = _SENTENCES.get(error["type"])
    if sentence is None:
        return tuple(place), error["msg"].removeprefix("Value error, ")
    return tuple(place), sentence.format_map(error.get("ctx", {}))
