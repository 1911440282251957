"""What people read of cases, as JSON: the list of what waits, and the sheet of one case.

It is data to be shown, not to be believed: whoever signs compares it with what they sign. Made by
`gateway.http.cases`, answered by the routes of reviews, read by the pages and the command line.
"""

from typing import Literal

from pydantic import JsonValue

from gateway.http.sheets import ActionSheet, ListEntry, OnSheet, PersonsList
from ledger.core.money import Money

Kind = Literal["review", "alarm", "blocked"]


class ReasonSheet(OnSheet):
    """Why a person is needed: the name of the reason, and a sentence. `names` is what it is about
    where that is not the action itself.
    """

    version: int
    reason: str
    sentence: str
    opened_at: int
    names: str | None = None


class AboutSheet(OnSheet):
    """What a case is about where that is not the action itself: the ceiling that it would pass,
    with the window that counted, what was taken of it then, what this action needs, and the limit;
    another action, with where to look at it; or how much of its amount was given back, and under
    which names.
    """

    kind: Literal["ceiling", "action", "amounts"]
    name: str
    sentence: str
    window: str | None = None
    dimension: str | None = None
    taken: int | None = None
    wanted: int | None = None
    limit: int | None = None
    href: str | None = None
    page: str | None = None


class AttemptSheet(OnSheet):
    """One try at the provider. No byte of it can leave after `last_byte_at`."""

    number: int
    status: str
    code: str | None = None
    holder: str
    provider_key: str
    started_at: int
    lease_until: int
    last_byte_at: int | None = None
    ended_at: int | None = None


class EvidenceSheet(OnSheet):
    """One thing that is known about the effect: what an attempt came to (`response`), what the
    provider said when it was asked (`lookup`), or by itself (`webhook`, a line of its settlement
    file or of its list). `source_id` and `raw_sha256` say of which bytes, `occurred_at` when it
    happened by the provider's word, `reverses` of which effect something was given back.
    """

    version: int
    at: int
    kind: str
    meaning: str
    attempt: int | None = None
    attempts_upto: int | None = None
    lookup: int | None = None
    reference: str | None = None
    money: Money | None = None
    amount: str | None = None
    code: str | None = None
    result: dict[str, JsonValue] | None = None
    source_id: str | None = None
    raw_sha256: str | None = None
    occurred_at: int | None = None
    reverses: str | None = None


class MoveSheet(OnSheet):
    """Something that is safe to say now, and what it would do."""

    move: str
    sentence: str
    needs_reference: bool


class ResolvedSheet(OnSheet):
    """How somebody settled an earlier case of the action."""

    version: int
    case: int
    move: str
    person: str
    reference: str | None = None
    accepts: str | None = None
    comment: str
    resolved_at: int


class CaseSheet(ActionSheet):
    """Everything that a person sees before they settle a case. `case` is the fact that opened it
    and `moved` the newest one that tells something about it: a resolution names both, and counts
    for nothing once they have changed.

    `kind` is `alarm` where the action is final and stays so, `blocked` where it only waits for
    another one that a person may let it pass; `about` is what the case names, and `accepts` what
    whoever signs `allow` lets it pass. `key_window_closes_at` is until when the provider surely
    knows the key of the attempts; one of `groups` settles it, anybody who is registered for the
    tenant where none is named.
    """

    kind: Kind | None = None
    case: int | None = None
    moved: int | None = None
    reasons: tuple[ReasonSheet, ...] = ()
    about: AboutSheet | None = None
    accepts: str | None = None
    attempts: tuple[AttemptSheet, ...] = ()
    evidence: tuple[EvidenceSheet, ...] = ()
    key_window_closes_at: int | None = None
    last_byte_at: int | None = None
    groups: tuple[str, ...] = ()
    moves: tuple[MoveSheet, ...] = ()
    resolved: tuple[ResolvedSheet, ...] = ()


class CaseEntry(ListEntry):
    """One case that waits for a person, for a list."""

    status: str
    kind: Kind
    reason: str
    sentence: str
    names: str | None = None
    since: int


class CaseList(PersonsList):
    """The cases that wait, oldest first; `now` is the time at the ledger, `you` who looks, and
    `tenants` those for which you decide (`*` is all of them). `blocked` are actions that go on by
    themselves once another one is settled, and that a person may let pass before. `more` stands
    there where more cases wait than are listed, `more_blocked` where more actions are blocked.
    """

    cases: tuple[CaseEntry, ...]
    blocked: tuple[CaseEntry, ...] = ()
    more: Literal[True] | None = None
    more_blocked: Literal[True] | None = None
