"""What an executor finds out on its own about why a start may be: the declaration, the decision
table, and what people signed.

Guarantees that nothing is acted on which the newest published configuration would not let begin,
whoever wrote the start into the ledger: of what people agreed to every signature is read again, for
this very payload. It is never laxer than the ledger, which it can only say no to. Where the table
has become stricter since an action began, no further attempt is made either: it is found out by
lookups, and a person ends it.

Without I/O. Asked by executors before they open a connection, and again between the open connection
and the first byte where the configuration has moved on meanwhile; time is asked elsewhere.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from ledger.core.facts import AttemptStarted, IntentRecorded, StartApproval
from ledger.core.holds import holding
from ledger.core.ids import ActionKey, MalformedId, provider_key, stream_key_of
from ledger.core.operation import Operation
from ledger.core.people import Person
from ledger.core.policy import Asks, Outcome
from ledger.core.preview import Preview, preview_hash
from ledger.core.rejections import Rejection
from ledger.core.request import RecordedRequest, request_hash
from ledger.core.statement import Resolution, Say, Statement
from ledger.log.published import Published, Terms
from ledger.signing.reading import read_signed
from streams.assignments import decided_at

PRINCIPALS_REMEMBERED: Final = 1_024


class Unallowed(StrEnum):
    """Why an executor does not act on a start, beside the rejections that mean the same of a
    person's decision.
    """

    HELD = "held"
    OPERATION_WITHDRAWN = "operation_withdrawn"
    ACCOUNT_DIFFERS = "account_differs"
    PERFORMER_DIFFERS = "performer_differs"
    PROVIDER_KEY_DIFFERS = "provider_key_differs"
    TIMES_DIFFER = "times_differ"
    ORIGINAL_DIFFERS = "original_differs"
    POLICY_DENIES = "policy_denies"
    APPROVAL_MISSING = "approval_missing"
    POLICY_UNKNOWN = "policy_unknown"
    MORE_PEOPLE_ASKED = "more_people_asked"
    OTHER_GROUPS_ASKED = "other_groups_asked"
    PREVIEW_MISSING = "preview_missing"
    PREVIEW_DIFFERS = "preview_differs"
    NOT_AN_APPROVAL = "not_an_approval"
    APPROVAL_OUTLIVES_STATEMENT = "approval_outlives_statement"
    QUORUM_NOT_MET = "quorum_not_met"


@dataclass(slots=True)
class Grounds:
    """What is published, as one executor has read it. `generation` is the ledger's: what people
    signed for another one counts nothing here.
    """

    published: Published
    generation: str
    _allowed: dict[tuple[str, int, str], bool] = field(default_factory=dict)
    _allowed_by: str | None = None

    def operation(self, request: RecordedRequest) -> Operation | None:
        """The newest declaration of what is asked for, or None where there is none."""
        catalogue = self.published.catalogue
        return (
            None if catalogue is None else catalogue.operation(request.operation, request.version)
        )

    def may_ask(self, operation: Operation, principal: str) -> bool:
        """Whether a principal may ask for an operation; each question is answered once."""
        catalogue = self.published.catalogue
        in_force = None if catalogue is None else catalogue.content_hash
        if self._allowed_by != in_force or len(self._allowed) >= PRINCIPALS_REMEMBERED:
            self._allowed.clear()
            self._allowed_by = in_force
        question = (operation.name, operation.version, principal)
        answer = self._allowed.get(question)
        if answer is None:
            answer = self._allowed[question] = operation.allows(principal)
        return answer


@dataclass(slots=True)
class Permit:
    """The question whether one start may be acted on. What was answered with yes is asked again
    only where more has been published since.
    """

    grounds: Grounds
    start: AttemptStarted
    intent: IntentRecorded
    _allowed_at: int = -1

    def objection(self) -> str | None:
        """Why the start must not be acted on, or None."""
        read_upto = self.grounds.published.next_offset
        if self._allowed_at == read_upto:
            return None
        code = unallowed(self.start, self.intent, self.grounds)
        if code is None:
            self._allowed_at = read_upto
        return None if code is None else code.value


def unallowed(
    start: AttemptStarted, intent: IntentRecorded, grounds: Grounds
) -> Unallowed | Rejection | None:
    """What of the newest published configuration, or of what people signed, speaks against a start;
    None where nothing does.
    """
    request, published = intent.request, grounds.published
    try:
        key = ActionKey.parse(start.action)
    except MalformedId:
        return Rejection.MALFORMED_KEY
    if (key.operation, key.version) != (request.operation, request.version):
        return Rejection.KEY_MISMATCH
    if holding(published.holds, start.provider, key.tenant, key.operation) is not None:
        return Unallowed.HELD
    if (start.provider, start.account) != (intent.provider, intent.account):
        return Unallowed.ACCOUNT_DIFFERS
    operation = grounds.operation(request)
    if operation is None:
        return Unallowed.OPERATION_WITHDRAWN
    if not grounds.may_ask(operation, request.principal):
        return Rejection.NOT_ALLOWED
    if operation.check(request):
        return Rejection.INVALID_REQUEST
    unlike = _unlike(start, intent, published)
    if unlike is not None:
        return unlike
    ruling = published.policy.rule(operation, request, key.tenant, intent.revises, intent.performer)
    if ruling.outcome is Outcome.DENY:
        return Unallowed.POLICY_DENIES
    approval = start.approval
    if approval is None:
        return None if ruling.asks is None else Unallowed.APPROVAL_MISSING
    if ruling.asks is not None:
        stricter = _asks_more(ruling.asks, approval)
        if stricter is not None:
            return stricter
    if approval.policy_hash not in published.policies:
        return Unallowed.POLICY_UNKNOWN
    return _unapproved(start, approval, intent, grounds)


def _unlike(
    start: AttemptStarted, intent: IntentRecorded, published: Published
) -> Unallowed | Rejection | None:
    """In what a start is not what the intent and the declaration make of it, or None: who acts,
    under which key of the provider's, until when, and whether another effect is undone by it. What
    a partition has in force may have been published earlier than the newest.
    """
    if intent.performer is not None:
        return Unallowed.PERFORMER_DIFFERS
    every = published.terms.get((intent.request.operation, intent.request.version), ())
    # All attempts bear the key of the first, by the declaration that was in force then.
    if all(start.provider_key != provider_key(start.action, one.key_rule) for one in every):
        return Unallowed.PROVIDER_KEY_DIFFERS
    if not any(_is_timed_by(start, one) for one in every):
        return Unallowed.TIMES_DIFFER
    if intent.compensates is None:
        return None if start.original_reference is None else Unallowed.ORIGINAL_DIFFERS
    return _not_undoing(start, intent.compensates, intent.request.operation, published)


def _is_timed_by(start: AttemptStarted, terms: Terms) -> bool:
    """Whether a declaration gives a start its times: those of the call, from when it was decided,
    and of the lease; and that its key is used no longer than if this were the first attempt.
    """
    if (start.connect_ms, start.response_ms) != (terms.connect_ms, terms.response_ms):
        return False
    if start.lease_until - start.deadline_at != terms.lease_margin_ms:
        return False
    expires_at, usable_ms = start.key_expires_at, terms.key_usable_ms
    if expires_at is None or usable_ms is None:
        return expires_at is None and usable_ms is None
    return expires_at <= decided_at(start) + usable_ms


def _not_undoing(
    start: AttemptStarted, original: str, operation: str, published: Published
) -> Unallowed | Rejection | None:
    """Why an action is no undoing of the original that its intent names, or None: that is of the
    same business event, and its operation declares, or once declared, that this one undoes it.
    """
    try:
        named = ActionKey.parse(original)
    except MalformedId:
        return Rejection.UNKNOWN_ORIGINAL
    if named.stream_key != stream_key_of(start.action):
        return Rejection.UNKNOWN_ORIGINAL
    every = published.terms.get((named.operation, named.version), ())
    declares = any(one.compensation == operation for one in every)
    return None if declares else Rejection.NOT_A_COMPENSATION


def _asks_more(asks: Asks, approval: StartApproval) -> Unallowed | None:
    """In what the table asks for more than was granted. Groups that may decide after a time may
    have decided.
    """
    if asks.quorum > approval.quorum:
        return Unallowed.MORE_PEOPLE_ASKED
    if not asks.groups:
        return None
    may_decide = {*asks.groups, *asks.escalate_to}
    if not approval.groups or not may_decide.issuperset(approval.groups):
        return Unallowed.OTHER_GROUPS_ASKED
    return None


def _unapproved(
    start: AttemptStarted, approval: StartApproval, intent: IntentRecorded, grounds: Grounds
) -> Unallowed | Rejection | None:
    """What is wrong with what people agreed to, or None. One signature that does not count is one
    too many: the ledger has counted each.
    """
    asked = request_hash(intent.request)
    unshown = _unshown(start, approval, intent, asked)
    if unshown is not None:
        return unshown
    people = grounds.published.people
    agreed: set[str] = set()
    for signed in approval.signed:
        read = read_signed(signed, people)
        if isinstance(read, Rejection):
            return read
        said = read.statement
        if isinstance(said, Resolution):
            return Unallowed.NOT_AN_APPROVAL
        refused = _about_another(said, start, approval, intent, grounds.generation, asked)
        person = people.person(read.person)
        if refused is None:
            refused = _unfit(person, start, approval, intent)
        if refused is not None:
            return refused
        agreed.add(read.person)
    return None if len(agreed) >= max(1, approval.quorum) else Unallowed.QUORUM_NOT_MET


def _unshown(
    start: AttemptStarted, approval: StartApproval, intent: IntentRecorded, asked: str
) -> Unallowed | None:
    """In what the start is not what people were shown, or None. Once an attempt has begun nothing
    that was foreseen has to hold any more; which effect it undoes has to.
    """
    shown = approval.preview
    if start.attempt == 1 and (shown is None or approval.is_open):
        return Unallowed.PREVIEW_MISSING
    if shown is None:
        return None if intent.compensates is None else Unallowed.PREVIEW_MISSING
    if shown.request_hash != asked or preview_hash(shown) != approval.preview_hash:
        return Unallowed.PREVIEW_DIFFERS
    if shown.performer is not None:
        return Unallowed.PERFORMER_DIFFERS
    if _original_of(shown) != (intent.compensates, start.original_reference):
        return Unallowed.ORIGINAL_DIFFERS
    return None


def _original_of(shown: Preview) -> tuple[str | None, str | None]:
    """Which action people saw that it undoes, and the provider's name for the effect of that."""
    undoes = shown.undoes
    return (None, None) if undoes is None else (undoes.action, undoes.reference)


