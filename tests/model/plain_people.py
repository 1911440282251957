"""Asking people, once more in a dictionary: what the rules say a word is worth, and until when.

Written from the rules and not from the product, over plain values. It folds facts as JSON,
foretells what the ledger must answer to every word of a person, and says of a start what is wrong
with it.
"""

from typing import Any, Final

Json = dict[str, Any]
BEFORE: Final = frozenset({"proposed", "awaiting_approval", "ready"})
FINAL: Final = frozenset({"completed", "failed", "denied", "expired", "cancelled"})


def new(fact: Json) -> Json:
    """An action as it is recorded."""
    return {
        "key": fact["action"],
        "status": "proposed",
        "version": fact["version"],
        "hash": fact["request_hash"],
        "environment": fact["request"]["environment"],
        "asks_for": {fact["request"]["principal"], *fact.get("behalf", ())},
        "row": None,
        "asks": None,
        "shown": None,
        "round": None,
        "nonces": [],
        "denied_by": None,
        "deadline": fact["step_deadline_at"],
        "tokens": [],
        "counted": 0,
        "running": False,
    }


def begun(action: Json) -> bool:
    """Whether a start was acted on."""
    return bool(action["running"] or action["counted"])


def is_met(action: Json) -> bool:
    """Whether enough people agreed, and it is not over."""
    asked = action["round"]
    return bool(asked and not asked["ended"] and len(asked["yes"]) >= asked["quorum"])


def fold(action: Json, fact: Json) -> None:
    """One fact more."""
    kind = fact["type"]
    action["version"] += 1
    match kind:
        case "policy.decided":
            action["row"], action["asks"] = fact["row"], fact.get("asks")
            action["outcome"] = fact["outcome"]
        case "preview.recorded":
            action["shown"] = fact["preview_hash"]
        case "approval.requested":
            kept = ("nonce", "policy_hash", "row", "preview_hash", "quorum", "expires_at")
            action["round"] = {name: fact[name] for name in kept} | {
                "groups": set(fact["groups"]),
                "yes": {},
                "void": {},
                "ended": None,
            }
            action["nonces"].append(fact["nonce"])
        case "approval.escalated":
            action["round"]["groups"] |= set(fact["groups"])
        case "approval.granted":
            action["round"]["yes"][fact["person"]] = (fact["expires_at"], fact["key_id"])
        case "approval.withdrawn":
            del action["round"]["yes"][fact["person"]]
            action["round"]["void"][fact["person"]] = fact["void_until"]
        case "approval.ended":
            action["round"]["ended"] = fact["reason"]
        case "action.denied":
            action["denied_by"] = fact["by"]
        case "attempt.started":
            action["tokens"].append(fact["fencing_token"])
            action["running"] = True
        case "attempt.declined" | "attempt.refused" | "attempt.not_sent" | "attempt.unresolved":
            action["running"] = False
            action["counted"] += kind != "attempt.declined"
        case _:
            pass


def worth(action: Json | None, said: Json, who: Json | None, at: int, skew_ms: int) -> str:
    """What the ledger must say to a word that was proven, with who signed it as registered now:
    the fact that it becomes, the answer that it changes nothing, or its refusal.
    """
    if action is None:
        return "unknown_action"
    about = _about_this(action, said) or _by_whom(action, said, who)
    if about is not None:
        return about
    asked = action["round"]
    if asked is None:
        return "nothing_asked"
    yes = said["decision"] == "approve"
    alive = asked["ended"] is None
    if yes and alive and said["nonce"] == asked["nonce"] and said["approver"] in asked["yes"]:
        return "approved_already"
    again = _no_more_than_once(action, asked, said)
    if again is not None:
        return again
    if action["status"] in FINAL:
        return "already_final"
    if action["status"] == "needs_review":
        return "in_review"
    if begun(action) and action["status"] != "awaiting_approval":
        return "approval_spent"
    late = _in_time(asked, said, at, skew_ms)
    if late is not None:
        return late
    assert who is not None
    if asked["groups"] and not asked["groups"] & set(who["groups"]):
        return "not_in_group"
    if said["decision"] == "deny":
        return "action.denied"
    if said["decision"] == "withdraw":
        granted = said["approver"] in asked["yes"]
        return "approval.withdrawn" if granted else "nothing_to_withdraw"
    return "approved_already" if is_met(action) else "approval.granted"


