"""Laws of identities: texts and things correspond one to one."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.ids import (
    ActionId,
    ActionKey,
    KeyAlphabet,
    MalformedId,
    ProviderKeyRule,
    check_identifier,
    event_id,
    provider_key,
    stream_key,
    stream_key_of,
)
from ledger.core.limits import REVISION_MAX

ALLOWED = {
    KeyAlphabet.PRINTABLE: set(string.printable) - set(string.whitespace),
    KeyAlphabet.URL_SAFE: set(string.ascii_letters + string.digits + "._~-"),
    KeyAlphabet.ALPHANUMERIC: set(string.ascii_letters + string.digits),
    KeyAlphabet.HEXADECIMAL: set("0123456789abcdef"),
}

components = st.text("ABZabz019._-", min_size=1, max_size=12) | st.sampled_from(
    ["x" * 128, "x" * 127 + "y", "renewal-2026-08-28-01"]
)
words = st.builds(str.__add__, st.sampled_from("abz"), st.text("az09_", max_size=6))
operations = st.lists(words, min_size=1, max_size=5).map(".".join)
action_ids = st.builds(
    ActionId,
    components,
    st.none() | components,
    st.none() | st.integers(min_value=2, max_value=REVISION_MAX),
)
action_keys = st.builds(
    ActionKey, operations, st.integers(min_value=1, max_value=9_999), components, action_ids
)
rules = st.builds(
    ProviderKeyRule,
    length_max=st.integers(min_value=32, max_value=300),
    alphabet=st.sampled_from(KeyAlphabet),
)
texts = st.text(max_size=60) | st.text(alphabet="cv1:a#~2.-/ é\u202e", max_size=30)


@given(action_keys)
def test_keys_survive_writing_and_reading(key: ActionKey) -> None:
    """A key read back from its text is the same key, and so is its action id."""
    assert ActionKey.parse(str(key)) == key
    assert ActionId.parse(str(key.action_id)) == key.action_id


@given(action_keys)
def test_the_stream_key_follows_from_the_text(key: ActionKey) -> None:
    """The fast way and the long way to a stream key agree."""
    expected = stream_key(key.tenant, key.action_id.business_event)
    assert stream_key_of(str(key)) == key.stream_key == expected


@given(action_keys, action_keys)
def test_different_keys_have_different_texts(one: ActionKey, other: ActionKey) -> None:
    """No two actions share a text, so nothing has to be escaped or guessed."""
    assert (str(one) == str(other)) == (one == other)


@given(texts)
def test_a_text_is_one_key_or_none(text: str) -> None:
    """Whatever is read as a key is written as that very text; all else is refused by name."""
    try:
        key = ActionKey.parse(text)
    except MalformedId as malformed:
        refused = malformed
    else:
        assert str(key) == text
        assert stream_key_of(text) == key.stream_key
        return
    assert refused.field
    assert str(refused).isprintable()
    with pytest.raises(MalformedId):
        stream_key_of(text)


@given(st.text(max_size=30))
def test_identifiers_are_kept_or_refused(text: str) -> None:
    """An identifier is never changed, and what is kept can be seen in full."""
    try:
        kept = check_identifier(text, "target")
    except MalformedId as malformed:
        said = str(malformed)
    else:
        assert kept == text
        said = kept
    assert said.isprintable()


@given(action_keys, rules)
def test_provider_keys_keep_to_the_rule(key: ActionKey, rule: ProviderKeyRule) -> None:
    """The provider gets what it allows, and the same every time."""
    mapped = provider_key(str(key), rule)
    assert len(mapped) <= rule.length_max
    assert set(mapped) <= ALLOWED[rule.alphabet]
    assert mapped == provider_key(str(key), rule)


@given(st.lists(action_keys, min_size=2, max_size=8, unique=True), rules)
def test_provider_keys_are_injective(keys: list[ActionKey], rule: ProviderKeyRule) -> None:
    """Different actions never share a provider key, however short it has to be."""
    assert len({provider_key(str(key), rule) for key in keys}) == len(keys)


@given(action_keys, st.integers(min_value=2, max_value=50), rules)
def test_revisions_and_items_have_provider_keys_of_their_own(
    key: ActionKey, revision: int, rule: ProviderKeyRule
) -> None:
    """Actions that differ in their last characters only do not share a shortened key."""
    event = key.action_id.business_event
    family = [
        ActionKey(key.operation, key.version, key.tenant, action_id)
        for action_id in (
            ActionId(event),
            ActionId(event, "a"),
            ActionId(event, None, revision),
            ActionId(event, "a", revision),
        )
    ]
    assert len({provider_key(str(each), rule) for each in family}) == len(family)


@given(
    st.lists(
        st.tuples(
            components,
            action_keys.map(str),
            st.integers(0, 99),
            st.sampled_from(["intent.recorded", "attempt.started"]),
            st.sampled_from(["intents", "attempts", "internal"]),
            st.integers(0, 24),
            st.integers(0, 2**53 - 1),
            st.integers(0, 9),
        ),
        min_size=2,
        max_size=6,
        unique=True,
    )
)
def test_event_ids_are_injective(
    facts: list[tuple[str, str, int, str, str, int, int, int]],
) -> None:
    """Different facts have different ids."""
    assert len({event_id(*fact) for fact in facts}) == len(facts)
