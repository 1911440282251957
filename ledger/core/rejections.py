"""Every "no" the ledger can say to an input: a closed enum in order of precedence, and what each
means.

A rejection is a value and an answer: recorded in the log, the same after a crash. Doors map it to
their own codes (HTTP in one table).
"""

from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field

from ledger.core.wire import Text, Wire


class Rejection(StrEnum):
    """Named refusals of inputs, most fundamental first: the first that applies is the answer."""

    MISROUTED = "misrouted"
    MALFORMED_KEY = "malformed_key"
    KEY_MISMATCH = "key_mismatch"
    HASH_MISMATCH = "hash_mismatch"
    CONFLICTED = "conflicted"
    UNSTABLE_KEY = "unstable_key"
    SAGA_UNFIT = "saga_unfit"
    UNKNOWN_ACTION = "unknown_action"
    UNKNOWN_SAGA = "unknown_saga"
    UNKNOWN_ATTEMPT = "unknown_attempt"
    STALE_TOKEN = "stale_token"  # noqa: S105 - a code, not a secret
    FOREIGN_ACCOUNT = "foreign_account"
    UNKNOWN_LOOKUP = "unknown_lookup"
    UNKNOWN_OPERATION = "unknown_operation"
    OTHER_VERSION = "other_version"
    REVISION_NEEDS_PERSON = "revision_needs_person"
    UNKNOWN_ORIGINAL = "unknown_original"
    REVISION_UNFIT = "revision_unfit"
    NOT_A_COMPENSATION = "not_a_compensation"
    NOTHING_TO_UNDO = "nothing_to_undo"
    NOT_ALLOWED = "not_allowed"
    RUN_MISSING = "run_missing"
    STEP_DENIED = "step_denied"
    NEEDS_EXECUTOR = "needs_executor"
    NEEDS_CALLER = "needs_caller"
    INVALID_REQUEST = "invalid_request"
    OTHER_TARGET = "other_target"
    COMPENSATION_EXCEEDS = "compensation_exceeds"
    STREAM_FULL = "stream_full"
    TOO_MANY_REPORTERS = "too_many_reporters"
    OTHER_REPORTER = "other_reporter"
    SIGNATURE_INVALID = "signature_invalid"
    UNKNOWN_SIGNER = "unknown_signer"
    SIGNER_REVOKED = "signer_revoked"
    OTHER_LEDGER = "other_ledger"
    OTHER_ACTION = "other_action"
    OTHER_TENANT = "other_tenant"
    OTHER_ENVIRONMENT = "other_environment"
    OTHER_REQUEST = "other_request"
    OTHER_PERSON = "other_person"
    NOT_FOR_TENANT = "not_for_tenant"
    REQUESTER_DECIDES = "requester_decides"
    NOTHING_ASKED = "nothing_asked"
    NO_CASE = "no_case"
    CASE_MOVED = "case_moved"
    ALREADY_FINAL = "already_final"
    COMPENSATION_PLANNED = "compensation_planned"
    ATTEMPT_OPEN = "attempt_open"
    IN_REVIEW = "in_review"
    APPROVAL_SPENT = "approval_spent"
    NONCE_DEAD = "nonce_dead"
    OTHER_POLICY = "other_policy"
    OTHER_PREVIEW = "other_preview"
    APPROVAL_EXPIRED = "approval_expired"
    EXPIRY_BEYOND_REQUEST = "expiry_beyond_request"
    ISSUED_IN_FUTURE = "issued_in_future"
    NOT_IN_GROUP = "not_in_group"
    NOTHING_TO_WITHDRAW = "nothing_to_withdraw"
    REFERENCE_UNFIT = "reference_unfit"
    MOVE_NOT_SAFE = "move_not_safe"
    ACCEPTS_UNFIT = "accepts_unfit"
    INVALID_CONFIGURATION = "invalid_configuration"


@dataclass(frozen=True, slots=True)
class Meaning:
    """One sentence for the caller, and whether the same input may succeed later."""

    sentence: str
    retry_can_help: bool


