"""Sizes by key: the sum is that of all that are held, and what nothing was left of is measured."""

from hypothesis import given
from hypothesis import strategies as st

from ledger.log.sizes import MEASURED_AGAIN_MIN, Sizes

KEYS = st.sampled_from("abc")
STEPS = st.lists(
    st.tuples(KEYS, st.integers(0, 2 * MEASURED_AGAIN_MIN), st.booleans()), max_size=40
)


@given(STEPS, st.integers(0, 10_000))
def test_the_sum_is_that_of_what_is_held(steps: list[tuple[str, int, bool]], state: int) -> None:
    """What is dropped counts no more, and nothing counts for less than it was measured to be or
    for more than twice that and what may come before it is measured again.
    """
    sizes, held = Sizes(), dict[str, int]()
    for key, size, is_dropped in steps:
        if is_dropped:
            sizes.drop(key)
            held.pop(key, None)
            continue
        sizes.add(key, size, lambda: state)
        held[key] = held.get(key, 0) + size
        assert sizes.total_bytes <= len(held) * (state + max(state, MEASURED_AGAIN_MIN))
    assert len(sizes) == len(held)
    while held:
        held.pop(sizes.oldest())
        sizes.drop(sizes.oldest())
    assert (len(sizes), sizes.total_bytes) == (0, 0)


def test_what_is_not_measured_counts_by_its_records() -> None:
    """And who was added to last is the youngest."""
    sizes = Sizes()
    for key in "aba":
        sizes.add(key, MEASURED_AGAIN_MIN)
    assert sizes.total_bytes == 3 * MEASURED_AGAIN_MIN
    assert sizes.oldest() == "b"
