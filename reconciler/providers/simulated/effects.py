"""Making an effect, or not: what the simulated provider decides for one request.

Guarantees that deciding and writing the line is one step without an await, so two requests can
never both believe they are the first. Must never answer before the line is written, and never write
a line that says other than what happened. Called by the server's effect route.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from reconciler.providers.simulated.api import Effect, Problem
from reconciler.providers.simulated.book import Arrival, Book, Line
from reconciler.providers.simulated.faults import Course, Delivery, Instead, Personality


@dataclass(frozen=True, slots=True)
class Made:
    """There is an effect to show; `is_new` when this request made it."""

    effect: Effect
    is_new: bool


@dataclass(frozen=True, slots=True)
class Not:
    """There is a problem to show, or with status 0 nothing at all."""

    status: int
    problem: Problem
    retry_after_s: int = 0
    is_replay: bool = False


_REFUSALS: Final = frozenset({400, 402, 404})
_REFUSED: Final = 402
_FAILED: Final = 500
_DROPPED: Final = Not(0, Problem(code="dropped", message="The connection was cut before a commit."))
_INSTEAD: Final = {
    Instead.DROP: _DROPPED,
    Instead.FAIL: Not(
        _FAILED, Problem(code="internal_error", message="It failed before a commit.")
    ),
    Instead.IN_PROGRESS: Not(
        409, Problem(code="in_progress", message="Another request under this key is running.")
    ),
    Instead.REDIRECT: Not(307, Problem(code="moved", message="Look elsewhere.")),
}
FAILED_AFTER: Final = Not(
    _FAILED, Problem(code="internal_error", message="It failed after a commit.")
)


@dataclass(frozen=True, slots=True)
class Clock:
    """What tells a desk the time and lets it wait: the machine's, or one moved by hand."""

    now_ms: Callable[[], int]
    sleep_ms: Callable[[int], Awaitable[None]]


async def _sleep_ms(delay_ms: int) -> None:
    await asyncio.sleep(delay_ms / 1000)


