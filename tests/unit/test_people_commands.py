"""`people` without a server: a key of one's own, documents checked, what is wrong usage."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.app import run
from gateway.signing_key_file import SigningKeyFileError, create_key_file, read_key_file
from ledger.core.public_keys import ed25519_problem, thumbprint
from ledger.signing.keys import UnusableKeyError, load_key

PASSPHRASE = "four fair words here"


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment in which nothing is configured, with a home of its own."""
    monkeypatch.setenv("ACTIONLEDGER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def passphrase_file(tmp_path: Path) -> str:
    """A file that holds the passphrase."""
    file = tmp_path / "passphrase"
    file.write_text(f"{PASSPHRASE}\n", encoding="utf-8")
    return str(file)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """The exit code of a command, and the JSON document that it printed."""
    code = run([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_key_is_made_and_its_public_half_shown(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, passphrase_file: str
) -> None:
    """The file is the person's alone and opens with the passphrase; stdout is what an operator
    registers.
    """
    assert run(["people", "key", "new", "--passphrase-file", passphrase_file]) == 0
    public = capsys.readouterr().out.strip()
    assert ed25519_problem(public) is None
    file = tmp_path / "config" / "actionledger" / "signing-key.pem"
    assert file.stat().st_mode & 0o777 == 0o600
    assert load_key(read_key_file(file), PASSPHRASE).public == public
    with pytest.raises(UnusableKeyError):
        load_key(read_key_file(file), "another one entirely")


def test_a_key_is_told_as_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, passphrase_file: str
) -> None:
    """A script gets the name of the key, its public half and where it lies, and no secret."""
    file = tmp_path / "ada.pem"
    code, told = answer(
        capsys,
        *("people", "key", "new", "--file", str(file), "--passphrase-file", passphrase_file),
    )
    assert code == 0
    assert told["command"] == "people key new"
    assert told["result"]["file"] == str(file)
    assert told["result"]["id"] == thumbprint(told["result"]["public"])
    assert told["result"].keys() == {"file", "id", "public"}


def test_no_key_is_written_over_another(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, passphrase_file: str
) -> None:
    """What lies there stays, whatever it is."""
    file = tmp_path / "ada.pem"
    file.write_text("precious", encoding="utf-8")
    arguments = ["people", "key", "new", "--file", str(file), "--passphrase-file", passphrase_file]
    code, told = answer(capsys, *arguments)
    assert code == 1
    assert told["error"]["code"] == "signing_key_file"
    assert file.read_text(encoding="utf-8") == "precious"


def test_without_a_terminal_a_passphrase_is_not_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A command in a script ends and says how it gets its passphrase."""
    code, told = answer(capsys, "people", "key", "new")
    assert code == 2
    assert "--passphrase-file" in told["error"]["hint"]


def test_a_question_that_nobody_answers_ends_in_no_stack(tmp_path: Path) -> None:
    """Whoever ends the input instead, at a terminal, has interrupted the command: with JSON too."""
    ours, theirs = os.openpty()
    program = "import gateway.cli; gateway.cli.main()"
    file = tmp_path / "ada.pem"
    command = [sys.executable, "-c", program, "people", "key", "new", "--json", "--file", str(file)]
    asked = b""
    with subprocess.Popen(
        command,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as running:
        assert running.stderr is not None
        while not asked.endswith(b"new key: "):
            asked += running.stderr.read(1) or pytest.fail(asked.decode())
        os.write(ours, b"\x04")
        said, more = running.communicate()
    os.close(ours)
    os.close(theirs)
    assert (running.returncode, said) == (130, b"")
    assert b"Traceback" not in more
    assert not file.exists()


def test_a_short_passphrase_makes_no_key(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Nothing is written under a passphrase that is soon guessed."""
    (tmp_path / "short").write_text("x" * 11, encoding="utf-8")
    code, told = answer(
        capsys, *("people", "key", "new", "--passphrase-file", str(tmp_path / "short"))
    )
    assert code == 1
    assert told["error"]["code"] == "unusable_key"
    assert not (tmp_path / "config").exists()


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """A key that lies open is not used before that was put right."""
    file = tmp_path / "ada.pem"
    create_key_file(file, PASSPHRASE)
    file.chmod(0o640)
    with pytest.raises(SigningKeyFileError, match="others may read it"):
        read_key_file(file)
    file.chmod(0o600)
    read_key_file(file)


def test_a_file_that_is_no_key_is_told(tmp_path: Path) -> None:
    """What is missing, too large or no file at all is named with what to do."""
    with pytest.raises(SigningKeyFileError, match="there is none"):
        read_key_file(tmp_path / "nothing")
    with pytest.raises(SigningKeyFileError, match="directory"):
        read_key_file(tmp_path)
    large = tmp_path / "large"
    large.touch(mode=0o600)
    large.write_bytes(b"x" * 20_000)
    with pytest.raises(SigningKeyFileError, match="too large"):
        read_key_file(large)


def test_a_document_is_checked_line_by_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A document in order names its people; one with a mistake ends with 4 and its line."""
    file = tmp_path / "people.toml"
    file.write_text('[[person]]\nname = "ada"\ntenants = ["*"]\n', encoding="utf-8")
    code, told = answer(capsys, "people", "check", str(file))
    assert (code, told["result"]["people"]) == (0, ["ada"])
    file.write_text('[[person]]\nname = "ada"\ntenant = ["*"]\n', encoding="utf-8")
    assert run(["people", "check", str(file)]) == 4
    said = capsys.readouterr().out
    assert f"{file}:3: person[0].tenant is not a known key here; did you mean tenants?" in said
    code, told = answer(capsys, "people", "publish", str(file))
    assert code == 4
    assert told["result"]["mistakes"][0]["line"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "ada"), "Say for which tenants"),
        (("add", "a b", "--tenant", "acme"), "The name is refused"),
        (("add", "ada", "--tenant", "a/b"), "--tenant is refused"),
        (("add", "ada", "--tenant", "acme", "--group", ""), "--group is refused"),
        (("add", "ada", "--tenant", "acme", "--principal", " x"), "--principal is refused"),
        (("add", "ada", "--tenant", "acme", "--key", "xyz"), "The public half must be 32 bytes"),
        (("key", "add", "ada", "xyz"), "The public half must be 32 bytes"),
        (("key", "add", "ada", "A" * 43), "The public half is no Ed25519 public key"),
        (("key", "add", "ada", '{"id":"x"}'), "This is no passkey"),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What can be seen to be wrong is told before anything is asked or published."""
    code, told = answer(capsys, "people", *arguments)
    assert code == 2
    assert said in told["error"]["message"]
