"""What the pages read and where a decision goes: a narrow port, so that a page can do nothing else.

Guarantees that an action is read under the tenant of its key, and that what is decided is decided
by the ledger: a page hands in what a person signed and shows the answer. Implemented by
`gateway.console.reading` over the read model and the log.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from gateway.http.case_sheets import CaseEntry, CaseSheet
from gateway.http.run_views import CeilingList, RunList, RunView
from ledger.core.holds import Hold
from ledger.core.operation import Operation, Risk
from ledger.core.people import People, PersonKey
from ledger.core.policy import Policy
from ledger.core.records import Decision
from ledger.core.sagas import Saga
from ledger.core.state import Action
from ledger.core.statement import Signed
from projections.query_rows import EventRow, UnknownAge, UnknownRow
from reconciler.orphan_notes import OrphanNote
from reconciler.orphans import Orphan
from reconciler.parking import Position
from reconciler.windows import Live


class NotAnsweringError(Exception):
    """What a page needs does not answer: the read model, or the log."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """An action that needs a person, and since when. `expires_at` of a request that stands."""

    tenant: str
    key: str
    kind: Literal["approval", "preview", "expired", "review"]
    since: int
    target: str | None
    amount_minor: int | None
    currency: str | None
    principal: str | None
    row: str | None
    risk: Risk | None
    reason: str | None = None
    expires_at: int | None = None
    quorum: int = 0
    granted: int = 0
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """Everything that is known of an action: as its facts fold, and the facts themselves.

    `ledger` is the generation of the log. `policy` is the table by which people are asked, or else
    the one that ruled last; None where it is not known here. `declared` is the operation in the
    newest catalogue, None where it is not there. `is_whole` is False where a page would
    read more facts than it may. `people` is who may decide now.
    """

    action: Action
    events: tuple[EventRow, ...]
    ledger: str
    policy: Policy | None
    hold: Hold | None = None
    is_whole: bool = True
    people: People | None = None
    declared: Operation | None = None


@dataclass(frozen=True, slots=True)
class KnownCase:
    """A case as its sheet tells it; `is_whole` is False where it has more facts than are read."""

    sheet: CaseSheet
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A one-time link to register a passkey: for whom, until when, and the key that was given."""

    person: str
    expires_at: int
    key: PersonKey | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """The ledger's decision about what was handed in, and where it stands.

    `decision` is None where it is durable and not decided in time.
    """

    partition: int
    decision: Decision | None


class ConsolePort(Protocol):
    """Everything the pages ask. Raises NotAnsweringError."""

    def people(self) -> People:
        """Who may decide, as it was published last: a revocation counts here at once."""
        ...

    async def newest_people(self) -> People:
        """The same by all that was published before: asked before somebody is refused by it."""
        ...

    def ledger(self) -> str:
        """The generation of the log."""
        ...

    async def waiting(self, tenants: Sequence[str], *, limit: int) -> Sequence[Waiting]:
        """What needs a person, of these tenants only; `*` is all of them: what can be decided now,
        oldest first, and then the rest, oldest first.
        """
        ...

    async def known(self, tenant: str, key: str) -> Known | None:
        """An action of a tenant, or None."""
        ...

    async def cases(self, tenants: Sequence[str], *, limit: int) -> Sequence[CaseEntry]:
        """The cases that wait for a person, oldest first, of these tenants only."""
        ...

    async def blocked(self, tenants: Sequence[str], *, limit: int) -> Sequence[CaseEntry]:
        """What waits for another action, and may be let pass it, oldest news first."""
        ...

    async def unknowns(self, tenants: Sequence[str], *, limit: int) -> Sequence[UnknownRow]:
        """What may have happened, oldest news first, of these tenants only; `*` is all of them."""
        ...

    async def unknown_ages(self, tenants: Sequence[str], *, now_ms: int) -> Sequence[UnknownAge]:
        """How much is uncertain at each provider, by age, of these tenants only."""
        ...

    async def live(self, *, now_ms: int) -> Live:
        """What the reconciler saw lately, of all tenants."""
        ...

    async def orphans(self, tenants: Sequence[str], *, limit: int) -> tuple[Sequence[Orphan], int]:
        """What providers state and no action explains, oldest first, and how much that is: what
        bears a key of these tenants only; `*` is everything.
        """
        ...

    async def orphan(self, tenants: Sequence[str], place: Position) -> Orphan | None:
        """One of them by the place of its row, looked at or not, or None."""
        ...

    async def note_orphan(self, orphan: Orphan, said: OrphanNote) -> None:
        """Write down what a person says of it, durable when this returns."""
        ...

    async def runs(self, tenants: Sequence[str], *, limit: int, now_ms: int) -> RunList:
        """The newest runs of these tenants that a ceiling or a report counts."""
        ...

    async def run(self, tenant: str, run: str, *, now_ms: int) -> RunView | None:
        """A run with its ceilings and its actions, or None where nothing of it is known."""
        ...

    async def ceilings(self, tenant: str, *, now_ms: int) -> CeilingList:
        """The ceilings in force, and how their windows of now stand for a tenant."""
        ...

    async def sagas(self, tenants: Sequence[str], *, limit: int) -> Sequence[Saga]:
        """The newest sagas of these tenants only."""
        ...

    async def saga(self, tenant: str, event: str, saga: str) -> Saga | None:
        """A saga of a business event, or None where it is not known."""
        ...

    async def case(self, tenant: str, key: str, person: str, *, now_ms: int) -> KnownCase | None:
        """Everything about the case of an action, for a person; or None where there is no such
        action.
        """
        ...

    async def decide(self, key: str, signed: Signed) -> Decided:
        """Hand in a signed decision and wait for what the ledger makes of it."""
        ...

    async def ask_again(self, key: str, person: str) -> Decided:
        """Have people asked once more, and wait for what the ledger makes of it."""
        ...

    async def spend(self, once: str) -> bool:
        """Use up a one-time value; False where somebody did before."""
        ...

    async def is_spent(self, once: str) -> bool:
        """Whether somebody used up a one-time value."""
        ...

    async def enrolment(self, token: str) -> Enrolment | None:
        """What a link to register a passkey is for, or None where it is none or is over."""
        ...

    async def enrol(self, token: str, key: PersonKey, device: str) -> bool:
        """Keep the public key that was made for a link; False where one was given already."""
        ...
