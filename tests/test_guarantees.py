"""The document of promises names only tests that exist."""

import re

from tests.tree import ROOT

NAMED = re.compile(r"`(tests/[a-z0-9_/]+\.py)(?:::(test_[a-z0-9_]+))?`")


def test_every_promise_names_tests_that_exist() -> None:
    """Each test that docs/GUARANTEES.md names is defined in the file it names."""
    named = NAMED.findall((ROOT / "docs" / "GUARANTEES.md").read_text(encoding="utf-8"))
    assert named
    missing = [
        f"{path}::{test}"
        for path, test in named
        if f"def {test}" not in (ROOT / path).read_text(encoding="utf-8")
    ]
    assert missing == []


def test_every_row_of_what_holds_names_a_test() -> None:
    """No promise stands without its proof."""
    text = (ROOT / "docs" / "GUARANTEES.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    assert all(NAMED.search(row) for row in rows[1:])
