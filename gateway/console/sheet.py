"""The sheet: everything that a person signs, drawn from what the ledger recorded, or why there is
nothing to sign.

Guarantees that a sheet with something to sign is complete: every hash in the statement was computed
again from exactly what the sheet shows, and every value is on it whole. What is missing or too
large to read leaves no decision to offer. Pure; called by the pages.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal

from pydantic import JsonValue

from gateway.console.limits import SHEET_CHARS_MAX, SHEET_ROWS_MAX
from gateway.console.rounds import Earlier, Moved, Remark, earlier_rounds, is_void, remarks
from gateway.console.text import Shown, grouped, shown
from ledger.core.canonical import canonicalize
from ledger.core.decide.asking import preview_is_under_way
from ledger.core.ids import ActionKey
from ledger.core.money import Money, exponent
from ledger.core.operation import Risk
from ledger.core.people import Person
from ledger.core.policy import Row
from ledger.core.policy_contradictions import DEFAULT_ROW
from ledger.core.preview import Check, Preview, preview_hash
from ledger.core.rejections import MEANINGS, Rejection
from ledger.core.request import RecordedRequest, canonical_form, request_hash
from ledger.core.state import Action, Approval, Status
from ledger.core.statement import Say, Statement

if TYPE_CHECKING:
    from gateway.console.port import Known

_SHOWN_DOMAIN: Final = b"actionledger.shown.v1\n"


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a payload: where it stands, of what type it is, and all of it."""

    path: Shown
    kind: str
    text: Shown


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The dry run as it is shown; `provider_says` is False where it follows from the request."""

    target: Shown | None
    scope: Shown | None
    effect: Shown | None
    observed: tuple[Value, ...]
    checks: tuple[Check, ...]
    provider_says: bool
    revised: "Revised | None" = None
    undone: "Undone | None" = None


@dataclass(frozen=True, slots=True)
class Revised:
    """The earlier action that this one revises: how it stood when people were asked, and what this
    one changes of it.
    """

    action: Shown
    status: str
    changes: tuple[Moved, ...]


@dataclass(frozen=True, slots=True)
class Undone:
    """The action whose effect this one undoes: how it stood when people were asked, the provider's
    name for its effect, on what and over how much it was.
    """

    action: Shown
    status: str
    reference: Shown | None
    target: Shown | None
    money: str | None


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why there is nothing to decide here, by name, in a sentence, and what helps."""

    code: str
    sentence: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Sheet:
    """What one person is shown of one action. `may` is what they can sign, nothing where `why_not`
    says so; `void` has who agreed, and was revoked since. `description` and `risk` are what the
    newest catalogue says of the operation, None where it does not know it.
    """

    action: Action
    tenant: str
    ledger: str
    description: Shown | None
    risk: str | None
    target: Shown | None
    money: str | None
    values: tuple[Value, ...]
    foreseen: Foreseen | None
    row: Row | None
    row_reason: Shown | None
    earlier: tuple[Earlier, ...]
    remarks: tuple[Remark, ...]
    void: tuple[str, ...]
    may: tuple[Say, ...]
    why_not: WhyNot | None

    @property
    def approval(self) -> Approval | None:
        """What people were asked last."""
        return self.action.approval

    @property
    def hashes(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """What is signed by its hash, each in groups."""
        approval = self.approval
        found = [("payload", grouped(self.action.request_hash))]
        if approval is not None:
            found += [
                ("preview", grouped(approval.preview_hash)),
                ("policy", grouped(approval.policy_hash)),
            ]
        return tuple(found)

    def statement(self, say: Say, approver: str, *, comment: str | None, now_ms: int) -> Statement:
        """What the person signs to say so. Only where they may."""
        approval = self.approval
        if approval is None or say not in self.may:
            raise ValueError("there is nothing to sign on this sheet")
        return Statement(
            ledger=self.ledger,
            decision=say,
            approver=approver,
            tenant=self.tenant,
            environment=self.action.request.environment,
            key=self.action.key,
            request_hash=self.action.request_hash,
            preview_hash=approval.preview_hash,
            policy_hash=approval.policy_hash,
            row=approval.row,
            nonce=approval.nonce,
            issued_at=max(now_ms, 1 + self._void_until(approver)),
            expires_at=approval.expires_at,
            comment=comment,
        )

    def _void_until(self, approver: str) -> int:
        """Until when what the person issued was taken back with an earlier yes: the next one has to
        be told apart from it, however soon it comes.
        """
        withdrawals = () if self.approval is None else self.approval.withdrawals
        return max((one.void_until for one in withdrawals if one.person == approver), default=-1)

    def fingerprint(self, approver: str) -> str:
        """What was on the sheet, as one hash: a decision counts only for the very sheet that its
        person looked at.
        """
        approval = self.approval
        seen: dict[str, JsonValue] = {
            "approver": approver,
            "key": self.action.key,
            "ledger": self.ledger,
            "request_hash": self.action.request_hash,
        }
        if approval is not None:
            seen |= {
                "expires_at": approval.expires_at,
                "nonce": approval.nonce,
                "policy_hash": approval.policy_hash,
                "preview_hash": approval.preview_hash,
                "row": approval.row,
            }
        return sha256(_SHOWN_DOMAIN + canonicalize(seen)).hexdigest()


def sheet_of(known: "Known", person: Person, *, now_ms: int) -> Sheet:
    """The sheet of an action for a person."""
    action = known.action
    preview = None if action.dry is None else action.dry.content
    values = tuple(values_of(canonical_form(action.request)["params"]))
    foreseen = None if preview is None else _foreseen(preview)
    row, declared = _row(known), known.declared
    why_not = _why_not(known, person, now_ms) or _unreadable(known, values, foreseen)
    return Sheet(
        action=action,
        tenant=ActionKey.parse(action.key).tenant,
        ledger=known.ledger,
        description=described(None if declared is None else declared.description),
        risk=None if declared is None else risk_levels(declared.risk),
        target=None if action.request.target is None else shown(action.request.target),
        money=None if action.request.money is None else amount(action.request.money),
        values=values,
        foreseen=foreseen,
        row=row,
        row_reason=None if row is None else shown(row.reason),
        earlier=earlier_rounds(known.events),
        remarks=remarks(known.events),
        void=tuple(_void(known, now_ms)),
        may=() if why_not is not None else _may(action, person),
        why_not=why_not,
    )


def _void(known: "Known", now_ms: int) -> Iterator[str]:
    """Who agreed, and proves nothing any more."""
    approval, people = known.action.approval, known.people
    if approval is not None and people is not None:
        yield from (one.person for one in approval.grants if is_void(one, people, now_ms))


def amount(money: Money) -> str:
    """An amount as people write it: `1,240.50 EUR`."""
    digits = exponent(money.currency)
    whole, rest = divmod(money.minor, 10**digits)
    return f"{whole:,}" + (f".{rest:0{digits}d}" if digits else "") + f" {money.currency}"


def described(text: str | None) -> Shown | None:
    """What a catalogue says that an operation does."""
    return None if text is None else shown(text)


def risk_levels(risk: Risk) -> str:
    """Every fact that a policy decides by, with its level."""
    levels = risk.model_dump()
    return ", ".join(f"{name.replace('_', ' ')} {levels[name]}" for name in levels)


def values_of(value: JsonValue, path: tuple[str | int, ...] = ()) -> Iterator[Value]:
    """Every value in a JSON text, in its order, each with its path."""
    match value:
        case {"$token": str(token), **others} if not others:
            yield Value(_path(path), "personal, kept apart", shown(token))
        case dict() if value:
            for name, item in value.items():
                yield from values_of(item, (*path, name))
        case list() if value:
            for index, item in enumerate(value):
                yield from values_of(item, (*path, index))
        case dict() if path:
            yield Value(_path(path), "object", shown("(empty)"))
        case list():
            yield Value(_path(path), "list", shown("(empty)"))
        case bool():
            yield Value(_path(path), "true or false", shown("true" if value else "false"))
        case None:
            yield Value(_path(path), "nothing", shown("null"))
        case str():
            yield Value(_path(path), "text", shown(value))
        case int() | float():
            yield Value(_path(path), "number", shown(str(value)))
        case _:
            return


def _path(path: tuple[str | int, ...]) -> Shown:
    """A JSON Pointer (RFC 6901) of the names as they are: whole, and what cannot be seen marked."""
    return shown("".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path))


