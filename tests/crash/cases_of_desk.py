"""What a person settled in the small run, and every way in which it can be wrong: the proof that
the laws of the desk find something.
"""

from collections.abc import Callable, Iterator
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.crash import laws_of_desk as desk
from tests.crash.evidence import Finding, Json, Run
from tests.crash.plain_fold import Folded
from tests.crash.small_run import (
    ADA,
    EMAIL,
    LEDGER,
    T0,
    changed,
    decision_with,
    signed_by_ada,
)

Broken = Callable[[Run], Run]
Law = Callable[[Run, Folded], Iterator[Finding]]
_WORD = "I have read the mailbox."


def said(**changes: Any) -> Json:  # noqa: ANN401 - any JSON
    """What ada signs of the e-mail that nobody could find out about."""
    return {
        "v": 1,
        "ledger": LEDGER,
        "decision": "resolve",
        "move": "effect_exists",
        "approver": "ada",
        "tenant": "acme",
        "environment": "test",
        "key": EMAIL,
        "request_hash": f"hash of {EMAIL}",
        "case": 5,
        "moved": 5,
        "reference": "em_1",
        "issued_at": T0,
        "expires_at": T0 + 600_000,
        "comment": _WORD,
        **changes,
    }


def settled(
    *more: Json, key: Ed25519PrivateKey = ADA, signed: Json | None = None, **changes: object
) -> Broken:
    """The case is settled, in a decision with other facts, by what ada signed or by something
    else.
    """
    resolved = {
        "type": "review.resolved",
        "action": EMAIL,
        "move": "effect_exists",
        "case": 5,
        "person": "ada",
        "key_id": "ada's key",
        "reference": "em_1",
        "comment": _WORD,
        "signed": signed_by_ada(said() if signed is None else signed, key),
        **changes,
    }

    def change(data: Json) -> None:
        data["facts"] += [{**one, "action": EMAIL} for one in (resolved, *more)]
        for place, one in enumerate(data["facts"]):
            one["version"] = data["facts"][0]["version"] + place

    def of_request(data: Json) -> None:
        data["facts"][0]["request"] |= {"environment": "test", "principal": "agent:mail"}

    def broken(run: Run) -> Run:
        place = decision_with(run, "intent.recorded", EMAIL)
        with_more = changed(run, "ledger", place, of_request)
        return changed(
            with_more, "ledger", decision_with(with_more, "review.opened", EMAIL), change
        )

    return broken


def without_word(*facts: Json) -> Broken:
    """The same facts, and nobody has signed anything."""

    def change(data: Json) -> None:
        data["facts"] += [{**one, "action": EMAIL, "version": 9} for one in facts]

    return lambda run: changed(run, "ledger", decision_with(run, "review.opened", EMAIL), change)


COMPLETED: Json = {"type": "action.completed", "proof": "person", "reference": "em_1"}
ABSENT: Json = {"type": "attempt.absent", "attempt": 1, "source_id": "person:5"}
FAILED: Json = {"type": "action.failed", "code": "resolved_no_effect"}
RIGHT = settled(COMPLETED)
"""What keeps every law of the desk."""

CASES_OF_DESK: tuple[tuple[Law, str, Broken], ...] = (
    *(
        (desk.s5_settled_by_a_person, f"another {name}", settled(signed=said(**{name: value})))
        for name, value in {
            "decision": "approve",
            "move": "no_effect",
            "approver": "ben",
            "tenant": "globex",
            "environment": "live",
            "key": "email:v1:acme:event-9",
            "request_hash": "x",
            "case": 4,
            "moved": 4,
            "reference": "em_2",
            "comment": "Something else.",
            "ledger": "another",
            "issued_at": T0 - 1,
        }.items()
    ),
    (
        desk.s5_settled_by_a_person,
        "forged",
        settled(key=Ed25519PrivateKey.from_private_bytes(b"eve" * 10 + b"!!")),
    ),
    (desk.s5_settled_by_a_person, "of nobody", settled(person="ben")),
    (desk.s5_a_persons_word_is_signed, "completed", without_word(COMPLETED)),
    (desk.s5_a_persons_word_is_signed, "closed", without_word(ABSENT)),
    (desk.s5_a_persons_word_is_signed, "failed", without_word(FAILED)),
    (desk.s5_a_persons_word_is_signed, "the contrary", settled(FAILED)),
    (
        desk.s5_a_persons_word_is_signed,
        "another reference",
        settled({**COMPLETED, "reference": "em_2"}),
    ),
)
