"""A caller's text inside our own sentences: shortened, and with everything invisible spelled out.

Guarantees that no refusal, log line or screen is longer or says something else than its author
meant: controls, direction marks and half characters appear as their code. Called wherever a message
quotes what somebody sent.
"""

from ledger.core.limits import EXCERPT_CHARS_MAX

_BASIC_PLANE_END = 0xFFFF


def excerpt(text: str, *, chars_max: int = EXCERPT_CHARS_MAX) -> str:
    r"""The beginning of a text, an ellipsis where it was cut, `\\u202e` where a character cannot be
    seen.
    """
    # Cut before spelling out: the work is bounded by the limit, not by what was sent.
    shown = visible(text[:chars_max])
    if len(text) <= chars_max and len(shown) <= chars_max:
        return shown
    return f"{shown[: chars_max - 1]}…"


def visible(text: str) -> str:
    """The text with every character that cannot be seen written as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(ord(c)) for c in text)


def _escape(code: int) -> str:
    return f"\\u{code:04x}" if code <= _BASIC_PLANE_END else f"\\U{code:08x}"
