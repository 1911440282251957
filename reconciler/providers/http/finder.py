"""Looks effects up at a described provider, by GET alone.

Guarantees that absent is said only if every search that can be asked was answered whole, that an
object which failed or is still at work is no effect, and that a list with a hole never passes for
one without. Has no way to make an effect. Built by the
registry, held by inquirer and reconciler.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, assert_never

from reconciler.providers.error_table import retry_after_ms
from reconciler.providers.http.answers import (
    WHOLE,
    UnreadableAnswer,
    code_at,
    following_at,
    list_at,
    read_json,
    recorded,
    time_at,
    trouble_at,
    value_at,
)
from reconciler.providers.http.description import Call, Description, Equals, Errors, Find, Shape
from reconciler.providers.http.effects import ShownEffect, holds, is_ours, read_effect
from reconciler.providers.http.templates import Names, Unsendable
from reconciler.providers.http_exchange import Answered, Broken, HttpClient, Message, Trouble
from reconciler.providers.limits import (
    FURTHER_REFERENCES_MAX,
    LIST_PAGES_MAX,
    LOOKUP_EFFECTS_MAX,
)
from reconciler.providers.lookups import Unanswered, looked_up
from reconciler.providers.port import (
    Absent,
    Deadlines,
    Found,
    Inconclusive,
    ListedEffect,
    ListingFailed,
    Lookup,
)

_EMPTY: Final = 204
_LATEST_SECONDS: Final = 253_402_300_799
"""The end of the year 9999, the last that a date can be written for."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The action that is looked for."""

    account: str
    provider_key: str
    action_key: str
    reference: str | None
    timeout_ms: int

    @property
    def names(self) -> Names:
        return {
            "account": self.account,
            "provider_key": self.provider_key,
            "action_key": self.action_key,
            "reference": self.reference,
        }


@dataclass(frozen=True, slots=True)
class _Shown:
    """What one search showed; `is_search` where an empty answer is word of an absence."""

    effects: list[tuple[ShownEffect, Shape]]
    is_search: bool
    searched_until_at: int | None = None


