"""What a filter of keys may be wrong about, and what never."""

from hypothesis import given
from hypothesis import strategies as st

from streams.key_filter import KeyFilter

KEYS = st.text(min_size=1, max_size=60)


@given(added=st.sets(KEYS, max_size=200), size_bytes=st.integers(min_value=1, max_value=600))
def test_a_key_that_was_added_is_never_denied(added: set[str], size_bytes: int) -> None:
    """However small the filter is."""
    keys = KeyFilter(size_bytes)
    for key in added:
        keys.add(key)
    assert all(keys.may_have(key) for key in added)


def test_an_empty_filter_denies_everything() -> None:
    """Nothing was added."""
    keys = KeyFilter(1)
    assert not any(keys.may_have(f"acme/e{number}") for number in range(100))


def test_ten_bits_a_key_leave_few_questions() -> None:
    """Fewer than three in a hundred new keys are asked for; digests do not change, so this is no
    matter of chance.
    """
    keys = KeyFilter(10_000 * 10 // 8)
    for number in range(10_000):
        keys.add(f"acme/old-{number}")
    asked = sum(keys.may_have(f"acme/new-{number}") for number in range(10_000))
    assert 0 < asked < 300
