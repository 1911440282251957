"""One small world that tests of several rungs share: five operations, one of each class, and every
input and fact with everything filled in that a test does not care about.

Times are milliseconds after T0. Facts are written without versions: whoever folds them numbers
them. Nothing here decides anything.
"""

from functools import cache
from typing import Final

from ledger.core import facts as f
from ledger.core import inputs as i
from ledger.core.catalogue import Catalogue, parse_catalogue
from ledger.core.config import Config
from ledger.core.money import Money
from ledger.core.offers import Offer
from ledger.core.operation import Operation
from ledger.core.policy import AUTOMATIC_POLICY, AUTOMATIC_POLICY_HASH
from ledger.core.request import Request, request_hash
from ledger.core.request import recorded as as_recorded

T0: Final = 1_800_000_000_000

SKEW_MS: Final = 1_000
LEASE_MARGIN_MS: Final = 6_000
LOOKUP_ANSWER_MS: Final = 20_000
CONNECT_MS: Final = 1_000
RESPONSE_MS: Final = 4_000
CALL_MS: Final = CONNECT_MS + RESPONSE_MS
LEASE_MS: Final = CALL_MS + LEASE_MARGIN_MS
STEP_MS: Final = 300_000
ATTEMPTS_MAX: Final = 3
BACKOFF_BASE_MS: Final = 1_000
BACKOFF_MAX_MS: Final = 8_000
KEY_WINDOW_MS: Final = 200_000
KEY_MARGIN_MS: Final = 60_000
SETTLE_MS: Final = 10_000
LAG_MS: Final = 2_000
LOOKUPS: Final = (5_000, 20_000, 60_000)

_RISK = """
[operation.risk]
irreversibility = "low"
blast_radius = "low"
ambiguity = "low"
money_impact = "high"
security_impact = "none"
"""
_DEADLINES = f"""
[operation.deadlines]
connect_ms = {CONNECT_MS}
response_ms = {RESPONSE_MS}
step_ms = {STEP_MS}
"""


def _retries(attempts_max: int) -> str:
    return f"""
[operation.retries]
attempts_max = {attempts_max}
backoff_base_ms = {BACKOFF_BASE_MS}
backoff_max_ms = {BACKOFF_MAX_MS}
"""


_FINDING_OUT = f"""
settle_horizon_ms = {SETTLE_MS}
search_lag_ms = {LAG_MS}
lookups = {list(LOOKUPS)}
"""
_TEXT_PARAMETER = """
[operation.parameters.text]
type = "string"
required = false
"""
_TARGET = """
[operation.target]
description = "What it is for."
required = false
prefix = "order:"
"""

CATALOGUE_TEXT: Final = f"""
[timing]
skew_ms = {SKEW_MS}
lease_margin_ms = {LEASE_MARGIN_MS}
lookup_answer_ms = {LOOKUP_ANSWER_MS}

[[operation]]
name = "charge"
version = 1
provider = "simulated"
account = "main"
reliability = "keyed"
money = "required"
principals = ["agent:*"]
key_window_ms = {KEY_WINDOW_MS}
key_margin_ms = {KEY_MARGIN_MS}
{_FINDING_OUT}{_TARGET}{_TEXT_PARAMETER}{_RISK}{_DEADLINES}{_retries(ATTEMPTS_MAX)}

[[operation]]
name = "charge"
version = 2
provider = "simulated"
account = "main"
reliability = "keyed"
money = "required"
principals = ["agent:*"]
key_window_ms = {KEY_WINDOW_MS}
key_margin_ms = {KEY_MARGIN_MS}
{_FINDING_OUT}{_TARGET}{_TEXT_PARAMETER}{_RISK}{_DEADLINES}{_retries(ATTEMPTS_MAX)}

[[operation]]
name = "payout"
version = 1
provider = "simulated"
account = "main"
reliability = "reference"
money = "required"
principals = ["agent:*"]
{_FINDING_OUT}{_TARGET}{_TEXT_PARAMETER}{_RISK}{_DEADLINES}{_retries(ATTEMPTS_MAX)}

[[operation]]
name = "ticket"
version = 1
provider = "simulated"
account = "main"
reliability = "lookup"
money = "optional"
principals = ["agent:*"]
second_attempt_after_absence = true
{_FINDING_OUT}{_TARGET}{_TEXT_PARAMETER}{_RISK}{_DEADLINES}{_retries(2)}

[[operation]]
name = "note"
version = 1
provider = "simulated"
account = "main"
reliability = "lookup"
money = "forbidden"
principals = ["agent:*"]
{_FINDING_OUT}{_TARGET}{_TEXT_PARAMETER}{_RISK}{_DEADLINES}{_retries(1)}

[[operation]]
name = "email"
version = 1
provider = "simulated"
account = "main"
reliability = "none"
money = "forbidden"
principals = ["agent:*"]
lookups = []
{_TARGET}{_TEXT_PARAMETER}{_RISK}{_DEADLINES}{_retries(1)}
"""


