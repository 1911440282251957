"""The performer's promises: each fault has its outcome, and nothing leaves before the guard."""

import asyncio
from dataclasses import dataclass, replace

import pytest

from reconciler.providers.contract.stage import always
from reconciler.providers.port import (
    Deadlines,
    Declined,
    NotSent,
    Outcome,
    Refused,
    Retry,
    Succeeded,
    Unresolved,
)
from tests.contract.calls import Call, eventually, now_ms, performing
from tests.contract.stage import Behaviour, Stage
from tests.patience import PATIENCE_SECONDS

SHORT = Deadlines(connect_ms=30_000, response_ms=150)
LATE_MS = 2_000
BUSY_MS = 1_500


async def test_an_effect_that_is_made_is_proven_by_its_reference(stage: Stage) -> None:
    """A plain call succeeds, and the book shows it with our key, marker, hash and account."""
    call = Call.on(stage)
    async with performing(stage) as performer:
        outcome = await call.perform(performer)
    assert isinstance(outcome, Succeeded)
    [entry] = call.entries
    assert entry.effect == outcome.reference
    assert entry.key == call.action_key
    assert entry.request_hash == call.request.request_hash
    assert entry.account == call.account


@dataclass(frozen=True, slots=True)
class Fault:
    """What is scripted, what the executor must be told, and what really happened."""

    kind: str
    outcome: Unresolved | Refused
    effects: int
    parameters: tuple[tuple[str, int | str], ...] = ()


FAULTS = [
    Fault("commit_then_drop", Unresolved("connection_lost"), 1),
    Fault("drop_before_commit", Unresolved("connection_lost"), 0),
    Fault("commit_then_half_answer", Unresolved("answer_cut_short"), 1),
    Fault("commit_then_garbage", Unresolved("answer_invalid"), 1),
    Fault("commit_then_oversized", Unresolved("answer_too_large"), 1),
    Fault("fail_after_commit", Unresolved("internal_error"), 1),
    Fault("fail_before_commit", Unresolved("internal_error"), 0),
    Fault("in_progress", Unresolved("in_progress"), 0),
    Fault("redirect", Unresolved("moved"), 0),
    Fault("refuse", Refused("card_declined", Retry.NEVER), 0),
    Fault("limit", Refused("rate_limited", Retry.LATER, 7_000), 0, (("retry_after_s", 7),)),
]


@pytest.mark.case("C011")
@pytest.mark.case("C039")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.kind)
async def test_every_fault_has_its_outcome(stage: Stage, fault: Fault) -> None:
    """What the provider did and what can be known of it are two things, and both are right."""
    call = Call.on(stage)
    stage.script(call.action_key, fault.kind, **dict(fault.parameters))
    async with performing(stage) as performer:
        outcome = await call.perform(performer)
    assert outcome == replace(fault.outcome, code=stage.word(fault.outcome.code))
    assert len(call.effects) == fault.effects
    assert len(call.entries) == 1, "sent once: no redirect followed, nothing repeated"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.kind)
async def test_the_next_call_is_not_touched_by_the_last_ones_fault(
    stage: Stage, fault: Fault
) -> None:
    """A performer that met a fault serves another action as if nothing had been."""
    call, other = Call.on(stage), Call.on(stage)
    stage.script(call.action_key, fault.kind, **dict(fault.parameters))
    async with performing(stage) as performer:
        await call.perform(performer)
        assert isinstance(await other.perform(performer), Succeeded)


async def test_an_answer_after_the_deadline_leaves_the_outcome_open(stage: Stage) -> None:
    """A provider that commits and answers too late gives an unresolved outcome."""
    call = Call.on(stage)
    stage.script(call.action_key, "slow", after_ms=2_000)
    async with performing(stage) as performer:
        outcome = await call.perform(performer, deadlines=SHORT)
    assert outcome == Unresolved("answer_timed_out")
    await eventually(lambda: len(call.effects) == 1)


async def test_a_slow_answer_within_the_deadline_is_waited_for(stage: Stage) -> None:
    """Slowness alone is no trouble."""
    call = Call.on(stage)
    stage.script(call.action_key, "slow", before_ms=80, after_ms=80)
    async with performing(stage) as performer:
        assert isinstance(await call.perform(performer), Succeeded)


