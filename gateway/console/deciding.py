"""Deciding: the sheet, the statement that a passkey signs, and what the ledger made of it.

Guarantees that a statement is made only for the sheet that its person was shown, and that only a
form of their session with a value that counts once, and a fresh answer of their passkey over
exactly that statement, is handed in. What counts is decided by the ledger; this module shows it.
Looking changes nothing, however often a link is opened.
"""

import json
import logging
from asyncio import to_thread
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gateway.console.actions import known_to
from gateway.console.limits import COMMENT_CHARS_MAX
from gateway.console.port import Decided, Known
from gateway.console.refusals import PageNo, refusal
from gateway.console.request import Answer, Seen, looked, submitted
from gateway.console.seals import Once, Purpose
from gateway.console.sheet import Sheet, sheet_of
from gateway.http.approvals import proven
from gateway.http.doors import doors_of
from gateway.http.problems import No
from ledger.core.facts import (
    ActionDenied,
    ApprovalGranted,
    ApprovalRequested,
    ApprovalWithdrawn,
    PreviewStarted,
    ReviewResolved,
)
from ledger.core.inputs import Judge
from ledger.core.rejections import Rejection
from ledger.core.statement import (
    Move,
    Say,
    Signable,
    SignedByPasskey,
    Statement,
    statement_bytes,
    statement_hash,
)
from ledger.signing.registering import authentication_options, read_assertion, signed_by

logger = logging.getLogger("actionledger.console")

router = APIRouter(prefix="/console", include_in_schema=False)

LABELS: Final = {Say.APPROVE: "Approve", Say.DENY: "Deny", Say.WITHDRAW: "Take back my approval"}


@router.get("/approve/{key}")
async def approve_page(http: HttpRequest, key: str) -> Response:
    """Everything that is signed, and the buttons where all of it is there."""

    async def work(seen: Seen) -> Answer:
        known = await known_to(seen, key)
        return PageNo.NOT_FOUND if known is None else await to_thread(_sheet_page, seen, known)

    return await looked(http, work)


@router.post("/approve/{key}/statement")
async def statement(http: HttpRequest, key: str) -> Response:
    """The statement of a decision, to be signed: as JSON, for the script of the page."""

    async def work(seen: Seen) -> Answer:
        made = await _statement(seen, key)
        if isinstance(made, PageNo):
            return told(seen, made)
        return json_page(seen, made, 200)

    return await submitted(http, work)


@router.post("/approve/{key}")
async def decide(http: HttpRequest, key: str) -> Response:
    """Hand in what a passkey signed, and show what the ledger decided."""

    async def work(seen: Seen) -> Answer:
        return await _decide(seen, key)

    return await submitted(http, work)


@router.post("/actions/{key}/ask")
async def ask_again(http: HttpRequest, key: str) -> Response:
    """Have people asked once more, after a request came to nothing. It decides nothing."""

    async def work(seen: Seen) -> Answer:
        if await known_to(seen, key) is None:
            return PageNo.NOT_FOUND
        decided = await seen.console.port.ask_again(key, seen.visitor.person.name)
        outcome = outcome_of(decided)
        return seen.page("decided", {"key": key, "outcome": outcome}, status=outcome.status)

    return await submitted(http, work)


def _sheet_page(seen: Seen, known: Known) -> Response:
    person = seen.visitor.person
    sheet = sheet_of(known, person, now_ms=seen.now)
    context = {
        "sheet": sheet,
        "action": known.action,
        "fingerprint": sheet.fingerprint(person.name),
        "labels": LABELS,
        "comment_chars_max": COMMENT_CHARS_MAX,
    }
    return seen.page("approve", context)


async def _statement(seen: Seen, key: str) -> dict[str, object] | PageNo:
    known = await known_to(seen, key)
    if known is None:
        return PageNo.NOT_FOUND
    person, form = seen.visitor.person, seen.form
    sheet = await to_thread(sheet_of, known, person, now_ms=seen.now)
    say = _say_of(form.get("decision", ""), sheet)
    if say is None or form.get("shown") != sheet.fingerprint(person.name):
        return PageNo.SHEET_CHANGED
    # What a browser calls a line end in a form is another text than what was typed.
    comment = form.get("comment", "").replace("\r\n", "\n").strip()
    if len(comment) > COMMENT_CHARS_MAX:
        return PageNo.FORM_MALFORMED
    made = sheet.statement(say, person.name, comment=comment or None, now_ms=seen.now)
    return to_be_signed(seen, made, Purpose.STATEMENT)


def to_be_signed(seen: Seen, made: Signable, purpose: Purpose) -> dict[str, object]:
    """What the script of a page asks a passkey to sign, sealed until it is handed in."""
    console = seen.console
    of = {"statement": statement_bytes(made).decode(), "session": seen.visitor.session.id}
    options = authentication_options(
        rp_id=console.site.rp_id,
        challenge=statement_hash(made),
        known=console.site.passkeys_of(seen.visitor.person),
    )
    once = console.seals.once(purpose, of, now_ms=seen.now)
    return {"once": once, "options": json.loads(options)}


def _say_of(text: str, sheet: Sheet) -> Say | None:
    return next((say for say in sheet.may if say.value == text), None)


async def _decide(seen: Seen, key: str) -> Answer:
    known = await known_to(seen, key)
    if known is None:
        return PageNo.NOT_FOUND
    decided = await handed_in(seen, key, Statement, Purpose.STATEMENT)
    if not isinstance(decided, Decided):
        return decided
    return outcome_page(seen, key, outcome_of(decided, quorum=_quorum(known)))


