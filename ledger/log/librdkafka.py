"""The words of librdkafka's admin client and ours, and its troubles by their names.

Guarantees that a line of an access control list comes back as it was sent, and that what this
product has no word for is passed over, never guessed at. Called by `ledger.log.permissions` alone.
"""

from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from ledger.core.errors import LedgerError
from ledger.log.access import Mechanism
from ledger.log.authority import Operation, Pattern, Resource, Right
from ledger.log.cluster_rights import no_authorizer, not_allowed
from ledger.log.declared import Entry, PermissionsError
from ledger.log.trouble import LogUnreachableError

REQUEST_SECONDS_MAX: Final = 10.0
SCRAM_ITERATIONS: Final = 4_096
"""The least that Kafka takes, and its default: the passwords made here are 256 random bits."""

_USER: Final = "User:"

# librdkafka calls the cluster a broker.
_TYPES: Final = {
    Resource.TOPIC: ResourceType.TOPIC,
    Resource.GROUP: ResourceType.GROUP,
    Resource.CLUSTER: ResourceType.BROKER,
    Resource.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
}
_RESOURCES: Final = {theirs: ours for ours, theirs in _TYPES.items()}
_SILENT: Final = {
    KafkaError._TRANSPORT,  # noqa: SLF001 - this is how they are named
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError.REQUEST_TIMED_OUT,
}
# Names may be left open, whatever the types say.
_ANY: Final[Any] = None
EVERYTHING: Final = AclBindingFilter(
    ResourceType.ANY,
    _ANY,
    ResourcePatternType.ANY,
    _ANY,
    _ANY,
    AclOperation.ANY,
    AclPermissionType.ANY,
)
"""The filter that finds every line."""


class NoSuchUserError(LedgerError):
    """The broker has no password under this name."""


def binding_of(entry: Entry) -> AclBinding:
    """The line to be added."""
    return AclBinding(*_words(entry))


def filter_of(entry: Entry) -> AclBindingFilter:
    """What finds this line and no other."""
    return AclBindingFilter(*_words(entry))


def _words(entry: Entry) -> tuple[Any, ...]:
    right = entry.right
    return (
        _TYPES[right.resource],
        right.name,
        ResourcePatternType[right.pattern],
        _USER + entry.principal,
        entry.host,
        AclOperation[right.operation],
        AclPermissionType.DENY if entry.is_denial else AclPermissionType.ALLOW,
    )


def entry_of(binding: Any) -> Entry | None:  # noqa: ANN401 - its types are wider than its values
    """A line in our words; None for what this product has nothing of."""
    resource = _RESOURCES.get(binding.restype)
    pattern, operation = binding.resource_pattern_type.name, binding.operation.name
    if (
        resource is None
        or pattern not in Pattern.__members__
        or operation not in Operation.__members__
        or not binding.principal.startswith(_USER)
    ):
        return None
    return Entry(
        binding.principal.removeprefix(_USER),
        Right(resource, binding.name, Pattern[pattern], Operation[operation]),
        binding.host,
        binding.permission_type is AclPermissionType.DENY,
    )


def scram_of(mechanism: Mechanism) -> ScramMechanism:
    """The kind of login to give a password for; that of our own listeners unless said otherwise."""
    if mechanism is Mechanism.SCRAM_SHA_256:
        return ScramMechanism.SCRAM_SHA_256
    return ScramMechanism.SCRAM_SHA_512


def password_of(name: str, password: str, mechanism: Mechanism) -> UserScramCredentialAlteration:
    """The change that gives a name its password, whether it has one or not."""
    how = ScramCredentialInfo(scram_of(mechanism), SCRAM_ITERATIONS)
    return UserScramCredentialUpsertion(name, how, password.encode())


def answers(futures: Iterable[Any]) -> list[Any]:
    """The results, in order. Raises the trouble of the first that failed: LogUnreachableError,
    LogRefusedError, PermissionsError, NoSuchUserError.
    """
    try:
        return [future.result(timeout=REQUEST_SECONDS_MAX) for future in futures]
    except KafkaException as failure:
        raise _named(failure.args[0]) from failure
    except TimeoutError as late:
        raise LogUnreachableError(
            "The broker did not answer in time.", hint="Ask again; nothing is done twice."
        ) from late


def _named(error: KafkaError) -> LedgerError:
    code = error.code()
    if code == KafkaError.RESOURCE_NOT_FOUND:
        return NoSuchUserError(
            "The broker has no password under this name.", hint="`actionledger acl apply` sets it."
        )
    if code == KafkaError.SECURITY_DISABLED:
        return no_authorizer()
    if code == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        return not_allowed()
    if code in _SILENT:
        return LogUnreachableError(
            f"The broker did not answer ({error.str()}).",
            hint="Ask again; nothing is done twice.",
        )
    return PermissionsError(
        f"The broker refused to say or change who may do what: {error.str()}.",
        hint="What was done before it stays; `actionledger acl check` tells what is missing.",
    )