@cache  # it is immutable, and its text is read for longer than a test takes
def catalogue(text: str = CATALOGUE_TEXT) -> Catalogue:
    """The catalogue of a text that must be valid."""
    parsed = parse_catalogue(text)
    assert isinstance(parsed, Catalogue), parsed
    return parsed


CONFIG: Final = Config(catalogue(), catalogue().content_hash)

STREAM: Final = "acme/renewal-1"
CHARGE: Final = "charge:v1:acme:renewal-1"
PAYOUT: Final = "payout:v1:acme:renewal-1"
TICKET: Final = "ticket:v1:acme:renewal-1"
NOTE: Final = "note:v1:acme:renewal-1"
EMAIL: Final = "email:v1:acme:renewal-1"
KEYS: Final = (CHARGE, PAYOUT, TICKET, NOTE, EMAIL)
EUR_49_90: Final = Money(minor=4_990, currency="EUR")
EUR_499: Final = Money(minor=49_900, currency="EUR")
HOLDER: Final = "executor-1"
REFERENCE: Final = "ch_1"


def operation_of(key: str) -> Operation:
    """The declaration behind an action key."""
    name, version = key.split(":")[:2]
    operation = CONFIG.operation(name, int(version[1:]))
    assert operation is not None
    return operation


def request(key: str = CHARGE, *, text: str | None = None, money: Money | None = None) -> Request:
    """The request that a key stands for, unless a test changes a field."""
    operation = operation_of(key)
    if money is None and operation.money == "required":
        money = EUR_49_90
    return Request(
        operation=operation.name,
        version=operation.version,
        target="order:A-1842",
        params={} if text is None else {"text": text},
        money=money,
        principal="agent:billing",
        environment="live",
    )


def offer(
    *,
    at: int = 0,
    until: int = 10_000,
    key: str = CHARGE,
    incarnation: str = HOLDER,
    sequence: int = 1,
) -> Offer:
    """Capacity of one executor for a key's operation, appended `at` and good `until`."""
    return Offer(incarnation, operation_of(key).name, sequence, T0 + at, T0 + until)


# --- inputs ------------------------------------------------------------------------------------


def propose(key: str = CHARGE, **changes: object) -> i.Propose:
    """Propose the request that a key stands for."""
    return i.Propose.model_validate({"key": key, "request": request(key), **changes})


def cancel(key: str = CHARGE) -> i.Cancel:
    """Take an action back."""
    return i.Cancel(key=key, principal="agent:billing", reason="changed_mind")


def report(
    outcome: i.ReportedOutcome,
    *,
    key: str = CHARGE,
    attempt: int = 1,
    token: int | None = None,
    holder: str = HOLDER,
) -> i.Report:
    """Report the outcome of an attempt, by its holder."""
    token = attempt if token is None else token
    return i.Report(key=key, attempt=attempt, fencing_token=token, holder=holder, outcome=outcome)


def success(reference: str = REFERENCE) -> i.Success:
    """The provider confirmed."""
    return i.Success(reference=reference, result={"paid": True})


def refusal(
    code: str = "busy", retry: i.Retry = i.Retry.LATER, wait: int | None = None
) -> i.Refusal:
    """The provider refused, by default for now."""
    return i.Refusal(code=code, retry=retry, retry_after_ms=wait)