def _foreseen(preview: Preview) -> Foreseen:
    said = preview.foreseen
    return Foreseen(
        target=None if said is None or said.target is None else shown(said.target),
        scope=None if said is None or said.scope is None else shown(said.scope),
        effect=None if said is None or said.effect is None else shown(said.effect),
        observed=() if said is None else tuple(values_of(dict(said.observed))),
        checks=preview.checks,
        provider_says=said is not None,
        revised=_revised(preview),
        undone=_undone(preview),
    )


def _revised(preview: Preview) -> Revised | None:
    earlier = preview.revises
    if earlier is None:
        return None
    changes = (Moved(shown(one.name), shown(one.was), shown(one.now)) for one in earlier.changes)
    return Revised(shown(earlier.action), earlier.status, tuple(changes))


def _undone(preview: Preview) -> Undone | None:
    earlier = preview.undoes
    if earlier is None:
        return None
    return Undone(
        action=shown(earlier.action),
        status=earlier.status,
        reference=None if earlier.reference is None else shown(earlier.reference),
        target=None if earlier.target is None else shown(earlier.target),
        money=None if earlier.money is None else amount(earlier.money),
    )


def _row(known: "Known") -> Row | None:
    """The row by which people are asked, or which ruled last, as its own table has it."""
    policy, action = known.policy, known.action
    if policy is None:
        return None
    name = action.policy_row if action.approval is None else action.approval.row
    return None if name is None else policy.row(name)


