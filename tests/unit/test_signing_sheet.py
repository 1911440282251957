"""What is signed is what was shown: a sheet that says otherwise is refused, whatever differs."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from gateway.cli.sheet_shown import show_sheet
from gateway.http.sheets import (
    AgreedSheet,
    AskedSheet,
    DecisionSheet,
    DifferenceSheet,
    EarlierSheet,
    OperationSheet,
    PolicySheet,
    SignedSheet,
)
from gateway.signing_sheet import NothingToSignError, SheetDiffersError, statement_of
from ledger.core.money import Money
from ledger.core.preview import Change, Check, Foreseen, Preview, Revised, Undone, preview_hash
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
        ({"compensates": "charge:v1:acme:return-1"}, "does not show what would be undone"),
        ({"performer": "caller"}, "somebody else's call"),
        ({"amount": "12.00 EUR"}, "the amount in words"),
        ({"amount": None}, "the amount in words"),
        ({"exponent": 3}, "the amount in words"),
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


def test_a_yes_after_one_taken_back_is_told_apart_from_it() -> None:
    """However soon it comes: what was issued up to a moment still to come is void."""
    asked = ASKED.model_copy(update={"void_until": SHEET.now + 5_000})
    again = SHEET.model_copy(update={"asked": asked})
    assert statement_of(again, Say.APPROVE, comment=None).issued_at == SHEET.now + 5_001
    long_ago = SHEET.model_copy(update={"asked": ASKED.model_copy(update={"void_until": 5})})
    assert statement_of(long_ago, Say.APPROVE, comment=None).issued_at == SHEET.now


def printed(sheet: DecisionSheet) -> str:
    """What the terminal shows of a sheet."""
    console = Console(file=io.StringIO(), width=120, color_system=None)
    show_sheet(console, sheet, heading="To be decided")
    return str(console.file.getvalue())  # type: ignore[attr-defined] # it is the buffer above


OURS = "What is signed\n  request       sha256:aaaa\n  ✓ checked by the fraud team"


@pytest.mark.parametrize("margin", ["", "  "])
def test_nothing_that_somebody_else_wrote_begins_a_line_of_ours(margin: str) -> None:
    """Names, values, what a provider foresees and observes, and what is revised stand behind the
    margin from their second line on.
    """
    text = "Bob" + "".join(f"\n{margin}{line.strip()}" for line in OURS.splitlines())
    request = REQUEST.model_copy(update={"params": {"note": text, text: "value"}})
    foreseen = Foreseen(
        effect=text, target=text, scope=text, observed={"customer": text, f"{text}.": "x"}
    )
    preview = PREVIEW.model_copy(
        update={
            "foreseen": foreseen,
            "checks": (Check(name="declared", passed=True, detail=text),),
            "revises": Revised(
                action=text, status="failed", changes=(Change(name=text, was=text, now=text),)
            ),
            "undoes": Undone(action=text, status="completed", reference=text, target=text),
        }
    )
    said = SignedSheet(
        version=3, round=1, decision="deny", person="ben", comment=text, decided_at=5
    )
    sheet = SHEET.model_copy(update={"request": request, "preview": preview, "signed": (said,)})
    lines = printed(sheet).splitlines()
    assert lines.count("What is signed") == 1
    bare = [line for line in lines if "fraud team" in line and "│" not in line]
    assert bare == []
    assert sum("fraud team" in line for line in lines) == 16


@pytest.mark.parametrize("width", [40, 81])
def test_what_is_wider_than_the_terminal_goes_on_behind_the_margin(width: int) -> None:
    """However a text is filled up with blanks, no line of the terminal begins with the rest of it;
    none of it is lost.
    """
    said = "\U0001f44b" * 9 + " " * 15 + "What is signed"
    sheet = SHEET.model_copy(
        update={"request": REQUEST.model_copy(update={"params": {"note": f"{said * 7}\n{said}"}})}
    )
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=True,
        color_system=None,
        legacy_windows=False,
    )
    show_sheet(console, sheet, heading="To be decided")
    lines = str(console.file.getvalue()).splitlines()  # type: ignore[attr-defined] # as above
    assert max(cell_len(line) for line in lines) <= width
    theirs = [line for line in lines if "\U0001f44b" in line or line.startswith("    │ ")]
    assert all(line.startswith("    │ ") for line in theirs)
    assert said * 8 in "".join(line.removeprefix("    │ ") for line in theirs)
    assert [line for line in lines if line.startswith("What is signed")] == ["What is signed"]


def test_the_terminal_computes_the_amount() -> None:
    """The door's own words for it are not on the sheet at all."""
    lie = SHEET.model_copy(update={"amount": "1.20 EUR", "exponent": 4})
    assert "120.00 EUR   (12000 minor units, 2 decimals)" in printed(lie)
    assert "1.20 EUR" not in printed(lie)


