"""What a log proves of itself: an auditor's replay finds what was changed after it was written."""

import asyncio
import re
from collections.abc import Callable

import pytest

from actionledger import Intent, Money, Succeeded, testing
from gateway.memory.installation import open_installation
from ledger.audit.proofs import unproven
from ledger.audit.replay import Replay
from ledger.log.envelope import read_ledger
from ledger.log.port import Record
from ledger.log.topics import Topic

KEY = "charge:v1:acme:renewal-1"
POLICY = """
[[row]]
name = "charges"
when.operation = ["charge"]
outcome = "people"
reason = "For a person."
"""
Change = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def log() -> list[Record]:
    """A ledger in which a person agreed to one charge and denied another."""
    return asyncio.run(_written())


async def _written() -> list[Record]:
    async with open_installation(policy=POLICY) as one:
        ledger = testing.World(one).ledger
        for event, say in (("renewal-1", "approve"), ("renewal-2", "deny")):
            await ledger.propose(
                Intent(
                    operation="charge",
                    business_event=event,
                    target=f"order:{event}",
                    money=Money(minor=4_990, currency="USD"),
                    environment="test",
                )
            )
            key = f"charge:v1:acme:{event}"
            assert await one.decide(key, say, by="ada", comment="as agreed") is None
        await one.advance(60_000)
        assert isinstance(await ledger.get(KEY), Succeeded)
        return list(one._log.read(Topic.LEDGER.value, 0, 0))


def replayed(records: list[Record]) -> list[str]:
    """What a replay of these records says of what does not prove itself."""
    replay = Replay()
    for record in records:
        replay.feed(record)
    assert replay.unproven_count == len(replay.unproven)
    return [f"{one.what} of {one.action}" for one in replay.unproven]


def changed(log: list[Record], fact: bytes, change: Change) -> list[Record]:
    """The log with the first record that has such a fact changed."""
    place = next(number for number, one in enumerate(log) if fact in one.value)
    value = change(log[place].value)
    assert value != log[place].value
    return [*log[:place], log[place]._replace(value=value), *log[place + 1 :]]


def test_an_honest_log_proves_itself(log: list[Record]) -> None:
    """Family audit: hashes, names and signatures hold in what the product itself has written."""
    assert replayed(log) == []


@pytest.mark.parametrize(
    ("fact", "change", "what"),
    [
        (
            b'"intent.recorded"',
            lambda raw: raw.replace(b'"minor":4990', b'"minor":4991', 1),
            f"the request hash is not that of the recorded request of {KEY}",
        ),
        (
            b'"preview.recorded"',
            lambda raw: raw.replace(b'"passed":true', b'"passed":false', 1),
            f"the preview hash is not that of the recorded preview of {KEY}",
        ),
        (
            b'"approval.granted"',
            lambda raw: raw.replace(b'"person":"ada"', b'"person":"ben"'),
            f"the approval is not what ben signed of {KEY}",
        ),
        (
            b'"approval.granted"',
            lambda raw: raw.replace(b'"comment":"as agreed"', b'"comment":"as I like"'),
            f"the approval is not what ada signed of {KEY}",
        ),
        (
            b'"approval.granted"',
            lambda raw: re.sub(rb'("approval.granted".*?"expires_at":)1', rb"\g<1>2", raw, count=1),
            f"the approval is not what ada signed of {KEY}",
        ),
        (
            b'"action.denied"',
            lambda raw: raw.replace(b'"jws":"', b'"jws":"e'),
            "the denial is not what ada signed of charge:v1:acme:renewal-2",
        ),
    ],
)
def test_what_was_changed_is_named_with_its_place(
    log: list[Record], fact: bytes, change: Change, what: str
) -> None:
    """Family audit: another amount, preview, person or comment, and a broken signature; the replay
    goes on, for what stands behind it counts all the same.
    """
    assert what in replayed(changed(log, fact, change))


def test_a_no_does_not_prove_a_yes(log: list[Record]) -> None:
    """Family audit: what was signed counts for what it says, whatever fact bears it."""
    replay = Replay()
    for record in log:
        replay.feed(record)
    denied = next(one for one in log if b'"action.denied"' in one.value)
    value = denied.value.replace(b'"action.denied"', b'"approval.granted"').replace(
        b'"by":"person",', b'"nonce":"n","expires_at":1,'
    )
    forged = denied._replace(value=value)
    found = unproven(forged, read_ledger(value), partitions=1, people=replay.folds[0].people)
    assert [one.what for one in found] == ["the approval is not what ada signed"]


def test_a_changed_document_of_people_is_named(log: list[Record]) -> None:
    """Family audit: whoever slips another key under a name is found by the hash, and by every
    signature of the true one.
    """
    told = replayed(
        changed(
            log, b'"kind":"people"', lambda raw: raw.replace(b'name = \\"ada', b'name = \\"eve')
        )
    )
    assert "the hash of the adopted people is not that of its text of None" in told
    assert f"the approval is not what ada signed of {KEY}" in told


def test_a_record_under_another_key_is_named(log: list[Record]) -> None:
    """Family audit: the key of a record is that of its stream, by which it has its partition."""
    place = next(number for number, one in enumerate(log) if b'"intent.recorded"' in one.value)
    moved = [*log[:place], log[place]._replace(key=b"acme/other"), *log[place + 1 :]]
    assert replayed(moved) == ["the record has another key than its stream acme/renewal-1 of None"]
