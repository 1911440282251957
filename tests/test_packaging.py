"""What is built and installed: our packages and nothing else, with everything they need."""

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import actionledger
import gateway
import ledger
import projections
import reconciler
import streams
from tests.house_rules import imported_modules
from tests.tree import PACKAGES, ROOT, files, sources

SDK_PACKAGES = frozenset({"actionledger", "httpx", "pydantic"})
OWN = frozenset({*PACKAGES, "actionledger"})
# Released with the package that is declared, and pinned by it: one product under two names.
COMPANIONS = {"pydantic_core": "pydantic", "starlette": "fastapi"}


def project(folder: Path = ROOT) -> dict[str, object]:
    """Read the project table of a distribution."""
    table = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert isinstance(table, dict)
    return table


def distribution_name(requirement: str) -> str:
    """Take the normalised name out of a requirement."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def declared(folder: Path = ROOT) -> set[str]:
    """List the distributions that a project says it needs when it runs."""
    dependencies = project(folder)["dependencies"]
    assert isinstance(dependencies, list)
    return {distribution_name(requirement) for requirement in dependencies}


def wheel_members(folder: Path, into: Path) -> set[str]:
    """Build the wheel of a project without a network and list what is in it."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    (wheel,) = into.glob("*.whl")
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


def locked(path: str) -> dict[str, str]:
    """Read the versions out of a lock file."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, flags=re.MULTILINE))


def test_the_imported_packages_are_ours() -> None:
    """The common words that name our packages import our code, not somebody else's."""
    for package in (ledger, projections, reconciler, streams, gateway):
        assert package.__file__ == str(ROOT / package.__name__ / "__init__.py")
    assert actionledger.__file__ == str(ROOT / "sdk/src/actionledger/__init__.py")


def test_the_wheel_holds_the_packages_and_their_data(tmp_path: Path) -> None:
    """The wheel has every file of the packages, SQL and locks too, and no test or tool."""
    expected = {path for path in files() if path.startswith(tuple(f"{p}/" for p in PACKAGES))}
    assert wheel_members(ROOT, tmp_path) == expected


def test_the_wheel_of_the_sdk_holds_the_sdk(tmp_path: Path) -> None:
    """The SDK's wheel has its one package, marked as typed, and nothing of the product."""
    prefix = "sdk/src/"
    expected = {path.removeprefix(prefix) for path in files() if path.startswith(prefix)}
    assert "actionledger/py.typed" in expected
    assert wheel_members(ROOT / "sdk", tmp_path) == expected


def test_the_sdk_needs_httpx_and_pydantic_only() -> None:
    """An agent that installs the SDK gets neither Kafka nor Faust."""
    allowed = sys.stdlib_module_names | SDK_PACKAGES
    for source in sources("sdk/src"):
        for name, line in imported_modules(source):
            origin = name.removeprefix("sdk.src.").partition(".")[0]
            assert origin in allowed, f"{source.path}:{line} imports {name}"
    assert declared(ROOT / "sdk") == SDK_PACKAGES - {"actionledger"}


def test_every_import_of_the_product_is_declared() -> None:
    """What runs does not lean on a package that only came along with another one."""
    providers = packages_distributions()
    needed = declared()
    for source in sources(*PACKAGES):
        for name, line in imported_modules(source):
            origin = name.partition(".")[0]
            if origin in sys.stdlib_module_names or origin in OWN:
                continue
            found = {
                distribution_name(one) for one in providers.get(COMPANIONS.get(origin, origin), ())
            }
            assert found & needed, f"{source.path}:{line} imports {name}, which is not declared"


@pytest.mark.parametrize("path", ["requirements.lock", "requirements-dev.lock"])
def test_every_dependency_is_locked(path: str) -> None:
    """A lock covers all that the project declares."""
    assert declared() <= locked(path).keys()


def test_both_locks_agree() -> None:
    """What is tested is what runs: the same versions with and without the tools."""
    runtime, development = locked("requirements.lock"), locked("requirements-dev.lock")
    assert runtime.items() <= development.items()


def test_the_product_is_not_for_upload() -> None:
    """An application under common import names must never reach a public index by accident."""
    classifiers = project()["classifiers"]
    assert isinstance(classifiers, list)
    assert "Private :: Do Not Upload" in classifiers
