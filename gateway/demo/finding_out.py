"""The chapters of finding out: an answer is lost, and the ledger does not guess.

A webhook tells it, or a lookup; or the time is over in which the key may be used, and then it is
only looked for; or nothing is ever found, and a person settles it. Guarantees that no chapter shows
an answer that the ledger did not get: every claim is held against the log or the provider's book.
"""

from typing import Any, Final

from gateway.demo.chapter import Chapter
from gateway.demo.claims import Claim
from gateway.demo.colleagues import Colleague, registered
from gateway.demo.scene import Scene, effects, facts_of
from gateway.demo.waiting import until
from gateway.http.case_sheets import CaseSheet
from gateway.wiring.local import ACCOUNT
from gateway.wiring.publishing import default_catalogue
from ledger.core.statement import Move

PATIENCE_MS: Final = 30_000
LOOKUPS: Final = (300, 700, 1_100, 1_500)
FEW_LOOKUPS: Final = (200, 400, 600)
"""All of them are over before an absence could prove anything."""
USABLE_MS: Final = 4_000
MARGIN_MS: Final = 4_000
SEARCH_LAG_MS: Final = 300_000
QUICK: Final = {
    "key_window_ms = 86_400_000   # 24 hours": f"key_window_ms = {MARGIN_MS + USABLE_MS}",
    "key_margin_ms = 600_000      #": f"key_margin_ms = {MARGIN_MS}      #",
    "settle_horizon_ms = 60_000   #": "settle_horizon_ms = 500   #",
    "search_lag_ms = 5_000        #": "search_lag_ms = 500        #",
    "lookups = [30_000, 120_000, 600_000, 3_600_000, 21_600_000]": f"lookups = {list(LOOKUPS)}",
    "backoff_base_ms = 1_000": "backoff_base_ms = 200",
}
"""What the shipped catalogue says of a charge, and the same in seconds instead of hours."""

FORGED: Final = 'actionledger_webhooks_total{provider="simulated",result="signature_mismatch"}'
TIMING: Final = "[timing]\nskew_ms = 1_000\nlease_margin_ms = 1_000\n\n"
"""And of every clock and call: one second."""


def _quick(**numbers: object) -> str:
    """The shipped catalogue with a hasty charge and short calls; `numbers` are further ones."""
    before, name, after = default_catalogue().partition('name = "charge"\n')
    for usual, hasty in QUICK.items():
        after = after.replace(usual, hasty, 1)
    for field, number in numbers.items():
        line = next(line for line in after.splitlines() if line.startswith(f"{field} = "))
        after = after.replace(line, f"{field} = {number}", 1)
    whole = TIMING + before + name + after
    return whole.replace("connect_ms = 2_000", "connect_ms = 500").replace(
        "response_ms = 10_000", "response_ms = 1_000"
    )


def _charge(event: str) -> dict[str, Any]:
    return {
        "operation": "charge",
        "business_event": event,
        "target": "order:A-1842",
        "params": {"customer": "cus_7f"},
        "money": {"minor": 4_990, "currency": "USD"},
        "environment": "production",
    }


def _lost(key: str, times: int, fault: str = "commit_then_drop", **webhooks: str) -> dict[str, Any]:
    """Requests about a charge that are answered by nobody; `webhooks` are steps by number."""
    steps = [{"kind": kind} for kind in webhooks.values()]
    return {
        "match": {"action_key": key},
        "times": times,
        "fault": {"kind": fault},
        "webhooks": steps,
    }


def _facts(scene: Scene, kind: str, key: str) -> list[dict[str, Any]]:
    return [fact for one in scene.witness.seen for fact in facts_of(one, kind, key)]


async def _told_unknown(scene: Scene, key: str) -> None:
    scene.show(await scene.until_fact("the loss of the answer", "attempt.unresolved", key))
    scene.telling.book(await scene.lines())


async def _completed(scene: Scene, key: str) -> dict[str, Any]:
    """The fact that ends it, shown."""
    done = await scene.until_fact("the completion", "action.completed", key)
    scene.show(done)
    (fact,) = facts_of(done, "action.completed", key)
    return fact


async def _claim_one_effect(scene: Scene, calls: int | None = 1) -> None:
    """The provider's book has one effect; in so many calls, where that is claimed."""
    lines = await scene.lines()
    made = set(effects(lines))
    many = "one call" if calls == 1 else f"{len(lines)} calls"
    scene.claim(
        Claim(
            "one_charge",
            f"The provider's book has one charge, of {many}",
            len(made) == 1 and calls in {None, len(lines)},
            f"{sorted(made)} of {len(lines)} calls",
        )
    )


# --- a webhook tells it --------------------------------------------------------------------------


