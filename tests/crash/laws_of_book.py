"""Laws that hold the log against the world: the provider's book, and what callers were told.

The book is the truth about effects. Nothing of the ledger's own opinion is believed here: an effect
is a line in the book, and every line must have its cause in the log.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.crash.evidence import Finding, Json, Run, event_of
from tests.crash.laws_of_log import no_effect_of
from tests.crash.plain_fold import Action, Folded, is_open
from tests.crash.plain_table import FINAL

UNDONE = frozenset({"failed", "cancelled", "expired", "denied"})


def lines_by_action(run: Run) -> dict[str, list[Json]]:
    """The book's lines by the action key that the provider was given."""
    found: defaultdict[str, list[Json]] = defaultdict(list)
    for line in run.book:
        found[line["action_key"] or ""].append(line)
    return found


def effects_of(lines: list[Json]) -> list[Json]:
    """Those lines that made an effect."""
    return [line for line in lines if line["effect_id"] is not None]


def s1_one_effect(run: Run, folded: Folded) -> Iterator[Finding]:
    """An action has one effect at most, and of a class that cannot be asked again one attempt."""
    lines = lines_by_action(run)
    for action in folded.actions.values():
        effects = effects_of(lines.get(action.key, []))
        if len(effects) > 1:
            made = [effect["effect_id"] for effect in effects]
            yield Finding("S1", action.key, f"has {len(effects)} effects: {made}")
        allowed = {"none": 1, "lookup": 2}.get(action.state["reliability"])
        counted = _counted_starts(action)
        if allowed is not None and counted > allowed:
            yield Finding("S1", action.key, f"was attempted {counted} times, {allowed} allowed")


def s2_every_request_has_its_cause(run: Run, folded: Folded) -> Iterator[Finding]:
    """Every request at the provider was started in the log before it came, with this very key,
    account and request; and one start makes one request.
    """
    for key, lines in lines_by_action(run).items():
        action = folded.actions.get(key)
        if action is None:
            yield Finding(
                "S2", lines[0]["request_id"], f"{key!r} is at the provider, not in the log"
            )
            continue
        starts = action.told("attempt.started")
        # The book has them in the order in which they were decided; the slow ones come last.
        by_arrival = sorted(lines, key=lambda line: int(line["arrived_at"]))
        for number, line in enumerate(by_arrival, start=1):
            fitting = [
                told
                for told in starts
                if told.fact["provider_key"] == (line["key"] or line["reference"])
                and told.fact["account"] == line["account"]
                and told.fact["request_hash"] == line["request_hash"]
                and told.decided.appended_at <= line["arrived_at"]
            ]
            if len(fitting) < number:
                what = f"request {number} of {key} came with {len(fitting)} starts in the log"
                yield Finding("S2", line["request_id"], what)


def s12_status_and_book_agree(run: Run, folded: Folded) -> Iterator[Finding]:
    """Completed means one effect under the recorded reference; failed means none at all."""
    by_action = lines_by_action(run)
    for action in folded.actions.values():
        effects = effects_of(by_action.get(action.key, []))
        if action.status in UNDONE and effects:
            what = f"is {action.status} and the book has {effects[0]['effect_id']}"
            yield Finding("S12", action.key, what)
        elif action.status == "completed":
            yield from _completed(action, effects)
        elif effects and action.status not in FINAL and not _doubted(action):
            what = f"is {action.status} with nothing open and the book has an effect"
            yield Finding("S12", action.key, what)


def s12_failed_means_nothing_open(_run: Run, folded: Folded) -> Iterator[Finding]:
    """An action fails only when every attempt of it has surely ended without an effect."""
    for action in folded.actions.values():
        for told in action.told("action.failed"):
            version = told.fact["version"]
            for start in action.told("attempt.started"):
                if no_effect_of(action, start.fact["attempt"], version) is None:
                    what = f"{action.key} failed while attempt {start.fact['attempt']} was open"
                    yield Finding("S12", told.decided.place, what)


def s10_acknowledged_intents(run: Run, folded: Folded) -> Iterator[Finding]:
    """An intent that a caller was told is recorded is recorded, once; a refused one was refused."""
    recorded = Counter(
        fact["action"]
        for decided in folded.decisions
        for fact in decided.data.get("facts", ())
        if fact["type"] == "intent.recorded"
    )
    refused = {
        (refusal.get("action"), refusal["code"])
        for decided in folded.decisions
        if (refusal := decided.data.get("refused")) is not None
    }
    for line in run.clients:
        key = line["key"]
        match line["answer"]:
            case "ok" if recorded[key] != 1:
                yield Finding("S10", key, f"was acknowledged and is recorded {recorded[key]} times")
            case "refused" if (key, line["code"]) not in refused:
                yield Finding(
                    "S10", key, f"was refused as {line['code']}, the log has no such word"
                )
            case _:
                continue


def s10_told_is_true(run: Run, folded: Folded) -> Iterator[Finding]:
    """What a caller was told for good is what the log says."""
    for line in run.clients:
        action = folded.actions.get(line["key"])
        if action is None or line["answer"] != "ok" or line["status"] not in FINAL:
            continue
        told, is_now = line["status"], action.status
        if told != is_now:
            yield Finding("S10", action.key, f"a caller was told {told}, it is {is_now}")
        elif told == "completed" and line.get("reference") != action.state["reference"]:
            what = f"a caller was told {line.get('reference')}, it is {action.state['reference']}"
            yield Finding("S10", action.key, what)


def s10_taken_webhooks(run: Run, folded: Folded) -> Iterator[Finding]:
    """A webhook that the provider saw taken is on the log; a forged one never is."""
    kept: set[tuple[str, str]] = set()
    for partition in folded.partitions:
        for raw in run.records("webhooks", partition):
            _, data = event_of(raw)
            kept.add((data.get("account", ""), data.get("event_id", "")))
    for sending in run.webhooks_sent:
        event = (sending["account"], sending["event_id"])
        if sending["state"] == "taken":
            if sending["signature"] == "forged":
                yield Finding("S10", sending["event_id"], "a forged webhook was taken")
            elif event not in kept:
                yield Finding("S10", sending["event_id"], "was taken and is not on the log")


def _counted_starts(action: Action) -> int:
    """Starts that were not given back."""
    return len(action.told("attempt.started")) - len(action.told("attempt.declined"))


def _completed(action: Action, effects: list[Json]) -> Iterator[Finding]:
    """Whether the one effect is the recorded one, about the money that was asked for."""
    reference = action.state["reference"]
    if [effect["effect_id"] for effect in effects] != [reference]:
        made = [effect["effect_id"] for effect in effects]
        yield Finding("S12", action.key, f"is completed as {reference}, the book has {made}")
        return
    (effect,) = effects
    if effect["amount"] != action.state["request"].get("money"):
        yield Finding("S12", action.key, f"the book has another amount: {effect['amount']}")
    proofs = [
        told.fact.get("reference")
        for told in action.history
        if told.fact["type"] in {"attempt.succeeded", "review.resolved"}
        or told.fact.get("meaning") == "effect"
    ]
    if reference not in proofs:
        yield Finding("S12", action.key, "is completed and nobody proved it")


def _doubted(action: Action) -> bool:
    """Whether the ledger says itself that there may be an effect."""
    succeeded = any(one["status"] == "succeeded" for one in action.state["attempts"])
    return is_open(action.state) or succeeded or action.status == "needs_review"