async def test_an_effect_can_come_after_we_gave_up(stage: Stage) -> None:
    """Unresolved is the truth: at the deadline there is no effect, a moment later there is."""
    call = Call.on(stage)
    stage.script(call.action_key, "commit_late", late_ms=LATE_MS)
    async with performing(stage) as performer:
        assert await call.perform(performer, deadlines=SHORT) == Unresolved("answer_timed_out")
    gave_up_with, gave_up_by = call.effects, now_ms()
    await eventually(lambda: len(call.effects) == 1)
    is_late_itself = gave_up_by > call.entries[0].arrived_at + LATE_MS
    assert gave_up_with == [] or is_late_itself


async def test_the_guard_runs_once_and_before_the_request_arrives(stage: Stage) -> None:
    """When the guard is asked, the provider has nothing of this request; then it gets it."""
    call = Call.on(stage)
    asked_at: list[int] = []

    def guard() -> None:
        assert call.entries == []
        asked_at.append(now_ms())

    async with performing(stage) as performer:
        assert isinstance(await call.perform(performer, guard=guard), Succeeded)
    assert len(asked_at) == 1
    assert asked_at[0] <= call.entries[0].arrived_at


async def test_a_guard_that_declines_leaves_no_line_in_the_book(stage: Stage) -> None:
    """A declined call is definitely not sent, and the performer goes on working."""
    call = Call.on(stage)

    def guard() -> None:
        raise Declined("lease_over")

    async with performing(stage) as performer:
        outcome = await call.perform(performer, guard=guard)
        assert outcome == NotSent("lease_over", Retry.LATER)
        assert call.entries == []
        assert isinstance(await call.perform(performer), Succeeded)
    assert len(call.entries) == 1


async def test_a_fault_inside_the_guard_sends_nothing(stage: Stage) -> None:
    """An error of our own in the guard comes out, and the provider never hears of the request."""
    call = Call.on(stage)

    def guard() -> None:
        raise ZeroDivisionError

    async with performing(stage) as performer:
        with pytest.raises(ZeroDivisionError):
            await call.perform(performer, guard=guard)
        assert isinstance(await call.perform(performer), Succeeded)
    assert len(call.entries) == 1


async def test_a_cancelled_call_may_have_had_its_effect(stage: Stage) -> None:
    """Cancelling comes out as cancellation; the provider carries on with what it has."""
    call = Call.on(stage)
    stage.script(call.action_key, "slow", before_ms=300)
    sent = asyncio.Event()
    async with performing(stage) as performer:
        running = asyncio.create_task(call.perform(performer, guard=sent.set))
        await sent.wait()
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await eventually(lambda: len(call.effects) == 1)


async def test_an_account_without_credential_is_never_called(stage: Stage) -> None:
    """The account of a request only chooses among configured credentials."""
    call = Call(stage, "nobody.configured.this")
    async with performing(stage) as performer:
        outcome = await call.perform(performer)
    assert outcome == NotSent("account_not_configured", Retry.LATER)


async def test_a_request_that_cannot_be_written_is_not_sent(stage: Stage) -> None:
    """A key with a line break would be another header: it never leaves."""
    call = Call.on(stage)
    async with performing(stage) as performer:
        outcome = await performer.perform(
            call.request,
            provider_key="key\r\nX-Other: 1",
            deadlines=SHORT,
            before_first_byte=always,
        )
    assert outcome == NotSent("request_unsendable", Retry.NEVER)
    assert call.entries == []


# --- how the provider's memory shows ----------------------------------------------------------


