"""Code about code: the house rules, asked of every file, and each rule tried on what it forbids."""

import re
from collections.abc import Iterable
from functools import cache

import pytest

from gateway.settings import PREFIX
from ledger.log.crashpoints import POINTS
from tests import house_rules as rules
from tests.house_rules import Rule, Source
from tests.tree import PACKAGES, ROOT, files, sources

PRODUCT = (*PACKAGES, "sdk/src")
# The one reader of settings, and the switch that ends a process at a named point in crash tests.
ENVIRONMENT_READERS = frozenset({"gateway/settings.py", "ledger/log/crashpoints.py"})
RUNBOOK = "docs/OPERATIONS.md"

EVERYWHERE: tuple[Rule, ...] = (
    rules.has_module_docstring,
    rules.functions_are_short,
    rules.file_is_short,
    rules.lines_are_short,
    rules.open_tasks_have_numbers,
    rules.class_names_say_what_they_are,
    rules.module_name_says_what_it_holds,
)
IN_TESTS: tuple[Rule, ...] = (
    rules.tests_state_behaviour,
    rules.tests_always_run,
    rules.tests_wait_for_conditions,
    rules.tests_are_patient,
    rules.tests_use_no_mocks,
)
ON_REAL_SERVERS = tuple(f"tests/{name}" for name in ("acceptance", "contract", "integration"))
TASK = "TO" + "DO"
# What each rule must find: a path and a text that break it once.
BROKEN: tuple[tuple[Rule, str, str], ...] = (
    (rules.has_module_docstring, "ledger/a.py", "x = 1\n"),
    (rules.functions_are_short, "ledger/a.py", "def f():\n" + "    x = 1\n" * 70),
    (rules.file_is_short, "ledger/a.py", "x = 1\n" * 501),
    (rules.lines_are_short, "ledger/a.py", f"x = '{'x' * 95}'\n"),
    (rules.open_tasks_have_numbers, "ledger/a.py", f"x = 1  # {TASK}: later\n"),
    (rules.class_names_say_what_they_are, "ledger/a.py", "class LogManager: ...\n"),
    (rules.module_name_says_what_it_holds, "ledger/utils.py", ""),
    (rules.public_functions_take_no_booleans, "ledger/a.py", "def f(*, fast: bool): ...\n"),
    (rules.environment_is_not_read, "ledger/a.py", "import os\nx = os.environ['X']\n"),
    (rules.environment_is_not_read, "ledger/a.py", "from os import getenv\n"),
    (rules.core_is_pure, "ledger/core/a.py", "import random\n"),
    (rules.core_is_pure, "ledger/core/a.py", "from ledger.log import topics\n"),
    (rules.core_is_pure, "ledger/core/a.py", "import orjson\n"),
    (rules.core_is_pure, "ledger/core/a.py", "def f(d): return d.now()\n"),
    (rules.tests_state_behaviour, "tests/a.py", "async def test_a(): ...\n"),
    (rules.tests_always_run, "tests/a.py", "from pytest import mark\n@mark.xfail\ndef f(): ...\n"),
    (rules.tests_always_run, "tests/a.py", "from pytest import importorskip\n"),
    (rules.tests_wait_for_conditions, "tests/a.py", "import time\ntime.sleep(PAUSE_S)\n"),
    (rules.tests_wait_for_conditions, "tests/a.py", "while f():\n    asyncio.sleep( .5)\n"),
    (rules.tests_are_patient, "tests/a.py", "async with asyncio.timeout(20): ...\n"),
    (rules.tests_are_patient, "tests/a.py", "import time\nuntil = time.monotonic() + 20\n"),
    (rules.real_servers_are_given_time, "tests/a.py", "client.propose(x, timeout_ms=20_000)\n"),
    (rules.tests_use_no_mocks, "tests/a.py", "from unittest import mock\n"),
)
ADDRESS = re.compile(r"://|--(extra-)?index|--find-links|--trusted-host")
# Folders that exist on somebody's machine only. A path below a user's own folder is one too.
MACHINE_PATH = re.compile(r"(?<![A-Za-z0-9_.~])/(home|root|work|farm|Users|opt/wheels)(?=/)")


def broken(rule: Rule, over: Iterable[Source]) -> list[str]:
    """Everything one rule finds in these files."""
    return [finding for source in over for finding in rule(source)]


@cache
def found_in_all() -> dict[Rule, list[str]]:
    """Everything that the rules find, each file read and parsed once for all of them."""
    found: dict[Rule, list[str]] = {rule: [] for rule in (*EVERYWHERE, *IN_TESTS)}
    for source in sources():
        for rule in (*EVERYWHERE, *(IN_TESTS if source.path.startswith("tests/") else ())):
            found[rule] += rule(source)
    return found


