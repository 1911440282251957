"""A trip of three steps, each with what undoes it, in the world of `tests.examples`: the plan, its
keys, and how one is led from step to step.
"""

from dataclasses import replace
from typing import Final

from ledger.core import inputs as i
from ledger.core.catalogue import Catalogue
from ledger.core.config import Config
from ledger.core.policy import AUTOMATIC, Policy
from ledger.core.sagas import Saga, saga_of
from ledger.core.state import Stream
from tests.examples import CONFIG, STREAM, request

TRIP: Final = "trip"
AGENT: Final = "agent:billing"
ITEMS: Final = ("flight", "hotel", "car")


def under(policy: Policy = AUTOMATIC, **declared: object) -> Config:
    """The configuration with a table, and every operation undone by a payout, or declared
    otherwise in some fields.
    """
    fields = {"compensation": "payout"} | declared
    operations = tuple(one.model_copy(update=fields) for one in CONFIG.catalogue.operations)
    catalogue = Catalogue(operations, CONFIG.content_hash, CONFIG.catalogue.timing)
    return replace(CONFIG, catalogue=catalogue, policy=policy)


TRAVELS: Final = under()


def do(item: str) -> str:
    """The key of a step."""
    return f"charge:v1:acme:renewal-1#{item}"


def undo(item: str) -> str:
    """The key of what undoes it."""
    return f"payout:v1:acme:renewal-1#{item}"


def planned(key: str, **changes: object) -> i.Planned:
    """An action of a plan, with the request that its key stands for."""
    return i.Planned(key=key, request=request(key).model_copy(update=changes))


def step(item: str, **changes: object) -> i.PlannedStep:
    """A step, and its compensation."""
    whole = {"key": do(item), "request": request(do(item)), "compensation": planned(undo(item))}
    return i.PlannedStep.model_validate(whole | changes)


def plan(*steps: i.PlannedStep, **changes: object) -> i.OpenSaga:
    """The trip, or other steps under its name."""
    whole = {
        "stream": STREAM,
        "saga": TRIP,
        "principal": AGENT,
        "steps": steps or tuple(step(item) for item in ITEMS),
    }
    return i.OpenSaga.model_validate(whole | changes)


def cancel_trip(**changes: object) -> i.CancelSaga:
    """The caller no longer wants it."""
    return i.CancelSaga(stream=STREAM, saga=TRIP, principal=AGENT).model_copy(update=changes)


def trip(stream: Stream) -> Saga:
    """The trip as it stands."""
    saga = saga_of(stream, TRIP)
    assert saga is not None
    return saga


def stands(stream: Stream) -> list[tuple[str, str | None]]:
    """The status of each step, and of its compensation."""
    return [
        (one.action.status.value, one.compensation.status.value if one.compensation else None)
        for one in trip(stream).steps
    ]
