"""The policies of the examples: what they say of the actions that they were written for."""

from pathlib import Path

import pytest

from ledger.core.operation import Operation
from ledger.core.parameters import Parameter
from ledger.core.policy import Asks
from ledger.core.request import Request
from tests.policies import TENANT, operation, policy_of, request, risk, ruled

EXAMPLES = Path(__file__).parents[2] / "examples" / "policies"
PAYMENTS = policy_of(EXAMPLES / "payments.toml")
EMAIL = policy_of(EXAMPLES / "email.toml")
INFRASTRUCTURE = policy_of(EXAMPLES / "infrastructure.toml")


def money(name: str) -> Operation:
    """An operation that moves money."""
    return operation(name=name, kind="money")


def renewal(minor: int, currency: str = "EUR", **changed: object) -> Request:
    """What the billing agent asks every month."""
    fields = {"principal": "agent:billing", "target": "subscription:9", "operation": "charge"}
    return request(minor, currency, **(fields | changed))


@pytest.mark.parametrize(
    ("name", "asked", "row", "outcome"),
    [
        ("charge", renewal(200_00), "renewal", "automatic"),
        ("charge", renewal(200_01), "payment", "people"),
        ("charge", renewal(30_000, "JPY"), "renewal", "automatic"),
        ("charge", renewal(30_001, "JPY"), "payment", "people"),
        ("charge", renewal(1_00, principal="agent:x"), "payment", "people"),
        ("charge", renewal(1_00, target="order:1"), "payment", "people"),
        # Where it would happen is the catalogue's word: an agent may call anything a sandbox.
        ("charge", renewal(9_000_000_00, environment="sandbox-3"), "large", "people"),
        ("refund", request(20_00), "goodwill", "automatic"),
        ("refund", request(20_01), "refund", "confirmation"),
        ("refund", request(1_000_00), "refund", "confirmation"),
        ("refund", request(1_000_01), "payment", "people"),
        ("refund", request(10_000_00), "payment", "people"),
        ("refund", request(10_000_01), "large", "people"),
        # Not dealt in: the strictest row that might be about it.
        ("refund", request(1, "SEK"), "large", "people"),
        ("payout", request(1), "payment", "people"),
    ],
)
def test_payments(name: str, asked: Request, row: str, outcome: str) -> None:
    """Both sides of every limit."""
    asked = asked.model_copy(update={"operation": name})
    assert ruled(PAYMENTS, asked, money(name)) == (row, outcome)


def test_a_test_account_may_do_anything_in_a_test() -> None:
    """By the account that the catalogue declares, and only for what is meant as a test."""
    tested = operation(name="charge", kind="money", account="sandbox-3")
    asked = renewal(9_000_000_00, environment="sandbox-3")
    assert ruled(PAYMENTS, asked, tested) == ("sandbox", "automatic")
    assert ruled(PAYMENTS, renewal(9_000_000_00), tested) == ("large", "people")


def test_a_tenant_may_be_excepted() -> None:
    """The same payout is refused for one tenant and asked about for others."""
    asked = request(1, operation="payout.bank")
    ruling = PAYMENTS.rule(money("payout.bank"), asked, "globex")
    assert (ruling.row, ruling.asks) == ("not-for-globex", None)
    assert PAYMENTS.rule(money("payout.bank"), asked, TENANT).row == "payment"


def test_refunds_turn_to_finance_when_nobody_of_support_decides() -> None:
    """Groups, the time after which others may decide, and the validity that was left out."""
    assert PAYMENTS.rule(money("refund"), request(120_00), TENANT).asks == Asks(
        groups=("support-leads",), escalate_after_ms=300_000, escalate_to=("finance",)
    )


def email(**changed: object) -> Request:
    """A mail to one customer."""
    params = {"to": ["a@customer.example"], "subject": "Hello", "body": "text"} | changed
    return request(operation="email", params=params)


SENDS = operation(
    name="email",
    kind="message",
    money="forbidden",
    parameters={
        "to": Parameter(type="list", items="identifier"),
        "subject": Parameter(type="string"),
        "body": Parameter(type="string"),
    },
)


