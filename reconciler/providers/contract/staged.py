"""The second half of the suite: an adapter in front of a provider that does wrong on purpose.

Guarantees that what an adapter says is held against the provider's own book, and that each question
is asked as the adapter's own capabilities have it: a second call is one effect where keys are
declared, and two where nothing is. Called by tests and by `provider check --stage`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from reconciler.providers.contract.checking import BrokenPromise, DoesNotApply, demand
from reconciler.providers.contract.stage import (
    LOOK_UP_MS,
    SHORT,
    Call,
    Fault,
    Stage,
    adapter_on,
    eventually,
    finding,
    performing,
)
from reconciler.providers.kinds import adapter_of
from reconciler.providers.port import (
    IMPOSSIBLE,
    Absent,
    Capabilities,
    Declined,
    Found,
    Inconclusive,
    NotSent,
    Refused,
    Reliability,
    Retry,
    Succeeded,
    Unresolved,
)

Check = Callable[[Stage], Awaitable[None]]

_ONE_EFFECT: Final = frozenset({Reliability.KEYED, Reliability.REFERENCE})
_MANY: Final = 40


def can(stage: Stage) -> Capabilities:
    """What the adapter declares on this stage."""
    return adapter_on(stage).capabilities


# --- what an outcome says ----------------------------------------------------------------------


async def a_success_is_in_the_book(stage: Stage) -> None:
    """A plain call succeeds; the book shows one effect by that reference, with what it keeps."""
    call = Call.on(stage)
    async with performing(stage) as performer:
        outcome = await call.perform(performer)
    demand(isinstance(outcome, Succeeded), f"it answered {outcome}")
    await _has_effects(call, 1)
    [entry] = call.entries
    demand(
        isinstance(outcome, Succeeded) and entry.effect == outcome.reference,
        f"the book has {entry}, the outcome is {outcome}",
    )
    demand(entry.account == call.account, f"the book has it for {entry.account}")
    demand(
        entry.request_hash in {call.request.request_hash, None},
        f"the book has the hash {entry.request_hash}",
    )
    demand(entry.key in {call.action_key, None}, f"the book has the key {entry.key}")


async def a_lost_answer_is_unresolved(stage: Stage) -> None:
    """An effect whose answer was lost is neither a success nor a failure."""
    call = Call.on(stage)
    stage.meet(call.action_key, Fault.ANSWER_LOST)
    async with performing(stage) as performer:
        outcome = await call.perform(performer)
    demand(isinstance(outcome, Unresolved), f"it answered {outcome}")
    await _has_effects(call, 1)


async def a_late_answer_is_unresolved(stage: Stage) -> None:
    """An answer that comes after the deadline is none, and the deadline holds."""
    call = Call.on(stage)
    stage.meet(call.action_key, Fault.SLOW_ANSWER)
    async with performing(stage) as performer:
        outcome = await call.perform(performer, deadlines=SHORT)
    demand(isinstance(outcome, Unresolved), f"it answered {outcome}")
    await _has_effects(call, 1)


async def a_request_lost_on_its_way_is_no_success(stage: Stage) -> None:
    """Where the connection ended before the effect, nothing claims that it is there, or refused."""
    call = Call.on(stage)
    stage.meet(call.action_key, Fault.LOST_BEFORE)
    async with performing(stage) as performer:
        outcome = await call.perform(performer)
    demand(isinstance(outcome, NotSent | Unresolved), f"it answered {outcome}")
    demand(not call.entries, f"the book has {call.entries}")


async def a_refusal_has_no_effect(stage: Stage) -> None:
    """A definite no is told as one, for good."""
    await _refused(stage, Fault.REFUSED, Retry.NEVER)


async def a_refusal_for_now_may_be_tried_again(stage: Stage) -> None:
    """A no for now is told as one, and the same request succeeds when it is tried again."""
    call = await _refused(stage, Fault.REFUSED_FOR_NOW, Retry.LATER)
    async with performing(stage) as performer:
        outcome = await call.perform(performer)
    demand(isinstance(outcome, Succeeded), f"tried again, it answered {outcome}")
    await _has_effects(call, 1)


async def a_fault_touches_no_other_call(stage: Stage) -> None:
    """A performer that met a fault serves another action as if nothing had been."""
    for fault in Fault:
        call, other = Call.on(stage), Call.on(stage)
        try:
            stage.meet(call.action_key, fault)
        except DoesNotApply:
            continue
        async with performing(stage) as performer:
            await call.perform(performer, deadlines=SHORT)
            outcome = await other.perform(performer)
        demand(isinstance(outcome, Succeeded), f"after {fault.value} it answered {outcome}")


# --- before the first byte ---------------------------------------------------------------------


async def nobody_there_is_not_sent(stage: Stage) -> None:
    """Where nobody answers nothing was sent, nobody asked the guard, and it may be tried later."""
    call, asked = Call.on(stage), list[None]()
    performer = adapter_of(stage.unreachable()).performer()
    try:
        outcome = await call.perform(performer, guard=lambda: asked.append(None))
    finally:
        await performer.close()
    demand(isinstance(outcome, NotSent) and outcome.retry is Retry.LATER, f"it answered {outcome}")
    demand(not asked, "the guard was asked without a connection")


async def the_guard_runs_once_before_anything_arrives(stage: Stage) -> None:
    """When the guard is asked the provider has nothing of this request; then it gets it."""
    call, seen = Call.on(stage), list[int]()
    async with performing(stage) as performer:
        outcome = await call.perform(performer, guard=lambda: seen.append(len(call.entries)))
    demand(isinstance(outcome, Succeeded), f"it answered {outcome}")
    demand(seen == [0], f"the guard was asked {len(seen)} times, effects by then: {seen}")


async def a_guard_that_declines_sends_nothing(stage: Stage) -> None:
    """A declined call is not sent, with the guard's own code, and the performer goes on working."""
    call = Call.on(stage)

    def decline() -> None:
        raise Declined("lease_over")

    async with performing(stage) as performer:
        outcome = await call.perform(performer, guard=decline)
        demand(outcome == NotSent("lease_over", Retry.LATER), f"it answered {outcome}")
        demand(not call.entries, f"the book has {call.entries}")
        outcome = await call.perform(performer)
    demand(isinstance(outcome, Succeeded), f"the next call answered {outcome}")
    await _has_effects(call, 1)


