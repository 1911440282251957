"""The sheet of a case as a page shows it, and why somebody cannot settle it here.

Guarantees that moves are offered only where everything that a resolution is bound to is on the
page: the hash was computed again from the request that is shown, and the newest that is known of
the case stands there. Pure; called by the pages.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from gateway.console.limits import SHEET_CHARS_MAX, SHEET_ROWS_MAX
from gateway.console.port import KnownCase
from gateway.console.sheet import (
    Value,
    WhyNot,
    amount,
    barred_of,
    described,
    named,
    risk_levels,
    too_large,
    values_of,
)
from gateway.console.text import Shown, grouped, shown
from gateway.http.case_sheets import CaseSheet
from gateway.signing_case import check_case, resolution_of
from gateway.signing_sheet import SheetDiffersError
from ledger.core.canonical import canonicalize
from ledger.core.people import Person
from ledger.core.rejections import Rejection
from ledger.core.request import canonical_form
from ledger.core.statement import Move, Resolution

_SHOWN_DOMAIN: Final = b"actionledger.shown-case.v1\n"


@dataclass(frozen=True, slots=True)
class CasePage:
    """What one person is shown of one case. `may` is what they can say, nothing where `why_not`
    says so.
    """

    sheet: CaseSheet
    description: Shown | None
    risk: str | None
    target: Shown | None
    money: str | None
    values: tuple[Value, ...]
    results: dict[int, tuple[Value, ...]]
    may: tuple[Move, ...]
    why_not: WhyNot | None

    @property
    def payload_hash(self) -> tuple[str, ...]:
        """The hash of the request, in groups."""
        return grouped(self.sheet.request_hash)

    @property
    def names_reference(self) -> bool:
        """Whether one of the moves needs the effect's name at the provider."""
        return Move.EFFECT_EXISTS in self.may

    def resolution(self, move: Move, *, reference: str | None, comment: str) -> Resolution:
        """What the person signs to settle it so. Only where they may."""
        if move not in self.may:
            raise ValueError("there is nothing to sign on this page")
        return resolution_of(self.sheet, move, reference=reference, comment=comment)

    def fingerprint(self) -> str:
        """What was on the page, as one hash: a resolution counts only for the very case that its
        person looked at.
        """
        sheet = self.sheet
        seen = {
            "accepts": sheet.accepts,
            "approver": sheet.you,
            "case": sheet.case,
            "key": sheet.key,
            "ledger": sheet.ledger,
            "moved": sheet.moved,
            "moves": [one.model_dump() for one in sheet.moves],
            "request_hash": sheet.request_hash,
        }
        return sha256(_SHOWN_DOMAIN + canonicalize(seen)).hexdigest()


def case_page_of(known: KnownCase, person: Person) -> CasePage:
    """The page of a case for a person."""
    sheet, request, declared = known.sheet, known.sheet.request, known.sheet.operation
    values = tuple(values_of(canonical_form(request)["params"]))
    results = {one.version: tuple(values_of(one.result)) for one in sheet.evidence if one.result}
    shown_values = [*values, *(value for some in results.values() for value in some)]
    why_not = _why_not(sheet, person) or _unreadable(known, shown_values)
    return CasePage(
        sheet=sheet,
        description=described(declared.description),
        risk=None if declared.risk is None else risk_levels(declared.risk),
        target=None if request.target is None else shown(request.target),
        money=None if request.money is None else amount(request.money),
        values=values,
        results=results,
        may=() if why_not is not None else tuple(Move(one.move) for one in sheet.moves),
        why_not=why_not,
    )


def _why_not(sheet: CaseSheet, person: Person) -> WhyNot | None:
    """Why this person cannot settle it now, or None."""
    if sheet.case is None:
        return named(Rejection.NO_CASE)
    if not person.may_decide_for(sheet.tenant):
        return named(Rejection.NOT_FOR_TENANT)
    barred = barred_of(person, (sheet.request.principal, *sheet.behalf), sheet.groups)
    if barred is not None:
        return named(barred)
    return None if sheet.moves else _NOTHING_SAFE


def _unreadable(known: KnownCase, values: list[Value]) -> WhyNot | None:
    """Why the page is not all of what would be signed, or more than a person can read; or None."""
    try:
        check_case(known.sheet)
    except SheetDiffersError:
        return _INCOMPLETE
    if not known.is_whole:
        return _INCOMPLETE
    characters = sum(
        len(piece.text) for one in values for piece in (*one.path.pieces, *one.text.pieces)
    )
    rows = len(values) + len(known.sheet.evidence)
    return _TOO_LARGE if rows > SHEET_ROWS_MAX or characters > SHEET_CHARS_MAX else None


_NOTHING_SAFE: Final = WhyNot(
    "nothing_safe_yet",
    "Something of it may still be under way: nothing that a person could say would be safe now.",
    "Look again after the last possible byte, and the time in which an effect comes to light.",
)
_INCOMPLETE: Final = WhyNot(
    "case_incomplete",
    "This page cannot show everything that is known of the case, so there is nothing to sign here.",
    "Look again in a moment; if it stays so, use `actionledger review show`.",
)
_TOO_LARGE: Final = too_large("Settle it with `actionledger review resolve`.")
