"""What can be wrong with a machine, told in one sentence with the way out in a second.

    LedgerError
    └── LocalError                    something about this machine
        ├── MachineUnsupportedError   no Java or Postgres binaries for it
        ├── FolderNotWritableError    path
        ├── StateUnreadableError      path: damaged, or of a newer version
        ├── DiskFullError             path, free_bytes
        ├── FolderBusyError           path: another `up`, or a test, holds it
        ├── PortTakenError            port, wanted_by, holder
        ├── NoPortFreeError           first, last, tries: none was found to choose
        ├── JarsUnavailableError      coordinate: could not be fetched
        ├── JarRefusedError           coordinate, expected, found: not what was locked
        ├── AccountMissingError       no account without rights to run Postgres as
        ├── WrongPasswordError        path: data and state file are of different runs
        └── ProcessFailedError        name, exit_code, log: ended, or was not ready in time

Raised by this package, shown by the command line as they are.
"""

from pathlib import Path

from ledger.core.errors import LedgerError


class LocalError(LedgerError):
    """Something about this machine keeps the local servers from running."""


class MachineUnsupportedError(LocalError):
    """There are no Java or Postgres binaries for this machine in the environment."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"The package {package} has no usable binaries for this machine.",
            hint="Use Linux or macOS on x86-64 or arm64 and run `make .venv` again, or point "
            "ACTIONLEDGER_KAFKA and ACTIONLEDGER_DATABASE at servers of your own.",
        )
        self.package = package


class FolderNotWritableError(LocalError):
    """A folder that must be written cannot be."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"Cannot write to {path}: {reason}.",
            hint="Make it writable for this user, or name another folder with "
            "ACTIONLEDGER_STATE (data) or ACTIONLEDGER_CACHE (downloads).",
        )
        self.path = path


class StateUnreadableError(LocalError):
    """The state file is not one that this version can read. The data beside it are untouched."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} cannot be read by this version: {reason}.",
            hint="Use the version that wrote it, or put a copy of the file back: ports and "
            "passwords stand in it. Log and tables lie beside it, so never delete the folder for "
            "this.",
        )
        self.path = path


class DiskFullError(LocalError):
    """Less space than a start needs is free."""

    def __init__(self, path: Path, free_bytes: int, needed_bytes: int) -> None:
        super().__init__(
            f"Only {free_bytes // 1_000_000} MB are free at {path}, "
            f"{needed_bytes // 1_000_000} MB are needed.",
            hint="Free some space, or name a folder on another disk with ACTIONLEDGER_STATE "
            "(data) or ACTIONLEDGER_CACHE (downloads).",
        )
        self.path = path
        self.free_bytes = free_bytes


class FolderBusyError(LocalError):
    """Another run holds the state folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"Another run is using {path}.",
            hint="Wait for it or stop it with `actionledger down`, or name another folder with "
            "ACTIONLEDGER_STATE.",
        )
        self.path = path


class PortTakenError(LocalError):
    """A port that was agreed on earlier belongs to another program now."""

    def __init__(self, port: int, wanted_by: str, holder: str | None) -> None:
        by = f"by {holder}" if holder else "by another program"
        super().__init__(
            f"Port {port} on 127.0.0.1, which {wanted_by} listens on, is taken {by}.",
            hint=f"Stop that program, or move {wanted_by} with "
            f"`actionledger up --port {wanted_by}=0` (0 takes a free one).",
        )
        self.port = port
        self.wanted_by = wanted_by
        self.holder = holder


class NoPortFreeError(LocalError):
    """There are not as many free ports to choose from as are needed."""

    def __init__(self, first: int, last: int, *, wanted: int, found: int, tries: int) -> None:
        super().__init__(
            f"Of the ports {first} to {last} on 127.0.0.1 {tries} were tried by chance, and "
            f"{found} of them were free; {wanted} are needed.",
            hint="Others listen there, or have chosen these ports for themselves. End other local "
            "installations (`actionledger down`, with the ACTIONLEDGER_STATE of each) or programs "
            "that are not needed, and run the same command again.",
        )
        self.first = first
        self.last = last
        self.tries = tries


class JarsUnavailableError(LocalError):
    """An artifact could not be fetched."""

    def __init__(self, coordinate: str, reason: str) -> None:
        super().__init__(
            f"Could not fetch {coordinate}: {reason}.",
            hint="Check the network (HTTPS_PROXY and REQUESTS_CA_BUNDLE are honoured) and run the "
            "same command again; what was fetched is kept.",
        )
        self.coordinate = coordinate


class JarRefusedError(LocalError):
    """An artifact is not the one that was locked; it was deleted and nothing ran it."""

    def __init__(self, coordinate: str, *, expected: str, found: str) -> None:
        super().__init__(
            f"Refused {coordinate}: its SHA-256 is {found[:16]}…, locked is {expected[:16]}….",
            hint="Run the command again; if it is refused again, something between you and the "
            "artifact repository changes files: try another network.",
        )
        self.coordinate = coordinate
        self.expected = expected
        self.found = found


class AccountMissingError(LocalError):
    """Postgres does not run as root, and there is no account to run it as."""

    def __init__(self, candidates: tuple[str, ...]) -> None:
        super().__init__(
            f"Postgres refuses to run as root, and there is no account {' or '.join(candidates)}.",
            hint="Run as a user who is not root.",
        )
        self.candidates = candidates


class WrongPasswordError(LocalError):
    """The database was made with another password than the state file holds."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"The database of {path} does not take the password in its state file.",
            hint="Put the state.json that belongs to it back, or delete the data with "
            "`actionledger reset`.",
        )
        self.path = path


class ProcessFailedError(LocalError):
    """A process ended, or was not ready in time."""

    def __init__(self, name: str, what: str, *, log: Path, exit_code: int | None = None) -> None:
        super().__init__(f"{name} {what}.", hint=f"Its log is {log}.")
        self.name = name
        self.exit_code = exit_code
        self.log = log
