"""Every way in which a page says no, in one table: name, status, sentence, what to do.

Guarantees one sentence for each name. What the ledger or a signature refuses keeps the name that it
has everywhere. Called by the pages.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.http.codes import KINDS, REJECTED, Code
from ledger.core.rejections import MEANINGS, Rejection
from ledger.signing.logins import NotLoggedIn
from ledger.signing.registering import NotRegistered


class PageNo(StrEnum):
    """What a page itself refuses."""

    NOT_FOUND = "not_found"
    LOG_IN_FIRST = "log_in_first"
    ORIGIN_REFUSED = "origin_refused"
    FORM_REFUSED = "form_refused"
    FORM_MALFORMED = "form_malformed"
    CHALLENGE_OVER = "challenge_over"
    SPENT = "spent"
    SHEET_CHANGED = "sheet_changed"
    MOVE_MISSING = "move_missing"
    WORDS_MISSING = "words_missing"
    NOTE_MISSING = "note_missing"
    LINK_OVER = "link_over"
    LINK_USED = "link_used"
    NOT_ANSWERING = "not_answering"


@dataclass(frozen=True, slots=True)
class Refusal:
    """One no, as a page shows it."""

    code: str
    status: int
    sentence: str
    hint: str


PageCode = PageNo | NotLoggedIn | NotRegistered | Rejection | Code

_LOG_IN_AGAIN: Final = "Log in again."
_ASK_FOR_LINK: Final = "Ask for another link: `actionledger people passkey NAME`."

_PAGES: Final[Mapping[PageNo | NotLoggedIn | NotRegistered, tuple[int, str, str]]] = {
    PageNo.NOT_FOUND: (
        404,
        "There is nothing here, or it is none of your tenants'.",
        "Look at what waits.",
    ),
    PageNo.LOG_IN_FIRST: (401, "You are not logged in, or no longer.", _LOG_IN_AGAIN),
    PageNo.ORIGIN_REFUSED: (
        403,
        "The request did not come from a page of this ledger. Nothing was done.",
        "Open the page anew, under the address that it was set up for.",
    ),
    PageNo.FORM_REFUSED: (
        403,
        "The form belongs to another session, or to none. Nothing was done.",
        "Open the page anew.",
    ),
    PageNo.FORM_MALFORMED: (
        400,
        "The form has not the fields that it should. Nothing was done.",
        "Open the page anew.",
    ),
    PageNo.CHALLENGE_OVER: (
        403,
        "That took too long, or was made for something else. Nothing was done.",
        "Begin again.",
    ),
    PageNo.SPENT: (
        409,
        "This was handed in before, and counted once.",
        "Look at the action as it is now.",
    ),
    PageNo.SHEET_CHANGED: (
        409,
        "What is asked is no longer what you were shown. Nothing was signed.",
        "Read the page again, as it is now.",
    ),
    PageNo.MOVE_MISSING: (
        400,
        "Nothing that is safe now was chosen. Nothing was signed.",
        "Choose how you settle it.",
    ),
    PageNo.WORDS_MISSING: (
        400,
        "A reason is missing, or the reference of the effect. Nothing was signed.",
        "Say how you know; whoever says that the effect exists names its reference.",
    ),
    PageNo.NOTE_MISSING: (
        400,
        "A word on what came of it is missing. Nothing was kept.",
        "Say what you found at the provider.",
    ),
    PageNo.LINK_OVER: (404, "This link is over, or never was one.", _ASK_FOR_LINK),
    PageNo.LINK_USED: (409, "A passkey was made with this link already.", _ASK_FOR_LINK),
    PageNo.NOT_ANSWERING: (
        503,
        "The ledger does not answer. What was recorded is safe.",
        "Look again in a moment.",
    ),
    NotLoggedIn.LOGIN_INVALID: (
        403,
        "That passkey's answer proves nothing here.",
        _LOG_IN_AGAIN,
    ),
    NotLoggedIn.LOGIN_UNKNOWN_SIGNER: (
        403,
        "This passkey belongs to nobody who is registered here.",
        _ASK_FOR_LINK,
    ),
    NotLoggedIn.LOGIN_SIGNER_REVOKED: (
        403,
        "This passkey, or its person, was revoked.",
        "Ask an operator.",
    ),
    NotLoggedIn.LOGIN_ELSEWHERE: (403, "That was signed for something else.", _LOG_IN_AGAIN),
    NotLoggedIn.LOGIN_NOT_YET: (403, "That was signed in the future.", "Set the clock."),
    NotLoggedIn.LOGIN_OVER: (403, "That was signed too long ago.", _LOG_IN_AGAIN),
    NotRegistered.REGISTRATION_INVALID: (
        400,
        "The browser's answer makes no passkey for this page.",
        "Try again, with the screen lock or a PIN of the device.",
    ),
    NotRegistered.PASSKEY_UNSUPPORTED: (
        400,
        "This device makes passkeys of a kind that is not taken here (ES256 is).",
        "Use another device.",
    ),
}


def refusal(code: PageCode) -> Refusal:
    """What a page says under a name."""
    if isinstance(code, Rejection):
        kind = REJECTED[code]
        return Refusal(code.value, kind.status, MEANINGS[code].sentence, kind.hint)
    if isinstance(code, Code):
        door = KINDS[code]
        return Refusal(code.value, door.status, door.title, door.hint)
    status, sentence, hint = _PAGES[code]
    return Refusal(code.value, status, sentence, hint)
