"""Templates: texts with `{name}` in them, filled from one request. Paths into it, no logic.

Guarantees that what a request holds stays a value: in a path it is percent-encoded and never a
whole step like `..`, in a query it is encoded, in a header it is one line of printable ASCII, in a
body it is a JSON value. Whatever cannot be so is refused with `Unsendable`. Must never make a host,
a method, or the name of a header or a member. Called by performer and finder.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import quote, urlencode

from ledger.core.money import Money, exponent
from reconciler.providers.limits import DESCRIBED_BODY_DEPTH_MAX

Names: TypeAlias = Mapping[str, object]
"""What may stand in braces, by its first name; a longer path goes on inside the value."""

_PIECE: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*")
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_HOPS: Final = frozenset({"", ".", ".."})


class Unsendable(Exception):
    """A value cannot stand where the template puts it; nothing is sent. Never seen outside."""


class BadTemplate(ValueError):
    """A template that cannot be read; the text is the end of a sentence about it."""


@dataclass(frozen=True, slots=True)
class Name:
    """One `{a.b}`."""

    path: tuple[str, ...]


Pieces: TypeAlias = tuple[str | Name, ...]


def pieces_of(text: str) -> Pieces:
    """Literal texts and names, in order; `{{` and `}}` stand for braces. Raises BadTemplate."""
    pieces: list[str | Name] = []
    for match in _PIECE.finditer(text):
        piece, name = match[0], match[1]
        if name is not None:
            if _NAME.fullmatch(name) is None:
                raise BadTemplate(f"has {{{name}}}, which is no name; write {{a}} or {{a.b}}")
            pieces.append(Name(tuple(name.split("."))))
        elif piece in {"{", "}"}:
            raise BadTemplate("has a single brace; write {{ or }} for the character itself")
        else:
            pieces.append(piece if len(piece) == 1 else piece.replace("{{", "{").replace("}}", "}"))
    return tuple(pieces)


def names_in(value: object, depth: int = 0) -> Iterator[Name]:
    """Every name in a template, or in a body of templates as deep as bodies may be.

    Raises BadTemplate.
    """
    if depth > DESCRIBED_BODY_DEPTH_MAX:
        return
    match value:
        case str():
            yield from (piece for piece in pieces_of(value) if isinstance(piece, Name))
        case Mapping():
            for one in value.values():
                yield from names_in(one, depth + 1)
        case list() | tuple():
            for one in value:
                yield from names_in(one, depth + 1)
        case _:
            return


def money_names(money: Money | None) -> Mapping[str, object] | None:
    """An amount as templates see it; `decimal` is how people write it: `49.90`."""
    if money is None:
        return None
    return {
        "minor": money.minor,
        "currency": money.currency,
        "currency_lower": money.currency.lower(),
        "decimal": decimal_of(money),
    }


def decimal_of(money: Money) -> str:
    """The amount in major units, with all the decimals of its currency."""
    digits = exponent(money.currency)
    if digits == 0:
        return str(money.minor)
    major, minor = divmod(money.minor, 10**digits)
    return f"{major}.{minor:0{digits}d}"


class Template:
    """One text template. Built once from the description; raises BadTemplate."""

    __slots__ = ("_pieces",)

    def __init__(self, text: str) -> None:
        self._pieces = pieces_of(text)

    def value(self, names: Names) -> object:
        """The value itself where the template is one name alone, else a text; None if absent.

        A text around an absent value is absent too. Raises Unsendable.
        """
        match self._pieces:
            case (Name(path),):
                return looked_up(names, path)
            case _:
                return self.text(names)

    def text(self, names: Names) -> str | None:
        """The text, or None where a name in it has no value. Raises Unsendable."""
        parts: list[str] = []
        for piece in self._pieces:
            part = piece if isinstance(piece, str) else as_text(looked_up(names, piece.path))
            if part is None:
                return None
            parts.append(part)
        return "".join(parts)

    def header(self, names: Names) -> str | None:
        """A header's value: printable ASCII on one line, or None. Raises Unsendable."""
        text = self.text(names)
        if text is not None and _HEADER_VALUE.fullmatch(text) is None:
            raise Unsendable
        return text


class PathTemplate:
    """The path of a request, with its query. Built once; raises BadTemplate."""

    __slots__ = ("_query", "_segments")

    def __init__(self, path: str, query: Mapping[str, str]) -> None:
        self._segments = [pieces_of(segment) for segment in path.split("/")[1:]]
        self._query = [(name, Template(text)) for name, text in query.items()]

    def target(self, names: Names) -> str:
        """Path and query, encoded; a query member without a value is left out.

        Raises Unsendable for a segment that a server could take for another place.
        """
        segments = [_segment(pieces, names) for pieces in self._segments]
        query = [(name, template.text(names)) for name, template in self._query]
        given = [(name, text) for name, text in query if text is not None]
        try:
            tail = f"?{urlencode(given)}" if given else ""
        except UnicodeError:
            raise Unsendable from None
        return "/" + "/".join(segments) + tail


def _segment(pieces: Pieces, names: Names) -> str:
    """One step of a path. What stands literally is the operator's; values are encoded whole."""
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(str(piece) for piece in pieces)
    parts: list[str] = []
    for piece in pieces:
        part = piece if isinstance(piece, str) else as_text(looked_up(names, piece.path))
        if not part:
            # The path without it is another resource: the collection instead of its member.
            raise Unsendable
        try:
            parts.append(part if isinstance(piece, str) else quote(part, safe=""))
        except UnicodeError:
            raise Unsendable from None
    segment = "".join(parts)
    if segment in _HOPS:
        raise Unsendable
    return segment


class BodyTemplate:
    """A JSON body. Members without a value are sent as null, or left out. Raises BadTemplate."""

    __slots__ = ("_body", "_omits")

    def __init__(self, body: Mapping[str, object], absent: str) -> None:
        self._body = {name: _compiled(value) for name, value in body.items()}
        self._omits = absent == "omit"

    def value(self, names: Names) -> object:
        """The body for one request; the same request gives the same value. Raises Unsendable."""
        return self._filled(self._body, names) or {}

    def _filled(self, template: object, names: Names) -> object:
        match template:
            case Template():
                return template.value(names)
            case dict():
                members = {name: self._filled(value, names) for name, value in template.items()}
                if not self._omits:
                    return members
                # A table of which nothing is left says nothing: it goes as its members did.
                return {name: one for name, one in members.items() if one is not None} or None
            case list():
                return [self._filled(one, names) for one in template]
            case _:
                return template


def _compiled(value: object) -> object:
    match value:
        case str():
            return Template(value)
        case Mapping():
            return {name: _compiled(one) for name, one in value.items()}
        case list() | tuple():
            return [_compiled(one) for one in value]
        case _:
            return value


def looked_up(names: Names, path: Sequence[str]) -> object:
    """The value at a path of names, or None where there is none."""
    value = names.get(path[0])
    for step in path[1:]:
        if not isinstance(value, Mapping):
            return None
        value = value.get(step)
    return value


def as_text(value: object) -> str | None:
    """A scalar as text; None stays None. Raises Unsendable for an object or a list."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case _:
            raise Unsendable
