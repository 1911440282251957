"""Whether the indexes of the database still find what is in it.

An upgrade of the system under Postgres may sort texts otherwise. Indexes that were made before then
miss rows that are there, and a key that is missed is taken for one that nobody has used: its effect
would be made again. Guarantees that nobody goes on with such a database. Called when a process
begins.
"""

import asyncpg

from ledger.core.errors import LedgerError
from projections.statements import LIVE_SCHEMA, statements


class OtherTextOrderError(LedgerError):
    """Texts are sorted otherwise than when the indexes were made."""


async def require_text_order(pool: asyncpg.Pool) -> None:
    """Raises OtherTextOrderError, and what asyncpg raises where the database does not answer."""
    orders = await pool.fetchrow(statements("text_order.sql", LIVE_SCHEMA)["text_orders"])
    # Of a database that was brought over from an old Postgres it is not known how it was made.
    if orders is not None and orders["made"] not in {None, orders["now"]}:
        raise OtherTextOrderError(
            f"The indexes of the database were made for the order of texts {orders['made']}, and "
            f"it is {orders['now']} now: they may miss rows.",
            hint="Make them anew: `REINDEX DATABASE` and `ALTER DATABASE … REFRESH COLLATION "
            "VERSION`. A database with --locale=C never comes to this.",
        )
