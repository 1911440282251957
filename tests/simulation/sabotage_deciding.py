"""Seeded bugs in what the ledger decides: keys, retries, outcomes, evidence, leases, intake."""

from dataclasses import replace
from typing import Final

from ledger.core import evolve as evolving
from ledger.core import evolve_evidence
from ledger.core import inputs as i
from ledger.core.catalogue import Operation
from ledger.core.config import Config
from ledger.core.decide import attempts, dispatch, evidence, intake, questions, schedule
from ledger.core.decide import time as ticking
from ledger.core.decide.draft import Decided, Draft, replayed
from ledger.core.decide.judging import Effect
from ledger.core.decide.ruling import rule
from ledger.core.facts import (
    ActionCompleted,
    ActionFailed,
    AttemptUnresolved,
    EvidenceRecorded,
)
from ledger.core.ids import ActionKey
from ledger.core.request import request_hash
from ledger.core.state import Action, Attempt, AttemptStatus, Lookup, Status, Stream
from streams import timetable
from tests.simulation.sabotage import Everything, Saboteur, no_invariants

# --- retries and keys --------------------------------------------------------------------------


def _new_key_for_every_attempt(action: Action, operation: Operation) -> str:
    return f"{action.key}/{len(action.attempts) + 1}"


def _no_window(action: Action, operation: Operation) -> int | None:
    return None


def _retries_whatever_the_class(
    action: Action, operation: Operation, at: int, config: Config
) -> schedule.Bar | None:
    if at >= action.step_deadline_at:
        return schedule.Bar.STEP_DEADLINE
    return schedule.Bar.ATTEMPTS if action.counted_attempts >= 4 else None


def _fails_on_any_refusal(
    draft: Draft, key: str, code: str, retry: i.Retry, retry_after_ms: int | None = None
) -> None:
    action = draft.action(key)
    if retry is i.Retry.NEVER and not action.is_final and action.status is not Status.NEEDS_REVIEW:
        draft.add(ActionFailed(action=key, version=draft.version(key), code=code))
        return
    _original_after_no_effect(draft, key, code, retry, retry_after_ms)


_original_after_no_effect = schedule.after_no_effect


# --- finding out -------------------------------------------------------------------------------


_original_wait_ms = questions.wait_ms


def _waits_five_times_as_long(operation: Operation, asked: int) -> int:
    return 5 * _original_wait_ms(operation, asked)


def _asks_for_ever(action: Action, operation: Operation) -> bool:
    return action.lookups_answered < len(operation.lookups)


_original_ask_later = schedule.ask_later_or_review


def _leaves_it_to_the_stream(draft: Draft, key: str, operation: Operation) -> None:
    """Nobody goes through what is unknown: a webhook will tell."""
    if not operation.lookups:
        _original_ask_later(draft, key, operation)


_original_denies = evidence._denies


def _believes_absence_at_once(
    draft: Draft, action: Action, given: i.Evidence, asked: Lookup | None
) -> tuple[int, ...]:
    """Not found is taken for did not happen."""
    if given.meaning is not i.Meaning.ABSENT:
        return _original_denies(draft, action, given, asked)
    return tuple(one.number for one in action.attempts if one.status is AttemptStatus.UNRESOLVED)


def _absence_without_horizon(
    draft: Draft, action: Action, given: i.Evidence, asked: Lookup | None
) -> tuple[int, ...]:
    """The provider's settle horizon is forgotten; search lag and skew are not."""
    config = draft.config
    operations = tuple(
        operation.model_copy(update={"settle_horizon_ms": 0})
        for operation in config.catalogue.operations
    )
    catalogue = replace(config.catalogue, operations=operations)
    draft.config = replace(config, catalogue=catalogue)
    denied = _original_denies(draft, action, given, asked)
    draft.config = config
    return denied


def _any_money_will_do(draft: Draft, key: str, told: Effect) -> None:
    action = draft.action(key)
    if action.status is Status.COMPLETED or not action.is_open:
        return
    draft.add(
        ActionCompleted(
            action=key,
            version=draft.version(key),
            proof=told.proof or "report",
            reference=told.name or key,
        )
    )


def _late_word_reopens(
    draft: Draft, action: Action, attempt: Attempt, outcome: i.ReportedOutcome
) -> Decided:
    """A late answer overwrites what was final."""
    if isinstance(outcome, i.NoAnswer) and action.is_final:
        draft.add(
            AttemptUnresolved(
                action=action.key,
                version=draft.version(action.key),
                attempt=attempt.number,
                code=outcome.code,
            )
        )
        return draft.decided()
    return replayed(action, "already_recorded")


