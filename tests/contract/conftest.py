"""Fixtures of the contract suite: one stage for each adapter, started once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.stage import STAGES, ProviderProcess, Stage
from tests.contract.stripe_stage import stripe_stage

ALL = {**STAGES, "stripe": stripe_stage}


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
