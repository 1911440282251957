"""Changing who may decide: each change is a whole document that names the one it replaces."""

from hypothesis import given
from hypothesis import strategies as st

from ledger.core.ids import MalformedId, check_identifier
from ledger.core.people import (
    NOBODY,
    NotReplacing,
    People,
    Person,
    PersonKey,
    back_from_revocation,
    objection_to_people,
    parse_people,
)
from ledger.core.people_text import (
    NotChanged,
    Revoked,
    with_key,
    with_person,
    with_revoked,
    without_person,
    written,
)
from tests.unit.signing.decisions import ADA_KEY, ADA_PASSKEY, BEN_KEY, BEN_PASSKEY, registered

ADA = Person(name="ada", tenants=("acme",), groups=("finance",), keys=(registered(ADA_KEY),))
BEN = Person(name="ben", tenants=("*",))


def read(text: str | NotChanged) -> People:
    """The people of a text that was written."""
    assert not isinstance(text, NotChanged)
    people = parse_people(text)
    assert isinstance(people, People), people
    return people


def revoked(people: People, name_or_key: str) -> People:
    """The people after a revocation."""
    done = with_revoked(people, name_or_key)
    assert isinstance(done, Revoked)
    return read(done.text)


FIRST = read(with_person(NOBODY, ADA))
BOTH = read(with_person(FIRST, BEN))


def test_the_first_document_replaces_nothing_and_each_later_one_its_own() -> None:
    """Changes made one after the other are adopted; two made from the same one are not."""
    assert FIRST.replaces is None
    assert objection_to_people(FIRST, NOBODY) is None
    assert BOTH.replaces == FIRST.content_hash
    assert objection_to_people(BOTH, FIRST) is None
    meanwhile = read(without_person(FIRST, "ada"))
    assert objection_to_people(meanwhile, BOTH) is NotReplacing.REPLACES_ANOTHER


def test_a_person_is_added_and_removed() -> None:
    """Who is there is not added twice, and who is not cannot be removed."""
    assert BOTH.people == (ADA, BEN)
    assert with_person(BOTH, BEN) is NotChanged.PERSON_KNOWN
    assert read(without_person(BOTH, "ada")).people == (BEN,)
    assert without_person(BOTH, "cy") is NotChanged.PERSON_UNKNOWN
    assert read(without_person(FIRST, "ada")).people == ()


def test_a_key_is_added_to_its_person() -> None:
    """A key of either kind, once, to somebody who is there."""
    people = read(with_key(BOTH, "ben", registered(BEN_KEY)))
    people = read(with_key(people, "ben", ADA_PASSKEY.registered()))
    ben = people.person("ben")
    assert ben is not None
    assert ben.keys == (registered(BEN_KEY), ADA_PASSKEY.registered())
    assert with_key(people, "ada", registered(BEN_KEY)) is NotChanged.KEY_KNOWN
    assert with_key(people, "cy", registered(BEN_KEY)) is NotChanged.PERSON_UNKNOWN


def test_a_key_or_a_person_is_revoked() -> None:
    """Only what was named is taken back, and again changes nothing."""
    two = read(with_key(BOTH, "ada", ADA_PASSKEY.registered()))
    without_key = revoked(two, ADA_KEY.id)
    ada = without_key.person("ada")
    assert ada is not None
    assert [key.revoked for key in ada.keys] == [True, False]
    assert not ada.revoked
    assert with_revoked(without_key, ADA_KEY.id) is NotChanged.REVOKED_ALREADY
    without_ada = revoked(without_key, "ada")
    assert [person.revoked for person in without_ada.people] == [True, False]
    assert with_revoked(without_ada, "ada") is NotChanged.REVOKED_ALREADY
    assert with_revoked(two, "nobody") is NotChanged.NAME_OR_KEY_UNKNOWN


def test_a_revoked_person_is_given_no_key() -> None:
    """It would prove nothing, and whoever gave it would be told that all is done."""
    now = revoked(BOTH, "ada")
    assert with_key(now, "ada", ADA_PASSKEY.registered()) is NotChanged.PERSON_REVOKED
    key = ADA_PASSKEY.registered()
    assert read(with_key(now, "ben", key)).person_of(key.id)


