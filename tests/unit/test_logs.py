"""Log lines: one line each, the event first, whatever the values hold."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from gateway.logs import VALUE_CHARS_MAX, set_up_logs
from gateway.settings import LogFormat, LogLevel

logger = logging.getLogger("actionledger.test")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Take the lines of this process for one test and give them back."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    logging.captureWarnings(capture=False)


def test_a_line_is_one_json_object_with_the_event_first(stream: io.StringIO) -> None:
    """Fields given as extra stand beside the event, its level and its time."""
    set_up_logs(LogLevel.INFO, LogFormat.JSON, stream)
    logger.info("offer_sent", extra={"partition": 3, "holder": "a\nb"})
    line = stream.getvalue()
    assert line.count("\n") == 1
    assert line.startswith('{"event": "offer_sent"')
    read = json.loads(line)
    assert (read["level"], read["partition"], read["holder"]) == ("info", 3, "a\nb")
    assert isinstance(read["at"], int)


def test_a_value_cannot_begin_a_second_line(stream: io.StringIO) -> None:
    """A line break in a value is escaped in the plain shape too."""
    set_up_logs(LogLevel.INFO, LogFormat.PLAIN, stream)
    logger.info("offer_sent", extra={"holder": 'x\n12:00:00 info forged "', "slots": 2})
    (line,) = stream.getvalue().splitlines()
    assert "offer_sent holder=" in line
    assert line.endswith("slots=2")


def test_the_level_bounds_what_is_written(stream: io.StringIO) -> None:
    """Lines below the level are not written."""
    set_up_logs(LogLevel.WARNING, LogFormat.JSON, stream)
    logger.info("offer_sent")
    logger.warning("offer_refused")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == [
        "offer_refused"
    ]


def test_an_error_brings_its_stack_into_the_log_only(stream: io.StringIO) -> None:
    """An exception is one field for what and one for where."""
    set_up_logs(LogLevel.INFO, LogFormat.JSON, stream)
    try:
        raise ValueError("the reason")
    except ValueError:
        logger.exception("request_failed")
    read = json.loads(stream.getvalue())
    assert read["error"] == "ValueError: the reason"
    assert "Traceback" in read["stack"]


def test_libraries_speak_from_warning_on(stream: io.StringIO) -> None:
    """What a library says is a field of one event, never an event's name."""
    set_up_logs(LogLevel.DEBUG, LogFormat.JSON, stream)
    logging.getLogger("aiokafka").info("chatter")
    logging.getLogger("aiokafka").warning("trouble with %s", "a broker")
    read = json.loads(stream.getvalue())
    assert read["event"] == "library_spoke"
    assert read["message"] == "trouble with a broker"


def test_a_long_value_is_cut(stream: io.StringIO) -> None:
    """A line is bounded whatever somebody puts into a field."""
    set_up_logs(LogLevel.INFO, LogFormat.JSON, stream)
    logger.info("offer_sent", extra={"reason": "x" * 100_000})
    assert len(stream.getvalue()) < VALUE_CHARS_MAX + 200


@pytest.mark.parametrize("shape", LogFormat)
def test_of_many_values_the_first_are_told(stream: io.StringIO, shape: LogFormat) -> None:
    """Also where they are many together, or one of them is long: as reasons that quote a record."""
    set_up_logs(LogLevel.INFO, shape, stream)
    logger.info("inputs_quarantined", extra={"reasons": ["x" * 1_500, "y" * 100_000, *range(99)]})
    line = stream.getvalue()
    assert len(line) < VALUE_CHARS_MAX + 200
    assert "x" * 1_500 in line
    if shape is LogFormat.JSON:
        assert json.loads(line)["reasons"] == ["x" * 1_500, "… and 100 more"]
    stream.truncate(0)
    logger.info("partitions_owned", extra={"partitions": list(range(500))})
    if shape is LogFormat.JSON:
        assert json.loads(stream.getvalue().lstrip("\0"))["partitions"] == list(range(500))