def _why_not(known: "Known", person: Person, now_ms: int) -> WhyNot | None:
    """Why this person cannot decide this action now, or None."""
    action, approval = known.action, known.action.approval
    if action.is_final:
        return named(Rejection.ALREADY_FINAL)
    if action.status is Status.NEEDS_REVIEW:
        return named(Rejection.IN_REVIEW)
    is_asked = action.status is Status.AWAITING_APPROVAL
    if action.has_begun and not is_asked:
        return named(Rejection.APPROVAL_SPENT)
    if is_asked and (approval is None or preview_is_under_way(action)):
        code = None if action.dry is None else action.dry.code
        return _PREVIEW_UNDER_WAY if code is None else _foresaw_nothing(code)
    if approval is None:
        return named(Rejection.NOTHING_ASKED)
    if not person.may_decide_for(ActionKey.parse(action.key).tenant):
        return named(Rejection.NOT_FOR_TENANT)
    asks = (action.request.principal, *(action.behalf or ()))
    barred = barred_of(person, asks, approval.groups)
    if barred is Rejection.REQUESTER_DECIDES:
        return named(barred)
    if approval.ended not in {None, "expired"}:
        return _BEING_ASKED_ANEW
    if approval.ended is not None or now_ms >= approval.expires_at:
        return named(Rejection.APPROVAL_EXPIRED)
    return None if barred is None else named(barred)


def barred_of(
    person: Person, asks: Collection[str], groups: tuple[str, ...]
) -> Literal[Rejection.REQUESTER_DECIDES, Rejection.NOT_IN_GROUP] | None:
    """Why whatever this person signs would not count, however it stands and whenever they do; None
    where it may. `asks` are those who ask for the action or for whom it is asked, `groups` those of
    which one decides.
    """
    if any(map(person.asks_as, asks)):
        return Rejection.REQUESTER_DECIDES
    return None if person.is_in_one_of(groups) else Rejection.NOT_IN_GROUP


def _may(action: Action, person: Person) -> tuple[Say, ...]:
    """What this person can say: who has agreed can take it back, everybody else decides."""
    approval = action.approval
    if approval is None:
        return ()
    if any(grant.person == person.name for grant in approval.grants):
        return (Say.WITHDRAW, Say.DENY)
    return (Say.DENY,) if approval.is_met else (Say.APPROVE, Say.DENY)


