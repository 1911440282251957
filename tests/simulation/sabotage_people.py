"""Seeded bugs in who may decide: what an approval is bound to, how long it holds, whose word it is,
and under which table.
"""

from typing import Final

from ledger.core import evolve as evolving
from ledger.core import inputs as i
from ledger.core.catalogue import Operation
from ledger.core.config import Config
from ledger.core.decide import approvals, asking, attempts, dispatch, ruling, schedule
from ledger.core.decide import time as ticking
from ledger.core.decide.draft import Decided, Draft
from ledger.core.decide.schedule import after_decline
from ledger.core.facts import AttemptDeclined
from ledger.core.holds import Hold
from ledger.core.people import Person
from ledger.core.preview import Foreseen, Preview, Undone
from ledger.core.rejections import Rejection
from ledger.core.state import Action, Approval, Status, Stream
from ledger.core.statement import Say, Statement
from streams import timetable
from tests.simulation.sabotage import Everything, Saboteur, no_invariants

# --- what it is bound to -------------------------------------------------------------------------


def _only_the_key(action: Action, statement: Statement, ledger: str) -> Rejection | None:
    """An approval is good for whatever bears the key."""
    return None if statement.key == action.key else Rejection.OTHER_ACTION


_original_untimely = approvals._untimely


def _bound_to_no_round(
    draft: Draft, approval: Approval, statement: Statement, appended_at: int
) -> Rejection | None:
    """Which request a statement answers is not asked, only whether it is still time."""
    answered = {
        "nonce": approval.nonce,
        "policy_hash": approval.policy_hash,
        "row": approval.row,
        "preview_hash": approval.preview_hash,
    }
    return _original_untimely(draft, approval, statement.model_copy(update=answered), appended_at)


# --- how long it holds ---------------------------------------------------------------------------


_original_lapse = approvals.lapse


def _never_over(action: Action, config: Config, at: int) -> approvals.Lapse | None:
    """What people granted is good for ever."""
    over = _original_lapse(action, config, at)
    return None if over == "expired" else over


def _late_is_in_time(
    draft: Draft, approval: Approval, statement: Statement, appended_at: int
) -> Rejection | None:
    """A statement is in time whenever it comes."""
    early = min(appended_at, approval.expires_at - 1, statement.expires_at - 1)
    return _original_untimely(draft, approval, statement, early)


def _nobody_is_revoked(action: Action, config: Config, at: int) -> approvals.Lapse | None:
    """Who agreed is not looked at again before a start."""
    over = _original_lapse(action, config, at)
    return None if over == "signer_revoked" else over


def _withdrawn_counts(approval: Approval, statement: Statement) -> bool:
    """A yes that was taken back counts when it comes again."""
    return False


def _moves_unnoticed(draft: Draft, given: i.Decline) -> Decided:
    """What an executor found to have moved is forgotten."""
    named = attempts._named(draft, given, given.holder)
    if isinstance(named, Decided) or named[1].ended_at is not None:
        return _original_decline(draft, given.model_copy(update={"changes": None}))
    action, attempt = named
    draft.add(
        AttemptDeclined(
            action=action.key,
            version=draft.version(action.key),
            attempt=attempt.number,
            code=given.code,
        )
    )
    after_decline(draft, action.key)
    return draft.decided()


_original_decline = attempts.decline


# --- whose word it is ----------------------------------------------------------------------------


def _anybody(action: Action, person: Person) -> bool:
    """Who asks may decide."""
    return False


def _any_group(person: Person, groups: tuple[str, ...]) -> bool:
    return True


def _any_tenant(person: Person, tenant: str) -> bool:
    return True


_original_counted = approvals._counted


def _no_is_yes(
    draft: Draft, action: Action, approval: Approval, given: i.Judged, statement: Statement
) -> Decided:
    """Whatever was signed is taken for a yes."""
    if statement.decision is Say.DENY and not approval.is_met:
        approvals._grant(draft, action, approval, given, statement)
        return draft.decided()
    return _original_counted(draft, action, approval, given, statement)


def _counts_signatures(approval: Approval) -> bool:
    return approval.ended is None and len(approval.grants) >= approval.quorum


def _never_said_before(approval: Approval, statement: Statement) -> bool:
    return False


def _whoever_has_capacity(action: Action, now: int) -> bool:
    """What people agreed to starts with the capacity that is at hand."""
    return action.status is Status.READY


def _holds_nothing(config: Config, action: Action) -> Hold | None:
    """An operator's word comes after capacity."""
    return None


# --- under which table ---------------------------------------------------------------------------


def _ruled_for_good(action: Action, config: Config) -> bool:
    """A table that is adopted later is for what is proposed later."""
    return False


def _any_row_keeps_the_round(draft: Draft, key: str, reason: str, changes: object = None) -> None:
    """What people were asked outlives the row that asked them."""
    if reason != "policy_changed":
        _original_end(draft, key, reason, changes)  # type: ignore[arg-type]  # as it was given


