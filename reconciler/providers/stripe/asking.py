"""Asking Stripe, by GET alone: one object, or a list from its oldest part to its newest.

Guarantees that an answer is whole or a named problem, and that a list which is walked has no hole:
Stripe shows the newest first, so a stretch of time is read to its end, turned round, and the next
one follows. Lists are never behind (docs.stripe.com/search says that only searches are). Has no way
to make an effect. Used by the finder and the source of events.
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar
from urllib.parse import quote

from reconciler.providers.error_table import retry_after_ms
from reconciler.providers.http.answers import UnreadableAnswer, list_at, read_json, value_at
from reconciler.providers.http.pages import item_or_none, read_page
from reconciler.providers.http_exchange import Answered, Broken, Exchanges, Message, Trouble
from reconciler.providers.limits import LIST_PAGES_MAX
from reconciler.providers.lookups import Unanswered
from reconciler.providers.port import Deadlines
from reconciler.providers.stripe.effects import text_in
from reconciler.providers.stripe.forms import encode
from reconciler.providers.stripe.names import PAGE_MAX, USER_AGENT, VERSION
from reconciler.providers.stripe.outcomes import error_code

_OK: Final = 200
_LIST: Final = ("data",)
_MISSING: Final = frozenset({"resource_missing"})
_SPAN_SECONDS: Final = 3_600
_STRETCH_PAGES_MAX: Final = 20
"""Pages of one stretch; where there are more, the stretch is halved."""
_FEW_PAGES: Final = 5
AHEAD_SECONDS: Final = 60
"""How far Stripe's clock may be ahead of ours."""


_Item = TypeVar("_Item")
Reading: TypeAlias = Callable[[bytes], tuple[object, list[_Item]]]
"""What reads a page: its answer, and the items of its list. Raises UnreadableAnswer."""


@dataclass(frozen=True, slots=True)
class Page(Generic[_Item]):
    """What a list or a search shows at once; `limit` is how many objects fitted into an answer."""

    items: list[_Item]
    has_more: bool
    limit: int


def objects(raw: bytes) -> tuple[object, list[object]]:
    """A page whose objects are needed, every one; raises UnreadableAnswer."""
    answer = read_json(raw)
    return answer, list_at(answer, _LIST)


def as_written(raw: bytes) -> tuple[object, list[bytes]]:
    """A page whose objects are kept as they are, even if one of them cannot be read."""
    page = read_page(raw, _LIST)
    return page.answer, page.items


