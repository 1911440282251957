"""Whether a principal may see who may do what: asked before librdkafka is.

librdkafka's Python client takes a refused listing of permissions for an empty one, and a refused
listing of logins ends the process (2.16.1). So the broker is asked once, in its own words, whether
it would answer. Called by `ledger.log.permissions`.
"""

from typing import Any, ClassVar, Final

from aiokafka.conn import collect_hosts, create_conn
from aiokafka.errors import KafkaError
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Int8, Int16, Int32, Schema, String

from ledger.core.errors import LedgerError
from ledger.log.authority import CLUSTER_NAME
from ledger.log.declared import PermissionsError
from ledger.log.login import KNOCK_MS_MAX, knock
from ledger.log.trouble import LogRefusedError, LogUnreachableError

_KEY: Final = 29
_TEXT: Final = String("utf-8")
_CLUSTER, _LITERAL, _ANY = 4, 3, 1


class _Found(Response):  # type: ignore[misc] # aiokafka has no types
    API_KEY = _KEY
    API_VERSION = 1
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("error_message", _TEXT),
        (
            "resources",
            Array(
                ("type", Int8),
                ("name", _TEXT),
                ("pattern", Int8),
                (
                    "acls",
                    Array(
                        ("principal", _TEXT),
                        ("host", _TEXT),
                        ("operation", Int8),
                        ("permission", Int8),
                    ),
                ),
            ),
        ),
    )


class _Filter(RequestStruct):  # type: ignore[misc] # aiokafka has no types
    API_KEY = _KEY
    API_VERSION = 1
    RESPONSE_TYPE = _Found
    SCHEMA = Schema(
        ("type", Int8),
        ("name", _TEXT),
        ("pattern", Int8),
        ("principal", _TEXT),
        ("host", _TEXT),
        ("operation", Int8),
        ("permission", Int8),
    )


class _DescribeAcls(Request[_Filter]):  # type: ignore[misc] # aiokafka has no types
    API_KEY: ClassVar[int] = _KEY

    def build(self, kind: type[_Filter]) -> _Filter:
        """Ask for what there is of the cluster; a few lines."""
        return kind(_CLUSTER, CLUSTER_NAME, _LITERAL, None, None, _ANY, _ANY)


def not_allowed() -> LogRefusedError:
    """The refusal, for whoever asks to see and for whoever asks to change."""
    return LogRefusedError(
        "This principal may not see or change who may do what.",
        hint="Comparing needs DESCRIBE on the cluster (auditor, operator), applying needs ALTER "
        "(operator), and the first time a super user of the broker.",
    )


def no_authorizer() -> PermissionsError:
    """The broker has nothing that could be compared."""
    return PermissionsError(
        "The broker has no authorizer: everybody may do everything there.",
        hint="Start it with authorizer.class.name="
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer.",
    )


async def require_sight(bootstrap: str, options: dict[str, Any]) -> None:
    """See that a broker lets these options in and tells them who may do what.

    Raises LogUnreachableError, LogRefusedError, PermissionsError.
    """
    await knock(bootstrap, options)
    code: int | None = None
    for host, port, _ in collect_hosts(bootstrap, randomize=False):
        try:
            connection = await create_conn(host, port, request_timeout_ms=KNOCK_MS_MAX, **options)
            try:
                code = (await connection.send(_DescribeAcls())).error_code
            finally:
                connection.close()
        except (OSError, KafkaError, TimeoutError):
            continue
        break
    trouble = _trouble(code)
    if trouble is not None:
        raise trouble


def _trouble(code: int | None) -> LedgerError | None:
    match code:
        case 0:
            return None
        case 31:  # cluster authorization failed
            return not_allowed()
        case 54:  # security disabled
            return no_authorizer()
        case _:
            return LogUnreachableError(
                f"The broker did not say who may do what (error {code}).",
                hint="Ask again; nothing was changed.",
            )