_original_end = asking.end


# --- what they are shown -------------------------------------------------------------------------


def _asks_by_what_was_foreseen(draft: Draft, key: str, operation: Operation) -> None:
    """What the provider foresaw once is good for every round."""
    dry = draft.action(key).dry
    if dry is None or dry.content is None:
        _original_ask(draft, key, operation)
        return
    asking._record_preview(draft, key, dry.content.foreseen)
    asking._request(draft, key)


_original_ask = asking.ask


def _shows_no_original(action: Action, stream: Stream) -> Undone | None:
    """What is undone is nobody's business."""
    return None


def _shows_no_performer(draft: Draft, action: Action, foreseen: Foreseen | None) -> Preview:
    """Who carries it out is nobody's business."""
    return _original_drawn(draft, action, foreseen).model_copy(update={"performer": None})


_original_drawn = asking._drawn

PEOPLE: Final[dict[str, Saboteur]] = {
    "preview_of_another_round": Saboteur(
        "people are asked anew by what the provider foresaw for the round before",
        403,
        (
            (asking, "ask", _asks_by_what_was_foreseen),
            (ruling, "ask", _asks_by_what_was_foreseen),
            (schedule, "ask", _asks_by_what_was_foreseen),
        ),
    ),
    "original_unseen": Saboteur(
        "people are not shown which effect is undone",
        124,
        ((asking, "_undone", _shows_no_original),),
    ),
    "performer_unseen": Saboteur(
        "people are not shown that a caller acts itself",
        28,
        ((asking, "_drawn", _shows_no_performer),),
    ),
    "approval_bound_to_the_key_only": Saboteur(
        "a signature is good for any payload, tenant and ledger",
        322,
        ((approvals, "transplanted", _only_the_key),),
    ),
    "approval_bound_to_no_round": Saboteur(
        "a signature is good for any preview, table and round",
        261,
        ((approvals, "_untimely", _bound_to_no_round),),
    ),
    "approval_expiry_not_checked": Saboteur(
        "what people granted is good for ever",
        28,
        ((schedule, "lapse", _never_over), (timetable, "lapse", _never_over)),
    ),
    "late_yes_counts": Saboteur(
        "a yes counts whenever it comes",
        1413,
        ((approvals, "_untimely", _late_is_in_time),),
    ),
    "grant_survives_revocation": Saboteur(
        "who agreed is not looked at again before a start",
        1508,
        ((schedule, "lapse", _nobody_is_revoked), (timetable, "lapse", _nobody_is_revoked)),
    ),
    "withdrawn_yes_counts_again": Saboteur(
        "a copy of a yes brings back what was withdrawn",
        10_339,
        ((approvals, "_is_taken_back", _withdrawn_counts),),
    ),
    "moved_facts_forgotten": Saboteur(
        "what people saw may move before it is acted on",
        366,
        ((dispatch, "decline", _moves_unnoticed),),
    ),
    "requester_decides": Saboteur(
        "who asks may decide",
        321,
        ((approvals, "_asks_itself", _anybody),),
    ),
    "any_group_decides": Saboteur(
        "nobody asks in which groups somebody is",
        293,
        ((Person, "is_in_one_of", _any_group),),
    ),
    "any_tenant_decides": Saboteur(
        "nobody asks for which tenants somebody decides",
        420,
        ((Person, "may_decide_for", _any_tenant),),
    ),
    "deny_read_as_approve": Saboteur(
        "whatever was signed is taken for a yes",
        366,
        ((approvals, "_counted", _no_is_yes),),
    ),
    "one_person_counted_twice": Saboteur(
        "signatures are counted, and not people",
        275,
        (
            (Approval, "is_met", property(_counts_signatures)),
            (approvals, "_said_before", _never_said_before),
            (evolving, "invariant", no_invariants),
        ),
        "stops",
    ),
    "policy_of_another_time": Saboteur(
        "a table that is adopted later does not hold for what waits",
        55,
        (
            (schedule, "needs_ruling", _ruled_for_good),
            (ticking, "needs_ruling", _ruled_for_good),
            (timetable, "needs_ruling", _ruled_for_good),
        ),
    ),
    "executor_takes_the_callers_action": Saboteur(
        "what people agreed to starts with any capacity, whoever is to carry it out",
        28,
        ((dispatch, "awaits_offer", _whoever_has_capacity),),
    ),
    "hold_ignored": Saboteur(
        "what an operator holds starts all the same",
        34,
        ((Config, "hold_on", _holds_nothing),),
    ),
    "round_outlives_its_row": Saboteur(
        "what people granted under one row is good under another",
        113,
        (
            (ruling, "end", _any_row_keeps_the_round),
            (evolving, "invariant", no_invariants),
            (evolving, "ACCEPTED", Everything()),
        ),
        "stops",
    ),
}
