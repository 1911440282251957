"""An agent that has got at Kafka: decisions of people and records of the ledger that it writes
itself count for nothing, and what people decide afterwards counts as ever.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.http.sheets import DecisionSheet
from ledger.core.facts import AttemptStarted, IntentRecorded
from ledger.core.ids import stream_key_of
from ledger.core.inputs import Judge
from ledger.core.records import Cause, Decision
from ledger.core.statement import Say, SignedByKey
from ledger.log.envelope import encode_ledger, ledger_headers, outgoing
from ledger.log.port import Outgoing
from ledger.log.topics import Topic, partition_of
from ledger.signing.keys import sign
from tests import asking
from tests.integration.asking_people import Office, office, refund_body, statement
from tests.integration.door import POLL_SECONDS
from tests.integration.installation import PARTITIONS
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

POLICY = asking.asked("refund") + asking.EVERYTHING_GOES_AHEAD
OWN_KEY = asking.signing_key(99)


@pytest.fixture
async def people(servers: Addresses, tmp_path: Path) -> AsyncIterator[Office]:
    """An installation in which one person has to agree to every refund."""
    async with office(servers, tmp_path, POLICY) as made:
        yield made


async def asked_for(people: Office, event: str, *, minor: int = 12_000) -> DecisionSheet:
    """What a person is shown of a refund that an agent has asked for."""
    answer = await people.door.propose(refund_body(event, minor=minor))
    return await people.sheet(answer.json()["key"])


def home(key: str) -> int:
    """The partition of an action."""
    return partition_of(stream_key_of(key), PARTITIONS)


async def write_judgement(
    people: Office, key: str, signed: SignedByKey, *, under: str | None = None
) -> tuple[int, int]:
    """Put a decision on the topic of decisions, as the door for people does; where it stands."""
    stream = stream_key_of(under or key)
    record = outgoing(
        Judge(key=key, signed=signed),
        stream=stream,
        subject=key,
        event_id=secrets.token_hex(12),
        source="/somewhere",
    )
    partition = partition_of(stream, PARTITIONS)
    (offset,) = await people.door.one.put(Topic.APPROVALS, partition, record)
    return partition, offset


async def refusal(people: Office, place: tuple[int, int]) -> str:
    """What the ledger said to the record of the topic of decisions at a place."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            for decision in await people.door.one.decisions():
                cause = decision.cause
                if (cause.topic, cause.partition, cause.offset) == ("approvals", *place):
                    assert decision.refused is not None, decision
                    return decision.refused.code.value
            await asyncio.sleep(POLL_SECONDS)


async def assert_still_waits(people: Office, key: str) -> None:
    """Nothing has begun, and nothing was heard of at the provider."""
    assert (await people.door.get(f"/v1/actions/{key}")).json()["status"] == "awaiting_approval"
    assert not people.provider.calls


async def test_a_forged_decision_on_the_topic_is_refused_in_the_log(people: Office) -> None:
    """Whoever can write the topic of decisions still signs for nobody: each forgery is a recorded
    refusal by its name, and the genuine decision after it counts.
    """
    here, there = await asked_for(people, "return-1"), await asked_for(people, "return-2", minor=90)
    ada = asking.KEYS["ada"]
    header, payload, _ = sign(statement(here, "ada"), ada).jws.split(".")
    _, _, foreign = sign(statement(here, "ada"), OWN_KEY).jws.split(".")
    forged: tuple[tuple[str, SignedByKey, str | None], ...] = (
        ("unknown_signer", sign(statement(here, "ada"), OWN_KEY), None),
        ("signature_invalid", SignedByKey(jws=f"{header}.{payload}.{foreign}"), None),
        ("signature_invalid", SignedByKey(jws="a.b.c"), None),
        ("other_action", sign(statement(there, "ada"), ada), None),
        ("misrouted", sign(statement(here, "ada"), ada), elsewhere(here.key)),
        ("other_tenant", sign(statement(here, "ada", tenant="globex"), ada), None),
    )
    for code, signed, under in forged:
        place = await write_judgement(people, here.key, signed, under=under)
        assert await refusal(people, place) == code
    await assert_still_waits(people, here.key)
    await people.say(here)
    await people.until(here.key, "completed")
    assert people.provider.calls == {here.key: 1}


def elsewhere(key: str) -> str:
    """The key of an action that lives in another partition."""
    return next(
        other
        for number in range(100)
        if home(other := f"refund:v1:acme:elsewhere-{number}") != home(key)
    )


async def test_a_forged_ledger_record_is_void(people: Office) -> None:
    """A start that somebody else writes to the ledger, with the epoch of before or of after, or for
    another place than its own, changes nothing for anybody: no owner, no executor, no reader.
    """
    sheet = await asked_for(people, "return-1")
    one, partition = people.door.one, home(sheet.key)
    records = [(offset, read) for part, offset, read in await one.ledger() if part == partition]
    epoch = max(getattr(read, "epoch", 0) for _, read in records)
    intent = next(
        (offset, fact)
        for offset, read in records
        if isinstance(read, Decision)
        for fact in read.facts
        if isinstance(fact, IntentRecorded) and fact.action == sheet.key
    )
    for ahead, epoch_named in ((0, epoch - 1), (0, epoch + 1), (1, epoch), (-1, epoch), (7, epoch)):
        end = len(await one.records(Topic.LEDGER, partition))
        forged = start_of(sheet, *intent, at=end + ahead, epoch=epoch_named)
        value = encode_ledger(forged, generation=people.door.ledger_id, partition=partition)
        stream = stream_key_of(sheet.key).encode()
        await one.put(Topic.LEDGER, partition, Outgoing(stream, value, ledger_headers(forged)))
    await assert_still_waits(people, sheet.key)
    await people.say(await people.sheet(sheet.key), say=Say.DENY)
    assert (await people.until(sheet.key, "denied"))["status"] == "denied"
    assert not people.provider.calls


def start_of(
    sheet: DecisionSheet, intent_offset: int, intent: IntentRecorded, *, at: int, epoch: int
) -> Decision:
    """A start of an action that nobody has agreed to."""
    start = AttemptStarted(
        action=sheet.key,
        version=sheet.version + 1,
        attempt=1,
        fencing_token=1,
        holder="executor-1",
        offer_sequence=1,
        offered_at=sheet.now,
        lease_until=sheet.now + 30_000,
        deadline_at=sheet.now + 20_000,
        connect_ms=2_000,
        response_ms=10_000,
        provider=intent.provider,
        account=intent.account,
        provider_key=sheet.key,
        intent_offset=intent_offset,
        request_hash=intent.request_hash,
    )
    return Decision(
        at=at,
        epoch=epoch,
        cause=Cause(topic="intents", partition=home(sheet.key), offset=at),
        decided_at=sheet.now,
        stream=stream_key_of(sheet.key),
        facts=(start,),
    )
