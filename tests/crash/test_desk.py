"""The laws of the desk, where a person's word is as it should be."""

from tests.crash.cases_of_desk import RIGHT
from tests.crash.laws_of_desk import s5_a_persons_word_is_signed, s5_settled_by_a_person
from tests.crash.plain_fold import fold
from tests.crash.small_run import EMAIL, build


def test_what_a_person_signed_breaks_no_law() -> None:
    """The plain fold knows what a resolution leads to, and finds nothing in it."""
    run = RIGHT(build().run())
    folded = fold(run)
    assert list(s5_settled_by_a_person(run, folded)) == []
    assert list(s5_a_persons_word_is_signed(run, folded)) == []
    assert folded.findings == []
    state = folded.actions[EMAIL].state
    assert (state["status"], state["proof"], state["reference"]) == ("completed", "person", "em_1")
    assert "case" not in state
    assert state["resolved"]["move"] == "effect_exists"