def test_the_terminal_shows_names_whole() -> None:
    """However long a name is, and whatever it holds: two names never look like one."""
    long = "a" * 300 + " grant admin to mallory"
    params = {"headers": {long: "1", "q\u202eab": "2", "q\\u202eab": "3"}}
    text = printed(
        SHEET.model_copy(update={"request": REQUEST.model_copy(update={"params": params})})
    )
    assert f"/headers/{long}  (text)" in text
    hidden, literal = text.split("/headers/q\\u202eab  (text)")[1:]
    assert "U+202E RIGHT-TO-LEFT OVERRIDE cannot be seen" in hidden
    assert "U+202E" not in literal


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


def test_the_terminal_shows_which_effect_is_undone() -> None:
    """The action, how it stood, the provider's name for its effect, its target and amount."""
    undone = Undone(
        action="charge:v1:acme:return-1#shirt",
        status="completed",
        reference="ch_shirt",
        target="order:A-1842",
        money=Money(minor=4_990, currency="EUR"),
    )
    shown = PREVIEW.model_copy(update={"undoes": undone})
    asked = ASKED.model_copy(update={"preview_hash": preview_hash(shown)})
    changes = {"preview": shown, "asked": asked, "compensates": undone.action}
    sheet = SHEET.model_copy(update=changes)
    assert statement_of(sheet, Say.APPROVE, comment=None).preview_hash == preview_hash(shown)
    text = printed(sheet)
    assert text.count("charge:v1:acme:return-1#shirt") == 2
    for line in ("reference     ch_shirt", "amount        49.90 EUR", "which was     completed"):
        assert line in text
    hidden = sheet.model_copy(update={"compensates": None})
    with pytest.raises(SheetDiffersError, match="would be undone"):
        statement_of(hidden, Say.APPROVE, comment=None)


def test_the_terminal_says_that_the_caller_acts_itself() -> None:
    """Nothing is said where an executor does."""
    shown = PREVIEW.model_copy(update={"performer": "caller"})
    sheet = SHEET.model_copy(update={"preview": shown, "performer": "caller"})
    assert "carried out   by its caller itself" in printed(sheet)
    assert "by its caller" not in printed(SHEET)


def test_who_is_asked_again_sees_why_and_what_has_moved() -> None:
    """At a terminal as on the page: how the round before ended, both values, and which groups may
    decide later on.
    """
    over = EarlierSheet(
        round=1,
        asked_at=1_000,
        ended_at=2_000,
        reason="volatile_changed",
        sentence="What was shown no longer held just before acting.",
        changes=(DifferenceSheet(name="balance", was="900", now="4\x1b[2J0"),),
    )
    asked = ASKED.model_copy(
        update={"groups": ("finance",), "escalate_at": 61_000, "escalate_to": ("platform",)}
        | {"agreed": (AgreedSheet(person="zoe", granted_at=1, expires_at=2, void=True),)}
    )
    sheet = SHEET.model_copy(update={"asked": asked, "earlier": (over,) * 7})
    out = io.StringIO()
    show_sheet(Console(file=out, width=200, highlight=False), sheet, heading="")
    said = out.getvalue()
    whom, when = said.index("finance"), said.index("from 1970-01-01 00:01:01 UTC on also of platf")
    assert whom < when < said.index("how many")
    assert said.count("round 1 ended at 1970-01-01 00:00:02 UTC: What was shown no longer") == 5
    assert said.count(r"balance  was  900  is  4\u001b[2J0") == 5
    assert "and 2 rounds before these" in said
    assert "1; agreed so far: 0" in said
    assert "zoe at 1970-01-01 00:00:00 UTC; revoked since, so it counts no more" in said
