"""The import of a settlement file: looked at whole, brought line by line, followed to its end.

Guarantees that nothing is sent of a file with a bad line unless that was asked for; that what
is sent is what was looked at, whoever writes to the file meanwhile; that again, or after a crash,
nothing counts twice; and that the report adds up: every line is in exactly one of its counts.
Memory grows with the number of lines by some 150 bytes each, never with their length; what is
written down on the way goes to the folder of temporary files. Called by the command line.
"""

import asyncio
import hashlib
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, NamedTuple, assert_never

from gateway.local.progress import Progress, Report
from gateway.settings import Settings
from gateway.wiring.installation import open_log, open_pool
from ledger.core.errors import LedgerError
from ledger.log.follow import genesis_of, published_catalogue
from ledger.log.steady import SteadyAppender
from ledger.log.webhook_record import WebhookSource
from reconciler.providers.settlement import Columns, FileFormat
from reconciler.settlement_files import BadLine, IrrelevantLine, Read, Stated, read_file
from reconciler.statement_intake import Brought, Finding, Sought, Standing, StatementIntake
from reconciler.statement_lines import said_by_line
from reconciler.statement_matching import Said
from streams.clock import mono_ms

LINES_AT_ONCE: Final = 1_000
SENDS_AT_ONCE: Final = 4
LINES_MAX: Final = 1_000_000
SHOWN_MAX: Final = 1_000
"""Bad lines, and lines that differ, that a report names one by one; all of them are counted."""

LOOK_MS: Final = 250
STILL_MS_MAX: Final = 60_000
"""Nothing decided for so long means that somebody is away, not that there is much to do."""

CHECKING: Final = "checking"
SENDING: Final = "sending"
DECIDING: Final = "deciding"


class UnknownAccountError(LedgerError):
    """It is not known on which account a file is about."""


class TooManyLinesError(LedgerError):
    """A file has more lines than one import oversees."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A line that is not simply matched: what it says, which action it is about, and why not."""

    line: int
    line_id: str
    reference: str
    standing: Standing
    why: str | None
    action_key: str | None


@dataclass(slots=True)
class Imported:
    """What became of a file. `lines` is the sum of the counts from `irrelevant` to `waiting`; where
    `is_refused`, nothing was sent because lines are bad, and the rest was not looked at.
    """

    file: str
    provider: str
    account: str
    lines: int = 0
    irrelevant: int = 0
    bad: int = 0
    repeated: int = 0
    matched: int = 0
    already_known: int = 0
    unmatched: int = 0
    conflicting: int = 0
    waiting: int = 0
    sent: int = 0
    bad_lines: list[BadLine] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    is_refused: bool = False


class _Sent(NamedTuple):
    """A line on its way: its number in the file, and whether it had a row before."""

    number: int
    was_known: bool
    sought: Sought


@dataclass(frozen=True, slots=True)
class FileMeant:
    """A file, how it is read, and whose statement it is; `skips_bad` where a bad line does not keep
    the others from being sent. A file without a good line is refused either way.
    """

    path: Path
    columns: Columns
    file_format: FileFormat
    provider: str
    account: str
    skips_bad: bool = False


async def account_of(settings: Settings, provider: str, account: str | None) -> str:
    """The account that is meant: the one named, or the only one that the catalogue uses. Raises
    UnknownAccountError.
    """
    catalogue = await published_catalogue(open_log(settings, "cli"))
    operations = () if catalogue is None else catalogue.operations
    known = sorted({one.account for one in operations if one.provider == provider})
    if account is None and len(known) == 1:
        return known[0]
    if account in known:
        return account
    if not known:
        raise UnknownAccountError(
            f"No operation of the catalogue uses the provider {provider!r}.",
            hint="`actionledger catalogue show` names the providers and their accounts.",
        )
    raise UnknownAccountError(
        f"{provider} has several accounts."
        if account is None
        else f"No account {account!r} there.",
        hint=f"Say --account with one of {', '.join(known)}.",
    )


