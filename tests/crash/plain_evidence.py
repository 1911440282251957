"""What evidence tells of an action, once more and plain: a part of `plain_fold`.

Written from the rules and not from the product. What is told is a set that no order changes, and
under which reason a case is shown says its weight.
"""

from typing import Any

Json = dict[str, Any]
NAMES_MAX, REVERSALS_MAX = 16, 64
SOURCES_KEPT = 256
WEIGHTS = (
    "second_effect",
    "returned_too_much",
    "evidence_conflicts",
    "amount_differs",
    "effect_without_attempt",
    "reversed_elsewhere",
    "partly_succeeded",
)
"""What evidence gives a case for, the weightiest first."""


def tell(state: Json, fact: Json) -> None:
    """Remember what a fact tells, before it changes anything else of the action."""
    told: Json = state.get("told") or _nothing()
    name, kind = fact.get("reference"), fact["type"]
    if kind == "evidence.recorded":
        _tell_evidence(state, told, fact)
    elif kind == "attempt.unresolved" and name is not None:
        _effect(state, told, name)
        _keep(told["done"], fact["attempt"])
    elif kind == "attempt.refused" and fact.get("retry") == "never":
        told["for_good"] = fact["code"]
    elif kind in {"attempt.succeeded", "action.completed"}:
        before = state.get("reference")
        if before is not None and before != name:
            _name(told["effects"], before)
    if told != _nothing():
        state["told"] = told


def ask(state: Json, fact: Json, now: int) -> None:
    """A question to the provider: the action waits for its answer."""
    state.pop("timer", None)
    state["lookups_asked"] = fact["lookup"]
    asked: Json = {
        "number": fact["lookup"],
        "attempts_upto": fact["attempts_upto"],
        "asked_at": now,
        "answer_by": fact["answer_by"],
    }
    state["lookup"], state["question"] = asked, dict(asked)


def keep(state: Json, fact: Json, _now: int) -> None:
    """A piece of evidence, by its source; it may be the answer that was waited for."""
    state["sources"] = [*state["sources"], fact["source_id"]][-SOURCES_KEPT:]
    tell(state, fact)
    if "question" in state and fact.get("lookup") == state["question"]["number"]:
        del state["question"]
    if "lookup" in state and fact.get("lookup") == state["lookup"]["number"]:
        del state["lookup"]
        state["lookups_answered"] += fact["meaning"] != "inconclusive"


def open_case(state: Json, fact: Json, now: int) -> None:
    """A person's case, or one more reason for the one that is open; the weightiest shows."""
    reason, before = fact["reason"], state.get("case")
    names = {"names": fact["names"]} if "names" in fact else {}
    opened = {"opened_version": fact["version"], "opened_at": now}
    others: list[str] = []
    if before is not None:
        opened = {name: before[name] for name in opened}
        known = {before["reason"], *before["others"]} - {reason}
        if known and _weight(reason) > min(map(_weight, known)):
            reason, names = (
                before["reason"],
                {"names": before["names"]} if "names" in before else {},
            )
        others = sorted({*known, fact["reason"]} - {reason})
    state["review"] = reason
    state["case"] = {
        **opened,
        "reason": reason,
        "moved_version": fact["version"],
        **names,
        "others": others,
    }
    if fact["reason"] == "lookups_exhausted":
        state.pop("lookup", None)
    if fact["reason"] == "second_effect":
        state["told"] = (state.get("told") or _nothing()) | {"done_again": True}
    if fact["reason"] in {"reversed_elsewhere", "returned_too_much"} and "told" in state:
        for one in state["told"]["reversals"]:
            one["raised"] = True


def _nothing() -> Json:
    lists = ("effects", "nothing", "done", "denied", "reversals", "pending")
    return {name: [] for name in lists}


def _weight(reason: str) -> int:
    return WEIGHTS.index(reason) if reason in WEIGHTS else len(WEIGHTS)


def _keep(known: list[Any], one: object) -> None:
    if one not in known:
        known.append(one)


def _name(known: list[Any], name: str) -> None:
    if len(known) < NAMES_MAX:
        _keep(known, name)


def _effect(state: Json, told: Json, name: str) -> None:
    if name != state.get("reference"):
        _name(told["effects"], name)


def _tell_evidence(state: Json, told: Json, fact: Json) -> None:
    name, meaning = fact.get("reference"), fact["meaning"]
    if meaning == "effect":
        _effect(state, told, state["key"] if name is None else name)
        asked = state["request"].get("money")
        if fact.get("kind") == "report":
            _keep(told["done"], fact["attempts_upto"])
        elif asked is not None and fact.get("money") != asked:
            told["other_amount"] = True
    elif meaning in {"no_effect", "absent"}:
        for number in fact.get("denies", ()):
            _keep(told["denied"], number)
        if name is not None:
            _name(told["nothing"], name)
        if fact.get("for_good"):
            told["for_good"] = fact.get("code", "no_effect")
    elif meaning == "pending" and name is not None and fact.get("reverses") is None:
        _name(told["pending"], name)
    elif meaning == "reversed":
        _given_back(state, told["reversals"], fact)


def _given_back(state: Json, known: list[Json], fact: Json) -> None:
    """Each reversal once of each effect, by its own name or by its source; of two amounts the
    larger.
    """
    name, reverses, money = fact.get("reference"), fact.get("reverses"), fact.get("money")
    asked = state["request"].get("money")
    own = name if reverses is not None and name not in {None, reverses} else fact["source_id"]
    minor = other = None
    if money is not None and asked is not None:
        is_counted = money["currency"] == asked["currency"]
        minor, other = (money["minor"], None) if is_counted else (None, True)
    for one in known:
        if (one["name"], one.get("reverses")) == (own, reverses):
            if minor is not None and minor > one.get("minor", -1):
                one["minor"], one["raised"] = minor, False
            if other:
                one["other_currency"] = True
            return
    said = {"name": own, "minor": minor, "reference": name, "reverses": reverses, "raised": False}
    said["other_currency"] = other
    if len(known) < REVERSALS_MAX:
        known.append({key: value for key, value in said.items() if value is not None})
