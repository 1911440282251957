"""Margins between what an operation promises and the bounds on clocks: too small ones are refused
where the catalogue is read.
"""

import pytest

from ledger.core.catalogue import Catalogue, parse_catalogue
from tests.examples import (
    CATALOGUE_TEXT,
    CONNECT_MS,
    KEY_MARGIN_MS,
    LEASE_MARGIN_MS,
    RESPONSE_MS,
    SETTLE_MS,
    SKEW_MS,
)

LATE_MS = CONNECT_MS + RESPONSE_MS + SETTLE_MS + 2 * SKEW_MS


def with_lease_margin(lease_margin_ms: int) -> str:
    """The examples' catalogue with another margin of leases."""
    was = f"lease_margin_ms = {LEASE_MARGIN_MS}"
    return CATALOGUE_TEXT.replace(was, f"lease_margin_ms = {lease_margin_ms}")


def with_key_margin(key_margin_ms: int) -> str:
    """The examples' catalogue with another margin of key windows."""
    was = f"key_margin_ms = {KEY_MARGIN_MS}"
    return CATALOGUE_TEXT.replace(was, f"key_margin_ms = {key_margin_ms}")


def mistakes(text: str) -> set[str]:
    """The paths of what is wrong, without the number of the operation."""
    parsed = parse_catalogue(text)
    assert isinstance(parsed, tuple)
    assert all(mistake.line > 1 for mistake in parsed)
    return {mistake.path.partition("].")[2] for mistake in parsed}


@pytest.mark.law("S1")
def test_a_key_is_used_no_later_than_its_last_use_can_take_effect() -> None:
    """A call that begins as the window closes may take effect after connecting, answering and the
    provider's settle horizon, by clocks that differ; by then the key must still be known. The
    simulation finds two effects of one action where it is not.
    """
    assert isinstance(parse_catalogue(with_key_margin(LATE_MS)), Catalogue)
    assert mistakes(with_key_margin(LATE_MS - 1)) == {"key_margin_ms"}


def test_a_settle_horizon_beyond_the_usual_margin_is_named() -> None:
    """Where the margin is the usual one, the horizon is what does not fit."""
    without = CATALOGUE_TEXT.replace(f"key_margin_ms = {KEY_MARGIN_MS}\n", "").replace(
        "key_window_ms = 200000", "key_window_ms = 86400000"
    )
    assert isinstance(parse_catalogue(without), Catalogue)
    longer = without.replace(f"settle_horizon_ms = {SETTLE_MS}", "settle_horizon_ms = 600000")
    assert mistakes(longer) == {"settle_horizon_ms"}


@pytest.mark.law("S12")
def test_the_last_byte_leaves_within_the_lease() -> None:
    """The answer of a call is awaited for a response time behind its deadline; the lease must not
    end before that, or an absence would be believed while bytes still leave.
    """
    assert isinstance(parse_catalogue(with_lease_margin(RESPONSE_MS)), Catalogue)
    assert mistakes(with_lease_margin(RESPONSE_MS - 1)) == {"deadlines.response_ms"}
