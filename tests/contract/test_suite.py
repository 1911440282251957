"""The shipped suite, asked of the shipped adapters: all holds, or says why it cannot be asked.

What does not apply is written down here for each adapter, so that nothing stops being asked unseen.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from reconciler.providers.contract import alone, staged
from reconciler.providers.contract.stage import Stage
from tests.contract import suite_stages
from tests.contract.suite_asked import LISTED, NO_REPLAY, NO_SEARCH, SEARCHED, ask_alone, ask_staged

STAGES: dict[str, Callable[[Path], AbstractContextManager[Stage]]] = {
    "http": suite_stages.described,
    "simulated": suite_stages.simulated,
    "smtp": suite_stages.smtp,
    "stripe": suite_stages.stripe,
}
NOT_ASKED: dict[str, dict[str, str]] = {
    "http": {
        **SEARCHED,
        **LISTED,
        "unknown_operation_is_never_sent": "it performs every operation",
    },
    "simulated": {
        **SEARCHED,
        **LISTED,
        "unknown_operation_is_never_sent": "it performs every operation",
    },
    "smtp": {
        "a_lost_answer_comes_back_under_the_same_key": NO_REPLAY,
        "two_calls_at_once_are_one_effect": (
            "nothing keeps a second call from being a second effect"
        ),
        "the_same_key_with_another_request_is_refused": NO_REPLAY,
        "an_effect_without_an_answer_is_found": NO_SEARCH,
        "what_never_happened_is_absent": NO_SEARCH,
        "what_was_refused_is_not_found": NO_SEARCH,
        "a_reference_of_another_action_proves_nothing": NO_SEARCH,
        "the_list_shows_every_effect_once": "effects cannot be listed",
    },
    "stripe": {**SEARCHED, **LISTED},
}


@pytest.fixture(scope="module", params=sorted(STAGES))
def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Stage]]:
    """Run the provider of one adapter."""
    with STAGES[request.param](tmp_path_factory.mktemp("suite")) as running:
        yield request.param, running


@pytest.mark.parametrize("check", alone.CHECKS, ids=lambda check: check.__name__)
async def test_the_first_half_holds(stage: tuple[str, Stage], check: alone.Check) -> None:
    """What an adapter promises by itself, without a provider."""
    name, provider = stage
    await ask_alone(check, provider, NOT_ASKED[name])


@pytest.mark.parametrize("check", staged.CHECKS, ids=lambda check: check.__name__)
async def test_the_second_half_holds(stage: tuple[str, Stage], check: staged.Check) -> None:
    """What an adapter promises in front of a provider that does wrong on purpose."""
    name, provider = stage
    await ask_staged(check, provider, NOT_ASKED[name])
