"""One call of an agent's own function under the ledger: offered, started, run at most once, told.

Guarantees that the function runs only after the ledger has started an attempt for this very call,
at most once, and not beyond the attempt's deadline; and that what is said of it afterwards is what
is known: an exception is never taken for "nothing happened". Must never run the function because an
earlier answer was lost. Called by `Ledger.perform`.
"""

import asyncio
import inspect
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

from pydantic import JsonValue

from actionledger.errors import (
    ActionRaised,
    CallerMistake,
    LedgerTrouble,
    OutcomeNotRecorded,
    UnknownAction,
)
from actionledger.exchange import LOST, Exchange
from actionledger.results import Blocked, Pending, Result
from actionledger.wire import Intent, Start, intent_bytes, read_reply, read_start

OFFERS_MAX: Final = 32
"""Offers of one call; each is a record in the log."""

OFFER_MS_MAX: Final = 30_000
"""How long one offer stands. The call waits for as long, and a little longer for the answer."""

OFFER_AGAIN_MS: Final = 2_000
"""How often a call offers again while its action waits and nobody else acts."""

UNDECIDED_GRACE_MS: Final = 15_000
"""An offer that was spent in its last moment is heard of within this time."""

REFERENCE_CHARS_MAX: Final = 1_024
CODE_CHARS_MAX: Final = 128
RESULT_BYTES_MAX: Final = 32_768
ENDING_S: Final = 3.0
"""How long a call that is being cancelled still tries to say what it knows."""

Retry: TypeAlias = Literal["never", "later"]


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect exists; `reference` is the provider's name for it. Return it from the function.

    `result` is kept with the action as JSON, numbers as integers; what is no such JSON is left out.
    """

    reference: str
    result: Mapping[str, Any] = field(default_factory=dict)


class EffectRefused(Exception):
    """Raise it where the provider definitely said no: there is no effect of this call.

    `retry` says whether the same may be accepted later. It is proof only where the catalogue takes
    the caller's word for it; else the action is unknown until the provider was asked.
    """

    def __init__(self, code: str, *, retry: Retry = "never") -> None:
        super().__init__(code)
        self.code = code
        self.retry = retry


class EffectNotSent(Exception):
    """Raise it where nothing was asked of any provider. As good a proof as `EffectRefused`."""

    def __init__(self, code: str, *, retry: Retry = "later") -> None:
        super().__init__(code)
        self.code = code
        self.retry = retry


class EffectUnknown(Exception):
    """Raise it where the provider was asked and it is not known what came of it."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Call:
    """What the function is given: the key for the provider, and how long it may take.

    `provider_key` is the same for every attempt of the action: send it as the provider's
    idempotency key, so that the same act cannot happen twice there.
    """

    key: str
    provider_key: str
    attempt: int
    ends_at_s: float
    clock: Callable[[], float]

    @property
    def seconds_left(self) -> float:
        """Until the function is stopped; never below 0."""
        return max(0.0, self.ends_at_s - self.clock())


Act: TypeAlias = Callable[[Call], Awaitable[Effect]]
"""The function: makes the effect, and says how the provider calls it."""


@dataclass(frozen=True, slots=True)
class _Told:
    """What is known after the function ended, and what it raised that nobody expects."""

    outcome: dict[str, Any]
    effect: Effect | None = None
    raised: Exception | None = None


