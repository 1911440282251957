"""Canonical JSON: RFC 8785 for the values the ledger knows, which hold no floats.

Guarantees that equal values give equal bytes and different values different bytes, in every
language. Must never guess: a value that has no canonical form here is refused. Hashes are taken
over these bytes, and these bytes are what is kept.
"""

import json.encoder
from collections.abc import Callable
from typing import Any, Final

from ledger.core.limits import INTEGER_MAX, JSON_DEPTH_MAX


class NotCanonical(ValueError):
    """A value without a canonical form: a float, an integer beyond ±(2^53-1), half a character, a
    foreign type.
    """


# Escapes exactly what RFC 8785, 3.2.2.2 asks for: quote, backslash, and controls below U+0020 in
# their short form or as lower-case \u00xx. Compiled in CPython; the tests hold it to the oracle.
_quoted: Final[Callable[[str], str]] = json.encoder.encode_basestring


def canonicalize(value: object) -> bytes:
    """The RFC 8785 bytes of a value made of dict, list, tuple, str, int, bool and None; raises
    NotCanonical.
    """
    try:
        return _text(value, JSON_DEPTH_MAX).encode()
    except UnicodeEncodeError:
        raise NotCanonical("a text holds half of a surrogate pair") from None


def _text(value: Any, levels_left: int) -> str:  # noqa: ANN401 - any value may be asked about
    # Exact types, commonest first: a subclass may print itself in its own way, and True is an int.
    kind = type(value)
    if kind is str:
        return _quoted(value)
    if kind is dict:
        return _object(value, levels_left - 1)
    if kind is int:
        if not -INTEGER_MAX <= value <= INTEGER_MAX:
            raise NotCanonical(f"an integer is beyond ±{INTEGER_MAX}")
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if value is None:
        return "null"
    if kind is list or kind is tuple:
        if levels_left == 0:
            raise NotCanonical(f"more than {JSON_DEPTH_MAX} levels")
        return f"[{','.join([_text(item, levels_left - 1) for item in value])}]"
    raise NotCanonical(f"a value of type {kind.__name__} has no canonical form here")


def _object(members: dict[Any, Any], levels_left: int) -> str:
    if levels_left < 0:
        raise NotCanonical(f"more than {JSON_DEPTH_MAX} levels")
    try:
        keys = sorted(members)
        in_ascii = "".join(keys).isascii()
    except TypeError:
        raise NotCanonical("an object has a key that is not a text") from None
    if not in_ascii:
        # RFC 8785, 3.2.3 sorts by UTF-16 code units; code points order astral characters otherwise.
        keys.sort(key=lambda key: key.encode("utf-16-be"))
    texts = []
    for key in keys:
        value = members[key]
        # Most members are texts, and a call for each is a third of the time.
        text = _quoted(value) if type(value) is str else _text(value, levels_left)
        texts.append(f"{_quoted(key)}:{text}")
    return f"{{{','.join(texts)}}}"
