"""The import of a settlement file: looked at whole, brought line by line, followed to its end.

Guarantees that nothing is sent of a file with a bad line unless that was asked for; that the file
that is sent is the file that was looked at; that again, or after a crash, nothing counts twice; and
that the report adds up: every line is in exactly one of its counts. Memory grows with the number of
lines by some 150 bytes each, never with their length. Called by the command line.
"""

import asyncio
import hashlib
import json
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
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
from reconciler.bringing import Bringing, Finding, Sought, Standing
from reconciler.providers.settlement import Columns, FileFormat
from reconciler.settlement_files import BadLine, Stated, read_file
from reconciler.statement_lines import StatementLine
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


class FileChangedError(LedgerError):
    """A file is not what it was a moment ago."""


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


@dataclass(slots=True)
class _Seen:
    """The lines of a file by the hashes of their ids and contents, and the hash of the file."""

    contents: dict[bytes, bytes] = field(default_factory=dict)
    file_hash: bytes = b""

    @property
    def statements(self) -> int:
        """How many lines are to be sent."""
        return len(self.contents)


class _Sent(NamedTuple):
    """A line on its way: its number in the file, and whether it had a row before."""

    number: int
    was_known: bool
    sought: Sought


@dataclass(frozen=True, slots=True)
class FileMeant:
    """A file, how it is read, and whose statement it is."""

    path: Path
    columns: Columns
    file_format: FileFormat
    provider: str
    account: str


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
    settings: Settings, meant: FileMeant, report: Report, *, skip_bad: bool, wait: bool
) -> Imported:
    """Bring a file. Raises OSError, FileChangedError, TooManyLinesError, AppendUnknownError, and
    what Postgres raises; after any of them the same call again goes on where it ended.
    """
    done = Imported(str(meant.path), meant.provider, meant.account)
    seen = look_at(meant, done, report)
    if done.bad and not skip_bad:
        done.is_refused = True
        return done
    async with bringing(settings, "settlement", meant.provider, meant.account) as bringer:
        with tempfile.TemporaryFile("w+", encoding="utf-8") as spool:
            await _send(meant, bringer, seen, done, spool, report)
            await _follow(bringer, done, spool, report, total=seen.statements, wait=wait)
    done.differences.sort(key=lambda one: one.line)
    return done


def look_at(meant: FileMeant, done: Imported, report: Report) -> _Seen:
    """Read a file to its end and count what is not to be sent: bad lines, those that say nothing,
    those that say again what a line before them said.
    """
    seen = _Seen()
    size = meant.path.stat().st_size
    with meant.path.open("rb") as file:
        hashing = _Hashing(file)
        for read in read_file(hashing, meant.columns, meant.file_format):
            done.lines += 1
            if done.lines > LINES_MAX:
                raise TooManyLinesError(
                    f"{meant.path} has more than {LINES_MAX} lines.", hint="Bring it in parts."
                )
            if done.lines % LINES_AT_ONCE == 0:
                report(Progress(CHECKING, hashing.bytes_read, max(size, hashing.bytes_read)))
            _count(read if not isinstance(read, Stated) else _again(read, seen), done)
        seen.file_hash = hashing.digest()
    report(Progress(CHECKING, size, size))
    return seen


def _again(read: Stated, seen: _Seen) -> Stated | BadLine | None:
    """The line itself where it is the first under its id; None where it only repeats that one."""
    name, content = _marks(read.line)
    before = seen.contents.get(name)
    if before is None:
        seen.contents[name] = content
        return read
    if before == content:
        return None
    said = "another line of this file has the same id and says something else"
    return BadLine(read.number, "line_id_taken", said)


def _count(read: object, done: Imported) -> None:
    match read:
        case Stated():
            return
        case BadLine():
            done.bad += 1
            if len(done.bad_lines) < SHOWN_MAX:
                done.bad_lines.append(read)
        case None:
            done.repeated += 1
        case _:
            done.irrelevant += 1


def _marks(line: StatementLine) -> tuple[bytes, bytes]:
    """A line's id and what it says, each as a short hash."""
    said = (line.reference, line.reverses, line.action_key, line.provider_key, line.operation)
    more = (line.money, line.effect, line.occurred_at)
    return (
        hashlib.blake2b(line.line_id.encode(), digest_size=16).digest(),
        hashlib.blake2b(repr((said, more)).encode(), digest_size=8).digest(),
    )


