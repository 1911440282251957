"""The chapter of the policy: one action of each kind, the row that decides it, and what another
table would have said.

Guarantees that what is told of a table is what the ledger decided by it: rows and outcomes are
read from the log.
"""

from importlib.resources import files
from typing import Any, Final

from gateway.demo.chapter import Chapter
from gateway.demo.claims import Claim
from gateway.demo.refunds import key_of, refund
from gateway.demo.scene import Scene, facts_of
from gateway.demo.waiting import until
from gateway.wiring.policy_desk import Table, compare_policies, explain
from gateway.wiring.publishing import default_catalogue, default_policy
from ledger.core.policy import Policy, parse_policy
from ledger.core.policy_tried import RowTried

SMALL, MIDDLE, LARGE = 2_000, 12_000, 90_000


def _asked(operation: str, event: str, **fields: object) -> dict[str, Any]:
    return {
        "operation": operation,
        "business_event": event,
        "environment": "production",
        **fields,
    }


ASKED: Final = (
    ("read", "automatic", _asked("records.search", "ask-1", params={"text": "order 1842"})),
    (
        "routine-message",
        "automatic",
        _asked("ticket", "ask-2", params={"title": "Parcel lost", "labels": []}),
    ),
    (
        "message",
        "confirmation",
        _asked(
            "email",
            "ask-3",
            params={"to": ["ada@example.org"], "subject": "Your parcel", "body": "It is lost."},
        ),
    ),
    ("small-payment", "automatic", refund("ask-4", minor=SMALL)),
    ("payment", "confirmation", refund("ask-5", minor=MIDDLE)),
    ("large-payment", "people", refund("ask-6", minor=LARGE)),
    (
        "deletion-or-permission",
        "people",
        _asked("records.delete", "ask-7", target="customer:cus_7f"),
    ),
    (
        "deployment",
        "confirmation",
        _asked("service.deploy", "ask-8", target="service:shop", params={"release": "v42"}),
    ),
)
"""The row that decides, its outcome, and what an agent asks for."""

KINDS: Final = ("read", "message", "money", "delete", "deploy")


async def _tell(scene: Scene) -> None:
    await _five_kinds(scene)
    await _why(scene)
    await _another_table(scene)
    await scene.claim_tables()


async def _five_kinds(scene: Scene) -> None:
    scene.telling.step("One agent asks for every kind of action")
    scene.telling.say(
        f"The shipped table has rows for {', '.join(KINDS)}. The first that matches decides, and "
        "where a fact is missing nothing goes ahead by itself."
    )
    operations = files("gateway.demo").joinpath("operations.toml").read_text(encoding="utf-8")
    await scene.stage.publish("catalogue", default_catalogue() + operations)
    wrong = []
    for row, outcome, intent in ASKED:
        await scene.ask(intent)
        key = scene.key(intent["operation"], intent["business_event"])
        decided = await scene.until_fact(f"a ruling on {key}", "policy.decided", key)
        (fact,) = facts_of(decided, "policy.decided", key)
        scene.telling.say(f"{intent['operation']:<15} {fact['row']:<23} {fact['outcome']}")
        if (fact["row"], fact["outcome"]) != (row, outcome):
            wrong.append(f"{key}: {fact['row']} {fact['outcome']}")
    scene.claim(
        Claim(
            "five_kinds",
            f"{len(ASKED)} actions of {len(KINDS)} kinds, each by its own row, from the log",
            not wrong,
            f"{wrong}",
        )
    )
    policies = {
        fact["policy_hash"]
        for one in scene.witness.seen
        for fact in facts_of(one, "policy.decided")
    }
    scene.claim(
        Claim(
            "hash_recorded",
            "Each decision records the hash of the table it was made by",
            policies == {_parsed(default_policy()).content_hash},
            f"{policies}",
        )
    )


async def _why(scene: Scene) -> None:
    key = key_of(scene, "ask-5")
    scene.telling.step("Why is it here?")
    scene.telling.say(f"actionledger policy explain {key}")
    told = await until(
        f"{key} in the tables", lambda: explain(scene.stage.settings, key, Table.IN_FORCE)
    )
    for one in told.rows:
        scene.telling.say(f"{one.row.name:<23} {_because(one)}")
        if one.row.name == told.ruling.row:
            break
    scene.claim(
        Claim(
            "explained",
            "The explanation comes to what was decided, row by row",
            told.ruling.row == "payment" == told.action.policy_row,
            told.ruling.row,
        )
    )


def _because(tried: RowTried) -> str:
    """Why a row does not decide, by its first condition that does not hold; or that it does."""
    for one in tried.conditions:
        if one.holds is False:
            return f"no: {one.name} is {one.found}, not {one.wanted}"
    return "matches" if tried.matches else "might match: a fact is missing"


async def _another_table(scene: Scene) -> None:
    scene.telling.step("What would a lower limit have changed?")
    stricter = _parsed(default_policy().replace("EUR = 50_00", "EUR = 10_00"))
    scene.telling.say(
        f"actionledger policy whatif --policy stricter.toml --tenant {scene.stage.tenant}"
    )
    told = await compare_policies(scene.stage.settings, stricter, tenant=scene.stage.tenant)
    moves = [one for one in told.moves if one.is_difference]
    for one in moves:
        scene.telling.say(
            f"{one.count} intent: {one.was.row} {one.was.outcome} would be "
            f"{one.would_be.row} {one.would_be.outcome}, such as {one.keys[0]}"
        )
    scene.claim(
        Claim(
            "whatif",
            "With a limit of 10 EUR one of them would have waited for a person",
            told.intent_count == len(ASKED)
            and [(one.was.outcome, one.would_be.outcome, one.keys) for one in moves]
            == [("automatic", "confirmation", [key_of(scene, "ask-4")])],
            f"{told.intent_count} {[(one.was, one.would_be, one.keys) for one in moves]}",
        )
    )
    rows = {fact["row"] for one in scene.witness.seen for fact in facts_of(one, "policy.decided")}
    scene.claim(
        Claim(
            "nothing_moved",
            "Asking what would have been changed nothing",
            rows == {row for row, _, _ in ASKED},
            f"{sorted(rows)}",
        )
    )


def _parsed(text: str) -> Policy:
    parsed = parse_policy(text)
    assert isinstance(parsed, Policy), parsed  # noqa: S101 - the shipped table, or one number in it
    return parsed


CHAPTER: Final = Chapter(
    name="policy",
    line="five kinds of action and the rows that decide them; explain; what another table would do",
    title="The policy: who may let an action go ahead",
    tell=_tell,
)