def test_what_was_revoked_does_not_come_back_with_an_older_copy() -> None:
    """A copy that was kept elsewhere and brought up to date by its first line alone still knows
    nothing of a revocation, and neither does one without whoever was revoked: added again it would
    be in force.
    """
    for name in ("ada", ADA_KEY.id):
        now = revoked(BOTH, name)
        copy = read(written(now, BOTH.people))
        assert copy.replaces == now.content_hash
        assert back_from_revocation(copy, now) == name
        assert objection_to_people(copy, now) is NotReplacing.REVOKED_COMES_BACK
        assert objection_to_people(read(written(now, now.people)), now) is None
        left_out = read(written(now, (BEN,)))
        assert objection_to_people(left_out, now) is NotReplacing.REVOKED_COMES_BACK
        assert without_person(now, "ada") is NotChanged.REVOKED_STAYS
    other = Person(name="cy", tenants=("*",), keys=ADA.keys)
    now = revoked(BOTH, ADA_KEY.id)
    moved = read(written(now, (BEN, other)))
    assert objection_to_people(moved, now) is NotReplacing.REVOKED_COMES_BACK


def test_the_keys_of_a_revoked_person_do_not_come_back_under_another_name() -> None:
    """Nor in two steps, left out first, nor with the public half under another id."""
    now = revoked(read(with_key(BOTH, "ada", ADA_PASSKEY.registered())), "ada")
    ada = now.person("ada")
    assert ada is not None
    for key in ada.keys:
        others = tuple(one for one in ada.keys if one != key)
        without = ada.model_copy(update={"keys": others})
        again = Person(name="ada2", tenants=("*",), keys=(key,))
        for people in ((without, BEN, again), (without, BEN)):
            changed = read(written(now, people))
            assert back_from_revocation(changed, now) == key.id
            assert objection_to_people(changed, now) is NotReplacing.REVOKED_COMES_BACK
    passkey = ada.keys[1]
    emptied = passkey.model_copy(update={"public": BEN_PASSKEY.registered().public})
    renamed = passkey.model_copy(update={"id": BEN_PASSKEY.id})
    swapped = (
        ada.model_copy(update={"keys": (ada.keys[0], emptied)}),
        Person(name="ada2", tenants=("*",), keys=(renamed,)),
    )
    assert back_from_revocation(read(written(now, swapped)), now) == passkey.id


def test_what_could_mean_two_things_revokes_neither() -> None:
    """A person who is called like another's key is not confused with it."""
    odd = read(with_person(FIRST, Person(name=ADA_KEY.id, tenants=("*",))))
    assert with_revoked(odd, ADA_KEY.id) is NotChanged.NAME_OR_KEY_AMBIGUOUS


def _is_identifier(text: str) -> bool:
    try:
        return bool(check_identifier(text, "it"))
    except MalformedId:
        return False


NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,12}", fullmatch=True)
PERSONS = st.builds(
    Person,
    name=NAMES,
    groups=st.lists(NAMES, max_size=3, unique=True).map(tuple),
    tenants=st.just(("*",)) | st.lists(NAMES, min_size=1, max_size=3, unique=True).map(tuple),
    principals=st.lists(
        st.text(min_size=1, max_size=8).filter(_is_identifier), max_size=2, unique=True
    ).map(tuple),
    keys=st.sampled_from(
        [
            (),
            (registered(ADA_KEY),),
            (
                ADA_PASSKEY.registered().model_copy(update={"revoked": True}),
                registered(BEN_KEY).model_copy(update={"not_after": 2**50}),
            ),
        ]
    ),
    revoked=st.booleans(),
)


@given(PERSONS, st.sampled_from([NOBODY, FIRST]))
def test_what_is_written_is_read_as_the_same(person: Person, replaced: People) -> None:
    """Every person and every key comes back as it was, whatever the names."""
    people = read(written(replaced, (person,)))
    assert people.people == (person,)
    assert people.replaces == (None if replaced is NOBODY else FIRST.content_hash)


def test_a_key_may_be_written_with_every_field() -> None:
    """No field of a person or a key is forgotten when it is written."""
    assert set(PersonKey.model_fields) == {
        *("id", "kind", "public", "rp_id", "origin"),
        *("not_after", "revoked"),
    }
    assert set(Person.model_fields) == {
        *("name", "groups", "tenants", "principals", "keys"),
        "revoked",
    }
