"""The client: propose, wait, get, cancel, ask again, report steps, open sagas, over HTTP.

Guarantees that asking twice is asking once: the key follows from the intent, and every call may be
repeated after any trouble. Must never make a key of its own. For the code around an agent, not for
a model: a model never chooses a key.
"""

import inspect
import json
import re
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from importlib.metadata import version
from types import TracebackType
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, Self
from urllib.parse import quote, urlsplit

import httpx

from actionledger.exchange import Exchange, Retries
from actionledger.performing import Act, Call, Effect, Performance
from actionledger.results import FINAL, ApprovalExpired, Conflict, NeedsReview, Pending, Result
from actionledger.runs import RunUsage, read_run
from actionledger.sagas import Plan, SagaResult, plan_bytes, read_saga
from actionledger.taken import Taken
from actionledger.wire import Intent, intent_bytes, read_reply

WAIT_MS_MAX: Final = 30_000
"""The longest that one request may wait at the ledger; longer waits are several requests."""

TURN_REST_MS: Final = 5_000
"""How long `wait` stays, at most, with an action that was the caller's own to perform when `wait`
began. Somebody performs it soon; and whoever only looks on, and calls `wait` in a loop, makes a
request every few seconds and not without a pause.
"""

_VISIBLE: Final = re.compile(r"[!-~]+")
"""Visible ASCII: what an HTTP header can carry as an API key."""

_P = ParamSpec("_P")


def _clock() -> float:
    """Seconds on a clock that only grows and, where the system has one, runs on in sleep."""
    number: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if number is None else time.clock_gettime(number)


_FOR_PEOPLE: Final = (NeedsReview, ApprovalExpired)
"""What a person has to move, and whoever waits is told at once."""

TOLD_REST_MS: Final = WAIT_MS_MAX
"""How long `wait` and `saga` stay, at most, with what they told of before: that it needs a person.
So a loop around them asks little more often than one long wait, and whoever else waits with the
same Ledger hears of it too: who of them has heard cannot be told.
"""


class _Telling(NamedTuple):
    """Up to which version was told that something needs a person, and until when that is not said
    again, in seconds of the clock.
    """

    version: int
    rest_until_s: float


class _Told:
    """What was told lately, by the key of an action or the path of a saga. May be used by threads
    at once. Holds what was told within twice TOLD_REST_MS.
    """

    def __init__(self) -> None:
        self._newer: dict[str, _Telling] = {}
        self._older: dict[str, _Telling] = {}
        self._since_s = 0.0

    def of(self, name: str) -> _Telling:
        """The last one."""
        found = self._newer.get(name) or self._older.get(name)
        return _Telling(-1, 0.0) if found is None else found

    def add(self, name: str, version: int, now_s: float) -> None:
        """It is told now."""
        # An answer may be older than the one before: doors know of what happens one after another.
        version = max(version, self.of(name).version)
        if now_s - self._since_s > TOLD_REST_MS / 1_000:
            self._older, self._newer, self._since_s = self._newer, {}, now_s
        self._newer[name] = _Telling(version, now_s + TOLD_REST_MS / 1_000)


