"""SQL as it stands in files, for a schema of any name.

The files name the schema `actionledger` in full, so that a person can read and run them as they
are. Guarantees that only this word and `actionledger_api_v1` are replaced, by a name that needs no
quoting. Called by everything here that talks to Postgres; it never does so itself.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

import asyncpg

from projections.limits import DATABASE_CALL_MS_MAX, SCHEMA_NAME_CHARS_MAX

Connection = asyncpg.Connection | asyncpg.pool.PoolConnectionProxy
"""A connection, one's own or lent by a pool."""

LIVE_SCHEMA: Final = "actionledger"
"""The schema that doors, owners and analysts read."""

BESIDE_SCHEMA: Final = "actionledger_beside"
"""The schema that a rebuild fills."""

REPLACED_SUFFIX: Final = "_replaced"
"""Ends the name of the schema that holds replaced tables until they are dropped."""

_TRANSACTIONS_AS_LONG: Final = """
select set_config('transaction_timeout', '0', false)
from pg_settings
where name = 'transaction_timeout';
"""
OWN_LIMITS: Final = (
    f"set statement_timeout = {DATABASE_CALL_MS_MAX}; set lock_timeout = 0;{_TRANSACTIONS_AS_LONG}"
)
"""What the projector's sessions are told: with a limit for everybody else that is shorter than one
batch takes, it would be tried again without end.
"""

LONG_WORK: Final = (
    f"set statement_timeout = 0; set idle_session_timeout = 0;{_TRANSACTIONS_AS_LONG}"
)
"""What a session is told whose work grows with the log: limits that a database or a role was given
are meant for others, and what takes longer would never come to its end.
"""

_FOLDER: Final = Path(__file__).parent
_NAME: Final = re.compile(rf"[a-z][a-z0-9_]{{0,{SCHEMA_NAME_CHARS_MAX - 1}}}")
_WORD: Final = re.compile(r"\bactionledger(_api_v1)?\b")
_TITLE: Final = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def check_schema(name: str) -> str:
    """The name as given; raises ValueError for one that would need quoting or is too long."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(
            f"{name!r} is no name for a schema: use a-z, digits and _, a letter first, at most "
            f"{SCHEMA_NAME_CHARS_MAX} characters"
        )
    return name


def render(sql: str, schema: str) -> str:
    """The same SQL for another schema."""
    check_schema(schema)
    return _WORD.sub(lambda match: schema + (match[1] or ""), sql)


@lru_cache(maxsize=64)
def statements(file: str, schema: str) -> Mapping[str, str]:
    """The statements of a file beside this module; each begins with a line `-- name: NAME`."""
    text = render((_FOLDER / file).read_text(encoding="utf-8"), schema)
    _, *parts = _TITLE.split(text)
    names, bodies = parts[::2], parts[1::2]
    named = {name: body.strip() for name, body in zip(names, bodies, strict=True)}
    if len(named) != len(names):
        raise ValueError(f"{file} has two statements of one name")
    return MappingProxyType(named)