def not_sent(code: str = "connect_failed", retry: i.Retry = i.Retry.LATER) -> i.NotSent:
    """No byte left."""
    return i.NotSent(code=code, retry=retry)


def no_answer(code: str = "response_timeout") -> i.NoAnswer:
    """Bytes left, no answer came."""
    return i.NoAnswer(code=code)


def decline(
    *, key: str = CHARGE, attempt: int = 1, token: int | None = None, holder: str = HOLDER
) -> i.Decline:
    """The holder gives a start back."""
    token = attempt if token is None else token
    return i.Decline(key=key, attempt=attempt, fencing_token=token, holder=holder, code="shutdown")


def found_out(
    meaning: i.Meaning,
    *,
    key: str = CHARGE,
    lookup: int | None = 1,
    source: str | None = None,
    reference: str | None = None,
    money: Money | None = None,
    provider: str = "simulated",
    account: str = "main",
) -> i.Evidence:
    """What a lookup found out; with `lookup=None` what a webhook says."""
    webhook = lookup is None
    if meaning is i.Meaning.EFFECT:
        reference = reference or REFERENCE
        money = money or request(key).money
    return i.Evidence(
        key=key,
        kind=i.EvidenceKind.WEBHOOK if webhook else i.EvidenceKind.LOOKUP,
        source_id=source or ("webhook:evt_1" if webhook else f"lookup:{lookup}"),
        provider=provider,
        account=account,
        meaning=meaning,
        lookup=lookup,
        reference=reference,
        money=money,
        code="payment_failed" if meaning is i.Meaning.NO_EFFECT else None,
    )


def tick(stream: str = STREAM) -> i.Tick:
    """Time has come for a stream."""
    return i.Tick(stream=stream, generation="generation-1", due_at=T0)


# --- facts -------------------------------------------------------------------------------------


def recorded(key: str = CHARGE, *, at: int = 0, step_ms: int = STEP_MS) -> f.IntentRecorded:
    """The intent is in the ledger."""
    operation = operation_of(key)
    return f.IntentRecorded(
        action=key,
        version=0,
        request=as_recorded(request(key)),
        request_hash=request_hash(request(key)),
        provider=operation.provider,
        account=operation.account,
        reliability=operation.reliability,
        step_deadline_at=T0 + at + step_ms,
    )


def automatic(key: str = CHARGE) -> f.PolicyDecided:
    """The bootstrap policy lets it go ahead."""
    return f.PolicyDecided(
        action=key,
        version=0,
        policy_hash=AUTOMATIC_POLICY_HASH,
        row=AUTOMATIC_POLICY,
        outcome="automatic",
    )


def started(
    attempt: int = 1,
    *,
    key: str = CHARGE,
    at: int = 0,
    holder: str = HOLDER,
    offered: int | None = None,
    sequence: int = 1,
    first_at: int | None = None,
    intent_offset: int = 0,
) -> f.AttemptStarted:
    """An attempt begins `at` by an offer that came `offered`; the first began `first_at`."""
    operation = operation_of(key)
    first_at = at if first_at is None else first_at
    expires = None
    if operation.key_window_ms is not None:
        expires = T0 + first_at + operation.key_window_ms - operation.key_margin_ms
    return f.AttemptStarted(
        action=key,
        version=0,
        attempt=attempt,
        fencing_token=attempt,
        holder=holder,
        offer_sequence=sequence,
        offered_at=T0 + (at if offered is None else offered),
        lease_until=T0 + at + LEASE_MS,
        deadline_at=T0 + at + CALL_MS,
        connect_ms=CONNECT_MS,
        response_ms=RESPONSE_MS,
        provider=operation.provider,
        account=operation.account,
        provider_key=key,
        key_expires_at=expires,
        intent_offset=intent_offset,
        request_hash=request_hash(request(key)),
    )


def declined(attempt: int = 1, *, key: str = CHARGE) -> f.AttemptDeclined:
    """The holder gave the start back."""
    return f.AttemptDeclined(action=key, version=0, attempt=attempt, code="shutdown")


