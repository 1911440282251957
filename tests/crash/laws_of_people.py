"""Laws about people: nothing starts that they had to agree to and did not, and what they were told
counts.

Signatures are verified here once more, from the public keys that the log has adopted and the bytes
that the ledger kept, with nothing of the product. S4 is the number by which the guarantee is known.
"""

import base64
import binascii
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tests.crash.evidence import Finding, Json, Run, event_of
from tests.crash.plain_fold import Action, Folded, Told


def s4_authorised(run: Run, folded: Folded) -> Iterator[Finding]:
    """Before a start that people had to agree to as many of them did as had to: each with a proven
    signature over this very action, request, dry run, policy and round, in time, and none of them
    who asks for it.
    """
    people = People.of(folded)
    ledger = generation(run)
    for action in folded.actions.values():
        asking = _Asking()
        for told in action.history:
            if told.fact["type"] == "attempt.started" and asking.asks is not None:
                for why in _objections(action, asking, told, people, ledger):
                    what = f"attempt {told.fact['attempt']} of {action.key}: {why}"
                    yield Finding("S4", told.decided.place, what)
            asking.take(told.fact)


def s4_denied_never_begins(_run: Run, folded: Folded) -> Iterator[Finding]:
    """What was denied has no attempt behind it that is not over without an effect."""
    for action in folded.actions.values():
        for denied in action.told("action.denied"):
            after = [one for one in action.told("attempt.started") if _is_after(one, denied)]
            if after:
                what = f"{action.key} was denied and is attempted"
                yield Finding("S4", after[0].decided.place, what)


def s10_told_decisions(run: Run, folded: Folded) -> Iterator[Finding]:
    """Whoever was told that a decision of theirs counts finds it in the ledger."""
    for line in run.people:
        action = folded.actions.get(line["key"])
        if line["answer"] != "ok" or line["replayed"]:
            continue
        kind = _FACT_OF[line["decision"]]
        facts = [] if action is None else [told.fact for told in action.told(kind)]
        if not any(fact.get("person") == line["person"] for fact in facts):
            what = f"{line['person']} was told that {line['decision']} counts"
            yield Finding("S10", line["key"], what)


_FACT_OF = {
    "approve": "approval.granted",
    "deny": "action.denied",
    "withdraw": "approval.withdrawn",
}
_BOUND = ("key", "tenant", "environment", "request_hash", "preview_hash", "policy_hash", "row")


@dataclass(slots=True)
class _Asking:
    """What people are asked about an action, as its facts say one after the other."""

    asks: Json | None = None
    asked: Json | None = None
    groups: list[str] = field(default_factory=list)
    grants: dict[str, Json] = field(default_factory=dict)
    is_over: bool = False

    def take(self, fact: Json) -> None:
        """Move on by one fact."""
        match fact["type"]:
            case "policy.decided":
                self.asks = fact.get("asks")
            case "approval.requested":
                self.asked, self.groups = fact, list(fact.get("groups", ()))
                self.grants, self.is_over = {}, False
            case "approval.escalated":
                self.groups += fact["groups"]
            case "approval.granted":
                self.grants[fact["person"]] = fact
            case "approval.withdrawn":
                self.grants.pop(fact["person"], None)
            case "approval.ended":
                self.is_over = True
            case _:
                return


@dataclass(frozen=True, slots=True)
class People:
    """Who may decide, by the newest document that was adopted: their keys, and their groups."""

    keys: dict[str, tuple[str, str]]
    groups: dict[str, list[str]]

    @classmethod
    def of(cls, folded: Folded) -> "People":
        """The people of a run."""
        text = folded.people[-1] if folded.people else ""
        found: list[Json] = tomllib.loads(text).get("person", [])
        keys = {
            key["id"]: (one["name"], key["public"]) for one in found for key in one.get("keys", ())
        }
        return cls(keys, {one["name"]: one.get("groups", []) for one in found})

    def statement(self, grant: Json) -> Json | None:
        """What somebody signed, if their key proves it."""
        head, _, proof = str(grant["signed"].get("jws", "")).rpartition(".")
        _, _, payload = head.partition(".")
        name, public = self.keys.get(grant["key_id"], ("", ""))
        if not name or name != grant["person"]:
            return None
        try:
            key = Ed25519PublicKey.from_public_bytes(_decoded(public))
            key.verify(_decoded(proof), head.encode())
            said: Json = orjson.loads(_decoded(payload))
        except (InvalidSignature, ValueError, binascii.Error):
            return None
        return said


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _objections(
    action: Action, asking: _Asking, start: Told, people: People, ledger: str | None
) -> Iterator[str]:
    now, asked = start.decided.data["decided_at"], asking.asked
    if asked is None or asking.asks is None:
        yield "nobody was asked"
        return
    if asking.is_over:
        yield "what people were asked was over"
    if now >= asked["expires_at"]:
        yield "what people were asked had expired"
    if len(asking.grants) < max(asked["quorum"], asking.asks["quorum"]):
        yield f"{len(asking.grants)} people agreed"
    rests = start.fact.get("approval", {})
    signed = [grant["signed"] for grant in asking.grants.values()]
    if rests.get("nonce") != asked["nonce"] or rests.get("signed") != signed:
        yield "its start does not carry what people signed"
    for person, grant in asking.grants.items():
        said = people.statement(grant)
        if said is None:
            yield f"the signature of {person} proves nothing"
            continue
        groups = asking.groups
        if groups and set(groups).isdisjoint(people.groups.get(person, ())):
            yield f"{person} is in none of {groups}"
        yield from _wrong_with(action, asked, said, now, ledger)


def _wrong_with(
    action: Action, asked: Json, said: Json, now: int, ledger: str | None
) -> Iterator[str]:
    """What of a statement is not about this action as people were asked about it."""
    person, request = said["approver"], action.state["request"]
    bound: dict[str, Any] = {
        "key": action.key,
        "tenant": action.key.split(":")[2],
        "environment": request["environment"],
        "request_hash": action.state["request_hash"],
        "preview_hash": asked["preview_hash"],
        "policy_hash": asked["policy_hash"],
        "row": asked["row"],
    }
    for name in _BOUND:
        if said.get(name) != bound[name]:
            yield f"{person} signed another {name}"
    if ledger is not None and said["ledger"] != ledger:
        yield f"{person} signed for another ledger"
    if said["decision"] != "approve" or said["nonce"] != asked["nonce"]:
        yield f"{person} did not agree to this"
    if now >= said["expires_at"]:
        yield f"what {person} signed had expired"
    if person in {request["principal"], *action.state.get("behalf", ())}:
        yield f"{person} asks for it"


def _is_after(one: Told, other: Told) -> bool:
    return bool(one.fact["version"] > other.fact["version"])


def generation(run: Run) -> str | None:
    """How the log is called, by its first record."""
    records = run.records("ledger", 0)
    _, data = event_of(records[0]) if records else ("", {})
    found: str | None = data.get("generation")
    return found
