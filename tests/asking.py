"""People who are asked in tests: a table that asks them, who they are, and what they sign."""

from functools import cache
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger.core import inputs as i
from ledger.core.ids import ActionKey
from ledger.core.limits import RESOLUTION_VALID_MS_MAX
from ledger.core.people import People, parse_people
from ledger.core.policy import Policy, parse_policy
from ledger.core.state import Action
from ledger.core.statement import Move, Resolution, Say, Signable, Statement
from ledger.signing.keys import SigningKey, sign
from ledger.signing.reading import Read, read_signed


def signing_key(seed: int) -> SigningKey:
    """The key of a seed from 1 to 255."""
    return SigningKey.of(Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32))


KEYS: Final = {"ada": signing_key(21), "ben": signing_key(22), "cyd": signing_key(23)}
GROUPS: Final = {"ada": ("finance",), "ben": ("finance", "operations"), "cyd": ("operations",)}

EVERYTHING_GOES_AHEAD: Final = """
[[row]]
name = "everything"
outcome = "automatic"
reason = "Nobody is asked: this installation tries out something else."
"""
"""A real table under which every declared operation goes ahead by itself."""


def asked(operation: str, *, quorum: int = 1, valid_ms: int = 600_000, more: str = "") -> str:
    """A row that asks people about one operation."""
    return f"""
[[row]]
name = "asked-about-{operation}"
when.operation = ["{operation}"]
outcome = "people"
quorum = {quorum}
valid_ms = {valid_ms}
reason = "Somebody has to look at it."
{more}
"""


def people_text(*names: str, tenants: tuple[str, ...] = ("*",)) -> str:
    """The document of these people, of all of them where none is named."""
    return "\n".join(_person(name, tenants) for name in names or KEYS)


def _person(name: str, tenants: tuple[str, ...]) -> str:
    key = KEYS[name]
    return f"""
[[person]]
name = "{name}"
groups = {list(GROUPS[name])}
tenants = {list(tenants)}
keys = [{{ id = "{key.id}", kind = "ed25519", public = "{key.public}" }}]
"""


@cache
def policy(text: str) -> Policy:
    """The table of a text that has no mistakes."""
    parsed = parse_policy(text)
    assert isinstance(parsed, Policy), "\n".join(map(str, parsed))
    return parsed


@cache
def people(text: str) -> People:
    """The people of a text that has no mistakes."""
    parsed = parse_people(text)
    assert isinstance(parsed, People), "\n".join(map(str, parsed))
    return parsed


def statement(
    action: Action, who: str, say: Say = Say.APPROVE, *, ledger: str, at: int, **changes: object
) -> Statement:
    """What a person signs of an action as it is asked about now, unless a test changes a field."""
    asked = action.approval
    assert asked is not None
    fields: dict[str, object] = {
        "ledger": ledger,
        "decision": say,
        "approver": who,
        "tenant": ActionKey.parse(action.key).tenant,
        "environment": action.request.environment,
        "key": action.key,
        "request_hash": action.request_hash,
        "preview_hash": asked.preview_hash,
        "policy_hash": asked.policy_hash,
        "row": asked.row,
        "nonce": asked.nonce,
        "issued_at": at,
        "expires_at": asked.expires_at,
    }
    return Statement.model_validate(fields | changes)


def resolution(action: Action, who: str, move: Move, *, ledger: str, at: int) -> Resolution:
    """What a person signs of the case of an action as it stands now."""
    case = action.case
    assert case is not None
    return Resolution(
        ledger=ledger,
        move=move,
        approver=who,
        tenant=ActionKey.parse(action.key).tenant,
        environment=action.request.environment,
        key=action.key,
        request_hash=action.request_hash,
        case=case.opened_version,
        moved=case.moved_version,
        reference="ch_person" if move is Move.EFFECT_EXISTS else None,
        issued_at=at,
        expires_at=at + RESOLUTION_VALID_MS_MAX,
        comment="I looked at the provider's own pages.",
    )


def judge(said: Signable) -> i.Judge:
    """A decision as its approver signs it."""
    return i.Judge(key=said.key, signed=sign(said, KEYS[said.approver]))


def judged(given: i.Judge, everybody: People, *, at: int, ledger: str) -> i.Judged:
    """A signed decision as an owner has read it."""
    read = read_signed(given.signed, everybody)
    if isinstance(read, Read):
        return i.Judged(given.key, given.signed, at, ledger, read.statement, read.key_id)
    return i.Judged(given.key, given.signed, at, ledger, refusal=read)