MEANINGS: dict[Rejection, Meaning] = {
    Rejection.MISROUTED: Meaning(
        "The record's key does not belong to the partition it was read from.", retry_can_help=False
    ),
    Rejection.MALFORMED_KEY: Meaning("The action key is malformed.", retry_can_help=False),
    Rejection.KEY_MISMATCH: Meaning(
        "The request names another operation or version than its action key.",
        retry_can_help=False,
    ),
    Rejection.HASH_MISMATCH: Meaning(
        "The request hash given is not the hash of the request.", retry_can_help=False
    ),
    Rejection.CONFLICTED: Meaning(
        "This key already stands for another request. Nothing was started. A new key is the wrong "
        "move if the same thing is meant: look at the original action first.",
        retry_can_help=False,
    ),
    Rejection.UNSTABLE_KEY: Meaning(
        "The key holds something that changes with every try, so the next try would be another "
        "action, or what is left where a value was missing, so that different things would "
        "share it.",
        retry_can_help=False,
    ),
    Rejection.SAGA_UNFIT: Meaning(
        "The plan does not hold together: nothing of it was recorded.", retry_can_help=False
    ),
    Rejection.UNKNOWN_ACTION: Meaning("No such action.", retry_can_help=False),
    Rejection.UNKNOWN_SAGA: Meaning(
        "The business event has no saga of this name.", retry_can_help=False
    ),
    Rejection.UNKNOWN_ATTEMPT: Meaning("The action has no such attempt.", retry_can_help=False),
    Rejection.STALE_TOKEN: Meaning(
        "The report does not come from the holder that the start named.", retry_can_help=False
    ),
    Rejection.FOREIGN_ACCOUNT: Meaning(
        "The evidence comes from another provider or account than the action's.",
        retry_can_help=False,
    ),
    Rejection.UNKNOWN_LOOKUP: Meaning(
        "The ledger did not ask for this lookup.", retry_can_help=False
    ),
    Rejection.UNKNOWN_OPERATION: Meaning(
        "The catalogue in force has no such operation and version.", retry_can_help=True
    ),
    Rejection.OTHER_VERSION: Meaning(
        "The same business event and operation exist under another version: it is the same act.",
        retry_can_help=False,
    ),
    Rejection.REVISION_NEEDS_PERSON: Meaning(
        "A person decides about a revision beside what it revises, and this one does not say what "
        "that is.",
        retry_can_help=False,
    ),
    Rejection.UNKNOWN_ORIGINAL: Meaning(
        "The business event has no such earlier action to revise or to compensate.",
        retry_can_help=True,
    ),
    Rejection.REVISION_UNFIT: Meaning(
        "The key and the action that it says it revises do not belong together as a revision does.",
        retry_can_help=False,
    ),
    Rejection.NOT_A_COMPENSATION: Meaning(
        "The catalogue does not declare this operation as what undoes that action.",
        retry_can_help=False,
    ),
    Rejection.NOTHING_TO_UNDO: Meaning(
        "The action that this would undo has ended without an effect.", retry_can_help=False
    ),
    Rejection.OTHER_TARGET: Meaning(
        "The target is another than that of the action that this would undo.",
        retry_can_help=False,
    ),
    Rejection.COMPENSATION_EXCEEDS: Meaning(
        "More would be undone than was done, together with what undoes it already.",
        retry_can_help=False,
    ),
    Rejection.NOT_ALLOWED: Meaning(
        "This principal may not ask for this operation.", retry_can_help=False
    ),
    Rejection.NEEDS_EXECUTOR: Meaning(
        "This operation is carried out by an executor, never by its caller.", retry_can_help=False
    ),
    Rejection.NEEDS_CALLER: Meaning(
        "This operation is carried out by its caller: no executor can.", retry_can_help=False
    ),
    Rejection.INVALID_REQUEST: Meaning(
        "The request does not fit the operation's declaration.", retry_can_help=False
    ),
    Rejection.STREAM_FULL: Meaning(
        "The business event holds as many actions as one may hold.", retry_can_help=False
    ),
    Rejection.ALREADY_FINAL: Meaning(
        "The action has reached a final status.", retry_can_help=False
    ),
    Rejection.ATTEMPT_OPEN: Meaning(
        "An attempt may already have had its effect: it can no longer be cancelled.",
        retry_can_help=True,
    ),
    Rejection.IN_REVIEW: Meaning("A person has to settle this action first.", retry_can_help=True),
    Rejection.SIGNATURE_INVALID: Meaning(
        "The signature does not prove what was sent: nothing was decided.", retry_can_help=False
    ),
    Rejection.UNKNOWN_SIGNER: Meaning(
        "The key belongs to no person who is registered here.", retry_can_help=True
    ),
    Rejection.SIGNER_REVOKED: Meaning(
        "The key or its person was revoked, or the key ends before what it signed does.",
        retry_can_help=False,
    ),
    Rejection.OTHER_LEDGER: Meaning("It was signed for another ledger.", retry_can_help=False),
    Rejection.OTHER_ACTION: Meaning("It was signed for another action.", retry_can_help=False),
    Rejection.OTHER_TENANT: Meaning("It was signed for another tenant.", retry_can_help=False),
    Rejection.OTHER_ENVIRONMENT: Meaning(
        "It was signed for another environment.", retry_can_help=False
    ),
    Rejection.OTHER_REQUEST: Meaning("It was signed for another payload.", retry_can_help=False),
    Rejection.OTHER_PERSON: Meaning(
        "The statement names another person than the one whose key signed it.", retry_can_help=False
    ),
    Rejection.NOT_FOR_TENANT: Meaning(
        "This person decides nothing for this tenant.", retry_can_help=False
    ),
    Rejection.REQUESTER_DECIDES: Meaning(
        "Who asks for an action, or for whom it is asked, does not decide about it.",
        retry_can_help=False,
    ),
    Rejection.NOTHING_ASKED: Meaning(
        "No person was asked about this action.", retry_can_help=False
    ),
    Rejection.APPROVAL_SPENT: Meaning(
        "An attempt has begun: the decision was spent on it.", retry_can_help=False
    ),
    Rejection.NONCE_DEAD: Meaning(
        "It answers a request for approval that is over or never was.", retry_can_help=False
    ),
    Rejection.OTHER_POLICY: Meaning(
        "It was signed under another policy or row.", retry_can_help=False
    ),
    Rejection.OTHER_PREVIEW: Meaning("It was signed for another preview.", retry_can_help=False),
    Rejection.APPROVAL_EXPIRED: Meaning(
        "It came too late: what was asked, or the statement itself, is over. That is no denial.",
        retry_can_help=False,
    ),
    Rejection.EXPIRY_BEYOND_REQUEST: Meaning(
        "The statement would hold longer than it may.", retry_can_help=False
    ),
    Rejection.ISSUED_IN_FUTURE: Meaning(
        "The statement was issued in the future.", retry_can_help=False
    ),
    Rejection.NOT_IN_GROUP: Meaning(
        "This person is in none of the groups that may decide.", retry_can_help=False
    ),
    Rejection.NOTHING_TO_WITHDRAW: Meaning(
        "This person has granted nothing that could be taken back.", retry_can_help=False
    ),
    Rejection.NO_CASE: Meaning(
        "Nothing of this action waits for a person to settle it.", retry_can_help=False
    ),
    Rejection.CASE_MOVED: Meaning(
        "More has become known since the person looked, or it is another case: look again.",
        retry_can_help=False,
    ),
    Rejection.REFERENCE_UNFIT: Meaning(
        "Who says that the effect exists names its reference at the provider; no other move names "
        "one.",
        retry_can_help=False,
    ),
    Rejection.RUN_MISSING: Meaning(
        "The policy counts such actions per run: name the run that this is a step of.",
        retry_can_help=False,
    ),
    Rejection.STEP_DENIED: Meaning(
        "The policy denies an action of this plan, so none of it is begun.", retry_can_help=False
    ),
    Rejection.COMPENSATION_PLANNED: Meaning(
        "A saga plans this action to undo one of its steps: it is called off with its saga, never "
        "alone.",
        retry_can_help=False,
    ),
    Rejection.TOO_MANY_REPORTERS: Meaning(
        "So many report steps of this run already: report under a name that you have.",
        retry_can_help=False,
    ),
    Rejection.OTHER_REPORTER: Meaning(
        "Another principal reports steps of this run under this name: nothing was counted.",
        retry_can_help=False,
    ),
    Rejection.ACCEPTS_UNFIT: Meaning(
        "The resolution does not name exactly what the person lets pass: nothing was changed.",
        retry_can_help=False,
    ),
    Rejection.MOVE_NOT_SAFE: Meaning(
        "This move would not be safe now: nothing was changed.", retry_can_help=True
    ),
    Rejection.INVALID_CONFIGURATION: Meaning(
        "The configuration is invalid; what was in force stays in force.", retry_can_help=False
    ),
}


class Detail(Wire):
    """One thing that is wrong: where, which rule, in words; for a conflict the value before and
    now.
    """

    path: Text
    code: Text
    message: str = Field(max_length=2_048)


class Refused(Wire):
    """The recorded answer to an input that changed nothing because it may not."""

    code: Rejection
    action: Text | None = None
    details: tuple[Detail, ...] = ()


class Unchanged(Wire):
    """The recorded answer to an input that was in order and changes nothing.

    `status`, `reference` and `action_version` say how the action stands, so that a repeated
    proposal is answered from the log alone.
    """

    reason: Text
    action: Text | None = None
    status: Text | None = None
    reference: Text | None = None
    action_version: int | None = None
