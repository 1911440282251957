"""Files that commands are given: what is no text is named, whoever reads it."""

import json
from pathlib import Path

import pytest

from gateway.cli.app import run
from gateway.cli.output import Exit
from tests.tree import ROOT

DESCRIPTION = ROOT / "examples" / "providers" / "bank.toml"
"""One that is in order, for commands that read a second file after it."""

COMMANDS = {
    "people check": ("people", "check", "{file}"),
    "people publish": ("people", "publish", "{file}"),
    "people key new": ("people", "key", "new", "--passphrase-file", "{file}"),
    "catalogue check": ("catalogue", "check", "{file}"),
    "catalogue publish": ("catalogue", "publish", "{file}"),
    "catalogue from-schema": ("catalogue", "from-schema", "{file}"),
    "policy check": ("policy", "check", "{file}"),
    "policy publish": ("policy", "publish", "{file}"),
    "provider check": ("provider", "check", "{file}"),
    "provider check --catalogue": ("provider", "check", "{bank}", "--catalogue", "{file}"),
    "secrets rotate": ("secrets", "rotate", "simulated", "main", "--secret-file", "{file}"),
    "notify check": ("notify", "check", "{file}"),
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("raw", [b'name = "Z\xfcrich"\n', b"\xff\xfe\x00n"])
def test_a_file_that_is_no_text_is_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    name: str,
    raw: bytes,
) -> None:
    """Every command that reads one says so in a sentence, and none ends in a fault of ours."""
    monkeypatch.setenv("ACTIONLEDGER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    file, bank = tmp_path / "latin.toml", tmp_path / "bank.toml"
    file.write_bytes(raw)
    bank.write_text(DESCRIPTION.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "bank_main.key").write_text("sk_test_1", encoding="utf-8")
    code = run([*(one.format(file=file, bank=bank) for one in COMMANDS[name]), "--json"])
    told = capsys.readouterr()
    assert code in {Exit.USAGE, Exit.REFUSED}, told.err
    assert json.loads(told.out)
    assert "Traceback" not in told.err
