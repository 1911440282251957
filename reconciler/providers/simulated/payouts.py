"""The payout report of the simulated provider: its effects of a time, as a file that an import
takes.

Guarantees one line for each effect of the account, in the order they were made, with an id that
stays the same in every report. Called by the server.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from ledger.core.money import exponent
from reconciler.providers.simulated.api import Effect

COLUMNS: Final = (
    "payout_line",
    "type",
    "effect_id",
    "original",
    "operation",
    "key",
    "action_key",
    "amount",
    "currency",
    "committed_at",
)
_ROWS_AT_ONCE: Final = 1_000


def payout_report(effects: Sequence[Effect], *, since: int, until: int) -> Iterator[str]:
    """The report as CSV, in pieces; `since` and `until` are milliseconds, the second excluded. What
    undoes an effect is booked with a minus.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for number, effect in enumerate(effects, 1):
        if since <= effect.committed_at < until:
            writer.writerow(_row(effect))
        if number % _ROWS_AT_ONCE == 0:
            yield text.getvalue()
            text.seek(0)
            text.truncate()
    yield text.getvalue()


def _row(effect: Effect) -> tuple[str, ...]:
    amount, currency = "", ""
    if effect.amount is not None:
        currency = effect.amount.currency
        major = Decimal(effect.amount.minor).scaleb(-exponent(currency))
        amount = f"{major if effect.original is None else -major:f}"
    at = datetime.fromtimestamp(effect.committed_at / 1_000, UTC)
    return (
        f"po_{effect.id}",
        "made" if effect.original is None else "undone",
        effect.id,
        effect.original or "",
        effect.operation,
        effect.key or "",
        effect.metadata.action_key or "",
        amount,
        currency,
        at.isoformat(timespec="milliseconds"),
    )
