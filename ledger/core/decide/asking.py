"""Asking people: what they are shown first, under which nonce, and what ends it.

A preview is drawn from the request, or completed by what the provider foresees; nobody is asked
before it is there. What was asked and came to nothing is dead for good: the next round has a nonce
of its own.
"""

import hashlib
from collections.abc import Iterator
from itertools import islice
from typing import Final

from ledger.core.canonical import canonicalize
from ledger.core.catalogue import Operation
from ledger.core.decide.draft import Decided, Draft, refused_by, replayed
from ledger.core.facts import (
    ApprovalEnd,
    ApprovalEnded,
    ApprovalEscalated,
    ApprovalRequested,
    PreviewFailed,
    PreviewRecorded,
    PreviewStarted,
    TimerSet,
)
from ledger.core.inputs import AskAgain, PreviewRead
from ledger.core.limits import FORESEEN_BYTES_MAX, LINEAGE_SHOWN_MAX, PREVIEW_WAIT_MS
from ledger.core.order import has_something_to_undo, lineage, original_of, reference_to_undo
from ledger.core.preview import Change, Check, Foreseen, Preview, Revised, Undone, preview_hash
from ledger.core.rejections import Rejection
from ledger.core.request import differences
from ledger.core.state import Action, Approval, Status, Stream

_NONCE_DOMAIN: Final = "actionledger.nonce.v1"
_REVISES: Final = "revises"


def ask(draft: Draft, key: str, operation: Operation) -> None:
    """A new round: show people what would happen now, and ask them; at once, or as soon as the
    provider has said what it foresees. What it foresaw is as old as the round that it was for.
    """
    action = draft.action(key)
    if preview_is_under_way(action):
        return
    if operation.preview == "provider":
        start_preview(draft, key)
        return
    if action.dry is None or action.dry.content != _drawn(draft, action, None):
        _record_preview(draft, key, None)
    _request(draft, key)


def ask_without_provider(draft: Draft, key: str) -> None:
    """Show people what the request itself says, and ask them: nothing more is to be foreseen."""
    _record_preview(draft, key, None)
    _request(draft, key)


def preview_is_under_way(action: Action) -> bool:
    """Whether the provider is being asked what would happen, or will be again in a while."""
    dry, timer = action.dry, action.timer
    if dry is None or dry.content is not None:
        return False
    return dry.answer_by is not None or (timer is not None and timer.purpose == "preview")


def start_preview(draft: Draft, key: str) -> None:
    """Have the provider asked what would happen."""
    action = draft.action(key)
    draft.add(
        PreviewStarted(
            action=key,
            version=draft.version(key),
            preview=_next_preview(action),
            provider=action.provider,
            account=action.account,
            intent_offset=action.intent_offset,
            answer_by=draft.now + draft.config.timing.lookup_answer_ms,
            original_reference=reference_to_undo(draft.stream, action),
        )
    )


def _next_preview(action: Action) -> int:
    return 1 if action.dry is None else action.dry.number + 1


def _record_preview(
    draft: Draft, key: str, foreseen: Foreseen | None, number: int | None = None
) -> None:
    """Draw the preview up: as the answer to the one of this number, or as the next one."""
    action = draft.action(key)
    content = _drawn(draft, action, foreseen)
    draft.add(
        PreviewRecorded(
            action=key,
            version=draft.version(key),
            preview=_next_preview(action) if number is None else number,
            content=content,
            preview_hash=preview_hash(content),
        )
    )


def _drawn(draft: Draft, action: Action, foreseen: Foreseen | None) -> Preview:
    """What people see of an action as it is now."""
    return Preview(
        request_hash=action.request_hash,
        provider=action.provider,
        account=action.account,
        target=action.request.target,
        money=action.request.money,
        foreseen=foreseen,
        checks=tuple(_checks(action, draft.stream)),
        revises=_revised(action, draft.stream),
        undoes=_undone(action, draft.stream),
        performer=action.performer,
    )


def _checks(action: Action, stream: Stream) -> Iterator[Check]:
    """What the action has passed so far, for whoever is asked about it."""
    request = action.request
    name = f"{request.operation} v{request.version}"
    yield Check(name="may_ask", passed=True, detail=f"{request.principal} may ask for {name}")
    yield Check(name="declared", passed=True, detail=f"the request fits the declaration of {name}")
    asks = f"row {action.policy_row} asks for people to agree"
    if action.revises is not None:
        asks = f"a revision needs people to agree, whatever row {action.policy_row} says"
    yield Check(name="automatic", passed=False, detail=asks)
    yield from _checks_of_earlier(action, stream)


def _checks_of_earlier(action: Action, stream: Stream) -> Iterator[Check]:
    """What became of everything that the action revises: there may be no second effect."""
    for earlier in islice(lineage(stream, action), LINEAGE_SHOWN_MAX):
        if earlier.status is Status.COMPLETED:
            said = "has completed: with this one there would be two effects"
        elif earlier.is_unsettled:
            said = "is not settled: if it has had its effect, with this one there are two"
        elif has_something_to_undo(earlier):
            said = "had an effect that came to light later: with this one there would be two"
        else:
            yield Check(name=_REVISES, passed=True, detail=f"{earlier.key} has no effect")
            continue
        yield Check(name=_REVISES, passed=False, detail=f"{earlier.key} {said}")


def _revised(action: Action, stream: Stream) -> Revised | None:
    """What the action revises, and what it changes of that."""
    earlier = None if action.revises is None else stream.action(action.revises)
    if earlier is None:
        return None
    changes = tuple(
        Change(name=one.path, was=one.was, now=one.now)
        for one in differences(earlier.request, action.request)
    )
    return Revised(action=earlier.key, status=earlier.status.value, changes=changes)


