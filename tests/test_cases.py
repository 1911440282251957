"""Public failure cases: what went wrong elsewhere, each with a test here that shows what is right.

A case is named by its id in the marker `case` of every test that answers it.
"""

import ast
from collections.abc import Iterator

from tests.house_rules import Source
from tests.tree import sources

CASES = {
    "a second effect": ("C001", "C005", "C007", "C009", "C011", "C013", "C015"),
    "keys": ("C003", "C017", "C019", "C021", "C023", "C025", "C027", "C029", "C031"),
    "approvals": ("C103", "C105", "C107", "C109", "C111", "C113", "C115"),
    "agents that resume or begin again": ("C117", "C119", "C121"),
    "ceilings and calendars": ("C123", "C125", "C127", "C129"),
    "compensations": ("C131", "C133", "C135", "C137", "C139"),
    "tenants": ("C191",),
    "the same key at the same time": ("C033", "C035", "C037", "C039"),
    "leases and workers that come back": ("C041", "C043", "C045", "C047"),
    "webhooks in any order": ("C049", "C051", "C053", "C055", "C057", "C059", "C061", "C063"),
    "signatures of webhooks": ("C065", "C067", "C069", "C071"),
    "the log": (
        *("C141", "C143", "C145", "C147", "C149", "C151", "C153"),
        *("C155", "C157", "C159", "C161", "C163", "C165"),
    ),
    "tables, replay, backup": ("C167", "C169", "C171", "C173", "C175", "C177"),
    "text and numbers": ("C179", "C181", "C183", "C185", "C187", "C189"),
}
"""Whole groups: none of their cases is without a test."""


def marked(source: Source) -> Iterator[tuple[str, str]]:
    """Every case that a test of this file answers, with the test."""
    for function in source.functions:
        for decorator in function.decorator_list:
            match decorator:
                case ast.Call(
                    func=ast.Attribute(attr="case"), args=[ast.Constant(value=str(case))]
                ):
                    yield case, function.name
                case _:
                    continue


def test_every_case_of_these_groups_has_its_test() -> None:
    """A case without a test is a promise without proof."""
    answered = {case for source in sources("tests") for case, _ in marked(source)}
    missing = {
        group: sorted(set(cases) - answered)
        for group, cases in CASES.items()
        if set(cases) - answered
    }
    assert missing == {}


def test_a_case_is_named_as_cases_are() -> None:
    """A mistyped id would answer nothing; what marks a function that is no test runs never."""
    for source in sources("tests"):
        for case, name in marked(source):
            assert case[0] == "C", f"{source.path}: {name}"
            assert case[1:].isdecimal(), f"{source.path}: {name}"
            assert len(case) == 4, f"{source.path}: {name}"
            assert name.startswith("test_"), f"{source.path}: {name}"
