"""The form encoding of Stripe's requests: `metadata[order]=A-1`, `expand[0]=latest_charge`.

Guarantees that the same parameters give the same bytes, in the order of their names, and that what
is no text, whole number or yes and no is refused instead of written as something else. The rules
are those of docs.stripe.com/api (requests are form-encoded), checked against the official package.
Pure. Used by the adapter and by the simulated server.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias
from urllib.parse import parse_qsl, urlencode

PAIRS_MAX = 200
DEPTH_MAX = 8

Form: TypeAlias = dict[str, "str | Form"]
"""A decoded form: entries of a list stand under their numbers."""


class MalformedForm(ValueError):
    """A text is no such form, or not in the shape that is asked for."""


class UnwritableForm(Exception):
    """A parameter cannot stand in a form; `path` says which one."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def encode(parameters: Mapping[str, object]) -> bytes:
    """The body, in ASCII; None is left out. Raises UnwritableForm."""
    pairs = sorted(_pairs(parameters, "", 0))
    if len(pairs) > PAIRS_MAX:
        raise UnwritableForm(pairs[PAIRS_MAX][0])
    try:
        return urlencode(pairs).encode("ascii")
    except UnicodeEncodeError:
        # Half a surrogate pair is no text that anybody could send.
        raise UnwritableForm(pairs[0][0]) from None


def _pairs(value: object, path: str, depth: int) -> Iterator[tuple[str, str]]:
    match value:
        case None:
            return
        case bool():
            yield path, "true" if value else "false"
        case int() | str() if path:
            yield path, str(value)
        case Mapping() if depth < DEPTH_MAX:
            for name, inner in value.items():
                if not isinstance(name, str) or not name or "[" in name or "]" in name:
                    raise UnwritableForm(path)
                yield from _pairs(inner, f"{path}[{name}]" if path else name, depth + 1)
        case Sequence() if not isinstance(value, str | bytes) and depth < DEPTH_MAX:
            for number, inner in enumerate(value):
                yield from _pairs(inner, f"{path}[{number}]", depth + 1)
        case _:
            raise UnwritableForm(path)


def decode(raw: bytes) -> Form:
    """The parameters of a body or a query; raises ValueError for what is no such form."""
    pairs = parse_qsl(
        raw.decode(), keep_blank_values=True, strict_parsing=bool(raw), max_num_fields=PAIRS_MAX
    )
    form: Form = {}
    for path, value in pairs:
        _place(form, path, value)
    return form


def _place(form: Form, path: str, value: str) -> None:
    head, _, rest = path.partition("[")
    steps = [head, *(step.removesuffix("]") for step in rest.split("[") if rest)]
    if len(steps) > DEPTH_MAX or not head:
        raise MalformedForm(f"{path} is no parameter")
    here = form
    for step in steps[:-1]:
        inner = here.setdefault(step, {})
        if not isinstance(inner, dict):
            raise MalformedForm(f"{path} stands beside a value")
        here = inner
    last = steps[-1] or str(len(here))
    if last in here:
        raise MalformedForm(f"{path} is there twice")
    here[last] = value


def text_of(form: Form, name: str) -> str | None:
    """A parameter that is one text, or None; raises ValueError for one with parts."""
    value = form.get(name)
    if isinstance(value, dict):
        raise MalformedForm(f"{name} has parts")
    return value or None


def part_of(form: Form, name: str) -> dict[str, str]:
    """A parameter with parts, one level deep, or an empty one; raises ValueError."""
    value = form.get(name, {})
    if not isinstance(value, dict):
        raise MalformedForm(f"{name} has no parts")
    return {key: inner for key, inner in value.items() if isinstance(inner, str)}
