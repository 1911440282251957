"""A settlement file: CSV or JSON lines of a payout report, read line by line as statement lines.

Guarantees that every line is one of three things: a statement, one that its type makes irrelevant,
or bad with a code and a sentence, also where an open quote takes in the lines behind it; that money
is never rounded and never read from a float; and that a file of any length takes no more memory
than its longest line. Must never drop a line silently.
Called by the import; `parse_row` is pure.
"""

import csv
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Final, Protocol, TypeAlias, assert_never

from pydantic import ValidationError

from ledger.core.limits import INTEGER_CHARS_MAX, INTEGER_MAX
from ledger.core.money import Money, code_of, exponent
from ledger.core.strict_json import JsonFault, MalformedJson, character_fault, parse
from reconciler.limits import FILE_LINE_BYTES_MAX
from reconciler.providers.http.answers import UnreadableAnswer, read_json
from reconciler.providers.settlement import AmountForm, Columns, FileFormat, MomentForm
from reconciler.providers.written_time import written_ms
from reconciler.statement_lines import StatementLine

Fields: TypeAlias = Mapping[str, object]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_NO_TEXT: Final = {
    b"\x1f\x8b": ("packed", "the file is packed by gzip: bring what `zcat` makes of it"),
    b"PK\x03\x04": ("packed", "the file is a zip, or a workbook: bring the CSV out of it"),
    b"\xff\xfe": ("not_utf8", "the file is UTF-16: save it as UTF-8"),
    b"\xfe\xff": ("not_utf8", "the file is UTF-16: save it as UTF-8"),
}
"""How files begin that are no text here, and what to do about each."""
_AMOUNT_CHARS_MAX: Final = 40
_THOUSAND_DIGITS: Final = 3
_GROUPED: Final = {
    ",": re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+"),
    ".": re.compile(r"[0-9]{1,3}(?:\.[0-9]{3})+"),
    "'": re.compile(r"[0-9]{1,3}(?:['\u2019][0-9]{3})+"),
    " ": re.compile(r"[0-9]{1,3}(?:[ \u00a0\u202f][0-9]{3})+"),
}
"""Whole amounts with their thousands parted, each also as typesetters write it."""
_NO_DIGIT: Final = re.compile(r"[^0-9]")
_OF_ANOTHER_COUNTRY: Final = re.compile(r"-?[0-9.,'\u2019 \u00a0\u202f]+")
_SAY_HOW: Final = "say in [settlement] amount what point and groups are"
_OF_ONE_VALUE: Final = frozenset(
    {
        JsonFault.FLOAT_REFUSED,
        JsonFault.INTEGER_TOO_LARGE,
        JsonFault.LONE_SURROGATE,
        JsonFault.NUL_CHARACTER,
        JsonFault.TOO_DEEP,
    }
)
"""Faults of JSON that a column has alone."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a file by its columns, with the number and the bytes that it has there; `behind`
    are the numbers of further lines that it takes in, in quotes.
    """

    number: int
    raw: bytes
    fields: Fields
    behind: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is refused; `code` says why, `detail` in a sentence."""

    number: int
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class IrrelevantLine:
    """A line of a type that says nothing about an effect, such as a payout itself."""

    number: int


@dataclass(frozen=True, slots=True)
class Stated:
    """A line that states something."""

    number: int
    line: StatementLine


Read: TypeAlias = Stated | IrrelevantLine | BadLine


class LinesOfBytes(Protocol):
    """A binary file, as far as it is read here."""

    def readline(self, limit: int = -1, /) -> bytes:
        """The next line of at most so many bytes; nothing at the end."""
        ...


class _Bad(Exception):
    def __init__(self, code: str, detail: str) -> None:
        self.code = code
        self.detail = detail


def read_file(file: LinesOfBytes, columns: Columns, file_format: FileFormat) -> Iterator[Read]:
    """Every line of a file in its order. Blank lines are none. Raises OSError."""
    rows = _csv_rows(file, columns) if file_format == "csv" else _json_rows(file)
    for row in rows:
        read = row if isinstance(row, BadLine) else parse_row(row, columns)
        yield read
        if isinstance(row, Row) and isinstance(read, BadLine):
            yield from _taken_in(row.number, row.behind)


def begins_as(path: Path, columns: Columns) -> bool:
    """Whether the first line of a file has all columns that are needed, as a CSV header or as the
    members of a JSON object. Raises OSError.
    """
    with path.open("rb") as file:
        first = file.readline(FILE_LINE_BYTES_MAX).removeprefix(_BYTE_ORDER_MARK)
    try:
        value = parse(first.strip())
        names = set(value) if isinstance(value, dict) else set()
    except MalformedJson:
        names = set(_cells(first.decode(errors="replace").strip(), columns))
    return columns.needed <= names


def _cells(line: str, columns: Columns) -> list[str]:
    """The cells of one line; none where it is not CSV."""
    try:
        return next(csv.reader([line], delimiter=columns.delimiter), [])
    except csv.Error:
        return []


def parse_row(row: Row, columns: Columns) -> Read:
    """What one line states. Never raises, whatever its fields hold."""
    try:
        return _stated(row, columns)
    except _Bad as bad:
        return BadLine(row.number, bad.code, bad.detail)


def _stated(row: Row, columns: Columns) -> Read:
    kind = _needed(row.fields, columns.type)
    says = columns.types.get(kind)
    if says is None:
        raise _Bad("unknown_type", f"{columns.type} has a value that [settlement.types] lacks")
    if says == "irrelevant":
        return IrrelevantLine(row.number)
    try:
        line = StatementLine(
            line_id=_needed(row.fields, columns.line_id),
            reference=_needed(row.fields, columns.reference),
            reverses=_text(row.fields, columns.reverses),
            action_key=_text(row.fields, columns.action_key),
            provider_key=_text(row.fields, columns.provider_key),
            operation=_text(row.fields, columns.operation),
            money=_money(row.fields, columns),
            effect=says,
            occurred_at=_moment(row.fields, columns.occurred_at),
            raw_sha256=hashlib.sha256(row.raw).hexdigest(),
        )
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
        name = str(first["loc"][0])
        raise _Bad("value_refused", f"{name}: {first['msg']}") from None
    return Stated(row.number, line)


def _text(fields: Fields, column: str | None) -> str | None:
    """The text of a column; an empty one says nothing."""
    if column is None:
        return None
    value = _at(fields, column)
    if value is None or value == "":
        return None
    if isinstance(value, Decimal):
        raise _Bad("float_refused", f'{column} is a fraction; write it as a text, such as "49.90"')
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _Bad("not_a_text", f"{column} is neither a text nor a whole number")
    text = str(value)
    if (fault := character_fault(text)) is not None:
        raise _Bad("not_plain_text", f"{column} holds {fault}")
    if "\n" in text or "\r" in text:
        # No name, amount or time has one; the lines behind it may be records of their own.
        raise _Bad("not_plain_text", f"{column} holds the end of a line; is a quote left open?")
    return text


def _needed(fields: Fields, column: str) -> str:
    text = _text(fields, column)
    if text is None:
        raise _Bad("value_missing", f"{column} is empty")
    return text


def _at(fields: Fields, column: str) -> object:
    """A member by its own name, else by the path that the dots in the name make."""
    if column in fields:
        return fields[column]
    value: object = fields
    for step in column.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return None
        value = value[step]
    return value


def _money(fields: Fields, columns: Columns) -> Money | None:
    amount = columns.amount
    if amount is None:
        return None
    written = _text(fields, amount.column)
    currency = columns.fixed_currency or _text(fields, columns.currency)
    if written is None or (currency is None and columns.currency in columns.optional):
        if written is None and (currency is None or columns.fixed_currency is not None):
            return None
        raise _Bad("value_missing", "an amount needs a currency, and a currency an amount")
    if currency is None:
        raise _Bad("value_missing", f"{columns.currency} is empty")
    code = code_of(currency)
    try:
        digits = exponent(code)
    except ValueError as unknown:
        raise _Bad("unknown_currency", str(unknown)) from None
    return Money(minor=_minor(written, amount, digits), currency=code)


def _minor(written: str, amount: AmountForm, digits: int) -> int:
    """Minor units, exactly. Nothing is rounded, and no exponent is taken, nor a separator that is
    not declared.
    """
    text = written
    if text.startswith("-") and amount.sign == "ignored":
        text = text.removeprefix("-")
    whole, point, rest = text.removeprefix("-").partition(amount.mark)
    if amount.groups is not None and _GROUPED[amount.groups].fullmatch(whole):
        whole = _NO_DIGIT.sub("", whole)
    is_number = whole.isascii() and whole.isdigit() and len(text) <= _AMOUNT_CHARS_MAX
    if not is_number or (point and not (rest.isascii() and rest.isdigit())):
        what_to_do = f"; {_SAY_HOW}" if _OF_ANOTHER_COUNTRY.fullmatch(text) else ""
        raise _Bad("not_an_amount", f"{amount.column} is no plain number{what_to_do}")
    if text.startswith("-"):
        said = f'{amount.column} is negative; say sign = "ignored" where the type says what it is'
        raise _Bad("negative_amount", said)
    if amount.unit == "minor" and point:
        raise _Bad("not_an_amount", f"{amount.column} has a fraction of a minor unit")
    decimals = digits if amount.unit == "decimal" else 0
    if len(rest) == _THOUSAND_DIGITS != decimals and amount.point is None:
        said = f"{amount.column} has three decimals, which may be thousands"
        raise _Bad("not_an_amount", f"{said}; {_SAY_HOW}")
    fraction = rest.rstrip("0")
    if len(fraction) > decimals:
        raise _Bad("not_an_amount", f"{amount.column} has more decimals than its currency")
    # Digits are put beside each other: arithmetic on decimals rounds what is long.
    minor = int(whole + fraction.ljust(decimals, "0"))
    if minor > INTEGER_MAX:
        raise _Bad("not_an_amount", f"{amount.column} is beyond {INTEGER_MAX} minor units")
    return minor


def _moment(fields: Fields, moment: MomentForm) -> int:
    """Milliseconds since 1970."""
    text = _needed(fields, moment.column)
    try:
        at_ms = _at_ms(text, moment)
    except (ValueError, OverflowError):
        said = f"{moment.column} is no time written as {moment.pattern or moment.unit}"
        raise _Bad("not_a_time", said) from None
    if not 0 <= at_ms <= INTEGER_MAX:
        raise _Bad("not_a_time", f"{moment.column} lies before 1970 or too far ahead")
    return at_ms


def _at_ms(text: str, moment: MomentForm) -> int:
    """Raises ValueError, OverflowError."""
    match moment.unit:
        case "milliseconds" | "seconds":
            if not (text.isascii() and text.isdigit() and len(text) <= INTEGER_CHARS_MAX):
                raise ValueError(text)
            return int(text) * (1_000 if moment.unit == "seconds" else 1)
        case "rfc3339":
            return written_ms(text)
        case "pattern":
            read = datetime.strptime(text, moment.pattern or "")  # noqa: DTZ007 - zoned below
            at = read if read.tzinfo is not None else read.replace(tzinfo=UTC)
        case _:
            assert_never(moment.unit)
    return (at - _EPOCH) // timedelta(milliseconds=1)


# --- lines of a file ---------------------------------------------------------------------------


def _json_rows(file: LinesOfBytes) -> Iterator[Row | BadLine]:
    for number, raw in _lines(file):
        if isinstance(raw, BadLine):
            yield raw
            continue
        text = raw.strip()
        if not text:
            continue
        value = _json_of(text)
        if isinstance(value, MalformedJson):
            yield BadLine(number, value.code.value, str(value))
        elif isinstance(value, dict):
            yield Row(number, text, value)
        else:
            yield BadLine(number, "not_an_object", "a line is one JSON object")


def _json_of(text: bytes) -> object:
    """The value of a line, or why it has none. What makes a value unfit for the ledger, a fraction
    or half a character, is a matter of the column it stands in: most are read by nobody.
    """
    try:
        return parse(text, bytes_max=FILE_LINE_BYTES_MAX)
    except MalformedJson as malformed:
        if malformed.code not in _OF_ONE_VALUE:
            return malformed
        fault = malformed
    try:
        return read_json(text)
    except UnreadableAnswer:
        return fault


def _csv_rows(file: LinesOfBytes, columns: Columns) -> Iterator[Row | BadLine]:
    """Rows behind a header. A record whose quotes hold line ends has the number of its first."""
    taken = _Taken(file)
    reader = csv.reader(taken, delimiter=columns.delimiter, strict=True)
    header: Sequence[str] | None = None
    while True:
        taken.begin()
        cells: list[str] = []
        try:
            cells = next(reader)
            fault = taken.fault
        except StopIteration:
            break
        except csv.Error as error:
            fault = taken.fault or BadLine(taken.number, "not_csv", taken.why(error))
            reader = csv.reader(taken, delimiter=columns.delimiter, strict=True)
        if fault is None and (not cells or cells == [""]):
            continue
        if fault is None and header is None:
            header = cells
            if (said := _unfit(header, columns)) is not None:
                yield BadLine(taken.number, "columns_differ", said)
                return
            continue
        if fault is None and header is not None and len(cells) != len(header):
            said = f"it has {len(cells)} cells, the header {len(header)}"
            fault = BadLine(taken.number, "columns_differ", said)
        if fault is None:
            fields = dict(zip(header or (), cells, strict=True))
            raw = bytes(taken.raw).rstrip(b"\r\n")
            yield Row(taken.number, raw, fields, tuple(taken.behind))
            continue
        yield fault
        if header is None:
            return
        yield from _taken_in(taken.number, taken.behind, told=fault.number)
    if header is None:
        yield BadLine(1, "columns_differ", "the file has no header")


def _taken_in(first: int, behind: Sequence[int], *, told: int | None = None) -> Iterator[BadLine]:
    """The lines behind the first of a bad record, but for one that was told of already: they may be
    records of their own, behind a quote that was left open, and nobody knows which.
    """
    for number in behind:
        if number != told:
            said = f"it stands in the quotes of line {first}, which is bad; is a quote left open?"
            yield BadLine(number, "in_bad_record", said)
    if told is not None and told != first:
        yield BadLine(first, "in_bad_record", f"its quotes take in line {told}, which is bad")


def _unfit(header: Sequence[str], columns: Columns) -> str | None:
    missing = sorted(columns.needed - set(header))
    if missing:
        return f"the header lacks {', '.join(missing)}"
    twice = sorted({name for name in header if header.count(name) > 1})
    return f"the header has {', '.join(twice)} twice" if twice else None


class _Taken:
    """The lines of a file as csv wants them, with what the record at hand has taken of them."""

    def __init__(self, file: LinesOfBytes) -> None:
        self._lines = _lines(file)
        self._is_first = True
        self.begin()

    def begin(self) -> None:
        """A new record begins with the next line."""
        self.number = 0
        self.behind: list[int] = []
        self.raw = bytearray()
        self.fault: BadLine | None = None

    def why(self, error: csv.Error) -> str:
        """What is wrong with the record at hand."""
        if b"\r" in self.raw.rstrip(b"\r\n").replace(b"\r\n", b""):
            return "a line ends with CR alone: save the file with LF or CRLF"
        return str(error)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        number, raw = next(self._lines)
        if not self.number:
            self.number = number
        elif isinstance(raw, BadLine) or raw.strip():
            self.behind.append(number)
        if isinstance(raw, BadLine):
            self.fault = self.fault or raw
            return "\n"
        self.raw += raw
        if len(self.raw) > FILE_LINE_BYTES_MAX:
            self.fault = self.fault or _too_long(self.number)
            raise csv.Error("a record is too long; is a quote left open?")
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.fault = self.fault or BadLine(number, "not_utf8", "the line is not UTF-8 text")
            return raw.decode("utf-8", "replace")


def _lines(file: LinesOfBytes) -> Iterator[tuple[int, bytes | BadLine]]:
    """Lines with their numbers; of one that is too long only that it is."""
    number = 0
    while raw := file.readline(FILE_LINE_BYTES_MAX + 1):
        number += 1
        if number == 1:
            raw = raw.removeprefix(_BYTE_ORDER_MARK)
        if number == 1 and (said := _why_no_text(raw)) is not None:
            yield 1, said
            return
        if len(raw) > FILE_LINE_BYTES_MAX:
            while raw and not raw.endswith(b"\n"):
                raw = file.readline(FILE_LINE_BYTES_MAX)
            yield number, _too_long(number)
        else:
            yield number, raw


def _why_no_text(first: bytes) -> BadLine | None:
    for beginning, (code, detail) in _NO_TEXT.items():
        if first.startswith(beginning):
            return BadLine(1, code, detail)
    return None


def _too_long(number: int) -> BadLine:
    return BadLine(number, "too_long", f"a line has at most {FILE_LINE_BYTES_MAX} bytes")
