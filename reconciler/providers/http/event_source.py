"""Reads a described provider's own list of events, by GET alone.

Guarantees that a list with a hole never passes for one without: a page that cannot be read ends it
with a name. An event's bytes are those of its object in the list, so they need not be those of the
webhook that was sent; its id is. One that cannot be read is brought as well, for a person, and ends
no reading. Has no way to make an effect. Built by the adapter, held by the inquirer.
"""

from collections.abc import AsyncIterator, Mapping

from reconciler.providers.events import EventsFailed, ListedEvent
from reconciler.providers.http.answers import (
    WHOLE,
    UnreadableAnswer,
    code_at,
    following_at,
    read_json,
    recorded,
    text_at,
    trouble_at,
)
from reconciler.providers.http.description import Description, Pull, written
from reconciler.providers.http.effects import holds
from reconciler.providers.http.finder import fewer_after, page_names
from reconciler.providers.http.pages import Page, item_or_none, read_page
from reconciler.providers.http.templates import Unsendable
from reconciler.providers.http_exchange import Answered, HttpClient, Message, Trouble
from reconciler.providers.limits import LIST_PAGES_MAX, LOOKUP_EFFECTS_MAX
from reconciler.providers.port import Deadlines


class HttpEventSource:
    """Lists events as a description says."""

    def __init__(
        self, description: Description, pull: Pull, base_url: str, api_keys: Mapping[str, str]
    ) -> None:
        """`api_keys` by account name. Nothing is opened yet; raises ValueError for the URL."""
        self._description = description
        self._pull = pull
        self._http = HttpClient(base_url)
        self._api_keys = api_keys
        self.interval_ms = pull.interval_ms
        self.overlap_ms = pull.overlap_ms
        self.kept_ms = pull.kept_ms

    @property
    def accounts(self) -> frozenset[str]:
        """Those whose credential is known here."""
        return frozenset(self._api_keys)

    async def list_events(
        self, *, account: str, since_at: int, timeout_ms: int
    ) -> AsyncIterator[tuple[ListedEvent, ...]]:
        """Page through the provider's list; see the port."""
        cursor, limit = self._pull.first_cursor, self._pull.limit
        for _ in range(LIST_PAGES_MAX):
            names = page_names(account, since_at, cursor, limit)
            try:
                answered = await self._page(account, names, timeout_ms)
            except EventsFailed as failed:
                if (fewer := fewer_after(failed.code, limit)) is None:
                    raise
                limit = fewer
                continue
            try:
                page = read_page(answered.body, self._pull.at)
                following = following_at(page.answer, self._pull.next)
                if len(page.items) > LOOKUP_EFFECTS_MAX:
                    raise UnreadableAnswer
            except UnreadableAnswer:
                raise EventsFailed(Trouble.ANSWER_INVALID.value) from None
            code = self._trouble(page)
            if code is not None:
                raise EventsFailed(code)
            yield tuple(map(self._event, page.items))
            if following is None:
                return
            if following == cursor:
                raise EventsFailed("cursor_repeats")
            cursor = following
        raise EventsFailed("too_many_pages")

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._http.close()

    def _trouble(self, page: Page) -> str | None:
        """Why a page is no part of the list, or None. Where the description asks something of each
        page that decides; else an empty one beside the provider's word for a problem is no end.
        """
        at = self._description.errors.code
        if self._pull.equals:
            is_good = holds(page.answer, self._pull.equals)
            return (
                None if is_good else recorded(code_at(page.answer, at)) or "answer_not_recognised"
            )
        return None if page.items else trouble_at(page.answer, at)

    def _event(self, raw: bytes) -> ListedEvent:
        webhook = self._description.webhook
        at = None if webhook is None else webhook.event_id
        try:
            return ListedEvent(None if at is None else text_at(item_or_none(raw), at), raw)
        except UnreadableAnswer:
            return ListedEvent(None, raw)

    async def _page(self, account: str, names: Mapping[str, object], timeout_ms: int) -> Answered:
        credential = self._api_keys.get(account)
        if credential is None:
            raise EventsFailed("account_not_configured")
        try:
            target = self._pull.target.target(names)
            headers = written(self._pull.headers, {**names, "credential": credential})
        except Unsendable:
            raise EventsFailed(Trouble.UNSENDABLE.value) from None
        exchanged = await self._http.exchange(
            Message("GET", target, headers, credential=credential),
            deadlines=Deadlines(connect_ms=timeout_ms, response_ms=timeout_ms),
        )
        if not isinstance(exchanged, Answered):
            raise EventsFailed(exchanged.trouble.value)
        if exchanged.status != WHOLE:
            raise EventsFailed(self._code(exchanged) or f"http_{exchanged.status}")
        return exchanged

    def _code(self, answered: Answered) -> str | None:
        try:
            return recorded(code_at(read_json(answered.body), self._description.errors.code))
        except UnreadableAnswer:
            return None