@pytest.mark.parametrize("rule", EVERYWHERE, ids=lambda rule: rule.__name__)
def test_every_file_is_tidy(rule: Rule) -> None:
    """Every Python file keeps the rules of shape and naming."""
    assert found_in_all()[rule] == []


@pytest.mark.parametrize("rule", IN_TESTS, ids=lambda rule: rule.__name__)
def test_every_test_is_honest(rule: Rule) -> None:
    """Every test states behaviour, runs always, waits for conditions and meets the real thing."""
    assert found_in_all()[rule] == []


def test_real_servers_are_given_time() -> None:
    """No wait for what must come is as short as an idle machine allows."""
    assert broken(rules.real_servers_are_given_time, sources(*ON_REAL_SERVERS)) == []


@pytest.mark.parametrize(("rule", "path", "text"), BROKEN)
def test_rules_find_what_they_forbid(rule: Rule, path: str, text: str) -> None:
    """A rule that finds nothing in a broken file would guard nothing."""
    assert len(list(rule(Source(path, text)))) == 1


def test_the_core_is_pure() -> None:
    """The core imports pydantic and pure standard modules, and asks neither clock nor chance."""
    assert broken(rules.core_is_pure, sources("ledger/core")) == []


def test_the_environment_is_read_in_one_place() -> None:
    """Only the settings, and the crash points of tests, look at environment variables."""
    others = [source for source in sources(*PRODUCT) if source.path not in ENVIRONMENT_READERS]
    assert broken(rules.environment_is_not_read, others) == []


def test_public_functions_take_no_booleans() -> None:
    """A caller never has to guess what True means; flags of the command line are the exception."""
    inside = [source for source in sources(*PRODUCT) if not source.path.startswith("gateway/cli")]
    assert broken(rules.public_functions_take_no_booleans, inside) == []


def test_every_log_line_is_in_the_runbook() -> None:
    """Whoever reads a log line at night finds its name, and no row explains a line long gone."""
    logged = set()
    for source in sources(*PRODUCT):
        for name, line in rules.log_events(source):
            assert name, f"{source.path}:{line}: a log line begins with the name of its event"
            logged.add(name)
    _, _, section = (ROOT / RUNBOOK).read_text(encoding="utf-8").partition("## Log lines")
    table, _, _ = section.partition("\n## ")
    explained = set(re.findall(r"^\| `(\w+)`", table, flags=re.MULTILINE))
    assert logged - explained == set(), f"missing in {RUNBOOK}"
    assert explained - logged == set(), f"no longer in the code, still in {RUNBOOK}"


def test_every_setting_is_in_the_runbook() -> None:
    """Whoever may set a variable can read what it does, and no page names one that is none."""
    settings = (ROOT / "gateway" / "settings.py").read_text(encoding="utf-8")
    taken = {PREFIX + name for name in re.findall(r'\btake\(\s*"([A-Z_]+)"', settings)}
    runbook = (ROOT / RUNBOOK).read_text(encoding="utf-8")
    named = set(re.findall(rf"\b{PREFIX}[A-Z_]*[A-Z]\b", runbook))
    assert taken - named == set(), f"missing in {RUNBOOK}"
    assert named - taken == set(), f"no setting, and still in {RUNBOOK}"


def test_every_crash_point_is_listed_and_passed() -> None:
    """A point that no code passes proves nothing, and one that no list names is never tried."""
    passed = set()
    for source in sources(*PRODUCT):
        for name, line in rules.crash_points(source):
            assert name, f"{source.path}:{line}: a crash point is named by a literal"
            passed.add(name)
    assert passed == {point.name for point in POINTS}


def test_lock_files_hold_no_address() -> None:
    """Locks name versions and hashes, so that any mirror serves them."""
    locks = files(".lock")
    assert "requirements.lock" in locks
    for path in locks:
        assert not ADDRESS.search((ROOT / path).read_text(encoding="utf-8")), path


def test_requirements_are_locked_by_hash() -> None:
    """Each locked requirement is one exact version with at least one SHA-256."""
    for path in ("requirements.lock", "requirements-dev.lock"):
        text = (ROOT / path).read_text(encoding="utf-8").replace("\\\n", "")
        for requirement in text.splitlines():
            assert re.match(r"[\w.-]+==[^ ]+ .*--hash=sha256:[0-9a-f]{64}", requirement), (
                f"{path}: {requirement[:60]}"
            )


def test_no_path_of_a_machine_is_in_the_tree() -> None:
    """The project is the same wherever it is cloned."""
    found = []
    for path in files():
        try:
            text = (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # bytes on purpose: a golden file or an image
        found += [f"{path}: {match.group()}" for match in MACHINE_PATH.finditer(text)]
    assert found == []
