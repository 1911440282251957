"""Who may do what on the broker: the whole of it, as one table that a person can read.

A Kafka record has no author, so what a topic holds is worth as much as the list of who may write
it. Everything that is not said here is refused. Pure data: `ledger.log.permissions` brings a broker
to it, and a test walks every cell of it on a real one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from ledger.log.principals import Principal
from ledger.log.topics import Topic


class Operation(StrEnum):
    """What can be done, in Kafka's own words: the last three are given to nobody here, and must be
    known to be taken away.
    """

    READ = "READ"
    WRITE = "WRITE"
    CREATE = "CREATE"
    DELETE = "DELETE"
    ALTER = "ALTER"
    DESCRIBE = "DESCRIBE"
    DESCRIBE_CONFIGS = "DESCRIBE_CONFIGS"
    ALTER_CONFIGS = "ALTER_CONFIGS"
    ALL = "ALL"
    CLUSTER_ACTION = "CLUSTER_ACTION"
    IDEMPOTENT_WRITE = "IDEMPOTENT_WRITE"


class Resource(StrEnum):
    """What a right is about."""

    TOPIC = "TOPIC"
    GROUP = "GROUP"
    CLUSTER = "CLUSTER"
    TRANSACTIONAL_ID = "TRANSACTIONAL_ID"


class Pattern(StrEnum):
    """Whether a name is meant as it is, or everything that begins with it."""

    LITERAL = "LITERAL"
    PREFIXED = "PREFIXED"


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One line of an access control list, without whose it is."""

    resource: Resource
    name: str
    pattern: Pattern
    operation: Operation

    def __str__(self) -> str:
        star = "*" if self.pattern is Pattern.PREFIXED else ""
        return f"{self.operation} on {self.resource.lower()} {self.name}{star}"


# --- the table -----------------------------------------------------------------------------------
#
# One column a principal: r reads, w writes, rw both. DESCRIBE comes with either.
#
# The processor alone writes what counts. Who acts (executor), who finds out (inquirer, reconciler)
# and who decides write to three different topics, and none of them to another's. Of the gateway's
# doors each writes its own inbox: whoever takes over the webhook door proposes nothing. The door of
# approvals reads who may decide, to refuse what none of them signed before anything is written.
#
# An operator writes what genesis records begin, and what a redrive puts back where it came from; it
# also holds ALTER on the cluster, by which it could give itself anything. Its password belongs to a
# person, not to a process. Nobody may delete a topic or records, or add partitions.

_COLUMNS: Final = """\
             proces- execu- inqui- recon-  projec- inten- appro- web-  opera- audi-
             sor     tor    rer    ciler   tor     ts     vals   hooks tor    tor
intents      r       .      .      .       .       w      .      .     rw     r
approvals    r       .      .      .       .       .      w      .     rw     r
attempts     r       w      .      .       .       r      .      .     rw     r
evidence     r       .      w      w       .       .      .      .     rw     r
internal     rw      .      .      .       .       .      .      .     r      r
ledger       rw      r      r      r       r       r      .      .     rw     r
webhooks     .       .      .      r       .       .      .      w     rw     r
config       r       r      r      r       .       .      r      .     rw     r
attention    .       .      w      r       .       .      .      .     rw     r
offers       r       w      .      .       .       .      .      .     r      r
quarantine   w       .      .      w       .       .      .      .     rw     r
"""


def _read(columns: str) -> Mapping[Principal, Mapping[Topic, frozenset[Operation]]]:
    """The table as data."""
    letters = {"r": Operation.READ, "w": Operation.WRITE}
    found: dict[Principal, dict[Topic, frozenset[Operation]]] = {one: {} for one in Principal}
    for line in columns.splitlines()[2:]:
        topic, *cells = line.split()
        for principal, cell in zip(Principal, cells, strict=True):
            found[principal][Topic(topic)] = frozenset(letters[one] for one in cell.strip("."))
    return MappingProxyType({who: MappingProxyType(cells) for who, cells in found.items()})


TOPICS: Final = _read(_COLUMNS)
"""What each principal may do with the records of each topic."""

GROUPS: Final[Mapping[Principal, str]] = MappingProxyType(
    {
        Principal.PROCESSOR: "actionledger.processor",
        Principal.INQUIRER: "inquirer",
        Principal.RECONCILER: "reconciler",
    }
)
"""The one consumer group that a principal may join; behind the prefix, like topics."""

_SETTINGS: Final[Mapping[Principal, tuple[Operation, ...]]] = MappingProxyType(
    {
        Principal.PROCESSOR: (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
        Principal.OPERATOR: (
            Operation.CREATE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        ),
        Principal.AUDITOR: (Operation.DESCRIBE_CONFIGS,),
    }
)
"""On every topic of the installation: seeing that it is there with all its partitions and keeps
what is written (without which no processor decides), making it, seeing its settings, mending them.
"""

_CLUSTER: Final[Mapping[Principal, tuple[Operation, ...]]] = MappingProxyType(
    {
        Principal.OPERATOR: (Operation.ALTER, Operation.DESCRIBE),
        Principal.AUDITOR: (Operation.DESCRIBE,),
    }
)
"""Changing, or seeing, who may do what and who has a password."""

CLUSTER_NAME: Final = "kafka-cluster"


def may(principal: Principal, topic: Topic, operation: Operation) -> bool:
    """Whether the table allows it."""
    return operation in TOPICS[principal][topic] or operation in _SETTINGS.get(principal, ())


def rights(principal: Principal, prefix: str) -> frozenset[Right]:
    """Everything a principal is given in the installation of a prefix."""
    found = {
        Right(Resource.TOPIC, prefix + topic, Pattern.LITERAL, operation)
        for topic, operations in TOPICS[principal].items()
        for operation in operations
    }
    found |= {
        Right(Resource.TOPIC, prefix, Pattern.PREFIXED, operation)
        for operation in _SETTINGS.get(principal, ())
    }
    found |= {
        Right(Resource.CLUSTER, CLUSTER_NAME, Pattern.LITERAL, operation)
        for operation in _CLUSTER.get(principal, ())
    }
    if principal in GROUPS:
        group = prefix + GROUPS[principal]
        found.add(Right(Resource.GROUP, group, Pattern.LITERAL, Operation.READ))
    return frozenset(found)
