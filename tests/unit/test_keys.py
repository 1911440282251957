"""API keys: recognised by their hash, seen once, revocable while the process runs."""

import json
import stat
import threading
import time
from pathlib import Path

import pytest

from gateway.keys import (
    KEPT_AFTER_END_MS,
    Caller,
    KeyFile,
    KeyFileError,
    KeyRefusal,
    Role,
    UnknownKeyError,
    create_key,
    read_keys,
    revoke_key,
    rotate_key,
)
from gateway.private_files import LOOK_EVERY_S
from ledger.core.ids import MalformedId

NOW = time.time_ns() // 1_000_000
HOUR_MS = 3_600_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Name a file of keys that is not there yet, in a folder that is not there either."""
    return tmp_path / "state" / "api_keys.toml"


def make(file: Path, tenant: str = "acme", role: Role = Role.AGENT) -> str:
    """A new key in the file."""
    return create_key(file, tenant=tenant, principal='agent:"billing"', role=role)


def test_a_key_gives_tenant_principal_and_role(file: Path) -> None:
    """Each key is its own caller."""
    first, second = make(file), make(file, "globex", Role.ANALYST)
    ring = read_keys(file)
    caller = ring.caller(first, NOW)
    assert caller == Caller(first[3:19], "acme", 'agent:"billing"', Role.AGENT)
    other = ring.caller(second, NOW)
    assert isinstance(other, Caller)
    assert (other.tenant, other.role) == ("globex", Role.ANALYST)


def test_a_key_says_for_whom_its_bearer_asks(file: Path) -> None:
    """The people whose wishes an agent carries out are its key's, also of a rotated one."""
    made = create_key(
        file, tenant="acme", principal="agent:a", role=Role.AGENT, name="a", behalf=("ada", "ben")
    )
    caller = read_keys(file).caller(made, NOW)
    assert isinstance(caller, Caller)
    assert caller.behalf == ("ada", "ben")
    stored, _ = rotate_key(file, "a", keep_ms=0)
    assert stored.caller.behalf == ("ada", "ben")
    with pytest.raises(MalformedId):
        create_key(file, tenant="acme", principal="a", role=Role.AGENT, behalf=("\n",))
    with pytest.raises(MalformedId):
        create_key(file, tenant="acme", principal="a", role=Role.AGENT, behalf=["p"] * 9)


def test_the_file_holds_no_key_and_is_its_owners_alone(file: Path) -> None:
    """Whoever reads the file cannot use it as a key."""
    key = make(file)
    text = file.read_text(encoding="utf-8")
    assert key not in text
    assert key.rsplit("_", 1)[1] not in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "presented",
    ["", "al_", "x", "al_0000000000000000_" + "A" * 43, "al_" + "é" * 60, "\ud800", "A" * 100_000],
)
def test_what_is_no_key_belongs_to_nobody(file: Path, presented: str) -> None:
    """Unknown ids, malformed keys and odd characters are all nobody's."""
    make(file)
    assert read_keys(file).caller(presented, NOW) is None


def test_another_secret_under_a_known_id_belongs_to_nobody(file: Path) -> None:
    """The id is no secret; the rest is."""
    key = make(file)
    wrong = key[:-1] + ("A" if key[-1] != "A" else "B")
    assert read_keys(file).caller(wrong, NOW) is None


def test_a_file_that_is_not_there_holds_no_keys(file: Path) -> None:
    """A fresh installation knows nobody."""
    assert len(read_keys(file)) == 0


@pytest.mark.parametrize(
    "text",
    [
        "not toml",
        "other = 1\n",
        "keys = 1\n",
        "[[keys]]\nid = 'x'\n",
        (
            f"[[keys]]\nid = '{'0' * 16}'\nsha256 = '{'0' * 64}'\ntenant = 'a b'\n"
            "principal = 'p'\nrole = 'agent'\n"
        ),
        (
            f"[[keys]]\nid = '{'0' * 16}'\nsha256 = '{'0' * 64}'\ntenant = 'a'\n"
            "principal = 'p'\nrole = 'king'\n"
        ),
        (
            f"[[keys]]\nid = '{'0' * 16}'\nsha256 = '{'0' * 63}'\ntenant = 'a'\n"
            "principal = 'p'\nrole = 'agent'\n"
        ),
    ],
)
def test_a_file_with_a_mistake_is_refused_whole(file: Path, text: str) -> None:
    """A key that was meant to be revoked must not live on in a file half read."""
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    with pytest.raises(KeyFileError) as raised:
        read_keys(file)
    assert raised.value.path == file
    assert raised.value.hint
    with pytest.raises(KeyFileError):
        make(file)
    assert file.read_text(encoding="utf-8") == text


def test_two_keys_with_one_id_are_refused(file: Path) -> None:
    """An id names one caller."""
    make(file)
    text = file.read_text(encoding="utf-8")
    file.write_text(text + text, encoding="utf-8")
    with pytest.raises(KeyFileError, match="id of another"):
        read_keys(file)


@pytest.mark.parametrize(("tenant", "principal"), [("a b", "p"), ("", "p"), ("a", ""), ("a", "\t")])
def test_a_key_for_nobody_is_not_made(file: Path, tenant: str, principal: str) -> None:
    """Tenant and principal are held to what the ledger takes."""
    with pytest.raises(MalformedId):
        create_key(file, tenant=tenant, principal=principal, role=Role.AGENT)
    assert not file.exists()


