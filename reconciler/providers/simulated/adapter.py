"""The adapter of the simulated provider: our words to its HTTP API and back.

Guarantees the promises of the port. A success counts only if it names our action, our account and
our amount; a lookup says absent only if every search it made was answered. Must never share code
with the server beyond the forms on the wire. Built by the registry.
"""

import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final, TypeVar, assert_never
from urllib.parse import quote, urlencode

import orjson
from pydantic import JsonValue, ValidationError

from ledger.core.inputs import OTHER_AMOUNT
from ledger.core.strict_json import MalformedJson, parse
from ledger.core.wire import Wire
from reconciler.providers.error_table import DEFAULT, judge, retry_after_ms
from reconciler.providers.http_exchange import (
    Answered,
    Broken,
    Exchanges,
    HttpClient,
    Message,
    Trouble,
)
from reconciler.providers.limits import (
    ANSWER_BYTES_MAX,
    CODE_CHARS_MAX,
    FURTHER_REFERENCES_MAX,
    LIST_PAGES_MAX,
)
from reconciler.providers.lookups import Unanswered, looked_up
from reconciler.providers.port import (
    Absent,
    Deadlines,
    Declined,
    Found,
    Inconclusive,
    ListedEffect,
    ListingFailed,
    Lookup,
    NotSent,
    Outcome,
    ProviderRequest,
    Retry,
    Succeeded,
    Unresolved,
)
from reconciler.providers.simulated.api import (
    JSON_DEPTH_MAX,
    KEY_HEADER,
    Effect,
    EffectAnswer,
    ListAnswer,
    ProblemAnswer,
    SearchAnswer,
)

_CODE: Final = re.compile(rf"[a-z0-9_]{{1,{CODE_CHARS_MAX}}}")
_OK: Final = 200
_NOT_FOUND: Final = 404
_Form = TypeVar("_Form", bound=Wire)
_NOT_OFFERED: Final = frozenset({"keys_not_supported"})


class SimulatedPerformer:
    """Makes effects at a simulated provider."""

    def __init__(
        self, base_url: str, api_keys: Mapping[str, str], *, http: Exchanges | None = None
    ) -> None:
        """`api_keys` by account name; `http` stands in for the network. Nothing is opened yet."""
        self._http = HttpClient(base_url) if http is None else http
        self._api_keys = dict(api_keys)

    async def perform(
        self,
        request: ProviderRequest,
        *,
        provider_key: str,
        deadlines: Deadlines,
        before_first_byte: Callable[[], None],
    ) -> Outcome:
        """Make one call; see the port."""
        api_key = self._api_keys.get(request.account)
        if api_key is None:
            return NotSent("account_not_configured", Retry.LATER)
        try:
            message = _message(request, provider_key, api_key)
        except TypeError:
            return NotSent(Trouble.UNSENDABLE.value, Retry.NEVER)
        try:
            exchanged = await self._http.exchange(
                message, deadlines=deadlines, before_first_byte=before_first_byte
            )
        except Declined as declined:
            return NotSent(declined.code, Retry.LATER)
        return outcome_of(request, exchanged)

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._http.close()


class SimulatedFinder:
    """Looks effects up at a simulated provider."""

    def __init__(
        self, base_url: str, api_keys: Mapping[str, str], *, http: Exchanges | None = None
    ) -> None:
        """`api_keys` by account name; `http` stands in for the network. Nothing is opened yet."""
        self._http = HttpClient(base_url) if http is None else http
        self._api_keys = dict(api_keys)

    async def find(
        self,
        *,
        account: str,
        provider_key: str,
        action_key: str,
        reference: str | None,
        timeout_ms: int,
    ) -> Lookup:
        """Ask for the reference, then search by key and by action key; see the port."""
        looking = self._find(account, provider_key, action_key, reference, timeout_ms)
        return await looked_up(looking, timeout_ms=timeout_ms)

    async def list_effects(
        self, *, account: str, since_at: int, timeout_ms: int
    ) -> AsyncIterator[ListedEffect]:
        """Page through the provider's list; see the port."""
        after = "0"
        for _ in range(LIST_PAGES_MAX):
            query = urlencode({"since": since_at, "after": after})
            try:
                raw = await self._ask(account, f"/v1/effects/list?{query}", timeout_ms)
                page = read_form(ListAnswer, raw)
            except Unanswered as unanswered:
                raise ListingFailed(unanswered.code) from None
            for effect in page.effects:
                yield _listed(effect)
            if page.next is None:
                return
            after = page.next
        raise ListingFailed("too_many_pages")

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._http.close()

    async def _find(
        self,
        account: str,
        provider_key: str,
        action_key: str,
        reference: str | None,
        timeout_ms: int,
    ) -> Lookup:
        found: dict[str, Effect] = {}
        if reference is not None:
            path = f"/v1/effects/{quote(reference, safe='')}"
            named = await self._ask(account, path, timeout_ms)
            if named.status != _NOT_FOUND:
                effect = read_form(Effect, named)
                found[effect.id] = effect
        untils: list[int] = []
        for mark, value in (("key", provider_key), ("action_key", action_key)):
            path = f"/v1/effects?{urlencode({mark: value})}"
            answered = await self._ask(account, path, timeout_ms)
            if answered.status != _OK and _code(answered) in _NOT_OFFERED:
                continue
            shown = read_form(SearchAnswer, answered)
            found |= {effect.id: effect for effect in shown.effects}
            untils.append(shown.searched_until_at)
        return _judged(found, account, action_key, reference, min(untils, default=None))

    async def _ask(self, account: str, path: str, timeout_ms: int) -> Answered:
        """One GET; raises Unanswered when there is no answer at all."""
        api_key = self._api_keys.get(account)
        if api_key is None:
            raise Unanswered("account_not_configured")
        exchanged = await self._http.exchange(
            Message("GET", path, (("Authorization", f"Bearer {api_key}"),), credential=api_key),
            deadlines=Deadlines(connect_ms=timeout_ms, response_ms=timeout_ms),
        )
        match exchanged:
            case Answered():
                return exchanged
            case Broken(trouble):
                raise Unanswered(trouble.value)
            case _:
                assert_never(exchanged)


