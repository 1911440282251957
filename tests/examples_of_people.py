"""People, a table that asks them, and every fact and input of asking and answering, with everything
filled in that a test does not care about.

Times are milliseconds after T0, as in `tests.examples`. Signatures are real: each person has a key
of its own, drawn from a seed, so equal statements are equal bytes. Nothing here decides anything.
"""

import hashlib
from dataclasses import replace
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger.core import facts as f
from ledger.core import inputs as i
from ledger.core.catalogue import Catalogue
from ledger.core.config import Config
from ledger.core.limits import RESOLUTION_VALID_MS_MAX
from ledger.core.operation import PEOPLE_MS_DEFAULT
from ledger.core.people import People, Person, PersonKey, people_hash
from ledger.core.policy import Asks, Outcome, Policy, Row
from ledger.core.preview import Change, Check, Foreseen, Preview, preview_hash
from ledger.core.request import request_hash
from ledger.core.statement import Move, Resolution, Say, Signable, Signed, SignedByKey, Statement
from ledger.signing.keys import SigningKey, sign
from tests.examples import CHARGE, CONFIG, STEP_MS, T0, operation_of, request, started

GENERATION: Final = "generation-1"
PEOPLE_MS: Final = PEOPLE_MS_DEFAULT
VALID_MS: Final = 120_000
ESCALATE_MS: Final = 60_000


def key_of(seed: int) -> SigningKey:
    """The key of a seed from 1 to 255."""
    return SigningKey.of(Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32))


KEYS_OF: Final = {
    name: key_of(seed)
    for seed, name in enumerate(("ada", "ben", "cleo", "dan", "eve", "zoe", "ann"), start=1)
}
"""A private key for each name; zoe's and ann's are registered nowhere."""


def registered(name: str) -> PersonKey:
    """Somebody's public key, as a document of people holds it."""
    key = KEYS_OF[name]
    return PersonKey(id=key.id, kind="ed25519", public=key.public)


def person(name: str, *groups: str, **changes: Any) -> Person:  # noqa: ANN401 - fields of a model
    """Somebody with a key, for every tenant."""
    fields = {"name": name, "groups": groups, "tenants": ("*",), "keys": (registered(name),)}
    return Person.model_validate(fields | changes)


ADA: Final = person("ada", "finance")
BEN: Final = person("ben", "finance")
CLEO: Final = person("cleo", "managers")
DAN: Final = person("dan", "finance", tenants=("globex",))
EVE: Final = person("eve", "finance", principals=("agent:billing",))
EVERYBODY: Final = (ADA, BEN, CLEO, DAN, EVE)
"""Two of finance, a manager, one for another tenant, and the one who asks as the agent."""


def people(*registered_people: Person) -> People:
    """Exactly these people."""
    names = "\n".join(one.model_dump_json() for one in registered_people)
    return People(registered_people, people_hash(names))


PEOPLE: Final = people(*EVERYBODY)


def table(
    name: str = "money",
    outcome: Outcome = Outcome.PEOPLE,
    *,
    version: int = 1,
    **asks: Any,  # noqa: ANN401 - fields of a model
) -> Policy:
    """A decision table of one row, which every action comes to. `version` makes another text of the
    same.
    """
    asked = {"groups": ("finance",), "valid_ms": VALID_MS} | asks if outcome.asks_people else {}
    row = Row.model_validate(
        {"name": name, "outcome": outcome, "reason": "A test says so.", **asked}
    )
    text = f"{version} {row.model_dump_json()}"
    return Policy((row,), f"sha256:{hashlib.sha256(text.encode()).hexdigest()}")


ONE: Final = table()
TWO: Final = table("pairs", quorum=2)
FREE: Final = table("free", Outcome.AUTOMATIC)
NEVER: Final = table("never", Outcome.DENY)
ESCALATING: Final = table("slow", escalate_after_ms=ESCALATE_MS, escalate_to=("managers",))


