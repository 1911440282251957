"""What an action costs that waits for a person: the person's part, as a device of theirs does it.

Guarantees that what is signed is what the ledger asked for, with a real key, and that whoever
decides is registered as anybody else is. Called by the load generator and its runner.
"""

import hashlib
import secrets
import time
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger.core.facts import ApprovalRequested, IntentRecorded
from ledger.core.ids import ActionKey, stream_key_of
from ledger.core.inputs import Judge
from ledger.core.people import NOBODY, Person, PersonKey
from ledger.core.people_text import NotChanged, with_person
from ledger.core.records import Decision
from ledger.core.statement import Say, Statement
from ledger.log.envelope import outgoing
from ledger.log.follow import genesis_of
from ledger.log.kafka import KafkaLog
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic, partition_of
from ledger.signing.keys import SigningKey, sign

PERSON: Final = "bench"
# Nobody else's: the same in the generator and its runner, and good for this ledger only.
_KEY: Final = SigningKey.of(
    Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"actionledger.benchmark").digest())
)
_SOURCE: Final = "/actionledger/benchmark"


def people() -> str:
    """The document in which the person is registered."""
    key = PersonKey(id=_KEY.id, kind="ed25519", public=_KEY.public)
    text = with_person(NOBODY, Person(name=PERSON, tenants=("*",), keys=(key,)))
    assert not isinstance(text, NotChanged)
    return text


class Approver:
    """Signs what is asked and puts it into the log, as the door for decisions does."""

    def __init__(self, log: KafkaLog, partitions: int, generation: str) -> None:
        self._partitions = partitions
        self._generation = generation
        self._appender = SteadyAppender(log.appender)

    @classmethod
    async def of(cls, log: KafkaLog, partitions: int) -> "Approver":
        """For a log; close it."""
        return cls(log, partitions, (await genesis_of(log)).generation)

    async def approve(self, asked: Decision) -> None:
        """Say yes to what a decision on an intent asks people."""
        (intent,) = (fact for fact in asked.facts if isinstance(fact, IntentRecorded))
        (request,) = (fact for fact in asked.facts if isinstance(fact, ApprovalRequested))
        statement = Statement(
            ledger=self._generation,
            decision=Say.APPROVE,
            approver=PERSON,
            tenant=ActionKey.parse(intent.action).tenant,
            environment=intent.request.environment,
            key=intent.action,
            request_hash=intent.request_hash,
            preview_hash=request.preview_hash,
            policy_hash=request.policy_hash,
            row=request.row,
            nonce=request.nonce,
            issued_at=time.time_ns() // 1_000_000,
            expires_at=request.expires_at,
        )
        stream = stream_key_of(intent.action)
        record = outgoing(
            Judge(key=intent.action, signed=sign(statement, _KEY)),
            stream=stream,
            subject=intent.action,
            event_id=secrets.token_hex(12),
            source=_SOURCE,
        )
        partition = partition_of(stream, self._partitions)
        await self._appender.append(Topic.APPROVALS, partition, [record])

    async def close(self) -> None:
        """Let go of the broker."""
        await self._appender.close()
