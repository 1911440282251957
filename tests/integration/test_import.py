"""A settlement file from its first line to what the ledger makes of each, on the real servers."""

import asyncio
import contextlib
import csv
import os
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.settings import Settings
from gateway.wiring.import_desk import STILL_MS_MAX, FileMeant, Imported, account_of, import_file
from gateway.wiring.orphan_desk import list_orphans, note_orphan
from ledger.core.ids import stream_key_of
from ledger.core.inputs import Propose
from ledger.core.money import Money
from ledger.log.envelope import outgoing
from ledger.log.topics import Topic, partition_of
from ledger.log.webhook_record import webhook_key, webhook_outgoing
from projections.projector import Projector
from reconciler.matching import ParkedReason
from reconciler.orphan_notes import OrphanNote
from reconciler.orphans import place_of
from reconciler.providers.port import (
    Deadlines,
    Outcome,
    ProviderRequest,
    Succeeded,
    Unresolved,
)
from reconciler.providers.settlement import SIMULATED, Columns
from reconciler.providers.simulated.payouts import COLUMNS
from reconciler.statement_intake import Standing
from reconciler.statement_lines import Effect, StatementLine
from tests.commands import told_beside
from tests.integration.installation import PARTITIONS, Installation, charge, installed
from tests.integration.reconciling import Reconciling, evidence, reconciling
from tests.integration.test_holds import settings_of
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses
from tests.statements import received_line

if TYPE_CHECKING:
    from gateway.local.progress import Progress
    from ledger.log.port import Outgoing

pytestmark = pytest.mark.servers

LINES = 2_000
LOST = 40
"""Charges whose answer is lost: a line of the file is all that is ever heard of them."""

CONFLICTS = 25
ORPHANS = 30
LOOK_SECONDS = 0.05

BEGUN = """
select * from actionledger.webhooks
where event_id = $1 or starts_with(event_id, $1 || '~')
order by topic_offset
"""
"""The rows of a line, with those of what else came under its id."""


class Losing:
    """A provider that makes every effect, and loses the answers of the first few."""

    def __init__(self) -> None:
        self.references: dict[str, str] = {}

    async def perform(
        self,
        request: ProviderRequest,
        *,
        provider_key: str,
        deadlines: Deadlines,
        before_first_byte: Callable[[], None],
    ) -> Outcome:
        """One effect a key."""
        assert provider_key
        assert deadlines.response_ms > 0
        before_first_byte()
        number = int(request.action_key.rpartition("-")[2])
        self.references[request.action_key] = f"ch_{number}"
        if number < LOST:
            return Unresolved("answer_lost")
        return Succeeded(reference=f"ch_{number}", result={})

    async def close(self) -> None:
        """Nothing is open."""


def proposal(number: int) -> Propose:
    """A charge of an order of its own."""
    one = charge(f"sale-{number}", minor=1_000 + number)
    return one.model_copy(
        update={"request": one.request.model_copy(update={"target": f"order:{number}"})}
    )


@dataclass
class Place:
    """An installation whose charges have been made, and what reads files into it."""

    one: Installation
    all_: Reconciling
    settings: Settings
    folder: Path

    async def bring(
        self,
        rows: Sequence[Sequence[str]],
        *,
        skip_bad: bool = False,
        patience_ms: int = STILL_MS_MAX,
        columns: Columns = SIMULATED,
    ) -> Imported:
        """Write a file and import it."""
        path = written(self.folder / "payouts.csv", rows)
        account = await account_of(self.settings, "simulated", None)
        meant = FileMeant(path, columns, "csv", "simulated", account, skips_bad=skip_bad)
        seen: list[Progress] = []
        done = await import_file(self.settings, meant, seen.append, patience_ms=patience_ms)
        assert seen
        assert all(step.done <= step.total for step in seen)
        counted = (done.irrelevant, done.bad, done.repeated, done.matched, done.already_known)
        told = (done.unmatched, done.conflicting, done.waiting)
        assert done.is_refused or sum((*counted, *told)) == done.lines
        return done


