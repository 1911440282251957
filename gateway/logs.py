"""Log lines: the event's name first, its values as fields, one line each, to stderr.

Guarantees that a line is one line whatever its values hold, so that nothing a caller sends can
write a second one. Must never be handed a body, a key or a secret: what is logged is names,
counts, hashes and places. Called once by every process as it starts.
"""

import json
import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, TextIO

from gateway.settings import LogFormat, LogLevel

LOGGER: Final = "actionledger"
VALUE_CHARS_MAX: Final = 2_000
"""A longer value is cut: a line is for reading."""

# What every record has by itself; whatever else it has was given as a field.
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def set_up_logs(level: LogLevel, shape: LogFormat, stream: TextIO | None = None) -> None:
    """Send the lines of the process to `stream` (stderr) in one shape; calling again replaces it.

    Libraries speak from warning on; their sentences are the field `message` of `library_spoke`.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonLines() if shape is LogFormat.JSON else PlainLines())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger(LOGGER).setLevel(level.value.upper())
    logging.captureWarnings(capture=True)


def _event(record: logging.LogRecord) -> tuple[str, dict[str, object]]:
    """The name of the event and its fields."""
    fields = {name: value for name, value in vars(record).items() if name not in _OWN}
    if record.name == LOGGER or record.name.startswith(f"{LOGGER}."):
        event = record.getMessage()
    else:
        event = "library_spoke"
        fields = {"logger": record.name, "message": record.getMessage()}
    if record.exc_info is not None and record.exc_info[1] is not None:
        error = record.exc_info[1]
        fields["error"] = f"{type(error).__name__}: {error}"
        fields["stack"] = logging.Formatter().formatException(record.exc_info)
    return event, fields


class JsonLines(logging.Formatter):
    """One JSON object a line: `event`, `level`, `at` in milliseconds, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of one record."""
        event, fields = _event(record)
        line = {
            "event": event,
            "level": record.levelname.lower(),
            "at": int(record.created * 1_000),
            **{name: _bounded(value) for name, value in fields.items()},
        }
        return json.dumps(line, default=str)


class PlainLines(logging.Formatter):
    """Time, level, event, then `name=value`; the stack of an error follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of one record."""
        event, fields = _event(record)
        stack = fields.pop("stack", None)
        clock = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        values = " ".join(f"{name}={_shown(value)}" for name, value in fields.items())
        line = f"{clock} {record.levelname.lower():<7} {event} {values}".rstrip()
        return line if stack is None else f"{line}\n{stack}"


def _bounded(value: object) -> object:
    match value:
        case str() if len(value) > VALUE_CHARS_MAX:
            return f"{value[:VALUE_CHARS_MAX]}…"
        case list() | tuple():
            return _first_of(value)
        case _:
            return value


def _first_of(several: Sequence[object]) -> list[object]:
    """The first values, as many as are not too long together, and how many more there are."""
    shown: list[object] = []
    left = VALUE_CHARS_MAX
    for value in map(_bounded, several):
        left -= len(str(value))
        if left < 0 and shown:
            return [*shown, f"… and {len(several) - len(shown)} more"]
        shown.append(value)
    return shown


def _shown(value: object) -> str:
    if isinstance(value, int):
        return str(value)
    text = str(_bounded(str(_bounded(value))))
    is_plain = text and text.isprintable() and " " not in text and '"' not in text
    return text if is_plain else json.dumps(text)
