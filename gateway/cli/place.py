"""Where the installation is that a command means: the environment says it, or the state folder.

Guarantees that nothing has to be typed for a local installation, and that a variable that is set
wins. Called by every command that talks to something.
"""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from gateway.local.ports import LOOPBACK
from gateway.local.state import State, read_state
from gateway.settings import Settings, process_environment
from gateway.wiring.local import local_environment
from ledger.core.errors import LedgerError
from projections.roles import Role


class NoInstallationError(LedgerError):
    """Nothing is configured, and there is no local installation."""


def own_settings() -> Settings:
    """What the environment alone says. Raises SettingsError."""
    return Settings.from_environment()


def state_folder() -> Path:
    """Where the local installation is or would be."""
    return own_settings().state_dir


def local_state() -> State:
    """What is agreed on for the local installation. Raises NoInstallationError."""
    folder = state_folder()
    state = read_state(folder)
    if state is None:
        raise NoInstallationError(
            f"There is no ledger here: nothing is configured and {folder} is empty.",
            hint="Start a local one with `actionledger up`, or set ACTIONLEDGER_KAFKA, "
            "ACTIONLEDGER_DATABASE, ACTIONLEDGER_URL and ACTIONLEDGER_API_KEY.",
        )
    return state


def _is_here(own: Settings, given: Mapping[str, str]) -> bool:
    """Whether what the environment names is the local installation: the servers that `up` runs the
    processes on, whose variables stay set, or its door. The rest is in the state folder then.
    """
    state = read_state(own.state_dir)
    if state is None:
        return False
    if given.get("ACTIONLEDGER_KAFKA"):
        return state.external.get("KAFKA") == own.kafka_bootstrap
    door = urlsplit(own.url)
    return door.hostname in {LOOPBACK, "localhost"} and door.port == state.ports.get("gateway")


def settings(database_role: Role | None = Role.OPERATOR) -> Settings:
    """How to reach the installation. Raises SettingsError, NoInstallationError.

    At the database of a local one with that role, by default one that reads every tenant's rows and
    changes none; None is the owner, who may make a second schema.
    """
    given = process_environment()
    own = Settings.from_environment(given)
    is_named = any(given.get(f"ACTIONLEDGER_{name}") for name in ("KAFKA", "URL"))
    if is_named and not _is_here(own, given):
        return own
    local = local_environment(own.state_dir, local_state(), database_role=database_role)
    return Settings.from_environment({**local, **given})
