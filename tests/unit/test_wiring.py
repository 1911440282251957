"""The local installation as settings, and how a process lives and ends, each as a real process."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gateway.cli.place import settings
from gateway.demo.stage import OWNER_FILE, PREFIX, end_abandoned
from gateway.keys import Caller, KeyFile, Role
from gateway.local.ports import Claims
from gateway.local.processes import identify
from gateway.local.service import fill
from gateway.local.state import new_state, write_private
from gateway.settings import Settings
from gateway.wiring import life
from gateway.wiring.local import forget_folder, local_environment, local_services, prepare_folder
from gateway.wiring.names import Process
from gateway.wiring.places import (
    CREDENTIALS_FILE,
    KAFKA_ADMIN_FILE,
    KEY_FILE,
    KEYS_FILE,
    SECRETS_FILE,
)
from ledger.log.principals import Principal
from projections import roles
from tests.patience import PATIENCE_SECONDS

LIVE = """
import asyncio, sys
from pathlib import Path
from gateway.logs import set_up_logs
from gateway.settings import LogFormat, LogLevel
from gateway.wiring import life

async def work(it):
    it.beat()
    {body}

set_up_logs(LogLevel.INFO, LogFormat.JSON)
sys.exit(life.live("tried", work, heartbeat=Path(sys.argv[1])))
"""


def living(heartbeat: Path, body: str) -> subprocess.Popen[str]:
    """A process that lives by `life.live`, with this body of its work."""
    return subprocess.Popen(
        [sys.executable, "-c", LIVE.format(body=body), str(heartbeat)],
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(path: Path) -> None:
    """Wait until a file is there."""
    deadline_s = time.monotonic() + PATIENCE_SECONDS
    while not path.exists():
        assert time.monotonic() < deadline_s
        time.sleep(LOOK_S)


LOOK_S = 0.01


def test_a_process_stops_when_it_is_asked_to(tmp_path: Path) -> None:
    """SIGTERM lets the work end, and the process says so and ends with 0."""
    process = living(tmp_path / "beat", "await it.stop.wait()")
    wait_for(tmp_path / "beat")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert "process_stopped" in said


def test_a_process_that_hangs_is_over_at_the_deadline(tmp_path: Path) -> None:
    """Work that does not hear the stop is cut off, even where it blocks the loop."""
    body = (
        "life.STOP_MS_MAX = 300; await it.stop.wait(); import threading; threading.Event().wait()"
    )
    process = living(tmp_path / "beat", body)
    wait_for(tmp_path / "beat")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 70
    assert "process_did_not_end" in said


@pytest.mark.parametrize(
    ("raised", "code", "told"),
    [
        ("ExceptionGroup('g', [OSError('no broker')])", life.EXIT_TROUBLE, "no broker"),
        ("LedgerError('no topics', hint='make them')", life.EXIT_TROUBLE, "make them"),
        ("ZeroDivisionError('ours')", life.EXIT_FAILED, "process_fault"),
    ],
)
def test_a_failure_is_told_and_the_code_says_whose_it_is(
    tmp_path: Path, raised: str, code: int, told: str
) -> None:
    """Trouble of the surroundings may pass, so that code asks for another process without an end; a
    fault of ours has its stack.
    """
    body = f"from ledger.core.errors import LedgerError; raise {raised}"
    process = living(tmp_path / "beat", body)
    _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == code
    assert "process_failed" in said
    assert told in said


def test_every_service_is_a_process_with_settings(tmp_path: Path) -> None:
    """What `up` runs is every process of the product, with an environment that is in order."""
    prepare_folder(tmp_path)
    ports = {"gateway": 8_788, "simulated-provider": 8_790}
    values = {f"port:{name}": str(port) for name, port in ports.items()}
    values |= {
        "kafka_bootstrap": "127.0.0.1:9092",
        "kafka_admin_bootstrap": "127.0.0.1:9093",
        "database_url": "postgresql://127.0.0.1/actionledger",
        **{f"database_url:{role}": f"postgresql://{role}@127.0.0.1/d" for role in roles.Role},
        "ready_file": str(tmp_path / "ready"),
        "folder": str(tmp_path),
        "port": "8788",
    }
    (tmp_path / KAFKA_ADMIN_FILE).parent.mkdir()
    (tmp_path / KAFKA_ADMIN_FILE).write_text("of-the-super-user")  # the broker writes it
    services = local_services()
    assert {service.name for service in services} == set(Process)
    assert services[0].is_step
    for service in services:
        environment = {name: fill(value, values) for name, value in service.env.items()}
        found = Settings.from_environment(environment)
        assert found.heartbeat == tmp_path / "ready"
        is_owner = environment.get("ACTIONLEDGER_DATABASE") == values["database_url"]
        assert is_owner == (service.name == Process.SETUP)
        assert found.kafka.access(Principal.EXECUTOR).username == "actionledger.executor"
        assert found.provider_urls == {"simulated": "http://127.0.0.1:8790"}


def test_secrets_are_made_once_and_private(tmp_path: Path) -> None:
    """A second start finds the same key and secret; nobody else can read them; a reset forgets."""
    prepare_folder(tmp_path)
    names = (KEY_FILE, KEYS_FILE, SECRETS_FILE, CREDENTIALS_FILE)
    before = {name: (tmp_path / name).read_text() for name in names}
    prepare_folder(tmp_path)
    assert {name: (tmp_path / name).read_text() for name in names} == before
    assert all((tmp_path / name).stat().st_mode & 0o077 == 0 for name in names)
    caller = KeyFile(tmp_path / KEYS_FILE).caller(before[KEY_FILE].strip())
    assert isinstance(caller, Caller)
    assert (caller.tenant, caller.role) == ("acme", Role.OPERATOR)
    forget_folder(tmp_path)
    assert not any((tmp_path / name).exists() for name in names)


def test_commands_find_the_local_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state folder says where everything is; a variable that is set wins, and its own door is
    no other installation.
    """
    prepare_folder(tmp_path)
    state = new_state(Claims())
    state.ports.update({"gateway": 8_788, "simulated-provider": 8_790})
    write_private(tmp_path / "state.json", state.model_dump_json())
    monkeypatch.setenv("ACTIONLEDGER_STATE", str(tmp_path))
    found = settings()
    assert found.url == "http://127.0.0.1:8788"
    assert found.kafka_bootstrap == state.kafka_bootstrap
    assert found.api_key == (tmp_path / KEY_FILE).read_text().strip()
    told = local_environment(tmp_path, state, database_role=roles.Role.OPERATOR)
    assert Settings.from_environment(told) == found
    assert settings(database_role=None).database_url == state.database_url
    monkeypatch.setenv("ACTIONLEDGER_API_KEY", "al_other")
    assert settings().api_key == "al_other"
    for door, kafka in (
        (found.url, state.kafka_bootstrap),
        ("http://127.0.0.1:8799", "127.0.0.1:9092"),
    ):
        monkeypatch.setenv("ACTIONLEDGER_URL", door)
        assert settings().kafka_bootstrap == kafka
    monkeypatch.setenv("ACTIONLEDGER_KAFKA", "broker:9092")
    assert settings().kafka_bootstrap == "broker:9092"
    assert settings().database_url != state.database_url


