"""Where things stand in a TOML text: the line of every table, key and array element, by path.

`tomllib` says what a text means and forgets where it stood. This reads only texts that `tomllib`
has accepted, so it decides nothing and checks nothing. Called to give every mistake in a
configuration its line.
"""

import re
import tomllib
from typing import Final

TomlPath = tuple[str | int, ...]

_BLANK: Final = re.compile(r"[ \t]*")
_BLANK_LINES: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
# Closing quotes of a multi-line text are the last three of a run of up to five.
_MULTILINE: Final = re.compile(
    r"""\"{3}(?:[^"\\]|\\[\s\S]|"{1,2}(?!"))*"{3,5}|'{3}(?:[^']|'{1,2}(?!'))*'{3,5}"""
)
_QUOTED: Final = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE: Final = re.compile(r"[^,\]}#\n]+")


def lines_of(source: str) -> dict[TomlPath, int]:
    """The line, from 1, of every path in a valid TOML text. Array elements count from 0."""
    scanner = _Scanner(source)
    scanner.scan()
    return scanner.lines


def line_of(lines: dict[TomlPath, int], path: TomlPath) -> int:
    """The line of a path, or of the nearest thing around it that stands in the text; 1 for nothing
    at all.
    """
    for length in range(len(path), 0, -1):
        line = lines.get(path[:length])
        if line is not None:
            return line
    return 1


class _Scanner:
    """One pass over a text, from the left, never back."""

    def __init__(self, source: str) -> None:
        self.lines: dict[TomlPath, int] = {}
        self._source = source
        self._at = 0
        self._counted_to = 0
        self._line = 1
        # How many elements each array of tables has so far.
        self._tables: dict[TomlPath, int] = {}

    def scan(self) -> None:
        table: TomlPath = ()
        self._skip(_BLANK_LINES)
        while self._at < len(self._source):
            if self._peek("["):
                table = self._header()
            else:
                self._pair(table)
            self._skip(_BLANK_LINES)

    def _header(self) -> TomlPath:
        """`[a.b]` or `[[a.b]]`: the path of the table that follows."""
        is_element = self._peek("[[")
        self._at += 2 if is_element else 1
        line = self._line_here()
        names = self._key()
        self._at += 2 if is_element else 1
        path: TomlPath = ()
        for place, name in enumerate(names, start=1):
            path = (*path, name)
            if is_element and place == len(names):
                self._tables[path] = self._tables.get(path, -1) + 1
            if path in self._tables:
                path = (*path, self._tables[path])
        self._note(path, line)
        return path

    def _pair(self, table: TomlPath) -> None:
        """`key = value`, in a table or an inline table."""
        line = self._line_here()
        path = (*table, *self._key())
        self._note(path, line)
        self._skip(_BLANK)
        self._at += len("=")
        self._skip(_BLANK)
        self._value(path)

    def _value(self, path: TomlPath) -> None:
        if self._peek("["):
            self._array(path)
        elif self._peek("{"):
            self._inline_table(path)
        else:
            shapes = (_MULTILINE, _QUOTED, _BARE_VALUE)
            if not any(self._skip(shape) for shape in shapes):
                # Whatever it is, every step moves on: a text this does not know must not hold it.
                self._at += 1

    def _array(self, path: TomlPath) -> None:
        self._at += len("[")
        index = 0
        self._skip(_BLANK_LINES)
        while self._at < len(self._source) and not self._peek("]"):
            self._note((*path, index), self._line_here())
            self._value((*path, index))
            index += 1
            self._separator()
        self._at += len("]")

    def _inline_table(self, path: TomlPath) -> None:
        self._at += len("{")
        self._skip(_BLANK_LINES)
        while self._at < len(self._source) and not self._peek("}"):
            self._pair(path)
            self._separator()
        self._at += len("}")

    def _separator(self) -> None:
        self._skip(_BLANK_LINES)
        if self._peek(","):
            self._at += len(",")
        self._skip(_BLANK_LINES)

    def _key(self) -> TomlPath:
        """`a . "b".c`: the names of a dotted key, without their quotes."""
        names: list[str] = []
        while True:
            self._skip(_BLANK)
            begin = self._at
            if self._skip(_BARE_KEY):
                names.append(self._source[begin : self._at])
            elif self._skip(_QUOTED):
                names.append(_unquoted(self._source[begin : self._at]))
            self._skip(_BLANK)
            if not self._peek("."):
                return tuple(names)
            self._at += len(".")

    def _note(self, path: TomlPath, line: int) -> None:
        """Remember a path, and the tables that its dotted key makes on the way."""
        for length in range(1, len(path)):
            self.lines.setdefault(path[:length], line)
        self.lines.setdefault(path, line)

    def _peek(self, text: str) -> bool:
        return self._source.startswith(text, self._at)

    def _skip(self, shape: re.Pattern[str]) -> bool:
        match = shape.match(self._source, self._at)
        if match is None or match.end() == self._at:
            return False
        self._at = match.end()
        return True

    def _line_here(self) -> int:
        self._line += self._source.count("\n", self._counted_to, self._at)
        self._counted_to = self._at
        return self._line


def _unquoted(quoted: str) -> str:
    name = tomllib.loads(f"name = {quoted}")["name"]
    return str(name)
