"""The payout reconciliation report of the simulated Stripe, as one downloads it.

Guarantees one line for each balance transaction of the account, with amounts in major units and
the columns of docs.stripe.com/reports/report-types/payout-reconciliation (itemized). Used by the
server's control.
"""

import csv
import io
from datetime import UTC, datetime
from typing import Final

from ledger.core.money import Money, format_money
from reconciler.providers.stripe.amounts import money_of
from reconciler.providers.stripe.names import ACTION_KEY
from reconciler.providers.stripe.simulated.objects import (
    PAYMENT,
    REFUND,
    Movement,
    Shelf,
    charge_id,
    metadata_of,
    movements,
)

COLUMNS: Final = (
    "automatic_payout_id",
    "automatic_payout_effective_at_utc",
    "balance_transaction_id",
    "created_utc",
    "currency",
    "gross",
    "fee",
    "net",
    "reporting_category",
    "source_id",
    "description",
    "customer_facing_amount",
    "customer_facing_currency",
    "charge_id",
    "payment_intent_id",
    "refund_id",
    "dispute_id",
    f"payment_metadata[{ACTION_KEY}]",
    f"refund_metadata[{ACTION_KEY}]",
)


def payout_report(shelf: Shelf, account: str, payout: str) -> str:
    """Every balance transaction of an account as CSV, all of them in this payout."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for movement in movements(shelf, account):
        writer.writerow(_row(movement, shelf, payout))
    return out.getvalue()


def _row(movement: Movement, shelf: Shelf, payout: str) -> list[str]:
    source = movement.source
    payment = source.id if source.kind == PAYMENT else source.of or ""
    paid = shelf.get(payment)
    at = datetime.fromtimestamp(source.created_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    marks = {} if paid is None else metadata_of(paid)
    own = metadata_of(source) if source.kind == REFUND else {}
    return [
        payout,
        at,
        movement.id,
        at,
        source.currency.lower(),
        _major(movement.gross, source.currency),
        _major(movement.fee, source.currency),
        _major(movement.gross - movement.fee, source.currency),
        movement.category,
        charge_id(source.id) if source.kind == PAYMENT else source.id,
        source.detail.get("description", ""),
        _major(movement.gross, source.currency),
        source.currency.lower(),
        charge_id(payment),
        payment,
        source.id if source.kind == REFUND else "",
        source.id if source.kind == "dispute" else "",
        str(marks.get(ACTION_KEY, "")),
        str(own.get(ACTION_KEY, "")),
    ]


def _major(amount: int, currency: str) -> str:
    """An amount of Stripe's in major units, with its sign."""
    money = money_of(abs(amount), currency.lower())
    text = format_money(Money(minor=0, currency=currency) if money is None else money)
    number = text.removesuffix(currency).strip()
    return f"-{number}" if amount < 0 else number
