"""From the text of a description to the description, or to its mistakes.

Guarantees those of `described`. Called by the kind, and by whoever checks a file.
"""

from pathlib import Path

from ledger.core.mistakes import Mistake
from reconciler.providers.described import parse_form, text_of
from reconciler.providers.http.checks import contradictions
from reconciler.providers.http.description import Description
from reconciler.providers.http.description_of_form import built
from reconciler.providers.http.forms import AdapterForm


def parse_description(text: str) -> Description | tuple[Mistake, ...]:
    """The description of a TOML text, or its mistakes in the order of their lines, at most
    MISTAKES_MAX.
    """
    return parse_form(text, AdapterForm, contradictions, built)


def read_description(path: Path) -> Description | tuple[Mistake, ...]:
    """The description in a file, or its mistakes; raises OSError."""
    text = text_of(path)
    return parse_description(text) if isinstance(text, str) else text