def succeeded(
    attempt: int = 1, *, key: str = CHARGE, reference: str = REFERENCE
) -> f.AttemptSucceeded:
    """The provider confirmed."""
    return f.AttemptSucceeded(
        action=key, version=0, attempt=attempt, reference=reference, result={"paid": True}
    )


def refused(
    attempt: int = 1, *, key: str = CHARGE, code: str = "busy", retry: i.Retry = i.Retry.LATER
) -> f.AttemptRefused:
    """The provider refused."""
    return f.AttemptRefused(action=key, version=0, attempt=attempt, code=code, retry=retry)


def unsent(attempt: int = 1, *, key: str = CHARGE) -> f.AttemptNotSent:
    """No byte left."""
    return f.AttemptNotSent(action=key, version=0, attempt=attempt, code="connect_failed")


def unresolved(
    attempt: int = 1, *, key: str = CHARGE, code: str = "response_timeout"
) -> f.AttemptUnresolved:
    """Nobody knows."""
    return f.AttemptUnresolved(action=key, version=0, attempt=attempt, code=code)


def absent(attempt: int = 1, *, key: str = CHARGE, source: str = "lookup:1") -> f.AttemptAbsent:
    """The provider, asked late enough, does not know it."""
    return f.AttemptAbsent(action=key, version=0, attempt=attempt, source_id=source)


def retry_due(at: int, *, key: str = CHARGE) -> f.TimerSet:
    """Try again `at`."""
    return f.TimerSet(action=key, version=0, purpose="retry", due_at=T0 + at)


def lookup_due(at: int, *, key: str = CHARGE) -> f.TimerSet:
    """Ask the provider `at`."""
    return f.TimerSet(action=key, version=0, purpose="lookup", due_at=T0 + at)


def asked(
    lookup: int = 1, *, key: str = CHARGE, at: int = 0, attempts_upto: int = 1
) -> f.LookupStarted:
    """The provider is asked `at`, about attempts of which all began at the beginning."""
    operation = operation_of(key)
    return f.LookupStarted(
        action=key,
        version=0,
        lookup=lookup,
        attempts_upto=attempts_upto,
        provider=operation.provider,
        account=operation.account,
        provider_key=key,
        answer_by=T0 + at + LOOKUP_ANSWER_MS,
        first_started_at=T0,
        last_lease_until=T0 + LEASE_MS,
    )


def kept(
    given: i.Evidence, *, attempts_upto: int = 1, denies: tuple[int, ...] | None = None
) -> f.EvidenceRecorded:
    """The fact that a piece of evidence is kept as; `denies` are the attempts that it closes, or
    would.
    """
    said = given.model_dump(exclude={"key", "provider", "account"})
    is_for_good = denies is not None and given.meaning is i.Meaning.NO_EFFECT
    return f.EvidenceRecorded(
        action=given.key,
        version=0,
        attempts_upto=attempts_upto,
        denies=denies,
        for_good=True if is_for_good else None,
        **{**said, "money": given.money},
    )


def completed(
    proof: str = "report", *, key: str = CHARGE, reference: str = REFERENCE
) -> f.ActionCompleted:
    """The effect is proven."""
    return f.ActionCompleted.model_validate(
        {"action": key, "version": 0, "proof": proof, "reference": reference}
    )


def failed(code: str = "busy", *, key: str = CHARGE) -> f.ActionFailed:
    """Definitely nothing happened."""
    return f.ActionFailed(action=key, version=0, code=code)


def cancelled(*, key: str = CHARGE) -> f.ActionCancelled:
    """Taken back."""
    return f.ActionCancelled(
        action=key, version=0, principal="agent:billing", reason="changed_mind"
    )


def expired(*, key: str = CHARGE) -> f.ActionExpired:
    """Its time passed before anything began."""
    return f.ActionExpired(action=key, version=0)


def review(reason: f.ReviewReason, *, key: str = CHARGE) -> f.ReviewOpened:
    """A person is needed."""
    return f.ReviewOpened(action=key, version=0, reason=reason)
