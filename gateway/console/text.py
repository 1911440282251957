"""Somebody else's text, made safe to look at: what cannot be seen, or passes for something else, is
marked and named.

Guarantees that what a page shows of a text is every character of it, in its order: none is dropped,
shortened or repaired. Invisible ones and direction marks appear as their code; letters of another
alphabet that look like Latin ones, and all of an alphabet that hardly anybody writes today, keep
their place and are marked. Escaping for HTML is the
templates' own. Called for whatever an agent, a provider or a person wrote.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Final, Literal

from gateway.console.limits import NOTES_MAX
from ledger.core.excerpt import visible

Kind = Literal["plain", "break", "hidden", "odd", "rtl"]

# Letters that a reader takes for the Latin one in the same place of the second line.
_OTHERS: Final = (
    "АВЕКМНОРСТУХЅІЈԚԜҺҮӀѴԌавекмнорстухѕіјԛԝһԁӏүґѵҽ"  # Cyrillic is what it is about
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿαγικνορτυχϲϳ"  # Greek
    "օոսցհեզ"  # Armenian
    "ıɑɡɩʏⅼℓᴏᴜᴠᴡ"  # noqa: RUF001 - Latin of another kind
)
LOOK_ALIKES: Final = frozenset(_OTHERS)

# The alphabets that are written every day: the Recommended Scripts of UAX 31, table 5, as the names
# of their letters begin. Of every other one whole words pass for Latin: Lisu, Cherokee, Coptic.
_WRITTEN: Final = (
    *("LATIN ", "GREEK ", "CYRILLIC ", "ARMENIAN ", "GEORGIAN ", "HEBREW ", "ARABIC ", "THAANA "),
    *("DEVANAGARI ", "BENGALI ", "GURMUKHI ", "GUJARATI ", "ORIYA ", "TAMIL ", "TELUGU "),
    *("KANNADA ", "MALAYALAM ", "SINHALA ", "THAI ", "LAO ", "TIBETAN ", "MYANMAR ", "KHMER "),
    *("ETHIOPIC ", "HANGUL ", "HALFWIDTH HANGUL ", "BOPOMOFO ", "HIRAGANA ", "KATAKANA "),
    *("KATAKANA-HIRAGANA ", "HALFWIDTH KATAKANA", "CJK ", "IDEOGRAPHIC ", "MICRO SIGN"),
)
# Latin as languages write it: these blocks, and some letters of African ones and of Azerbaijani.
# The rest are signs of phonetics and small capitals, which pass for the common letters.
_LATIN_BLOCKS: Final = ((0x00C0, 0x024F), (0x1E00, 0x1EFF))
_LATIN_BESIDE: Final = frozenset("ɓɔɖɗəɛɣɲʋ")
_LATIN_SIGN: Final = re.compile(r"\b(?:CLICK|TONE|DOTLESS|KRA|IOTA)\b")

# Printable to Python, and nothing on a screen: fillers, joiners, selectors.
_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U0001d173-\U0001d17a\U000e0100-\U000e01ef]"
)
# Passes for the dot, slash, colon, hyphen or quote by which addresses and paths are read.
_POINTS: Final = frozenset("․‧。∕⁄⧸╱∶ː꞉⸱‐‑−﹣ʹʺˈ＠﹫⁎∗")  # noqa: RUF001
_WORD: Final = re.compile(r"\w+")
_RIGHT_TO_LEFT: Final = frozenset({"R", "AL", "AN"})
_MARKS_IN_A_ROW_MAX: Final = 2
_OVERLAY: Final = 1
"""The combining class of marks that lie over their letter."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a text that is shown in one way. `text` of a hidden one is its code."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A text as pieces, and a sentence for each kind of character that a reader has to know of."""

    pieces: tuple[Piece, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_marked(self) -> bool:
        """Whether something in it is not what it looks like."""
        return bool(self.notes)


def shown(text: str) -> Shown:
    """The text as a page shows it: whole."""
    if text.isascii() and text.isprintable():
        return Shown((Piece("plain", text),)) if text else Shown(())
    kinds = _kinds(text)
    pieces = tuple(_pieces(text, kinds))
    return Shown(pieces, tuple(_notes(text, kinds)))


def grouped(hash_text: str) -> tuple[str, ...]:
    """The hexadecimal digits of a `sha256:` text in groups of four, to be read out or compared."""
    digits = hash_text.removeprefix("sha256:")
    return tuple(digits[place : place + 4] for place in range(0, len(digits), 4))


def _kinds(text: str) -> list[Kind]:
    kinds: list[Kind] = []
    marks = 0
    for place, character in enumerate(text):
        is_mark = unicodedata.category(character) in {"Mn", "Me"}
        marks = marks + 1 if is_mark else 0
        is_stray = is_mark and (
            place == 0 or marks > _MARKS_IN_A_ROW_MAX or _strikes_out(character)
        )
        kinds.append("hidden" if is_stray else _kind(character))
    for word in _WORD.finditer(text):
        if not word.group().isascii():
            _mark_word(word.group(), word.start(), kinds)
    return kinds


def _mark_word(word: str, start: int, kinds: list[Kind]) -> None:
    """Mark letters of another alphabet in a word that is, or looks, Latin."""
    letters = [character for character in word if character.isalpha()]
    is_mixed = any(_is_latin(one) for one in letters)
    is_disguised = bool(letters) and all(one in LOOK_ALIKES for one in letters)
    for place, character in enumerate(word, start):
        if not (character.isalpha() and kinds[place] == "plain"):
            continue
        if (is_mixed and not _is_latin(character)) or (is_disguised and character in LOOK_ALIKES):
            kinds[place] = "odd"


@lru_cache(maxsize=4_096)
def _kind(character: str) -> Kind:
    """What a character is by itself."""
    if character == "\n":
        return "break"
    if not character.isprintable() or _BLANK.match(character):
        return "hidden"
    if character.isascii():
        return "plain"
    if character in _POINTS or _stands_for_ascii(character):
        return "odd"
    if unicodedata.bidirectional(character) in _RIGHT_TO_LEFT:
        return "rtl"
    return "odd" if character.isalpha() and not _is_written(character) else "plain"


def _is_written(letter: str) -> bool:
    """Whether it is a letter of an alphabet, and for a word, that a reader knows as such."""
    name = unicodedata.name(letter, "")
    if not name.startswith("LATIN "):
        return name.startswith(_WRITTEN)
    if letter in _LATIN_BESIDE:
        return True
    is_common = any(first <= ord(letter) <= last for first, last in _LATIN_BLOCKS)
    return is_common and _LATIN_SIGN.search(name) is None


def _strikes_out(mark: str) -> bool:
    """Whether it lies over the letter before it, which then reads as struck out."""
    return unicodedata.combining(mark) == _OVERLAY


def _stands_for_ascii(character: str) -> bool:
    """Whether it is a letter or digit in disguise: full width, mathematical, of another script."""
    if unicodedata.category(character)[0] not in "LN":
        return False
    if unicodedata.category(character) == "Nd":
        return True
    return unicodedata.normalize("NFKC", character).isascii()


@lru_cache(maxsize=4_096)
def _is_latin(character: str) -> bool:
    if character.isascii():
        return character.isalpha()
    return unicodedata.name(character, "").startswith("LATIN ") and character not in LOOK_ALIKES


def _pieces(text: str, kinds: list[Kind]) -> Iterator[Piece]:
    places = iter(text)
    for kind, run in groupby(kinds):
        characters = [next(places) for _ in run]
        if kind in {"plain", "rtl"}:
            yield Piece(kind, "".join(characters))
        else:
            yield from (Piece(kind, _as_code(kind, one)) for one in characters)


def _as_code(kind: Kind, character: str) -> str:
    if kind != "hidden":
        return character
    if not character.isprintable():
        return visible(character)
    # Printable to Python, so that `visible` lets it be.
    return character.encode("unicode_escape").decode().replace("\\x", "\\u00")


def _notes(text: str, kinds: list[Kind]) -> Iterator[str]:
    named: dict[tuple[Kind, str], None] = {}
    for character, kind in zip(text, kinds, strict=True):
        if kind in {"hidden", "odd"}:
            named.setdefault((kind, character))
    said = [f"{_named(one)} {_why(kind, one)}" for kind, one in named]
    yield from said[:NOTES_MAX]
    if len(said) > NOTES_MAX:
        yield f"and {len(said) - NOTES_MAX} more of such characters"
    if "rtl" in kinds:
        yield "it holds letters that are written from right to left"


_WHY: Final = {"hidden": "cannot be seen", "odd": "is not the character that it looks like"}


def _why(kind: Kind, character: str) -> str:
    is_over = kind == "hidden" and _strikes_out(character)
    return "strikes out the letter before it" if is_over else _WHY[kind]


def _named(character: str) -> str:
    name = unicodedata.name(character, "")
    return f"U+{ord(character):04X}" + (f" {name}" if name else "")
