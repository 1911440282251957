"""Earlier rounds: each time people were asked before, how that ended, and what has moved since.

Guarantees that a value which differs from what somebody was shown earlier stands beside its old
one. Pure; called for sheets, on pages and at a terminal.
"""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import from_json

from gateway.console.text import Shown, shown
from ledger.core.canonical import canonicalize
from ledger.core.people import People
from ledger.core.state import Grant
from projections.query_rows import EventRow

_ABSENT: Final = "(absent)"


@dataclass(frozen=True, slots=True)
class Moved:
    """One value that is another than when people were asked before."""

    name: Shown
    was: Shown
    now: Shown


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that is another one now, whole: as long as a dry run may tell it."""

    name: str
    was: str
    now: str


@dataclass(frozen=True, slots=True)
class Earlier:
    """One round that came to nothing, and every value that is another one now."""

    round: int
    asked_at: int
    ended_at: int
    reason: str
    sentence: str
    changes: tuple[Difference, ...]

    @property
    def moved(self) -> tuple[Moved, ...]:
        """What has changed, as a page shows it."""
        return tuple(Moved(shown(one.name), shown(one.was), shown(one.now)) for one in self.changes)


@dataclass(frozen=True, slots=True)
class Remark:
    """What somebody has signed about the action, in which round, and their words."""

    round: int
    person: str
    did: str
    decided_at: int
    comment: Shown | None


_DID: Final = {
    "approval.granted": "agreed",
    "approval.withdrawn": "took it back",
    "action.denied": "denied it",
}


def remarks(events: Sequence[EventRow]) -> tuple[Remark, ...]:
    """What people have signed about the action and what counted, in its order."""
    return tuple(_remarks(events))


def _remarks(events: Sequence[EventRow]) -> Iterator[Remark]:
    number = 0
    for event in events:
        if event.type == "approval.requested":
            number = event.data["round"]
        person, comment = event.data.get("person"), event.data.get("comment")
        if event.type in _DID and person is not None:
            words = None if comment is None else shown(comment)
            yield Remark(number, person, _DID[event.type], event.decided_at, words)


def is_void(grant: Grant, people: People, at: int) -> bool:
    """Whether whoever agreed, or the key that they did it with, proves nothing any more."""
    person = people.signer(grant.key_id, at)
    return person is None or person.name != grant.person


WHY_ENDED: Final = {
    "expired": "Nobody decided in time. That is no denial.",
    "volatile_changed": "What was shown no longer held just before acting.",
    "policy_changed": "Another decision table was adopted.",
    "signer_revoked": "A person or a key that had agreed was revoked.",
}


def earlier_rounds(events: Sequence[EventRow]) -> tuple[Earlier, ...]:
    """The rounds before the newest, newest first, each with what is different now."""
    newest = _newest_preview(events)
    return tuple(reversed(list(_rounds(events, newest))))


def _rounds(events: Sequence[EventRow], newest: Mapping[str, Any]) -> Iterator[Earlier]:
    asked: EventRow | None = None
    preview: Mapping[str, Any] = {}
    for event in events:
        if event.type == "preview.recorded":
            preview = event.data.get("content", {})
        elif event.type == "approval.requested":
            asked = event
        elif event.type == "approval.ended" and asked is not None:
            reason = str(event.data.get("reason", ""))
            told = {change["name"]: change for change in event.data.get("changes") or ()}
            yield Earlier(
                round=asked.data["round"],
                asked_at=asked.decided_at,
                ended_at=event.decided_at,
                reason=reason,
                sentence=WHY_ENDED.get(reason, reason),
                changes=(*_told(told.values()), *_differing(preview, newest, without=told)),
            )


def _newest_preview(events: Sequence[EventRow]) -> Mapping[str, Any]:
    for event in reversed(events):
        if event.type == "preview.recorded":
            content: Mapping[str, Any] = event.data.get("content", {})
            return content
    return {}


def _told(changes: Iterable[Mapping[str, str]]) -> Iterator[Difference]:
    """What the executor found moved when it read again."""
    for change in changes:
        was, now = (None if each == _ABSENT else each for each in (change["was"], change["now"]))
        yield Difference(change["name"], _text(was, beside=now), _text(now, beside=was))


def _differing(
    was: Mapping[str, Any], now: Mapping[str, Any], *, without: Collection[str]
) -> Iterator[Difference]:
    """What the dry run says differently, but for names that are told already."""
    before, after = dict(_leaves(was)), dict(_leaves(now))
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old != new and name not in without:
            yield Difference(name, _text(old, beside=new), _text(new, beside=old))


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Every value that holds no others, as JSON: a text is told from a number that looks alike."""
    # The hash of the payload and the checks stand elsewhere on the page.
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            if path or name not in {"request_hash", "checks"}:
                yield from _leaves(item, f"{path} {name}".strip())
    else:
        path = path.removeprefix("foreseen ").removeprefix("observed ")
        yield path, canonicalize(value).decode()


def _text(value: str | None, *, beside: str | None) -> str:
    """A value as it is read: a text without its quotes, unless what stands beside it is no text."""
    if value is None:
        return _ABSENT
    if value.startswith('"') and (beside is None or beside.startswith('"')):
        # What an executor told is an excerpt: of one that was cut the quotes stay.
        with contextlib.suppress(ValueError):
            return str(from_json(value))
    return value
