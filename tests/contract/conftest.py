"""Fixtures of the contract suite: one stage for each adapter, started once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.stage import STAGES, ProviderProcess, Stage
from tests.contract.stripe_stage import MODULE, NOT_ASKED, StripeStage, stripe_stage

ALL = {**STAGES, "stripe": stripe_stage}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is no question to Stripe, by the table that says why."""
    left_out = [item for item in items if is_no_question(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def is_no_question(item: pytest.Item) -> bool:
    """Whether this item would ask Stripe what the table leaves out."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return False
    asked = item.callspec.params
    if asked.get("stage") != "stripe":
        return False
    names = {item.originalname, item.path.stem, str(asked.get("behaviour", ""))}
    return not names.isdisjoint(NOT_ASKED)


@pytest.fixture(scope="session", params=sorted(ALL))
def stage(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """Run the provider of one adapter."""
    with ALL[request.param](tmp_path_factory.mktemp("provider")) as running:
        yield running


@pytest.fixture
def own_process(tmp_path: Path) -> Iterator[ProviderProcess]:
    """Run a simulated provider for this test alone, to be killed and started again."""
    process = ProviderProcess(tmp_path, "--webhook-retry-ms", "40")
    process.start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def stripe_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderProcess]:
    """Run one Stripe for this module."""
    process = ProviderProcess(
        tmp_path_factory.mktemp("stripe"), "--webhook-retry-ms", "40", module=MODULE
    )
    process.start()
    yield process
    process.stop()


@pytest.fixture
def stripe(stripe_process: ProviderProcess) -> StripeStage:
    """Let it start over: every account behaves as Stripe is documented."""
    stripe_process.control("reset", {})
    return StripeStage(stripe_process)
