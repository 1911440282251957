"""The chapter of the adversary: an agent that would rather not wait, with everything it can reach.

Guarantees that what is told is what was tried: by HTTP with the agent's own key, at Kafka with the
rights that a service for agents has at the most, and with keys that it has made itself.
"""

import asyncio
import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from aiokafka.errors import TopicAuthorizationFailedError

from gateway.demo.chapter import Chapter
from gateway.demo.claims import Claim
from gateway.demo.colleagues import Colleague, Sheet, code_of, hand_in, registered, stranger
from gateway.demo.refunds import key_of, refund
from gateway.demo.scene import Scene
from gateway.wiring.installation import open_log
from gateway.wiring.local import PARTITIONS
from ledger.core.ids import stream_key_of
from ledger.core.inputs import Judge
from ledger.core.statement import SignedByKey
from ledger.log.envelope import outgoing
from ledger.log.port import AppendUnknownError, Outgoing
from ledger.log.topics import Topic, partition_of

EVENT: Final = "return-2026-09-04-01"
FLOOD: Final = 14
OPEN_MAX: Final = 10
WANTED: Final = (Topic.APPROVALS, Topic.ATTEMPTS, Topic.EVIDENCE, Topic.LEDGER, Topic.CONFIG)
"""What an agent with a login at Kafka would like to write."""


async def _tell(scene: Scene) -> None:
    (mara,) = await registered(scene.stage, "mara")
    key = key_of(scene, EVENT)
    scene.telling.step("An agent wants to refund 120 EUR, and does not want to wait for Mara")
    await scene.ask(refund(EVENT))
    scene.show(await scene.until_fact("the question to people", "approval.requested", key))
    sheet = await mara.sheet(key)
    await _by_http(scene, sheet)
    forged = await _with_keys(scene, mara, sheet)
    await _at_kafka(scene, forged)
    await _by_changing(scene)
    await _by_flooding(scene)
    await _proof(scene)
    await scene.claim_tables()


async def _by_http(scene: Scene, sheet: Sheet) -> None:
    scene.telling.step("It asks the doors for people with its own key")
    door = scene.stage.door
    bearer = {"Authorization": f"Bearer {scene.stage.agent_key}"}
    told = [
        code_of(await door.get("/v1/approvals", headers=bearer)),
        code_of(await door.post("/v1/decisions", json={"key": sheet["key"]}, headers=bearer)),
    ]
    page = await door.get(f"/console/approve/{sheet['key']}", headers=bearer)
    for code in told:
        scene.telling.say(f"refused: {code}")
    scene.claim(
        Claim(
            "no_door",
            "An agent's key reads nothing of what waits, and decides nothing",
            told == ["login_invalid", "invalid_body"] and sheet["request_hash"] not in page.text,
            f"{told}",
        )
    )


async def _with_keys(scene: Scene, mara: Colleague, sheet: Sheet) -> SignedByKey:
    scene.telling.step("It makes a key and signs in Mara's name; it names Mara's key")
    stage, key = scene.stage, sheet["key"]
    mallory = await stranger(stage, mara.name)
    forged = mallory.sign(sheet)
    _, payload, signature = forged.jws.split(".")
    header, _, _ = mara.sign(sheet).jws.split(".")
    borrowed = SignedByKey(jws=f"{header}.{payload}.{signature}")
    itself = replace(mallory, name="agent:billing").sign(sheet)
    told = {
        "unknown_signer": code_of(await hand_in(stage, key, forged)),
        "signature_invalid": code_of(await hand_in(stage, key, borrowed)),
        "unknown_signer, in its own name": code_of(await hand_in(stage, key, itself)),
    }
    for code in told.values():
        scene.telling.say(f"refused: {code}")
    scene.claim(
        Claim(
            "no_key",
            "A key that nobody has registered signs for nobody, whatever it names",
            all(name.startswith(code) for name, code in told.items()),
            f"{told}",
        )
    )
    return borrowed


