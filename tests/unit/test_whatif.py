"""Recorded intents under another table: what would have gone otherwise, and what would not."""

from ledger.audit.replay import replay
from ledger.audit.whatif import Said, WhatIf, what_if
from ledger.core.config import Config
from ledger.core.money import Money
from ledger.core.policy import AUTOMATIC, Gates, Policy
from tests import examples as x
from tests.examples_of_sagas import TRAVELS, do, plan
from tests.ledgers import LedgerBuilder, MemoryLog, history
from tests.policies import policy, row

SMALL = policy(
    row("small", "when.amount.at_most.EUR = 50_00")
    + row("rest", "", "people", 'quorum = 2\ngroups = ["finance"]')
)


def asked(builder: LedgerBuilder, event: str, minor: int, *, later_ms: int = 0) -> None:
    """A charge of a business event."""
    request = x.request(money=Money(minor=minor, currency="EUR"))
    builder.take(x.propose(f"charge:v1:acme:{event}", request=request), later_ms=later_ms)


def three() -> LedgerBuilder:
    """Two small charges and a large one, a second apart, of which the first is done."""
    builder = LedgerBuilder()
    asked(builder, "renewal-1", 49_90)
    builder.take(x.report(x.success()))
    asked(builder, "e-2", 50_00, later_ms=1_000)
    asked(builder, "e-3", 50_01, later_ms=1_000)
    return builder


async def tried(
    builder: LedgerBuilder, table: Policy, *, since: int = 0, tenant: str | None = None
) -> WhatIf:
    """What a table would have said."""
    return await what_if(
        MemoryLog(builder.everything()),
        range(builder.count),
        table,
        x.catalogue(),
        since=since,
        tenant=tenant,
    )


async def test_intents_are_counted_from_row_to_row() -> None:
    """Differences come first, each with the actions that it is about."""
    found = await tried(three(), SMALL)
    assert (found.intent_count, found.difference_count) == (3, 1)
    told = [
        (one.was.row, one.would_be.row, one.would_be.outcome, one.count, one.is_difference)
        for one in found.moves
    ]
    assert told == [
        ("automatic", "rest", "people", 1, True),
        ("automatic", "small", "automatic", 2, False),
    ]
    difference = found.moves[0]
    assert difference.keys == ["charge:v1:acme:e-3"]
    assert difference.would_be.asks is not None
    assert difference.would_be.asks.quorum == 2


async def test_who_may_not_ask_any_more_is_a_difference() -> None:
    """By the catalogue that is tried, whatever the table says: such an intent would be refused."""
    others = x.CATALOGUE_TEXT.replace('principals = ["agent:', 'principals = ["other:')
    assert others != x.CATALOGUE_TEXT
    found = await what_if(
        MemoryLog(three().everything()), range(1), SMALL, x.catalogue(others), since=0
    )
    assert (found.intent_count, found.difference_count) == (3, 3)
    assert {(one.would_be.row, one.would_be.outcome) for one in found.moves} == {
        ("principals", "deny")
    }


async def test_a_step_of_a_plan_is_counted_once_it_is_ruled() -> None:
    """The second step is ruled at its turn, long after the plan was recorded, and once."""
    builder = LedgerBuilder(config=TRAVELS)
    builder.take(plan())
    tried_at_once = await tried(builder, SMALL)
    builder.take(x.tick(), later_ms=1)
    builder.take(x.report(x.success(), key=do("flight")))
    found = await tried(builder, SMALL)
    assert found.intent_count == tried_at_once.intent_count + 1
    counted = [key for one in found.moves for key in one.keys]
    assert counted.count(do("flight")) == counted.count(do("hotel")) == 1
    assert do("car") not in counted


async def test_only_intents_since_a_time_are_counted() -> None:
    """By log time, the bound included."""
    assert (await tried(three(), SMALL, since=x.T0 + 1_000)).intent_count == 2
    assert (await tried(three(), SMALL, since=x.T0 + 2_001)).intent_count == 0


async def test_only_intents_of_a_tenant_are_counted() -> None:
    """Where one is named; by itself those of all."""
    builder = three()
    request = x.request(money=Money(minor=50_01, currency="EUR"))
    builder.take(x.propose("charge:v1:globex:e-3", request=request))
    assert (await tried(builder, SMALL)).difference_count == 2
    (move,) = (await tried(builder, SMALL, tenant="globex")).moves
    assert move.keys == ["charge:v1:globex:e-3"]