def outcome_page(seen: Seen, key: str, outcome: "Outcome") -> Response:
    """What the ledger decided about what was handed in."""
    logger.info(
        "console_decided",
        extra={"action": key, "person": seen.visitor.person.name, "outcome": outcome.name},
    )
    return seen.page("decided", {"key": key, "outcome": outcome}, status=outcome.status)


async def handed_in(
    seen: Seen, key: str, kind: type[Signable], purpose: Purpose
) -> Decided | Answer:
    """What the ledger decides about what a passkey signed, once; or why it was not handed in."""
    console = seen.console
    once = console.seals.opened(purpose, seen.form.get("once", ""), now_ms=seen.now)
    if once is None or once.content["session"] != seen.visitor.session.id:
        return PageNo.CHALLENGE_OVER
    signed = _signed(once, seen.form.get("credential", ""), key, kind)
    if signed is None:
        return seen.refused(Rejection.SIGNATURE_INVALID, key=key)
    doors = doors_of(seen.http)
    read = await proven(doors, Judge(key=key, signed=signed))
    if isinstance(read, No):
        logger.warning("console_signature_refused", extra={"code": read.code, "action": key})
        doors.metrics.decision(read.code.value)
        return seen.refused(read.code, key=key)
    if read.person != seen.visitor.person.name:
        return seen.refused(Rejection.OTHER_PERSON, key=key)
    if not await console.port.spend(once.id):
        return seen.refused(PageNo.SPENT, key=key)
    decided = await console.port.decide(key, signed)
    doors.metrics.decision(str(read.statement.decision))
    return decided


def _signed(once: Once, credential: str, key: str, kind: type[Signable]) -> SignedByPasskey | None:
    assertion = read_assertion(credential)
    if assertion is None:
        return None
    try:
        made = kind.model_validate_json(once.content["statement"])
    except ValidationError:
        return None
    return signed_by(assertion, made) if made.key == key else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the ledger decided, by its name and in a sentence."""

    name: str
    heading: str
    sentence: str
    hint: str = ""
    place: str | None = None
    status: int = 200


def outcome_of(decided: Decided, *, quorum: int = 1) -> Outcome:
    """The ledger's decision about a person's, as the page shows it."""
    decision = decided.decision
    if decision is None:
        return Outcome(
            "undecided",
            "Handed in",
            "Your decision is recorded, and the ledger has not come to it yet.",
            "Look at the action in a moment; there is nothing to do again.",
            status=202,
        )
    place = f"ledger, partition {decided.partition}, offset {decision.at}"
    if decision.refused is not None:
        no = refusal(decision.refused.code)
        return Outcome(no.code, "That did not count", no.sentence, no.hint, place, no.status)
    if decision.unchanged is not None:
        reason = decision.unchanged.reason
        sentence = _UNCHANGED.get(reason, "Nothing had to be changed for it.")
        return Outcome(reason, "Nothing new", sentence, "", place)
    for fact in decision.facts:
        match fact:
            case ApprovalGranted():
                return Outcome(fact.type, "Approved", _granted(fact, quorum), "", place)
            case ActionDenied():
                sentence = "It never starts, whatever anybody else says."
                return Outcome(fact.type, "Denied", sentence, "", place)
            case ApprovalWithdrawn():
                sentence = "Your approval counts no more."
                return Outcome(fact.type, "Taken back", sentence, "", place)
            case ReviewResolved():
                return Outcome(fact.type, "Settled", SETTLED[fact.move], "", place)
            case ApprovalRequested() | PreviewStarted():
                sentence = "People are asked once more, with a new end."
                return Outcome(fact.type, "Asked again", sentence, "", place)
            case _:
                continue
    reason = decision.quarantined.reason if decision.quarantined is not None else "no_fact"
    return Outcome(
        "quarantined", "Set aside", f"The ledger could not decide it ({reason}).", "", place, 500
    )


_UNCHANGED: Final = {
    "approved_already": "Your approval had been counted before: it counts once.",
    "denied_already": "It had been denied before: it never starts.",
    "withdrawn_already": "Your approval had been taken back before: it counts no more.",
    "asked_already": "People are being asked already.",
    "preview_under_way": "The provider is being asked already what would happen.",
    "resolved_already": "You had settled it so before: it counts once.",
    "nobody_to_ask": "It does not wait for people any more.",
}


SETTLED: Final = {
    Move.EFFECT_EXISTS: "It is completed on your word; nothing more is sent for it.",
    Move.NO_EFFECT: "It is over on your word: it had no effect, and nothing of it will be sent.",
    Move.TRY_AGAIN: "It is sent once more, as soon as nothing else keeps it from it.",
    Move.LOOK_AGAIN: "The provider is asked again what became of it.",
    Move.ACKNOWLEDGE: "The alarm is settled; the action stays as it is.",
    Move.ALLOW: "It goes on, and what you let it pass stands under your signature.",
}


def _quorum(known: Known) -> int:
    return 1 if known.action.approval is None else known.action.approval.quorum


def _granted(fact: ApprovalGranted, quorum: int) -> str:
    if fact.step_deadline_at is not None:
        return "As many have agreed as had to: the action may start."
    return f"Your approval counts; {quorum} people have to agree in all."


def told(seen: Seen, no: PageNo) -> Response:
    """A refusal for the script of a page."""
    said = refusal(no)
    content = {"code": said.code, "sentence": said.sentence, "hint": said.hint}
    return json_page(seen, content, said.status)


def json_page(seen: Seen, said: Mapping[str, object], status: int) -> Response:
    """An answer for the script of a page."""
    response = Response(json.dumps(said), status_code=status, media_type="application/json")
    return seen.console.pages.protected(response)