async def _webhook(scene: Scene) -> None:
    event = "renewal-2026-09-04-01"
    key = scene.key("charge", event)
    forged_before = await _forged_count(scene)
    scene.telling.step("A charge is made and its answer is lost; somebody forges a webhook")
    await scene.stage.script([_lost(key, 1, first="forged", second="twice")])
    await scene.ask(_charge(event))
    await _told_unknown(scene, key)
    scene.telling.step("The provider's own webhook comes, and comes again")
    fact = await _completed(scene, key)
    scene.claim(
        Claim(
            "settled_by_webhook",
            "Nobody asked and nobody called again: the webhook completed it",
            fact["proof"] == "webhook" and not _facts(scene, "lookup.started", key),
            f"{fact['proof']}",
        )
    )
    received = await until("both deliveries in the log", lambda: _received(scene))
    names = {one["data"]["event_id"] for one in received}
    counted = [
        one
        for one in _facts(scene, "evidence.recorded", key)
        if one["reference"] == fact["reference"] and one["meaning"] == "effect"
    ]
    scene.claim(
        Claim(
            "counted_once",
            "It was delivered twice under one id and counted once",
            len(received) > len(names) and len(counted) == 1,
            f"{len(received)} deliveries of {len(names)} events, {len(counted)} counted",
        )
    )
    forged = await _forged_count(scene) - forged_before
    scene.claim(
        Claim(
            "forged_refused",
            "The forged one was refused at the door: it is counted, and not in the log",
            forged >= 1 and len(names) == 1,
            f"{forged:.0f} refused, {len(names)} taken",
        )
    )
    await _claim_one_effect(scene)
    await scene.claim_tables()


async def _forged_count(scene: Scene) -> float:
    """Webhooks so far that the door refused because nobody with the secret had signed them."""
    metrics = (await scene.stage.door.get("/metrics")).text
    found = [line for line in metrics.splitlines() if line.startswith(FORGED)]
    return sum(float(line.rpartition(" ")[2]) for line in found)


async def _received(scene: Scene) -> list[dict[str, Any]] | None:
    found = [one for one in scene.witness.seen if one["topic"] == "webhooks"]
    names = [one["data"]["event_id"] for one in found]
    return found if len(names) > len(set(names)) else None


# --- a lookup tells it ---------------------------------------------------------------------------


async def _lookup(scene: Scene) -> None:
    event = "renewal-2026-09-04-02"
    key = scene.key("charge", event)
    scene.telling.say(
        f"The catalogue is published with shorter times: an unknown charge is looked up after "
        f"{LOOKUPS[0]} ms instead of 30 s."
    )
    await scene.stage.publish("catalogue", _quick())
    scene.telling.step("A charge is made, its answer is lost, and no webhook ever comes")
    await scene.stage.script([_lost(key, 1)])
    await scene.ask(_charge(event))
    await _told_unknown(scene, key)
    scene.telling.step("The ledger has the provider asked")
    fact = await _completed(scene, key)
    asked = await scene.until_fact("the question", "lookup.started", key)
    found = await scene.until_fact("the answer", "evidence.recorded", key)
    (question,) = facts_of(asked, "lookup.started", key)
    (evidence,) = facts_of(found, "evidence.recorded", key)
    scene.claim(
        Claim(
            "asked_first",
            "The question stood in the log before the answer, and the answer names it",
            evidence["lookup"] == question["lookup"] == 1
            and asked["timestamp"] <= found["timestamp"],
            f"question {question['lookup']}, answer to {evidence['lookup']}",
        )
    )
    (effect,) = set(effects(await scene.lines()))
    scene.claim(
        Claim(
            "settled_by_lookup",
            "What was found completed it, under the provider's own reference",
            (fact["proof"], fact["reference"]) == ("lookup", effect),
            f"{fact['proof']} {fact['reference']}",
        )
    )
    await _claim_one_effect(scene)
    await scene.claim_tables()


# --- the key window is over ----------------------------------------------------------------------