def _no_more_than_once(action: Json, asked: Json, said: Json) -> str | None:
    """A no, or a yes taken back, that was counted already."""
    if said["nonce"] != asked["nonce"]:
        return None
    if said["decision"] == "deny":
        return "denied_already" if action["denied_by"] == "person" else None
    took_back = said["approver"] in asked["void"] and said["approver"] not in asked["yes"]
    return "withdrawn_already" if said["decision"] == "withdraw" and took_back else None


def _about_this(action: Json, said: Json) -> str | None:
    for name, wanted, why in (
        ("ledger", "generation-1", "other_ledger"),
        ("key", action["key"], "other_action"),
        ("tenant", action["key"].split(":")[2], "other_tenant"),
        ("environment", action["environment"], "other_environment"),
        ("request_hash", action["hash"], "other_request"),
    ):
        if said[name] != wanted:
            return why
    return None


def _by_whom(action: Json, said: Json, who: Json | None) -> str | None:
    if who is None:
        return "unknown_signer"
    if who["name"] != said["approver"]:
        return "other_person"
    if "*" not in who["tenants"] and said["tenant"] not in who["tenants"]:
        return "not_for_tenant"
    if action["asks_for"] & {who["name"], *who["principals"]}:
        return "requester_decides"
    return None


def _in_time(asked: Json, said: Json, at: int, skew_ms: int) -> str | None:
    if said["nonce"] != asked["nonce"]:
        return "nonce_dead"
    if (said["policy_hash"], said["row"]) != (asked["policy_hash"], asked["row"]):
        return "other_policy"
    if said["preview_hash"] != asked["preview_hash"]:
        return "other_preview"
    if asked["ended"] not in {None, "expired"}:
        return "nonce_dead"
    void_until = asked["void"].get(said["approver"], -1)
    if said["decision"] != "deny" and said["issued_at"] <= void_until:
        return "nonce_dead"
    over_at = min(asked["expires_at"], said["expires_at"])
    if asked["ended"] is not None or at >= over_at:
        return "approval_expired"
    if said["expires_at"] > asked["expires_at"]:
        return "expiry_beyond_request"
    return "issued_in_future" if said["issued_at"] > at + skew_ms else None


def wrong_with_start(
    action: Json, start: Json, row: Json, registered: dict[str, Json], now: int
) -> str | None:
    """S4, S9: why a start must not be, or None. `row` is the one of the table in force,
    `registered` the people by the keys of theirs that count.
    """
    if not begun(action):
        if row["outcome"] == "deny":
            return "the table refuses it"
        if (action["row"], action["asks"]) != (row["name"], row["asks"]):
            return "ruled by a table of another time"
    given = start.get("approval")
    if action["asks"] is None:
        return None if given is None else "a word that nobody asked for"
    asked = action["round"]
    if given is None or asked is None or not is_met(action):
        return "on too few words"
    if given["nonce"] != asked["nonce"] or len(given["signed"]) != len(asked["yes"]):
        return "on other words"
    for name, (expires_at, key_id) in asked["yes"].items():
        who = registered.get(key_id)
        if now >= min(expires_at, asked["expires_at"]):
            return f"the word of {name} is over"
        if who is None or who["name"] != name:
            return f"{name} does not count any more"
        if asked["groups"] and not asked["groups"] & set(who["groups"]):
            return f"{name} is in another group"
        if action["asks_for"] & {name, *who["principals"]}:
            return f"{name} asks for it"
    return None
