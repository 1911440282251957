"""What goes over the wire to and from the simulated provider.

Guarantees that both sides read the same closed, strict forms. Holds no behaviour; used by the
server, its webhooks and the adapter.
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from ledger.core.money import Money
from ledger.core.wire import Count, Milliseconds, Text, Wire

KEY_HEADER: Final = "Idempotency-Key"
KEY_CHARS_MAX: Final = 255
API_KEY_PREFIX: Final = "sk_sim_"
"""The API key of an account is this and the account's name: it authenticates nothing for real."""

PREVIEWS_PATH: Final = "/v1/previews/"
EVENTS_PATH: Final = "/v1/events"

JSON_DEPTH_MAX: Final = 40
"""Eight above what an intent may nest: parameters travel inside our own form."""

DESCRIPTION_CHARS_MAX: Final = 200

Operation = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.]{0,63}$")]
Account = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,128}$")]


class Metadata(Wire):
    """Our marks on the provider's object; it stores them and never reads them."""

    action_key: Text | None = None
    request_hash: Text | None = None


class EffectRequest(Wire):
    """The body of `POST /v1/effects/{operation}`. `original` is the id of an effect that this one
    undoes.
    """

    version: Count | None = None
    target: Text | None = None
    amount: Money | None = None
    params: dict[str, object] = Field(default_factory=dict)
    reference: Text | None = None
    original: Text | None = None
    metadata: Metadata = Metadata()


class Effect(Wire):
    """An effect as the provider shows it."""

    id: Text
    account: Account
    operation: Operation
    target: Text | None
    description: Annotated[str, Field(max_length=DESCRIPTION_CHARS_MAX)] | None
    amount: Money | None
    key: Text | None
    reference: Text | None
    original: Text | None = None
    metadata: Metadata
    committed_at: Milliseconds


class EffectAnswer(Wire):
    """The answer to a request that made an effect, or is answered with the one made before."""

    effect: Effect
    replayed: bool


class PreviewAnswer(Wire):
    """The answer of `POST /v1/previews/{operation}`: what would happen, and the facts it holds
    for.
    """

    effect: Text
    target: Text | None
    scope: Text
    observed: dict[Text, int | str | bool]


class SearchAnswer(Wire):
    """Effects that a search shows, and how far its index reaches."""

    effects: tuple[Effect, ...] = Field(strict=False)
    searched_until_at: Milliseconds


class ListAnswer(Wire):
    """One page of all effects, oldest first; `next` is the cursor of the page after it."""

    effects: tuple[Effect, ...] = Field(strict=False)
    next: Text | None


class Problem(Wire):
    """Why there is no effect; `effect_id` names the one that stands in the way, if one does."""

    code: Text
    message: Text
    effect_id: Text | None = None


class ProblemAnswer(Wire):
    """The body of every answer of 400 and above."""

    error: Problem


EventType = Literal["effect.settled", "effect.refused", "effect.pending"]


class EventData(Wire):
    """What an event is about. A refused request has no effect, so it has no id."""

    effect_id: Text | None
    operation: Operation
    target: Text | None
    description: Annotated[str, Field(max_length=DESCRIPTION_CHARS_MAX)] | None
    amount: Money | None
    key: Text | None
    reference: Text | None
    metadata: Metadata
    code: Text | None = None


class Event(Wire):
    """One webhook body."""

    id: Text
    type: EventType
    account: Account
    created_at: Milliseconds
    data: EventData


class EventsAnswer(Wire):
    """One page of an account's events, in the order in which they became due; `next` is the cursor
    of the page after it.
    """

    events: tuple[Event, ...] = Field(strict=False)
    next: Text | None
