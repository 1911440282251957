"""What the load asks for: a charge of the benchmark's one operation, on a key of its own.

Guarantees that the same tenant and number make the same proposal, so that asking again is a replay.
Called by the load generator and the table of small costs.
"""

from pathlib import Path

from ledger.core.inputs import Propose
from ledger.core.money import Money
from ledger.core.request import Request

CATALOGUE: str = Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")


def proposal(tenant: str, number: int) -> Propose:
    """The proposal with this number of a tenant."""
    request = Request(
        operation="charge",
        version=1,
        target=f"order:A-{number}",
        params={"customer": f"cus_{number}"},
        money=Money(minor=4_990, currency="EUR"),
        principal="agent:billing",
        environment="production",
    )
    return Propose(key=f"charge:v1:{tenant}:renewal-{number}", request=request)
