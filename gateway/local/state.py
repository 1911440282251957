"""The state folder: who holds it, which ports and passwords were agreed on, which processes run.

Guarantees: one holder at a time (the lock is the kernel's and ends with its holder), the file is
whole or not at all after any crash, and nobody but its owner can read it. Only the holder writes.

    FOLDER/lock          held by the supervisor, or by whoever starts or ends servers
    FOLDER/state.json    `State`
    FOLDER/kafka         configuration and data
    FOLDER/postgres      data, unless the account that Postgres runs as cannot reach it
    FOLDER/logs          one file per process, and one older
"""

import base64
import fcntl
import json
import os
import re
import secrets
import shutil
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from gateway.local import limits
from gateway.local.accounts import folder_for, place_outside, unprivileged_account
from gateway.local.errors import (
    DiskFullError,
    FolderBusyError,
    FolderNotWritableError,
    StateUnreadableError,
)
from gateway.local.ports import Claims
from gateway.local.processes import Identity, is_running
from gateway.private_files import New, replace_private
from projections.roles import Role

_RAN_IN = re.compile(r'"event": "supervisor_started".*"folder": ("(?:[^"\\]|\\.)+")')
"""How the log of a supervisor names the folder."""


class Phase(StrEnum):
    """How far a process, or all of them together, are."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    STOPPED = "stopped"
    DONE = "done"  # a step that has ended as it should


def _database_passwords() -> dict[str, str]:
    return {role.value: secrets.token_urlsafe(24) for role in Role}


class ProcessRecord(BaseModel):
    """One process, as it was when it was started."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pid: int
    created_at: int
    born: str | None = None
    port: int | None
    log: Path
    phase: Phase = Phase.STARTING
    restarts: int = 0

    @classmethod
    def of(cls, identity: Identity, *, port: int | None, log: Path) -> Self:
        """The record of a process that is just starting."""
        return cls(
            pid=identity.pid,
            created_at=identity.created_at,
            born=identity.born,
            port=port,
            log=log,
        )

    @property
    def identity(self) -> Identity:
        """Which process that was."""
        return Identity(self.pid, self.created_at, self.born)