def _about_another(
    statement: Statement,
    start: AttemptStarted,
    approval: StartApproval,
    intent: IntentRecorded,
    generation: str,
    asked: str,
) -> Unallowed | Rejection | None:
    """Of what else a statement speaks, or None where it is a yes to exactly this."""
    compared = (
        (statement.decision is Say.APPROVE, Unallowed.NOT_AN_APPROVAL),
        (statement.ledger == generation, Rejection.OTHER_LEDGER),
        (statement.key == start.action, Rejection.OTHER_ACTION),
        (statement.tenant == ActionKey.parse(start.action).tenant, Rejection.OTHER_TENANT),
        (statement.environment == intent.request.environment, Rejection.OTHER_ENVIRONMENT),
        (statement.request_hash == asked, Rejection.OTHER_REQUEST),
        (statement.nonce == approval.nonce, Rejection.NONCE_DEAD),
        (statement.policy_hash == approval.policy_hash, Rejection.OTHER_POLICY),
        (statement.row == approval.row, Rejection.OTHER_POLICY),
        (statement.preview_hash == approval.preview_hash, Rejection.OTHER_PREVIEW),
        (statement.expires_at >= approval.expires_at, Unallowed.APPROVAL_OUTLIVES_STATEMENT),
    )
    return next((code for is_same, code in compared if not is_same), None)


def _unfit(
    person: Person | None, start: AttemptStarted, approval: StartApproval, intent: IntentRecorded
) -> Rejection | None:
    """Why this person's word does not count here, or None."""
    if person is None:
        return Rejection.UNKNOWN_SIGNER
    if not person.may_decide_for(ActionKey.parse(start.action).tenant):
        return Rejection.NOT_FOR_TENANT
    asking = (intent.request.principal, *(intent.behalf or ()))
    if any(person.asks_as(name) for name in asking):
        return Rejection.REQUESTER_DECIDES
    return None if person.is_in_one_of(approval.groups) else Rejection.NOT_IN_GROUP