async def _window(scene: Scene) -> None:
    event = "renewal-2026-09-04-03"
    key = scene.key("charge", event)
    scene.telling.say(
        f"The provider remembers a key for {(MARGIN_MS + USABLE_MS) / 1_000} s here, of which the "
        f"ledger uses {USABLE_MS / 1_000} s; its search is minutes behind, and declared so."
    )
    await scene.stage.publish("catalogue", _quick(search_lag_ms=SEARCH_LAG_MS))
    await scene.stage.behave(ACCOUNT, search_lag_ms=SEARCH_LAG_MS)
    scene.telling.step("A charge is made, and whatever is asked, no answer comes")
    await scene.stage.script([_lost(key, 20)])
    await scene.ask(_charge(event))
    case = await scene.until_fact("the case", "review.opened", key)
    scene.show(case)
    scene.telling.book(await scene.lines())
    started = [
        (one["timestamp"], fact)
        for one in scene.witness.seen
        for fact in facts_of(one, "attempt.started", key)
    ]
    closes_at = started[0][1]["key_expires_at"]
    scene.claim(
        Claim(
            "same_key",
            "While the key was good it was called again, each time under the same key",
            len(started) > 1 and len({fact["provider_key"] for _, fact in started}) == 1,
            f"{len(started)} attempts",
        )
    )
    after = [
        one["timestamp"]
        for one in scene.witness.seen
        if facts_of(one, "lookup.started", key) and one["timestamp"] >= closes_at
    ]
    scene.claim(
        Claim(
            "only_looked_up",
            "Once the window was over nothing was called any more, only looked up",
            all(at < closes_at for at, _ in started) and bool(after),
            f"{len(after)} lookups and {sum(at >= closes_at for at, _ in started)} calls after it",
        )
    )
    (opened,) = facts_of(case, "review.opened", key)
    scene.claim(
        Claim(
            "to_a_person",
            "Then it came to a person: unknown is not failed, however long it lasts",
            opened["reason"] == "lookups_exhausted" and await scene.status(key) == "needs_review",
            str(opened["reason"]),
        )
    )
    await _claim_one_effect(scene, calls=None)
    await scene.claim_tables()


# --- nothing is ever found -----------------------------------------------------------------------


async def _nothing(scene: Scene) -> None:
    event = "renewal-2026-09-04-04"
    key = scene.key("charge", event)
    (mara,) = await registered(scene.stage, "mara")
    await scene.stage.publish("catalogue", _quick(attempts_max=1, lookups=list(FEW_LOOKUPS)))
    scene.telling.step("A request is cut off on its way, and the provider knows of nothing")
    await scene.stage.script([_lost(key, 1, "drop_before_commit")])
    await scene.ask(_charge(event))
    case = await scene.until_fact("the case", "review.opened", key)
    scene.show(case)
    absent = [one["meaning"] for one in _facts(scene, "evidence.recorded", key)]
    scene.claim(
        Claim(
            "never_failed",
            f"It was looked up {len(FEW_LOOKUPS)} times, not found, and not taken for failed",
            absent == ["absent"] * len(FEW_LOOKUPS) and await scene.status(key) == "needs_review",
            f"{absent}",
        )
    )
    sheet = await _when_it_is_safe(scene, mara, key)
    scene.telling.step("Mara looks at the provider's own list, and signs that there is nothing")
    comment = "Their support looked: no charge of that day."
    await mara.hand_in(key, mara.settle(sheet, Move.NO_EFFECT, comment))
    scene.show(await scene.until_fact("the end", "action.failed", key))
    (resolved,) = _facts(scene, "review.resolved", key)
    lines = await scene.lines()
    scene.claim(
        Claim(
            "settled_by_a_person",
            "It failed on her word and under her name, and the provider's book has no effect",
            (resolved["person"], resolved["move"]) == (mara.name, "no_effect")
            and effects(lines) == [],
            f"{resolved['person']} {resolved['move']} {effects(lines)}",
        )
    )
    await scene.claim_tables()


async def _when_it_is_safe(scene: Scene, mara: Colleague, key: str) -> CaseSheet:
    """The case as soon as nothing can come to light any more; claims that it was not offered
    before.
    """
    scene.telling.step("The review desk offers what is safe, and no more")
    first = await mara.case(key)
    for move in first.moves:
        scene.telling.say(f"Safe: {move.move}. {move.sentence}")
    signed = mara.settle(first, Move.NO_EFFECT, "Nothing came so far.")
    refused = await mara.hand_in(key, signed)

    async def offered() -> CaseSheet | None:
        sheet = await mara.case(key)
        return sheet if Move.NO_EFFECT in {one.move for one in sheet.moves} else None

    sheet = await until("a case of which nothing can come to light any more", offered)
    scene.telling.say("A few seconds later the request can have no effect any more: now it is.")
    scene.claim(
        Claim(
            "not_before",
            "That nothing happened may be signed only when nothing can happen any more",
            Move.NO_EFFECT not in {one.move for one in first.moves} and not refused.is_success,
            f"{[one.move for one in first.moves]} {refused.status_code}",
        )
    )
    return sheet


CHAPTERS: Final = (
    Chapter(
        name="webhook",
        line="a lost answer and a webhook: forged, then genuine, then again; counted once",
        title="A webhook tells what became of it",
        tell=_webhook,
    ),
    Chapter(
        name="lookup",
        line="a lost answer and no webhook: the provider is asked, and found it is",
        title="A lookup tells what became of it",
        tell=_lookup,
    ),
    Chapter(
        name="window",
        line="the time of the key is over: from there it is only looked for, then a person",
        title="The key window is over",
        tell=_window,
    ),
    Chapter(
        name="nothing",
        line="nothing is ever found, and the review desk offers only what is safe",
        title="Nothing is ever found",
        tell=_nothing,
    ),
)
