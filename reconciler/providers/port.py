"""The provider port: what an adapter must promise, and the words its answers are given in.

Guarantees of every adapter, held by the contract suite: `before_first_byte` is called once, when
the connection is open and before the first byte of the request is written; whatever it raises
means that nothing was sent; an answer that does not prove its case is `Unresolved`, never a
refusal; nothing but cancellation (and a fault inside the guard itself) is raised.

Must never: retry on its own, follow a redirect, choose a key, an address or a credential by what a
request holds, or hide an effect that it saw. `Finder` and `Previewer` have no way to perform.

Called by the executor (`Performer`, `Previewer`), the inquirer (`Finder`, `Previewer`) and the
webhook agent (`WebhookMapping`).
"""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

from pydantic import JsonValue

from ledger.core.errors import LedgerError
from ledger.core.money import Money
from ledger.core.preview import Foreseen

# --- what is asked -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """One effect to be made, as it was accepted into the ledger.

    `account` names a credential in the adapter's settings; it is looked up, never used as one.
    `request_hash` travels in the provider's metadata beside the action key, so that whoever reads
    the provider's own records can compare. `original_reference` is the provider's name for the
    effect that this one undoes.
    """

    action_key: str
    operation: str
    version: int
    target: str | None
    params: Mapping[str, object]
    money: Money | None
    account: str
    request_hash: str
    original_reference: str | None = None


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Hard limits of one call.

    `connect_ms` bounds everything before the first byte (waiting for a free connection, names,
    connecting, TLS); `response_ms` bounds from the first byte to the last byte of the answer.
    """

    connect_ms: int
    response_ms: int


class Declined(Exception):
    """Raised by a `before_first_byte` guard that will not let the request out.

    `code` says why; `perform` returns it as `NotSent(code, Retry.LATER)`.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


# --- what came of a call -----------------------------------------------------------------------


class Retry(StrEnum):
    """Whether the same request may be accepted another time."""

    NEVER = "never"
    LATER = "later"


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The effect exists, by the provider's own answer; `reference` is its name for it."""

    reference: str
    result: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Partial:
    """Part of the effect exists, by the provider's own answer, and part does not. `reference` names
    what exists, `result` says of each part what became of it.
    """

    reference: str
    result: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Refused:
    """The provider answered that this request has no effect.

    It says nothing about another request under the same key that was never answered.
    """

    code: str
    retry: Retry
    retry_after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class NotSent:
    """No byte of the request reached the provider, or none that could have an effect: the protocol
    rules one out, as with a message that was never ended or a transaction never committed.
    """

    code: str
    retry: Retry


@dataclass(frozen=True, slots=True)
class Unresolved:
    """The effect may or may not have happened; only evidence can tell."""

    code: str


Outcome: TypeAlias = Succeeded | Partial | Refused | NotSent | Unresolved


class Performer(Protocol):
    """Makes effects. Held by executors only."""

    async def perform(
        self,
        request: ProviderRequest,
        *,
        provider_key: str,
        deadlines: Deadlines,
        before_first_byte: Callable[[], None],
    ) -> Outcome:
        """Make one call, once, and say what is known of its effect.

        The same `request` under the same `provider_key` is the same bytes on the wire. Never
        raises for trouble of the network or the provider; a cancelled call may have had its effect.
        """
        ...

    async def close(self) -> None:
        """Close all connections; idempotent."""
        ...


# --- what a call would do ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unforeseen:
    """The provider did not say what would happen; `code` says why. Ask again, or decide without."""

    code: str


class Previewer(Protocol):
    """Finds out what a request would do. It knows no provider key and has no `perform`: nothing it
    sends can cause anything. Held by the inquirer, and by executors for the look just before they
    act.
    """

    async def preview(self, request: ProviderRequest, *, timeout_ms: int) -> Foreseen | Unforeseen:
        """Say what exactly would be acted on and what would happen, with the volatile facts that
        this holds for, within `timeout_ms` in all. Never raises for trouble.
        """
        ...

    async def recheck(
        self, request: ProviderRequest, *, timeout_ms: int
    ) -> Mapping[str, JsonValue] | Unforeseen:
        """Read the volatile facts again, by the same names. Never raises for trouble."""
        ...

    async def close(self) -> None:
        """Close all connections; idempotent."""
        ...


