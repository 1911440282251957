"""The local installation: which services `actionledger up` runs, and what the first run creates.

Guarantees that secrets are made once, readable by their owner only, and that the environment of a
service is what is written here and nothing else. Whoever wants to talk to the installation learns
its addresses here, from the state folder. Called by the command line and the demonstration.
"""

import os
import secrets
import shutil
import sys
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gateway.credentials import new_credentials
from gateway.keys import Role, create_key
from gateway.local.kafka import SUPER_USER
from gateway.local.service import ExitsCleanly, FileAppears, Ready, Service
from gateway.local.state import State, make_folder, require_own, write_private
from gateway.settings import default_origin
from gateway.wiring.names import Process
from gateway.wiring.places import (
    CONSOLE_FILE,
    CREDENTIALS_FILE,
    KAFKA_ADMIN_FILE,
    KEY_FILE,
    KEYS_FILE,
    PROVIDER_FOLDER,
    PROVIDERS_FOLDER,
    SECRETS_FILE,
)
from projections import roles

TENANT: Final = "acme"
PRINCIPAL: Final = "agent:local"
ACCOUNT: Final = "main"
"""The provider's account that the shipped catalogue names."""

PARTITIONS: Final = 6
TOPIC_PREFIX: Final = "actionledger."
SECRET_BYTES: Final = 24

_FOLLOWERS: Final = (
    Process.PROCESSOR,
    Process.EXECUTOR,
    Process.INQUIRER,
    Process.RECONCILER,
    Process.PROJECTOR,
)


_DATABASE_ROLES: Final = {
    Process.PROCESSOR: roles.Role.PROCESSOR,
    Process.EXECUTOR: roles.Role.EXECUTOR,
    Process.INQUIRER: roles.Role.RECONCILER,
    Process.RECONCILER: roles.Role.RECONCILER,
    Process.PROJECTOR: roles.Role.PROJECTOR,
    Process.GATEWAY: roles.Role.GATEWAY,
}
"""Under which role a process works; those that are not here have no database, or own it."""


_NAMED: Final = {
    process: {"MEMBER": f"local-{process.value}"}
    for process in (Process.PROCESSOR, Process.INQUIRER)
}
"""Who gets its partitions again at once when it is started again: there is one of each here."""


_TOLD: Final = {Process.RECONCILER: {"CONSOLE_ORIGIN": "http://localhost:{port:gateway}"}}
"""Who tells people where to look has to know where the pages are."""


def local_services(external: Mapping[str, str] | None = None) -> tuple[Service, ...]:
    """The steps in their order, then everything side by side.

    With `external`, the settings of servers that run elsewhere (see `external_servers`), who may do
    what there is not ours to say: that step is left out.
    """
    services = (
        _service(Process.SETUP, ExitsCleanly(), env={"DATABASE": "{database_url}"}),
        _service(
            Process.SIMULATED_PROVIDER,
            FileAppears(),
            port=0,
            env={"WEBHOOKS_URL": "http://127.0.0.1:{port:gateway}/v1/webhooks/simulated"},
        ),
        _service(Process.GATEWAY, FileAppears(), port=0),
        *(
            _service(process, FileAppears(), env=_NAMED.get(process, _TOLD.get(process)))
            for process in _FOLLOWERS
        ),
    )
    if not external:
        return (_permissions(), *services)
    return tuple(_elsewhere(service, external) for service in services)


def _permissions() -> Service:
    """The step that runs as the super user of the local Kafka."""
    as_super_user = {
        "KAFKA": "{kafka_admin_bootstrap}",
        "KAFKA_SASL_MECHANISM": "PLAIN",
        "KAFKA_USERNAME": SUPER_USER,
        "KAFKA_PASSWORD_FILE": f"{{folder}}/{KAFKA_ADMIN_FILE}",
    }
    return _service(Process.PERMISSIONS, ExitsCleanly(), env=as_super_user)


def _elsewhere(service: Service, external: Mapping[str, str]) -> Service:
    """The same service with servers that run elsewhere."""
    kept = {name: value for name, value in service.env.items() if not _is_of_servers(name)}
    told = {f"ACTIONLEDGER_{name}": value for name, value in external.items()}
    return service.model_copy(update={"env": kept | told})


def _is_of_servers(variable: str) -> bool:
    return variable.startswith(("ACTIONLEDGER_KAFKA", "ACTIONLEDGER_DATABASE"))