class HttpFinder:
    """Looks effects up as a description says."""

    def __init__(
        self, description: Description, base_url: str, api_keys: Mapping[str, str]
    ) -> None:
        """`api_keys` by account name. Nothing is opened yet; raises ValueError for the URL."""
        self._description = description
        self._http = HttpClient(base_url)
        self._api_keys = api_keys

    async def find(
        self,
        *,
        account: str,
        provider_key: str,
        action_key: str,
        reference: str | None,
        timeout_ms: int,
    ) -> Lookup:
        """Ask every search that the description knows, in its order; see the port."""
        wanted = _Wanted(account, provider_key, action_key, reference, timeout_ms)
        return await looked_up(self._find(wanted), timeout_ms=timeout_ms)

    async def list_effects(
        self, *, account: str, since_at: int, timeout_ms: int
    ) -> AsyncIterator[ListedEffect]:
        """Page through the provider's list; see the port."""
        listing = self._description.listing
        if listing is None:
            raise ListingFailed("listing_not_described")
        cursor, limit, latest_at = listing.first_cursor, listing.limit, 0
        for _ in range(LIST_PAGES_MAX):
            names = page_names(account, since_at, cursor, limit)
            try:
                answered = await self._ask(account, listing.call, names, timeout_ms)
                answer = _read(answered, self._description.errors, listing.equals)
                effects = _effects(answer, listing.call)
                if not effects:
                    _no_trouble(answer, self._description.errors, listing.equals)
                following = following_at(answer, listing.next)
            except Unanswered as unanswered:
                if (fewer := fewer_after(unanswered.code, limit)) is None:
                    raise ListingFailed(unanswered.code) from None
                limit = fewer
                continue
            except UnreadableAnswer:
                raise ListingFailed(Trouble.ANSWER_INVALID.value) from None
            for effect in effects:
                if effect.state != "exists":
                    continue
                listed = _listed(effect, account)
                if listed.committed_at < latest_at:
                    # Whoever lists on from the last effect seen would leave some out.
                    raise ListingFailed("list_out_of_order")
                latest_at = listed.committed_at
                if latest_at >= since_at:
                    yield listed
            if following is None:
                return
            if following == cursor:
                raise ListingFailed("cursor_repeats")
            cursor = following
        raise ListingFailed("too_many_pages")

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._http.close()

    async def _find(self, wanted: _Wanted) -> Lookup:
        shown = [await self._search(find, wanted) for find in self._asked(wanted.reference)]
        return _judged([one for one in shown if one is not None], wanted)

    def _asked(self, reference: str | None) -> list[Find]:
        finds = self._description.finds
        return [find for find in finds if find.by != "reference" or reference is not None]

    async def _search(self, find: Find, wanted: _Wanted) -> _Shown | None:
        """What one search shows; None if this account has no such search. Raises Unanswered."""
        errors = self._description.errors
        answered = await self._ask(wanted.account, find.call, wanted.names, wanted.timeout_ms)
        if _is_not_offered(find, answered, errors):
            return None
        is_search = find.by != "reference"
        if _is_absent(find, answered, errors):
            return _Shown([], is_search)
        answer = _read(answered, errors, find.equals)
        until = find.searched_until
        try:
            if find.more is not None and _says_more(value_at(answer, find.more)):
                raise Unanswered("search_not_whole")
            found = _found(answer, find)
            if not found:
                _no_trouble(answer, errors, find.equals)
            return _Shown(
                [(effect, find.call.shape) for effect in found],
                is_search,
                None if until is None else time_at(answer, until.path, until.unit),
            )
        except UnreadableAnswer:
            raise Unanswered(Trouble.ANSWER_INVALID.value) from None

    async def _ask(self, account: str, call: Call, names: Names, timeout_ms: int) -> Answered:
        """One GET; raises Unanswered when there is no answer at all."""
        credential = self._api_keys.get(account)
        if credential is None:
            raise Unanswered("account_not_configured")
        try:
            target = call.target.target(names)
            headers = call.written_headers({**names, "credential": credential})
        except Unsendable:
            raise Unanswered(Trouble.UNSENDABLE.value) from None
        exchanged = await self._http.exchange(
            Message("GET", target, headers, credential=credential),
            deadlines=Deadlines(connect_ms=timeout_ms, response_ms=timeout_ms),
        )
        match exchanged:
            case Answered():
                return exchanged
            case Broken(trouble):
                raise Unanswered(trouble.value)
            case _:
                assert_never(exchanged)


def _is_not_offered(find: Find, answered: Answered, errors: Errors) -> bool:
    for status, code in find.not_offered:
        if answered.status == status and code in {None, _code(answered, errors)}:
            return True
    return False


def _is_absent(find: Find, answered: Answered, errors: Errors) -> bool:
    if answered.status not in find.absent_statuses:
        return False
    bodiless = answered.status == _EMPTY
    return bodiless or not find.absent_codes or _code(answered, errors) in find.absent_codes


def _read(answered: Answered, errors: Errors, equals: Equals) -> object:
    """The answer's value; raises Unanswered with the provider's code, or its status."""
    if answered.status != WHOLE:
        code = recorded(_code(answered, errors)) or f"http_{answered.status}"
        raise Unanswered(code, retry_after_ms(answered))
    try:
        answer = read_json(answered.body)
    except UnreadableAnswer:
        raise Unanswered(Trouble.ANSWER_INVALID.value) from None
    if not holds(answer, equals):
        raise Unanswered(recorded(code_at(answer, errors.code)) or "answer_not_recognised")
    return answer


def _no_trouble(answer: object, errors: Errors, equals: Equals) -> None:
    """An empty list beside the provider's word for a problem is no answer; raises Unanswered. Where
    the description asks something of the answer itself, that decides.
    """
    if not equals and (code := trouble_at(answer, errors.code)) is not None:
        raise Unanswered(code)


