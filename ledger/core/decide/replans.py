"""Replans: a changed request for the same act is a new action, shown beside the one it revises.

Whoever records a revision ends the earlier action: it starts no more, and gives way as soon as it
is surely without effect. While it may have had one the revision waits, unless a person has signed
that they accept two. A revision never goes ahead by itself, and people see what it changes and what
became of what it revises; once that is another thing, they are asked anew.
"""

from typing import Final

from ledger.core.decide.asking import ask, end, is_shown_otherwise
from ledger.core.decide.draft import Decided, Draft
from ledger.core.decide.ending import review
from ledger.core.decide.schedule import ask_later_or_review
from ledger.core.facts import ActionSuperseded
from ledger.core.ids import ActionKey
from ledger.core.inputs import Propose
from ledger.core.rejections import Detail, Refused, Rejection
from ledger.core.request import request_hash
from ledger.core.state import Action, Stream

_PATH: Final = "/revises"


def refusal_of_revision(stream: Stream, key: ActionKey, given: Propose) -> Decided | None:
    """Why a proposal may not revise what it names, or name nothing, or None."""
    if given.revises is None:
        if key.action_id.revision is None:
            return None
        return _refused(Rejection.REVISION_NEEDS_PERSON)
    earlier = stream.action(given.revises)
    if earlier is None:
        return _refused(Rejection.UNKNOWN_ORIGINAL, action=given.revises)
    told = _unfit(stream, key, given, earlier)
    if told is None:
        return None
    detail = Detail(path=_PATH, code=told[0], message=told[1])
    return _refused(Rejection.REVISION_UNFIT, detail, action=earlier.key)


def _unfit(
    stream: Stream, key: ActionKey, given: Propose, earlier: Action
) -> tuple[str, str] | None:
    """By which rule a key and what it names are no revision and its earlier one."""
    line = _line(stream, key)
    if earlier.key not in line:
        return "other_act", f"{earlier.key} is another act: operation, event and item are the same"
    newest = max(line, key=lambda one: line[one])
    if earlier.key != newest:
        return "not_the_newest", f"{newest} revises it already: revise that"
    if (key.action_id.revision or 1) <= line[newest]:
        return "revision_not_greater", f"the key of what revises it ends in ~{line[newest] + 1}"
    if earlier.saga is not None:
        return "step_of_saga", f"it belongs to the saga {earlier.saga.saga}: call that off instead"
    if earlier.request.environment != given.request.environment:
        return "other_environment", f"it is an act in {earlier.request.environment}"
    if earlier.compensates != given.compensates:
        return "other_original", f"it compensates {earlier.compensates or 'nothing'}"
    if earlier.request_hash == request_hash(given.request) and not earlier.is_final:
        return "nothing_changed", "it asks for exactly this already"
    return None


def _line(stream: Stream, key: ActionKey) -> dict[str, int]:
    """Every action of the stream that is the same act as the key's, with its revision."""
    line: dict[str, int] = {}
    for action in stream.actions:
        own = ActionKey.parse(action.key)
        if (own.operation, own.action_id.item) == (key.operation, key.action_id.item):
            line[action.key] = own.action_id.revision or 1
    return line


def _refused(code: Rejection, *details: Detail, action: str | None = None) -> Decided:
    return Decided(refused=Refused(code=code, action=action, details=details))


def give_way(draft: Draft) -> None:
    """End what a revision has been recorded for: at once where it is surely without effect; what
    may have had one is only asked about from now on.
    """
    for action in draft.stream.actions:
        if action.revised_by is None or action.is_final:
            continue
        if not action.is_unsettled:
            version = draft.version(action.key)
            by = action.revised_by
            draft.add(ActionSuperseded(action=action.key, version=version, by=by))
        elif action.timer is not None and action.timer.purpose == "retry":
            operation = draft.operation(action)
            if operation is None:
                review(draft, action.key, "operation_withdrawn")
            else:
                ask_later_or_review(draft, action.key, operation)


def show_what_is(draft: Draft, key: str) -> None:
    """Ask people anew about a revision once something else became of what it revises than they were
    shown.
    """
    action = draft.action(key)
    if not is_shown_otherwise(draft.stream, action):
        return
    operation = draft.operation(action)
    if operation is None:
        return
    end(draft, key, "volatile_changed")
    ask(draft, key, operation)
