"""Who may decide, on the real Kafka: each change adopted by every partition, nobody overwritten."""

import asyncio
from collections.abc import Callable

import pytest

from gateway.wiring.documents import PublishedEverywhere, publish_everywhere
from gateway.wiring.people_desk import Changed, change_people, people_in_force
from gateway.wiring.publishing import (
    DocumentRefusedError,
    OvertakenDocumentError,
    RevokedComesBackError,
    publish_document,
)
from ledger.core.people import NOBODY, People, Person, parse_people
from ledger.core.people_text import (
    NotChanged,
    Revoked,
    with_key,
    with_person,
    with_revoked,
    written,
)
from ledger.core.policy import policy_hash
from ledger.core.records import Adopted
from ledger.log.envelope import read_ledger
from ledger.log.published import read_published
from ledger.log.reading import read_up_to
from ledger.log.topics import Topic
from tests.integration.installation import PARTITIONS, Installation, installed
from tests.integration.test_holds import settings_of
from tests.patience import PATIENCE_MS
from tests.policies import row
from tests.servers import Addresses
from tests.unit.signing.decisions import ADA_KEY, ADA_PASSKEY, registered

LOOK_SECONDS = 0.05

pytestmark = pytest.mark.servers

LOOK_S = 0.05
ADA = Person(name="ada", tenants=("acme",), groups=("finance",))
BEN = Person(name="ben", tenants=("*",))


async def changed(one: Installation, change: Callable[[People], str | NotChanged]) -> Changed:
    """A change that every partition has adopted."""
    done = await change_people(settings_of(one), change, timeout_ms=PATIENCE_MS)
    assert isinstance(done, Changed)
    assert (done.waiting, done.partitions) == ((), PARTITIONS)
    return done


async def adopted(one: Installation) -> list[tuple[int, str]]:
    """Every document of people in the ledger: its partition and hash."""
    begins = {(Topic.LEDGER.value, part): 0 for part in range(PARTITIONS)}
    found: list[tuple[int, str]] = []
    reader = await one.log.reader(begins)
    try:
        async for records in read_up_to(reader, begins, await reader.end_offsets(begins)):
            for record in records:
                made = getattr(read_ledger(record.value or b""), "adopted", None)
                if isinstance(made, Adopted) and made.kind == "people":
                    found.append((record.partition, made.content_hash))
    finally:
        await reader.close()
    return found


def without(people: People, name_or_key: str) -> str:
    """The text of a revocation."""
    done = with_revoked(people, name_or_key)
    assert isinstance(done, Revoked)
    return done.text


async def test_people_are_registered_and_revoked_in_every_partition(servers: Addresses) -> None:
    """A person, a key of each kind, and a revocation: each is in force when its command returns."""
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        assert await people_in_force(settings_of(one)) == NOBODY
        steps: tuple[Callable[[People], str | NotChanged], ...] = (
            lambda people: with_person(people, ADA),
            lambda people: with_key(people, "ada", registered(ADA_KEY)),
            lambda people: with_key(people, "ada", ADA_PASSKEY.registered()),
            lambda people: without(people, ADA_KEY.id),
        )
        hashes = [(await changed(one, step)).content_hash for step in steps]
        found = await adopted(one)
        for part in range(PARTITIONS):
            assert [content_hash for at, content_hash in found if at == part] == hashes
        people = await people_in_force(settings_of(one))
        assert people.content_hash == hashes[-1]
        ada = people.person("ada")
        assert ada is not None
        assert [key.revoked for key in ada.keys] == [True, False]
        settings = settings_of(one)
        again = await change_people(
            settings, lambda now: with_person(now, ADA), timeout_ms=PATIENCE_MS
        )
        assert again is NotChanged.PERSON_KNOWN


