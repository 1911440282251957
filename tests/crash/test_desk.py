"""The laws of the desk and of gates, where everything is as it should be."""

from tests.crash.cases_of_desk import RIGHT
from tests.crash.cases_of_gates import PAYS, RUN
from tests.crash.cases_of_gates import RIGHT as PASSES
from tests.crash.laws_of_desk import s5_a_persons_word_is_signed, s5_settled_by_a_person
from tests.crash.laws_of_gates import s19_accounts, s19_ceilings, s19_nothing_left
from tests.crash.laws_of_rows import s19_rows_of_gates
from tests.crash.plain_fold import fold
from tests.crash.small_run import EMAIL, build


def test_what_passes_its_gates_breaks_no_law_of_them() -> None:
    """The plain fold knows what gates and claims lead to, and finds nothing in it."""
    run = PASSES(build().run())
    folded = fold(run)
    for law in (s19_accounts, s19_ceilings, s19_nothing_left, s19_rows_of_gates):
        assert list(law(run, folded)) == []
    assert folded.gates[RUN].state["used"] == {"side_effects": 1}
    assert folded.actions[PAYS].status == "completed"


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
