"""An agent that wants to refund 120 EUR: it asks, says what it was told, and waits for people.

    ACTIONLEDGER_URL=… ACTIONLEDGER_API_KEY=… python examples/refund_agent.py [RETURN]

Ask for the same return again and it is the same refund, whatever became of this program meanwhile.
"""

import asyncio
import os
import sys

from actionledger import AwaitingApproval, Intent, Ledger, LedgerTrouble, Money

PATIENCE_MS = 600_000


def refund(case: str) -> Intent:
    """What is wanted. The return names the act, so it is the same after a crash too."""
    return Intent(
        operation="refund",
        business_event=case,
        target="order:A-1842",
        params={"charge": "ch_1", "reason": "requested_by_customer"},
        money=Money(minor=12_000, currency="EUR"),
        environment="production",
    )


async def main(case: str) -> None:
    """Ask, and wait until it is done, denied, or nobody has decided in time."""
    url, api_key = os.environ["ACTIONLEDGER_URL"], os.environ["ACTIONLEDGER_API_KEY"]
    async with Ledger(url, api_key) as ledger:
        result = await ledger.propose(refund(case))
        print(result.text_for_model, flush=True)
        if isinstance(result, AwaitingApproval):
            print("\nWaiting for a person.\n", flush=True)
            result = await ledger.wait(result.key, timeout_ms=PATIENCE_MS)
            print(result.text_for_model)


if __name__ == "__main__":
    for name in ("ACTIONLEDGER_URL", "ACTIONLEDGER_API_KEY"):
        if not os.environ.get(name):
            sys.exit(f"Set {name}, as the head of this file says.")
    try:
        asyncio.run(main(*sys.argv[1:] or ["return-2026-09-02-01"]))
    except LedgerTrouble as trouble:
        sys.exit(f"{type(trouble).__name__}: {trouble}")
    except KeyboardInterrupt:
        sys.exit("Not waiting any more. The refund goes on by itself when somebody approves it.")
