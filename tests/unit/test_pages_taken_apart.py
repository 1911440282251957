"""A page of a list is taken apart without being understood."""

import asyncio
import json
import time
from collections.abc import Callable
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.providers.http.answers import AnswerPath, UnreadableAnswer
from reconciler.providers.http.pages import item_or_none, read_page
from reconciler.providers.http_exchange import Answered, Message
from reconciler.providers.port import Deadlines
from reconciler.providers.stripe.event_source import StripeEvents
from tests.patience import PATIENCE_MS

TEXTS = st.text(st.sampled_from('ab"\\[]{}:, é\n'), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(
    items=st.lists(VALUES, max_size=5),
    before=VALUES,
    after=VALUES,
    indent=st.sampled_from([None, 1]),
    is_ascii=st.booleans(),
)
def test_every_item_is_what_stood_there(
    items: list[object],
    before: object,
    after: object,
    indent: int | None,
    is_ascii: bool,  # noqa: FBT001 - drawn
) -> None:
    """Whatever stands in it and around it, and however it is laid out."""
    whole = {"0": before, "data": {"more": after, "l": [before, items, after]}, "1": after}
    raw = json.dumps(whole, indent=indent, ensure_ascii=is_ascii).encode()
    page = read_page(raw, ("data", "l", "1"))
    assert [json.loads(item) for item in page.items] == items
    assert all(item in raw for item in page.items)
    assert page.answer == {**whole, "data": {"more": after, "l": [before, [], after]}}


@pytest.mark.parametrize("items", ["1,2,", ",1", "1,,2", ","])
def test_a_list_with_a_hole_is_no_list(items: str) -> None:
    """Something stood there, and nobody can say what."""
    with pytest.raises(UnreadableAnswer):
        read_page(f'{{"data": [{items}]}}'.encode(), ("data",))


@pytest.mark.parametrize(
    ("raw", "at"),
    [
        (b"", ()),
        (b"]", ()),
        (b'"[1]"', ()),
        (b'{"data":[1,2', ("data",)),
        (b'{"data":[1,"a]}', ("data",)),
        (b'{"data":[1}]', ("data",)),
        (b'{"data":{}}', ("data",)),
        (b'{"data":"[1]"}', ("data",)),
        (b'{"data":[1],"data":[2]}', ("data",)),
        (b'{"data":[1],}', ("data",)),
        (b'{"more":{"data":[1]}}', ("data",)),
    ],
)
def test_what_has_no_list_there_is_unreadable(raw: bytes, at: AnswerPath) -> None:
    """Cut off, at another place, or there twice."""
    with pytest.raises(UnreadableAnswer):
        read_page(raw, at)


def test_no_depth_is_too_much() -> None:
    """An item that no reader takes is still an item."""
    deep = b"[" * 100_000 + b"]" * 100_000
    page = read_page(b'{"data":[1,%b,2],"more":true}' % deep, ("data",))
    assert (page.items, page.answer) == ([b"1", deep, b"2"], {"data": [], "more": True})
    assert item_or_none(deep) is None


class Pages:
    """Stripe's list of events, newest first, a few at a time."""

    def __init__(self, events: list[tuple[str, str]], size: int) -> None:
        self._events = events
        self._size = size

    async def exchange(
        self,
        message: Message,
        *,
        deadlines: Deadlines,
        before_first_byte: Callable[[], None] = lambda: None,
    ) -> Answered:
        """The page behind the name that is asked for."""
        _ = deadlines, before_first_byte
        names = [name for name, _ in self._events]
        after = parse_qs(message.path).get("starting_after")
        start = names.index(after[0]) + 1 if after else 0
        shown = self._events[start : start + self._size]
        more = json.dumps(start + self._size < len(self._events))
        data = ",".join(text for _, text in shown)
        return Answered(200, (), f'{{"has_more":{more},"data":[{data}]}}'.encode())

    async def close(self) -> None:
        """There is nothing to close."""


@pytest.mark.parametrize("size", [2, 3, 9])
@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize(
    "odd", ['"memo":"cut \\ud83d"', f'"memo":{"[" * 9_000}{"]" * 9_000}', '"id":"again"']
)
def test_an_odd_event_of_stripes_ends_no_reading(odd: str, at: int, size: int) -> None:
    """Wherever it stands, all of them are listed, it as it was written."""
    events = [(f"evt_{n}", f'{{"id":"evt_{n}"}}') for n in range(5)]
    events[at] = (events[at][0], f'{{"id":"{events[at][0]}",{odd}}}')
    source = StripeEvents("http://none", {"main": "sk_test_12345678"}, http=Pages(events, size))

    async def read() -> set[bytes]:
        since_at = (int(time.time()) - 60) * 1_000
        listing = source.list_events(account="main", since_at=since_at, timeout_ms=PATIENCE_MS)
        return {event.raw async for page in listing for event in page}

    assert asyncio.run(read()) == {text.encode() for _, text in events}