# --- what a lookup found -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """The effect exists and carries our marker.

    `further_references` names other effects under the same key or marker. One entry there means
    that the act happened twice: a matter for a person, whatever becomes of the action.
    """

    reference: str
    money: Money | None
    result: Mapping[str, JsonValue]
    provider_key: str | None
    further_references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Absent:
    """No search that the provider offers shows the effect.

    Not yet proof that there is none: the caller compares the lookup's start with the last possible
    byte plus search lag plus settle horizon. `searched_until_at` is the provider's own word on how
    far its index reaches (its clock), if it gives one.
    """

    searched_until_at: int | None = None


@dataclass(frozen=True, slots=True)
class Inconclusive:
    """The lookup was not answered, or its answer proves nothing; ask again. `retry_after_ms` is the
    provider's word that it wants to hear nothing from this account for so long.
    """

    code: str
    retry_after_ms: int | None = None


Lookup: TypeAlias = Found | Absent | Inconclusive


@dataclass(frozen=True, slots=True)
class ListedEffect:
    """One effect in the provider's own list, ours or not; `committed_at` is by its clock."""

    reference: str
    operation: str
    account: str
    money: Money | None
    provider_key: str | None
    action_key: str | None
    request_hash: str | None
    committed_at: int


class Finder(Protocol):
    """Looks effects up. Held by inquirer and reconciler, who can therefore not make one."""

    async def find(
        self,
        *,
        account: str,
        provider_key: str,
        action_key: str,
        reference: str | None,
        timeout_ms: int,
    ) -> Lookup:
        """Search by all that is known, within `timeout_ms` in all. Never raises for trouble."""
        ...

    def list_effects(
        self, *, account: str, since_at: int, timeout_ms: int
    ) -> AsyncIterator[ListedEffect]:
        """Every effect of the account committed at or after `since_at`, oldest first.

        `timeout_ms` bounds each page. Raises `ListingFailed` when a page cannot be had: a list with
        a hole must not pass for a whole one.
        """
        ...

    async def close(self) -> None:
        """Close all connections; idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class Span:
    """From when until when an effect can have come about, both included, in milliseconds of the
    ledger's time: from the first start until the last possible byte and the settle horizon.
    """

    since_at: int
    until_at: int


@runtime_checkable
class SpanFinder(Protocol):
    """A finder that looks through less where it knows when the effect can have come about. It has
    `find` beside it, for lookups of which that is not known.
    """

    async def find_within(
        self,
        span: Span,
        *,
        account: str,
        provider_key: str,
        action_key: str,
        reference: str | None,
        timeout_ms: int,
    ) -> Lookup:
        """As `Finder.find`; an absence says only that nothing came about within the span."""
        ...


class ListingFailed(LedgerError):
    """A page of `list_effects` could not be read; `code` says why. What came before it holds."""

    def __init__(self, code: str) -> None:
        super().__init__(
            f"The provider's list of effects ended early: {code}.",
            hint="Compare what was read, and list again from the last effect seen.",
        )
        self.code = code


# --- what a provider can and cannot ------------------------------------------------------------


class Answer(Enum):
    """Yes or no to one question about a provider; only POSSIBLE is true.

    No field defaults to either: an adapter that does not know must say so in writing.
    """

    POSSIBLE = "possible"
    IMPOSSIBLE = "impossible"

    def __bool__(self) -> bool:
        """True only for POSSIBLE."""
        return self is Answer.POSSIBLE


POSSIBLE: Final = Answer.POSSIBLE
IMPOSSIBLE: Final = Answer.IMPOSSIBLE

Duration: TypeAlias = int | Literal[Answer.IMPOSSIBLE]
"""Milliseconds, or IMPOSSIBLE where the provider gives no such bound."""


class Reliability(StrEnum):
    """How a second call for the same action is kept from being a second effect."""

    KEYED = "keyed"
    REFERENCE = "reference"
    LOOKUP = "lookup"
    NONE = "none"


class Remembered(StrEnum):
    """Kinds of answer that a provider gives again to the same key instead of running it again."""

    SUCCESS = "success"
    REFUSAL = "refusal"
    SERVER_ERROR = "server_error"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an adapter can do on one account, every question answered.

    `key_window_ms`: how long the provider remembers a key, from its first arrival.
    `search_lag_ms`: how long a committed effect may stay invisible to searches.
    `settle_horizon_ms`: how long after its last possible byte a request may still take effect;
    IMPOSSIBLE means that absence can never be proven. `replay_proven`: a second call under the same
    key has been shown by test to return the first effect. `previews`: the provider says what a
    request would do, without doing it. Raises ValueError when answers contradict each other.
    """

    reliability: Reliability
    finds_by_key: Answer
    finds_by_reference: Answer
    finds_by_marker: Answer
    lists_effects: Answer
    previews: Answer
    key_window_ms: Duration
    key_chars_max: Duration
    settle_horizon_ms: Duration
    search_lag_ms: Duration
    replay_proven: Answer
    remembers: frozenset[Remembered]
    sends_webhooks: Answer
    retries_webhooks: Answer

    def __post_init__(self) -> None:
        """Refuse answers that cannot all be true."""
        # What an effect is called is known from an answer, and it is the answer that was lost.
        searchable_without_answer = self.finds_by_key or self.finds_by_marker
        searchable = searchable_without_answer or self.finds_by_reference
        keyed = self.reliability is Reliability.KEYED
        contradictions = {
            "keyed without a key window": keyed and self.key_window_ms is IMPOSSIBLE,
            "replay proven without keys": bool(self.replay_proven) and not keyed,
            "remembers answers without keys": bool(self.remembers) and not keyed,
            "lookup without a search by key or marker": (
                self.reliability is Reliability.LOOKUP and not searchable_without_answer
            ),
            "searchable without a search lag": (
                bool(searchable) and self.search_lag_ms is IMPOSSIBLE
            ),
            "none, though it can be searched": (
                self.reliability is Reliability.NONE and bool(searchable)
            ),
            "retries webhooks that it does not send": (
                bool(self.retries_webhooks) and not self.sends_webhooks
            ),
        }
        found = [name for name, holds in contradictions.items() if holds]
        if found:
            raise ValueError(f"capabilities contradict each other: {', '.join(found)}")


