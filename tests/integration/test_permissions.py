"""Who may do what, on a real broker: every principal, every topic, every operation, as declared."""

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from ledger.log.access import OPEN, KafkaAccess, Mechanism, Protocol
from ledger.log.admin import apply_topics
from ledger.log.authority import (
    GROUPS,
    TOPICS,
    Operation,
    Pattern,
    Resource,
    Right,
    may,
)
from ledger.log.declared import Declared, Entry
from ledger.log.kafka import KafkaLog
from ledger.log.librdkafka import answers, binding_of, filter_of
from ledger.log.permissions import Comparison, Permissions
from ledger.log.port import AppendUnknownError, Outgoing
from ledger.log.principals import Principal, usual_names
from ledger.log.topics import Topic
from ledger.log.trouble import LogRefusedError
from tests.integration import broker_rights as broker
from tests.integration.broker_rights import allowed, connected
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

LOOK_SECONDS = 0.02

QUESTIONS: Mapping[Operation, broker.Question] = {
    Operation.READ: broker.read,
    Operation.WRITE: broker.write,
    Operation.CREATE: broker.create,
    Operation.ALTER: broker.add_partitions,
    Operation.DESCRIBE_CONFIGS: broker.describe_settings,
    Operation.ALTER_CONFIGS: broker.alter_settings,
}


@dataclass(frozen=True, slots=True)
class Guarded:
    """An installation of its own on the shared broker, at the listener that asks for a login."""

    open: str
    guarded: str
    declared: Declared

    def access(self, principal: Principal) -> KafkaAccess:
        """How a principal gets in."""
        name = self.declared.names[principal]
        password = self.declared.passwords[name]
        return KafkaAccess(Protocol.SASL_PLAINTEXT, Mechanism.SCRAM_SHA_512, name, password)

    def log(self, principal: Principal) -> KafkaLog:
        """The log as a principal has it."""
        access = self.access(principal)
        return KafkaLog(self.guarded, prefix=self.declared.prefix, access=access)

    def permissions(self) -> Permissions:
        """The broker's permissions, as its super user has them."""
        return Permissions(self.open, OPEN, "test")


@pytest.fixture(scope="module")
def guarded(servers: Addresses, request: pytest.FixtureRequest) -> Guarded:
    """An installation whose permissions are applied and whose topics are made by the operator."""
    if servers.kafka_guarded is None:  # the shared broker is somebody else's
        servers = request.getfixturevalue("module_servers")
    prefix = f"p{secrets.token_hex(4)}.actionledger."
    names = usual_names(prefix)
    passwords = {name: secrets.token_urlsafe(16) for name in names.values()}
    assert servers.kafka_guarded is not None
    declared = Declared(prefix, names, passwords)
    made = Guarded(servers.kafka_bootstrap, servers.kafka_guarded, declared)
    asyncio.run(_begun(made))
    return made


async def _begun(made: Guarded) -> None:
    before = await made.permissions().apply(made.declared)
    assert set(before.missing) == made.declared.entries
    await apply_topics(made.log(Principal.OPERATOR), partitions=1, generation="g")
    topics = [made.declared.prefix + topic for topic in Topic]
    async with connected(made.guarded, made.access(Principal.OPERATOR)) as connection:
        async with asyncio.timeout(PATIENCE_SECONDS):
            # A topic that was just made has no leader for a moment.
            while any(code for _, code in await broker.read(connection, topics)):
                await asyncio.sleep(LOOK_SECONDS)


@pytest.mark.parametrize("principal", Principal)
async def test_every_cell_of_the_table_is_as_declared(
    guarded: Guarded, principal: Principal
) -> None:
    """Read, write, create, delete, add partitions, see and change settings, delete records, join
    groups, fence producers: a principal may what the table says, on every topic, and nothing more.
    """
    prefix = guarded.declared.prefix
    topics = [prefix + topic for topic in Topic]
    async with connected(guarded.guarded, guarded.access(principal)) as connection:
        for operation, question in QUESTIONS.items():
            expected = {prefix + topic for topic in Topic if may(principal, topic, operation)}
            assert await allowed(connection, question, topics) == expected, operation
        for question in (broker.delete, broker.delete_records):
            assert await allowed(connection, question, topics) == set()
        groups = {prefix + group for group in (*GROUPS.values(), "another")}
        joined = {group for group in groups if await broker.may_join(connection, group)}
        assert joined == {prefix + name for who, name in GROUPS.items() if who is principal}
        assert not await broker.may_fence(connection, f"{prefix}processor")


async def test_another_installation_is_out_of_reach(guarded: Guarded) -> None:
    """No principal reads or writes under another prefix of the same broker."""
    other = [f"q{secrets.token_hex(4)}.{topic}" for topic in Topic]
    for principal in Principal:
        async with connected(guarded.guarded, guarded.access(principal)) as connection:
            assert await allowed(connection, broker.read, other) == set()
            assert await allowed(connection, broker.write, other) == set()
            assert await allowed(connection, broker.create, other) == set()


async def test_only_the_operator_changes_who_may_do_what(guarded: Guarded) -> None:
    """The operator applies, the auditor compares, and everybody else is told that he may not."""
    for principal in Principal:
        as_principal = Permissions(guarded.guarded, guarded.access(principal), "test")
        if principal in {Principal.OPERATOR, Principal.AUDITOR}:
            assert (await as_principal.compare(guarded.declared)).is_equal
        else:
            with pytest.raises(LogRefusedError, match="may not see or change"):
                await as_principal.compare(guarded.declared)
        if principal is Principal.OPERATOR:
            assert (await as_principal.apply(guarded.declared)).is_equal
        else:
            with pytest.raises(LogRefusedError):
                await as_principal.apply(guarded.declared)


