"""One line of what a provider states of itself: of a settlement file, or of its own list of
effects.

Guarantees that a line has one form, whoever wrote it: canonical JSON, so that the same line is the
same bytes, and that any other bytes get a named problem. A line says of an effect what a webhook
would, with `line_id` in the place of the event's id. Must never guess what is not written: a line
without a key of ours is matched by its reference, or is nobody's.

Written by the import of files and by the comparison of listings; read by the webhook agent.
"""

from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError

from ledger.core.canonical import NotCanonical, canonicalize
from ledger.core.money import Money
from ledger.core.strict_json import MalformedJson, parse
from ledger.core.wire import Milliseconds, Text, Wire
from ledger.log.webhook_record import WebhookReceived, WebhookSource
from reconciler.limits import CHANGED_HASH_CHARS, LINE_ID_CHARS_MAX
from reconciler.providers.port import MappedWebhook, Unrecognised
from reconciler.statement_matching import Said

STATEMENTS: Final[frozenset[WebhookSource]] = frozenset({"settlement", "listing"})
"""The ways in which a line comes, rather than the provider's own words."""

Effect: TypeAlias = Literal["exists", "none", "reversed", "pending", "unlisted"]
"""The last is our own word: a whole list of the provider does not have it."""

NOT_LISTED: Final = "effect_not_listed"

_Name = Annotated[str, Field(min_length=1, max_length=1_024)]


class StatementLine(Wire):
    """What a provider states of one effect.

    `line_id` is the provider's own and names the line for ever on one account. `reference` is its
    name for what the line is about; where that is a reversal with a name of its own, `reverses`
    names the effect that was given back. `money` is what was moved, or given back. `raw_sha256` is
    the hash of the bytes as the provider gave them.
    """

    line_id: Annotated[str, Field(min_length=1, max_length=LINE_ID_CHARS_MAX)]
    reference: _Name
    action_key: Text | None = None
    provider_key: Text | None = None
    operation: Text | None = None
    money: Money | None = None
    effect: Effect
    reverses: Text | None = None
    occurred_at: Milliseconds
    raw_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

    def body(self) -> bytes:
        """The line as it travels: canonical JSON without what is not said."""
        return canonicalize(self.model_dump(exclude_none=True))


@dataclass(frozen=True, slots=True)
class MalformedLine:
    """Bytes that are no line; `code` says why, `detail` in a sentence and where."""

    code: str
    detail: str


_READER: Final[TypeAdapter[StatementLine]] = TypeAdapter(StatementLine)


def parse_line(raw: bytes) -> StatementLine | MalformedLine:
    """Read the canonical form of one line, strictly. Never raises for any bytes."""
    try:
        line = _READER.validate_json(raw)
        # What is canonical is strict JSON, so a good line is read once.
        if line.body() == raw:
            return line
    except (ValidationError, NotCanonical) as refused:
        return _why_malformed(raw, refused)
    return _why_malformed(raw, None)


def _why_malformed(raw: bytes, refused: ValidationError | NotCanonical | None) -> MalformedLine:
    try:
        parse(raw)
    except MalformedJson as malformed:
        return MalformedLine(malformed.code.value, str(malformed))
    if isinstance(refused, ValidationError):
        first = refused.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return MalformedLine("not_a_statement_line", f"{where or 'the line'}: {first['msg']}")
    return MalformedLine("not_canonical", "the line is not in its canonical form (RFC 8785)")


def statement_event_id(source: WebhookSource, line_id: str) -> str:
    """What a line is known by beside the provider's events: never mistaken for one of them."""
    return f"{source}/{line_id}"


def changed_event_id(event_id: str, sha256: str) -> str:
    """What a line is known by that says something else than the line under the same id before."""
    return f"{event_id}~{sha256[:CHANGED_HASH_CHARS]}"


def statement_received(
    body: bytes,
    *,
    line_id: str,
    occurred_at: int,
    source: WebhookSource,
    provider: str,
    account: str,
) -> WebhookReceived:
    """The record of a line for the topic `webhooks`, of the bytes that `StatementLine.body` makes.
    The same line gives the same bytes.
    """
    return WebhookReceived.of(
        body,
        provider=provider,
        account=account,
        event_id=statement_event_id(source, line_id),
        sent_at=occurred_at,
        headers={},
        source=source,
    )


def said_by_line(line: StatementLine) -> Said:
    """The content of a line, as its row has it."""
    money = line.money
    return Said(
        line.effect,
        line.reference,
        line.reverses,
        line.action_key,
        line.provider_key,
        None if money is None else money.minor,
        None if money is None else money.currency,
    )


def map_statement(
    raw: bytes, *, source: WebhookSource, account: str
) -> MappedWebhook | Unrecognised:
    """What a line says, in the words of a webhook. It speaks for the account it was brought for."""
    line = parse_line(raw)
    if isinstance(line, MalformedLine):
        return Unrecognised(line.code)
    return MappedWebhook(
        meaning="progress" if line.effect in {"pending", "unlisted"} else "final",
        effect=line.effect,
        event_id=statement_event_id(source, line.line_id),
        event_type=line.operation or f"{source}.{line.effect}",
        account=account,
        reference=line.reference,
        action_key=line.action_key,
        provider_key=line.provider_key,
        money=line.money,
        occurred_at=line.occurred_at,
        reverses=line.reverses,
    )