async def import_file(
    settings: Settings, meant: FileMeant, report: Report, *, patience_ms: int = STILL_MS_MAX
) -> Imported:
    """Bring a file, and follow it until nothing has moved for `patience_ms`.

    Raises OSError, TooManyLinesError, AppendUnknownError, and what Postgres raises; after any of
    them the same call again goes on where it ended.
    """
    done = Imported(str(meant.path), meant.provider, meant.account)
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as good,
        tempfile.TemporaryFile("w+", encoding="utf-8") as undecided,
    ):
        total = look_at(meant, done, good, report)
        if done.bad and (not meant.skips_bad or done.bad == done.lines):
            done.is_refused = True
            return done
        good.seek(0)
        async with bringing(settings, "settlement", meant.provider, meant.account) as bringer:
            await _send(bringer, good, undecided, done, report, total=total)
            undecided.seek(0)
            await _follow(bringer, undecided, done, report, total=total, patience_ms=patience_ms)
    done.differences.sort(key=lambda one: one.line)
    return done


def look_at(meant: FileMeant, done: Imported, good: IO[str], report: Report) -> int:
    """Read a file to its end: write down what is to be sent, count what is not (bad lines, those
    that say nothing, those that say again what a line before them said). How many are to be sent.
    """
    seen: dict[bytes, bytes] = {}
    size = meant.path.stat().st_size
    with meant.path.open("rb") as file:
        for read in read_file(file, meant.columns, meant.file_format):
            done.lines += 1
            if done.lines > LINES_MAX:
                raise TooManyLinesError(
                    f"{meant.path} has more than {LINES_MAX} lines.", hint="Bring it in parts."
                )
            # Of a pipe nobody knows how far it is.
            if done.lines % LINES_AT_ONCE == 0 and file.seekable():
                report(Progress(CHECKING, min(file.tell(), size), size, "bytes"))
            _sort(read if not isinstance(read, Stated) else _again(read, seen), done, good)
    report(Progress(CHECKING, size, size, "bytes"))
    return len(seen)


def _again(read: Stated, seen: dict[bytes, bytes]) -> Stated | BadLine | None:
    """The line itself where it is the first under its id; None where it only repeats that one."""
    name = hashlib.blake2b(read.line.line_id.encode(), digest_size=16).digest()
    content = hashlib.blake2b(repr(said_by_line(read.line)).encode(), digest_size=8).digest()
    before = seen.get(name)
    if before is None:
        seen[name] = content
        return read
    if before == content:
        return None
    said = "another line of this file has the same id and says something else"
    return BadLine(read.number, "line_id_taken", said)


def _sort(read: Read | None, done: Imported, good: IO[str]) -> None:
    match read:
        case Stated(number=number, line=line):
            kept = (number, line.line_id, line.occurred_at, said_by_line(line))
            good.write(json.dumps((*kept, line.body().decode())) + "\n")
        case BadLine():
            done.bad += 1
            if len(done.bad_lines) < SHOWN_MAX:
                done.bad_lines.append(read)
        case IrrelevantLine():
            done.irrelevant += 1
        case None:
            done.repeated += 1
        case _:
            assert_never(read)


@asynccontextmanager
async def bringing(
    settings: Settings, source: WebhookSource, provider: str, account: str
) -> AsyncIterator[StatementIntake]:
    """What brings lines: a producer with the receiver's rights, a reader of the tables."""
    genesis = await genesis_of(open_log(settings, "cli"))
    appender = SteadyAppender(open_log(settings, "gateway-webhooks").appender)
    async with await open_pool(settings) as pool:
        try:
            yield StatementIntake(
                appender,
                pool,
                partitions=genesis.partitions,
                source=source,
                provider=provider,
                account=account,
            )
        finally:
            await appender.close()


