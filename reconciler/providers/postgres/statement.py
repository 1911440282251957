"""One SQL statement of a description, with named places for values.

Guarantees that a value of a request is bound and never becomes part of the text: `:name` outside
of quotes and comments is a place, and every place has a value declared for it. Must never run
anything. Called by the description.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_PIECE: Final = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | :: | :([a-z_][a-z0-9_]*)""",
    re.VERBOSE | re.DOTALL,
)
_BEGINS: Final = re.compile(r"(?i)\s*(insert|update|delete|merge|with|select)\b")


class BadStatement(ValueError):
    """A statement that cannot be used; the text is the end of a sentence about it."""


@dataclass(frozen=True, slots=True)
class Statement:
    """The text as the server gets it, and the names of its values in their order."""

    text: str
    names: tuple[str, ...]


def statement_of(sql: str, values: Mapping[str, object]) -> Statement:
    """A statement with `$1`, `$2` for its places. Raises BadStatement."""
    if _BEGINS.match(sql) is None:
        raise BadStatement("must be one insert, update, delete, merge, select, or with")
    order: dict[str, int] = {}

    def place(match: re.Match[str]) -> str:
        name = match[1]
        return match[0] if name is None else f"${order.setdefault(name, len(order) + 1)}"

    text = _PIECE.sub(place, sql)
    bare = _PIECE.sub(" ", sql)
    if ";" in bare.rstrip().removesuffix(";"):
        raise BadStatement("must be one statement: join several by `with`")
    if "$" in bare:
        raise BadStatement("has a $: write places as :name, and quote texts with '")
    for name in order:
        if name not in values:
            raise BadStatement(f"has :{name}, which has no value under values")
    for name in values:
        if name not in order:
            raise BadStatement(f"has no :{name}, for which there is a value")
    return Statement(text.strip().removesuffix(";"), tuple(order))
