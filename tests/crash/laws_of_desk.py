"""Laws about the review desk: what a person settled they have signed, for this case as it stood,
and nothing else stands on a person's word.

Signatures are verified once more, with nothing of the product. S5 is the number by which the
guarantee is known: a case ends by proof, or by a signed resolution.
"""

from collections.abc import Iterator

from tests.crash.evidence import Finding, Json, Run
from tests.crash.laws_of_people import People, generation
from tests.crash.plain_fold import Action, Folded, Told

_TELLING = frozenset(
    {
        "review.opened",
        "evidence.recorded",
        "attempt.declined",
        "attempt.succeeded",
        "attempt.refused",
        "attempt.not_sent",
        "attempt.unresolved",
        "attempt.absent",
    }
)
VALID_MS = 600_000


def s5_settled_by_a_person(run: Run, folded: Folded) -> Iterator[Finding]:
    """Whoever settled a case has signed it: this case, with all that was known of it, in time, and
    it is not they who ask for the action.
    """
    people = People.of(folded)
    ledger = generation(run)
    for action in folded.actions.values():
        case, moved = None, 0
        for told in action.history:
            kind, version = told.fact["type"], told.fact["version"]
            if kind == "review.resolved":
                for why in _objections(action, told, people, (case, moved), ledger):
                    what = f"{action.key}: {why}"
                    yield Finding("S5", told.decided.place, what)
                case = None
            elif kind == "review.opened":
                case, moved = version if case is None else case, version
            elif kind in _TELLING:
                moved = version
            elif kind == "action.completed":
                case = None


def s5_a_persons_word_is_signed(_run: Run, folded: Folded) -> Iterator[Finding]:
    """What stands on a person's word follows their resolution, in its decision, and says the
    same.
    """
    for action in folded.actions.values():
        for told in action.history:
            move = _move_it_needs(told.fact)
            if move is None:
                continue
            settled = [
                one.fact
                for one in action.told("review.resolved")
                if one.decided is told.decided and one.ordinal < told.ordinal
            ]
            if not any(_says(one, told.fact, move) for one in settled):
                what = f"{told.fact['type']} of {action.key}, and no person has signed it"
                yield Finding("S5", told.decided.place, what)


def _move_it_needs(fact: Json) -> frozenset[str] | None:
    """By which moves a person can have said so; None where it is no person's word."""
    if fact["type"] == "action.completed" and fact["proof"] == "person":
        return frozenset({"effect_exists"})
    if fact["type"] == "attempt.absent" and str(fact.get("source_id")).startswith("person:"):
        return frozenset({"no_effect", "try_again"})
    if fact["type"] == "action.failed" and fact["code"] == "resolved_no_effect":
        return frozenset({"no_effect"})
    return None


def _says(resolved: Json, fact: Json, moves: frozenset[str]) -> bool:
    if fact["type"] == "action.completed" and resolved.get("reference") != fact["reference"]:
        return False
    return resolved["move"] in moves


def _objections(
    action: Action,
    told: Told,
    people: People,
    stood: tuple[int | None, int],
    ledger: str | None,
) -> Iterator[str]:
    fact, person = told.fact, told.fact["person"]
    said = people.statement(fact)
    if said is None:
        yield f"the signature of {person} proves nothing"
        return
    request, (case, moved) = action.state["request"], stood
    bound: Json = {
        "decision": "resolve",
        "key": action.key,
        "tenant": action.key.split(":")[2],
        "environment": request["environment"],
        "request_hash": action.state["request_hash"],
        "approver": person,
        "move": fact["move"],
        "reference": fact.get("reference"),
        "comment": fact["comment"],
        "case": case,
        "moved": moved,
    }
    for name, value in bound.items():
        if said.get(name) != value:
            yield f"{person} signed another {name}"
    if ledger is not None and said["ledger"] != ledger:
        yield f"{person} signed for another ledger"
    if said["expires_at"] > said["issued_at"] + VALID_MS:
        yield f"what {person} signed holds for too long"
    if told.decided.data["decided_at"] < said["issued_at"] - VALID_MS:
        yield f"{person} signed it in the future"
    if person in {request["principal"], *action.state.get("behalf", ())}:
        yield f"{person} asks for it"