class State(BaseModel):
    """What is agreed on for a folder, and what runs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster_id: str
    admin_password: str = Field(repr=False)
    password: str = Field(repr=False)
    # An installation that knew no logins yet is given one by whoever holds it next.
    kafka_password: str = Field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    # By role; one that is made by a newer version is added by whoever holds the folder next.
    database_passwords: dict[str, str] = Field(default_factory=_database_passwords, repr=False)
    ports: dict[str, int]
    # Settings of servers that are not ours, by name; then none is started.
    external: dict[str, str] = Field(default_factory=dict, repr=False)
    postgres_folder: Path | None = None  # where it is not in the folder itself
    folder_inode: int | None = None  # of the folder that this was written in: a copy has another
    phase: Phase = Phase.STOPPED
    failure: tuple[str, str] | None = None  # message and hint
    processes: dict[str, ProcessRecord] = {}

    @field_validator("database_passwords")
    @classmethod
    def _complete(cls, known: dict[str, str]) -> dict[str, str]:
        return {**_database_passwords(), **known}

    @property
    def kafka_bootstrap(self) -> str:
        """Where the components connect to Kafka, each with its own login."""
        return self.external.get("KAFKA") or f"127.0.0.1:{self.ports['kafka']}"

    @property
    def kafka_admin_bootstrap(self) -> str:
        """Where the super user of Kafka connects, to say who else may."""
        return f"127.0.0.1:{self.ports['kafka-admin']}"

    @property
    def database_url(self) -> str:
        """Where the owner of the database connects; holds the password."""
        port = self.ports["postgres"]
        return (
            self.external.get("DATABASE")
            or f"postgresql://actionledger:{self.password}@127.0.0.1:{port}/actionledger"
        )

    def database_url_as(self, role: Role) -> str:
        """Where a process or a person with this role connects; holds its password."""
        if "DATABASE" in self.external:
            return self.external["DATABASE"]
        login = f"{role.value}:{self.database_passwords[role.value]}"
        return f"postgresql://{login}@127.0.0.1:{self.ports['postgres']}/actionledger"

    @property
    def admin_url(self) -> str:
        """Where the superuser connects, for tests and backups."""
        port = self.ports["postgres"]
        return f"postgresql://postgres:{self.admin_password}@127.0.0.1:{port}/postgres"


def new_state(claims: Claims) -> State:
    """Agree on free ports, random passwords and the identity of a new broker."""
    kafka, admin, controller, postgres = claims.choose(4)
    return State(
        cluster_id=new_kafka_id(),
        admin_password=secrets.token_urlsafe(24),
        password=secrets.token_urlsafe(24),
        ports={
            "kafka": kafka,
            "kafka-admin": admin,
            "kafka-controller": controller,
            "postgres": postgres,
        },
    )


def new_kafka_id() -> str:
    """What Kafka names a cluster or a folder of data by."""
    name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    # The tools of Kafka take an argument that begins with a dash for an option.
    return name.replace("-", "0", 1) if name.startswith("-") else name


def default_cache_folder() -> Path:
    """Where downloads are kept for all state folders unless the caller says otherwise."""
    return Path.home() / ".cache" / "actionledger"


@contextmanager
def file_trouble(path: Path) -> Iterator[None]:
    """Tell the trouble of writing below `path` as an error with a way out."""
    try:
        yield
    except OSError as error:
        if error.errno in {28, 122}:  # ENOSPC, EDQUOT
            raise DiskFullError(path, 0, limits.FREE_BYTES_MIN) from error
        raise FolderNotWritableError(path, error.strerror or str(error)) from error


def make_folder(path: Path, mode: int = 0o700) -> None:
    """Make the folder, with all above it, and see that it can be written. Idempotent.

    Raises:
        FolderNotWritableError: it cannot.

    """
    with file_trouble(path):
        path.mkdir(mode=mode, parents=True, exist_ok=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(13, "permission denied")


def require_own(folder: Path) -> None:
    """Raise `FolderNotWritableError` for an installation of another user: what root starts in it,
    that user can neither read nor start again.
    """
    file = folder / "state.json"
    if file.exists() and (owner := file.stat().st_uid) != os.geteuid():
        raise FolderNotWritableError(folder, f"it belongs to user {owner}; run this as that user")


def require_space(path: Path) -> None:
    """Raise `DiskFullError` when less than `FREE_BYTES_MIN` is free there."""
    free = shutil.disk_usage(path).free
    if free < limits.FREE_BYTES_MIN:
        raise DiskFullError(path, free, limits.FREE_BYTES_MIN)


def write_private(path: Path, content: str, *, owner: tuple[int, int] | None = None) -> None:
    """Replace a file whole: after a crash there is the old content or the new, readable by us.

    Where root replaces a file of somebody else it stays theirs; what is new is ours, whoever owns
    the folder, or belongs to `owner`, a user and group.
    """
    with file_trouble(path):
        replace_private(path, content, new=New.OURS, owner=owner)


def lock(path: Path) -> int | None:
    """Take the lock file, as a descriptor to close for its release; None when somebody has it."""
    with file_trouble(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def read_state(folder: Path) -> State | None:
    """Read what is on record, without holding the folder; None when nothing is."""
    try:
        return State.model_validate_json((folder / "state.json").read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise StateUnreadableError(
            folder / "state.json", f"{where}: {first['msg']}".removeprefix(": ")
        ) from error
    except OSError as error:
        raise FolderNotWritableError(folder, error.strerror or str(error)) from error


def _of_folder(state: State, folder: Path) -> State:
    """The state as it holds for this folder. A database outside of it belongs to the folder for
    which it was made, under whatever name that is now, and not to a copy.
    """
    inode, outside = folder.stat().st_ino, state.postgres_folder
    if outside is not None and state.folder_inode != inode:
        own = folder_for(folder, unprivileged_account(), "postgres")
        # Written by a version that noted no folder: a copy where the first is still there.
        is_moved = state.folder_inode is None and not _has_first(folder, outside)
        outside = outside if outside == own or is_moved else None
    return state.model_copy(update={"folder_inode": inode, "postgres_folder": outside})


def _has_first(folder: Path, database: Path) -> bool:
    """Whether the folder that this database was made for is still there, and is not this one: the
    place of a database tells a path by its digest only, and the log of the supervisor all paths
    under which what lies here has run.
    """
    for log in (folder / "logs").glob("supervisor.log*"):
        with file_trouble(log):
            said = log.read_text(encoding="utf-8", errors="replace")
        for written in set(_RAN_IN.findall(said)):
            first = Path(json.loads(written))
            is_there = (first / "state.json").exists() and not first.samefile(folder)
            if is_there and place_outside(first, "postgres") == database:
                return True
    return False


class StateFolder:
    """The holder's view: the state, the right to change it, and its ports."""

    def __init__(self, folder: Path, lock_descriptor: int) -> None:
        """Take over a lock that is held already (see `hold`)."""
        self.folder = folder
        self.lock_descriptor = lock_descriptor
        self.claims = Claims()
        known = read_state(folder)
        if known is None:
            state = new_state(self.claims)
        else:
            state = known
            self.claims.keep(state.ports.values())
        if "kafka-admin" not in state.ports:
            (port,) = self.claims.choose(1)
            state = state.model_copy(update={"ports": {**state.ports, "kafka-admin": port}})
        # Agreed on, and not written yet: who only ends what runs needs no room for it.
        self.state = _of_folder(state, folder)

    @classmethod
    def hold(cls, folder: Path) -> Self:
        """Make the folder if there is none and take it.

        Raises:
            FolderBusyError: another process holds it.
            FolderNotWritableError: it cannot be written.
            DiskFullError: less than `FREE_BYTES_MIN` is free.

        """
        # As root the account of Postgres has to pass; every file in it is private by itself.
        make_folder(folder, 0o711 if os.geteuid() == 0 else 0o700)
        require_space(folder)
        descriptor = lock(folder / "lock")
        if descriptor is None:
            raise FolderBusyError(folder)
        with ExitStack() as on_trouble:
            on_trouble.callback(os.close, descriptor)
            held = cls(folder, descriptor)
            on_trouble.callback(held.claims.close)
            held.write_agreed()
            on_trouble.pop_all()
        return held

    def release(self) -> None:
        """Let go of the folder; a process that inherited the lock has it from then on."""
        os.close(self.lock_descriptor)
        self.claims.close()

    def write_agreed(self) -> None:
        """Write what was agreed on, durably. Where nothing is new nothing is written: there may be
        no room.
        """
        file = self.folder / "state.json"
        known = file.read_bytes() if file.exists() else b""
        if self.state.model_dump_json(indent=1).encode() != known:
            self._write()

    def change(self, **fields: object) -> None:
        """Change the state, durably."""
        self.state = self.state.model_copy(update=fields)
        self._write()

    def record(self, name: str, record: ProcessRecord) -> None:
        """Remember a process, durably; how often it was started again is carried over."""
        before = self.state.processes.get(name)
        if before is not None:
            record = record.model_copy(update={"restarts": before.restarts})
        self.change(processes={**self.state.processes, name: record})

    def change_process(self, name: str, **fields: object) -> None:
        """Change what is known of a process; nothing when it is not on record."""
        known = self.state.processes.get(name)
        if known is not None:
            changed = known.model_copy(update=fields)
            self.change(processes={**self.state.processes, name: changed})

    def _write(self) -> None:
        write_private(self.folder / "state.json", self.state.model_dump_json(indent=1))


def leftovers(state: State) -> dict[str, ProcessRecord]:
    """Processes on record that still run; whoever holds the lock may end them."""
    return {name: record for name, record in state.processes.items() if is_running(record.identity)}