async def a_fault_in_the_guard_sends_nothing(stage: Stage) -> None:
    """An error of our own in the guard comes out, and the provider never hears of the request."""
    call = Call.on(stage)

    def fail() -> None:
        raise ZeroDivisionError

    async with performing(stage) as performer:
        try:
            outcome = await call.perform(performer, guard=fail)
        except ZeroDivisionError:
            pass
        else:
            raise BrokenPromise(f"the error was swallowed, and it answered {outcome}")
        demand(not call.entries, f"the book has {call.entries}")
        outcome = await call.perform(performer)
    demand(isinstance(outcome, Succeeded), f"the next call answered {outcome}")


async def a_cancelled_call_ends_as_cancelled(stage: Stage) -> None:
    """Cancelling comes out as cancellation, whatever the provider then does, and blocks nobody."""
    call, other = Call.on(stage), Call.on(stage)
    stage.meet(call.action_key, Fault.SLOW_ANSWER)
    sent = asyncio.Event()
    async with performing(stage) as performer:
        running = asyncio.ensure_future(call.perform(performer, guard=sent.set))
        await sent.wait()
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
        demand(running.cancelled(), "it ended as if nothing had been")
        outcome = await other.perform(performer)
    demand(isinstance(outcome, Succeeded), f"the next call answered {outcome}")
    demand(len(call.entries) <= 1, f"the book has {call.entries}")


# --- what a key is worth -----------------------------------------------------------------------


async def a_second_call_does_what_the_class_says(stage: Stage) -> None:
    """Two calls are one effect where keys or references are declared to hold, and two elsewhere:
    an adapter that promises less than its provider keeps would never try again.
    """
    call = Call.on(stage)
    async with performing(stage) as performer:
        first = await call.perform(performer)
        second = await call.perform(performer)
    demand(isinstance(first, Succeeded), f"the first call answered {first}")
    await _has_effects(call, 1 if can(stage).reliability in _ONE_EFFECT else 2)
    if can(stage).replay_proven:
        demand(second == first, f"the first call answered {first}, the second {second}")


async def a_lost_answer_comes_back_under_the_same_key(stage: Stage) -> None:
    """Where a replay is declared, the second call proves the effect and makes no other."""
    call = Call.on(stage)
    if not can(stage).replay_proven:
        raise DoesNotApply("the same key again is not declared to show the first effect")
    stage.meet(call.action_key, Fault.ANSWER_LOST)
    async with performing(stage) as performer:
        first = await call.perform(performer)
        outcome = await call.perform(performer)
    demand(isinstance(first, Unresolved), f"the first call answered {first}")
    demand(isinstance(outcome, Succeeded), f"the second call answered {outcome}")
    await _has_effects(call, 1)


async def two_calls_at_once_are_one_effect(stage: Stage) -> None:
    """Where keys hold, a call beside its own first one shows the effect or stays open."""
    if can(stage).reliability not in _ONE_EFFECT:
        raise DoesNotApply("nothing keeps a second call from being a second effect")
    call = Call.on(stage)
    async with performing(stage) as performer, asyncio.TaskGroup() as group:
        both = [group.create_task(call.perform(performer)) for _ in range(2)]
    outcomes = [one.result() for one in both]
    demand(
        all(isinstance(one, Succeeded | Unresolved) for one in outcomes), f"they gave {outcomes}"
    )
    demand(any(isinstance(one, Succeeded) for one in outcomes), f"they gave {outcomes}")
    await _has_effects(call, 1)


