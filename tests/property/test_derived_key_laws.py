"""Laws of derived business events: client and service derive one, and it is an identity."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actionledger import derived_event
from ledger.client import derived as service
from ledger.core.canonical import canonicalize
from ledger.core.ids import COMPONENT, ActionId
from tests.unit.core.test_unstable_keys import instability

RUNS = st.from_regex(r"[A-Za-z0-9._-]{1,103}", fullmatch=True)
NAMES = st.from_regex(COMPONENT, fullmatch=True).filter(
    lambda name: name.lower() not in service.CHANGES
)
TEXTS = st.text(max_size=300)
VALUES = TEXTS | st.integers(-(2**54), 2**54) | st.booleans()
FIELDS = st.dictionaries(NAMES, VALUES, max_size=5)

VECTORS = [
    (
        ("run-7", "email", {"ticket": "T-1842", "to": "zoë@example.org"}),
        "derived-run-7-0682af8b8a1c8179",
    ),
    (
        ("9b2f6f0e", "note.add", {"record": 7, "urgent": True, "Zeta": "東京", "_a": "\U0001f600"}),
        "derived-9b2f6f0e-8d0b2be80b9fe870",
    ),
]
"""Must not change: an agent that is resumed after an upgrade would act twice."""


def name_or_refusal(run: str, operation: str, fields: Mapping[str, str | int | bool]) -> str | None:
    """The name on which both agree; None where both refuse."""
    try:
        name = derived_event(run, operation, fields)
    except ValueError:
        with pytest.raises(ValueError, match=r"run|fields"):
            service.derived_event(run, operation, fields)
        return None
    assert service.derived_event(run, operation, fields) == name
    return name


@pytest.mark.parametrize(("given_parts", "name"), VECTORS)
def test_a_derived_name_never_changes(
    given_parts: tuple[str, str, dict[str, str | int | bool]], name: str
) -> None:
    """The vectors hold for every version and language."""
    assert name_or_refusal(*given_parts) == name


@given(RUNS, st.sampled_from(["email", "note.add"]), FIELDS)
def test_client_and_service_derive_the_same(
    run: str, operation: str, fields: dict[str, str | int | bool]
) -> None:
    """For any fields they give one name or both refuse; the order of fields is nothing to them."""
    name = name_or_refusal(run, operation, fields)
    backwards = dict(reversed(fields.items()))
    assert name_or_refusal(run, operation, backwards) == name
    if name is not None:
        assert name.startswith(f"derived-{run}-")
        assert ActionId.parse(name).business_event == name


@given(RUNS, FIELDS, RUNS, FIELDS)
def test_what_differs_has_another_name(
    run: str,
    fields: dict[str, str | int | bool],
    other_run: str,
    other: dict[str, str | int | bool],
) -> None:
    """Another run, operation or field is another action; True is not 1."""
    first, second = (
        name_or_refusal(run, "email", fields),
        name_or_refusal(other_run, "email", other),
    )
    if first is not None:
        same = run == other_run and canonicalize_or_none(fields) == canonicalize_or_none(other)
        assert (first == second) == same
        assert name_or_refusal(run, "note.add", fields) != first


def canonicalize_or_none(value: object) -> bytes | None:
    """The canonical form where there is one."""
    try:
        return canonicalize(value)
    except ValueError:
        return None


@given(st.uuids().map(str), FIELDS, st.integers(0, 2**53 - 1))
def test_a_derived_name_is_stable(run: str, fields: dict[str, str | int | bool], now: int) -> None:
    """What is derived in a run with a name of its own is never refused as a key."""
    name = name_or_refusal(run, "email", fields)
    if name is not None:
        assert instability(ActionId(name), now) is None


@pytest.mark.parametrize(
    ("run", "fields"),
    [
        ("", {"a": 1}),
        ("a b", {"a": 1}),
        ("r" * 104, {"a": 1}),
        ("r", {}),
        ("r", {str(n): n for n in range(65)}),
        ("r", {"a b": 1}),
        ("r", {"attempt": 3}),
        ("r", {"Tool_Call_Id": "x"}),
        ("r", {"a": 1.0}),
        ("r", {"a": None}),
        ("r", {"a": ["x"]}),
        ("r", {"a": 2**53}),
        ("r", {"a": ""}),
        ("r", {"a": "a line\nand another"}),
        ("r", {"a": "x" * 257}),
        ("r", {"a": " x"}),
        ("r", {"a": "e\u0301"}),
        ("r", {"a": "\ud83d"}),
    ],
)
def test_what_is_no_identity_is_refused_by_both(run: str, fields: dict[str, object]) -> None:
    """No run, no fields, what changes with every try, free text, numbers with a point."""
    assert name_or_refusal(run, "email", fields) is None  # type: ignore[arg-type]
