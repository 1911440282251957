"""What an error of a database says of a change: not there, not now, or that nobody knows."""

import asyncpg
import pytest

from reconciler.providers.port import NotSent, Outcome, Refused, Retry, Unresolved
from reconciler.providers.postgres.performer import _broken, _Progress

LATER, NEVER = Retry.LATER, Retry.NEVER


@pytest.mark.parametrize(
    ("error", "before", "committing"),
    [
        # A pooler gave the connection another session, which has none of its statements, or others.
        (asyncpg.InvalidSQLStatementNameError("no such statement"), LATER, None),
        (asyncpg.DuplicatePreparedStatementError("already there"), LATER, None),
        # The tables were altered under a connection that was kept.
        (asyncpg.InvalidCachedStatementError("cached plan"), LATER, None),
        # What the database cannot do at all it cannot do the next time either.
        (asyncpg.FeatureNotSupportedError("no"), NEVER, None),
        (asyncpg.UndefinedTableError("no"), NEVER, None),
        (asyncpg.SerializationError("conflict"), LATER, LATER),
        (asyncpg.DeadlockDetectedError("conflict"), LATER, LATER),
        (asyncpg.CheckViolationError("no"), NEVER, NEVER),
        (asyncpg.StatementCompletionUnknownError("who knows"), LATER, None),
        (asyncpg.AdminShutdownError("going down"), LATER, None),
        (asyncpg.DiskFullError("full"), LATER, None),
    ],
)
def test_a_no_of_the_database_is_for_good_or_for_now(
    error: asyncpg.PostgresError, before: Retry, committing: Retry | None
) -> None:
    """Before the commit it is definite; after it only what says that nothing was committed is."""
    code = f"sqlstate_{str(error.sqlstate).lower()}"
    assert _broken(error, _Progress()) == Refused(code, before)
    expected = Unresolved(code) if committing is None else Refused(code, committing)
    assert _broken(error, _Progress(is_committing=True)) == expected


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TimeoutError(), "answer_timed_out"),
        (OSError(), "connection_lost"),
        (asyncpg.InterfaceError("closed"), "connection_lost"),
        (asyncpg.OutdatedSchemaCacheError("altered"), "connection_lost"),
        (asyncpg.ConnectionDoesNotExistError("lost"), "connection_lost"),
    ],
)
def test_without_an_answer_it_is_the_commit_that_counts(error: Exception, code: str) -> None:
    """Nothing was made before it was sent, and nobody knows after it."""
    expected: Outcome = NotSent(code, Retry.LATER)
    assert _broken(error, _Progress()) == expected
    assert _broken(error, _Progress(is_committing=True)) == Unresolved(code)
