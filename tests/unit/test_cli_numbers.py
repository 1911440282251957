"""Places, ports and times as somebody types them: what is none is told as wrong usage."""

import pytest

from gateway.cli.numbers import moment_of, whole_number
from tests.commands import told

TOO_LONG = "9" * 5_000


@pytest.mark.parametrize("number", ["²", "٣", "-1", "1e3", "1_0", " 1", "", TOO_LONG])
def test_what_is_no_number_ends_in_no_stack(number: str) -> None:
    """Neither a digit of another script nor one that is too long for any place."""
    assert whole_number(number) is None
    for command in (
        ("replay", "--to-offset", f"0:{number}"),
        ("replay", "--to-offset", f"{number}:0"),
        ("why", "--cause", f"intents/{number}/0"),
        ("why", "--cause", f"intents/0/{number}"),
        ("up", "--port", f"gateway={number}"),
    ):
        said = told((*command, "--json"), {})
        assert said.code == 2, command
        assert said.document["error"]["code"] == "usage"


@pytest.mark.parametrize(
    "text", ["²", "yesterday", TOO_LONG, "2026-13-01", "10000-01-01", "1796101200"]
)
def test_what_is_no_time_ends_in_no_stack(text: str) -> None:
    """A time of the log is milliseconds, or one of RFC 3339. A number of seconds is none: read as
    milliseconds it lies before everything, and a replay of nothing found all well.
    """
    assert moment_of(text) is None
    assert told(("replay", "--to-time", text, "--json"), {}).code == 2


def test_a_time_is_read_in_its_zone() -> None:
    """UTC where it names none; never before the clock begins."""
    assert moment_of("1800000000000") == 1_800_000_000_000
    assert moment_of("1970-01-01T01:00:00.5+01:00") == 500
    assert moment_of("1970-01-02") == moment_of("1970-01-02T00:00:00Z") == 86_400_000
    assert moment_of("0001-01-01T00:00:00+14:00") == 0
