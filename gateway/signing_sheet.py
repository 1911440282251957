"""What a person signs, made on their own machine from the sheet that they were shown.

Guarantees that the statement says what the sheet shows: every hash in it is computed here, from the
request and the dry run as they were shown, and a sheet that says otherwise is refused. Whoever runs
the door can show nothing that differs from what is signed. Pure; called by the command line.
"""

from gateway.http.sheets import ActionSheet, DecisionSheet
from ledger.core.errors import LedgerError
from ledger.core.ids import ActionKey, MalformedId
from ledger.core.money import exponent, format_money
from ledger.core.preview import preview_hash
from ledger.core.request import request_hash
from ledger.core.statement import Say, Statement


class SheetDiffersError(LedgerError):
    """What was shown is not what would be signed; nothing was signed."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"What this ledger shows is not what would be signed: {what}.",
            hint="Sign nothing of it. Tell whoever runs the ledger, by another way than this one.",
        )


class NothingToSignError(LedgerError):
    """Nobody is asked about the action just now."""


def check_action(sheet: ActionSheet) -> None:
    """Compute again what cannot be seen of the action itself. Raises SheetDiffersError."""
    if sheet.more:
        raise SheetDiffersError("more was recorded of it than is read, so this may be outdated")
    try:
        key = ActionKey.parse(sheet.key)
    except MalformedId as malformed:
        raise SheetDiffersError(f"the key is malformed ({malformed})") from None
    request = sheet.request
    if (key.operation, key.version) != (request.operation, request.version):
        raise SheetDiffersError("the request is of another operation than the key")
    if key.tenant != sheet.tenant:
        raise SheetDiffersError("the key is of another tenant")
    if request_hash(request) != sheet.request_hash:
        raise SheetDiffersError("the request has another hash")
    money = request.money
    told = (None, None) if money is None else (format_money(money), exponent(money.currency))
    if (sheet.amount, sheet.exponent) != told:
        raise SheetDiffersError("the amount in words is another one")


def check_sheet(sheet: DecisionSheet) -> None:
    """Compute again whatever a person cannot see with their eyes. Raises SheetDiffersError."""
    check_action(sheet)
    request = sheet.request
    asked, preview = sheet.asked, sheet.preview
    if asked is None:
        return
    if sheet.policy is None or (sheet.policy.policy_hash, sheet.policy.row) != (
        asked.policy_hash,
        asked.row,
    ):
        raise SheetDiffersError("people are asked by another row than is shown")
    if preview is None:
        raise SheetDiffersError("the dry run that people are asked about is not shown")
    if preview_hash(preview) != asked.preview_hash:
        raise SheetDiffersError("the dry run has another hash")
    if preview.request_hash != sheet.request_hash or preview.money != request.money:
        raise SheetDiffersError("the dry run is of another request")
    if (preview.provider, preview.account) != (sheet.provider, sheet.account):
        raise SheetDiffersError("the dry run is of another provider or account")
    if (None if preview.undoes is None else preview.undoes.action) != sheet.compensates:
        raise SheetDiffersError("the dry run does not show what would be undone")
    if preview.performer != sheet.performer:
        raise SheetDiffersError("the dry run is of somebody else's call")


def statement_of(sheet: DecisionSheet, say: Say, *, comment: str | None) -> Statement:
    """What the person who looks signs to say so. Raises SheetDiffersError, NothingToSignError."""
    check_sheet(sheet)
    asked = sheet.asked
    if asked is None:
        raise NothingToSignError(
            f"Nobody is asked about {sheet.key} just now ({sheet.status}).",
            hint="Look again in a moment; `actionledger waiting` lists what waits.",
        )
    return Statement(
        ledger=sheet.ledger,
        decision=say,
        approver=sheet.you,
        tenant=sheet.tenant,
        environment=sheet.request.environment,
        key=sheet.key,
        request_hash=request_hash(sheet.request),
        preview_hash=None if sheet.preview is None else preview_hash(sheet.preview),
        policy_hash=asked.policy_hash,
        row=asked.row,
        nonce=asked.nonce,
        # A yes that follows one taken back has to be told apart from it, however soon it comes.
        issued_at=max(sheet.now, 1 + (-1 if asked.void_until is None else asked.void_until)),
        expires_at=asked.expires_at,
        comment=comment,
    )
