"""The set-up step and where processes begin, on the real Kafka and Postgres."""

import secrets
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from gateway.cli.doctor import FoundError, _clock
from gateway.settings import Flush, Settings
from gateway.wiring import run_setup
from gateway.wiring.installation import (
    ForeignDatabaseError,
    NotSetUpError,
    UnknownProviderError,
    begin_at,
    open_log,
    open_pool,
    providers,
)
from gateway.wiring.life import Life
from gateway.wiring.publishing import (
    CatalogueRefusedError,
    DocumentRefusedError,
    default_catalogue,
    default_policy,
    publish_catalogue,
)
from ledger.core.policy import policy_hash
from ledger.log.admin import TopicsError, apply_topics, check_topics, cluster_id
from ledger.log.fold import Begin
from ledger.log.follow import genesis_of, published_catalogue
from ledger.log.published import read_published
from projections.errors import MigrationError
from projections.migrate import read_migrations
from projections.projector import Projector
from projections.text_order import OtherTextOrderError
from tests import asking
from tests.servers import Addresses

pytestmark = pytest.mark.servers


@pytest.fixture
def settings(servers: Addresses, empty_database_url: str, tmp_path: Path) -> Settings:
    """Topics and a database of its own."""
    return Settings.from_environment(
        {
            "ACTIONLEDGER_KAFKA": servers.kafka_bootstrap,
            "ACTIONLEDGER_DATABASE": empty_database_url,
            "ACTIONLEDGER_TOPIC_PREFIX": f"setup{secrets.token_hex(4)}.",
            "ACTIONLEDGER_PARTITIONS": "2",
            "ACTIONLEDGER_STATE": str(tmp_path),
            "ACTIONLEDGER_PROVIDER_URLS": "simulated=http://127.0.0.1:1",
        }
    )


async def set_up(settings: Settings) -> None:
    """Run the step as its process does."""
    await run_setup.run(settings, Life("setup", None))


async def test_setting_up_again_changes_nothing(settings: Settings) -> None:
    """Topics, catalogue and tables are made once; the generation stays."""
    await set_up(settings)
    log = open_log(settings, "test")
    before = await genesis_of(log)
    await set_up(settings)
    assert await genesis_of(log) == before
    assert before.partitions == 2
    catalogue = await published_catalogue(log)
    assert catalogue is not None
    (provider,) = providers(settings, catalogue)
    assert set(provider.api_keys) == {"main"}


async def test_the_flush_of_an_installation_is_set_and_checked(settings: Settings) -> None:
    """With every record written through, the topics that hold facts say so, and one that does not
    is a difference.
    """
    written = replace(settings, flush=Flush.EVERY_RECORD)
    await set_up(written)
    log = open_log(settings, "test")
    every = written.flush.records
    assert await check_topics(log, partitions=2, flush_records=every) == ()
    other = replace(settings, topic_prefix=f"{settings.topic_prefix}other.")
    await run_setup.run(other, Life("setup", None))
    differences = await check_topics(open_log(other, "test"), partitions=2, flush_records=every)
    assert {one.setting for one in differences} == {"flush.messages"}


async def test_a_catalogue_is_published_once_and_never_with_a_mistake(settings: Settings) -> None:
    """What is in force is not published again, and a text with a mistake reaches no topic."""
    await set_up(settings)
    log = open_log(settings, "test")
    assert await publish_catalogue(log, default_catalogue()) == (1, False)
    with pytest.raises(CatalogueRefusedError, match="line"):
        await publish_catalogue(log, "[[operation]]\nname = 1\n")
    assert await publish_catalogue(log, f"{default_catalogue()}\n# more\n") == (2, True)


async def test_no_partition_ever_decides_without_a_table(settings: Settings) -> None:
    """The decision table stands before the first catalogue, and a second run leaves both."""
    await set_up(settings)
    log = open_log(settings, "test")
    published = await read_published(log)
    assert published.policy.content_hash == policy_hash(default_policy())
    assert published.policy_offset == 0
    assert published.catalogue_offset == 1
    await set_up(settings)
    assert (await read_published(log)).next_offset == 2


async def test_another_table_may_be_the_first(settings: Settings, tmp_path: Path) -> None:
    """An operator names it; one with a mistake ends the step, and nothing is decided under none."""
    file = tmp_path / "own.toml"
    file.write_text("[[row]]\nname = 1\n", encoding="utf-8")
    own = replace(settings, policy_file=file)
    with pytest.raises(ExceptionGroup) as refused:
        await set_up(own)
    assert refused.group_contains(DocumentRefusedError, match="line")
    log = open_log(settings, "test")
    assert (await read_published(log)).next_offset == 0
    file.write_text(asking.EVERYTHING_GOES_AHEAD, encoding="utf-8")
    await set_up(own)
    published = await read_published(log)
    assert published.policy.content_hash == policy_hash(asking.EVERYTHING_GOES_AHEAD)


