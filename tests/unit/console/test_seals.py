"""What the pages hand out: worth something for its purpose, its person and its time, or nothing."""

import pytest

from gateway.console.limits import CHALLENGE_MS, SESSION_MS
from gateway.console.seals import Purpose, Seals
from ledger.core.people import People, PersonKey, parse_people
from ledger.core.people_text import with_revoked, written
from tests import asking

NOW = 1_800_000_000_000
SEALS = Seals(b"s" * 32)
PEOPLE = asking.people(asking.people_text())
KEY = asking.KEYS["ada"].id


def changed(text: object) -> People:
    """The people of a changed document."""
    parsed = parse_people(str(text))
    assert isinstance(parsed, People)
    return parsed


def test_a_session_is_its_persons_until_its_end() -> None:
    """Nobody else's, and not a millisecond longer, whatever is done meanwhile."""
    session, cookie = SEALS.session("ada", KEY, now_ms=NOW)
    visitor = SEALS.visitor(cookie, PEOPLE, now_ms=NOW + SESSION_MS - 1)
    assert visitor is not None
    assert visitor.person.name == "ada"
    assert visitor.session == session
    assert SEALS.visitor(cookie, PEOPLE, now_ms=NOW + SESSION_MS) is None


@pytest.mark.parametrize("revoked", ["ada", KEY])
def test_a_session_ends_with_its_person_or_key(revoked: str) -> None:
    """A revocation is asked for at every request, not when the session began."""
    _, cookie = SEALS.session("ada", KEY, now_ms=NOW)
    done = with_revoked(PEOPLE, revoked)
    people = changed(getattr(done, "text", ""))
    assert SEALS.visitor(cookie, people, now_ms=NOW) is None


def test_a_session_ends_when_its_key_is_another_persons() -> None:
    """A session names its person; a key that changed hands opens nothing."""
    _, cookie = SEALS.session("ada", KEY, now_ms=NOW)
    person = PEOPLE.people[0].model_copy(update={"name": "zoe"})
    assert SEALS.visitor(cookie, changed(written(PEOPLE, (person,))), now_ms=NOW) is None
    keys = (PersonKey.model_validate({**PEOPLE.people[0].keys[0].model_dump(), "not_after": NOW}),)
    ended = PEOPLE.people[0].model_copy(update={"keys": keys})
    assert SEALS.visitor(cookie, changed(written(PEOPLE, (ended,))), now_ms=NOW) is None


def test_nothing_that_was_changed_is_believed() -> None:
    """One character elsewhere, another secret, another shape: no session."""
    _, cookie = SEALS.session("ada", KEY, now_ms=NOW)
    assert Seals(b"t" * 32).visitor(cookie, PEOPLE, now_ms=NOW) is None
    for place in range(0, len(cookie), 7):
        letter = "A" if cookie[place] != "A" else "B"
        forged = cookie[:place] + letter + cookie[place + 1 :]
        assert SEALS.visitor(forged, PEOPLE, now_ms=NOW) is None
    for nonsense in (None, "", ".", "a.b", "é.é", "x" * 40_000):
        assert SEALS.visitor(nonsense, PEOPLE, now_ms=NOW) is None


def test_a_sealed_text_is_for_one_purpose() -> None:
    """What was handed out for a log-in is no session, no statement and no registration."""
    once = SEALS.once(Purpose.LOGIN, {"next": "/"}, now_ms=NOW)
    opened = SEALS.opened(Purpose.LOGIN, once, now_ms=NOW)
    assert opened is not None
    assert opened.content == {"next": "/"}
    for other in set(Purpose) - {Purpose.LOGIN}:
        assert SEALS.opened(other, once, now_ms=NOW) is None
    assert SEALS.visitor(once, PEOPLE, now_ms=NOW) is None


def test_a_challenge_lapses_and_each_is_another() -> None:
    """Two challenges are never the same text, and neither outlives its time."""
    once, other = (SEALS.once(Purpose.STATEMENT, {}, now_ms=NOW) for _ in range(2))
    assert once != other
    assert SEALS.opened(Purpose.STATEMENT, once, now_ms=NOW + CHALLENGE_MS - 1) is not None
    assert SEALS.opened(Purpose.STATEMENT, once, now_ms=NOW + CHALLENGE_MS) is None


def test_a_form_token_belongs_to_a_session() -> None:
    """Two sessions of the same person have different forms."""
    one, _ = SEALS.session("ada", KEY, now_ms=NOW)
    other, _ = SEALS.session("ada", KEY, now_ms=NOW)
    assert SEALS.is_form_of(SEALS.form(one), one)
    assert not SEALS.is_form_of(SEALS.form(one), other)
    assert not SEALS.is_form_of("", one)
    assert not SEALS.is_form_of("é", one)
