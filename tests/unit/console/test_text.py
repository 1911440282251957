"""Somebody else's text on a page: whole, and with nothing in it that passes for something else."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.console.limits import NOTES_MAX
from gateway.console.text import Shown, grouped, shown
from tests.tree import ROOT


def kinds(text: str) -> list[tuple[str, str]]:
    """The pieces of a text."""
    return [(piece.kind, piece.text) for piece in shown(text).pieces]


def restored(found: Shown) -> str:
    """The text that pieces stand for."""
    parts = []
    for piece in found.pieces:
        code = re.fullmatch(r"\\[uU]([0-9a-f]{4,8})", piece.text)
        is_code = piece.kind == "hidden" and code is not None
        parts.append(chr(int(code[1], 16)) if is_code and code else piece.text)
    return "".join(parts)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("a\u202eb", "\\u202e"),
        ("a\u200bb", "\\u200b"),
        ("a\u2066b", "\\u2066"),
        ("a\ufeffb", "\\ufeff"),
        ("a\u00adb", "\\u00ad"),
        ("a\u3164b", "\\u3164"),
        ("a\ufe0fb", "\\ufe0f"),
        ("a\u2800b", "\\u2800"),
        ("a\x1bb", "\\u001b"),
        ("a\tb", "\\u0009"),
        ("a\u00a0b", "\\u00a0"),
        ("a\U000e0141b", "\\U000e0141"),
    ],
)
def test_what_cannot_be_seen_is_spelled_out(text: str, hidden: str) -> None:
    """Direction marks, joiners, fillers, controls and odd blanks appear as their code."""
    assert kinds(text) == [("plain", "a"), ("hidden", hidden), ("plain", "b")]
    (note,) = shown(text).notes
    assert note.endswith("cannot be seen")


@pytest.mark.parametrize(
    ("text", "odd"),
    [
        ("p\u0430ypal", ["\u0430"]),
        ("\u0440\u0430\u0443", ["\u0440", "\u0430", "\u0443"]),
        ("\u03bfrder", ["\u03bf"]),
        ("\uff11\uff12", ["\uff11", "\uff12"]),
        ("\u0661", ["\u0661"]),
        ("\U0001d41a", ["\U0001d41a"]),
        ("example\u2024com", ["\u2024"]),
        ("a\u2215b", ["\u2215"]),
        ("b\u0131ll", ["\u0131"]),
        ("\ua4d1\ua4ee\ua4ec", ["\ua4d1", "\ua4ee", "\ua4ec"]),
        ("\u13e2\u13aa", ["\u13e2", "\u13aa"]),
        ("\uabaf", ["\uabaf"]),
        ("\u2ca2\u2c80\u2ca8", ["\u2ca2", "\u2c80", "\u2ca8"]),
        ("\u03e2", ["\u03e2"]),
        ("\u146d\u15e9Y", ["\u146d", "\u15e9"]),
        ("\u04c00", ["\u04c0"]),
        ("\U0001042c", ["\U0001042c"]),
        ("\u1d18\u1d00\u028f", ["\u1d18", "\u1d00", "\u028f"]),
        ("\ua731", ["\ua731"]),
        ("\u0185ank", ["\u0185"]),
        ("\u01c3", ["\u01c3"]),
    ],
)
def test_what_looks_like_another_character_is_marked(text: str, odd: list[str]) -> None:
    """Letters of other alphabets, digits and points in disguise keep their place and are named."""
    found = shown(text)
    assert [piece.text for piece in found.pieces if piece.kind == "odd"] == odd
    assert all("is not the character that it looks like" in note for note in found.notes)


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "Zürich, café",
        "Привет, мир",
        "価格 1,200",
        "90 € ok",
        "人々のコーヒー",
        "ﾊﾝｶｸ",
        "Tiếng Việt, łódź, þæð, œuvre",
        "Ɛyɛ, Ɔdɔ, ɓarna, Əli",
        "5 µ",
        "한국어",
        "हिन्दी",
        "ภาษาไทย",
        "አማርኛ",
        "ქართული",
    ],
)
def test_other_languages_are_not_accused(text: str) -> None:
    """A text in one alphabet is what it looks like."""
    assert kinds(text) == [("plain", text)]
    assert not shown(text).is_marked


def test_right_to_left_letters_stand_apart() -> None:
    """They cannot put what stands beside them into another order, and a note says that they do."""
    assert kinds("12 שלום 34") == [("plain", "12 "), ("rtl", "שלום"), ("plain", " 34")]
    assert shown("שלום").notes == ("it holds letters that are written from right to left",)


def test_marks_in_heaps_are_taken_apart() -> None:
    """An accent belongs to its letter; a heap of them, or one without a letter, is spelled out."""
    assert kinds("e\u0301") == [("plain", "e\u0301")]
    heap = "e\u0301\u0302\u0303\u0304"
    assert kinds(heap)[1:] == [("hidden", "\\u0303"), ("hidden", "\\u0304")]
    assert kinds("\u0301a")[0] == ("hidden", "\\u0301")


@pytest.mark.parametrize("overlay", ["\u0334", "\u0335", "\u0336", "\u0337", "\u0338", "\u20d2"])
def test_a_mark_that_strikes_out_is_spelled_out(overlay: str) -> None:
    """An amount or a name that is struck out on the page is whole in what is signed."""
    assert kinds(f"9{overlay}0") == [
        ("plain", "9"),
        ("hidden", f"\\u{ord(overlay):04x}"),
        ("plain", "0"),
    ]
    (note,) = shown(f"9{overlay}0").notes
    assert note.endswith("strikes out the letter before it")


def test_many_kinds_of_marks_end_in_a_count() -> None:
    """All are marked in the text; below it the first ones are named."""
    text = "".join(map(chr, range(0x200B, 0x2010))) + "".join(map(chr, range(0x2060, 0x2070)))
    notes = shown(text).notes
    assert len(notes) == NOTES_MAX + 1
    assert notes[-1].endswith("more of such characters")


@given(st.text(max_size=200))
def test_every_character_is_shown_in_its_place(text: str) -> None:
    """Nothing is dropped, shortened or moved, whatever it is."""
    assert restored(shown(text)) == text


@given(st.text(max_size=50))
def test_nothing_invisible_is_shown_as_it_is(text: str) -> None:
    """What is put into a page is printable, but for line ends."""
    for piece in shown(text).pieces:
        assert piece.kind == "break" or piece.text.isprintable()
        categories = {unicodedata.category(one) for one in piece.text}
        assert categories.isdisjoint({"Cf", "Cc", "Cs", "Co", "Cn"}) or piece.kind == "break"


def test_hashes_are_read_in_groups() -> None:
    """A hash is shown whole, in groups of four digits."""
    digits = "0123456789abcdef" * 4
    assert "".join(grouped(f"sha256:{digits}")) == digits
    assert {len(group) for group in grouped(digits)} == {4}


def test_two_blanks_look_like_two_wherever_a_text_stands() -> None:
    """A page that folds blanks shows a target of two as one of one: the style of every text of
    somebody else keeps them.
    """
    style = (ROOT / "gateway" / "console" / "static" / "console.css").read_text(encoding="utf-8")
    (rule,) = re.findall(r"^\.text \{([^}]*)\}", style, re.MULTILINE)
    assert "white-space: pre-wrap" in rule
    assert kinds("order:A  1") == [("plain", "order:A  1")]
