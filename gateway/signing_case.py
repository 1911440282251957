"""What a person signs to settle a case, made on their own machine from the sheet that they were
shown.

Guarantees that the resolution says what the sheet shows: the hash in it is computed here, and a
sheet on which the newest that is known about the case is missing is refused. Pure; called by the
command line and the pages.
"""

from gateway.http.case_sheets import CaseSheet
from gateway.signing_sheet import NothingToSignError, SheetDiffersError, check_action
from ledger.core.limits import RESOLUTION_VALID_MS_MAX
from ledger.core.request import request_hash
from ledger.core.statement import Move, Resolution


def check_case(sheet: CaseSheet) -> None:
    """As `check_sheet`, for a case: everything that tells something about it has to be shown.
    Raises SheetDiffersError.
    """
    check_action(sheet)
    if sheet.case is None:
        return
    if sheet.case not in {one.version for one in sheet.reasons}:
        raise SheetDiffersError("what opened the case is not shown")
    told = {one.version for one in sheet.reasons}
    if sheet.kind != "blocked":
        told |= {one.version for one in sheet.evidence}
    if max(told) != sheet.moved:
        raise SheetDiffersError("the newest that is known about the case is not shown")
    if sheet.accepts != (None if sheet.about is None else sheet.about.name):
        raise SheetDiffersError("what the case is about is not shown")


def resolution_of(
    sheet: CaseSheet, move: Move, *, reference: str | None, comment: str
) -> Resolution:
    """What the person who looks signs to settle the case. Raises SheetDiffersError,
    NothingToSignError.
    """
    check_case(sheet)
    if sheet.case is None or sheet.moved is None:
        raise NothingToSignError(
            f"{sheet.key} waits for nobody to settle it just now ({sheet.status}).",
            hint="`actionledger review list` lists what waits.",
        )
    return Resolution(
        ledger=sheet.ledger,
        move=move,
        approver=sheet.you,
        tenant=sheet.tenant,
        environment=sheet.request.environment,
        key=sheet.key,
        request_hash=request_hash(sheet.request),
        case=sheet.case,
        moved=sheet.moved,
        reference=reference,
        accepts=sheet.accepts if move is Move.ALLOW else None,
        issued_at=sheet.now,
        expires_at=sheet.now + RESOLUTION_VALID_MS_MAX,
        comment=comment,
    )