def _undone(action: Action, stream: Stream) -> Undone | None:
    """What the action undoes."""
    original = original_of(stream, action)
    if original is None:
        return None
    return Undone(
        action=original.key,
        status=original.status.value,
        reference=reference_to_undo(stream, action),
        target=original.request.target,
        money=original.request.money,
    )


def is_shown_otherwise(stream: Stream, action: Action) -> bool:
    """Whether people are asked, or have agreed, about something else than there is by now."""
    approval = action.approval
    is_alive = approval is not None and approval.ended is None
    may_ask = action.status in {Status.AWAITING_APPROVAL, Status.READY, Status.BLOCKED}
    return is_alive and may_ask and not action.is_open and not shows_what_is(stream, action)


def shows_what_is(stream: Stream, action: Action) -> bool:
    """Whether the newest preview says what became of the action that this one revises, and of the
    one that it undoes, and who carries it out.
    """
    content = None if action.dry is None else action.dry.content
    if content is None:
        return True
    shown = tuple(check for check in content.checks if check.name == _REVISES)
    is_so = content.undoes == _undone(action, stream)
    is_so = is_so and content.performer == action.performer
    return is_so and shown == tuple(_checks_of_earlier(action, stream))


def _request(draft: Draft, key: str) -> None:
    """Ask people: a new round, under a nonce that no earlier decision can name."""
    action = draft.action(key)
    asks, dry = action.asks, action.dry
    if asks is None or dry is None or dry.content_hash is None or action.policy_hash is None:
        return
    number = 1 if action.approval is None else action.approval.round + 1
    escalates = asks.escalate_after_ms is not None
    draft.add(
        ApprovalRequested(
            action=key,
            version=draft.version(key),
            round=number,
            nonce=_nonce(draft, key, number),
            expires_at=draft.now + asks.valid_ms,
            policy_hash=action.policy_hash,
            row=action.policy_row or "",
            preview_hash=dry.content_hash,
            quorum=asks.quorum,
            groups=asks.groups,
            escalate_at=draft.now + (asks.escalate_after_ms or 0) if escalates else None,
            escalate_to=asks.escalate_to,
        )
    )


def _nonce(draft: Draft, key: str, number: int) -> str:
    """Different for every round of every action at every place of every log."""
    place = draft.place
    text = "\n".join((_NONCE_DOMAIN, key, str(number), str(place.offset), str(place.decided_at)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def ask_again(draft: Draft, given: AskAgain) -> Decided:
    """Ask once more where the last request came to nothing; while one is alive it is that one."""
    action = draft.stream.action(given.key)
    if action is None:
        return refused_by(Rejection.UNKNOWN_ACTION)
    if action.is_final:
        return refused_by(Rejection.ALREADY_FINAL, action)
    if action.status is not Status.AWAITING_APPROVAL:
        return replayed(action, "nobody_to_ask")
    approval = action.approval
    if approval is None or preview_is_under_way(action):
        return replayed(action, "preview_under_way")
    if approval.ended is None and draft.now < approval.expires_at:
        return replayed(action, "asked_already")
    operation = draft.operation(action)
    if operation is None:
        return refused_by(Rejection.UNKNOWN_OPERATION, action)
    if approval.ended is None:
        end(draft, given.key, "expired")
    ask(draft, given.key, operation)
    return draft.decided()


def preview_read(draft: Draft, given: PreviewRead) -> Decided:
    """Record what the provider foresees, and ask people; or wait and have it asked again."""
    action = draft.stream.action(given.key)
    if action is None:
        return refused_by(Rejection.UNKNOWN_ACTION)
    if (given.provider, given.account) != (action.provider, action.account):
        return refused_by(Rejection.FOREIGN_ACCOUNT, action)
    dry = action.dry
    if dry is None or dry.number != given.preview or action.status is not Status.AWAITING_APPROVAL:
        return replayed(action, "not_asked_for")
    if dry.answer_by is None:
        return replayed(action, "already_recorded")
    foreseen, code = given.foreseen, given.code or "no_answer"
    if foreseen is not None and _is_too_large(foreseen):
        foreseen, code = None, "too_large"
    if foreseen is None:
        failed = PreviewFailed(
            action=given.key, version=draft.version(given.key), preview=dry.number, code=code
        )
        draft.add(failed)
        due_at = draft.now + PREVIEW_WAIT_MS
        version = draft.version(given.key)
        draft.add(TimerSet(action=given.key, version=version, purpose="preview", due_at=due_at))
        return draft.decided()
    _record_preview(draft, given.key, foreseen, dry.number)
    _request(draft, given.key)
    return draft.decided()


def _is_too_large(foreseen: Foreseen) -> bool:
    """Whether nobody could read it, and no start could carry it."""
    form = canonicalize(foreseen.model_dump(mode="json", exclude_none=True))
    return len(form) > FORESEEN_BYTES_MAX


def end(
    draft: Draft, key: str, reason: ApprovalEnd, changes: tuple[Change, ...] | None = None
) -> None:
    """The nonce that is alive is dead from now on, and what was granted under it counts no more."""
    approval = draft.action(key).approval
    if approval is not None and approval.ended is None:
        draft.add(
            ApprovalEnded(
                action=key,
                version=draft.version(key),
                nonce=approval.nonce,
                reason=reason,
                changes=changes,
            )
        )


def escalate(draft: Draft, key: str, approval: Approval) -> None:
    """Nobody decided in time: let further groups decide too."""
    version = draft.version(key)
    draft.add(ApprovalEscalated(action=key, version=version, groups=approval.escalate_to))
