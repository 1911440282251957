"""Looks payments and refunds up at Stripe.

Guarantees that a search or a list only gives candidates: what is concluded comes from a direct read
of the object, and the evidence names that read. Nothing is called absent for an empty search, which
may be behind or plainly wrong (docs.stripe.com/search; stripe/stripe-python#908): absence rests on
the lists of payments and refunds, which are never behind, each read to its end: as far as they were
created while the effect can have come about, where the lookup is told when that was. A list that is
too long even so proves nothing, however far it was read, nor does what is shown and cannot be read.
What a bank has not answered yet is neither found nor absent.

Must never make an effect: it has no call but GET. Held by the inquirer.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Final

from reconciler.providers.http.answers import UnreadableAnswer
from reconciler.providers.http_exchange import Exchanges, HttpClient, Trouble
from reconciler.providers.limits import FURTHER_REFERENCES_MAX
from reconciler.providers.lookups import Unanswered, looked_up
from reconciler.providers.port import (
    Absent,
    Found,
    Inconclusive,
    ListedEffect,
    ListingFailed,
    Lookup,
    Span,
)
from reconciler.providers.stripe.asking import Asking, objects
from reconciler.providers.stripe.effects import Effect, effect_of, text_or_none
from reconciler.providers.stripe.names import (
    ACTION_KEY,
    CHARGES,
    PAYMENTS,
    REFUNDS,
)

PAGES_MAX: Final = 20
"""Pages of each list in one lookup. Where an account has more payments or refunds in the span of an
action, or in all where that is not known, there is no absence from here: what is not found is then
settled by the same key, a webhook or a person."""

CLOCK_SECONDS: Final = 600
"""How far Stripe's clock may be from the ledger's, either way; both are kept far closer."""

_PAGES_WHEN_FOUND: Final = 1
"""Enough for a second effect that the search does not know yet."""

_RESOURCES: Final = {"pi_": PAYMENTS, "re_": REFUNDS, "pyr_": REFUNDS}
_CHARGE: Final = ("ch_", "py_")
Places = dict[str, str]
"""Candidates: by the name of the object, the resource that it is read from."""


class StripeFinder:
    """Looks effects up at Stripe."""

    def __init__(
        self,
        base_url: str,
        api_keys: Mapping[str, str],
        *,
        http: Exchanges | None = None,
        pages_max: int = PAGES_MAX,
    ) -> None:
        """`api_keys` by account name; `http` stands in for the network. Nothing is opened yet;
        raises ValueError for the URL.
        """
        self._pages_max = pages_max
        self._asking = Asking(HttpClient(base_url) if http is None else http, api_keys)

    async def find(
        self,
        *,
        account: str,
        provider_key: str,
        action_key: str,
        reference: str | None,
        timeout_ms: int,
    ) -> Lookup:
        """Ask for the reference, search, list, and read what they show; see the port."""
        looking = self._find(account, provider_key, action_key, reference, timeout_ms, None)
        return await looked_up(looking, timeout_ms=timeout_ms)

    async def find_within(
        self,
        span: Span,
        *,
        account: str,
        provider_key: str,
        action_key: str,
        reference: str | None,
        timeout_ms: int,
    ) -> Lookup:
        """The same, listing only what was created while the effect can have come about."""
        looking = self._find(account, provider_key, action_key, reference, timeout_ms, span)
        return await looked_up(looking, timeout_ms=timeout_ms)

    async def list_effects(
        self, *, account: str, since_at: int, timeout_ms: int
    ) -> AsyncIterator[ListedEffect]:
        """Payments whose money moved and refunds that arrived, ours or not; see the port.

        Payments first, then refunds of the same stretch of time, by the second of Stripe's clock.
        What is pending is not listed: it is no effect yet.
        """
        walks = [
            self._asking.walk(account, resource, {}, since_at // 1000, timeout_ms, reading=objects)
            for resource in (PAYMENTS, REFUNDS)
        ]
        try:
            async for effect in _merged(walks):
                if effect.state == "exists" and effect.created_at >= since_at // 1000 * 1000:
                    yield _listed(effect, account)
        except Unanswered as unanswered:
            raise ListingFailed(unanswered.code) from None

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._asking.close()

    async def _find(
        self,
        account: str,
        provider_key: str,
        action_key: str,
        reference: str | None,
        timeout_ms: int,
        span: Span | None,
    ) -> Lookup:
        places: Places = {}
        if reference is not None:
            named = await self._named(account, reference, timeout_ms)
            if named is None:
                return Inconclusive("reference_not_found")
            places |= named
        searched = await self._searched(account, action_key, timeout_ms)
        read = await self._read_all(account, places | searched, timeout_ms)
        is_found = any(
            one.action_key == action_key and one.state == "exists" for one in read.values()
        )
        listed, strangers, problem = await self._listed(
            account,
            action_key,
            provider_key,
            timeout_ms,
            created={} if is_found or span is None else _created(span),
            pages_max=_PAGES_WHEN_FOUND if is_found else self._pages_max,
        )
        unread = {name: at for name, at in (listed | strangers).items() if name not in read}
        read = await self._read_all(account, unread, timeout_ms) | read
        if not (places | searched | listed | strangers).keys() <= read.keys():
            # What is shown and cannot be read is behind somewhere, and nobody knows where.
            problem = "shown_and_not_found"
        named_ones = places.keys() | strangers.keys()
        if any(read[name].action_key != action_key for name in named_ones & read.keys()):
            # Our key or reference leads to what is not ours: neither found nor absent.
            return Inconclusive("effect_of_another_action")
        # Lists and searches show the newest first.
        ours = [one for one in reversed(read.values()) if one.action_key == action_key]
        return _judged(ours, reference, problem)

    async def _named(self, account: str, reference: str, timeout_ms: int) -> Places | None:
        """Where the object of a reference is read; a charge leads to its payment."""
        for prefix, resource in _RESOURCES.items():
            if reference.startswith(prefix):
                there = await self._asking.one(account, resource, reference, timeout_ms)
                return None if there is None else {reference: resource}
        if not reference.startswith(_CHARGE):
            return None
        charge = await self._asking.one(account, CHARGES, reference, timeout_ms)
        try:
            payment = None if charge is None else text_or_none(charge, "payment_intent")
        except UnreadableAnswer:
            raise Unanswered(Trouble.ANSWER_INVALID.value) from None
        return None if payment is None else {payment: PAYMENTS}

    async def _searched(self, account: str, action_key: str, timeout_ms: int) -> Places:
        """Candidates that the index knows; refunds cannot be searched."""
        escaped = action_key.replace("\\", "\\\\").replace("'", "\\'")
        query = {"query": f"metadata['{ACTION_KEY}']:'{escaped}'"}
        shown = await self._asking.page(
            account, f"{PAYMENTS}/search", query, timeout_ms, reading=objects
        )
        # What it shows besides is not read: our mark is there from the first request on.
        marked = [one for one in map(_effect, shown.items) if one.action_key == action_key]
        return {one.reference: PAYMENTS for one in marked}

    async def _listed(
        self,
        account: str,
        action_key: str,
        provider_key: str,
        timeout_ms: int,
        *,
        created: Mapping[str, object],
        pages_max: int,
    ) -> tuple[Places, Places, str | None]:
        """Candidates in the lists, those under our key that bear another mark, and why the lists
        were not read to their end.
        """
        ours: Places = {}
        strangers: Places = {}
        problem: str | None = None
        for resource in (PAYMENTS, REFUNDS):
            shown, is_all = await self._asking.newest(
                account, resource, created, timeout_ms, reading=objects, pages_max=pages_max
            )
            if not is_all:
                problem = "too_many_to_look_through"
            for one in shown:
                effect = _effect(one)
                if effect.action_key == action_key:
                    ours[effect.reference] = resource
                elif effect.provider_key == provider_key:
                    strangers[effect.reference] = resource
        return ours, strangers, problem

    async def _read_all(self, account: str, places: Places, timeout_ms: int) -> dict[str, Effect]:
        """The objects themselves, as they are now: what everything is concluded from."""
        read: dict[str, Effect] = {}
        for name, resource in places.items():
            shown = await self._asking.one(account, resource, name, timeout_ms)
            if shown is not None:
                read[name] = _effect(shown)
        return read


def _created(span: Span) -> Mapping[str, object]:
    """What a list is asked for, in whole seconds of Stripe's clock."""
    since = span.since_at // 1000 - CLOCK_SECONDS
    until = -(-span.until_at // 1000) + CLOCK_SECONDS
    return {"created": {"gte": max(0, since), "lte": until}}


def _judged(ours: list[Effect], reference: str | None, problem: str | None) -> Lookup:
    """What the objects that were read, all of them ours, prove about the action."""
    exist = [one for one in ours if one.state == "exists"]
    if exist:
        exist.sort(key=lambda one: (one.reference != reference, one.created_at))
        first, *further = exist
        if first.money is None:
            return Inconclusive("amount_not_comparable")
        resource = REFUNDS if first.kind == "refund" else PAYMENTS
        return Found(
            reference=first.reference,
            money=first.money,
            result={**first.result, "read": f"GET {resource}/{first.reference}"},
            provider_key=first.provider_key,
            further_references=tuple(one.reference for one in further[:FURTHER_REFERENCES_MAX]),
        )
    pending = next((one for one in ours if one.state == "pending"), None)
    if pending is not None:
        return Inconclusive(f"{pending.kind}_pending")
    return Absent() if problem is None else Inconclusive(problem)


async def _merged(walks: list[AsyncIterator[list[object]]]) -> AsyncIterator[Effect]:
    """What several walks show, oldest first, each walk being so. Raises Unanswered."""
    heads = [_effects(walk) for walk in walks]
    waiting = [await anext(head, None) for head in heads]
    while True:
        there = [(one.created_at, nth) for nth, one in enumerate(waiting) if one is not None]
        if not there:
            return
        _, nth = min(there)
        effect = waiting[nth]
        waiting[nth] = await anext(heads[nth], None)
        if effect is not None:
            yield effect


async def _effects(walk: AsyncIterator[list[object]]) -> AsyncIterator[Effect]:
    async for stretch in walk:
        for one in stretch:
            yield _effect(one)


def _listed(effect: Effect, account: str) -> ListedEffect:
    return ListedEffect(
        reference=effect.reference,
        operation=effect.operation,
        account=account,
        money=effect.money,
        provider_key=effect.provider_key,
        action_key=effect.action_key,
        request_hash=effect.request_hash,
        committed_at=effect.created_at,
    )


def _effect(shown: object) -> Effect:
    try:
        return effect_of(shown)
    except UnreadableAnswer:
        raise Unanswered(Trouble.ANSWER_INVALID.value) from None
