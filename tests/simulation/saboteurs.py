"""Seeded bugs: each breaks one guard of the product while it is at work, and the simulation must
find it within a stated number of seeds. A guard whose absence nobody notices guards nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.simulation.sabotage import Saboteur
from tests.simulation.sabotage_deciding import DECIDING
from tests.simulation.sabotage_desk import DESK
from tests.simulation.sabotage_following import FOLLOWING
from tests.simulation.sabotage_gates import GATES
from tests.simulation.sabotage_orders import ORDERS
from tests.simulation.sabotage_people import PEOPLE
from tests.simulation.sabotage_reading import READING

SABOTEURS: Final[dict[str, Saboteur]] = (
    DECIDING | DESK | FOLLOWING | GATES | ORDERS | PEOPLE | READING
)


@contextmanager
def sabotaged(name: str) -> Iterator[None]:
    """The product with one guard removed."""
    patches = SABOTEURS[name].patches
    kept = [(place, attribute, getattr(place, attribute)) for place, attribute, _ in patches]
    for place, attribute, broken in patches:
        setattr(place, attribute, broken)
    try:
        yield
    finally:
        for place, attribute, original in kept:
            setattr(place, attribute, original)


STRUCK: Final[dict[str, str]] = {
    "approval expiry not checked": "is approval_expiry_not_checked",
    "approval bound to the action id only": "is approval_bound_to_the_key_only",
    "approver is the requester": "is requester_decides",
    "block lifted while an attempt is open": "is release_while_open",
    "grant to a dead action, double release, lost wake-up": "is grant_to_a_dead_action, "
    "double_release, lost_wake_up",
    # This design has no such part.
    "late batch of an old producer in the same epoch": "is no_place_check",
    "stale epoch accepted": "one batch is on its way at a time, so an old owner's record never "
    "stands at its own place once a new one has taken that very place; is no_place_check",
    "equal epoch accepted twice": "is equal_epoch_accepted",
    "own record not read back": "is own_record_not_checked",
    "offset committed on exception": "positions come from the ledger; is inputs_not_read_again",
    "retention checked only at the log": "is lease_is_all_that_counts",
    "lease clock from the executor": "is lease_from_reading",
    "lease taken without a legal start": "a lease is a start; is void_starts_acted_on",
    "pause between the last check and the first byte": "is any_time_before_the_first_byte",
    "offers replayed after an outage": "is lapsed_offer_spent",
    "caller told failed at the outcome's ack": "is told_at_anybodys_word",
    "broker clock ahead, then stepped back": "is log_time_of_the_input, time_from_the_future",
    "projector skips what it cannot fold": "is unfoldable_record_skipped",
    # What is outside the simulated world; the tests named guard it.
    "inbox recreated with offsets from 0": "refusing is the Kafka shell's: tests/integration; the "
    "world deletes topics, and its shell refuses as that one does",
    "webhook id used across tenants": "one tenant here; is foreign_account_believed",
    "signature over re-serialised JSON": "bytes at the door: tests/unit",
    "status read from the wall clock": "is wall_clock_in_the_fold",
    "set iteration order in canonical bytes": "bytes: tests/unit, tests/golden",
    "float amounts": "types: tests/unit",
    "row-level security not forced": "rights: tests/integration",
    "tenant taken from the payload": "the HTTP door: tests/integration",
    "secret in an error text": "the HTTP door and its logs: tests/integration",
}
"""Bugs of the list we began with that have no switch of their own here, and why."""
