"""What the routes work with, put together once, and how a route gets at it.

The ledger and the read model are narrow ports: the door proposes, cancels, follows and looks up,
and can do nothing else. Built by `create_app`.
"""

import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest

from gateway.http.body_bytes import Arriving
from gateway.http.codes import Code
from gateway.http.limits import (
    JUDGEMENTS_A_MINUTE_MAX,
    JUDGEMENTS_COUNTED_MAX,
    REPEATS_A_MINUTE_MAX,
    SIGNERS_COUNTED_MAX,
)
from gateway.http.log_throttle import LogThrottle
from gateway.http.metrics import Metrics
from gateway.http.problems import No, Trouble
from gateway.http.rate_limit import RateLimit
from gateway.keys import Caller, KeyRefusal, Role
from gateway.orphans import NoOrphans, OrphansPort
from ledger.client.client import Answer, Progress
from ledger.core.facts import AttemptStarted
from ledger.core.inputs import (
    AskAgain,
    CallerReport,
    Cancel,
    CancelSaga,
    Judge,
    OpenSaga,
    Propose,
    ReportStep,
)
from ledger.core.people import Person
from ledger.core.sagas import Saga
from ledger.log.port import Appender
from ledger.log.published import Published
from projections.query_rows import (
    ActionRow,
    CaseRow,
    EventRow,
    GateRow,
    ReviewRow,
    SignedRow,
    UnknownAge,
    WaitingRow,
)
from reconciler.schemes import Scheme
from reconciler.windows import Live, live_of

if TYPE_CHECKING:
    from gateway.http.runs_paused import RunsPaused
    from gateway.http.waiting_quota import WaitingQuota


_Said = TypeVar("_Said")


class LedgerPort(Protocol):
    """The ledger as the door uses it."""

    async def propose(self, given: Propose, *, timeout_ms: int) -> Answer:
        """Record an intent and wait for its decision. Raises NotDurableError, UndecidedError."""
        ...

    async def cancel(self, given: Cancel, *, timeout_ms: int) -> Answer:
        """Record a cancellation and wait for its decision; as `propose`."""
        ...

    async def report(self, said: CallerReport, *, timeout_ms: int) -> Answer:
        """Record a caller's word on its own attempt; as `propose`."""
        ...

    async def ask_again(self, given: AskAgain, *, timeout_ms: int) -> Answer:
        """Have people asked once more; as `propose`."""
        ...

    async def report_step(self, given: ReportStep, *, timeout_ms: int) -> Answer:
        """Record what an agent says of a step of its run; as `propose`."""
        ...

    async def open_saga(self, given: OpenSaga, *, timeout_ms: int) -> Answer:
        """Record a plan, whole or not at all; as `propose`."""
        ...

    async def cancel_saga(self, given: CancelSaga, *, timeout_ms: int) -> Answer:
        """Call a saga off; as `propose`."""
        ...

    def saga(self, stream: str, name: str) -> Saga | None:
        """A saga as it stands, where this process followed it from its plan on."""
        ...

    async def judge(self, given: Judge, *, timeout_ms: int) -> Answer:
        """Record what a person has signed; as `propose`."""
        ...

    def caller_start(self, key: str, nonce: str) -> AttemptStarted | None:
        """The start that lets this one call act now, or None."""
        ...

    async def progress(self, key: str, *, after_version: int, timeout_ms: int) -> Progress | None:
        """How an action stands once its version is above `after_version`; None if not in time."""
        ...