async def test_apply_adds_what_is_missing_and_takes_what_is_not_declared(
    guarded: Guarded,
) -> None:
    """Only our own principals are touched, only near our topics, and both are named before."""
    prefix = guarded.declared.prefix
    executor = guarded.declared.names[Principal.EXECUTOR]
    stranger = f"stranger.{secrets.token_hex(4)}"
    ledger = Right(Resource.TOPIC, f"{prefix}ledger", Pattern.LITERAL, Operation.WRITE)
    elsewhere = replace(ledger, name=f"else.{prefix}ledger")
    everything = Right(Resource.TOPIC, "*", Pattern.LITERAL, Operation.ALL)
    wrong = {Entry(executor, ledger), Entry(executor, everything)}
    left_alone = {Entry(executor, elsewhere), Entry(stranger, ledger)}
    lost = Entry(
        executor, Right(Resource.TOPIC, f"{prefix}offers", Pattern.LITERAL, Operation.WRITE)
    )
    permissions = guarded.permissions()
    assert (await permissions.compare(guarded.declared)).is_equal
    answers(
        permissions._admin.create_acls([binding_of(one) for one in wrong | left_alone]).values()
    )
    answers(permissions._admin.delete_acls([filter_of(lost)]).values())
    async with asyncio.timeout(PATIENCE_SECONDS):
        # The broker tells of a change a moment after the controller took it.
        while not _shows(await permissions.compare(guarded.declared), lost, wrong):
            await asyncio.sleep(LOOK_SECONDS)

    before = await permissions.apply(guarded.declared)
    assert before.missing == (lost,)
    assert set(before.surplus) == wrong
    assert before.others == (Entry(stranger, ledger),)
    after = await permissions.compare(guarded.declared)
    assert after.is_equal
    assert after.others == (Entry(stranger, ledger),)
    assert left_alone <= permissions._entries()


def _shows(found: Comparison, lost: Entry, wrong: set[Entry]) -> bool:
    return found.missing == (lost,) and set(found.surplus) == wrong and len(found.others) == 1


async def test_a_new_password_is_in_force_when_apply_returns(guarded: Guarded) -> None:
    """A rotation: the new password lets the component in, the old one does not."""
    name = guarded.declared.names[Principal.EXECUTOR]
    passwords = {**guarded.declared.passwords, name: "another-password"}
    await guarded.permissions().apply(replace(guarded.declared, passwords=passwords))
    old = guarded.access(Principal.EXECUTOR)
    log = KafkaLog(guarded.guarded, access=replace(old, password="another-password"))
    await (await log.appender()).close()
    with pytest.raises(LogRefusedError, match="unknown or the password is wrong"):
        await KafkaLog(guarded.guarded, access=old).appender()
    await guarded.permissions().apply(guarded.declared)
    await (await KafkaLog(guarded.guarded, access=old).appender()).close()


async def test_a_login_that_is_missing_is_named(guarded: Guarded) -> None:
    """Comparing finds a component that the broker has no password of."""
    declared = replace(guarded.declared, passwords={f"{guarded.declared.prefix}new": "x"})
    found = await guarded.permissions().compare(declared)
    assert found.users_missing == (f"{guarded.declared.prefix}new",)
    assert not found.is_equal


async def test_an_append_without_the_right_is_refused_and_harms_no_other(
    guarded: Guarded,
) -> None:
    """A component that writes where it may not is refused at once, and goes on where it may."""
    appender = await guarded.log(Principal.EXECUTOR).appender()
    record = Outgoing(b"key", b"value", ())
    try:
        with pytest.raises(AppendUnknownError, match="TopicAuthorizationFailed"):
            await appender.append(Topic.LEDGER, 0, [record])
        assert (await appender.append(Topic.ATTEMPTS, 0, [record]))[0].offset >= 1
    finally:
        await appender.close()


def test_the_table_keeps_authority_apart() -> None:
    """What counts has one writer; who acts, who finds out and who decides share no inbox."""
    writers = {
        topic: {who for who in Principal if Operation.WRITE in TOPICS[who][topic]}
        for topic in Topic
    }
    components = set(Principal) - {Principal.OPERATOR}
    assert writers[Topic.LEDGER] & components == {Principal.PROCESSOR}
    assert writers[Topic.INTERNAL] == {Principal.PROCESSOR}
    assert writers[Topic.INTENTS] & components == {Principal.GATEWAY_INTENTS}
    assert writers[Topic.APPROVALS] & components == {Principal.GATEWAY_APPROVALS}
    assert writers[Topic.WEBHOOKS] & components == {Principal.GATEWAY_WEBHOOKS}
    assert writers[Topic.ATTEMPTS] & components == {Principal.EXECUTOR}
    assert writers[Topic.EVIDENCE] & components == {Principal.INQUIRER, Principal.RECONCILER}
    assert writers[Topic.CONFIG] == {Principal.OPERATOR}
    assert not any(Operation.WRITE in cell for cell in TOPICS[Principal.AUDITOR].values())
    assert not any(may(who, topic, Operation.DELETE) for who in Principal for topic in Topic)