WALL: Final = Clock(lambda: time.time_ns() // 1_000_000, _sleep_ms)

Rule: TypeAlias = Callable[[Arrival], Not | None]
"""Why a request has no effect at this provider, by what its book holds; None where it has one."""


def _no_rule(arrival: Arrival) -> Not | None:
    _ = arrival
    return None


class Desk:
    """Takes one request after another to its end in the book."""

    def __init__(self, book: Book, clock: Clock = WALL, rule: Rule = _no_rule) -> None:
        self._book = book
        self._clock = clock
        self._rule = rule
        self._running: set[tuple[str, str]] = set()

    async def decide(
        self, arrival: Arrival, personality: Personality, course: Course
    ) -> Made | Not:
        """Wait as the course says, decide, and write the line; then it may be answered."""
        honours = personality.keys == "honoured"
        claim = (arrival.account, arrival.key) if honours and arrival.key is not None else None
        if claim is not None:
            if claim in self._running:
                return self._write_not(arrival, personality, course, _INSTEAD[Instead.IN_PROGRESS])
            self._running.add(claim)
        try:
            if course.before_ms:
                await self._clock.sleep_ms(course.before_ms)
            return self._decide_now(arrival, personality, course)
        finally:
            if claim is not None:
                self._running.discard(claim)

    def _decide_now(self, arrival: Arrival, personality: Personality, course: Course) -> Made | Not:
        match course.instead:
            # These come from what stands in front of the provider and do not look at keys.
            case Instead.DROP | Instead.IN_PROGRESS | Instead.REDIRECT:
                return self._write_not(arrival, personality, course, _INSTEAD[course.instead])
            case Instead.LIMIT:
                problem = Problem(code="rate_limited", message="Too many requests.")
                limited = Not(429, problem, course.retry_after_s)
                return self._write_not(arrival, personality, course, limited)
            case _:
                pass
        again = self._again(arrival, personality, course)
        if again is not None:
            return again
        match course.instead:
            case Instead.REFUSE:
                refused = Not(
                    _REFUSED, Problem(code=course.code, message="The request was refused.")
                )
                return self._write_not(arrival, personality, course, refused)
            case Instead.FAIL:
                return self._write_not(arrival, personality, course, _INSTEAD[Instead.FAIL])
            case _:
                against = self._rule(arrival)
                if against is not None:
                    return self._write_not(arrival, personality, course, against)
                return self._commit(arrival, personality, course)

    def _again(
        self, arrival: Arrival, personality: Personality, course: Course
    ) -> Made | Not | None:
        """What is answered because of an earlier request; None when this one stands alone."""
        body, account = arrival.body, arrival.account
        if personality.keys == "honoured" and arrival.key is not None:
            first = self._book.line_of_key(account, arrival.key)
            if (
                first is not None
                and self._clock.now_ms() < first.arrived_at + personality.key_window_ms
            ):
                return self._replay(arrival, personality, course, first)
        if personality.references == "unique" and body.reference is not None:
            taken = self._book.marked(account, "reference", body.reference)
            if taken:
                problem = Problem(
                    code="duplicate_reference",
                    message="There is an effect under this reference.",
                    effect_id=taken[0].id,
                )
                return self._write_not(arrival, personality, course, Not(409, problem))
        return None

    def _replay(
        self, arrival: Arrival, personality: Personality, course: Course, first: Line
    ) -> Made | Not:
        if first.parameters_hash != arrival.parameters_hash:
            problem = Problem(
                code="key_reused", message="The key was used with other parameters before."
            )
            return self._write_not(arrival, personality, course, Not(422, problem))
        effect = self._book.effect(first.effect_id) if first.effect_id is not None else None
        if effect is None or first.remembered == "answer":
            problem = Problem(code=first.code or "internal_error", message="As answered before.")
            again = Not(first.status, problem, is_replay=True)
            return self._write_not(replace(arrival, detail=None), personality, course, again)
        self._write(
            replace(arrival, detail=None), status=200, replayed=effect.id, answer=course.delivery
        )
        return Made(effect, is_new=False)

    def _commit(self, arrival: Arrival, personality: Personality, course: Course) -> Made | Not:
        fails = course.delivery is Delivery.SERVER_ERROR
        kept = personality.server_errors == "remembered"
        effect_id = self._book.next_effect_id(arrival.operation)
        self._write(
            arrival,
            status=FAILED_AFTER.status if fails else 200,
            code=FAILED_AFTER.problem.code if fails else None,
            made=effect_id,
            answer=course.delivery,
            remembered="answer" if fails and kept else "effect",
        )
        effect = self._book.effect(effect_id)
        if effect is None:
            raise RuntimeError("the line that was just written has no effect")
        return Made(effect, is_new=True)

    def _write_not(
        self, arrival: Arrival, personality: Personality, course: Course, outcome: Not
    ) -> Not:
        fate = {
            _FAILED: personality.server_errors,
            **dict.fromkeys(_REFUSALS, personality.refusals),
        }
        kept = not outcome.is_replay and fate.get(outcome.status) == "remembered"
        dropped = outcome.status == 0 or course.delivery is Delivery.DROPPED
        self._write(
            arrival,
            status=outcome.status,
            code=outcome.problem.code,
            answer=Delivery.DROPPED if dropped else Delivery.WHOLE,
            remembered="answer" if kept else "nothing",
        )
        return outcome

    def _write(
        self,
        arrival: Arrival,
        *,
        status: int,
        answer: Delivery,
        code: str | None = None,
        made: str | None = None,
        replayed: str | None = None,
        remembered: Literal["nothing", "effect", "answer"] = "nothing",
    ) -> None:
        now = self._clock.now_ms()
        body = arrival.body
        self._book.write(
            Line(
                request_id=arrival.request_id,
                account=arrival.account,
                operation=arrival.operation,
                key=arrival.key,
                reference=body.reference,
                action_key=body.metadata.action_key,
                request_hash=body.metadata.request_hash,
                parameters_hash=arrival.parameters_hash,
                target=body.target,
                description=arrival.description,
                amount=body.amount,
                arrived_at=arrival.arrived_at,
                decided_at=now,
                committed_at=now if made is not None else None,
                effect_id=made,
                replayed_effect_id=replayed,
                status=status,
                code=code,
                answer="dropped" if answer is Delivery.DROPPED else "sent",
                remembered=remembered,
                original=body.original,
                detail=None if arrival.detail is None else dict(arrival.detail),
            )
        )