async def _send(
    bringer: StatementIntake,
    good: IO[str],
    undecided: IO[str],
    done: Imported,
    report: Report,
    *,
    total: int,
) -> None:
    """Send what has no row yet, several batches at a time. What is decided already is entered, the
    rest written down to be followed.
    """
    slots = asyncio.Semaphore(SENDS_AT_ONCE)
    reached = 0

    async def send(batch: list[tuple[int, Brought]]) -> None:
        nonlocal reached
        try:
            sought = [one.sought for _, one in batch]
            known = await bringer.findings(sought)
            unknown = [one for (_, one), found in zip(batch, known, strict=True) if found is None]
            if unknown:
                await bringer.send(unknown)
            done.sent += len(unknown)
            for (number, _), one, found in zip(batch, sought, known, strict=True):
                if found is None or found.standing is Standing.WAITING:
                    undecided.write(json.dumps((number, found is not None, *one)) + "\n")
                else:
                    _enter(done, _Sent(number, was_known=True, sought=one), found)
            reached += len(batch)
            report(Progress(SENDING, reached, total, "lines"))
        finally:
            slots.release()

    async with asyncio.TaskGroup() as tasks:
        while batch := _batch(good, bringer):
            await slots.acquire()
            tasks.create_task(send(batch))


def _batch(good: IO[str], bringer: StatementIntake) -> list[tuple[int, Brought]]:
    """The next lines to be sent; none at the end."""
    batch: list[tuple[int, Brought]] = []
    while len(batch) < LINES_AT_ONCE and (text := good.readline()):
        number, line_id, occurred_at, said, body = json.loads(text)
        brought = bringer.brought(
            body.encode(), line_id=line_id, occurred_at=occurred_at, said=Said(*said)
        )
        batch.append((number, brought))
    return batch


async def _follow(
    bringer: StatementIntake,
    undecided: IO[str],
    done: Imported,
    report: Report,
    *,
    total: int,
    patience_ms: int,
) -> None:
    """Ask what became of every line that was not decided, and wait for it."""
    reached = done.already_known + done.unmatched + done.conflicting
    while batch := _spooled(undecided):
        sought = [one.sought for one in batch]
        findings = await decided(bringer, sought, patience_ms=patience_ms)
        for one, finding in zip(batch, findings, strict=True):
            _enter(done, one, finding)
        reached += len(batch)
        report(Progress(DECIDING, reached, total, "lines"))


def _spooled(undecided: IO[str]) -> list[_Sent]:
    batch: list[_Sent] = []
    while len(batch) < LINES_AT_ONCE and (text := undecided.readline()):
        number, was_known, event_id, changed_id, said = json.loads(text)
        batch.append(_Sent(number, was_known, Sought(event_id, changed_id, Said(*said))))
    return batch


async def decided(
    bringer: StatementIntake, lines: list[Sought], *, patience_ms: int
) -> list[Finding]:
    """What became of lines, once all of them are decided or nothing has moved for so long."""
    undecided, moved_ms = len(lines) + 1, mono_ms()
    while True:
        findings = [
            Finding(Standing.WAITING, "not_read_yet") if one is None else one
            for one in await bringer.findings(lines)
        ]
        left = sum(one.standing is Standing.WAITING for one in findings)
        if left < undecided:
            undecided, moved_ms = left, mono_ms()
        if not left or mono_ms() - moved_ms >= patience_ms:
            return findings
        await asyncio.sleep(LOOK_MS / 1_000)


def _enter(done: Imported, sent: _Sent, finding: Finding) -> None:
    """Put a line into the one count that it belongs to."""
    match finding.standing:
        case Standing.MATCHED if sent.was_known:
            done.already_known += 1
            return
        case Standing.MATCHED:
            done.matched += 1
            return
        case Standing.UNMATCHED:
            done.unmatched += 1
        case Standing.CONFLICTING:
            done.conflicting += 1
        case Standing.WAITING:
            done.waiting += 1
        case _:
            assert_never(finding.standing)
    if len(done.differences) < SHOWN_MAX:
        done.differences.append(
            Difference(
                sent.number,
                sent.sought.event_id.partition("/")[2],
                sent.sought.said.reference or "",
                finding.standing,
                finding.why,
                finding.action_key,
            )
        )