@contextlib.asynccontextmanager
async def charged(
    servers: Addresses, database_url: str, folder: Path, count: int
) -> AsyncIterator[Place]:
    """Charges 0 to `count`, made and projected; the answers of the first are lost."""
    async with (
        installed(servers.kafka_bootstrap) as one,
        reconciling(one, database_url) as all_,
    ):
        projector = Projector(one.log, all_.pool, range(PARTITIONS))
        await one.processor()
        await one._start(projector.run, _at_once())
        await one.executor(Losing())
        await propose(one, [proposal(number) for number in range(count)])
        await decided(all_, completed=count - min(LOST, count), unknown=min(LOST, count))
        yield Place(one, all_, settings_of(one, database_url), folder)


def _at_once() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


async def propose(one: Installation, proposals: Sequence[Propose]) -> None:
    """Put intents where the gateway would."""
    by_partition: defaultdict[int, list[Outgoing]] = defaultdict(list)
    for each in proposals:
        stream = stream_key_of(each.key)
        by_partition[partition_of(stream, PARTITIONS)].append(
            outgoing(each, stream=stream, subject=each.key, event_id=each.key, source="/test")
        )
    for partition, records in by_partition.items():
        await one.put(Topic.INTENTS, partition, *records)


async def decided(all_: Reconciling, **wanted: int) -> None:
    """Wait until so many actions have each status."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await statuses(all_) != {name: count for name, count in wanted.items() if count}:
            await asyncio.sleep(LOOK_SECONDS)


async def statuses(all_: Reconciling) -> dict[str, int]:
    """How many actions the tables have, by status."""
    rows = await all_.pool.fetch(
        "select status, count(*) as actions from actionledger.actions group by status"
    )
    return {row["status"]: row["actions"] for row in rows}


def row_of(number: int, *, minor: int | None = None, key: bool = True) -> list[str]:
    """A line of the payout report about a charge."""
    amount = 1_000 + number if minor is None else minor
    return [
        f"po_{number}",
        "made",
        f"ch_{number}",
        "",
        "charge",
        "",
        f"charge:v1:acme:sale-{number}" if key else "",
        f"{amount // 100}.{amount % 100:02d}",
        "EUR",
        "2026-11-30T10:00:00+00:00",
    ]


def written(path: Path, rows: Sequence[Sequence[str]]) -> Path:
    """The file of a payout report."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    return path


async def test_every_line_of_a_file_ends_in_one_count(
    servers: Addresses, database_url: str, tmp_path: Path
) -> None:
    """Two thousand lines: most confirm what is completed and cost the ledger nothing, some settle
    what was unknown, some contradict it, some are nobody's. The same file again changes nothing.
    """
    async with charged(servers, database_url, tmp_path, LINES - ORPHANS) as place:
        rows = [row_of(number, key=number % 2 == 0) for number in range(LINES - ORPHANS)]
        for number in range(LOST):
            # Nothing but our key ties a lost answer to its line.
            rows[number] = row_of(number)
        differing = range(LOST, LOST + CONFLICTS)
        for number in differing:
            rows[number] = row_of(number, minor=1)
        rows += [row_of(10_000 + number, key=number % 2 == 0) for number in range(ORPHANS)]
        rows.append(["", "payout", "", "", "", "", "", "", "", ""])
        rows.append(rows[100])

        done = await place.bring(rows)

        counts = (done.lines, done.irrelevant, done.repeated, done.bad, done.waiting)
        assert counts == (LINES + 2, 1, 1, 0, 0)
        assert (done.unmatched, done.conflicting) == (ORPHANS, CONFLICTS)
        assert (done.matched, done.already_known) == (LINES - ORPHANS - CONFLICTS, 0)
        whys = Counter((one.standing, one.why) for one in done.differences)
        assert whys == {
            (Standing.UNMATCHED, ParkedReason.ORPHAN_EFFECT): ORPHANS,
            (Standing.CONFLICTING, "amount_differs"): CONFLICTS,
        }
        assert await statuses(place.all_) == {"completed": LINES - ORPHANS}
        proofs = await place.all_.pool.fetchval(
            "select count(*) from actionledger.actions where proof = 'settlement'"
        )
        assert proofs == LOST
        # What only confirms is a row, and no evidence: the ledger holds it.
        told = {one.key for one in await evidence(place.one)}
        assert len(told) == LOST + CONFLICTS

        again = await place.bring(rows)

        assert (again.sent, again.matched) == (0, 0)
        assert again.already_known == done.matched
        assert (again.unmatched, again.conflicting) == (ORPHANS, CONFLICTS)
        assert len(await evidence(place.one)) == LOST + CONFLICTS