async def test_processes_begin_where_the_tables_are(settings: Settings) -> None:
    """Where the database knows the epoch reading begins there; where it is away, at the start."""
    await set_up(settings)
    log = open_log(settings, "test")
    genesis = await genesis_of(log)
    async with await open_pool(settings) as pool:
        assert await begin_at(log, pool, genesis) == {}
        await Projector(log, pool, range(2)).run_until({0: 1, 1: 1})
        assert await begin_at(log, pool, genesis) == {0: Begin(1, 0), 1: Begin(1, 0)}
    away = replace(settings, database_url="postgresql://127.0.0.1:1/nowhere")
    async with await open_pool(away) as pool:
        assert await begin_at(log, pool, genesis) == {}


async def test_a_process_that_is_started_before_the_set_up_step_is_told_so(
    settings: Settings,
) -> None:
    """Without topics, without tables, and with those of an older version or of another build, each
    by name and with what to do; a newer version's are left to who reads them.
    """
    log = open_log(settings, "test")
    with pytest.raises(TopicsError, match=r"actionledger run setup"):
        await genesis_of(log)
    await apply_topics(log, partitions=2, generation="generation")
    genesis = await genesis_of(log)
    async with await open_pool(settings) as pool:
        with pytest.raises(NotSetUpError, match=r"actionledger run setup"):
            await begin_at(log, pool, genesis)
        await set_up(settings)
        assert await begin_at(log, pool, genesis) == {}
        first, *_, newest = read_migrations()
        changed = "update actionledger.schema_migrations set sha256 = $2 where version = $1"
        await pool.execute(changed, newest.version, "of another build")
        with pytest.raises(MigrationError, match=newest.file) as refused:
            await begin_at(log, pool, genesis)
        assert "Run the program that set this database up" in refused.value.hint
        await pool.execute(changed, newest.version, newest.sha256)
        await pool.execute(
            "update actionledger.schema_migrations set version = '9999' where version = $1",
            newest.version,
        )
        assert await begin_at(log, pool, genesis) == {}
        # Whoever is ahead has the same files under the numbers that both know.
        await pool.execute(changed, first.version, "of another build")
        with pytest.raises(MigrationError, match=first.file):
            await begin_at(log, pool, genesis)
        await pool.execute(changed, first.version, first.sha256)
        await pool.execute("delete from actionledger.schema_migrations where version = '9999'")
        with pytest.raises(NotSetUpError, match=newest.file):
            await begin_at(log, pool, genesis)


async def test_a_database_of_another_log_is_refused(settings: Settings) -> None:
    """Tables of another generation or cluster, of more partitions than there are, or ahead of the
    log, end the process before it works.
    """
    await set_up(settings)
    log = open_log(settings, "test")
    genesis = await genesis_of(log)
    async with await open_pool(settings) as pool:
        await Projector(log, pool, range(2)).run_until({0: 1, 1: 1})
        with pytest.raises(ForeignDatabaseError):
            await begin_at(log, pool, genesis.model_copy(update={"generation": "other"}))
        with pytest.raises(ForeignDatabaseError):
            await begin_at(log, pool, genesis.model_copy(update={"partitions": 1}))
        await _say(pool, "update actionledger.projection_offsets set cluster = 'another'")
        with pytest.raises(ForeignDatabaseError):
            await begin_at(log, pool, genesis)
        await pool.execute(
            "update actionledger.projection_offsets set cluster = $1", await cluster_id(log)
        )
        assert set(await begin_at(log, pool, genesis)) == {0, 1}
        await _say(pool, "update actionledger.projection_offsets set next_offset = 9")
        with pytest.raises(ForeignDatabaseError):
            await begin_at(log, pool, genesis)


async def test_the_doctor_tells_of_clocks_that_were_set_back(settings: Settings) -> None:
    """Decided on a day ahead, the ledger starts nothing for a day: somebody must hear of it."""
    await set_up(settings)
    log = open_log(settings, "test")
    async with await open_pool(settings) as pool:
        await Projector(log, pool, range(2)).run_until({0: 1, 1: 1})
        assert "apart from Postgres" in await _clock(settings)
        await _say(pool, "update actionledger.projection_offsets set decided_at = now() + '1 day'")
        with pytest.raises(FoundError, match="set back"):
            await _clock(settings)


async def test_a_database_whose_indexes_may_miss_rows_is_refused(settings: Settings) -> None:
    """Family `store`, beside C175: an upgrade of the system sorts texts otherwise, and a key that
    its index does not find would be taken for a new one. It is the version that Postgres keeps.
    """
    await set_up(settings)
    log = open_log(settings, "test")
    genesis = await genesis_of(log)
    changed = "update pg_database set datcollversion = $1 where datname = current_database()"
    async with await open_pool(settings) as pool:
        assert await begin_at(log, pool, genesis) == {}
        await pool.execute(changed, "2.27")
        with pytest.raises(OtherTextOrderError, match=r"2\.27"):
            await begin_at(log, pool, genesis)
        await pool.execute(changed, None)
        assert await begin_at(log, pool, genesis) == {}


def test_a_provider_without_an_adapter_is_named(settings: Settings) -> None:
    """An address for a provider that nobody can speak to is trouble, not silence."""
    wrong = replace(settings, provider_urls={"acquirer": "http://127.0.0.1:1"})
    with pytest.raises(UnknownProviderError, match="acquirer"):
        providers(wrong, None)


async def _say(pool: asyncpg.Pool, statement: str) -> None:
    await pool.execute(statement)
