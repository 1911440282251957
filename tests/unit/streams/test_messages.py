"""What actions and gates say to each other as it is read from `internal`, whoever wrote it."""

from dataclasses import replace

import pytest

from ledger.core import inputs as i
from ledger.log.topics import partition_of
from streams.deciding import make_decision
from tests.examples import CHARGE, STREAM
from tests.examples_of_gates import RUN_GATE, ask
from tests.unit.streams.seats import record, seat

GENERATION = "generation-1"


@pytest.mark.parametrize(
    ("said", "stream"),
    [
        (ask(key="nobody"), RUN_GATE),
        (i.GateClose(gate=RUN_GATE, action="nobody", round=3), RUN_GATE),
        (i.GateKeep(gate=RUN_GATE, action="", round=3, grant=1), RUN_GATE),
        (ask(gate=STREAM), STREAM),
        (i.GateClose(gate="acme/run:", action=CHARGE, round=3), "acme/run:"),
        (i.GateAnswer(key=CHARGE, gate=STREAM, round=3, outcome="queued"), STREAM),
        (i.GateTaken(key=CHARGE, gate="nothing", round=3), STREAM),
    ],
)
def test_what_could_not_be_answered_is_set_aside(said: i.Message, stream: str) -> None:
    """A gate grants nothing to what is no action, and no business event becomes a gate: an answer
    to it would have no place to go to.
    """
    sent = said.model_copy(update={"generation": GENERATION})
    here = replace(seat(), partition=partition_of(stream, seat().partitions))
    made = make_decision(record(sent, topic="internal", stream=stream), here)
    assert made is not None
    assert made.decision.quarantined is not None
    assert made.decision.quarantined.reason == "malformed_stream"
    assert made.messages == ()


def test_a_message_of_another_ledger_is_set_aside() -> None:
    """Its reservations are not ours."""
    made = make_decision(record(ask(), topic="internal", stream=RUN_GATE), seat())
    assert made is not None
    assert made.decision.quarantined is not None
    assert made.decision.quarantined.reason == "foreign_generation"