def _unreadable(
    known: "Known", values: tuple[Value, ...], foreseen: Foreseen | None
) -> WhyNot | None:
    """Why the sheet is not all of what would be signed, or more than a person can read; or None."""
    action, approval, dry = known.action, known.action.approval, known.action.dry
    if approval is None:
        return None
    if not known.is_whole or not _is_payload(action.request, action.request_hash):
        return _INCOMPLETE
    if dry is None or dry.content is None or foreseen is None:
        return _INCOMPLETE
    if preview_hash(dry.content) != approval.preview_hash or not _is_of(dry.content, action):
        return _INCOMPLETE
    if not _is_row_here(known, approval):
        return _POLICY_NOT_HERE
    everything = (*values, *foreseen.observed)
    characters = sum(
        len(piece.text) for one in everything for piece in (*one.path.pieces, *one.text.pieces)
    )
    if len(everything) > SHEET_ROWS_MAX or characters > SHEET_CHARS_MAX:
        return _TOO_LARGE
    return None


def _is_of(preview: Preview, action: Action) -> bool:
    """Whether the dry run, which is signed, is of what the page shows beside it: the request, where
    it goes, which effect it undoes, and who carries it out.
    """
    request, undoes = action.request, preview.undoes
    undone = None if undoes is None else undoes.action
    signed_and_shown = (
        (preview.request_hash, action.request_hash),
        (preview.target, request.target),
        (preview.money, request.money),
        (preview.provider, action.provider),
        (preview.account, action.account),
        (undone, action.compensates),
        (preview.performer, action.performer),
    )
    return all(signed == beside for signed, beside in signed_and_shown)


def _is_row_here(known: "Known", approval: Approval) -> bool:
    """Whether the row by which people are asked can be shown."""
    policy = known.policy
    if policy is None or policy.content_hash != approval.policy_hash:
        return False
    return approval.row == DEFAULT_ROW or policy.row(approval.row) is not None


def _is_payload(request: RecordedRequest, recorded_hash: str) -> bool:
    return request_hash(request) == recorded_hash


def named(rejection: Rejection) -> WhyNot:
    """Why not, where the ledger itself would say so."""
    return WhyNot(rejection.value, MEANINGS[rejection].sentence, _HINTS.get(rejection, ""))


_HINTS: Final = {
    Rejection.APPROVAL_EXPIRED: "It waits until somebody asks again.",
    Rejection.REQUESTER_DECIDES: "Another person has to decide.",
    Rejection.NOT_FOR_TENANT: "Somebody who is registered for the tenant has to decide.",
    Rejection.NOT_IN_GROUP: "Somebody of the groups named has to decide.",
}
_PREVIEW_UNDER_WAY: Final = WhyNot(
    "preview_under_way",
    "The provider is asked first what would happen; there is nothing to sign yet.",
    "Look again in a moment.",
)


def _foresaw_nothing(code: str) -> WhyNot:
    """Why there is nothing to sign where the provider was asked, and did not say."""
    return WhyNot(
        "preview_under_way",
        f"The provider was asked what would happen, and did not say: {code}. It is asked again; "
        "there is nothing to sign yet.",
        "Look again in a moment; `actionledger show` has every time that it was asked.",
    )


_BEING_ASKED_ANEW: Final = WhyNot(
    "asked_anew",
    "What was asked no longer holds; people are being asked anew.",
    "Look again in a moment.",
)
_INCOMPLETE: Final = WhyNot(
    "sheet_incomplete",
    "This page cannot show everything that would be signed, so there is nothing to sign here.",
    "Look again in a moment; if it stays so, decide with `actionledger approve`.",
)
_POLICY_NOT_HERE: Final = WhyNot(
    "policy_not_shown",
    "The decision table under which this was asked is not known here, so there is nothing to sign.",
    "Look again in a moment; if it stays so, decide with `actionledger approve`.",
)


def too_large(hint: str) -> WhyNot:
    """Why there is nothing to sign where a person could not read all of it."""
    return WhyNot(
        "sheet_too_large",
        "The payload is larger than a person can be asked to read on one page "
        f"({SHEET_ROWS_MAX} values, {SHEET_CHARS_MAX:,} characters). It is shown below, and cannot "
        "be decided here.",
        hint,
    )


_TOO_LARGE: Final = too_large("Ask for it in smaller actions, or deny it with `actionledger deny`.")