def test_a_killed_demonstration_is_cleaned_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders of demonstrations whose process is gone are removed; others stay."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name, owner in {
        "dead": '{"pid":1,"created_at":1}',
        "kept": None,
        "alive": f'{{"pid":{os.getpid()},"created_at":{_created_at()}}}',
    }.items():
        folder = tmp_path / f"{PREFIX}{name}"
        folder.mkdir()
        if owner is not None:
            (folder / OWNER_FILE).write_text(owner)
    asyncio.run(end_abandoned())
    assert {path.name for path in tmp_path.iterdir()} == {f"{PREFIX}kept", f"{PREFIX}alive"}


def _created_at() -> int:
    me = identify(os.getpid())
    assert me is not None
    return me.created_at


def test_only_what_nobody_waits_for_gives_way() -> None:
    """A webhook is what an uncertain action waits for: who matches it has its turn like others."""
    assert {one for one in Process if one.niceness} == {Process.INQUIRER, Process.PROJECTOR}


def test_a_heartbeat_that_cannot_be_written_ends_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody removes its folder under a process that works: that is told once, and the file is
    there again as soon as there is a place for it.
    """
    monkeypatch.setattr(life, "BEAT_SECONDS", 0.0)
    monkeypatch.setattr(life, "seek_cycles_seldom", lambda: None)
    beat = tmp_path / "run" / "processor.ready"
    beat.parent.mkdir()
    one = life.Life("processor", beat)
    one.beat()
    beat.unlink()
    beat.parent.rmdir()
    for _ in range(3):
        one.beat()
    assert caplog.messages == ["heartbeat_not_written"]
    beat.parent.mkdir()
    one.beat()
    assert beat.exists()