def test_a_revoked_key_stops_working_while_the_process_runs(file: Path) -> None:
    """The file is looked at again every second."""
    now = [0.0]
    key = make(file)
    keys = KeyFile(file, clock_s=lambda: now[0])
    assert keys.caller(key) is not None
    file.write_text("", encoding="utf-8")
    assert keys.caller(key) is not None
    now[0] += LOOK_EVERY_S
    assert keys.caller(key) is None
    fresh = make(file)
    now[0] += LOOK_EVERY_S
    assert keys.caller(fresh) is not None


def test_a_file_that_breaks_later_leaves_the_keys_in_force(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A slip in an editor locks nobody out; the log says it once."""
    now = [0.0]
    key = make(file)
    keys = KeyFile(file, clock_s=lambda: now[0])
    file.write_text("[[keys", encoding="utf-8")
    for _ in range(3):
        now[0] += LOOK_EVERY_S
        assert keys.caller(key) is not None
    assert [record.message for record in caplog.records] == ["api_keys_unusable"]
    assert key not in json.dumps([vars(record) for record in caplog.records], default=str)


def test_a_rotated_key_is_taken_until_its_time_and_then_refused_by_name(file: Path) -> None:
    """Old and new work side by side for the same caller; then the old one is expired."""
    old = create_key(file, tenant="acme", principal="agent:b", role=Role.AGENT, name="billing")
    stored, new = rotate_key(file, "billing", keep_ms=HOUR_MS)
    ring = read_keys(file)
    now = time.time_ns() // 1_000_000
    before, after = ring.caller(old, now), ring.caller(new, now)
    assert isinstance(before, Caller)
    assert isinstance(after, Caller)
    assert (before.tenant, before.principal, before.role) == (
        after.tenant,
        after.principal,
        after.role,
    )
    assert (stored.caller, stored.name) == (after, "billing")
    assert ring.caller(old, now + HOUR_MS) is KeyRefusal.EXPIRED
    assert ring.caller(new, now + HOUR_MS) == after


def test_a_revoked_key_is_refused_by_name_at_once_and_stays_so(file: Path) -> None:
    """Revoking again changes nothing; another secret under its id is still nobody's."""
    key = make(file)
    revoked = revoke_key(file, key[3:19])
    assert revoke_key(file, key[3:19]) == revoked
    ring = read_keys(file)
    assert ring.caller(key, NOW) is KeyRefusal.REVOKED
    assert ring.caller(key[:-1] + ("A" if key[-1] != "A" else "B"), NOW) is None
    with pytest.raises(UnknownKeyError):
        rotate_key(file, key[3:19], keep_ms=0)


def test_a_key_may_have_an_end_from_the_start(file: Path) -> None:
    """A key for a while is refused from its end on, and rotating it makes it live no longer."""
    key = create_key(file, tenant="acme", principal="p", role=Role.AGENT, valid_until=NOW + HOUR_MS)
    rotate_key(file, key[3:19], keep_ms=2 * HOUR_MS)
    ring = read_keys(file)
    assert isinstance(ring.caller(key, NOW + HOUR_MS - 1), Caller)
    assert ring.caller(key, NOW + HOUR_MS) is KeyRefusal.EXPIRED


def test_a_key_for_a_while_is_rotated_into_one_for_a_while(file: Path) -> None:
    """The new key ends when the old one was to, or when it is said; never later by itself."""
    end = NOW + 7 * 24 * HOUR_MS
    key = create_key(file, tenant="acme", principal="p", role=Role.AGENT, valid_until=end)
    stored, new = rotate_key(file, key[3:19], keep_ms=0)
    assert stored.valid_until == end
    assert read_keys(file).caller(new, end) is KeyRefusal.EXPIRED
    longer, _ = rotate_key(file, new[3:19], keep_ms=0, valid_until=end + HOUR_MS)
    assert longer.valid_until == end + HOUR_MS


def test_a_name_that_is_nobodys_or_of_two_is_refused(file: Path) -> None:
    """Nothing is rotated or revoked on a guess."""
    for _ in range(2):
        create_key(file, tenant="acme", principal="p", role=Role.AGENT, name="twice")
    before = file.read_text(encoding="utf-8")
    for name in ("twice", "unknown", ""):
        with pytest.raises(UnknownKeyError):
            revoke_key(file, name)
    assert file.read_text(encoding="utf-8") == before


def test_a_key_that_ended_long_ago_is_forgotten(file: Path) -> None:
    """The file does not grow for ever: after three months an ended key is nobody's."""
    old = make(file)
    revoke_key(file, old[3:19])
    text = file.read_text(encoding="utf-8")
    at = int(text.rsplit("revoked_at = ", 1)[1])
    file.write_text(text.replace(str(at), str(at - KEPT_AFTER_END_MS - 1)), encoding="utf-8")
    make(file)
    assert read_keys(file).caller(old, NOW) is None
    assert len(read_keys(file)) == 1


def test_keys_made_at_the_same_time_are_all_kept(file: Path) -> None:
    """Who changes the file waits for who does; none is lost, and the mode stays private."""
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.append(make(file))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ring = read_keys(file)
    assert all(isinstance(ring.caller(key, NOW), Caller) for key in made)
    assert len(ring) == len(made) == 12
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_rotation_and_revocation_reach_a_running_process(file: Path) -> None:
    """Within a second, without a restart."""
    now = [0.0]
    old = make(file)
    keys = KeyFile(file, clock_s=lambda: now[0])
    _, new = rotate_key(file, old[3:19], keep_ms=HOUR_MS)
    revoke_key(file, old[3:19])
    now[0] += LOOK_EVERY_S
    assert keys.caller(old) is KeyRefusal.REVOKED
    assert isinstance(keys.caller(new), Caller)