async def test_two_calls_at_once_are_one_effect(stage: Stage) -> None:
    """The call that comes while the first still runs stays open instead of acting twice."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        # On a busy machine the second may come when the first is through.
        while True:
            call = Call.on(stage)
            outcomes = await at_once(call)
            assert len(call.effects) == 1
            kinds = {type(outcome) for outcome in outcomes}
            if kinds != {Succeeded}:
                break
    assert kinds == {Succeeded, Unresolved}
    assert Unresolved(stage.word("in_progress")) in outcomes


async def at_once(call: Call) -> list[Outcome]:
    """Two calls of one action, the first of which takes its time."""
    call.stage.script(call.action_key, "slow", before_ms=BUSY_MS)
    first_sent = asyncio.Event()
    async with performing(call.stage) as performer, asyncio.TaskGroup() as group:
        first = group.create_task(call.perform(performer, guard=first_sent.set))
        await first_sent.wait()
        second = group.create_task(call.perform(performer))
    return [first.result(), second.result()]


async def test_the_same_key_with_another_amount_is_refused(stage: Stage) -> None:
    """A key is one request: other parameters under it are a definite no."""
    call = Call.on(stage)
    other = Call(stage, call.account, call.action_key, amount=49_900)
    async with performing(stage) as performer:
        await call.perform(performer)
        assert await other.perform(performer) == Refused(stage.word("key_reused"), Retry.NEVER)
    assert len(call.effects) == 1


async def test_a_forgotten_key_is_a_second_effect(stage: Stage) -> None:
    """Inside the declared window the key holds, beyond it the provider acts again."""
    window_ms = stage.capabilities(Behaviour.FORGETS_KEYS).key_window_ms
    assert isinstance(window_ms, int)
    async with asyncio.timeout(PATIENCE_SECONDS):
        # A busy machine may be too slow to see the window.
        while True:
            call = Call.on(stage, Behaviour.FORGETS_KEYS)
            async with performing(stage) as performer:
                await call.perform(performer)
                first_at = call.entries[0].arrived_at
                await call.perform(performer)
            if now_ms() < first_at + window_ms:
                break
    assert len(call.effects) == 1
    await eventually(lambda: now_ms() > first_at + window_ms)
    async with performing(stage) as performer:
        await call.perform(performer)
    assert len(call.effects) == 2


async def test_an_ignored_key_is_a_second_effect(stage: Stage) -> None:
    """A provider that ignores keys acts twice: why such an account must not be declared keyed."""
    call = Call.on(stage, Behaviour.IGNORES_KEYS)
    async with performing(stage) as performer:
        await call.perform(performer)
        await call.perform(performer)
    assert len(call.effects) == 2


async def test_a_unique_reference_holds_where_there_are_no_keys(stage: Stage) -> None:
    """The second request under a taken reference makes no effect and stays open."""
    call = Call.on(stage, Behaviour.UNIQUE_REFERENCES)
    async with performing(stage) as performer:
        assert isinstance(await call.perform(performer), Succeeded)
        assert await call.perform(performer) == Unresolved("duplicate_reference")
    assert len(call.effects) == 1


async def test_a_remembered_server_error_stays_for_ever(stage: Stage) -> None:
    """Where errors are remembered the same key proves nothing, however often it is sent."""
    call = Call.on(stage, Behaviour.REMEMBERS_SERVER_ERRORS)
    stage.script(call.action_key, "fail_after_commit")
    async with performing(stage) as performer:
        outcomes = [await call.perform(performer) for _ in range(3)]
    assert outcomes == [Unresolved(stage.word("internal_error"))] * 3
    assert len(call.effects) == 1


async def test_a_forgotten_server_error_gives_way_to_the_effect(stage: Stage) -> None:
    """Where errors are forgotten the same key shows the effect behind the error."""
    call = Call.on(stage)
    stage.script(call.action_key, "fail_after_commit")
    async with performing(stage) as performer:
        first = await call.perform(performer)
        assert first == Unresolved(stage.word("internal_error"))
        assert isinstance(await call.perform(performer), Succeeded)
    assert len(call.effects) == 1


async def test_many_calls_side_by_side_are_one_effect_each(stage: Stage) -> None:
    """More calls than connections wait for a free one, and none is sent twice."""
    calls = [Call.on(stage)]
    calls += [Call(stage, calls[0].account) for _ in range(149)]
    async with performing(stage) as performer, asyncio.TaskGroup() as group:
        tasks = [group.create_task(call.perform(performer)) for call in calls]
    assert all(isinstance(task.result(), Succeeded) for task in tasks)
    assert sorted(entry.action_key or "" for entry in stage.book(calls[0].account)) == sorted(
        call.action_key for call in calls
    )
