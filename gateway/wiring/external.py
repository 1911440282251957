"""Servers of one's own: what is told of them is handed on as it is, and none is started.

Guarantees that both are named or neither: half an installation would look for the other half on
this machine, and find it. Called by `up`, and by commands that look for their installation.
"""

from collections.abc import Mapping
from typing import Final

from gateway.settings import PREFIX
from ledger.core.errors import LedgerError

_SERVERS: Final = ("KAFKA", "DATABASE")
_HANDED_ON: Final = ("KAFKA", "DATABASE", "TOPIC_PREFIX", "PARTITIONS", "GROUP_SESSION_MS", "FLUSH")
"""What belongs to the servers, and every name that begins so."""


class HalfExternalError(LedgerError):
    """Of Kafka and Postgres one is the caller's own, and the other was not named."""


def external_servers(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings of the caller's own servers, without their prefix; empty where there are none.

    Raises HalfExternalError.
    """
    given = {
        name.removeprefix(PREFIX): value
        for name, value in environment.items()
        if name.startswith(PREFIX) and value.strip()
    }
    named = [name for name in _SERVERS if name in given]
    if not named:
        return {}
    if len(named) < len(_SERVERS):
        (missing,) = set(_SERVERS) - set(named)
        raise HalfExternalError(
            f"{PREFIX}{named[0]} names a server of your own, and {PREFIX}{missing} is not set.",
            hint="Set both: then no server is started here. Or neither: then both are.",
        )
    return {name: value for name, value in given.items() if name.startswith(_HANDED_ON)}