def _service(
    process: Process, ready: Ready, *, port: int | None = None, env: Mapping[str, str] | None = None
) -> Service:
    own = {} if port is None else {"HTTP_PORT": "{port}"}
    # The first touch of its heartbeat says that a process is ready.
    if (role := _DATABASE_ROLES.get(process)) is not None:
        own["DATABASE"] = f"{{database_url:{role.value}}}"
    settings = _settings() | own | {"HEARTBEAT": "{ready_file}"} | dict(env or {})
    return Service(
        name=process.value,
        argv=(sys.executable, "-m", "gateway.wiring.processes", process.value),
        env={f"ACTIONLEDGER_{name}": value for name, value in settings.items()}
        | {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "HOME": "{folder}"},
        port=port,
        ready=ready,
    )


def _settings() -> dict[str, str]:
    return {
        "KAFKA": "{kafka_bootstrap}",
        "KAFKA_SECURITY": "sasl_plaintext",
        "KAFKA_CREDENTIALS_FILE": f"{{folder}}/{CREDENTIALS_FILE}",
        "PARTITIONS": str(PARTITIONS),
        "STATE": "{folder}",
        "PROVIDER_URLS": "simulated=http://127.0.0.1:{port:simulated-provider}",
        "PROVIDER_FILES": f"{{folder}}/{PROVIDERS_FOLDER}",
        "WEBHOOK_SECRETS_FILE": f"{{folder}}/{SECRETS_FILE}",
        "LOG_FORMAT": "plain",
    }


def prepare_folder(folder: Path) -> None:
    """Make the secrets of a new installation: of webhooks, of every component at Kafka, and a key
    for the tenant. Idempotent.

    Raises FolderNotWritableError, KeyFileError.
    """
    make_folder(folder, 0o711 if os.geteuid() == 0 else 0o700)
    require_own(folder)
    (folder / PROVIDERS_FOLDER).mkdir(mode=0o700, exist_ok=True)
    credentials = folder / CREDENTIALS_FILE
    if not credentials.exists():
        write_private(credentials, new_credentials(TOPIC_PREFIX))
    webhooks = folder / SECRETS_FILE
    if not webhooks.exists():
        secret = b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
        write_private(webhooks, f'[simulated.{ACCOUNT}]\nsecrets = ["whsec_{secret}"]\n')
    if not (folder / KEY_FILE).exists():
        key = create_key(folder / KEYS_FILE, tenant=TENANT, principal=PRINCIPAL, role=Role.OPERATOR)
        write_private(folder / KEY_FILE, f"{key}\n")


def forget_folder(folder: Path) -> None:
    """Delete what `prepare_folder` and the provider made: a reset begins a new world."""
    shutil.rmtree(folder / PROVIDER_FOLDER, ignore_errors=True)
    for name in (CONSOLE_FILE, CREDENTIALS_FILE, KEYS_FILE, KEY_FILE, SECRETS_FILE):
        (folder / name).unlink(missing_ok=True)


def local_environment(
    folder: Path, state: State, *, database_role: roles.Role | None = None
) -> dict[str, str]:
    """What a client of a local installation would have to be told, as its environment.

    Without a `database_role` it is told the login of the owner of the database.
    """
    found = {
        "KAFKA": state.kafka_bootstrap,
        "DATABASE": state.database_url_as(database_role) if database_role else state.database_url,
        "PARTITIONS": str(PARTITIONS),
        "STATE": str(folder),
    }
    if state.external:
        found |= state.external
    elif (folder / CREDENTIALS_FILE).exists():
        found["KAFKA_SECURITY"] = "sasl_plaintext"
        found["KAFKA_CREDENTIALS_FILE"] = str(folder / CREDENTIALS_FILE)
    if (port := state.ports.get(Process.GATEWAY)) is not None:
        found["URL"] = f"http://127.0.0.1:{port}"
        found["CONSOLE_ORIGIN"] = default_origin(port)
    if (port := state.ports.get(Process.SIMULATED_PROVIDER)) is not None:
        found["PROVIDER_URLS"] = f"simulated=http://127.0.0.1:{port}"
    if (folder / PROVIDERS_FOLDER).exists():
        found["PROVIDER_FILES"] = str(folder / PROVIDERS_FOLDER)
    if (folder / SECRETS_FILE).exists():
        found["WEBHOOK_SECRETS_FILE"] = str(folder / SECRETS_FILE)
    if (folder / KEY_FILE).exists():
        found["API_KEY"] = (folder / KEY_FILE).read_text(encoding="utf-8").strip()
    return {f"ACTIONLEDGER_{name}": value for name, value in found.items()}
