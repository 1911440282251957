"""An agent's tool that charges a renewal by itself, under the ledger.

The function below is plain: it calls the bank and says how the bank calls the effect. That it runs
once, and what is known when the answer is lost, is the ledger's affair.
"""

from typing import Protocol

from actionledger import Call, Effect, Intent, Ledger, Money


class Bank(Protocol):
    """What this agent needs of a bank: a charge under a key; its reference."""

    async def charge(self, call: Call, minor: int) -> str:
        """Charge once under `call.provider_key`, within `call.seconds_left`."""
        ...


def renewal(invoice: str, minor: int) -> Intent:
    """What is wanted. The invoice names the act, so it is the same after a crash too."""
    return Intent(
        operation="charge",
        business_event=invoice,
        target=f"order:{invoice}",
        money=Money(minor=minor, currency="USD"),
        environment="production",
    )


async def charge_renewal(ledger: Ledger, bank: Bank, invoice: str, minor: int) -> str:
    """Charge a renewal, and say to the model what is known of it."""

    @ledger.action(renewal)
    async def charge(call: Call, invoice: str, minor: int) -> Effect:
        reference = await bank.charge(call, minor)
        return Effect(reference, {"invoice": invoice})

    result = await charge(invoice, minor)
    return result.text_for_model
