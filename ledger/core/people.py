"""Who may decide: people, their groups and tenants, and the public keys that prove it is them.

Guarantees that a document is either whole or refused with every mistake on its line, that a key
belongs to one person only, and that a document made from an older one than is in force is seen.
Must never repair or ignore anything. The text itself is published, hashed and adopted, as the
catalogue is; readers of the log parse the same text to the same people.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, ValidationError

from ledger.core.ids import COMPONENT, MalformedId, check_component, check_identifier
from ledger.core.limits import (
    PEOPLE_BYTES_MAX,
    PEOPLE_MAX,
    PERSON_KEYS_MAX,
    PERSON_NAMES_MAX,
)
from ledger.core.mistakes import Document, Found, Mistake, complaints, read_toml
from ledger.core.public_keys import decoded, ed25519_problem, passkey_problem, thumbprint
from ledger.core.toml_lines import TomlPath
from ledger.core.wire import Milliseconds, Text, Wire

__all__ = [
    "EVERY_TENANT",
    "NOBODY",
    "Mistake",
    "NotReplacing",
    "People",
    "Person",
    "PersonKey",
    "adopted_people",
    "back_from_revocation",
    "objection_to_people",
    "parse_people",
    "people_hash",
]

EVERY_TENANT: Final = "*"
_HASH_DOMAIN: Final = "actionledger.people.v1\n"
_PERSON: Final = "person"
_REPLACES: Final = "replaces"
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")
# Where pages are served: https, or a machine's own name for itself while it is tried out.
_ORIGIN: Final = re.compile(
    r"(?:https://(?P<host>[a-z0-9.-]+)|http://(?P<local>localhost))(?::[1-9][0-9]{0,4})?"
)


def _component(text: str) -> str:
    try:
        return check_component(text, "it")
    except MalformedId as malformed:
        raise ValueError(f"is refused: {malformed}") from None


def _tenant(text: str) -> str:
    return text if text == EVERY_TENANT else _component(text)


def _principal(text: str) -> str:
    try:
        return check_identifier(text, "it")
    except MalformedId as malformed:
        raise ValueError(f"is refused: {malformed}") from None


_Name = Annotated[str, AfterValidator(_component)]
_Names = Field(strict=False, max_length=PERSON_NAMES_MAX)


class PersonKey(Wire):
    """One public key of a person.

    `id` is the thumbprint of an Ed25519 key, the credential id of a passkey. `rp_id` and `origin`
    say where a passkey was registered: it signs nowhere else. From `not_after` on it proves nothing
    more.
    """

    id: Text
    kind: Literal["ed25519", "passkey"]
    public: Text
    rp_id: Text | None = None
    origin: Text | None = None
    not_after: Milliseconds | None = None
    revoked: bool = False


class Person(Wire):
    """Somebody who may decide. `tenants` are names, or `*` alone for all of them.

    `principals` are the names under which the same person asks for actions, beside the own name:
    what one asks for oneself one cannot approve.
    """

    name: _Name
    groups: Annotated[tuple[_Name, ...], _Names] = ()
    tenants: Annotated[tuple[Annotated[str, AfterValidator(_tenant)], ...], _Names]
    principals: Annotated[tuple[Annotated[str, AfterValidator(_principal)], ...], _Names] = ()
    keys: Annotated[tuple[PersonKey, ...], Field(strict=False, max_length=PERSON_KEYS_MAX)] = ()
    revoked: bool = False

    def may_decide_for(self, tenant: str) -> bool:
        """Whether the person is registered for a tenant, and not revoked. A text that names no
        tenant is none of all of them either.
        """
        if self.revoked:
            return False
        if EVERY_TENANT in self.tenants:
            return COMPONENT.fullmatch(tenant) is not None
        return tenant in self.tenants

    def is_in_one_of(self, groups: tuple[str, ...]) -> bool:
        """Whether the person is in one of the groups; anybody is where none is asked for."""
        return not groups or not set(groups).isdisjoint(self.groups)

    def asks_as(self, principal: str) -> bool:
        """Whether a principal who asks for actions is this person, in small letters or large: keys
        and people are written by hand, and a slip would let people approve what is asked for them.
        """
        asked = principal.casefold()
        return any(asked == one.casefold() for one in (self.name, *self.principals))


@dataclass(frozen=True, slots=True)
class People:
    """The people of one text, in its order, the hash of that text, and which text it replaces."""

    people: tuple[Person, ...]
    content_hash: str
    replaces: str | None = None
    _by_key: dict[str, tuple[Person, PersonKey]] = field(init=False, repr=False, compare=False)
    _by_name: dict[str, Person] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_key = {key.id: (person, key) for person in self.people for key in person.keys}
        object.__setattr__(self, "_by_key", by_key)
        object.__setattr__(self, "_by_name", {person.name: person for person in self.people})

    def person_of(self, key_id: str) -> tuple[Person, PersonKey] | None:
        """Whose key this is, revoked or not, or None."""
        return self._by_key.get(key_id)

    def signer(self, key_id: str, at: int) -> Person | None:
        """Whose key this is, where it proves something at a time; or None."""
        known = self._by_key.get(key_id)
        if known is None:
            return None
        person, key = known
        is_over = key.not_after is not None and at >= key.not_after
        return None if person.revoked or key.revoked or is_over else person

    def person(self, name: str) -> Person | None:
        """The person of this name, revoked or not, or None."""
        return self._by_name.get(name)


def people_hash(text: str) -> str:
    """`sha256:` and the hex digest of the domain and the document's text, comments included."""
    return f"sha256:{hashlib.sha256((_HASH_DOMAIN + text).encode()).hexdigest()}"


