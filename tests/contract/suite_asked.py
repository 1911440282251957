"""What both ways of asking the shipped suite have in common: the reasons why a check may not be
asked of an adapter, and how what came of one is held against them.
"""

from collections.abc import Mapping

from reconciler.providers.contract import alone, staged
from reconciler.providers.contract.checking import Came, verdict
from reconciler.providers.contract.stage import Stage

NO_SEARCH = "it cannot be searched"
NO_REPLAY = "the same key again is not declared to show the first effect"
SEARCHED = {"a_lookup_that_is_not_offered_proves_nothing": "it can be searched"}
LISTED = {"a_list_that_is_not_there_fails": "it lists effects"}
NotAsked = Mapping[str, str]
"""By check why it cannot be asked; all others have to be kept."""


async def ask_alone(check: alone.Check, provider: Stage, not_asked: NotAsked) -> None:
    """Ask what an adapter promises by itself, without a provider."""
    provider.account()
    came = await verdict(check, provider.settings())
    _holds(not_asked, came.name, came.came, came.why)


async def ask_staged(check: staged.Check, provider: Stage, not_asked: NotAsked) -> None:
    """Ask what an adapter promises in front of a provider that does wrong on purpose."""
    came = await verdict(check, provider)
    _holds(not_asked, came.name, came.came, came.why)


def _holds(not_asked: NotAsked, check: str, came: Came, why: str) -> None:
    reason = not_asked.get(check)
    if reason is None:
        assert (came, why) == (Came.KEPT, "")
    else:
        assert (came, why) == (Came.DOES_NOT_APPLY, reason)