class QueriesPort(Protocol):
    """The read model as the door uses it; a row is seen by its own tenant only."""

    async def action(self, tenant: str, action_key: str) -> ActionRow | None:
        """The row of an action, or None."""
        ...

    async def timeline(
        self, tenant: str, action_key: str, *, after_version: int = 0, limit: int
    ) -> Sequence[EventRow]:
        """The facts of an action above a version, in order."""
        ...

    async def waiting(self, tenants: Collection[str], *, limit: int) -> Sequence[WaitingRow]:
        """Actions that people are asked about, of these tenants; `*` is all of them."""
        ...

    async def waiting_keys(self, tenant: str, principal: str, *, limit: int) -> Sequence[str]:
        """The keys of actions for which a principal waits for people."""
        ...

    async def paused(self, tenant: str, run: str) -> Sequence[tuple[str, str]]:
        """Actions of a run that wait for a person at a ceiling, and its name, oldest first."""
        ...

    async def cases(self, tenants: Collection[str], *, limit: int) -> Sequence[ReviewRow]:
        """Cases that wait for a person, of these tenants; `*` is all of them."""
        ...

    async def blocked(self, tenants: Collection[str], *, limit: int) -> Sequence[ActionRow]:
        """Actions that wait for others and may be let pass, of these tenants; `*` is all."""
        ...

    async def case_sheet(self, tenant: str, action_key: str) -> CaseRow | None:
        """An action with everything that was recorded of it, or None."""
        ...

    async def unknown_ages(self, tenants: Collection[str], *, now_ms: int) -> Sequence[UnknownAge]:
        """How much is uncertain at each provider, by age, of these tenants; `*` is all."""
        ...

    async def gate(self, tenant: str, gate_key: str) -> GateRow | None:
        """A gate as it stands, or None."""
        ...

    async def runs(self, tenant: str, *, limit: int) -> Sequence[GateRow]:
        """The gates of runs, the newest first."""
        ...

    async def windows(self, tenant: str, *, limit: int) -> Sequence[GateRow]:
        """The gates of windows, the newest first."""
        ...

    async def actions_of_run(self, tenant: str, run: str, *, limit: int) -> Sequence[ActionRow]:
        """The actions that were proposed with a run, those recorded first first."""
        ...

    async def actions_of_batch(self, tenant: str, batch: str, *, limit: int) -> Sequence[ActionRow]:
        """The actions that were proposed with a batch, those recorded first first."""
        ...

    async def sagas(self, tenant: str, *, limit: int) -> Sequence[Saga]:
        """Sagas, the newest first."""
        ...

    async def saga(self, stream_key: str, name: str) -> Saga | None:
        """A saga of a business event, or None."""
        ...

    async def signed(self, tenant: str, action_key: str) -> Sequence[SignedRow]:
        """What people have signed about an action, in order."""
        ...


class PersonPort(Protocol):
    """One way in which a person logs in: a token of their own key, or a session of the pages."""

    def person(self, http: HttpRequest, doors: "Doors") -> Person | No | None:
        """The person whose request this is; or why it is nobody's; or None where nobody has tried
        to log in this way.
        """
        ...


class KeyPort(Protocol):
    """Who an API key belongs to."""

    def caller(self, presented: str) -> Caller | KeyRefusal | None:
        """The caller, or why the key is not taken any more, or None, in the same time."""
        ...


class SecretsPort(Protocol):
    """What webhooks are verified with, as it stands now."""

    def live(self, provider: str, account: str, now_ms: int) -> tuple[str, ...]:
        """The secrets of an account that are accepted at a time."""
        ...

    def accounts(self, provider: str) -> tuple[str, ...]:
        """The accounts at a provider that have secrets."""
        ...

    def has_changed(self) -> bool:
        """Look whether there are others by now; asked before a webhook is refused by these."""
        ...


Check = Callable[[], Awaitable[None]]
"""Asks one part whether it answers; raises when it does not."""


async def nothing_seen(_now_ms: int) -> Live:
    """No reconciler has told what it sees."""
    return live_of(())


async def nothing_newer() -> bool:
    """What is known here is all that was published."""
    return True


@dataclass(frozen=True, slots=True)
class Instance:
    """The installation that a door belongs to."""

    ledger_id: str
    """The generation of its log."""
    published: Callable[[], Published]
    """Its configuration, as it is known here."""
    checks: Mapping[str, Check] = field(default_factory=dict)
    """What readiness asks, by the name of the part."""
    schemes: Mapping[str, Scheme] = field(default_factory=dict)
    """How a provider signs its webhooks, by provider, where not by Standard Webhooks."""
    live: Callable[[int], Awaitable[Live]] = nothing_seen
    """What the reconciler saw lately, as of a wall clock in milliseconds."""
    orphans: OrphansPort = field(default_factory=NoOrphans)
    """Effects that providers state and no action explains."""
    catch_up: Callable[[], Awaitable[bool]] = nothing_newer
    """Wait until `published` has all that was published before the call; whether it came to it."""