@asynccontextmanager
async def bringing(
    settings: Settings, source: WebhookSource, provider: str, account: str
) -> AsyncIterator[Bringing]:
    """What brings lines: a producer with the receiver's rights, a reader of the tables."""
    genesis = await genesis_of(open_log(settings, "cli"))
    appender = SteadyAppender(open_log(settings, "gateway-webhooks").appender)
    async with await open_pool(settings) as pool:
        try:
            yield Bringing(
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
    meant: FileMeant,
    bringer: Bringing,
    seen: _Seen,
    done: Imported,
    spool: IO[str],
    report: Report,
) -> None:
    """Send what has no row yet, several batches at a time; write down what is to be followed."""
    slots = asyncio.Semaphore(SENDS_AT_ONCE)
    reached = 0

    async def send(batch: Sequence[tuple[int, StatementLine]]) -> None:
        nonlocal reached
        try:
            lines = [bringer.brought(line) for _, line in batch]
            sought = [one.sought for one in lines]
            known = await bringer.findings(sought)
            unknown = [one for one, finding in zip(lines, known, strict=True) if finding is None]
            if unknown:
                await bringer.send(unknown)
            done.sent += len(unknown)
            for (number, _), one, finding in zip(batch, sought, known, strict=True):
                spool.write(json.dumps((number, finding is not None, *one)) + "\n")
            reached += len(batch)
            report(Progress(SENDING, reached, seen.statements))
        finally:
            slots.release()

    with meant.path.open("rb") as file:
        hashing = _Hashing(file)
        async with asyncio.TaskGroup() as tasks:
            for batch in _batches(_firsts(meant, hashing, seen)):
                await slots.acquire()
                tasks.create_task(send(batch))
        if hashing.digest() != seen.file_hash:
            raise _changed(meant)
    report(Progress(SENDING, seen.statements, seen.statements))


def _firsts(meant: FileMeant, file: "_Hashing", seen: _Seen) -> Iterator[tuple[int, StatementLine]]:
    """The lines to send: the first under each id, as it was when the file was looked at."""
    left = dict(seen.contents)
    for read in read_file(file, meant.columns, meant.file_format):
        if not isinstance(read, Stated):
            continue
        name, content = _marks(read.line)
        if name not in seen.contents:
            raise _changed(meant)
        if left.get(name) == content:
            del left[name]
            yield read.number, read.line


def _batches(
    lines: Iterator[tuple[int, StatementLine]],
) -> Iterator[list[tuple[int, StatementLine]]]:
    batch: list[tuple[int, StatementLine]] = []
    for one in lines:
        batch.append(one)
        if len(batch) == LINES_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


async def _follow(
    bringer: Bringing, done: Imported, spool: IO[str], report: Report, *, total: int, wait: bool
) -> None:
    """Ask what became of every line, and wait for those that are not decided."""
    spool.seek(0)
    reached = 0
    while batch := _spooled(spool):
        findings = await _decided(bringer, [one.sought for one in batch], wait=wait)
        for one, finding in zip(batch, findings, strict=True):
            _enter(done, one, finding)
        reached += len(batch)
        report(Progress(DECIDING, reached, total))


def _spooled(spool: IO[str]) -> list[_Sent]:
    batch: list[_Sent] = []
    while len(batch) < LINES_AT_ONCE and (text := spool.readline()):
        number, was_known, event_id, changed_id, said = json.loads(text)
        batch.append(_Sent(number, was_known, Sought(event_id, changed_id, Said(*said))))
    return batch


async def _decided(bringer: Bringing, lines: list[Sought], *, wait: bool) -> list[Finding]:
    """What became of lines, once all of them are decided or nothing has moved for a while."""
    undecided, moved_ms = len(lines) + 1, mono_ms()
    while True:
        findings = [
            Finding(Standing.WAITING, "not_read_yet") if one is None else one
            for one in await bringer.findings(lines)
        ]
        left = sum(one.standing is Standing.WAITING for one in findings)
        if left < undecided:
            undecided, moved_ms = left, mono_ms()
        if not left or not wait or mono_ms() - moved_ms > STILL_MS_MAX:
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


def _changed(meant: FileMeant) -> FileChangedError:
    return FileChangedError(
        f"{meant.path} changed while it was read.",
        hint="Bring it again when nobody writes to it; what was sent counts once.",
    )


class _Hashing:
    """A file that is hashed as it is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.bytes_read = 0

    def readline(self, limit: int = -1, /) -> bytes:
        """See `IO.readline`."""
        raw = self._file.readline(limit)
        self._hash.update(raw)
        self.bytes_read += len(raw)
        return raw

    def digest(self) -> bytes:
        """The hash of everything that was read."""
        return self._hash.digest()