class Asking:
    """Asks on behalf of the accounts whose keys it holds."""

    def __init__(self, http: Exchanges, api_keys: Mapping[str, str]) -> None:
        self._http = http
        self._api_keys = api_keys

    @property
    def accounts(self) -> frozenset[str]:
        """Those that it can ask for."""
        return frozenset(self._api_keys)

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._http.close()

    async def one(self, account: str, resource: str, name: str, timeout_ms: int) -> object | None:
        """The object of this name, None where Stripe says that there is none; raises Unanswered."""
        path = f"{resource}/{quote(name, safe='')}"
        answered = await self._get(account, path, timeout_ms)
        answer = _read(answered)
        if answered.status == _OK:
            return answer
        code = error_code(answer, answered.status)
        if code in _MISSING:
            return None
        raise Unanswered(code, retry_after_ms(answered))

    async def page(
        self,
        account: str,
        resource: str,
        query: Mapping[str, object],
        timeout_ms: int,
        *,
        reading: Reading[_Item],
        limit: int = PAGE_MAX,
    ) -> Page[_Item]:
        """One page of a list or a search, of at most `limit` objects; raises Unanswered.

        Stripe's objects are of any size: where an answer is too large for us, half as many are
        asked for.
        """
        try:
            path = f"{resource}?{encode({**query, 'limit': limit}).decode()}"
            answered = await self._get(account, path, timeout_ms)
        except Unanswered as unanswered:
            if unanswered.code != Trouble.ANSWER_TOO_LARGE.value or limit == 1:
                raise
            fewer = limit // 2
            return await self.page(
                account, resource, query, timeout_ms, reading=reading, limit=fewer
            )
        if answered.status != _OK:
            code = error_code(_read(answered), answered.status)
            raise Unanswered(code, retry_after_ms(answered))
        try:
            answer, items = reading(answered.body)
        except UnreadableAnswer:
            raise Unanswered(Trouble.ANSWER_INVALID.value) from None
        has_more = value_at(answer, ("has_more",))
        if not isinstance(has_more, bool):
            # A list that does not say whether it goes on would pass for a whole one.
            raise Unanswered(Trouble.ANSWER_INVALID.value)
        return Page(items, has_more, limit)

    async def newest(
        self,
        account: str,
        resource: str,
        query: Mapping[str, object],
        timeout_ms: int,
        *,
        reading: Reading[_Item],
        pages_max: int,
    ) -> tuple[list[_Item], bool]:
        """What a query shows, newest first, up to so many full pages, and whether that is all;
        raises Unanswered.
        """
        shown: list[_Item] = []
        after: str | None = None
        limit = PAGE_MAX
        while len(shown) < pages_max * PAGE_MAX:
            page = await self.page(
                account,
                resource,
                {**query, "starting_after": after},
                timeout_ms,
                reading=reading,
                limit=limit,
            )
            if after is not None and not page.items:
                # The page before said that there is more: of such a list nothing is absent.
                raise Unanswered("list_not_whole")
            shown += page.items
            if not page.has_more:
                return shown, True
            after, limit = _cursor(page.items, after), page.limit
        return shown, False

    async def walk(
        self,
        account: str,
        resource: str,
        query: Mapping[str, object],
        since: int,
        timeout_ms: int,
        *,
        reading: Reading[_Item],
    ) -> AsyncIterator[list[_Item]]:
        """Everything since a time (seconds), oldest first, stretch by stretch; raises Unanswered.

        A stretch that holds too much is halved, one that holds little is doubled.
        """
        start, span = since, _SPAN_SECONDS
        until = int(time.time()) + AHEAD_SECONDS
        for _ in range(LIST_PAGES_MAX):
            if start > until:
                return
            asked = {**query, "created": {"gte": start, "lt": start + span}}
            shown, is_all = await self.newest(
                account,
                resource,
                asked,
                timeout_ms,
                reading=reading,
                pages_max=_STRETCH_PAGES_MAX,
            )
            if not is_all:
                if span == 1:
                    raise Unanswered("too_many_in_one_second")
                span = max(span // 2, 1)
                continue
            shown.reverse()
            yield shown
            start += span
            if len(shown) <= _FEW_PAGES * PAGE_MAX:
                span *= 2
        raise Unanswered("too_many_pages")

    async def _get(self, account: str, path: str, timeout_ms: int) -> Answered:
        api_key = self._api_keys.get(account)
        if api_key is None:
            raise Unanswered("account_not_configured")
        headers = (
            ("Authorization", f"Bearer {api_key}"),
            ("Stripe-Version", VERSION),
            ("User-Agent", USER_AGENT),
        )
        exchanged = await self._http.exchange(
            Message("GET", path, headers, credential=api_key),
            deadlines=Deadlines(connect_ms=timeout_ms, response_ms=timeout_ms),
        )
        if isinstance(exchanged, Broken):
            raise Unanswered(exchanged.trouble.value)
        return exchanged


def _read(answered: Answered) -> object:
    """The JSON of an answer; None where an error has none. Raises Unanswered."""
    try:
        return read_json(answered.body)
    except UnreadableAnswer:
        if answered.status == _OK:
            raise Unanswered(Trouble.ANSWER_INVALID.value) from None
        return None


def _cursor(items: Sequence[object], before: str | None) -> str:
    """The last object that has a name: what follows it is shown again where it is not the last."""
    for item in reversed(items):
        try:
            name = text_in(item_or_none(item) if isinstance(item, bytes) else item, "id")
        except UnreadableAnswer:
            continue
        if name != before:
            return name
    raise Unanswered(Trouble.ANSWER_INVALID.value)