async def test_a_changed_line_is_a_conflict(
    servers: Addresses, database_url: str, tmp_path: Path
) -> None:
    """Under an id that another line has, whatever it says is the provider's contradiction."""
    async with charged(servers, database_url, tmp_path, LOST + 2) as place:
        first = row_of(LOST)
        assert (await place.bring([first])).matched == 1
        changed = [*first]
        changed[2] = "ch_another"

        for _ in range(2):
            done = await place.bring([changed])
            (found,) = done.differences
            assert (found.standing, found.why) == (Standing.CONFLICTING, "line_changed")
        assert (await place.bring([first])).already_known == 1
        assert await evidence(place.one) == []

        (orphan,), _ = await list_orphans(place.settings, 10)
        at = place_of(*orphan.place.split("/"))
        assert at is not None
        assert (orphan.why, orphan.reference) == ("line_changed", "ch_another")
        await note_orphan(place.settings, at, OrphanNote(by="ops", note="Their mistake."))
        assert await list_orphans(place.settings, 10) == ([], 0)


@pytest.mark.case("C085")
async def test_c085_what_was_moving_in_one_file_is_settled_by_the_next(
    servers: Addresses, database_url: str, tmp_path: Path
) -> None:
    """C085: the report of a month lists a payment that moves, that of the next one how it ended,
    both under one id. Whichever is brought first, and however often, each is told once.
    """
    columns = replace(SIMULATED, types={**SIMULATED.types, "moves": "pending"})
    async with charged(servers, database_url, tmp_path, 2) as place:
        settled = [row_of(0), row_of(1)]
        moving = [[row[0], "moves", *row[2:]] for row in settled]
        assert (await place.bring(moving[:1], columns=columns)).matched == 1
        assert await statuses(place.all_) == {"unknown": 2}

        assert (await place.bring(settled, columns=columns)).matched == 2
        await decided(place.all_, completed=2)
        assert (await place.bring(moving[1:], columns=columns)).conflicting == 0

        for rows in (moving, settled):
            done = await place.bring(rows, columns=columns)
            assert (done.sent, done.already_known) == (0, 2)
        assert len(await evidence(place.one)) == 4


@pytest.mark.case("C085")
async def test_c085_a_third_content_of_a_line_is_a_conflict(
    servers: Addresses, database_url: str, tmp_path: Path
) -> None:
    """C085: pending, settled, and settled otherwise under one id: the third is a contradiction, of
    an action and of nobody, in a file of its own and behind the others in one batch. It is told to
    nobody, and what the first two said stays.
    """
    columns = replace(SIMULATED, types={**SIMULATED.types, "moves": "pending"})
    async with charged(servers, database_url, tmp_path, 2) as place:
        for number, told in ((0, 2), (10_000, 0)):
            settled, third = row_of(number), row_of(number, minor=7)
            before = len(await evidence(place.one))
            await place.bring([[settled[0], "moves", *settled[2:]]], columns=columns)
            assert (await place.bring([settled], columns=columns)).sent == 1
            done = await place.bring([third], columns=columns)

            (found,) = done.differences
            assert (found.standing, found.why) == (Standing.CONFLICTING, "line_changed")
            assert len(await evidence(place.one)) == before + told
            again = await place.bring([settled], columns=columns)
            assert (again.sent, again.conflicting) == (0, 0)

        effects: list[tuple[Effect, int]] = [("pending", 1_001), ("exists", 1_001), ("exists", 7)]
        sent = [
            received_line(
                StatementLine(
                    line_id="po_1",
                    reference="ch_1",
                    action_key="charge:v1:acme:sale-1",
                    money=Money(minor=minor, currency="EUR"),
                    effect=effect,
                    occurred_at=1,
                    raw_sha256="0" * 64,
                ),
                source="settlement",
                provider="simulated",
                account="main",
            )
            for effect, minor in effects
        ]
        partition = partition_of(webhook_key(sent[0]), PARTITIONS)
        await place.one.put(Topic.WEBHOOKS, partition, *map(webhook_outgoing, sent))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(rows := await place.all_.pool.fetch(BEGUN, "settlement/po_1")) < len(sent):
                await asyncio.sleep(LOOK_SECONDS)
        assert [row["reason"] for row in rows] == [None, None, "line_changed"]