NOBODY: Final = People((), people_hash(""))
"""Before a document was adopted: no person may decide anything."""


class NotReplacing(StrEnum):
    """Why a document of people is not adopted in the place of the one in force."""

    REPLACES_NOTHING = "replaces_nothing"
    REPLACES_ANOTHER = "replaces_another"
    REVOKED_COMES_BACK = "revoked_comes_back"


def objection_to_people(new: People, in_force: People) -> NotReplacing | None:
    """Why a document would undo what somebody else changed, or None.

    Each says which text it was made from. Only the first may say nothing; the one in force again is
    no change. A revocation stays for ever, and so does who or what was revoked: a copy that was
    kept elsewhere does not know of it, and what was left out could be added again.
    """
    if new.content_hash == in_force.content_hash:
        return None
    if new.replaces is None:
        is_first = in_force.content_hash == NOBODY.content_hash
        return None if is_first else NotReplacing.REPLACES_NOTHING
    if new.replaces != in_force.content_hash:
        return NotReplacing.REPLACES_ANOTHER
    return None if back_from_revocation(new, in_force) is None else NotReplacing.REVOKED_COMES_BACK


def back_from_revocation(new: People, in_force: People) -> str | None:
    """The first person or key that is revoked in force and would not be so in a new document. Every
    key of a revoked person is: under another name it would be the same person's.
    """
    for person in in_force.people:
        again = new.person(person.name)
        if person.revoked and (again is None or not again.revoked):
            return person.name
        for key in person.keys:
            if (person.revoked or key.revoked) and not _stays_revoked(key, new):
                return key.id
    return None


def _stays_revoked(key: PersonKey, new: People) -> bool:
    """Whether a document still has a key, with the same public half, as one that proves nothing."""
    found = new.person_of(key.id)
    if found is None:
        return False
    owner, same = found
    return same.public == key.public and (owner.revoked or same.revoked)


def parse_people(text: str) -> People | tuple[Mistake, ...]:
    """The people of a TOML text, or its mistakes in the order of their lines, at most MISTAKES_MAX.

    A text without a person is whole: then nobody may decide.
    """
    return _document(text, is_adopted=False)


def adopted_people(text: str) -> People | tuple[Mistake, ...]:
    """The people of a text that a partition has adopted; see `adopted_policy`."""
    return _document(text, is_adopted=True)


def _document(text: str, *, is_adopted: bool) -> People | tuple[Mistake, ...]:
    document = read_toml(text, "document of people", bytes_max=PEOPLE_BYTES_MAX)
    if not isinstance(document, Document):
        return document
    found: list[Found] = [
        ((name,), f"is not a known key here; write [[{_PERSON}]] for each person")
        for name in document.content
        if name not in {_PERSON, _REPLACES}
    ]
    replaces = document.content.get(_REPLACES)
    if replaces is not None and not _is_hash(replaces):
        found.append(((_REPLACES,), "must be the hash of the document before: sha256:…"))
    people, more = _people(document.content.get(_PERSON, []))
    found += more
    if not is_adopted:
        found += _contradictions(people)
    if found:
        return document.mistakes(found)
    return People(tuple(person for _, person in people), people_hash(text), replaces)


