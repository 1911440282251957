"""The shipped policy: every row on both sides of each of its limits, with the shipped catalogue."""

from pathlib import Path

import pytest

from ledger.core.catalogue import Catalogue, parse_catalogue
from ledger.core.operation import Operation
from ledger.core.policy import Outcome
from ledger.core.request import Request
from tests.policies import TENANT, operation, policy_of, request, risk, ruled

ROOT = Path(__file__).parents[2]
DEFAULT = policy_of(ROOT / "ledger" / "policy.toml")
RECIPIENTS = {"to": ["a@b.c"]}
TOKEN = {"$token": "hmac-sha256:" + "0" * 64}


def shipped(name: str) -> Operation:
    """An operation of the shipped catalogue."""
    parsed = parse_catalogue((ROOT / "ledger" / "catalogue.toml").read_text(encoding="utf-8"))
    assert isinstance(parsed, Catalogue)
    declared = parsed.operation(name, 1)
    assert declared is not None
    return declared


def row_of(asked: Request, declared: Operation | None) -> str:
    """The row that decides."""
    return DEFAULT.rule(declared, asked, TENANT).row


def strictness(name: str) -> int:
    """How strict the outcome of a row is."""
    row = DEFAULT.row(name)
    assert row is not None
    return row.outcome.strictness


@pytest.mark.parametrize("currency", ["EUR", "USD", "GBP"])
@pytest.mark.parametrize("name", ["charge", "refund"])
@pytest.mark.parametrize(
    ("minor", "row", "outcome"),
    [
        (0, "small-payment", "automatic"),
        (50_00, "small-payment", "automatic"),
        (50_01, "payment", "confirmation"),
        (120_00, "payment", "confirmation"),
        (500_00, "payment", "confirmation"),
        (500_01, "large-payment", "people"),
    ],
)
def test_payments_of_the_shipped_catalogue(
    name: str, currency: str, minor: int, row: str, outcome: str
) -> None:
    """Fifty goes ahead, up to five hundred a person confirms, above it is for people."""
    assert ruled(DEFAULT, request(minor, currency, operation=name), shipped(name)) == (row, outcome)


@pytest.mark.parametrize("currency", ["SEK", "JPY", "KWD"])
def test_a_payment_in_a_currency_that_is_not_listed_is_for_people(currency: str) -> None:
    """However little it is."""
    ruling = DEFAULT.rule(shipped("refund"), request(1, currency, operation="refund"), TENANT)
    assert (ruling.row, ruling.outcome) == ("large-payment", Outcome.PEOPLE)
    assert ruling.missing == (f"amount in {currency}",)


def test_what_the_shipped_catalogue_sends() -> None:
    """A ticket goes ahead; an e-mail is confirmed, and to many it is for people."""
    ticket = request(operation="ticket", params={"title": "t"})
    assert ruled(DEFAULT, ticket, shipped("ticket")) == ("routine-message", "automatic")
    for to, row, outcome in (
        (["a@b.c"], "message", "confirmation"),
        (["a@b.c"] * 10, "message", "confirmation"),
        (["a@b.c"] * 11, "message-to-many", "people"),
        ([TOKEN], "message", "confirmation"),
    ):
        email = request(operation="email", params={"to": to, "subject": "s", "body": "b"})
        assert ruled(DEFAULT, email, shipped("email")) == (row, outcome)


def test_recipients_that_nobody_can_count_are_for_people() -> None:
    """A list that is a token as a whole may hold any number."""
    email = request(operation="email", params={"to": TOKEN, "subject": "s", "body": "b"})
    ruling = DEFAULT.rule(shipped("email"), email, TENANT)
    assert (ruling.outcome, ruling.missing) == (Outcome.PEOPLE, ("parameters.to",))


def test_nothing_of_the_shipped_catalogue_lacks_a_fact() -> None:
    """Every operation says its kind, and what each is ruled by needs nothing that is missing."""
    parsed = parse_catalogue((ROOT / "ledger" / "catalogue.toml").read_text(encoding="utf-8"))
    assert isinstance(parsed, Catalogue)
    ruled_by = {
        one.name: DEFAULT.rule(
            one,
            request(None if one.money == "forbidden" else 1, operation=one.name, params=RECIPIENTS),
            TENANT,
        )
        for one in parsed.operations
    }
    assert all(one.kind is not None for one in parsed.operations)
    assert {name: (one.row, one.missing) for name, one in ruled_by.items()} == {
        "charge": ("small-payment", ()),
        "refund": ("small-payment", ()),
        "email": ("message", ()),
        "email.correction": ("message", ()),
        "ticket": ("routine-message", ()),
        "record.delete": ("deletion-or-permission", ()),
        "record.restore": ("everything-else", ()),
    }


@pytest.mark.parametrize("facts", [{}, {"irreversibility": "high", "blast_radius": "high"}])
def test_reading_goes_ahead(facts: dict[str, str]) -> None:
    """Always."""
    assert row_of(request(), operation(kind="read", risk=risk(**facts))) == "read"