class Performance:
    """One call, from its first offer to the outcome."""

    def __init__(
        self, exchange: Exchange, intent: Intent, act: Act, clock: Callable[[], float]
    ) -> None:
        self._exchange = exchange
        self._intent = intent
        self._act = act
        self._clock = clock

    async def run(self, wait_ms: int) -> Result:
        """Offer until this call is started, somebody else has settled it, or the time is up."""
        give_up_at_s = self._clock() + wait_ms / 1_000
        result: Result | None = None
        for _ in range(OFFERS_MAX):
            left_ms = max(1, self._left_ms(give_up_at_s))
            nonce, sent_at_s = secrets.token_hex(16), self._clock()
            result, start = await self._offer(nonce, sent_at_s, min(left_ms, OFFER_MS_MAX))
            if start is not None:
                return await self._perform(result.key, nonce, start, sent_at_s)
            result = await self._later(result, self._left_ms(give_up_at_s))
            if not _goes_on(result) or self._left_ms(give_up_at_s) <= 0:
                break
        assert result is not None  # noqa: S101 - there was at least one offer
        return result

    async def _offer(
        self, nonce: str, sent_at_s: float, valid_ms: int
    ) -> tuple[Result, Start | None]:
        """Propose with an offer, and again with the same one as long as it may have been spent."""
        caller: dict[str, JsonValue] = {"nonce": nonce, "valid_ms": valid_ms}
        body = intent_bytes(self._intent, caller)
        give_up_at_s = sent_at_s + (valid_ms + UNDECIDED_GRACE_MS) / 1_000
        while True:
            reply = await self._exchange.ask("POST", "/v1/actions", query={"wait_ms": 0}, body=body)
            result, start = read_reply(reply, self._intent), read_start(reply)
            if not isinstance(result, Pending) or result.status != "undecided":
                return result, start
            if self._left_ms(give_up_at_s) <= 0:
                return result, None
            await self._ask_again(result, OFFER_AGAIN_MS)

    async def _later(self, result: Result, left_ms: int) -> Result:
        """How the action stands once it has moved: soon where it only waits for an offer."""
        if not isinstance(result, Pending | Blocked) or not _goes_on(result) or left_ms <= 0:
            return result
        waits_for_offer = isinstance(result, Blocked) or result.status != "attempting"
        return await self._ask_again(
            result, min(left_ms, OFFER_AGAIN_MS if waits_for_offer else left_ms)
        )

    async def _ask_again(self, result: Pending | Blocked, wait_ms: int) -> Result:
        wait_ms = min(wait_ms, OFFER_MS_MAX)
        reply = await self._exchange.follow(
            _path(result.key), after_version=result.version, wait_ms=wait_ms, clock=self._clock
        )
        try:
            return read_reply(reply, result.key)
        except UnknownAction:
            # It is durable, and nobody has decided it: so long the ledger knows nothing of it.
            if not isinstance(result, Pending) or result.status != "undecided":
                raise
            return result

    def _left_ms(self, until_s: float) -> int:
        return int((until_s - self._clock()) * 1_000)

    # Acting

    async def _perform(self, key: str, nonce: str, start: Start, sent_at_s: float) -> Result:
        """Run the function, once, and say what came of it."""
        ends_at_s = sent_at_s + start.deadline_ms / 1_000
        call = Call(key, start.provider_key, start.attempt, ends_at_s, self._clock)
        named = {"nonce": nonce, "attempt": start.attempt, "fencing_token": start.fencing_token}
        try:
            told = await self._run(call)
        except BaseException as end:
            ended = _Told(_unresolved(f"ended:{type(end).__name__}"))
            await self._tell_while_stopped(key, named, ended)
            raise
        try:
            result = await self._tell(key, named, told)
        except Exception as trouble:
            # Whatever stands against telling it, the function ran: nobody may hear that it did not.
            if isinstance(trouble, CallerMistake):
                with suppress(LedgerTrouble):
                    await self._say(key, {**named, "outcome": _unresolved("outcome_not_taken")})
            seen = None if told.effect is None else told.effect.reference
            raise OutcomeNotRecorded(key, seen) from trouble
        except BaseException:
            await self._tell_while_stopped(key, named, told)
            raise
        if told.raised is not None:
            raise ActionRaised(result, told.raised) from told.raised
        return result

    async def _tell_while_stopped(self, key: str, named: Mapping[str, Any], told: _Told) -> None:
        """The agent is being stopped: what is known is said first, in the little time there is, and
        once more where it was stopped while it was said.
        """
        with suppress(Exception):
            async with asyncio.timeout(ENDING_S):
                await self._tell(key, named, told)

    async def _run(self, call: Call) -> _Told:
        """What the function did. Whatever it does not call no effect may be one."""
        if call.seconds_left <= 0:
            return _Told({"kind": "not_sent", "code": "started_too_late", "retry": "later"})
        limit = asyncio.timeout(call.seconds_left)
        try:
            async with limit:
                effect: object = self._act(call)
                if inspect.isawaitable(effect):
                    effect = await effect
        except EffectRefused as no:
            return _Told({"kind": "refused", "code": _code(no.code), "retry": no.retry})
        except EffectNotSent as no:
            return _Told({"kind": "not_sent", "code": _code(no.code), "retry": no.retry})
        except EffectUnknown as lost:
            return _Told(_unresolved(lost.code))
        except LOST as lost:
            code = "deadline_passed" if limit.expired() else f"raised:{type(lost).__name__}"
            return _Told(_unresolved(code))
        except Exception as fault:  # noqa: BLE001 - told to the ledger first, then to the caller
            return _Told(_unresolved(f"raised:{type(fault).__name__}"), raised=fault)
        if not isinstance(effect, Effect) or not _is_reference(effect.reference):
            wrong = TypeError("The function of an action returns an Effect with a reference.")
            return _Told(_unresolved("returned_no_effect"), raised=wrong)
        outcome = {"kind": "succeeded", "reference": effect.reference, "result": _result_of(effect)}
        return _Told(outcome, effect)

    async def _tell(self, key: str, body: Mapping[str, Any], told: _Told) -> Result:
        """Say what is known. A result that the ledger does not take is left out: the effect is."""
        try:
            result = await self._say(key, {**body, "outcome": told.outcome})
        except CallerMistake:
            if not told.outcome.get("result"):
                raise
            result = await self._say(key, {**body, "outcome": {**told.outcome, "result": {}}})
        if isinstance(result, Pending) and result.status in {"undecided", "attempting"}:
            result = await self._ask_again(result, OFFER_AGAIN_MS)
        return result

    async def _say(self, key: str, body: Mapping[str, Any]) -> Result:
        raw = json.dumps(body).encode()
        return read_reply(await self._exchange.tell(f"{_path(key)}/outcome", raw), key)


def _goes_on(result: Result) -> bool:
    """Whether this call may have its turn within seconds."""
    return isinstance(result, Pending) or (isinstance(result, Blocked) and result.is_brief)


def _path(key: str) -> str:
    return f"/v1/actions/{quote(key, safe=':~')}"


def _unresolved(code: str) -> dict[str, Any]:
    return {"kind": "unresolved", "code": _code(code)}


def _code(said: object) -> str:
    """A code as the ledger takes it: a short name, whatever an exception was given."""
    text = "" if said is None else str(said)
    named = "".join(
        one if one.isascii() and (one.isalnum() or one in "_.:-") else "_" for one in text
    )
    return named[:CODE_CHARS_MAX] or "no_code"


def _is_reference(name: object) -> bool:
    """Whether a function kept to its declaration; without a reference nothing is proven."""
    return isinstance(name, str) and 0 < len(name) <= REFERENCE_CHARS_MAX


def _result_of(effect: Effect) -> dict[str, JsonValue]:
    """The result if it has a JSON form, else nothing: what it belongs to exists all the same."""
    try:
        raw = json.dumps(dict(effect.result), allow_nan=False)
    except Exception:  # noqa: BLE001 - too deep, or an object that reads itself from somewhere
        return {}
    read: dict[str, JsonValue] = json.loads(raw)
    return read if len(raw) <= RESULT_BYTES_MAX else {}