def _a_lapse_is_a_failure(draft: Draft, key: str) -> None:
    """A lost answer is taken for a failure."""
    action = draft.action(key)
    if action.status is Status.UNKNOWN:
        draft.add(ActionFailed(action=key, version=draft.version(key), code="timeout"))


# --- intake ------------------------------------------------------------------------------------


_original_propose = intake.propose


def _takes_the_other_body(draft: Draft, given: i.Propose) -> Decided:
    """A known key stands for whatever was asked last."""
    known = draft.stream.action(given.key)
    operation = None if known is None else draft.operation(known)
    if known is None or operation is None or known.attempts:
        return _original_propose(draft, given)
    if request_hash(given.request) == known.request_hash:
        return replayed(known, "replayed")
    others = tuple(one for one in draft.stream.actions if one.key != given.key)
    draft._stream = Stream(draft.stream.key, others)
    key = ActionKey.parse(given.key)
    intake.record(draft, given, request_hash(given.request), operation)
    rule(draft, key, draft.action(given.key).request, operation)
    return draft.decided()


# --- which word counts -------------------------------------------------------------------------


_original_named = attempts._named


def _names_any_holder(
    draft: Draft, given: i.Report | i.CallerReport | i.Decline, holder: str
) -> tuple[Action, Attempt] | Decided:
    """Whoever reports an attempt is believed, whatever its token."""
    action = draft.stream.action(given.key)
    if action is None or not 0 < given.attempt <= len(action.attempts):
        return _original_named(draft, given, holder)
    return action, action.attempts[given.attempt - 1]


_original_weigh = evidence.weigh


def _any_account_will_do(draft: Draft, given: i.Evidence) -> Decided:
    """Evidence counts whichever account it comes from."""
    action = draft.stream.action(given.key)
    if action is None:
        return _original_weigh(draft, given)
    account = {"provider": action.provider, "account": action.account}
    return _original_weigh(draft, given.model_copy(update=account))


def _an_old_answer_settles_the_newest(draft: Draft, given: i.Evidence) -> Decided:
    """Whatever answer comes is taken for the one to the question that is open."""
    action = draft.stream.action(given.key)
    if given.meaning is i.Meaning.ABSENT and action is not None and action.lookup is not None:
        given = given.model_copy(update={"lookup": action.lookup.number})
    return _original_weigh(draft, given)


def _absence_counts_from_its_answer(
    draft: Draft, action: Action, given: i.Evidence, asked: Lookup | None
) -> tuple[int, ...]:
    """When the question was put is forgotten: what counts is when its answer came."""
    if asked is not None:
        asked = replace(asked, asked_at=draft.now, attempts_upto=99)
    return _original_denies(draft, action, given, asked)


_original_with_evidence = evolve_evidence.with_evidence


def _remembers_no_source(action: Action, fact: EvidenceRecorded) -> dict[str, object]:
    return _original_with_evidence(action, fact) | {"sources": action.sources}


# --- time --------------------------------------------------------------------------------------


_originally_due, _original_due_at = ticking._do_what_is_due, schedule.due_at


def _never_lapses(draft: Draft, key: str) -> None:
    """A holder that says nothing is waited for."""
    if draft.action(key).running is None:
        _originally_due(draft, key)


def _lapses_without_allowance(draft: Draft, key: str) -> None:
    """Clocks are believed to agree."""
    config = draft.config
    timing = config.catalogue.timing.model_copy(update={"skew_ms": 0})
    draft.config = replace(config, catalogue=replace(config.catalogue, timing=timing))
    _originally_due(draft, key)
    draft.config = config


def _due_without_allowance(action: Action, now: int, *, skew_ms: int) -> int | None:
    return _original_due_at(action, now, skew_ms=0 * skew_ms)


_original_bar = schedule.bar


def _no_step_deadline(
    action: Action, operation: Operation, at: int, config: Config
) -> schedule.Bar | None:
    """A step is started however late it is."""
    return _original_bar(action, operation, min(at, action.step_deadline_at - 1), config)


