"""Kafka's jars: fetched once into a cache, and run only when they are what was locked.

`kafka-jars.lock` names every artifact with its SHA-256. The transitive resolver of the Maven client
picks other versions than Kafka was released with, so each artifact is asked for by itself.
Guarantees: a file in the cache folder has the locked hash (checked in full when it is fetched and
whenever its size or time changed), and appears there in one step.
"""

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.local import limits
from gateway.local.errors import JarRefusedError, JarsUnavailableError
from gateway.local.progress import Progress, Report, silent
from gateway.local.state import file_trouble, make_folder, require_space, write_private

LOCK_FILE = Path(__file__).with_name("kafka-jars.lock")
STAMPS = "verified.json"
STEP = "fetch Kafka"


@dataclass(frozen=True, slots=True)
class Artifact:
    """One line of the lock."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def coordinate(self) -> str:
        """What it is called in the lock."""
        return f"{self.group}:{self.name}:{self.version}"

    @property
    def file_name(self) -> str:
        """What it is called in the cache."""
        return f"{self.name}-{self.version}.jar"


def read_lock(path: Path = LOCK_FILE) -> list[Artifact]:
    """Read the lock, in its order, which is the order of the class path."""
    artifacts = []
    for line in path.read_text().split("\n"):
        if line.strip():
            coordinate, digest = line.split()
            group, name, version = coordinate.split(":")
            artifacts.append(Artifact(group, name, version, digest.removeprefix("sha256:")))
    return artifacts


def ensure_jars(cache: Path, report: Report = silent, lock_file: Path = LOCK_FILE) -> list[Path]:
    """Return the class path, fetching what is missing. Idempotent; safe beside another one.

    Raises:
        JarRefusedError: a fetched file does not have the locked hash.
        JarsUnavailableError: a file could not be fetched.
        DiskFullError: there is no space for it.
        FolderNotWritableError: the cache cannot be written.

    """
    artifacts = read_lock(lock_file)
    folder = cache / f"kafka-{hashlib.sha256(lock_file.read_bytes()).hexdigest()[:16]}"
    make_folder(folder)
    with _held(folder / "lock"):
        missing = find_missing(folder, artifacts)
        if missing:
            require_space(folder)
            try:
                _fetch(folder, missing, report, len(artifacts))
            finally:
                _stamp(folder, artifacts)
    return [folder / artifact.file_name for artifact in artifacts]


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Hold a lock file; the second process waits for the first one's download."""
    with file_trouble(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _stamp_of(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def find_missing(folder: Path, artifacts: list[Artifact]) -> list[Artifact]:
    """Name the artifacts that are not there, deleting those that are no longer right.

    Only files whose size or time changed since they were verified are read in full again.
    """
    try:
        stamps = json.loads((folder / STAMPS).read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        stamps = {}
    missing, changed = [], False
    for artifact in artifacts:
        path = folder / artifact.file_name
        if not path.exists():
            missing.append(artifact)
        elif stamps.get(artifact.file_name) != _stamp_of(path):
            changed = True
            if _sha256(path) != artifact.sha256:
                path.unlink()
                missing.append(artifact)
    if changed:
        _stamp(folder, artifacts)
    return missing


def _stamp(folder: Path, artifacts: list[Artifact]) -> None:
    """Note size and time of every file that is there; each was verified before it came there."""
    paths = [folder / artifact.file_name for artifact in artifacts]
    stamps = {path.name: _stamp_of(path) for path in paths if path.exists()}
    write_private(folder / STAMPS, json.dumps(stamps))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(folder: Path, missing: list[Artifact], report: Report, total: int) -> None:
    partial = folder / ".partial"
    shutil.rmtree(partial, ignore_errors=True)
    done = total - len(missing)
    report(Progress(STEP, done, total))
    try:
        with ThreadPoolExecutor(limits.FETCH_THREADS) as pool:
            futures = [pool.submit(_fetch_one, folder, partial, each) for each in missing]
            try:
                for future in as_completed(futures):
                    name = future.result()
                    done += 1
                    report(Progress(STEP, done, total, name))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _fetch_one(folder: Path, partial: Path, artifact: Artifact) -> str:
    place(_download(partial, artifact), artifact, folder)
    return artifact.file_name


def place(fetched: Path, artifact: Artifact, folder: Path) -> None:
    """Verify a fetched file and move it into the cache in one step.

    Raises:
        JarRefusedError: it is not what was locked; it is deleted.

    """
    found = _sha256(fetched)
    if found != artifact.sha256:
        fetched.unlink()
        raise JarRefusedError(artifact.coordinate, expected=artifact.sha256, found=found)
    with file_trouble(folder), fetched.open("rb") as file:
        os.fsync(file.fileno())
    fetched.replace(folder / artifact.file_name)


def _download(partial: Path, artifact: Artifact) -> Path:
    # Importing it takes 0.2 s, and it is needed once per machine.
    from jgo.maven import MavenContext  # noqa: PLC0415

    context = MavenContext(repo_cache=partial, timeout=limits.FETCH_TIMEOUT_SECONDS)
    version = context.project(artifact.group, artifact.name).at_version(artifact.version)
    reason = ""
    for attempt in range(limits.FETCH_TRIES_MAX):
        if attempt:
            time.sleep(limits.FETCH_RETRY_MS / 1000)
        try:
            return Path(version.artifact().resolve())
        except Exception as error:  # noqa: BLE001 - the client documents no class of its own
            reason = str(error).split("\n")[0] or type(error).__name__
    raise JarsUnavailableError(artifact.coordinate, reason)
