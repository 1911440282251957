"""A seeded mutator of bytes: it changes genuine inputs a little, and sometimes a lot.

The same seed gives the same inputs, so what was found is found again. Knows what hurts parsers of
JSON, TOML, CSV and headers: borders of numbers, half surrogates, depth, repetition, NUL.
"""

import random
import re
from collections.abc import Sequence
from typing import Final

Case = tuple[bytes, ...]
"""One input: its fields, such as a body and the values of headers."""

FIELD_BYTES_MAX: Final = 64 * 1_024
_TOKENS: Final = (
    *(
        b"0",
        b"-1",
        b"1e999999",
        b"0.1",
        b"-0",
        b"9007199254740993",
        b"9" * 400,
        b"NaN",
        b"Infinity",
    ),
    *(b"Infinity", b"null", b"true", b'""', b"[]", b"{}", b'"\\ud800"', b'"\\u0000"', b"\xff\xfe"),
    *(b"\x00", b"\r\n", b"\n", b'"', b"'", b",", b";", b":", b"=", b"{", b"}", b"[", b"]", b"\\"),
    *(
        b"\xef\xbb\xbf",
        b"\xf0\x9f\x98\x8a",
        b"\xed\xa0\x80",
        b"2026-02-30",
        b"0000-00-00T00:00:00Z",
    ),
    *(b"sha256=", b"v1=", b"t=", b"v1,", b"{body}", b"{params}", b"EUR", b"JPY", b"XXX", b"1970"),
)
_NUMBER: Final = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?")
_VALUE: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9]+(?:\.[0-9]+)?|true|false|null')


class Mutator:
    """Draws inputs from a corpus."""

    def __init__(self, corpus: Sequence[Case], seed: int) -> None:
        """`corpus` holds genuine inputs of the same number of fields."""
        self._corpus = list(corpus)
        self._chance = random.Random(f"fuzz|{seed}")

    def draw(self) -> Case:
        """The next input: a genuine one with one to four changes, in one or several fields."""
        fields = list(self._chance.choice(self._corpus))
        for _ in range(self._chance.choice((0, 1, 1, 1, 2, 3, 4))):
            at = self._chance.randrange(len(fields))
            fields[at] = self._changed(fields[at])[:FIELD_BYTES_MAX]
        return tuple(fields)

    def _changed(self, field: bytes) -> bytes:
        chance = self._chance
        match chance.randrange(11):
            case 0:
                return self._at(field, bytes([chance.randrange(256)]), removed=1)
            case 1:
                return self._at(field, chance.choice(_TOKENS))
            case 2:
                return self._at(field, chance.choice(_TOKENS), removed=chance.randrange(1, 9))
            case 3:
                return self._at(field, b"", removed=chance.randrange(1, 40))
            case 4:
                return field[: chance.randrange(len(field) + 1)]
            case 5:
                begin = chance.randrange(len(field) + 1)
                part = field[begin : begin + chance.randrange(1, 60)]
                return self._at(field, part * chance.choice((1, 2, 50)))
            case 6:
                return self._instead(field, _NUMBER)
            case 7 | 8:
                return self._instead(field, _VALUE)
            case 9:
                depth = chance.choice((3, 40, 200, 5_000))
                return self._at(field, chance.choice((b"[", b'{"a":')) * depth)
            case _:
                other = chance.choice(chance.choice(self._corpus))
                return (
                    field[: chance.randrange(len(field) + 1)]
                    + other[chance.randrange(len(other) + 1) :]
                )

    def _at(self, field: bytes, put: bytes, *, removed: int = 0) -> bytes:
        at = self._chance.randrange(len(field) + 1)
        return field[:at] + put + field[at + removed :]

    def _instead(self, field: bytes, pattern: re.Pattern[bytes]) -> bytes:
        """Another value in the place of one that is there: the form stays, the meaning goes."""
        found = list(pattern.finditer(field[:8_192]))
        if not found:
            return self._at(field, self._chance.choice(_TOKENS))
        one = self._chance.choice(found)
        if self._chance.random() < 0.5:
            put = self._chance.choice(found).group()
        else:
            put = self._chance.choice(_TOKENS)
        return field[: one.start()] + put + field[one.end() :]
