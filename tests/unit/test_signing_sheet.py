"""What is signed is what was shown: a sheet that says otherwise is refused, whatever differs."""

import io

import pytest
from rich.console import Console

from gateway.cli.sheet_shown import show_sheet
from gateway.http.sheets import AskedSheet, DecisionSheet, OperationSheet, PolicySheet
from gateway.signing_sheet import NothingToSignError, SheetDiffersError, statement_of
from ledger.core.money import Money
from ledger.core.preview import Change, Check, Preview, Revised, preview_hash
from ledger.core.request import RecordedRequest, request_hash
from ledger.core.statement import Say

REQUEST = RecordedRequest(
    operation="refund",
    version=1,
    target="order:A-1842",
    params={"charge": "ch_1", "note": "Grüße"},
    money=Money(minor=12_000, currency="EUR"),
    principal="agent:billing",
    environment="production",
)
PREVIEW = Preview(
    request_hash=request_hash(REQUEST),
    provider="simulated",
    account="main",
    target=REQUEST.target,
    money=REQUEST.money,
    checks=(Check(name="declared", passed=True, detail="it fits"),),
)
ASKED = AskedSheet(
    round=1,
    nonce="n" * 32,
    requested_at=1_000,
    expires_at=601_000,
    policy_hash="sha256:policy",
    row="large",
    preview_hash=preview_hash(PREVIEW),
    quorum=1,
    groups=(),
)
SHEET = DecisionSheet(
    ledger="generation-1",
    now=2_000,
    you="ada",
    key="refund:v1:acme:return-1",
    href="/v1/approvals/refund:v1:acme:return-1",
    page="/console/approve/refund:v1:acme:return-1",
    tenant="acme",
    status="awaiting_approval",
    version=4,
    operation=OperationSheet(),
    request=REQUEST,
    request_hash=request_hash(REQUEST),
    amount="120.00 EUR",
    exponent=2,
    provider="simulated",
    account="main",
    reliability="keyed",
    policy=PolicySheet(policy_hash="sha256:policy", row="large", reason="It is much."),
    preview=PREVIEW,
    asked=ASKED,
    recorded_at=900,
    step_deadline_at=9_000_000,
)


def test_a_statement_says_what_the_sheet_shows() -> None:
    """Every field of it is on the sheet, and the hashes are those of what stands there."""
    said = statement_of(SHEET, Say.APPROVE, comment="She called.")
    assert said.model_dump(mode="json") == {
        "v": 1,
        "ledger": "generation-1",
        "decision": "approve",
        "approver": "ada",
        "tenant": "acme",
        "environment": "production",
        "key": "refund:v1:acme:return-1",
        "request_hash": request_hash(REQUEST),
        "preview_hash": preview_hash(PREVIEW),
        "policy_hash": "sha256:policy",
        "row": "large",
        "nonce": "n" * 32,
        "issued_at": 2_000,
        "expires_at": 601_000,
        "comment": "She called.",
    }


def test_a_sheet_survives_the_wire() -> None:
    """What the door writes is what the person's machine reads."""
    assert DecisionSheet.model_validate_json(SHEET.model_dump_json(exclude_none=True)) == SHEET


OTHER_REQUEST = REQUEST.model_copy(update={"money": Money(minor=1_200, currency="EUR")})
OTHER_PREVIEW = PREVIEW.model_copy(update={"target": "order:A-1"})
OF_OTHER = PREVIEW.model_copy(update={"request_hash": "sha256:other"})
ELSEWHERE = PREVIEW.model_copy(update={"account": "second"})


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"request": OTHER_REQUEST}, "the request has another hash"),
        ({"request_hash": "sha256:other"}, "the request has another hash"),
        ({"key": "charge:v1:acme:return-1"}, "another operation"),
        ({"key": "refund:v2:acme:return-1"}, "another operation"),
        ({"key": "refund:v1:globex:return-1"}, "another tenant"),
        ({"key": "refund"}, "the key is malformed"),
        ({"preview": OTHER_PREVIEW}, "the dry run has another hash"),
        ({"preview": None}, "is not shown"),
        ({"policy": None}, "another row"),
        ({"policy": PolicySheet(policy_hash="sha256:policy", row="small")}, "another row"),
        ({"policy": PolicySheet(policy_hash="sha256:other", row="large")}, "another row"),
        ({"account": "second"}, "another provider or account"),
    ],
)
def test_what_differs_is_not_signed(changes: dict[str, object], why: str) -> None:
    """A door that shows one thing and has another signed gets no signature."""
    with pytest.raises(SheetDiffersError, match=why):
        statement_of(SHEET.model_copy(update=changes), Say.APPROVE, comment=None)


@pytest.mark.parametrize(
    ("preview", "why"), [(OF_OTHER, "another request"), (ELSEWHERE, "another provider")]
)
def test_a_dry_run_of_something_else_is_not_signed(preview: Preview, why: str) -> None:
    """Also where its hash is right."""
    asked = ASKED.model_copy(update={"preview_hash": preview_hash(preview)})
    sheet = SHEET.model_copy(update={"preview": preview, "asked": asked})
    with pytest.raises(SheetDiffersError, match=why):
        statement_of(sheet, Say.APPROVE, comment=None)


def test_where_nobody_is_asked_there_is_nothing_to_sign() -> None:
    """As while the provider is asked what it foresees."""
    sheet = SHEET.model_copy(update={"asked": None, "preview": None})
    with pytest.raises(NothingToSignError):
        statement_of(sheet, Say.DENY, comment=None)


def test_the_terminal_shows_what_a_revision_changes() -> None:
    """The earlier action, how it stood, and each field before and after, as text."""
    revised = Revised(
        action="refund:v1:acme:return-1",
        status="superseded",
        changes=(Change(name="/money/minor", was="15000", now="12000"),),
    )
    shown = PREVIEW.model_copy(update={"revises": revised})
    console = Console(file=io.StringIO(), width=120, color_system=None)
    show_sheet(console, SHEET.model_copy(update={"preview": shown}), heading="A revision")
    text = console.file.getvalue()  # type: ignore[attr-defined] # it is the buffer above
    assert "takes the place of refund:v1:acme:return-1, which was superseded" in text
    assert "/money/minor  was  15000  is  12000" in text
