"""Which actions of its tenant an agent may see, and what it is told of those that it may not.

Guarantees that an agent which may not ask for an operation learns nothing of its actions from an
answer about its own: that it waits it is told, and not for whom. People, operators and whoever is
no agent are told everything. Called by the routes of actions, runs and sagas.
"""

from collections.abc import Sequence
from typing import Final

from gateway.http.doors import Doors
from gateway.http.problems import No
from gateway.http.timeline import Entry, TimelineView
from gateway.http.views import ActionView, BlockedView
from gateway.keys import Caller, Role
from ledger.core.ids import ActionKey, MalformedId
from projections.query_rows import ActionRow

_SAME_TARGET: Final = "target"
"""What an action waits for that its caller has not named. What it revises, compensates or follows
in its saga its caller has.
"""

_LOOKS_LIKE: Final = "suspected_duplicate"
"""The reason of the case that names an action which its caller has not named."""


async def may_ask(doors: Doors, caller: Caller, *operations: str) -> bool | No:
    """Whether an agent may ask for at least one version of each operation, by the newest catalogue;
    one that is not declared counts as allowed. Whoever is no agent may see all of the tenant.
    """
    return await doors.by_newest(
        lambda: all(_may_ask(doors, caller, one) for one in operations), lambda may: not may
    )


async def may_see(doors: Doors, caller: Caller, rows: Sequence[ActionRow]) -> list[ActionRow]:
    """The actions of whose operation the caller may ask; see `may_ask`. Where the newest catalogue
    cannot be read in time the known one decides, and what it leaves out shows in a later look.
    """
    named = [(row, ActionKey.parse(row.action_key).operation) for row in rows]

    def seen() -> list[ActionRow]:
        return [row for row, operation in named if _may_ask(doors, caller, operation)]

    by_newest = await doors.by_newest(seen, lambda some: len(some) < len(rows))
    return seen() if isinstance(by_newest, No) else by_newest


def _may_ask(doors: Doors, caller: Caller, operation: str) -> bool:
    catalogue = doors.published().catalogue
    if caller.role is not Role.AGENT or catalogue is None:
        return True
    versions = [one for one in catalogue.operations if one.name == operation]
    return not versions or any(one.allows(caller.principal) for one in versions)


async def told_to(doors: Doors, caller: Caller, view: ActionView) -> ActionView:
    """An action as its caller is told of it: another one is named where it may ask for its like."""
    waits = view.blocked
    by = waits.by if waits is not None and waits.reason == _SAME_TARGET else None
    if by is not None and not await _may_hear_of(doors, caller, by):
        view = view.model_copy(update={"blocked": BlockedView(reason=_SAME_TARGET)})
    like = view.review_names if view.review == _LOOKS_LIKE else None
    if like is not None and not await _may_hear_of(doors, caller, like):
        view = view.model_copy(update={"review_names": None})
    return view


async def timeline_told(doors: Doors, caller: Caller, timeline: TimelineView) -> TimelineView:
    """The facts of an action as its caller is told of them; see `told_to`."""
    entries = []
    for entry in timeline.entries:
        data = dict(entry.data)
        for name in _names_another(entry):
            key = data.get(name)
            if isinstance(key, str) and not await _may_hear_of(doors, caller, key):
                del data[name]
        entries.append(entry.model_copy(update={"data": data}))
    return timeline.model_copy(update={"entries": tuple(entries)})


def _names_another(entry: Entry) -> tuple[str, ...]:
    """The members of a fact that may name an action which its caller has not named."""
    match entry.type:
        case "gate.answered":
            return ("behind", "like")
        case "review.opened" if entry.data.get("reason") == _LOOKS_LIKE:
            return ("names",)
        case _:
            return ()


async def _may_hear_of(doors: Doors, caller: Caller, key: str) -> bool:
    """Whether a caller may see the action of a key. Where the newest catalogue cannot be read in
    time it may not: nobody is refused by that, and a later look tells. Nor may an agent see what
    stands in an edited row and is no key.
    """
    if caller.role is not Role.AGENT:
        return True
    try:
        operation = ActionKey.parse(key).operation
    except MalformedId:
        return False
    return await may_ask(doors, caller, operation) is True
