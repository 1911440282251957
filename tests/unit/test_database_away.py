"""What a database says when it is away, full, busy, or taken over by another: nothing was done, and
it is tried again. What it says of our own statements is not that.

Family `store`, beside C171 and C177.
"""

import asyncpg
import pytest

from projections.errors import AWAY

PASSES = {
    "08006": "the connection was lost",
    "25006": "a standby answers",
    "25P03": "the transaction rested too long",
    "25P04": "the transaction took too long",
    "40001": "another transaction came first",
    "40P01": "two transactions waited for each other",
    "0A000": "the tables were altered under the transaction",
    "53100": "its disk is full",
    "53200": "its memory is",
    "53300": "it has no connection left",
    "55P03": "somebody holds a lock",
    "57014": "the statement took too long",
    "57P01": "it is being shut down",
    "57P02": "it crashed",
    "57P03": "it is starting",
    "57P05": "the session rested too long",
    "58030": "its disk cannot be read",
}
OWN = {
    "22003": "a number does not fit",
    "23505": "a key is there twice",
    "42703": "there is no such column",
    "42501": "this login may not",
    "54000": "a row is too large for an index",
    "XX001": "its pages are damaged",
    "XX002": "its index is",
}


def said(sqlstate: str) -> asyncpg.PostgresError:
    """The error that the driver raises for a state of Postgres."""
    fields = {"C": sqlstate, "M": "it says so", "S": "ERROR", "V": "ERROR"}
    if sqlstate == "0A000":
        fields |= {"M": "cached plan must not change result type", "R": "RevalidateCachedQuery"}
    raised = asyncpg.PostgresError.new(fields)
    assert isinstance(raised, asyncpg.PostgresError)
    return raised


@pytest.mark.parametrize("sqlstate", PASSES)
def test_what_passes_is_waited_for(sqlstate: str) -> None:
    """Nobody has to do anything about it but bring the database back."""
    assert isinstance(said(sqlstate), AWAY), PASSES[sqlstate]


@pytest.mark.parametrize("sqlstate", OWN)
def test_what_does_not_pass_is_not_waited_for(sqlstate: str) -> None:
    """Trying again would hide a fault of ours, or of the database's own."""
    assert not isinstance(said(sqlstate), AWAY), OWN[sqlstate]