# The kind, further declarations, the row, and its bounds: of each fact the last level that the row
# lets pass.
BOUNDS: list[tuple[str, dict[str, object], str, dict[str, str]]] = [
    (
        "message",
        {"money": "forbidden", "parameters": {}},
        "routine-message",
        {
            "irreversibility": "low",
            "blast_radius": "low",
            "ambiguity": "low",
            "money_impact": "low",
            "security_impact": "none",
        },
    ),
    (
        "message",
        {"money": "forbidden", "parameters": {}},
        "message",
        {
            "blast_radius": "medium",
            "ambiguity": "medium",
            "money_impact": "low",
            "security_impact": "low",
        },
    ),
    ("money", {}, "small-payment", {"blast_radius": "low", "ambiguity": "low"}),
    ("money", {}, "payment", {"blast_radius": "low", "ambiguity": "low"}),
    (
        "delete",
        {},
        "undoable-deletion",
        {
            "irreversibility": "none",
            "blast_radius": "low",
            "ambiguity": "low",
            "money_impact": "none",
            "security_impact": "none",
        },
    ),
    (
        "delete",
        {"preview": "provider"},
        "previewed-change",
        {
            "irreversibility": "medium",
            "blast_radius": "low",
            "ambiguity": "low",
            "security_impact": "medium",
        },
    ),
    (
        "permission",
        {"preview": "provider"},
        "previewed-change",
        {
            "irreversibility": "medium",
            "blast_radius": "low",
            "ambiguity": "low",
            "security_impact": "medium",
        },
    ),
    (
        "deploy",
        {},
        "approved-automation",
        {
            "irreversibility": "low",
            "blast_radius": "low",
            "ambiguity": "none",
            "money_impact": "low",
            "security_impact": "none",
        },
    ),
    (
        "deploy",
        {},
        "deployment",
        {
            "irreversibility": "medium",
            "blast_radius": "medium",
            "ambiguity": "low",
            "security_impact": "low",
        },
    ),
]


@pytest.mark.parametrize(("kind", "more", "row", "bounds"), BOUNDS)
def test_a_row_lets_pass_what_is_within_its_bounds_and_nothing_beyond(
    kind: str, more: dict[str, object], row: str, bounds: dict[str, str]
) -> None:
    """At every bound the row decides; one level beyond any of them a stricter one does."""
    levels = ["none", "low", "medium", "high"]
    amount = {"small-payment": 50_00, "payment": 500_00}.get(row)
    principal = "automation:nightly" if row == "approved-automation" else "agent:a"
    asked = request(amount, principal=principal)
    assert row_of(asked, operation(kind=kind, risk=risk(**bounds), **more)) == row
    for fact, level in bounds.items():
        beyond = bounds | {fact: levels[levels.index(level) + 1]}
        found = row_of(asked, operation(kind=kind, risk=risk(**beyond), **more))
        assert strictness(found) > strictness(row), (fact, found)


def test_automation_is_automatic_for_named_principals_only() -> None:
    """An agent that deploys the same asks a person."""
    deploy = operation(kind="deploy")
    assert row_of(request(principal="automation:nightly"), deploy) == "approved-automation"
    assert row_of(request(principal="agent:automation:nightly"), deploy) == "deployment"


def test_a_deletion_without_an_exact_preview_is_for_people() -> None:
    """What a person confirms must be said by the provider; the request alone does not tell."""
    assert row_of(request(), operation(kind="permission")) == "deletion-or-permission"
    assert row_of(request(), operation(kind="permission", preview="provider")) == "previewed-change"


@pytest.mark.parametrize("declared", [operation(kind=None), None])
def test_an_operation_without_a_kind_is_for_people(declared: Operation | None) -> None:
    """A catalogue that says too little opens nothing."""
    ruling = DEFAULT.rule(declared, request(1), TENANT)
    assert (ruling.row, ruling.outcome) == ("everything-else", Outcome.PEOPLE)
    assert "kind" in ruling.missing


def test_everything_else_is_for_people() -> None:
    """What no row is about."""
    assert ruled(DEFAULT, request(), operation(kind="other")) == ("everything-else", "people")


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("message", "sensitive-message"),
        ("money", "large-payment"),
        ("delete", "deletion-or-permission"),
        ("permission", "deletion-or-permission"),
        ("deploy", "risky-deployment"),
        ("other", "everything-else"),
    ],
)
def test_what_is_ambiguous_is_for_people(kind: str, row: str) -> None:
    """Whatever kind it is, reading apart, and however little is at stake otherwise."""
    asked = request(1, params={"to": ["a"]})
    declared = operation(kind=kind, preview="provider", risk=risk(ambiguity="high"))
    assert ruled(DEFAULT, asked, declared) == (row, "people")