# --- what a webhook means ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class About:
    """What an event is about, by what its provider's description declares to name an action
    together with account, amount and currency: the operation and what it acts on.
    """

    operation: str
    target: str


@dataclass(frozen=True, slots=True)
class MappedWebhook:
    """A verified webhook in our words."""

    meaning: Literal["final", "progress", "irrelevant"]
    """Final: the effect is settled one way. Progress: it is still moving. Irrelevant: a known type
    that says nothing about an action; `effect` is then `pending`.
    """
    effect: Literal["exists", "none", "pending", "reversed", "unlisted"]
    """Reversed: what was there was given back, in whole or in part (refund, dispute). Unlisted: the
    provider's whole list lacks the effect, which proves nothing.
    """
    event_id: str
    """The provider's id of the event, the same in every delivery."""
    event_type: str
    account: str | None
    """The provider's account that the event speaks for; None where it does not say, and then it is
    the one whose secret verified the webhook. Evidence counts only for attempts made on it.
    """
    reference: str | None
    """The provider's name for the effect; of what is reversed, for the refund itself."""
    action_key: str | None
    provider_key: str | None
    money: Money | None
    """The amount of the effect; of what is reversed, the amount given back."""
    occurred_at: int
    reverses: str | None = None
    """The provider's name for the effect that was reversed, where it says so."""
    about: About | None = None
    """What finds the action where the event bears neither a known reference nor a key."""

    @property
    def names(self) -> str | None:
        """The provider's name for the effect that it speaks of, or None."""
        return self.reference if self.reverses is None else self.reverses


@dataclass(frozen=True, slots=True)
class Unrecognised:
    """Bytes that this mapping cannot put a meaning to: kept and counted, never dropped."""

    code: str
    event_type: str | None = None


class WebhookMapping(Protocol):
    """Reads the provider's webhooks. Pure, never raises, verifies nothing: that was done before."""

    def map(self, raw: bytes) -> MappedWebhook | Unrecognised:
        """Say what one webhook body means."""
        ...
