"""Every way in which the HTTP door says no, in one table: name, status, sentence, what to do.

Guarantees one status and one hint for each name, whether the door refuses (`Code`) or the ledger
does (`Rejection`). The names are published and never change their meaning; `docs/HTTP.md` lists
them. Called by `problems`, which puts them on the wire.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from ledger.core.rejections import MEANINGS, Rejection


class Code(StrEnum):
    """What the door itself refuses; `Rejection` is what the ledger refuses."""

    UNAUTHENTICATED = "unauthenticated"
    API_KEY_EXPIRED = "api_key_expired"
    API_KEY_REVOKED = "api_key_revoked"
    ROLE_NOT_ALLOWED = "role_not_allowed"
    LOGIN_INVALID = "login_invalid"
    LOGIN_UNKNOWN_SIGNER = "login_unknown_signer"
    LOGIN_SIGNER_REVOKED = "login_signer_revoked"
    LOGIN_ELSEWHERE = "login_elsewhere"
    LOGIN_NOT_YET = "login_not_yet"
    LOGIN_OVER = "login_over"
    TOO_MANY_DECISIONS = "too_many_decisions"
    TOO_MANY_WAITING = "too_many_waiting"
    RUN_PAUSED = "run_paused"
    MALFORMED_JSON = "malformed_json"
    INVALID_BODY = "invalid_body"
    INVALID_QUERY = "invalid_query"
    INVALID_PATH = "invalid_path"
    TOO_LARGE = "too_large"
    TOO_SLOW = "too_slow"
    MALFORMED_HTTP = "malformed_http"
    HEAD_TOO_LARGE = "head_too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    MALFORMED_IDEMPOTENCY_KEY = "malformed_idempotency_key"
    OTHER_IDEMPOTENCY_KEY = "other_idempotency_key"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    UNKNOWN_ORPHAN = "unknown_orphan"
    ORPHAN_NOTED = "orphan_noted"
    NOT_DURABLE = "not_durable"
    QUARANTINED = "quarantined"
    READ_MODEL_UNAVAILABLE = "read_model_unavailable"
    WEBHOOK_SOURCE_UNKNOWN = "webhook_source_unknown"
    WEBHOOK_REJECTED = "webhook_rejected"
    WEBHOOK_NOT_DURABLE = "webhook_not_durable"
    TOO_BUSY = "too_busy"
    NOT_READY = "not_ready"
    INTERNAL = "internal"


AskingAgain = Literal["never_helps", "may_help_later", "is_safe_with_the_same_request"]


@dataclass(frozen=True, slots=True)
class Kind:
    """What is the same for every problem of one code."""

    status: int
    title: str
    hint: str
    asking_again: AskingAgain = "never_helps"


_SAME_AGAIN: Final[AskingAgain] = "is_safe_with_the_same_request"

KINDS: Final[Mapping[Code, Kind]] = {
    Code.UNAUTHENTICATED: Kind(
        401,
        "The API key is missing or unknown.",
        "Send the header Authorization: Bearer with a key made by `actionledger keys create`.",
    ),
    Code.API_KEY_EXPIRED: Kind(
        401,
        "This API key was valid until a time that has passed.",
        "Use the key that came in its place, or have one made: `actionledger keys rotate`.",
    ),
    Code.API_KEY_REVOKED: Kind(
        401,
        "This API key was taken back.",
        "Ask whoever runs the ledger for another one: `actionledger keys create`.",
    ),
    Code.ROLE_NOT_ALLOWED: Kind(
        403,
        "The role of this API key may not do this.",
        "Use a key with the role agent or operator.",
    ),
    Code.LOGIN_INVALID: Kind(
        401,
        "The log-in is missing, or no person's.",
        "Send the header Authorization: Login with a token that your own key has signed for this "
        "request; `actionledger waiting` and `actionledger approve` do. An API key reads nothing "
        "here.",
    ),
    Code.LOGIN_UNKNOWN_SIGNER: Kind(
        401,
        "The log-in is signed with a key that belongs to no person who is registered here.",
        "Ask an operator to register the key: `actionledger people key add`.",
        "may_help_later",
    ),
    Code.LOGIN_SIGNER_REVOKED: Kind(
        401,
        "The key of the log-in, or its person, was revoked, or the key is past its end.",
        "Use a key that is in force, or ask an operator for one.",
    ),
    Code.LOGIN_ELSEWHERE: Kind(
        401,
        "The log-in was signed for another request, or for another ledger.",
        "Sign one for the method and path that you ask, and for the ledger that is named.",
    ),
    Code.LOGIN_NOT_YET: Kind(
        401, "The log-in was signed in the future.", "Set the clock of the device that signs."
    ),
    Code.LOGIN_OVER: Kind(
        401,
        "The log-in is over: it is good for a minute.",
        "Sign a new one, with a clock that is right.",
    ),
    Code.TOO_MANY_DECISIONS: Kind(
        429,
        "This person has sent more decisions in a minute than anybody can have looked at.",
        "Wait a minute. If it was not you, have the key revoked: `actionledger people revoke`.",
        _SAME_AGAIN,
    ),
    Code.TOO_MANY_WAITING: Kind(
        409,
        "This principal has as many actions waiting for people as it may. Nothing was recorded.",
        "Wait until people have decided, or cancel what is no longer wanted; then ask again with "
        "the same request.",
        "may_help_later",
    ),
    Code.RUN_PAUSED: Kind(
        409,
        "The run has reached a ceiling, and an action of it waits for a person. Nothing was "
        "recorded.",
        "Do not try another key: stop the run, or wait until a person has settled that case; then "
        "ask again with the same request.",
        "may_help_later",
    ),
    Code.MALFORMED_JSON: Kind(
        400,
        "The body is not a JSON text with one meaning.",
        "Send one JSON object: UTF-8, each key once, whole numbers, no NaN, no half characters.",
    ),
    Code.INVALID_BODY: Kind(
        400,
        "The body has wrong, missing or unknown fields.",
        "Correct the fields named under problems; the schema is at /openapi.json.",
    ),
    Code.INVALID_QUERY: Kind(
        400,
        "The query has wrong or unknown parameters.",
        "Correct the parameters named under problems; the schema is at /openapi.json.",
    ),
    Code.INVALID_PATH: Kind(
        400,
        "A name in the path is none that anything can have.",
        "Correct the names given under problems, and write them as they were proposed.",
    ),
    Code.TOO_LARGE: Kind(
        413,
        "The body is larger than allowed.",
        "Send a reference to what is large instead of the thing itself.",
    ),
    Code.TOO_SLOW: Kind(
        408,
        "The body did not arrive in time.",
        "Send the whole request at once.",
        _SAME_AGAIN,
    ),
    Code.MALFORMED_HTTP: Kind(
        400,
        "The bytes are no request that has one meaning. The connection is closed.",
        "Speak HTTP/1.1: one Host, one length or `Transfer-Encoding: chunked`, no folded headers.",
    ),
    Code.HEAD_TOO_LARGE: Kind(
        431,
        "What is no part of a body is longer than 32 KiB. The connection is closed.",
        "Send a shorter path and fewer headers.",
    ),
    Code.UNSUPPORTED_MEDIA_TYPE: Kind(
        415, "The body is not declared as JSON.", "Send Content-Type: application/json."
    ),
    Code.MALFORMED_IDEMPOTENCY_KEY: Kind(
        400,
        "The header Idempotency-Key is malformed.",
        "Send one quoted string, or leave the header out: the key follows from the body.",
    ),
    Code.OTHER_IDEMPOTENCY_KEY: Kind(
        400,
        "The header Idempotency-Key names another action than the body.",
        "The key follows from operation, version and business event. Leave the header out, or send "
        "the action key. Never draw a key at random: each draw would be another effect.",
    ),
    Code.NOT_FOUND: Kind(
        404,
        "There is nothing here.",
        "Check the name and the path; the paths are at /openapi.json.",
    ),
    Code.METHOD_NOT_ALLOWED: Kind(
        405, "This method is not allowed here.", "The methods are at /openapi.json."
    ),
    Code.UNKNOWN_ORPHAN: Kind(
        404,
        "Nothing at this place is an effect without an action, or not for you to see.",
        "GET /v1/orphans has the places; what bears no key of a tenant is shown to who decides for "
        "all of them.",
    ),
    Code.ORPHAN_NOTED: Kind(
        409,
        "Somebody has looked at it already.",
        "Read their word at the same address; the first one counts.",
    ),
    Code.NOT_DURABLE: Kind(
        503,
        "It is not known whether the request was recorded.",
        "Ask again with the same key and the same body: it cannot happen twice. Do not use a new "
        "key.",
        _SAME_AGAIN,
    ),
    Code.QUARANTINED: Kind(
        500,
        "The ledger could not decide this request and has set it aside. Nothing was started.",
        "Tell an operator the ledger's partition and offset; a new key is the wrong move.",
    ),
    Code.READ_MODEL_UNAVAILABLE: Kind(
        503,
        "The read model does not answer. What was recorded is safe.",
        "Ask again in a moment.",
        _SAME_AGAIN,
    ),
    Code.WEBHOOK_SOURCE_UNKNOWN: Kind(
        404,
        "No webhooks are expected from this provider and account.",
        "Configure a secret for it, and give ?account= where a provider has several.",
        "may_help_later",
    ),
    Code.WEBHOOK_REJECTED: Kind(
        401,
        "The webhook is not signed as expected. It was not kept.",
        "Sign the raw body with the shared secret, at the time of sending.",
        "may_help_later",
    ),
    Code.WEBHOOK_NOT_DURABLE: Kind(
        503,
        "It is not known whether the webhook was kept.",
        "Send it again: each event counts once.",
        _SAME_AGAIN,
    ),
    Code.TOO_BUSY: Kind(
        503,
        "The door has as many requests as it can hold. Nothing was recorded.",
        "Ask again in a moment, with the same request.",
        _SAME_AGAIN,
    ),
    Code.NOT_READY: Kind(
        503, "A part that is needed does not answer.", "See problems.", "may_help_later"
    ),
    Code.INTERNAL: Kind(
        500,
        "A fault of ours. It is not known whether the request was recorded.",
        "Ask again with the same key and the same body. Tell an operator the incident: the log of "
        "the gateway has it.",
        _SAME_AGAIN,
    ),
}

_STATUSES: Final[Mapping[Rejection, int]] = {
    # The door places a record by its key, so this one is a fault of ours.
    Rejection.MISROUTED: 500,
    Rejection.MALFORMED_KEY: 400,
    Rejection.KEY_MISMATCH: 400,
    Rejection.HASH_MISMATCH: 400,
    Rejection.CONFLICTED: 422,
    Rejection.UNSTABLE_KEY: 422,
    Rejection.SAGA_UNFIT: 422,
    Rejection.UNKNOWN_ACTION: 404,
    Rejection.UNKNOWN_SAGA: 404,
    Rejection.UNKNOWN_ATTEMPT: 404,
    Rejection.STALE_TOKEN: 409,
    Rejection.FOREIGN_ACCOUNT: 409,
    Rejection.UNKNOWN_LOOKUP: 409,
    Rejection.UNKNOWN_OPERATION: 400,
    Rejection.OTHER_VERSION: 409,
    Rejection.REVISION_NEEDS_PERSON: 422,
    Rejection.UNKNOWN_ORIGINAL: 409,
    Rejection.REVISION_UNFIT: 422,
    Rejection.NOT_A_COMPENSATION: 422,
    Rejection.NOTHING_TO_UNDO: 409,
    Rejection.NOT_ALLOWED: 403,
    Rejection.RUN_MISSING: 422,
    Rejection.STEP_DENIED: 403,
    Rejection.NEEDS_EXECUTOR: 403,
    Rejection.NEEDS_CALLER: 403,
    Rejection.INVALID_REQUEST: 400,
    Rejection.OTHER_TARGET: 422,
    Rejection.COMPENSATION_EXCEEDS: 422,
    Rejection.STREAM_FULL: 409,
    Rejection.TOO_MANY_REPORTERS: 409,
    Rejection.OTHER_REPORTER: 409,
    Rejection.ALREADY_FINAL: 409,
    Rejection.COMPENSATION_PLANNED: 409,
    Rejection.ATTEMPT_OPEN: 409,
    Rejection.IN_REVIEW: 409,
    Rejection.SIGNATURE_INVALID: 403,
    Rejection.UNKNOWN_SIGNER: 403,
    Rejection.SIGNER_REVOKED: 403,
    Rejection.OTHER_LEDGER: 403,
    Rejection.OTHER_ACTION: 403,
    Rejection.OTHER_TENANT: 403,
    Rejection.OTHER_ENVIRONMENT: 403,
    Rejection.OTHER_REQUEST: 403,
    Rejection.OTHER_PERSON: 403,
    Rejection.NOT_FOR_TENANT: 403,
    Rejection.REQUESTER_DECIDES: 403,
    Rejection.NOTHING_ASKED: 409,
    Rejection.NO_CASE: 409,
    Rejection.CASE_MOVED: 409,
    Rejection.APPROVAL_SPENT: 409,
    Rejection.NONCE_DEAD: 409,
    Rejection.OTHER_POLICY: 409,
    Rejection.OTHER_PREVIEW: 409,
    Rejection.APPROVAL_EXPIRED: 409,
    Rejection.EXPIRY_BEYOND_REQUEST: 403,
    Rejection.ISSUED_IN_FUTURE: 403,
    Rejection.NOT_IN_GROUP: 403,
    Rejection.NOTHING_TO_WITHDRAW: 409,
    Rejection.REFERENCE_UNFIT: 400,
    Rejection.MOVE_NOT_SAFE: 409,
    Rejection.ACCEPTS_UNFIT: 400,
    Rejection.INVALID_CONFIGURATION: 400,
}

_NEXT: Final[Mapping[Rejection, str]] = {
    Rejection.MISROUTED: "Tell an operator the ledger's partition and offset.",
    Rejection.MALFORMED_KEY: "Write operation:v1:tenant:event[#item], with %23 for #.",
    Rejection.KEY_MISMATCH: "Send operation and version as in the key.",
    Rejection.HASH_MISMATCH: "Send the request as it was hashed.",
    Rejection.CONFLICTED: "Look at the original action first. A new key is the wrong move if the "
    "same thing is meant; what is really another thing belongs to a business event of its own.",
    Rejection.UNSTABLE_KEY: "Name the effect by what it belongs to (an order, an invoice, a "
    "ticket), in the same words at every try. Nothing was recorded.",
    Rejection.SAGA_UNFIT: "Correct the plan as named under problems, and open it under the same "
    "name. Nothing was recorded.",
    Rejection.UNKNOWN_SAGA: "Check the business event and the name. If you opened it a moment ago, "
    "open the same again: it cannot happen twice.",
    Rejection.UNKNOWN_ACTION: "Check the key. If you proposed it a moment ago, propose the same "
    "again: it cannot happen twice.",
    Rejection.UNKNOWN_ATTEMPT: "Check the number of the attempt.",
    Rejection.STALE_TOKEN: "Only the holder of the attempt may report it.",
    Rejection.FOREIGN_ACCOUNT: "Send evidence from the action's own provider account.",
    Rejection.UNKNOWN_LOOKUP: "Answer only lookups that the ledger asked for.",
    Rejection.UNKNOWN_OPERATION: "Use an operation and version of the catalogue, or ask an "
    "operator to publish it; then the same key may be proposed again.",
    Rejection.OTHER_VERSION: "Look at the action that exists. Do not propose the same act under "
    "another version.",
    Rejection.REVISION_NEEDS_PERSON: "Name the earlier action with `revises`; people are shown "
    "what changes.",
    Rejection.UNKNOWN_ORIGINAL: "Name an action of the same business event by its key.",
    Rejection.REVISION_UNFIT: "Revise the newest action of the same operation, event and item, "
    "under its key with the next revision: see problems.",
    Rejection.NOT_A_COMPENSATION: "Use the operation that the catalogue names as the compensation "
    "of that action's, in the version that acts at the account where it was done.",
    Rejection.NOTHING_TO_UNDO: "Look at that action: nothing of it is there to be undone.",
    Rejection.RUN_MISSING: "Propose it again with `run`, under the same key.",
    Rejection.STEP_DENIED: "Leave out what is denied, or ask an operator about the row that is "
    "named under problems. Nothing was recorded.",
    Rejection.NOT_ALLOWED: "Ask an operator to allow this principal in the catalogue.",
    Rejection.NEEDS_EXECUTOR: "Propose it without an offer of your own; an executor carries it "
    "out. Or ask an operator to let its callers perform it.",
    Rejection.NEEDS_CALLER: "Propose it as its performer: with the SDK's decorator, or with "
    "`caller` in the body.",
    Rejection.INVALID_REQUEST: "Correct what is named under problems. Nothing was recorded under "
    "this key, so use the same key again.",
    Rejection.OTHER_TARGET: "Name the target of what is to be undone, under the same key. Where it "
    "may rightly be another, an operator says so in the catalogue: compensation_target.",
    Rejection.COMPENSATION_EXCEEDS: "Undo no more than is left: see problems. Where the effect of "
    "an earlier compensation came to nothing, revise that one; a person decides.",
    Rejection.TOO_MANY_REPORTERS: "Report under a name that you report under already.",
    Rejection.OTHER_REPORTER: "Report under a name of your own, as `reporter` in the body.",
    Rejection.STREAM_FULL: "Use another business event for what does not belong to this one.",
    Rejection.ALREADY_FINAL: "Look at the action: its outcome stands.",
    Rejection.COMPENSATION_PLANNED: "Cancel the saga, or let it do its work.",
    Rejection.ATTEMPT_OPEN: "Wait for its outcome; it will be found out.",
    Rejection.IN_REVIEW: "Wait for the person who settles it.",
    Rejection.SIGNATURE_INVALID: "Sign again exactly what is shown, with the key of the person who "
    "decides.",
    Rejection.UNKNOWN_SIGNER: "Ask an operator to register the key: `actionledger people key add`.",
    Rejection.SIGNER_REVOKED: "Sign with a key that is in force, or ask an operator for one.",
    Rejection.OTHER_LEDGER: "Sign what this ledger shows.",
    Rejection.OTHER_ACTION: "Decide about each action by itself.",
    Rejection.OTHER_TENANT: "Sign what is shown for this tenant.",
    Rejection.OTHER_ENVIRONMENT: "Sign what is shown for this environment.",
    Rejection.OTHER_REQUEST: "Look at the action as it is, and sign that.",
    Rejection.OTHER_PERSON: "Sign in your own name.",
    Rejection.NOT_FOR_TENANT: "Ask somebody who is registered for the tenant.",
    Rejection.REQUESTER_DECIDES: "Ask another person.",
    Rejection.NOTHING_ASKED: "Nothing is to be decided; look at the action.",
    Rejection.NO_CASE: "Look at the action: evidence, or somebody else, has settled it.",
    Rejection.CASE_MOVED: "Look at the case as it is now, and sign that.",
    Rejection.APPROVAL_SPENT: "What left cannot be called back; look at the action.",
    Rejection.NONCE_DEAD: "Look at what is asked now, and sign that.",
    Rejection.OTHER_POLICY: "Look at what is asked now, and sign that.",
    Rejection.OTHER_PREVIEW: "Look at the preview as it is, and sign that.",
    Rejection.APPROVAL_EXPIRED: "Ask again, and decide in time.",
    Rejection.EXPIRY_BEYOND_REQUEST: "Sign with the end that is shown.",
    Rejection.ISSUED_IN_FUTURE: "Set the clock of the device that signs.",
    Rejection.NOT_IN_GROUP: "Ask somebody of the groups that are named.",
    Rejection.NOTHING_TO_WITHDRAW: "Deny it, where nothing has begun.",
    Rejection.REFERENCE_UNFIT: "Give the reference with effect_exists, and with nothing else.",
    Rejection.ACCEPTS_UNFIT: "Name with allow what the case names, and with nothing else.",
    Rejection.MOVE_NOT_SAFE: "Look at the case again: it shows the moves that are safe now.",
    Rejection.INVALID_CONFIGURATION: "Correct the configuration and publish it again.",
}

REJECTED: Final[Mapping[Rejection, Kind]] = {
    rejection: Kind(
        _STATUSES[rejection],
        meaning.sentence,
        _NEXT[rejection],
        "may_help_later" if meaning.retry_can_help else "never_helps",
    )
    for rejection, meaning in MEANINGS.items()
}
"""How the door answers each refusal of the ledger: the one table from names to statuses."""
