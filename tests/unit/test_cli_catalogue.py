"""`catalogue` without a server: shown, compared, begun from a schema."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.app import run
from tests.tree import ROOT

SHIPPED = ROOT / "ledger" / "catalogue.toml"
SCHEMA = {
    "type": "object",
    "properties": {
        "charge": {"type": "string", "maxLength": 64},
        "share": {"type": "number"},
    },
    "required": ["charge"],
}


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment in which nothing is configured and nothing runs."""
    monkeypatch.setenv("ACTIONLEDGER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """The exit code of a command, and the JSON document that it printed."""
    code = run([*arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_catalogue_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """All operations on a line each, one of them whole, and the schema of its parameters."""
    assert run(["catalogue", "show", "--file", str(SHIPPED)]) == 0
    said = capsys.readouterr().out
    assert "refund:v1" in said
    assert "simulated / main" in said
    assert run(["catalogue", "show", "charge:v1", "--file", str(SHIPPED)]) == 0
    said = capsys.readouterr().out
    assert "key_window_ms" in said
    assert "parameter customer" in said
    assert "description “The provider's id of the customer.”, length_max 64" in said
    code, told = answer(capsys, "catalogue", "show", "refund", "--schema", "--file", str(SHIPPED))
    assert code == 0
    assert told["result"]["properties"]["charge"]["maxLength"] == 64
    code, told = answer(capsys, "catalogue", "show", "--schema", "--file", str(SHIPPED))
    shipped = {"charge:v1", "refund:v1", "email:v1", "ticket:v1"}
    assert set(told["result"]) == shipped | {
        *("email.correction:v1", "record.delete:v1", "record.restore:v1"),
    }
    code, told = answer(capsys, "catalogue", "show", "email", "--file", str(SHIPPED))
    assert [one["name"] for one in told["result"]["operations"]] == ["email"]


def test_two_catalogues_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Differences end with 3, breaking ones are marked; a comment is none."""
    text = SHIPPED.read_text(encoding="utf-8")
    other = tmp_path / "other.toml"
    other.write_text(text.replace("length_max = 64", "length_max = 32", 1), encoding="utf-8")
    arguments = ("catalogue", "diff", str(other), "--against", str(SHIPPED))
    code, told = answer(capsys, *arguments)
    assert (code, told["result"]["breaking"]) == (3, 1)
    (change,) = told["result"]["changes"]
    assert (change["operation"], change["path"]) == (
        "charge v1",
        "parameters.customer.length_max",
    )
    assert run(list(arguments)) == 3
    assert "breaks" in capsys.readouterr().out
    other.write_text(f"{text}\n# more\n", encoding="utf-8")
    code, told = answer(capsys, *arguments)
    assert (code, told["result"]["changes"]) == (0, [])


def test_a_catalogue_begins_from_a_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tables are on stdout, what was lost on stderr with its place, and the command ends with
    3 for it.
    """
    file = tmp_path / "refund.json"
    file.write_text(json.dumps(SCHEMA), encoding="utf-8")
    assert run(["catalogue", "from-schema", str(file)]) == 3
    said = capsys.readouterr()
    assert said.out == '[operation.parameters.charge]\ntype = "string"\nlength_max = 64\n'
    assert said.err.startswith("/properties/share/type is lost with its parameter")
    file.write_text(json.dumps({**SCHEMA, "properties": {"a": {"type": "boolean"}}}))
    code, told = answer(capsys, "catalogue", "from-schema", str(file))
    assert (code, told["result"]["lost"]) == (0, [])


def test_a_catalogue_begins_from_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model that can be imported where the command is called."""
    (tmp_path / "shop_models.py").write_text(
        "from pydantic import BaseModel\n\n\nclass Refund(BaseModel):\n    charge: str\n"
    )
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    code, told = answer(capsys, "catalogue", "from-schema", "shop_models:Refund")
    monkeypatch.delitem(sys.modules, "shop_models")
    assert code == 0
    assert told["result"]["parameters"] == {"charge": {"type": "string", "required": True}}
    assert sys.path == path


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "transfer", "--file", str(SHIPPED)),
        ("show", "charge:v2", "--file", str(SHIPPED)),
        ("show", "--source", "--file", str(SHIPPED)),
        ("from-schema", "no.such.module:Model"),
        ("from-schema", "json:Model"),
        ("from-schema", str(SHIPPED)),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """With a message and a hint."""
    code, told = answer(capsys, "catalogue", *arguments)
    assert code == 2
    assert told["error"]["message"]
    assert told["error"]["hint"]


def test_a_schema_of_no_object_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A list, or a string, has no parameters."""
    file = tmp_path / "list.json"
    for text in ("[]", '{"type": "string"}'):
        file.write_text(text)
        assert answer(capsys, "catalogue", "from-schema", str(file))[0] == 2