def _message(request: ProviderRequest, provider_key: str, api_key: str) -> Message:
    """The same request and key give the same bytes; raises TypeError for what is no JSON."""
    money = request.money
    body: dict[str, object] = {
        "version": request.version,
        "target": request.target,
        "amount": None if money is None else {"minor": money.minor, "currency": money.currency},
        "params": request.params,
        # The reference is for accounts that enforce it instead of a key.
        "reference": provider_key,
        "metadata": {"action_key": request.action_key, "request_hash": request.request_hash},
    }
    if request.original_reference is not None:
        body["original"] = request.original_reference
    return Message(
        "POST",
        f"/v1/effects/{quote(request.operation, safe='')}",
        (
            ("Authorization", f"Bearer {api_key}"),
            ("Content-Type", "application/json"),
            (KEY_HEADER, provider_key),
        ),
        orjson.dumps(body, default=dict, option=orjson.OPT_SORT_KEYS),
        api_key,
    )


def outcome_of(request: ProviderRequest, exchanged: Answered | Broken) -> Outcome:
    """What one exchange proves about the effect that was asked for."""
    if isinstance(exchanged, Broken) or exchanged.status != _OK:
        code = _code(exchanged) if isinstance(exchanged, Answered) else None
        return judge(exchanged, DEFAULT, code)
    try:
        answer = read_form(EffectAnswer, exchanged)
    except Unanswered as unanswered:
        return Unresolved(unanswered.code)
    effect = answer.effect
    if effect.metadata.action_key != request.action_key or effect.account != request.account:
        return Unresolved("answer_for_another_action")
    if effect.amount != request.money:
        return Unresolved(OTHER_AMOUNT)
    return Succeeded(effect.id, _result(effect))


def _judged(
    found: Mapping[str, Effect],
    account: str,
    action_key: str,
    reference: str | None,
    searched_until_at: int | None,
) -> Lookup:
    """What the effects that were shown prove about this action."""
    ours = [
        effect
        for effect in found.values()
        if effect.account == account and effect.metadata.action_key == action_key
    ]
    if len(ours) < len(found):
        # Our key or reference leads to what is not ours: neither found nor absent.
        return Inconclusive("effect_of_another_action")
    if not ours:
        if reference is not None:
            return Inconclusive("reference_not_found")
        if searched_until_at is None:
            return Inconclusive("no_search_offered")
        return Absent(searched_until_at)
    ours.sort(key=lambda effect: (effect.id != reference, effect.committed_at))
    first, *further = ours
    return Found(
        reference=first.id,
        money=first.amount,
        result=_result(first),
        provider_key=first.key,
        further_references=tuple(effect.id for effect in further[:FURTHER_REFERENCES_MAX]),
    )


def _result(effect: Effect) -> dict[str, JsonValue]:
    """What of the provider's object is worth keeping: bounded, and without personal fields."""
    amount = effect.amount
    return {
        "id": effect.id,
        "operation": effect.operation,
        "committed_at": effect.committed_at,
        "amount": None if amount is None else {"minor": amount.minor, "currency": amount.currency},
    }


def _listed(effect: Effect) -> ListedEffect:
    return ListedEffect(
        reference=effect.id,
        operation=effect.operation,
        account=effect.account,
        money=effect.amount,
        provider_key=effect.key,
        action_key=effect.metadata.action_key,
        request_hash=effect.metadata.request_hash,
        committed_at=effect.committed_at,
    )


def read_form(form: type[_Form], answered: Answered) -> _Form:
    """The answer in this form; raises Unanswered with the provider's code, or its status."""
    if answered.status != _OK:
        raise Unanswered(_code(answered) or f"http_{answered.status}", retry_after_ms(answered))
    try:
        value = parse(answered.body, depth_max=JSON_DEPTH_MAX, bytes_max=ANSWER_BYTES_MAX)
        return form.model_validate(value)
    except (MalformedJson, ValidationError):
        raise Unanswered(Trouble.ANSWER_INVALID.value) from None


def _code(answered: Answered) -> str | None:
    """The provider's own code for a problem, if it is one that can be recorded as a code."""
    try:
        value = parse(answered.body, depth_max=JSON_DEPTH_MAX, bytes_max=ANSWER_BYTES_MAX)
        code = ProblemAnswer.model_validate(value).error.code
    except (MalformedJson, ValidationError):
        return None
    return code if _CODE.fullmatch(code) else None