async def test_the_same_table_makes_no_difference() -> None:
    """What was ruled is taken from the log."""
    found = await tried(three(), AUTOMATIC)
    assert (found.intent_count, found.difference_count) == (3, 0)


async def test_what_was_ruled_is_what_the_log_says() -> None:
    """Intents that were recorded under another table are compared with that table's word."""
    builder = LedgerBuilder(config=Config(x.catalogue(), x.catalogue().content_hash, policy=SMALL))
    asked(builder, "e-1", 50_01)
    (move,) = (await tried(builder, AUTOMATIC)).moves
    assert (move.was.row, move.was.outcome) == ("rest", "people")
    assert (move.would_be.row, move.would_be.outcome) == ("automatic", "automatic")


async def test_another_quorum_is_a_difference_and_another_name_is_none() -> None:
    """What counts is what becomes of the action and whose signatures it waits for."""
    builder = LedgerBuilder(config=Config(x.catalogue(), x.catalogue().content_hash, policy=SMALL))
    asked(builder, "e-1", 50_01)
    renamed = policy(row("other", "", "people", 'quorum = 2\ngroups = ["finance"]'))
    assert (await tried(builder, renamed)).difference_count == 0
    fewer = policy(row("rest", "", "people", 'quorum = 1\ngroups = ["finance"]'))
    assert (await tried(builder, fewer)).difference_count == 1


async def test_what_would_pass_other_gates_is_a_difference() -> None:
    """A ceiling or a guarded target may hold an action up; of one that never begins they mean
    nothing.
    """
    guarded = policy(row("small", "", "automatic", "block_target = true"))
    (move,) = (await tried(three(), guarded)).moves
    assert (move.is_difference, move.count) == (True, 3)
    assert (move.was.gates, move.would_be.gates) == (None, Gates(target=True))
    denied, other = (Said("a", "deny", gates=gates) for gates in (None, Gates(target=True)))
    assert denied.effect == other.effect


async def test_an_operation_that_is_no_more_is_named() -> None:
    """What the catalogue would have told is missing, and why is said: it has no such operation."""
    others = x.CATALOGUE_TEXT.replace('name = "charge"', 'name = "payment"')
    found = await what_if(MemoryLog(three().everything()), range(1), SMALL, x.catalogue(others))
    assert (found.undeclared, found.missing) == ({"charge v1": 3}, {})
    assert {one.would_be.outcome for one in found.moves} == {"people"}
    assert (await tried(three(), SMALL)).undeclared == {}


async def test_what_no_table_has_ruled_yet_is_told() -> None:
    """Steps of a plan wait for their turn; they are in no count, and nobody has to wonder."""
    builder = LedgerBuilder(config=TRAVELS)
    builder.take(plan())
    found = await tried(builder, SMALL)
    assert found.unruled_count == 2
    assert (await tried(builder, SMALL, tenant="globex")).unruled_count == 0


async def test_missing_facts_are_counted() -> None:
    """A table that asks for what operations do not say is told so before it is published."""
    found = await tried(three(), policy(row("money", 'when.kind = ["money"]')))
    assert found.missing == {"kind": 3}
    assert found.difference_count == 3


async def test_progress_tells_all_there_is() -> None:
    """Every partition is read to its end."""
    builder = LedgerBuilder(partitions=3)
    for number in range(12):
        asked(builder, f"e-{number}", 50_01)
    heard: list[tuple[int, int]] = []
    found = await what_if(
        MemoryLog(builder.everything()),
        range(3),
        SMALL,
        x.catalogue(),
        progress=lambda done, of: heard.append((done, of)),
    )
    assert found.intent_count == 12
    assert heard[-1] == (sum(builder.ends().values()),) * 2


async def test_what_counts_for_nobody_is_not_counted() -> None:
    """Through epochs, void and unreadable records there are as many intents as a replay has
    actions.
    """
    builder = history(3, partitions=3)
    replayed = await replay(MemoryLog(builder.everything()), range(3))
    actions = sum(len(one.stream.actions) for one in replayed.streams.values())
    found = await tried(builder, AUTOMATIC)
    assert found.intent_count == actions > 0


async def test_an_intent_that_an_overtaken_owner_wrote_again_is_not_counted() -> None:
    """The same bytes at another place are void for every reader."""
    builder = three()
    (first, *_) = [one.value for one in builder.records() if b"intent.recorded" in one.value]
    builder.put(0, first)
    found = await tried(builder, SMALL)
    assert found.intent_count == 3
    assert found.folds[0].void_count == 1
