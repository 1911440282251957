"""Actions that need a person, by every way in which they come to one, and the words for settling
them: where tests of the review desk begin.
"""

from typing import Any, Final

from ledger.core import inputs as i
from ledger.core.decide.resolving import moves
from ledger.core.inputs import Meaning
from ledger.core.statement import Move
from tests.examples import (
    CHARGE,
    EMAIL,
    EUR_499,
    LAG_MS,
    LEASE_MS,
    PAYOUT,
    SETTLE_MS,
    SKEW_MS,
    T0,
    TICKET,
    asked,
    declined,
    found_out,
    kept,
    recorded,
    review,
    started,
    succeeded,
    unresolved,
)
from tests.examples_of_people import FREE, judged, resolution, ruled, under
from tests.unit.core.language import Given, after, given

OVER: Final = LEASE_MS + SKEW_MS + LAG_MS + SETTLE_MS + 1
"""When nothing of an attempt that began at T0 can leave, take effect or come to light any more."""
EMAIL_OVER: Final = LEASE_MS + SKEW_MS + 1

UNDER: Final = under(FREE)
"""Everything goes ahead by itself, and everybody is registered."""


def begun(key: str = CHARGE) -> Given:
    """One attempt is under way."""
    return given(recorded(key), ruled(FREE, key=key), started(key=key)).under(UNDER)


def unknown(key: str = CHARGE) -> Given:
    """Its answer was lost."""
    return begun(key).and_then(after(5_000, unresolved(key=key)))


OPEN: Final = unknown().and_then(after(9_000, review("lookups_exhausted")))
"""A charge whose answer nobody could find out: the case was opened by version 5."""
OPEN_EMAIL: Final = unknown(EMAIL).and_then(after(9_000, review("no_way_to_find_out", key=EMAIL)))
OPEN_TICKET: Final = unknown(TICKET).and_then(after(9_000, review("lookups_exhausted", key=TICKET)))
OPEN_PAYOUT: Final = unknown(PAYOUT).and_then(after(9_000, review("lookups_exhausted", key=PAYOUT)))
GIVEN_BACK: Final = begun().and_then(declined(), review("declines_exhausted"))
"""Every executor gave the start back: nothing was ever sent. Version 5."""
NEVER_BEGUN: Final = (
    given(recorded(), ruled(FREE)).and_then(review("operation_withdrawn")).under(UNDER)
)
"""Version 3."""
DIFFERS: Final = unknown().and_then(
    after(
        8_000,
        kept(found_out(Meaning.EFFECT, lookup=None, money=EUR_499)),
        review("amount_differs"),
    )
)
"""The provider has an effect of another amount. Opened by version 6."""
PARTLY: Final = begun().and_then(
    after(5_000, unresolved(code="partly_succeeded"), review("partly_succeeded"))
)
CONFIRMED: Final = begun().and_then(
    after(4_000, review("amount_differs")), after(5_000, succeeded())
)
"""A webhook named another amount while the attempt ran, and then the provider confirmed to us."""
RUNNING: Final = begun().and_then(after(4_000, review("amount_differs")))
ASKED_ALREADY: Final = OPEN.and_then(after(9_500, asked(at=9_500)))


def offered(known: Given, *, at: int, key: str = CHARGE) -> set[Move]:
    """The moves that are safe at a time."""
    action = known.action(key)
    operation = known.config.operation(action.request.operation, action.request.version)
    return {one.move for one in moves(action, operation, known.config, T0 + at)}


def settles(
    known: Given,
    move: Move,
    *,
    at: int,
    key: str = CHARGE,
    **changes: Any,  # noqa: ANN401
) -> i.Judged:
    """Somebody signs a move for the case as it stands."""
    case = known.action(key).case
    assert case is not None
    bound = {"case": case.opened_version, "moved": case.moved_version} | changes
    return judged(resolution(move, key=key, at=at, **bound))