async def _at_kafka(scene: Scene, forged: SignedByKey) -> None:
    scene.telling.step("It has got hold of a login at Kafka, with the rights of the agents' door")
    key = key_of(scene, EVENT)
    record = _judgement(key, forged)
    with _client_unheard():
        refused = [one.value for one in WANTED if await _is_refused(scene, one, key, record)]
    scene.telling.say(f"Kafka refuses to write: {', '.join(refused)}.")
    scene.claim(
        Claim(
            "no_topic",
            "With the login of the agents' door nothing but intents can be written",
            refused == [topic.value for topic in WANTED],
            f"{refused}",
        )
    )
    scene.telling.step("It has got hold of the login of the door for decisions itself")
    appender = await open_log(scene.stage.settings, "gateway-approvals").appender()
    try:
        await appender.append(Topic.APPROVALS, _home(Topic.APPROVALS, key), [record])
    finally:
        await appender.close()
    answered = await scene.until_answer("refused", key)
    scene.show(answered)
    scene.claim(
        Claim(
            "no_record",
            "A forged record on the topic of decisions is refused in the log: it proves nothing",
            answered["data"]["refused"]["code"] == "signature_invalid",
            str(answered["data"]["refused"]["code"]),
        )
    )


async def _by_changing(scene: Scene) -> None:
    scene.telling.step("It asks for less under the same key")
    told = await scene.ask(refund(EVENT, minor=4_900))
    scene.telling.say(f"{told['result'].lower()}: {told['differences'][0]['message']}")
    scene.claim(
        Claim(
            "no_change",
            "What waits cannot be changed into what would not",
            told["result"] == "Conflict",
            str(told["result"]),
        )
    )


async def _by_flooding(scene: Scene) -> None:
    scene.telling.step(f"It asks {FLOOD} times more, until somebody clicks without looking")
    events = [f"return-2026-09-04-{number:02}" for number in range(2, 2 + FLOOD)]
    told = await asyncio.gather(*(scene.propose(refund(event)) for event in events))
    refused = [code_of(one) for one in told if not one.is_success]
    scene.telling.say(f"{len(refused)} of them are refused: {', '.join(sorted(set(refused)))}.")
    waiting = FLOOD + 1 - len(refused)
    scene.claim(
        Claim(
            "no_flood",
            f"No more than {OPEN_MAX} of its actions wait for people at once",
            waiting == OPEN_MAX and set(refused) == {"too_many_waiting"},
            f"{waiting} wait, {set(refused)}",
        )
    )


async def _proof(scene: Scene) -> None:
    scene.telling.step("The proof")
    lines = await scene.lines()
    status = await scene.status(key_of(scene, EVENT))
    scene.telling.say(f"The provider's book has {len(lines)} lines; the refund is {status}.")
    scene.claim(
        Claim(
            "nothing",
            "The provider's book is empty, and the refund still waits for Mara",
            not lines and status == "awaiting_approval",
            f"{len(lines)} lines, {status}",
        )
    )


async def _is_refused(scene: Scene, topic: Topic, key: str, record: Outgoing) -> bool:
    """Whether Kafka lets the door of agents write a record to a topic."""
    appender = await open_log(scene.stage.settings, "gateway").appender()
    try:
        await appender.append(topic, _home(topic, key), [record])
    except AppendUnknownError as unknown:
        return isinstance(unknown.__cause__, TopicAuthorizationFailedError)
    finally:
        await appender.close()
    return False


@contextmanager
def _client_unheard() -> Iterator[None]:
    """Keep what Kafka's client says of a refusal out of the telling."""
    logger, handler = logging.getLogger("aiokafka"), logging.NullHandler()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _judgement(key: str, signed: SignedByKey) -> Outgoing:
    return outgoing(
        Judge(key=key, signed=signed),
        stream=stream_key_of(key),
        subject=key,
        event_id=secrets.token_hex(12),
        source="/somewhere/else",
    )


def _home(topic: Topic, key: str) -> int:
    return 0 if topic is Topic.CONFIG else partition_of(stream_key_of(key), PARTITIONS)


CHAPTER: Final = Chapter(
    name="adversary",
    line="an agent that would rather not wait tries everything it can reach: nothing gets through",
    title="The adversary: an agent that would rather not wait",
    tell=_tell,
)