def _is_hash(value: object) -> bool:
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


_Persons = list[tuple[int, Person]]
"""People that could be read, with the numbers of their tables."""


def _people(tables: object) -> tuple[_Persons, list[Found]]:
    if not isinstance(tables, list):
        return [], [((_PERSON,), f"must be written [[{_PERSON}]], one for each")]
    if len(tables) > PEOPLE_MAX:
        return [], [((_PERSON,), f"has more than {PEOPLE_MAX} entries")]
    found: list[Found] = []
    people: _Persons = []
    for index, table in enumerate(tables):
        try:
            people.append((index, Person.model_validate(table)))
        except ValidationError as refused:
            found += complaints(refused, Person, at=(_PERSON, index))
    return people, found


def _contradictions(people: _Persons) -> Iterator[Found]:
    """What is well-formed and cannot be meant."""
    for index, person in people:
        for path, said in _wrong_with(person):
            yield (_PERSON, index, *path), said
    for index, path, said in _between(people):
        yield (_PERSON, index, *path), said


def _wrong_with(person: Person) -> Iterator[Found]:
    if not person.tenants:
        yield ("tenants",), f'must name tenants, or be ["{EVERY_TENANT}"] for all of them'
    if EVERY_TENANT in person.tenants and len(person.tenants) > 1:
        yield ("tenants",), f"holds {EVERY_TENANT}, which is all of them, and others beside it"
    for name in ("groups", "tenants", "principals"):
        values: tuple[str, ...] = getattr(person, name)
        if len(set(values)) < len(values):
            yield (name,), "names one twice"
    for index, key in enumerate(person.keys):
        for field_name, said in _wrong_with_key(key):
            yield ("keys", index, field_name), said


def _wrong_with_key(key: PersonKey) -> Iterator[tuple[str, str]]:
    if key.kind == "passkey":
        yield from _wrong_with_passkey(key)
        return
    problem = ed25519_problem(key.public)
    if problem is not None:
        yield "public", problem
    elif key.id != thumbprint(key.public):
        yield "id", f"must be the thumbprint of the key: {thumbprint(key.public)}"
    for name in ("rp_id", "origin"):
        if getattr(key, name) is not None:
            yield name, "belongs to passkeys only"


def _wrong_with_passkey(key: PersonKey) -> Iterator[tuple[str, str]]:
    if not key.id or decoded(key.id) is None:
        yield "id", "must be the credential's id in base64url without padding"
    problem = passkey_problem(key.public)
    if problem is not None:
        yield "public", problem
    if key.rp_id is None or COMPONENT.fullmatch(key.rp_id) is None:
        yield "rp_id", "must be the name of the host that the passkey was registered for"
        return
    match = None if key.origin is None else _ORIGIN.fullmatch(key.origin)
    if match is None:
        yield "origin", "must be https://host or http://localhost, with a port where it has one"
        return
    host = match["host"] or match["local"]
    if host != key.rp_id and not host.endswith(f".{key.rp_id}"):
        yield "origin", f"is not {key.rp_id} nor a host below it"


def _between(people: _Persons) -> Iterator[tuple[int, TomlPath, str]]:
    """What is wrong between people: a name or a key that two have. A principal may be that of two:
    what it asks for neither of them approves.
    """
    names: set[str] = set()
    spelled: dict[str, str] = {}
    taken: dict[str, str] = {}
    for index, person in people:
        if person.name in names:
            yield index, ("name",), f"{person.name} is there twice"
        names.add(person.name)
        alike = person.name if person.revoked else spelled.setdefault(_plain(person), person.name)
        if alike != person.name:
            yield index, ("name",), f"differs from {alike} by large and small letters alone"
        for place, key in enumerate(person.keys):
            for name in ("id", "public"):
                owner = taken.setdefault(f"{name} {getattr(key, name)}", person.name)
                if owner != person.name or _is_repeated(person, name, place):
                    yield index, ("keys", place, name), f"is that of another key of {owner}"


def _plain(person: Person) -> str:
    """What two names have in common that one reads as the same: where two people agree they are to
    be two.
    """
    return person.name.casefold()


def _is_repeated(person: Person, name: str, place: int) -> bool:
    """Whether an earlier key of the same person has the same id or public half."""
    value = getattr(person.keys[place], name)
    return any(getattr(earlier, name) == value for earlier in person.keys[:place])