async def test_two_operators_do_not_overwrite_each_other(servers: Addresses) -> None:
    """Of two who change the same document, the second is told, and no partition takes it."""
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await changed(one, lambda people: with_person(people, ADA))
        before = await people_in_force(settings_of(one))
        await changed(one, lambda people: with_person(people, BEN))
        late = written(before, (ADA, Person(name="cy", tenants=("*",))))
        with pytest.raises(OvertakenDocumentError):
            await publish_document(one.log, "people", late)
        people = await people_in_force(settings_of(one))
        assert [person.name for person in people.people] == ["ada", "ben"]


async def test_a_revocation_is_not_undone_by_an_older_copy(servers: Addresses) -> None:
    """A document from a file in which somebody is not revoked changes nothing."""
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await changed(one, lambda people: with_person(people, ADA))
        before = await people_in_force(settings_of(one))
        await changed(one, lambda people: without(people, "ada"))
        now = await people_in_force(settings_of(one))
        with pytest.raises(RevokedComesBackError, match="ada was revoked"):
            await publish_document(one.log, "people", written(now, before.people))
        assert await people_in_force(settings_of(one)) == now


async def newest_table_begins_with(one: Installation, name: str) -> None:
    """Wait until the table that was published last begins with a row of this name."""
    async with asyncio.timeout(PATIENCE_MS / 1_000):
        while (await read_published(one.log)).policy.rows[0].name != name:
            await asyncio.sleep(LOOK_SECONDS)


async def test_who_publishes_a_table_hears_that_another_one_overtook_it(
    servers: Addresses,
) -> None:
    """Of two operators at once both tables are adopted, and the later one is in force: the other
    operator is told so, and not that all is well.
    """
    tables = [row(name, "", "people") for name in ("first", "second")]
    async with installed(servers.kafka_bootstrap) as one:
        settings = settings_of(one)

        async def publish(text: str) -> PublishedEverywhere:
            return await publish_everywhere(settings, "policy", text, timeout_ms=PATIENCE_MS)

        async with asyncio.TaskGroup() as operators:
            overtaken = operators.create_task(publish(tables[0]))
            await newest_table_begins_with(one, "first")
            newest = operators.create_task(publish(tables[1]))
            await newest_table_begins_with(one, "second")
            # Nobody adopts anything before there is a processor.
            await one.processor()
        assert (overtaken.result().waiting, newest.result().waiting) == ((), ())
        assert overtaken.result().overtaken_by == policy_hash(tables[1])
        assert newest.result().overtaken_by is None
        again = await publish(tables[1])
        assert (again.was_published, again.overtaken_by) == (False, None)


async def test_of_two_at_the_same_moment_one_is_told(servers: Addresses) -> None:
    """Both found the document they replace in force; the log says which came first, and whoever
    came second hears of it.
    """
    async with installed(servers.kafka_bootstrap) as one:
        texts = [
            written(NOBODY, (Person(name=name, tenants=("*",)),)) for name in ("ada", "ben", "cy")
        ]
        told = await asyncio.gather(
            *(publish_document(one.log, "people", text) for text in texts),
            return_exceptions=True,
        )
        refused = [one for one in told if isinstance(one, BaseException)]
        assert all(isinstance(one, OvertakenDocumentError) for one in refused)
        assert len(refused) == len(texts) - 1
        (winner,) = [
            text for text, said in zip(texts, told, strict=True) if isinstance(said, tuple)
        ]
        assert (await read_published(one.log)).people == parse_people(winner)


async def test_a_document_with_a_mistake_reaches_no_topic(servers: Addresses) -> None:
    """What would be refused is not published, and what is in force is published once."""
    async with installed(servers.kafka_bootstrap) as one:
        with pytest.raises(DocumentRefusedError, match="line 1"):
            await publish_document(one.log, "people", "[[person]]\nname = 1\n")
        text = written(NOBODY, (ADA,))
        offset, was_published = await publish_document(one.log, "people", text)
        assert was_published
        assert await publish_document(one.log, "people", text) == (offset, False)