def _code(answered: Answered, errors: Errors) -> str | None:
    try:
        return code_at(read_json(answered.body), errors.code)
    except UnreadableAnswer:
        return None


def _says_more(value: object) -> bool:
    """Anything but false, null or an empty text: a flag, or the cursor of what follows."""
    return not (value is None or value is False or value == "")


def _found(answer: object, find: Find) -> list[ShownEffect]:
    if find.answers == "list":
        return _effects(answer, find.call)
    return [read_effect(value_at(answer, find.call.at), find.call.shape)]


def _effects(answer: object, call: Call) -> list[ShownEffect]:
    shown = list_at(answer, call.at)
    if len(shown) > LOOKUP_EFFECTS_MAX:
        raise UnreadableAnswer
    return [read_effect(one, call.shape) for one in shown]


def _judged(shown: list[_Shown], wanted: _Wanted) -> Lookup:
    """What the effects that were shown prove about this action."""
    effects: dict[tuple[Shape, str], tuple[ShownEffect, Shape]] = {}
    for effect, shape in (one for search in shown for one in search.effects):
        # Two kinds of objects may be numbered alike.
        known, _ = effects.setdefault((shape, effect.reference), (effect, shape))
        if known.state != effect.state:
            # One of the searches is behind, and nobody knows which.
            effects[shape, effect.reference] = replace(known, state="pending"), shape
    ours = [
        effect
        for effect, shape in effects.values()
        if is_ours(
            effect,
            shape,
            account=wanted.account,
            action_key=wanted.action_key,
            provider_key=wanted.provider_key,
        )
    ]
    if len(ours) < len(effects):
        # Our key or reference leads to what is not ours: neither found nor absent.
        return Inconclusive("effect_of_another_action")
    searches = [search for search in shown if search.is_search]
    exist = [one for one in ours if one.state == "exists"]
    if not exist:
        unsettled = {one.state for one in ours} - {"none"}
        if unsettled:
            code = "effect_in_part" if "in_part" in unsettled else "effect_pending"
            return Inconclusive(code)
        if wanted.reference not in {None, *(one.reference for one in ours)}:
            return Inconclusive("reference_not_found")
        if not searches:
            return Inconclusive("no_search_offered")
        untils = [one.searched_until_at for one in searches if one.searched_until_at is not None]
        return Absent(min(untils, default=None))
    exist.sort(key=lambda one: (one.reference != wanted.reference, one.committed_at or 0))
    first, *further = exist
    return Found(
        reference=first.reference,
        money=first.money,
        result=first.result,
        provider_key=first.provider_key,
        further_references=tuple(one.reference for one in further[:FURTHER_REFERENCES_MAX]),
    )


def _listed(effect: ShownEffect, account: str) -> ListedEffect:
    """One line of the list; the list is the account's where the effect does not say so itself."""
    if effect.operation is None or effect.committed_at is None:
        raise ListingFailed(Trouble.ANSWER_INVALID.value)
    return ListedEffect(
        reference=effect.reference,
        operation=effect.operation,
        account=effect.account or account,
        money=effect.money,
        provider_key=effect.provider_key,
        action_key=effect.action_key,
        request_hash=effect.request_hash,
        committed_at=effect.committed_at,
    )


def page_names(
    account: str, since_at: int, cursor: str | None, limit: int | None
) -> Mapping[str, object]:
    """What the request for one page of a list may name; `since_at` in milliseconds."""
    at = datetime.fromtimestamp(min(since_at // 1000, _LATEST_SECONDS), UTC)
    return {
        "account": account,
        "cursor": cursor,
        "limit": limit,
        "since_ms": since_at,
        # Rounded down: a moment too early is left out again when the answer is read.
        "since_seconds": since_at // 1000,
        "since_rfc3339": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def fewer_after(code: str, limit: int | None) -> int | None:
    """How many items the same page is asked for after this trouble, or None for no other way."""
    if code != Trouble.ANSWER_TOO_LARGE.value or limit is None or limit == 1:
        return None
    return limit // 2