async def the_same_key_with_another_request_is_refused(stage: Stage) -> None:
    """A key is one request: another under it is a definite no, and has no effect."""
    if not can(stage).replay_proven:
        raise DoesNotApply("the same key again is not declared to show the first effect")
    call = Call.on(stage)
    other = Call(stage, call.account, call.action_key, amount=49_900)
    async with performing(stage) as performer:
        await call.perform(performer)
        outcome = await other.perform(performer)
    refused = isinstance(outcome, Refused) and outcome.retry is Retry.NEVER
    demand(refused, f"it answered {outcome}")
    await _has_effects(call, 1)


async def many_calls_are_one_effect_each(stage: Stage) -> None:
    """Calls side by side wait for each other where they must, and none is sent twice."""
    account = stage.account()
    calls = [Call(stage, account) for _ in range(_MANY)]
    async with performing(stage) as performer, asyncio.TaskGroup() as group:
        tasks = [group.create_task(call.perform(performer)) for call in calls]
    failed = [task.result() for task in tasks if not isinstance(task.result(), Succeeded)]
    demand(not failed, f"{len(failed)} did not succeed, the first answered {failed[:1]}")
    await eventually(
        lambda: len(stage.book(account)) >= _MANY, f"the book has {len(stage.book(account))}"
    )
    demand(len(stage.book(account)) == _MANY, f"the book has {len(stage.book(account))}")


# --- looking ------------------------------------------------------------------------------------


async def an_effect_without_an_answer_is_found(stage: Stage) -> None:
    """Where searches are declared, the lookup shows the effect whose answer was lost."""
    declared = can(stage)
    _must_search(declared)
    call = Call.on(stage)
    stage.meet(call.action_key, Fault.ANSWER_LOST)
    async with performing(stage) as performer, finding(stage) as finder:
        await call.perform(performer)
        await _has_effects(call, 1)
        found = await call.find(finder)
    demand(isinstance(found, Found), f"it answered {found}")
    if isinstance(found, Found):
        [entry] = call.entries
        demand(found.reference == entry.effect, f"it found {found}, the book has {entry}")
        demand(found.money in {call.request.money, None}, f"it found {found.money}")
        demand(not found.further_references, f"it found {found.further_references} as well")
        demand(
            (found.provider_key is not None) == bool(declared.finds_by_key),
            f"finds_by_key is {declared.finds_by_key}, and it found {found.provider_key}",
        )


async def what_never_happened_is_absent(stage: Stage) -> None:
    """A request that never arrived is absent up to now, and one of another account is not seen."""
    _must_search(can(stage))
    call = Call.on(stage)
    elsewhere = Call(stage, stage.account(), call.action_key)
    async with performing(stage) as performer, finding(stage) as finder:
        before = await call.find(finder)
        await call.perform(performer)
        await _has_effects(call, 1)
        there = await elsewhere.find(finder)
    demand(isinstance(before, Absent), f"before the call it answered {before}")
    demand(isinstance(there, Absent), f"on another account it answered {there}")


async def what_was_refused_is_not_found(stage: Stage) -> None:
    """An object that a provider keeps of what it refused is neither found nor listed as an effect,
    and a request that went through beside it is both.
    """
    declared = can(stage)
    _must_search(declared)
    call = await _refused(stage, Fault.REFUSED, Retry.NEVER)
    beside = Call(stage, call.account)
    async with performing(stage) as performer, finding(stage) as finder:
        await beside.perform(performer)
        await _has_effects(beside, 1)
        found, other = await call.find(finder), await beside.find(finder)
        listed = []
        if declared.lists_effects:
            listing = finder.list_effects(account=call.account, since_at=0, timeout_ms=LOOK_UP_MS)
            listed = [one.action_key async for one in listing]
    demand(not isinstance(found, Found), f"of what was refused it answered {found}")
    demand(isinstance(other, Found), f"of what went through it answered {other}")
    if declared.lists_effects:
        demand(listed == [beside.action_key], f"it listed {listed}")


async def a_lookup_that_is_not_offered_proves_nothing(stage: Stage) -> None:
    """Where nothing can be searched, a lookup says so and is no absence."""
    if not _searches(can(stage)):
        call = Call.on(stage)
        async with performing(stage) as performer, finding(stage) as finder:
            await call.perform(performer)
            found = await call.find(finder)
        demand(isinstance(found, Inconclusive), f"it answered {found}")
        return
    raise DoesNotApply("it can be searched")