@pytest.mark.parametrize(
    ("changed", "row", "outcome"),
    [
        ({"to": ["a@example.com"] * 20}, "inside", "automatic"),
        ({"to": ["a@example.com"] * 21}, "newsletter", "people"),
        ({"to": ["a@example.com", "a@customer.example"]}, "customer", "confirmation"),
        ({"to": ["press@paper.example"]}, "press", "deny"),
        ({"to": ["a@example.com", "b@press.example"]}, "press", "deny"),
        ({}, "customer", "confirmation"),
        ({"to": ["a@customer.example"] * 5}, "customer", "confirmation"),
        ({"to": ["a@customer.example"] * 6}, "newsletter", "people"),
        ({"to": ["Press@example.com"]}, "press", "deny"),
        # Whoever hides the recipients gets no further for it.
        ({"to": {"$token": "hmac-sha256:" + "0" * 64}}, "press", "deny"),
    ],
)
def test_email(changed: dict[str, object], row: str, outcome: str) -> None:
    """Both sides of every limit."""
    assert ruled(EMAIL, email(**changed), SENDS) == (row, outcome)


@pytest.mark.parametrize(
    ("changed", "row"),
    [
        ({}, "receipt"),
        ({"body": "b" * 2_001}, "customer"),
        ({"subject": "Re: Your receipt 4"}, "customer"),
        ({"to": ["a@customer.example", "b@customer.example"]}, "customer"),
    ],
)
def test_receipts(changed: dict[str, object], row: str) -> None:
    """A template by the one agent that sends them."""
    receipt = {"subject": "Your receipt 4", "body": "b" * 2_000} | changed
    asked = email(**receipt)
    assert ruled(EMAIL, asked, SENDS)[0] == "customer" if row == "receipt" else True
    by_billing = asked.model_copy(update={"principal": "agent:billing"})
    assert ruled(EMAIL, by_billing, SENDS)[0] == row


def scale(replicas: int, principal: str = "automation:autoscaler") -> Request:
    """More or fewer replicas of one service."""
    return request(
        operation="scale",
        principal=principal,
        target="service:web",
        params={"replicas": replicas},
        environment="production",
    )


SCALES = operation(
    name="scale",
    kind="deploy",
    preview="provider",
    parameters={"replicas": Parameter(type="integer")},
)


@pytest.mark.parametrize(
    ("asked", "row"),
    [
        (scale(1), "scaling"),
        (scale(20), "scaling"),
        (scale(0), "rollout"),
        (scale(21), "rollout"),
        (scale(1, "agent:x"), "rollout"),
    ],
)
def test_scaling(asked: Request, row: str) -> None:
    """The approved automation inside its range, everybody else with the plan before their eyes."""
    assert ruled(INFRASTRUCTURE, asked, SCALES)[0] == row


@pytest.mark.parametrize(
    ("asked", "declared", "row"),
    [
        (request(), operation(kind="read"), "read"),
        (request(target="service:a"), operation(kind="delete"), "risky"),
        (request(target="backup:a"), operation(kind="delete"), "untouchable"),
        (request(target="cluster:ledger-1"), operation(kind="deploy"), "untouchable"),
        (
            request(target="service:a", environment="staging"),
            operation(kind="delete", account="staging"),
            "staging",
        ),
        (
            request(environment="dev-1"),
            operation(kind="deploy", target=None, account="dev-1"),
            "staging",
        ),
        # The agent says that it is staging, and the catalogue that it is not.
        (request(target="service:a", environment="staging"), operation(kind="delete"), "risky"),
        (request(target="service:a"), operation(kind="deploy"), "risky"),
        (request(target="service:a"), operation(kind="deploy", preview="provider"), "rollout"),
        (request(target="user:a"), operation(kind="permission"), "permission"),
        (request(target="user:a"), operation(kind="other"), "default"),
        # Without a target nobody can say that it is not one of those.
        (request(), operation(kind="deploy", preview="provider"), "untouchable"),
    ],
)
def test_infrastructure(asked: Request, declared: Operation, row: str) -> None:
    """One action of each row."""
    assert ruled(INFRASTRUCTURE, asked, declared)[0] == row


@pytest.mark.parametrize(
    ("fact", "most"), [("irreversibility", 2), ("blast_radius", 2), ("security_impact", 1)]
)
def test_a_rollout_stays_within_its_risk(fact: str, most: int) -> None:
    """At the bound on call decides, beyond it two people of the platform."""
    levels = ("none", "low", "medium", "high")
    asked = request(target="service:a")
    for level, row in ((levels[most], "rollout"), (levels[most + 1], "risky")):
        declared = operation(kind="deploy", preview="provider", risk=risk(**{fact: level}))
        assert ruled(INFRASTRUCTURE, asked, declared)[0] == row
