"""Operating trouble carries its next step; quoted text cannot disguise it."""

import pytest

from ledger.core.errors import LedgerError
from ledger.core.excerpt import excerpt, visible


def test_trouble_says_what_happened_and_what_to_do() -> None:
    """Message and hint are there to be read by programs and, together, by a person."""
    trouble = LedgerError("The port is taken.", hint="Stop the other program.")
    assert (trouble.message, trouble.hint) == ("The port is taken.", "Stop the other program.")
    assert str(trouble) == "The port is taken. Stop the other program."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("ten chars!", "ten chars!"),
        ("eleven chars", "eleven ch…"),
        ("a\nb", "a\\u000ab"),
        ("\u202e", "\\u202e"),
        ("\U000e0001", "\\U000e0001"),
        ("\n" * 1_000, "\\u000a\\u0…"),
    ],
)
def test_excerpts_are_bounded_and_visible(text: str, shown: str) -> None:
    """A quoted text is no longer than asked for, and every character of it can be seen."""
    assert excerpt(text, chars_max=10) == shown


def test_visible_text_is_left_alone() -> None:
    """What a person can see stays in its own letters."""
    assert visible("Größe 東京 😀") == "Größe 東京 😀"
    assert visible("half \ud83d") == "half \\ud83d"
