"""Laws of keys that are no identity, over every name that a key can hold."""

import re

from hypothesis import given
from hypothesis import strategies as st

from ledger.core.ids import COMPONENT, ActionId
from ledger.core.unstable_keys import Unstable
from tests.unit.core.test_unstable_keys import REFUSED, instability

NAMES = st.from_regex(COMPONENT, fullmatch=True)
TIMES = st.integers(0, 2**53 - 1)
# What carries nothing that changes by itself: words and numbers too short for a clock.
PLAIN = st.from_regex(re.compile(r"[b-mo-z]{3,9}(?:-[0-9]{1,4}){0,2}"), fullmatch=True).filter(
    lambda name: name[-5:] != "retry"
)
TROUBLES = st.sampled_from(
    [
        (code, text)
        for code, texts in REFUSED.items()
        for text in texts
        if code is not Unstable.TIME and not re.search(r"(?i)(?:retry|rerun|try[-_.]?\d)\Z", text)
    ]
)


@given(NAMES, st.none() | NAMES, TIMES)
def test_every_name_is_judged_and_the_same_twice(event: str, item: str | None, now: int) -> None:
    """Nothing that can be a key raises; the answer names a part that is there, with a piece of
    it.
    """
    found = instability(ActionId(event, item), now)
    assert found == instability(ActionId(event, item), now)
    if found is not None:
        part = event if found.part == "business_event" else item
        assert part is not None
        shown = found.message.removeprefix(f"{found.part} holds ").split(",")[0]
        assert shown in part


@given(NAMES, TIMES, st.integers(2, 9_999))
def test_a_revision_changes_nothing(event: str, now: int, revision: int) -> None:
    """The count of revisions is the ledger's own, and never a count of tries."""
    assert instability(ActionId(event, None, revision), now) == instability(ActionId(event), now)


@given(st.none() | PLAIN, TROUBLES, st.none() | PLAIN, st.sampled_from("-_."))
def test_trouble_is_found_wherever_it_stands(
    before: str | None, trouble: tuple[Unstable, str], after: str | None, joint: str
) -> None:
    """What was put into a longer name with any joint is still found, and of its kind."""
    code, text = trouble
    name = joint.join(piece for piece in (before, text, after) if piece is not None)
    found = instability(ActionId(name), 0)
    assert found is not None, name
    assert found.code is code, name


@given(
    st.integers(10**12, 10**13 - 1), st.sampled_from([(1, 1_000), (1, 1), (10**3, 1), (10**6, 1)])
)
def test_a_clock_that_was_just_read_is_recognised(now: int, unit: tuple[int, int]) -> None:
    """In seconds, milliseconds, microseconds or nanoseconds, in whichever year."""
    times, over = unit
    found = instability(ActionId(f"renewal-{now * times // over}"), now)
    assert found is not None
    assert found.code is Unstable.TIME
