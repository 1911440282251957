"""Who may decide, written: the document with one change, in the one form that commands write.

Guarantees that what is written is read again as the same people, and that it names the document it
was made from, so that of two operators who change the same one at once the second is told. Comments
of a hand-written document are not kept. Pure; called by the command line and the pages.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ledger.core.people import NOBODY, People, Person, PersonKey

_HEAD: Final = "# Who may decide. Change it with `actionledger people`.\n"


class NotChanged(StrEnum):
    """Why a change of who may decide is none."""

    PERSON_KNOWN = "person_known"
    PERSON_UNKNOWN = "person_unknown"
    PERSON_REVOKED = "person_revoked"
    KEY_KNOWN = "key_known"
    NAME_OR_KEY_UNKNOWN = "name_or_key_unknown"
    NAME_OR_KEY_AMBIGUOUS = "name_or_key_ambiguous"
    REVOKED_ALREADY = "revoked_already"
    REVOKED_STAYS = "revoked_stays"


@dataclass(frozen=True, slots=True)
class Revoked:
    """What a revocation took back, and the document that says so."""

    person: str
    key_id: str | None
    text: str


def with_person(people: People, person: Person) -> str | NotChanged:
    """The document with another person at its end. `parse_people` says whether it is in order."""
    if people.person(person.name) is not None:
        return NotChanged.PERSON_KNOWN
    return written(people, (*people.people, person))


def without_person(people: People, name: str) -> str | NotChanged:
    """The document without a person. Whoever signs with one of these keys later is unknown. Who was
    revoked, or has a key that was, stays: left out, the same key could be added again.
    """
    known = people.person(name)
    if known is not None and (known.revoked or any(key.revoked for key in known.keys)):
        return NotChanged.REVOKED_STAYS
    rest = tuple(person for person in people.people if person.name != name)
    if len(rest) == len(people.people):
        return NotChanged.PERSON_UNKNOWN
    return written(people, rest)


def with_key(people: People, name: str, key: PersonKey) -> str | NotChanged:
    """The document with another key of a person."""
    person = people.person(name)
    if person is None:
        return NotChanged.PERSON_UNKNOWN
    if person.revoked:
        return NotChanged.PERSON_REVOKED
    if people.person_of(key.id) is not None:
        return NotChanged.KEY_KNOWN
    return _with(people, person.model_copy(update={"keys": (*person.keys, key)}))


def with_revoked(people: People, name_or_key: str) -> Revoked | NotChanged:
    """The document in which a person or one key proves nothing any more. Nothing undoes it: who
    comes back gets another key, and a revoked person another name.
    """
    person, owned = people.person(name_or_key), people.person_of(name_or_key)
    if person is not None and owned is not None:
        return NotChanged.NAME_OR_KEY_AMBIGUOUS
    if person is not None:
        if person.revoked:
            return NotChanged.REVOKED_ALREADY
        text = _with(people, person.model_copy(update={"revoked": True}))
        return Revoked(person.name, None, text)
    if owned is None:
        return NotChanged.NAME_OR_KEY_UNKNOWN
    owner, revoked = owned
    if revoked.revoked:
        return NotChanged.REVOKED_ALREADY
    keys = tuple(
        key.model_copy(update={"revoked": True}) if key.id == revoked.id else key
        for key in owner.keys
    )
    text = _with(people, owner.model_copy(update={"keys": keys}))
    return Revoked(owner.name, revoked.id, text)


def written(replaced: People, people: tuple[Person, ...]) -> str:
    """The text of a document of these people that replaces another."""
    is_first = replaced.content_hash == NOBODY.content_hash
    replaces = "" if is_first else f'replaces = "{replaced.content_hash}"\n'
    return "\n".join((f"{_HEAD}{replaces}", *map(_person, people)))


def _with(people: People, changed: Person) -> str:
    return written(
        people,
        tuple(changed if one.name == changed.name else one for one in people.people),
    )


def _person(person: Person) -> str:
    lines = ["[[person]]", f"name = {_quoted(person.name)}"]
    for name in ("groups", "tenants", "principals"):
        values: tuple[str, ...] = getattr(person, name)
        if values:
            lines.append(f"{name} = [{', '.join(map(_quoted, values))}]")
    if person.revoked:
        lines.append("revoked = true")
    return "\n".join((*lines, *(line for key in person.keys for line in _key(key)), ""))


def _key(key: PersonKey) -> Iterator[str]:
    yield from ("", "[[person.keys]]")
    for name in ("id", "kind", "public", "rp_id", "origin"):
        value: str | None = getattr(key, name)
        if value is not None:
            yield f"{name} = {_quoted(value)}"
    if key.not_after is not None:
        yield f"not_after = {key.not_after}"
    if key.revoked:
        yield "revoked = true"


def _quoted(text: str) -> str:
    """A TOML basic string; nothing that a document of people may hold is a control character."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