async def a_lookup_without_an_answer_proves_nothing(stage: Stage) -> None:
    """Out of time, or with nobody there, a lookup is inconclusive and never an absence."""
    call = Call.on(stage)
    async with finding(stage) as finder:
        late = await call.find(finder, timeout_ms=0)
    finder = adapter_of(stage.unreachable()).finder()
    try:
        nobody = await call.find(finder)
    finally:
        await finder.close()
    demand(isinstance(late, Inconclusive), f"out of time it answered {late}")
    demand(isinstance(nobody, Inconclusive), f"with nobody there it answered {nobody}")


async def a_reference_of_another_action_proves_nothing(stage: Stage) -> None:
    """A reference that leads to somebody else's effect is neither found nor absent."""
    declared = can(stage)
    _must_search(declared)
    if not declared.finds_by_reference:
        raise DoesNotApply("it cannot be searched by reference")
    mine = Call.on(stage)
    other = Call(stage, mine.account)
    async with performing(stage) as performer, finding(stage) as finder:
        outcome = await other.perform(performer)
        demand(isinstance(outcome, Succeeded), f"the call answered {outcome}")
        if isinstance(outcome, Succeeded):
            found = await mine.find(finder, reference=outcome.reference)
            demand(isinstance(found, Inconclusive), f"it answered {found}")


async def the_list_shows_every_effect_once(stage: Stage) -> None:
    """Where effects are listed, each is there once, oldest first, from the time that is asked."""
    if not can(stage).lists_effects:
        raise DoesNotApply("effects cannot be listed")
    account = stage.account()
    calls = [Call(stage, account) for _ in range(5)]
    async with performing(stage) as performer, finding(stage) as finder:
        for call in calls:
            await call.perform(performer)
        await eventually(lambda: len(stage.book(account)) == len(calls), "effects are missing")
        listing = finder.list_effects(account=account, since_at=0, timeout_ms=LOOK_UP_MS)
        listed = [effect async for effect in listing]
        middle = listed[len(listed) // 2].committed_at if listed else 0
        listing = finder.list_effects(account=account, since_at=middle, timeout_ms=LOOK_UP_MS)
        later = [effect async for effect in listing]
    book = [entry.effect for entry in stage.book(account)]
    demand([one.reference for one in listed] == book, f"listed {listed}, the book has {book}")
    # Two that came about in the same millisecond have no order.
    keys, times = [one.action_key for one in listed], [one.committed_at for one in listed]
    demand(sorted(map(str, keys)) == sorted(one.action_key for one in calls), f"{listed}")
    demand(times == sorted(times), f"not oldest first: {listed}")
    demand(later == [one for one in listed if one.committed_at >= middle], f"later: {later}")


CHECKS: Final[tuple[Check, ...]] = (
    a_success_is_in_the_book,
    a_lost_answer_is_unresolved,
    a_late_answer_is_unresolved,
    a_request_lost_on_its_way_is_no_success,
    a_refusal_has_no_effect,
    a_refusal_for_now_may_be_tried_again,
    a_fault_touches_no_other_call,
    nobody_there_is_not_sent,
    the_guard_runs_once_before_anything_arrives,
    a_guard_that_declines_sends_nothing,
    a_fault_in_the_guard_sends_nothing,
    a_cancelled_call_ends_as_cancelled,
    a_second_call_does_what_the_class_says,
    a_lost_answer_comes_back_under_the_same_key,
    two_calls_at_once_are_one_effect,
    the_same_key_with_another_request_is_refused,
    many_calls_are_one_effect_each,
    an_effect_without_an_answer_is_found,
    what_never_happened_is_absent,
    what_was_refused_is_not_found,
    a_lookup_that_is_not_offered_proves_nothing,
    a_lookup_without_an_answer_proves_nothing,
    a_reference_of_another_action_proves_nothing,
    the_list_shows_every_effect_once,
)


async def _refused(stage: Stage, fault: Fault, retry: Retry) -> Call:
    call = Call.on(stage)
    stage.meet(call.action_key, fault)
    async with performing(stage) as performer:
        outcome = await call.perform(performer)
    demand(isinstance(outcome, Refused) and outcome.retry is retry, f"it answered {outcome}")
    demand(not call.entries, f"the book has {call.entries}")
    return call


async def _has_effects(call: Call, count: int) -> None:
    """The book comes to hold exactly so many effects of a call: it may be written after the answer.

    More than that is never waited for.
    """
    await eventually(
        lambda: len(call.entries) >= count, f"the book has {call.entries}, not {count} effects"
    )
    demand(len(call.entries) == count, f"the book has {call.entries}, not {count} effects")


def _searches(declared: Capabilities) -> bool:
    return declared.search_lag_ms is not IMPOSSIBLE


def _must_search(declared: Capabilities) -> None:
    if not _searches(declared):
        raise DoesNotApply("it cannot be searched")
