"""Actions to hold against a decision table: an operation and a request with everything filled in
that a test does not care about; and a time zone for tables that count by the day.
"""

from datetime import UTC, datetime
from pathlib import Path

from ledger.core.money import Money
from ledger.core.operation import Deadlines, Operation, Risk, Target
from ledger.core.parameters import Parameter
from ledger.core.policy import Policy, Ruling, parse_policy
from ledger.core.request import Request

TENANT = "acme"
CALM = Risk(
    irreversibility="low",
    blast_radius="low",
    ambiguity="none",
    money_impact="low",
    security_impact="none",
)
"""A risk that every row of the shipped tables lets pass."""
PARAMETERS = {
    "to": Parameter(type="list", items="string", required=False),
    "body": Parameter(type="string", required=False),
    "region": Parameter(type="string", required=False),
    "count": Parameter(type="integer", required=False),
}

TABLE = """\
[[row]]
name = "small"
when.kind = ["money"]
when.amount.at_most = { EUR = 50_00, USD = 60_00 }
outcome = "automatic"
reason = "Little is at stake."

[[row]]
name = "middle"
when.kind = ["money"]
when.amount = { above = { EUR = 50_00 }, at_most = { EUR = 500_00 } }
outcome = "confirmation"
groups = ["finance"]
valid_ms = 900_000
escalate_after_ms = 300_000
escalate_to = ["board"]
reason = "More is at stake."

[[row]]
name = "large"
when.kind = ["money"]
outcome = "people"
quorum = 2
reason = "Much is at stake."
"""


def risk(**changed: str) -> Risk:
    """A calm risk with some facts changed."""
    return Risk.model_validate(CALM.model_dump() | changed)


def operation(**changed: object) -> Operation:
    """An operation that may have a target, money and parameters, with some declarations changed."""
    declared: dict[str, object] = {
        "name": "act",
        "version": 1,
        "kind": "money",
        "provider": "psp",
        "account": "main",
        "reliability": "keyed",
        "money": "optional",
        "parameters": PARAMETERS,
        "principals": ("*",),
        "risk": CALM,
        "deadlines": Deadlines(connect_ms=1, response_ms=2, step_ms=3),
        "target": Target(description="What it acts on.", required=False),
    }
    return Operation.model_validate(declared | changed)


def request(minor: int | None = None, currency: str = "EUR", **changed: object) -> Request:
    """A request for it, with some fields changed."""
    money = None if minor is None else Money(minor=minor, currency=currency)
    fields: dict[str, object] = {
        "operation": "act",
        "version": 1,
        "money": money,
        "principal": "agent:a",
        "environment": "live",
    }
    return Request.model_validate(fields | changed)


def policy(text: str) -> Policy:
    """The table of a text that has no mistakes."""
    parsed = parse_policy(text)
    assert isinstance(parsed, Policy), "\n".join(map(str, parsed))
    return parsed


def policy_of(path: Path) -> Policy:
    """The table of a file that has no mistakes."""
    return policy(path.read_text(encoding="utf-8"))


def ruled(table: Policy, asked: Request, declared: Operation | None) -> tuple[str, str]:
    """Row and outcome."""
    ruling: Ruling = table.rule(declared, asked, TENANT)
    return ruling.row, ruling.outcome.value


def row(name: str, when: str = "", outcome: str = "automatic", more: str = "") -> str:
    """One row as text."""
    return f'[[row]]\nname = "{name}"\noutcome = "{outcome}"\nreason = "r"\n{more}\n{when}\n'


def zone_at_noon(now: datetime) -> str:
    """A time zone in which it is about noon: a test of the window of a day that goes by a real
    clock is over before that day is. With a zone of its own it failed around one midnight.
    """
    # Signs are the other way round in these names: Etc/GMT-2 is two hours east.
    east = 12 - now.astimezone(UTC).hour
    return f"Etc/GMT{-east:+d}" if east else "UTC"
