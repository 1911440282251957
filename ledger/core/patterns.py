"""Names with stars: `agent:*` stands for every name that begins with `agent:`.

A star stands for any characters, none included; no other character is special, and case counts.
Of texts that agents write, one that differs by case alone is not told apart: see `compared`. Called
by whatever an operator writes that is about names.
"""

import re
import unicodedata
from collections.abc import Callable
from fnmatch import fnmatchcase, translate
from typing import Annotated

from pydantic import AfterValidator

from ledger.core.wire import Text


def _only_stars(pattern: str) -> str:
    if any(character in "?[]" for character in pattern):
        raise ValueError("may hold * for any characters, and no other wildcard")
    if not pattern:
        raise ValueError("must not be empty")
    # Names are in normal form; what an operator typed may not be.
    return unicodedata.normalize("NFC", pattern)


Pattern = Annotated[Text, AfterValidator(_only_stars)]


def matcher(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether a name is one of those that the patterns spell; as quick as a look into a set where
    no star is.
    """
    exact = frozenset(pattern for pattern in patterns if "*" not in pattern)
    open_ones = [pattern for pattern in patterns if "*" in pattern]
    if not open_ones:
        return exact.__contains__
    matches = re.compile("|".join(map(translate, open_ones))).match
    if not exact:
        return lambda name: matches(name) is not None
    return lambda name: name in exact or matches(name) is not None


def compared(patterns: tuple[str, ...]) -> Callable[[str], bool | None]:
    """Whether a text is one of those that the patterns spell; None where it would be but for large
    and small letters: for an address they are the same, for a name they may not be, and whoever
    wrote it could choose them.
    """
    holds = matcher(patterns)
    folded = tuple(pattern.casefold() for pattern in patterns)
    holds_folded = matcher(folded)
    has_large = folded != patterns

    def answer(text: str) -> bool | None:
        if holds(text):
            return True
        plain = text.casefold()
        if plain == text and not has_large:
            return False
        return None if holds_folded(plain) else False

    return answer


def covers(wider: tuple[str, ...], narrower: tuple[str, ...]) -> bool:
    """Whether every name of the narrower patterns is one of the wider; False where it is not plain.

    A star in the narrower one is a character that only a star of the wider one matches.
    """
    return all(any(fnmatchcase(one, other) for other in wider) for one in narrower)
