"""Asking Stripe, by GET alone: one object, or a list from its oldest part to its newest.

Guarantees that an answer is whole or a named problem, and that a list which is walked has no hole:
Stripe shows the newest first, so a stretch of time is read to its end, turned round, and the next
one follows. Lists are never behind (docs.stripe.com/search says that only searches are). Has no way
to make an effect. Used by the finder and the source of events.
"""

import time
from collections.abc import AsyncIterator, Mapping
from typing import Final
from urllib.parse import quote

from reconciler.providers.error_table import retry_after_ms
from reconciler.providers.http.answers import UnreadableAnswer, list_at, read_json, value_at
from reconciler.providers.http_exchange import Answered, Broken, Exchanges, Message, Trouble
from reconciler.providers.limits import LIST_PAGES_MAX
from reconciler.providers.looking import Unanswered
from reconciler.providers.port import Deadlines
from reconciler.providers.stripe.effects import text_in
from reconciler.providers.stripe.forms import encode
from reconciler.providers.stripe.names import PAGE_MAX, USER_AGENT, VERSION
from reconciler.providers.stripe.outcomes import error_code

_OK: Final = 200
_MISSING: Final = frozenset({"resource_missing"})
_SPAN_SECONDS: Final = 3_600
_STRETCH_PAGES_MAX: Final = 20
"""Pages of one stretch; where there are more, the stretch is halved."""
_FEW_PAGES: Final = 5
AHEAD_SECONDS: Final = 60
"""How far Stripe's clock may be ahead of ours."""


class Asking:
    """Asks on behalf of the accounts whose keys it holds."""

    def __init__(self, http: Exchanges, api_keys: Mapping[str, str]) -> None:
        self._http = http
        self._api_keys = dict(api_keys)

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
        self, account: str, resource: str, query: Mapping[str, object], timeout_ms: int
    ) -> tuple[list[object], bool]:
        """One page of a list or a search, and whether there is more; raises Unanswered."""
        path = f"{resource}?{encode(query).decode()}"
        answered = await self._get(account, path, timeout_ms)
        answer = _read(answered)
        if answered.status != _OK:
            raise Unanswered(error_code(answer, answered.status), retry_after_ms(answered))
        try:
            return list_at(answer, ("data",)), value_at(answer, ("has_more",)) is True
        except UnreadableAnswer:
            raise Unanswered(Trouble.ANSWER_INVALID.value) from None

    async def newest(
        self,
        account: str,
        resource: str,
        query: Mapping[str, object],
        timeout_ms: int,
        *,
        pages_max: int,
    ) -> tuple[list[object], bool]:
        """What a query shows, newest first, and whether that is all; raises Unanswered."""
        shown: list[object] = []
        after: str | None = None
        for _ in range(pages_max):
            asked = {**query, "limit": PAGE_MAX, "starting_after": after}
            page, has_more = await self.page(account, resource, asked, timeout_ms)
            shown += page
            if not has_more:
                return shown, True
            after = _cursor(page)
        return shown, False

    async def walk(
        self,
        account: str,
        resource: str,
        query: Mapping[str, object],
        since: int,
        timeout_ms: int,
    ) -> AsyncIterator[list[object]]:
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
                account, resource, asked, timeout_ms, pages_max=_STRETCH_PAGES_MAX
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


def _cursor(page: list[object]) -> str:
    try:
        return text_in(page[-1], "id")
    except (IndexError, UnreadableAnswer):
        raise Unanswered(Trouble.ANSWER_INVALID.value) from None