class Ledger:
    """One ledger and one API key. Use it as `async with Ledger(url, key) as ledger`.

    Threads with event loops of their own may share one, and it goes on in a forked process: no
    connection is shared. `transport` stands in for the network; `retries` bounds how often a
    request is asked again; `clock` tells seconds that only grow, also while the machine sleeps.
    Raises ValueError for an address or an API key that none can be.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        retries: Retries | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], float] = _clock,
    ) -> None:
        if not _is_address(base_url):
            raise ValueError("base_url is http://host:port or https://host")
        if _VISIBLE.fullmatch(str(api_key or "")) is None:
            # Refused here and not by the network: asking again would not help.
            raise ValueError("api_key is empty, or has a blank or a line end; strip what was read")
        self._clock = clock
        self._told = _Told()
        self._taken = Taken(clock)
        self._exchange = Exchange(
            base_url,
            api_key,
            user_agent=f"actionledger/{version('actionledger')}",
            retries=Retries() if retries is None else retries,
            transport=transport,
        )

    async def propose(self, intent: Intent, *, wait_ms: int = 10_000) -> Result:
        """Ask for one effect, and wait up to `wait_ms` (at most 30,000) for its outcome.

        The same intent again is the same action: nothing happens twice, and the result says how the
        first one stands. Raises LedgerUnavailable when it is not known whether the intent was
        recorded (propose the same again), CallerMistake when it is refused as it is.
        """
        body = intent_bytes(intent)
        wait_ms = _bounded(wait_ms)
        reply = await self._exchange.ask(
            "POST", "/v1/actions", query={"wait_ms": wait_ms}, body=body, wait_ms=wait_ms
        )
        result = read_reply(reply, intent)
        return self._taken.told(result.key, result)

    async def perform(self, intent: Intent, act: Act, *, wait_ms: int = 10_000) -> Result:
        """Have one effect by calling `act` yourself, under the ledger: at most once, however often
        and from wherever the same intent is performed.

        `act` runs after the ledger has started an attempt for this very call, and not past its
        deadline; it returns an Effect, or raises EffectRefused, EffectNotSent or EffectUnknown. A
        timeout or a broken connection is unknown. Where the action is done, the recorded result
        comes back and `act` does not run. Raises ActionRaised for any other exception of `act`,
        OutcomeNotRecorded where the ledger could not be told, and what `propose` raises.
        """
        result = await Performance(self._exchange, intent, act, self._clock).run(wait_ms)
        return self._taken.told(result.key, result)

    def action(
        self, intent_of: Callable[_P, Intent], *, wait_ms: int = 10_000
    ) -> Callable[
        [Callable[Concatenate[Call, _P], Awaitable[Effect]]],
        Callable[_P, Coroutine[Any, Any, Result]],
    ]:
        """`perform` as a decorator: the function's arguments make the intent, its call the effect.

        The decorated function takes the same arguments without the `Call` and returns a Result.
        """

        def decorate(
            act: Callable[Concatenate[Call, _P], Awaitable[Effect]],
        ) -> Callable[_P, Coroutine[Any, Any, Result]]:
            if not inspect.iscoroutinefunction(act):
                raise TypeError(
                    f"{act!r} is not asynchronous; write it with async def, and call what blocks "
                    "through asyncio.to_thread"
                )

            # As it is called, not as it was before another decorator that gives it more.
            signature = inspect.signature(act, follow_wrapped=False)
            _check_that_call_is_first(act, signature)

            async def performed(*args: _P.args, **kwargs: _P.kwargs) -> Result:
                # What the function cannot be called with is said before anything is started.
                signature.bind(None, *args, **kwargs)
                return await self.perform(
                    intent_of(*args, **kwargs),
                    lambda call: act(call, *args, **kwargs),
                    wait_ms=wait_ms,
                )

            return _named_as(performed, act)

        return decorate

    async def get(self, key: str) -> Result:
        """How the action stands now. Raises UnknownAction."""
        return await self._look(key, self._clock())

    async def _look(self, key: str, until_s: float) -> Result:
        async def asking() -> Result:
            return read_reply(await self._exchange.ask("GET", _path(key)), key)

        return await self._taken.look(key, asking, until_s)

    async def wait(self, key: str, *, timeout_ms: int = 60_000) -> Result:
        """Wait until the action is final, needs a person, or becomes yours to perform
        (Pending.is_callers_turn), at most `timeout_ms`; how it stands then. Raises UnknownAction.

        You may call again in a loop. That it needs a person (NeedsReview, ApprovalExpired) is said
        at once, and again at the soonest thirty seconds after this method said it last: until then
        it waits for somebody to move it. An action that was yours to perform when you called is
        waited for five seconds at most. An `Unknown` is waited for as well: the ledger is
        finding out, which may take longer than `timeout_ms`, and then it is still unknown. So is
        what this client was told is taken and undecided, which the ledger does not know yet.
        """
        give_up_at, told = self._clock() + timeout_ms / 1_000, self._told.of(key)
        result = seen = await self._look(key, give_up_at)
        rest_until = self._clock() + TURN_REST_MS / 1_000
        while not isinstance(result, (*FINAL, Conflict)):
            until = give_up_at
            if isinstance(result, _FOR_PEOPLE):
                if result.version > told.version:
                    break
                until = min(until, told.rest_until_s)
            if isinstance(result, Pending) and result.is_callers_turn:
                if result.version != seen.version:
                    break
                until = min(until, rest_until)
            left_ms = int((until - self._clock()) * 1_000)
            if left_ms <= 0:
                break
            wait_ms = _bounded(left_ms)
            reply = await self._exchange.follow(
                _path(key), after_version=result.version, wait_ms=wait_ms, clock=self._clock
            )
            result = read_reply(reply, key)
        if isinstance(result, _FOR_PEOPLE) and timeout_ms > 0:
            self._told.add(key, result.version, self._clock())
        return result

    async def cancel(self, key: str, *, reason: str | None = None) -> Result:
        """Take back an action that has not begun; cancelling again changes nothing.

        Raises CallerMistake with code `attempt_open` when it may already have had its effect,
        `already_final` when it has an outcome, and UnknownAction.
        """
        body = b"{}" if reason is None else json.dumps({"reason": reason}).encode()
        return read_reply(await self._exchange.ask("POST", f"{_path(key)}/cancel", body=body), key)

    async def ask_again(self, key: str) -> Result:
        """Have people asked once more about an action after nobody decided in time
        (ApprovalExpired); while they are asked it changes nothing. Raises UnknownAction.
        """
        return read_reply(await self._exchange.ask("POST", f"{_path(key)}/ask"), key)

    async def report_step(
        self,
        run: str,
        step: int,
        *,
        tool_calls: int | None = None,
        tokens: int | None = None,
        reporter: str = "agent",
    ) -> RunUsage:
        """Say what a step of a run took, and learn what the run has used and has left.

        `step` counts from 1 and only grows for each `reporter`: the same step again counts nothing,
        so it may be repeated after any trouble. A reporter is one principal. Raises
        LedgerUnavailable when it is not known whether it was recorded, CallerMistake when it is
        refused as it is.
        """
        said = {"step": step, "reporter": reporter, "tool_calls": tool_calls, "tokens": tokens}
        body = json.dumps({name: value for name, value in said.items() if value is not None})
        reply = await self._exchange.ask("POST", f"{_run_path(run)}/steps", body=body.encode())
        return read_run(reply, run)

    async def run(self, run: str) -> RunUsage:
        """What a run has used of its ceilings, and has left. Raises CallerMistake with code
        `not_found` while nothing of it is known.
        """
        return read_run(await self._exchange.ask("GET", _run_path(run)), run)

    async def open_saga(self, plan: Plan, *, wait_ms: int = 10_000) -> SagaResult | Conflict:
        """Ask for several effects of one business event, whole or not at all, and wait up to
        `wait_ms` for how the saga comes on.

        The same plan again is the same saga; another plan under its name is a Conflict, and changes
        nothing. Raises LedgerUnavailable when it is not known whether it was recorded (open the
        same again), CallerMistake when it is refused as it is: `problems` name the step.
        """
        body, wait_ms = plan_bytes(plan), _bounded(wait_ms)
        reply = await self._exchange.ask(
            "POST", "/v1/sagas", query={"wait_ms": wait_ms}, body=body, wait_ms=wait_ms
        )
        result = read_saga(reply, plan.business_event, plan.saga)
        return self._taken.told(_saga_path(plan.business_event, plan.saga), result)

    async def saga(
        self, business_event: str, saga: str, *, timeout_ms: int = 0
    ) -> SagaResult | Conflict:
        """How a saga stands now; or, with `timeout_ms`, when it has come to its end or needs a
        person, or after that time. That it needs one is said again as `wait` does. Raises
        CallerMistake with code `unknown_saga`.
        """
        path, give_up_at = _saga_path(business_event, saga), self._clock() + timeout_ms / 1_000
        told = self._told.of(path)

        async def asking() -> SagaResult | Conflict:
            reply = await self._exchange.ask("GET", path)
            return read_saga(reply, business_event, saga)

        result = await self._taken.look(path, asking, give_up_at)
        while not (isinstance(result, Conflict) or result.is_final):
            until = give_up_at
            if result.needs_person:
                if result.version > told.version:
                    break
                until = min(until, told.rest_until_s)
            left_ms = int((until - self._clock()) * 1_000)
            if left_ms <= 0:
                break
            wait_ms = _bounded(left_ms)
            reply = await self._exchange.follow(
                path, after_version=result.version, wait_ms=wait_ms, clock=self._clock
            )
            result = read_saga(reply, business_event, saga)
        if not isinstance(result, Conflict) and result.needs_person and timeout_ms > 0:
            self._told.add(path, result.version, self._clock())
        return result

    async def cancel_saga(
        self, business_event: str, saga: str, *, reason: str | None = None
    ) -> SagaResult | Conflict:
        """Call off what of a saga has not begun; what is done is undone. Again changes nothing.

        Raises CallerMistake with code `attempt_open` when its last step may already have had its
        effect, `already_final` when all of it is done, and `unknown_saga`.
        """
        body = b"{}" if reason is None else json.dumps({"reason": reason}).encode()
        path = f"{_saga_path(business_event, saga)}/cancel"
        reply = await self._exchange.ask("POST", path, body=body)
        return read_saga(reply, business_event, saga)

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._exchange.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def _is_address(text: str) -> bool:
    """Whether a ledger can be asked there."""
    try:
        parts = urlsplit(text)
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_whole and parts.scheme in {"http", "https"} and not re.search(r"[\s\0-\x1f]", text)


def _bounded(wait_ms: int) -> int:
    return max(0, min(wait_ms, WAIT_MS_MAX))


def _path(key: str) -> str:
    return f"/v1/actions/{quote(key, safe=':~', errors='surrogatepass')}"


def _saga_path(business_event: str, saga: str) -> str:
    return f"/v1/sagas/{_part(business_event)}/{_part(saga)}"


def _run_path(run: str) -> str:
    return f"/v1/runs/{_part(run)}"


def _part(name: str) -> str:
    """A name as one part of a path."""
    if name in {".", ".."}:
        # Such a part would be taken for this folder, or the one above.
        return name.replace(".", "%2E")
    return quote(name, "", "utf-8", "surrogatepass")


def _check_that_call_is_first(act: Callable[..., Any], signature: inspect.Signature) -> None:
    """Whether a function takes its `Call` where it is given one: otherwise it would be found out by
    the function itself, after it was started. Raises TypeError.
    """
    known: dict[str, Any] = getattr(act, "__globals__", {})
    for place, one in enumerate(signature.parameters.values()):
        kind = one.annotation
        is_call = (known.get(kind) if isinstance(kind, str) else kind) is Call
        if (place == 0 and one.name in {"self", "cls"}) or (place > 0 and is_call):
            raise TypeError(
                f"{act!r} does not take its Call first; write (call, …), and of a method "
                "(call, self, …), or use Ledger.perform"
            )


def _named_as(
    performed: Callable[_P, Coroutine[Any, Any, Result]], act: Callable[..., Any]
) -> Callable[_P, Coroutine[Any, Any, Result]]:
    """The decorated function with the name, the documentation and the signature of the plain one,
    without its first parameter: frameworks read these to describe a tool.
    """
    signature = inspect.signature(act)
    rest = list(signature.parameters.values())[1:]
    names = {parameter.name for parameter in rest}
    while isinstance(act, partial):
        act = act.func
    performed.__name__, performed.__qualname__ = act.__name__, act.__qualname__
    performed.__doc__, performed.__module__ = act.__doc__, act.__module__
    performed.__annotations__ = {
        name: kind for name, kind in act.__annotations__.items() if name in names
    } | {"return": Result}
    performed.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=rest, return_annotation=Result
    )
    return performed
