"""`provider new`: what it writes has no mistake and passes the first half of the suite."""

import json
import stat
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from gateway.cli.app import run
from reconciler.providers.contract.stage import Stage
from tests.contract import suite_stages


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, object]]:
    """Run a command for its JSON document."""
    code = run([*arguments, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return code, document


@pytest.mark.parametrize("kind", ["http", "smtp", "postgres", "kafka", "stripe"])
def test_a_description_passes_the_first_half(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """Of every kind that can be described; the second time nothing is written over."""
    begin = ("provider", "new", "acme", "--kind", kind, "--into", str(tmp_path))
    code, document = answer(capsys, *begin)
    assert code == 0, document
    keys = list(tmp_path.glob("*.key"))
    assert [stat.S_IMODE(one.stat().st_mode) for one in keys] == [0o600] * len(keys)
    code, document = answer(capsys, "provider", "check", str(tmp_path / "acme.toml"), "--suite")
    assert code == 0, document
    result = document["result"]
    assert isinstance(result, dict)
    assert {one["came"] for one in result["suite"]} <= {"kept", "does_not_apply"}
    assert len(result["suite"]) == 8
    assert len(result["ways_out"]) == (0 if kind in {"postgres", "stripe"} else 5)
    before = (tmp_path / "acme.toml").read_text(encoding="utf-8")
    assert answer(capsys, *begin)[0] == 2
    assert (tmp_path / "acme.toml").read_text(encoding="utf-8") == before


def test_a_package_brings_a_kind_that_passes_the_first_half(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installed as its pyproject says, its own test passes and the command finds its kind."""
    code, _ = answer(capsys, "provider", "new", "acme", "--python", "--into", str(tmp_path))
    assert code == 0
    package = tmp_path / "acme"
    wheel = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(wheel, cwd=package, check=True, capture_output=True)
    [built] = tmp_path.glob("*.whl")
    monkeypatch.setenv("PYTHONPATH", str(built))
    test = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(package)]
    ran = subprocess.run(test, cwd=package, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    command = [sys.executable, "-c", "from gateway.cli import main; main()"]
    check = [*command, "provider", "check", "acme.toml", "--suite"]
    ran = subprocess.run(check, cwd=package, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "The contract:" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("a b",), "no name"), (("acme", "--kind", "ftp"), "ftp"), (("acme", "--kind", "../x"), "x")],
)
def test_what_cannot_be_begun_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    """A name that is none, or a kind that has no description to begin with; nothing is written."""
    code, document = answer(capsys, "provider", "new", *arguments, "--into", str(tmp_path))
    assert code == 2
    assert said in str(document["error"])
    assert list(tmp_path.iterdir()) == []


def mail_stage() -> AbstractContextManager[Stage]:
    """A stage as somebody else names one: `module:function`."""
    return suite_stages.smtp(Path(_FOLDER[0]))


_FOLDER: list[str] = []


def test_the_second_half_is_asked_in_front_of_a_stage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every check of it ends as kept, or with the reason why it cannot be asked."""
    _FOLDER[:] = [str(tmp_path)]
    run(["provider", "new", "mail", "--kind", "smtp", "--into", str(tmp_path / "new")])
    capsys.readouterr()
    file = str(tmp_path / "new" / "mail.toml")
    stage = f"{__name__}:mail_stage"
    code, document = answer(capsys, "provider", "check", file, "--stage", stage)
    assert code == 0, document
    result = document["result"]
    assert isinstance(result, dict)
    assert {one["came"] for one in result["suite"]} == {"kept", "does_not_apply"}
    assert all(one["why"] for one in result["suite"] if one["came"] == "does_not_apply")


@pytest.mark.parametrize("stage", ["no.such.module:x", "json:no_such", "json:loads", "os:getcwd"])
def test_a_stage_that_is_none_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stage: str
) -> None:
    """With the name that was given, and without a stack."""
    run(["provider", "new", "mail", "--kind", "smtp", "--into", str(tmp_path)])
    capsys.readouterr()
    file = str(tmp_path / "mail.toml")
    code, document = answer(capsys, "provider", "check", file, "--stage", stage)
    assert code == 2
    assert stage in str(document["error"])
