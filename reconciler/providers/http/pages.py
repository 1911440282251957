"""A page of a list, taken apart before anything in it is understood.

Guarantees that an item comes out as the very bytes that the provider wrote, and that one which
cannot be read (half a character, a member twice, more levels than a reader takes) spoils no other
and not the page. Reads without recursion, so no depth is too much for it. Must never say what an
item means. Called by the sources of events and by whoever asks Stripe.
"""

import re
from dataclasses import dataclass
from typing import Final

from reconciler.providers.http.answers import (
    AnswerPath,
    UnreadableAnswer,
    list_at,
    read_json,
)

_TOKEN: Final = re.compile(
    rb'[ \t\r\n]*("(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^ \t\r\n"{}\[\],:]++)', re.DOTALL
)
_OPENS: Final = frozenset({b"{", b"["})
_CLOSES: Final = frozenset({b"}", b"]"})


@dataclass(frozen=True, slots=True)
class Page:
    """The answer without what is in the list, and every item of the list as it was written."""

    answer: object
    items: list[bytes]


@dataclass(slots=True)
class _Frame:
    """A value that is open, and the step to the one in it that is read."""

    is_list: bool
    index: int = 0
    name: str = ""

    @property
    def step(self) -> str:
        return str(self.index) if self.is_list else self.name


def read_page(raw: bytes, at: AnswerPath) -> Page:
    """Take a page apart whose list stands at a path; raises UnreadableAnswer for one without."""
    found = _list_span(raw, at)
    if found is None:
        raise UnreadableAnswer
    start, end, items = found
    answer = read_json(raw[: start + 1] + raw[end:])
    # The list must be where the reader sees it too: a name that is there twice is no place.
    list_at(answer, at)
    return Page(answer, items)


def item_or_none(item: bytes) -> object:
    """The value of an item; None where it cannot be read."""
    try:
        return read_json(item)
    except UnreadableAnswer:
        return None


def _list_span(raw: bytes, at: AnswerPath) -> tuple[int, int, list[bytes]] | None:
    """Where a list opens and closes, and what stands between its commas; None without it."""
    frames: list[_Frame] = []
    items: list[bytes] = []
    opened: int | None = None
    item_from = depth = end = 0
    awaits_name = False
    for token in _TOKEN.finditer(raw):
        text = token[1]
        if token.start() != end:
            # A text that is never closed: what follows it is anybody's guess.
            return None
        end = token.end()
        if opened is None and text == b"[" and tuple(frame.step for frame in frames) == at:
            opened, item_from, depth = token.start(1), token.end(1), len(frames)
        if text in _OPENS:
            frames.append(_Frame(is_list=text == b"["))
            awaits_name = text == b"{"
        elif text in _CLOSES:
            if not frames or frames.pop().is_list != (text == b"]"):
                return None
            if opened is not None and len(frames) == depth:
                last = raw[item_from : token.start(1)].strip()
                if items and not last:
                    return None
                return opened, token.start(1), [*items, last] if last else items
            awaits_name = False
        elif text == b"," and frames:
            frames[-1].index += 1
            awaits_name = not frames[-1].is_list
            if opened is not None and len(frames) == depth + 1:
                item, item_from = raw[item_from : token.start(1)].strip(), token.end(1)
                if not item:
                    # A list with a hole is no list: what stood there is anybody's guess.
                    return None
                items.append(item)
        elif awaits_name and frames and text[:1] == b'"':
            name = item_or_none(text)
            frames[-1].name = name if isinstance(name, str) else ""
            awaits_name = False
    return None