@dataclass(slots=True)
class Doors:
    """Everything behind the routes, and what they count. What it shares with `Instance` means the
    same here.
    """

    ledger: LedgerPort
    queries: QueriesPort
    webhooks: Appender
    keys: KeyPort
    webhook_secrets: SecretsPort
    partitions: int
    webhook_schemes: Mapping[str, Scheme] = field(default_factory=dict)
    ledger_id: str = ""
    published: Callable[[], Published] = Published
    catch_up: Callable[[], Awaitable[bool]] = nothing_newer
    persons: tuple[PersonPort, ...] = ()
    """Every way in which a person may log in; the first that a request uses counts."""
    waiting_quota: "WaitingQuota | None" = None
    """How many actions of one principal may wait for people; None where nobody counts them."""
    runs_paused: "RunsPaused | None" = None
    """Which runs wait for a person at a ceiling; None where nobody looks."""
    checks: Mapping[str, Check] = field(default_factory=dict)
    live: Callable[[int], Awaitable[Live]] = nothing_seen
    orphans: OrphansPort = field(default_factory=NoOrphans)
    looked_s: float | None = None
    """When the read model was last asked for metrics, on the monotonic clock."""
    metrics: Metrics = field(default_factory=Metrics)
    monotonic_s: Callable[[], float] = time.monotonic
    wall_clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    refusals_logged: LogThrottle = field(default_factory=LogThrottle)
    webhook_bytes_in_flight: int = 0
    webhooks_arriving: set[Arriving] = field(default_factory=set)
    judgements_in_flight: int = 0
    repeats: RateLimit = field(
        default_factory=lambda: RateLimit(REPEATS_A_MINUTE_MAX, names_max=JUDGEMENTS_COUNTED_MAX)
    )
    """How often the very same decision of a person may come."""
    signers: RateLimit = field(
        default_factory=lambda: RateLimit(JUDGEMENTS_A_MINUTE_MAX, names_max=SIGNERS_COUNTED_MAX)
    )
    """How often one person may decide."""
    waiters: int = 0
    is_stopping: bool = False

    async def by_newest(
        self, judge: Callable[[], _Said], is_no: Callable[[_Said], bool]
    ) -> _Said | No:
        """What `judge` says by the configuration known here. Where that is a no, it is asked again
        once everything published so far has been read: whoever was told that a document is in
        force is never refused by an older one. NOT_READY where that cannot be read in time.
        """
        said = judge()
        if not is_no(said):
            return said
        return judge() if await self.catch_up() else No(Code.NOT_READY, problems=(_NOT_CAUGHT_UP,))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count one more request that waits, while it does."""
        self.waiters += 1
        self.metrics.waiters.inc()
        try:
            yield
        finally:
            self.waiters -= 1
            self.metrics.waiters.dec()


_NOT_CAUGHT_UP = Trouble(
    path="", code="log", message="what was published last could not be read in time"
)


def doors_in(app: Starlette) -> Doors:
    """What an app was created with."""
    return cast("Doors", app.state.doors)


def doors_of(http: HttpRequest) -> Doors:
    """What the app of a request was created with."""
    return doors_in(http.app)


_BEARER = "bearer "
_REFUSED = {
    KeyRefusal.EXPIRED: Code.API_KEY_EXPIRED,
    KeyRefusal.REVOKED: Code.API_KEY_REVOKED,
}


def caller_of(http: HttpRequest, doors: Doors) -> Caller | No:
    """Who asks, by the API key; a missing, malformed, unknown and wrong one look the same, and two.

    Only who has the whole key learns that it was revoked or is over.
    """
    given = http.headers.getlist("authorization")
    header = given[0] if len(given) == 1 else ""
    presented = header[len(_BEARER) :].strip() if header.lower().startswith(_BEARER) else ""
    caller = doors.keys.caller(presented)
    if isinstance(caller, Caller):
        return caller
    return No(Code.UNAUTHENTICATED if caller is None else _REFUSED[caller])


def proposer_of(http: HttpRequest, doors: Doors) -> Caller | No:
    """Who asks, if they may change anything."""
    caller = caller_of(http, doors)
    if isinstance(caller, Caller) and caller.role is Role.ANALYST:
        return No(Code.ROLE_NOT_ALLOWED)
    return caller
