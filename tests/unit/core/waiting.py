"""Actions that wait for people, are ready by their word, and have begun: where tests begin."""

from typing import Final

from ledger.core.policy import Policy
from tests.examples import recorded
from tests.examples_of_people import (
    ONE,
    PEOPLE_MS,
    agreed,
    approves,
    asking,
    previewed,
    ruled,
    start_of,
    under,
)
from tests.unit.core.language import Given, after, given


def asked(policy: Policy = ONE) -> Given:
    """One action that waits for whom a table asks, since T0."""
    history = (ruled(policy, deadline=PEOPLE_MS), previewed(policy=policy), asking(policy=policy))
    return given(recorded(), *history).under(under(policy))


ASKED: Final = asked()
YES: Final = approves(at=10)
READY: Final = ASKED.and_then(after(10, agreed(YES, at=10)))
BEGUN: Final = READY.and_then(after(20, start_of(YES, at=20)))