async def test_an_orphan_is_matched_when_its_action_appears(
    servers: Addresses, database_url: str, tmp_path: Path
) -> None:
    """A file that is ahead of the ledger: the sweep brings the line to its action later."""
    async with charged(servers, database_url, tmp_path, 1) as place:
        late = LOST + 500
        assert (await place.bring([row_of(late)])).unmatched == 1
        await place.all_.inquirer()

        await propose(place.one, [proposal(late)])

        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await place.bring([row_of(late)])).already_known != 1:
                await asyncio.sleep(LOOK_SECONDS)


async def test_a_file_with_a_bad_line_is_not_begun(
    servers: Addresses, database_url: str, tmp_path: Path
) -> None:
    """Nothing is sent before the last line was read; what is good is sent only when asked for."""
    async with charged(servers, database_url, tmp_path, LOST + 1) as place:
        bad = row_of(LOST)
        bad[7] = "4,99"

        done = await place.bring([row_of(0), bad])
        assert done.is_refused
        assert [(one.number, one.code) for one in done.bad_lines] == [(3, "not_an_amount")]
        assert await place.all_.pool.fetchval("select count(*) from actionledger.webhooks") == 0

        done = await place.bring([row_of(0), bad], skip_bad=True)
        assert (done.bad, done.matched) == (1, 1)

        done = await place.bring([bad], skip_bad=True)
        assert (done.is_refused, done.bad, done.lines) == (True, 1, 1)


async def test_the_command_says_what_differs_and_where_to_look(
    servers: Addresses, database_url: str, tmp_path: Path
) -> None:
    """Another amount ends with 3 and the case's command; a file without a good line ends with 4,
    whatever is skipped.
    """
    async with charged(servers, database_url, tmp_path, 1) as place:
        other = row_of(0)
        other[7] = "0.01"
        told, code = await command(place, written(tmp_path / "other.csv", [other]))
        assert code == 3, told
        assert "line 2: conflicting: amount_differs" in told
        assert "actionledger review show KEY" in told

        other[7] = "4,99"
        bad = written(tmp_path / "bad.csv", [other])
        told, code = await command(place, bad, "--skip-bad")
        assert code == 4, told
        assert "Nothing was sent: 1 of 1 line is bad." in told


async def command(place: Place, path: Path, *options: str) -> tuple[str, int]:
    """What the command says of a file, and how it ends."""
    words = ("evidence", "import", str(path), "--provider", "simulated", *options)
    said = await told_beside(words, environment(place))
    return said.out, said.code


@pytest.mark.parametrize("point", ["lines_sent", "lines_acked"])
async def test_an_import_that_is_killed_goes_on_where_it_ended(
    servers: Addresses, database_url: str, tmp_path: Path, point: str
) -> None:
    """Killed while its second batch is on its way, or just after: the same command again brings the
    rest, and every line counts once.
    """
    count = 2_500
    async with charged(servers, database_url, tmp_path, LOST) as place:
        rows = [row_of(number) for number in range(LOST)]
        rows += [row_of(20_000 + number, key=False) for number in range(count - LOST)]
        path = written(tmp_path / "payouts.csv", rows)
        killed = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("actionledger"),
            "evidence",
            "import",
            str(path),
            "--provider",
            "simulated",
            env={**environment(place), "ACTIONLEDGER_CRASH_AT": f"{point}:2"},
        )
        assert await killed.wait() == -9

        done = await place.bring(rows)

        assert (done.matched + done.already_known, done.unmatched) == (LOST, count - LOST)
        assert done.waiting == 0
        assert await statuses(place.all_) == {"completed": LOST}
        facts = await place.all_.pool.fetchval(
            "select count(*) from actionledger.action_events where type = 'evidence.recorded'"
            " and data ->> 'kind' = 'settlement'"
        )
        assert facts == LOST
        lines = await place.all_.pool.fetchval(
            "select count(*) from actionledger.webhooks where classification <> 'duplicate'"
        )
        assert lines == count


def environment(place: Place) -> dict[str, str]:
    """What a command needs to reach the installation."""
    settings = place.settings
    return {
        "PATH": os.defpath,
        "ACTIONLEDGER_KAFKA": settings.kafka_bootstrap,
        "ACTIONLEDGER_DATABASE": settings.database_url,
        "ACTIONLEDGER_TOPIC_PREFIX": settings.topic_prefix,
        "ACTIONLEDGER_PARTITIONS": str(PARTITIONS),
    }
