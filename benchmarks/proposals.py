"""What the load asks for: charges, each on a key of its own.

Guarantees that the same tenant and number make the same proposal, so that asking again is a replay.
Called by the load generator and the table of small costs.
"""

from pathlib import Path
from typing import Final

from ledger.core.inputs import Propose
from ledger.core.money import Money
from ledger.core.request import Request

CATALOGUE: str = Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")

CHARGE: Final = "charge"
"""On the provider that does nothing."""
LOST: Final = "charge.lost"
"""On one that takes the request and never answers."""
AMOUNT: Final = Money(minor=4_990, currency="EUR")
"""Below the low-value limit of the default policy."""
AMOUNT_TO_CONFIRM: Final = Money(minor=12_000, currency="EUR")
"""Above it: a person confirms."""


def proposal(tenant: str, number: int, operation: str = CHARGE, money: Money = AMOUNT) -> Propose:
    """The proposal with this number of a tenant."""
    request = Request(
        operation=operation,
        version=1,
        target=f"order:A-{number}",
        params={"customer": f"cus_{number}"},
        money=money,
        principal="agent:billing",
        environment="production",
    )
    return Propose(key=key_of(tenant, number, operation), request=request)


def key_of(tenant: str, number: int, operation: str = CHARGE) -> str:
    """The key under which it is proposed."""
    return f"{operation}:v1:{tenant}:renewal-{number}"
