"""The shipped suite, asked of the adapters whose provider is a real database or a real broker."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from reconciler.providers.contract import alone, staged
from reconciler.providers.contract.stage import Stage
from tests.contract.outbox_stages import NEVER_FOR_NOW, KafkaStage, OutboxStage
from tests.contract.server_stages import Loop, PostgresStage, loop_in_thread
from tests.contract.suite_asked import LISTED, NO_REPLAY, NO_SEARCH, SEARCHED, ask_alone, ask_staged
from tests.servers import Addresses

pytestmark = pytest.mark.servers

NOT_ASKED: dict[str, dict[str, str]] = {
    "kafka": {
        "a_refusal_for_now_may_be_tried_again": NEVER_FOR_NOW,
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
    # The consumer knows a second record of the same key; whoever writes it does not.
    "outbox": {
        "a_refusal_for_now_may_be_tried_again": NEVER_FOR_NOW,
        **SEARCHED,
        **LISTED,
        "a_lost_answer_comes_back_under_the_same_key": NO_REPLAY,
        "the_same_key_with_another_request_is_refused": NO_REPLAY,
    },
    "postgres": {**SEARCHED, **LISTED},
}


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    """A loop for whatever the stages ask of their servers."""
    with loop_in_thread() as running:
        yield running


@contextmanager
def database(servers: Addresses, loop: Loop) -> Iterator[str]:
    """An empty database."""
    name = f"suite_{secrets.token_hex(6)}"
    admin = loop.run(asyncpg.connect(servers.admin_url))
    loop.run(admin.execute(f"create database {name}"))
    yield urlunsplit(urlsplit(servers.admin_url)._replace(path=f"/{name}"))
    loop.run(admin.execute(f"drop database {name} with (force)"))
    loop.run(admin.close())


@pytest.fixture(scope="module", params=sorted(NOT_ASKED))
def stage(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    servers: Addresses,
    loop: Loop,
) -> Iterator[tuple[str, Stage]]:
    """Run the provider of one adapter."""
    folder = tmp_path_factory.mktemp("suite")
    with database(servers, loop) as url:
        running: KafkaStage | PostgresStage
        match request.param:
            case "kafka":
                running = KafkaStage(loop, servers.kafka_bootstrap, folder)
            case "outbox":
                running = OutboxStage(loop, servers.kafka_bootstrap, url, folder)
            case _:
                running = PostgresStage(loop, url, folder)
        yield request.param, running
        running.close()


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