def under(policy: Policy = ONE, registered_people: People = PEOPLE, **declared: object) -> Config:
    """The configuration with a table and people, and every operation declared otherwise in some
    fields.
    """
    operations = tuple(one.model_copy(update=declared) for one in CONFIG.catalogue.operations)
    catalogue = Catalogue(operations, CONFIG.content_hash, CONFIG.catalogue.timing)
    return replace(CONFIG, catalogue=catalogue, policy=policy, people=registered_people)


def asks_of(policy: Policy) -> Asks:
    """What the one row of a table asks for."""
    asks = policy.rows[0].asks
    assert asks is not None
    return asks


def nonce_of(number: int, *, offset: int, at: int, key: str = CHARGE) -> str:
    """The nonce of a round that was asked for at a place and time."""
    text = "\n".join(("actionledger.nonce.v1", key, str(number), str(offset), str(T0 + at)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


FORESEEN: Final = Foreseen(
    effect="Takes 49.90 EUR from the card of order A-1842.",
    target="order:A-1842",
    scope="one order",
    observed={"balance": 10_000, "state": "open"},
)


def preview(
    policy: Policy = ONE, *, key: str = CHARGE, foreseen: Foreseen | None = None
) -> Preview:
    """What people are shown."""
    asked, operation = request(key), operation_of(key)
    name = f"{asked.operation} v{asked.version}"
    row = policy.rows[0].name
    return Preview(
        request_hash=request_hash(asked),
        provider=operation.provider,
        account=operation.account,
        target=asked.target,
        money=asked.money,
        foreseen=foreseen,
        checks=(
            Check(name="may_ask", passed=True, detail=f"{asked.principal} may ask for {name}"),
            Check(
                name="declared", passed=True, detail=f"the request fits the declaration of {name}"
            ),
            Check(name="automatic", passed=False, detail=f"row {row} asks for people to agree"),
        ),
    )


# --- inputs ------------------------------------------------------------------------------------


def statement(
    name: str = "ada",
    decision: Say = Say.APPROVE,
    *,
    key: str = CHARGE,
    policy: Policy = ONE,
    nonce: str = "nonce-1",
    at: int = 0,
    until: int = VALID_MS,
    **changes: Any,  # noqa: ANN401 - fields of a model
) -> Statement:
    """What somebody signs about what was asked, issued `at` and good `until`."""
    shown = preview_hash(preview(policy, key=key))
    fields: dict[str, Any] = {
        "ledger": GENERATION,
        "decision": decision,
        "approver": name,
        "tenant": "acme",
        "environment": "live",
        "key": key,
        "request_hash": request_hash(request(key)),
        "preview_hash": shown,
        "policy_hash": policy.content_hash,
        "row": policy.rows[0].name,
        "nonce": nonce,
        "issued_at": T0 + at,
        "expires_at": T0 + until,
    }
    return Statement.model_validate(fields | changes)


def resolution(
    move: Move,
    name: str = "ada",
    *,
    case: int,
    moved: int | None = None,
    key: str = CHARGE,
    at: int = 0,
    until: int | None = None,
    **changes: Any,  # noqa: ANN401 - fields of a model
) -> Resolution:
    """What somebody signs about a case as it stood, issued `at` and good for its whole time or
    `until`.
    """
    fields: dict[str, Any] = {
        "ledger": GENERATION,
        "move": move,
        "approver": name,
        "tenant": "acme",
        "environment": "live",
        "key": key,
        "request_hash": request_hash(request(key)),
        "case": case,
        "moved": case if moved is None else moved,
        "reference": "ch_person" if move is Move.EFFECT_EXISTS else None,
        "issued_at": T0 + at,
        "expires_at": T0 + (at + RESOLUTION_VALID_MS_MAX if until is None else until),
        "comment": "I looked at the provider's own pages.",
    }
    return Resolution.model_validate(fields | changes)


def signed(said: Signable, name: str | None = None) -> SignedByKey:
    """A statement under its approver's signature, or under that of another."""
    return sign(said, KEYS_OF[said.approver if name is None else name])


def judge(said: Signable, name: str | None = None) -> i.Judge:
    """A decision as it is sent."""
    return i.Judge(key=said.key, signed=signed(said, name))


def judged(said: Signable, *, at: int | None = None, by: str | None = None) -> i.Judged:
    """A decision whose signature was proven, appended when it was issued or `at`."""
    appended_at = said.issued_at if at is None else T0 + at
    proof, key_id = signed(said, by), KEYS_OF[said.approver if by is None else by].id
    return i.Judged(said.key, proof, appended_at, GENERATION, said, key_id)


def approves(name: str = "ada", *, at: int = 0, **changes: Any) -> i.Judged:  # noqa: ANN401
    """Somebody says yes."""
    return judged(statement(name, at=at, **changes))


def denies(name: str = "ada", *, at: int = 0, **changes: Any) -> i.Judged:  # noqa: ANN401
    """Somebody says no."""
    return judged(statement(name, Say.DENY, at=at, **changes))


def withdraws(name: str = "ada", *, at: int = 0, **changes: Any) -> i.Judged:  # noqa: ANN401
    """Somebody takes a yes back."""
    return judged(statement(name, Say.WITHDRAW, at=at, **changes))


def ask_again(key: str = CHARGE) -> i.AskAgain:
    """Somebody is to be asked once more."""
    return i.AskAgain(key=key, principal="agent:billing")


def foresees(
    number: int = 1, *, key: str = CHARGE, foreseen: Foreseen | None = FORESEEN
) -> i.PreviewRead:
    """What the provider says would happen; with None, that it says nothing."""
    operation = operation_of(key)
    return i.PreviewRead(
        key=key,
        preview=number,
        provider=operation.provider,
        account=operation.account,
        foreseen=foreseen,
        code="timeout" if foreseen is None else None,
    )


CHANGES: Final = (Change(name="balance", was="10000", now="3"),)


# --- facts -------------------------------------------------------------------------------------


def ruled(
    policy: Policy = ONE, *, key: str = CHARGE, deadline: int | None = None
) -> f.PolicyDecided:
    """The row of a table applies; a first ruling that asks people gives them until PEOPLE_MS."""
    row = policy.rows[0]
    return f.PolicyDecided(
        action=key,
        version=0,
        policy_hash=policy.content_hash,
        row=row.name,
        outcome=row.outcome.value,
        asks=row.asks,
        step_deadline_at=None if deadline is None else T0 + deadline,
    )


def asked_provider(number: int = 1, *, key: str = CHARGE, at: int = 0) -> f.PreviewStarted:
    """The provider is to say what would happen."""
    operation = operation_of(key)
    return f.PreviewStarted(
        action=key,
        version=0,
        preview=number,
        provider=operation.provider,
        account=operation.account,
        intent_offset=0,
        answer_by=T0 + at + CONFIG.timing.lookup_answer_ms,
    )


def preview_failed(number: int = 1, *, key: str = CHARGE) -> f.PreviewFailed:
    """The provider did not say."""
    return f.PreviewFailed(action=key, version=0, preview=number, code="timeout")


def preview_due(at: int, *, key: str = CHARGE) -> f.TimerSet:
    """The provider is asked again `at`."""
    return f.TimerSet(action=key, version=0, purpose="preview", due_at=T0 + at)


def previewed(
    number: int = 1, *, policy: Policy = ONE, key: str = CHARGE, foreseen: Foreseen | None = None
) -> f.PreviewRecorded:
    """The dry run is there."""
    content = preview(policy, key=key, foreseen=foreseen)
    return f.PreviewRecorded(
        action=key,
        version=0,
        preview=number,
        content=content,
        preview_hash=preview_hash(content),
    )


def asking(
    number: int = 1,
    *,
    policy: Policy = ONE,
    key: str = CHARGE,
    at: int = 0,
    nonce: str = "nonce-1",
    foreseen: Foreseen | None = None,
) -> f.ApprovalRequested:
    """People are asked."""
    asks = asks_of(policy)
    escalate_at = None
    if asks.escalate_after_ms is not None:
        escalate_at = T0 + at + asks.escalate_after_ms
    return f.ApprovalRequested(
        action=key,
        version=0,
        round=number,
        nonce=nonce,
        expires_at=T0 + at + asks.valid_ms,
        policy_hash=policy.content_hash,
        row=policy.rows[0].name,
        preview_hash=preview_hash(preview(policy, key=key, foreseen=foreseen)),
        quorum=asks.quorum,
        groups=asks.groups,
        escalate_at=escalate_at,
        escalate_to=asks.escalate_to,
    )


def escalated(*groups: str, key: str = CHARGE) -> f.ApprovalEscalated:
    """Further groups may decide."""
    return f.ApprovalEscalated(action=key, version=0, groups=groups)


def granted(given: i.Judged, *, deadline: int | None = None) -> f.ApprovalGranted:
    """Somebody agreed; with enough people the step has until `deadline`."""
    said = given.statement
    assert isinstance(said, Statement)
    return f.ApprovalGranted(
        action=said.key,
        version=0,
        person=said.approver,
        key_id=given.key_id,
        nonce=said.nonce,
        expires_at=said.expires_at,
        signed=given.signed,
        comment=said.comment,
        step_deadline_at=None if deadline is None else T0 + deadline,
    )


def agreed(given: i.Judged, *, at: int = 0) -> f.ApprovalGranted:
    """The last of the people that were asked agreed, `at`: the step begins."""
    return granted(given, deadline=at + STEP_MS)


def withdrawn(given: i.Judged) -> f.ApprovalWithdrawn:
    """Somebody took a yes back."""
    said = given.statement
    assert said is not None
    return f.ApprovalWithdrawn(
        action=said.key,
        version=0,
        person=said.approver,
        signed=given.signed,
        void_until=given.appended_at + CONFIG.timing.skew_ms,
    )


def ended(
    reason: f.ApprovalEnd,
    *,
    nonce: str = "nonce-1",
    changes: tuple[Change, ...] | None = None,
    key: str = CHARGE,
) -> f.ApprovalEnded:
    """What was asked and granted counts no more."""
    return f.ApprovalEnded(action=key, version=0, nonce=nonce, reason=reason, changes=changes)


def denied(given: i.Judged | None = None, *, key: str = CHARGE) -> f.ActionDenied:
    """Somebody said no; with None the table did."""
    if given is None:
        return f.ActionDenied(action=key, version=0, by="policy")
    said = given.statement
    assert said is not None
    return f.ActionDenied(
        action=said.key,
        version=0,
        by="person",
        person=said.approver,
        key_id=given.key_id,
        signed=given.signed,
        comment=said.comment,
    )


def start_of(
    *given: i.Judged,
    attempt: int = 1,
    policy: Policy = ONE,
    key: str = CHARGE,
    foreseen: Foreseen | None = None,
    is_shown: bool = True,
    until: int | None = None,
    **when: Any,  # noqa: ANN401 - arguments of `started`
) -> f.AttemptStarted:
    """An attempt begins on the word of people."""
    asks = asks_of(policy)
    said = [one.statement for one in given if isinstance(one.statement, Statement)]
    shown = preview(policy, key=key, foreseen=foreseen)
    expires_at = min(one.expires_at for one in said)
    proofs: tuple[Signed, ...] = tuple(one.signed for one in given)
    approval = f.StartApproval(
        nonce=said[0].nonce,
        policy_hash=policy.content_hash,
        row=policy.rows[0].name,
        preview_hash=preview_hash(shown),
        quorum=asks.quorum,
        groups=asks.groups,
        expires_at=expires_at if until is None else T0 + until,
        preview=shown if is_shown else None,
        signed=proofs,
    )
    begun = started(attempt, key=key, **when)
    return begun.model_copy(update={"approval": approval})


def resolved(
    said: Signable | None, *, step: int | None = None, people_until: int | None = None
) -> f.ReviewResolved:
    """A case was settled; where it is tried again, until when its `step` may take."""
    assert isinstance(said, Resolution)
    return f.ReviewResolved(
        action=said.key,
        version=0,
        move=said.move,
        case=said.case,
        person=said.approver,
        key_id=KEYS_OF[said.approver].id,
        signed=signed(said),
        reference=said.reference,
        accepts=said.accepts,
        comment=said.comment,
        step_deadline_at=None if step is None else T0 + step,
        people_until=None if people_until is None else T0 + people_until,
    )
