"""Paths of requests: each name in one is what was sent there, whatever characters stand in it.

Guarantees that a slash which was sent as `%2F` parts nothing, so a name with one reaches the route
that names it and is refused there; and that a path which only misses a route says which name is in
the way. Called by the outermost layer and by what answers that there is nothing.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from fastapi.routing import APIRoute
from starlette.requests import Request as HttpRequest
from starlette.routing import BaseRoute
from starlette.types import Scope

from gateway.http.problems import Trouble

_SLASH: Final = "%2F"
_SLASHES_MAX: Final = 32
"""Of a path that is looked at for what is wrong: looking takes the square of their number."""
_NAME: Final = re.compile(r"\{(\w+)\}")


def path_with_whole_names(scope: Scope) -> str:
    """The path of a request, decoded part by part: a slash within a name stays `%2F`, which no
    name may hold either.
    """
    raw: bytes = scope.get("raw_path") or b""
    if _SLASH.encode() not in raw.upper():
        return str(scope["path"])
    return "/".join(unquote(part).replace("/", _SLASH) for part in raw.decode("latin-1").split("/"))


def names_in_the_way(http: HttpRequest, routes: Iterable[BaseRoute]) -> tuple[Trouble, ...]:
    """What is wrong with the names of a path that no route takes and that one would take if names
    could be empty or hold a slash; nothing where the path is another one altogether.
    """
    if http.scope["path"].count("/") > _SLASHES_MAX:
        return ()
    best: tuple[int, dict[str, str]] | None = None
    for route in routes:
        if not isinstance(route, APIRoute) or http.method not in (route.methods or ()):
            continue
        found = _loosely(route.path_format).fullmatch(http.scope["path"])
        if found is None:
            continue
        names = found.groupdict()
        own_chars = len(http.scope["path"]) - sum(map(len, names.values()))
        if best is None or own_chars > best[0]:
            best = own_chars, names
    return () if best is None else tuple(_troubles(best[1]))


def methods_of(path: str, routes: Iterable[BaseRoute]) -> set[str]:
    """The methods that a path takes, by all routes of its kind; HEAD wherever GET is taken."""
    found: set[str] = set()
    for route in routes:
        if isinstance(route, APIRoute) and route.path_regex.fullmatch(path):
            found |= route.methods or set()
    return found | {"HEAD"} if "GET" in found else found


def _troubles(names: dict[str, str]) -> list[Trouble]:
    told = {name: _wrong(text) for name, text in names.items()}
    return [
        Trouble(path=f"/{name}", code="malformed_identifier", message=f"{name} {wrong}")
        for name, wrong in told.items()
        if wrong is not None
    ]


def _wrong(text: str) -> str | None:
    if not text:
        return "is empty: a name in a path has at least one character"
    return "holds a slash, which no name in a path does" if "/" in text else None


@lru_cache(maxsize=128)
def _loosely(template: str) -> re.Pattern[str]:
    """The template of a route with names that may be anything."""
    pieces = _NAME.split(template)
    return re.compile(
        "".join(
            f"(?P<{piece}>.*)" if number % 2 else re.escape(piece)
            for number, piece in enumerate(pieces)
        ),
        re.DOTALL,
    )
