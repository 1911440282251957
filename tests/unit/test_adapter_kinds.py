"""Kinds of adapter are found by name: those that ship with the ledger, and those of packages."""

import sys
from pathlib import Path

import pytest

from gateway.cli.app import run
from gateway.settings import Settings
from gateway.wiring.installation import providers
from reconciler.providers.adapter import ProviderSettings, UnusableProvider
from reconciler.providers.kinds import kind_of, known_kinds
from reconciler.providers.registry import capabilities, finders, performers
from tests.tree import ROOT

BANK = (ROOT / "examples" / "providers" / "bank.toml").read_text(encoding="utf-8")


def installed(folder: Path, package: str, entry_points: str, code: str = "") -> None:
    """Put a package where Python finds packages, with its entry points, as pip does."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[actionledger.adapters]\n{entry_points}\n")
    (folder / f"{package}.py").write_text(code or "from reconciler.providers.null import read\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that Python looks for packages in."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    return folder


def described(folder: Path, name: str, kind: str) -> ProviderSettings:
    """A provider by a description of this kind."""
    path = folder / f"{name}.toml"
    path.write_text(f'format = 1\nkind = "{kind}"\n', encoding="utf-8")
    return ProviderSettings(name, kind_of(path), adapter_file=path)


async def test_a_package_brings_its_own_kind(site: Path, tmp_path: Path) -> None:
    """An entry point is all that it takes: settings, performers and finders go through it."""
    installed(site, "acme_carrier", "carrier = acme_carrier:read")
    assert "carrier" in known_kinds()
    described(tmp_path, "dhl", "carrier")
    settings = Settings.from_environment({"ACTIONLEDGER_PROVIDER_FILES": str(tmp_path)})
    known = providers(settings, None)
    assert [(one.name, one.kind) for one in known] == [("dhl", "carrier")]
    assert capabilities(known).keys() == {"dhl"}
    for client in (performers(known)["dhl"], finders(known)["dhl"]):
        await client.close()


def test_an_unknown_kind_is_told_with_the_known_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The problem names the provider, the line and what there is; nothing is guessed."""
    one = described(tmp_path, "dhl", "carier")
    for build in (performers, finders, capabilities):
        with pytest.raises(UnusableProvider, match=r"line 2: kind .* unknown kind") as raised:
            build([one])
        assert raised.value.name == "dhl"
        for kind in ("http", "null", "simulated"):
            assert kind in str(raised.value)
    path = tmp_path / "dhl.toml"
    assert run(["provider", "check", str(path)]) == 4
    told = capsys.readouterr().out
    assert f"{path}:2: kind names the unknown kind carier" in told
    assert "actionledger.adapters" in told


def test_settings_without_a_description_may_be_of_an_unknown_kind_too() -> None:
    """Then there is no line, and the hint says what brings a kind."""
    with pytest.raises(UnusableProvider, match="unknown kind carier") as raised:
        performers([ProviderSettings("dhl", "carier")])
    assert "actionledger.adapters" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("entry_points", "code", "problem"),
    [
        ("carrier = broken_carrier:read", "import no_such_library", "cannot be imported"),
        ("carrier = broken_carrier:gone", "x = 1", "cannot be imported"),
        ("carrier = broken_carrier:x", "x = 1", "is no function"),
    ],
)
def test_a_kind_that_cannot_be_loaded_is_told_with_its_package(
    site: Path, tmp_path: Path, entry_points: str, code: str, problem: str
) -> None:
    """A library that is missing in one package is that provider's problem, and is named."""
    sys.modules.pop("broken_carrier", None)
    installed(site, "broken_carrier", entry_points, code)
    with pytest.raises(UnusableProvider, match=problem) as raised:
        performers([described(tmp_path, "dhl", "carrier")])
    assert raised.value.name == "dhl"


def test_nobody_takes_the_name_of_another_kind(site: Path, tmp_path: Path) -> None:
    """Which code acts must not depend on the order of folders: both are told, none is used."""
    installed(site, "other_http", "http = other_http:read\ncarrier = other_http:read")
    installed(site, "acme_carriers", "carrier = acme_carriers:read")
    with pytest.raises(UnusableProvider, match="ships with the ledger and again with other_http"):
        performers([described(tmp_path, "bank", "http")])
    with pytest.raises(UnusableProvider, match="several packages bring") as raised:
        performers([described(tmp_path, "dhl", "carrier")])
    assert "other_http" in str(raised.value)
    assert "acme_carriers" in str(raised.value)


@pytest.mark.parametrize("text", ["", "kind = ", "kind = 3", "format = 1", "\udcff"])
def test_a_description_without_a_kind_is_the_usual_one(tmp_path: Path, text: str) -> None:
    """Whatever else is wrong with it is told by the reader of the usual kind."""
    path = tmp_path / "bank.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert kind_of(path) == "http"
    assert kind_of(tmp_path / "none.toml") == "http"


def test_a_description_may_name_the_usual_kind(tmp_path: Path) -> None:
    """What every description is by default can be written down."""
    path = tmp_path / "bank.toml"
    path.write_text(BANK.replace("format = 1", 'format = 1\nkind = "http"', 1), encoding="utf-8")
    assert capabilities([ProviderSettings("bank", kind_of(path), adapter_file=path)])