DECIDING: Final[dict[str, Saboteur]] = {
    "new_key_on_retry": Saboteur(
        "every attempt has a key of its own",
        3,
        ((schedule, "_provider_key", _new_key_for_every_attempt),),
    ),
    "key_window_not_checked": Saboteur(
        "the provider is trusted to remember a key for ever",
        1454,
        ((schedule, "key_window_closes_at", _no_window),),
    ),
    "retry_without_a_key": Saboteur(
        "every class is tried again",
        20,
        (
            (schedule, "bar", _retries_whatever_the_class),
            (ticking, "bar", _retries_whatever_the_class),
        ),
    ),
    "failed_on_first_refusal": Saboteur(
        "one refusal fails the action while another attempt is open",
        317,
        (
            (attempts, "after_no_effect", _fails_on_any_refusal),
            (evolving, "invariant", no_invariants),
            (evolving, "ACCEPTED", Everything()),
        ),
        "stops",
    ),
    "not_found_is_failed": Saboteur(
        "not found is taken for did not happen",
        3,
        ((evidence, "_denies", _believes_absence_at_once),),
    ),
    "no_settle_horizon": Saboteur(
        "a call is believed to be over when its lease is",
        27,
        ((evidence, "_denies", _absence_without_horizon),),
    ),
    "absence_counts_from_its_answer": Saboteur(
        "an absence counts for what was over when it was told, not when it was asked",
        224,
        ((evidence, "_denies", _absence_counts_from_its_answer),),
    ),
    "old_absence_settles_newer_attempt": Saboteur(
        "the answer to an earlier question is taken for that to the open one",
        453,
        ((dispatch, "weigh", _an_old_answer_settles_the_newest),),
    ),
    "ladder_stretched": Saboteur(
        "questions are put off for longer than the operation declares",
        742,
        (
            (questions, "wait_ms", _waits_five_times_as_long),
            (schedule, "wait_ms", _waits_five_times_as_long),
        ),
    ),
    "asked_for_ever": Saboteur(
        "a provider that never answers is asked for ever",
        742,
        (
            (schedule, "has_lookups_left", _asks_for_ever),
            (ticking, "has_lookups_left", _asks_for_ever),
        ),
    ),
    "unknown_left_to_the_stream": Saboteur(
        "what is unknown waits for a webhook, and nobody sweeps over it",
        157,
        ((schedule, "ask_later_or_review", _leaves_it_to_the_stream),),
    ),
    "timeout_is_failure": Saboteur(
        "a lost answer is taken for a failure",
        3,
        (
            (attempts, "find_out", _a_lapse_is_a_failure),
            (evolving, "invariant", no_invariants),
            (evolving, "ACCEPTED", Everything()),
        ),
        "stops",
    ),
    "final_left_by_late_answer": Saboteur(
        "a late answer overwrites a final status",
        54,
        (
            (attempts, "_late", _late_word_reopens),
            (evolving, "invariant", no_invariants),
            (evolving, "ACCEPTED", Everything()),
        ),
        "stops",
    ),
    "no_fence": Saboteur(
        "a report counts whatever its token and its holder",
        34,
        ((attempts, "_named", _names_any_holder),),
    ),
    "other_body_accepted": Saboteur(
        "a known key stands for whatever was asked last",
        15,
        ((dispatch, "propose", _takes_the_other_body), (evolving, "invariant", no_invariants)),
        "stops",
    ),
    "money_not_compared": Saboteur(
        "a webhook of any amount completes",
        5,
        ((evidence, "tell_effect", _any_money_will_do),),
    ),
    "foreign_account_believed": Saboteur(
        "evidence counts whichever account it comes from",
        260,
        ((dispatch, "weigh", _any_account_will_do),),
    ),
    "evidence_counted_twice": Saboteur(
        "what has counted once is not remembered",
        0,
        ((evolving, "with_evidence", _remembers_no_source),),
    ),
    "lease_never_lapses": Saboteur(
        "a holder that says nothing is waited for",
        19,
        ((ticking, "_do_what_is_due", _never_lapses),),
    ),
    "lapse_without_allowance": Saboteur(
        "a lease is over at its very end, as if clocks agreed",
        34,
        (
            (ticking, "_do_what_is_due", _lapses_without_allowance),
            (timetable, "due_at", _due_without_allowance),
        ),
    ),
    "step_deadline_ignored": Saboteur(
        "a step is started however late it is",
        25,
        ((schedule, "bar", _no_step_deadline), (ticking, "bar", _no_step_deadline)),
    ),
}
