"""A settlement file: each line is a statement, says nothing, or is bad; money is exact."""

import gzip
import io
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wiring.import_desk import FileMeant, Imported, look_at
from ledger.core.money import Money
from reconciler.limits import FILE_LINE_BYTES_MAX
from reconciler.providers.settlement import (
    OWN_FORM,
    SIMULATED,
    AmountForm,
    Columns,
    FileFormat,
    MomentForm,
    read_settlement,
)
from reconciler.providers.simulated.api import Effect, Metadata
from reconciler.providers.simulated.payouts import payout_report
from reconciler.settlement_files import (
    BadLine,
    IrrelevantLine,
    Read,
    Row,
    Stated,
    begins_as,
    parse_row,
    read_file,
)
from reconciler.statement_lines import StatementLine

BANK = Columns(
    format="csv",
    delimiter=";",
    line_id="Id",
    reference="Payment",
    reverses="Original",
    action_key=None,
    provider_key=None,
    operation=None,
    amount=AmountForm(column="Gross", unit="decimal"),
    currency="Currency",
    type="Kind",
    types={"Sale": "exists", "Refund": "reversed", "Fee": "irrelevant", "Bounced": "none"},
    occurred_at=MomentForm(column="Date", unit="pattern", pattern="%d.%m.%Y %H:%M"),
)
HEADER = "Id;Payment;Original;Gross;Currency;Kind;Date\n"
DATE = "30.11.2026 10:00"


def lines_of(text: str | bytes, columns: Columns = BANK, form: FileFormat = "csv") -> list[Read]:
    """Read a whole file."""
    raw = text.encode() if isinstance(text, str) else text
    return list(read_file(io.BytesIO(raw), columns, form))


def one(row: str, columns: Columns = BANK) -> Read:
    """Read the one line of a file of the bank."""
    (read,) = lines_of(HEADER + row, columns)
    return read


def stated(row: str, columns: Columns = BANK) -> StatementLine:
    """What the one line states."""
    read = one(row, columns)
    assert isinstance(read, Stated), read
    return read.line


def test_a_line_is_read_by_its_declared_columns() -> None:
    """Decimal money in minor units, the bank's own types, its own way to write a date."""
    line = stated(f"7;pay_1;;49.90;eur;Sale;{DATE}")
    assert (line.line_id, line.reference, line.reverses) == ("7", "pay_1", None)
    assert line.money == Money(minor=4_990, currency="EUR")
    assert line.effect == "exists"
    assert line.occurred_at == 1_796_032_800_000


def test_a_refund_names_what_was_given_back() -> None:
    """A reversal has a name of its own, and that of the effect."""
    line = stated(f"8;ref_1;pay_1;12;EUR;Refund;{DATE}")
    assert (line.effect, line.reverses) == ("reversed", "pay_1")
    assert line.money == Money(minor=1_200, currency="EUR")


def test_a_type_that_says_nothing_is_counted_apart() -> None:
    """Fees and payouts are no effects of ours; they need no other column."""
    assert one(";;;;;Fee;") == IrrelevantLine(2)


@pytest.mark.parametrize(
    ("raw", "code", "said"),
    [
        (gzip.compress(HEADER.encode(), mtime=0), "packed", "zcat"),
        (b"PK\x03\x04\x14\x00\x06\x00", "packed", "workbook"),
        (HEADER.encode("utf-16"), "not_utf8", "save it as UTF-8"),
        (b"\xfe\xff" + HEADER.encode("utf-16-be"), "not_utf8", "save it as UTF-8"),
    ],
)
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_what_is_no_text_says_what_to_do(
    raw: bytes, code: str, said: str, form: FileFormat
) -> None:
    """One line tells it, and not one for each piece that happens to end as a line does."""
    (bad,) = lines_of(raw + b"\n\n\n", form=form)
    assert isinstance(bad, BadLine)
    assert (bad.number, bad.code) == (1, code)
    assert said in bad.detail


def test_what_another_program_writes_into_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    """As `zcat … | actionledger evidence import /dev/stdin`: nobody knows how far it is, and the
    command ended at the thousandth line.
    """
    path, count = tmp_path / "pipe", 2_500
    os.mkfifo(path)
    rows = "".join(f"{n},ch_{n},exists,1\n" for n in range(count))
    text = "line_id,reference,effect,occurred_at\n" + rows
    writing = threading.Thread(target=path.write_text, args=(text,), daemon=True)
    writing.start()
    done, good = Imported(str(path), "bank", "main"), io.StringIO()
    total = look_at(FileMeant(path, OWN_FORM, "csv", "bank", "main"), done, good, lambda _: None)
    writing.join()
    assert (total, done.lines, done.bad) == (count, count, 0)
    assert good.getvalue().count("\n") == count


@pytest.mark.case("C083")
@pytest.mark.parametrize(
    ("row", "code"),
    [
        (f"1;p;;49.905;EUR;Sale;{DATE}", "not_an_amount"),
        (f"1;p;;1.5;JPY;Sale;{DATE}", "not_an_amount"),
        (f"1;p;;5.00{'0' * 30}1;EUR;Sale;{DATE}", "not_an_amount"),
        (f"1;p;;1e3;EUR;Sale;{DATE}", "not_an_amount"),
        (f"1;p;;1,000;EUR;Sale;{DATE}", "not_an_amount"),
        (f"1;p;;.5;EUR;Sale;{DATE}", "not_an_amount"),
        (f"1;p;;NaN;EUR;Sale;{DATE}", "not_an_amount"),
        (f"1;p;;٣;EUR;Sale;{DATE}", "not_an_amount"),
        (f"1;p;;90071992547409.92;EUR;Sale;{DATE}", "not_an_amount"),
        (f"1;p;;-5.00;EUR;Sale;{DATE}", "negative_amount"),
        (f"1;p;;5.00;EURO;Sale;{DATE}", "unknown_currency"),
        (f"1;p;;5.00;\N{LATIN SMALL LETTER DOTLESS I}dr;Sale;{DATE}", "unknown_currency"),
        (f"1;p;;5.00;;Sale;{DATE}", "value_missing"),
        (f"1;p;;;EUR;Sale;{DATE}", "value_missing"),
        (f";p;;5.00;EUR;Sale;{DATE}", "value_missing"),
        (f"1;;;5.00;EUR;Sale;{DATE}", "value_missing"),
        (f"1;p;;5.00;EUR;Chargeback;{DATE}", "unknown_type"),
        ("1;p;;5.00;EUR;Sale;2026-11-30", "not_a_time"),
        ("1;p;;5.00;EUR;Sale;30.13.2026 10:00", "not_a_time"),
        ("1;p;;5.00;EUR;Sale;30.11.1926 10:00", "not_a_time"),
        (f"{'x' * 201};p;;5.00;EUR;Sale;{DATE}", "value_refused"),
        (f"1;{'x' * 1_025};;5.00;EUR;Sale;{DATE}", "value_refused"),
        (f"1;p;;5.00;EUR;Sale;{DATE};more", "columns_differ"),
        ("1;p;;5.00;EUR;Sale", "columns_differ"),
        (f'"1"x;p;;5.00;EUR;Sale;{DATE}', "not_csv"),
        (f"1;p\0;;5.00;EUR;Sale;{DATE}", "not_plain_text"),
    ],
)
def test_a_bad_line_has_its_number_and_a_code(row: str, code: str) -> None:
    """What cannot be read exactly is not read at all."""
    read = one(row)
    assert isinstance(read, BadLine)
    assert (read.number, read.code) == (2, code)


def test_a_minus_is_taken_where_the_type_says_what_it_means() -> None:
    """Reports that book refunds with a minus say so in the description."""
    ignoring = replace(BANK, amount=AmountForm(column="Gross", unit="decimal", sign="ignored"))
    line = stated(f"1;p;q;-5.00;EUR;Refund;{DATE}", ignoring)
    assert line.money == Money(minor=500, currency="EUR")
    assert isinstance(one(f"1;p;q;--5.00;EUR;Refund;{DATE}", ignoring), BadLine)


def test_one_bad_line_costs_no_other() -> None:
    """Bytes that are no text, quotes that are none, a line that never ends."""
    good = f"{{}};p;;5.00;EUR;Sale;{DATE}\n"
    text = b"".join(
        [
            HEADER.encode(),
            good.format(1).encode(),
            b"2;p\xff;;5.00;EUR;Sale;x\n",
            b"x" * (3 * FILE_LINE_BYTES_MAX) + b"\n",
            b'"4" 5;\n',
            b"\n",
            good.format(7).encode(),
        ]
    )
    found = lines_of(text)
    assert [type(read) for read in found] == [Stated, BadLine, BadLine, BadLine, Stated]
    assert [read.number for read in found] == [2, 3, 4, 5, 7]
    codes = [read.code for read in found if isinstance(read, BadLine)]
    assert codes == ["not_utf8", "too_long", "not_csv"]


def test_a_record_over_several_lines_has_the_number_of_its_first() -> None:
    """A quoted description with line ends is one line of the report."""
    rows = f'"p\nq";1;p;;5.00;EUR;Sale;{DATE}\n;2;r;;5.00;EUR;Sale;{DATE}\n'
    found = lines_of(f"Text;{HEADER}{rows}")
    assert [type(read) for read in found] == [Stated, Stated]
    assert [read.number for read in found] == [2, 4]


def test_a_quote_left_open_does_not_eat_the_file() -> None:
    """Every line that it takes in is bad by itself, and none behind it when it has become too long;
    the numbers say which.
    """
    rows = f'1;"p;;5.00;EUR;Sale;{DATE}\n' + f"2;r;;5.00;EUR;Sale;{DATE}\n" * 4_000
    found = lines_of(HEADER + rows)
    assert isinstance(found[0], BadLine)
    assert any(isinstance(read, Stated) for read in found)
    assert [read.number for read in found] == list(range(2, 4_003))


GOOD = f"{{}};p;;5.00;EUR;Sale;{DATE}\n"


@pytest.mark.parametrize(
    ("opens", "closes", "code"),
    [
        # Until the end of the file, or until a quote that opens another cell.
        (f'3;"p;;5.00;EUR;Sale;{DATE}\n', "", "not_csv"),
        (f'3;"p;;5.00;EUR;Sale;{DATE}\n', f'7;"q";;5.00;EUR;Sale;{DATE}\n', "not_csv"),
        # The quotes close, and the record has another number of cells, or a type that is none.
        (f'3;"p;;5.00;EUR;Sale;{DATE}\n', f'7;";;5.00;EUR;Sale;{DATE}\n', "not_plain_text"),
        (f'3;"p;;5.00;EUR;Sale;{DATE}\n', '7;"\n', "columns_differ"),
        (f'3;p;;5.00;EUR;"Sale;{DATE}\n', f'7;p;;5.00;EUR;";{DATE}\n', "not_plain_text"),
    ],
)
def test_no_line_in_the_quotes_of_a_bad_one_is_lost(opens: str, closes: str, code: str) -> None:
    """Each is counted under its own number; blank lines are none; what is before them is read."""
    text = HEADER + GOOD.format(1) + opens + GOOD.format(4) + "\n" + GOOD.format(6) + closes
    found = lines_of(text)
    assert isinstance(found[0], Stated)
    told = [read for read in found[1:] if isinstance(read, BadLine)]
    assert [read.number for read in told] == [3, 4, 6, 7][: 4 if closes else 3]
    assert [read.code for read in told] == [code] + ["in_bad_record"] * (len(told) - 1)


def test_a_fault_within_quotes_is_told_of_its_own_line() -> None:
    """Of a record over several lines each is bad once, whichever of them is to blame."""
    text = HEADER.encode() + b'1;"p\nq\xff\nr";;5.00;EUR;Sale;x\n' + GOOD.format(2).encode()
    found = lines_of(text)
    codes = {read.number: read.code for read in found if isinstance(read, BadLine)}
    assert codes == {2: "in_bad_record", 3: "not_utf8", 4: "in_bad_record"}
    assert [type(read) for read in found] == [BadLine, BadLine, BadLine, Stated]


def test_lines_that_end_with_cr_alone_are_named(tmp_path: Path) -> None:
    """As old spreadsheets write them: the file is refused with what is to be done."""
    text = (HEADER + GOOD.format(1)).replace("\n", "\r")
    (read,) = lines_of(text)
    assert isinstance(read, BadLine)
    assert (read.number, read.code) == (1, "not_csv")
    assert "CR alone" in read.detail
    file = tmp_path / "mac.csv"
    file.write_text(text, encoding="utf-8", newline="")
    assert not begins_as(file, BANK)
    assert isinstance(one(f"1;p;;5.00;EUR;Sale;{DATE}\r"), Stated)


@pytest.mark.parametrize(
    "header", ["Id;Payment\n", "", "Id;Id;Payment;Original;Gross;Currency;Kind;Date\n"]
)
def test_a_file_without_its_columns_is_one_bad_line(header: str) -> None:
    """The header is looked at once; nothing behind it is guessed."""
    (read,) = lines_of(header + (f"1;p;;5.00;EUR;Sale;{DATE}\n" if header else ""))
    assert isinstance(read, BadLine)
    assert read.code == "columns_differ"


def test_a_byte_order_mark_is_no_part_of_the_header() -> None:
    """Spreadsheets write one."""
    raw = b"\xef\xbb\xbf" + (HEADER + f"1;p;;5.00;EUR;Sale;{DATE}").encode()
    assert isinstance(lines_of(raw)[0], Stated)


# --- JSON lines --------------------------------------------------------------------------------


def test_json_lines_in_our_own_form() -> None:
    """What no description declares: the words of our own line, flat, the most of them optional."""
    text = (
        '{"line_id":"1","reference":"ch_1","amount_minor":4990,"currency":"EUR","effect":"exists",'
        '"occurred_at":1800000000000}\n\n'
        '{"line_id":"2","reference":"em_1","effect":"exists","occurred_at":1800000000000}\n'
    )
    first, second = lines_of(text, OWN_FORM, "jsonl")
    assert isinstance(first, Stated)
    assert isinstance(second, Stated)
    assert first.line.money == Money(minor=4_990, currency="EUR")
    assert second.line.money is None


NEEDED = '"line_id":"1","reference":"ch_1","effect":"exists","occurred_at":1800000000000'


@pytest.mark.parametrize(
    "value",
    ["0.93", "1e400", "-1e99999", "9" * 400, r'"cut \ud83d"', r'"\u0000"', "[" * 80 + "]" * 80],
    ids=range(7),
)
def test_a_column_that_nobody_reads_makes_no_line_bad(value: str) -> None:
    """A fraction, a number or a text that the ledger cannot keep stands in nobody's way there."""
    text = f'{{{NEEDED}, "currency":"EUR", "amount_minor":5, "score":{value}}}'
    (read,) = lines_of(text, OWN_FORM, "jsonl")
    assert isinstance(read, Stated), read
    assert read.line.money == Money(minor=5, currency="EUR")


def test_a_dot_goes_deeper_in_json() -> None:
    """Columns of an object within the object."""
    nested = replace(OWN_FORM, reference="data.id", action_key="data.metadata.key")
    text = (
        '{"line_id":"1","data":{"id":"ch_1","metadata":{"key":"k"}},"effect":"exists",'
        '"occurred_at":1800000000000}'
    )
    (read,) = lines_of(text, nested, "jsonl")
    assert isinstance(read, Stated)
    assert (read.line.reference, read.line.action_key) == ("ch_1", "k")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("{", "not_json"),
        ("[]", "not_an_object"),
        ('{"a":1,"a":2}', "duplicate_key"),
        (f'{{{NEEDED}, "amount_minor":49.9}}', "float_refused"),
        (f'{{{NEEDED}, "currency":"EUR", "amount_minor":1e99999}}', "not_an_amount"),
        (f'{{{NEEDED}, "operation":"a\\ud83d"}}', "not_plain_text"),
        (f'{{{NEEDED}, "memo":NaN}}', "not_a_number"),
        (f'{{{NEEDED}, "memo":{"[" * 30_000}{"]" * 30_000}}}', "too_deep"),
        ('{"effect":["exists"]}', "not_a_text"),
        ('{"effect":true}', "not_a_text"),
    ],
)
def test_a_bad_json_line_has_a_code(line: str, code: str) -> None:
    """No line is guessed, and no amount is read from a fraction."""
    (read,) = lines_of(line, OWN_FORM, "jsonl")
    assert isinstance(read, BadLine)
    assert read.code == code


# --- any bytes ---------------------------------------------------------------------------------


@given(st.binary(max_size=400), st.sampled_from(["csv", "jsonl"]))
def test_any_bytes_are_read(raw: bytes, form: FileFormat) -> None:
    """Nothing is raised, whatever a file holds."""
    lines_of(HEADER.encode() + raw if form == "csv" else raw, BANK, form)


cells = st.text(max_size=12) | st.sampled_from(["Sale", "EUR", "1.00", DATE, "-1", "JPY"])
values: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers() | cells


@given(st.dictionaries(st.sampled_from(sorted(BANK.needed)), values))
def test_any_fields_are_a_line_or_bad(fields: dict[str, Any]) -> None:
    """And what is a statement can be written down in its canonical form."""
    read = parse_row(Row(1, b"", fields), BANK)
    if isinstance(read, Stated):
        assert read.line.body()


# --- whose report it is ------------------------------------------------------------------------


def test_the_simulated_providers_report_is_read_by_its_own_columns() -> None:
    """What it exports is what an import takes, to the last minor unit."""
    made = Effect(
        id="ch_1",
        account="main",
        operation="charge",
        target=None,
        description='a; "b"',
        amount=Money(minor=18_601, currency="KWD"),
        key="k",
        reference=None,
        metadata=Metadata(action_key="charge:v1:acme:e1"),
        committed_at=1_800_000_000_123,
    )
    undone = made.model_copy(update={"id": "re_1", "original": "ch_1", "operation": "refund"})
    other = made.model_copy(update={"id": "ch_2", "committed_at": 5})
    text = "".join(payout_report([other, made, undone], since=6, until=2_000_000_000_000))
    found = [read.line for read in lines_of(text, SIMULATED) if isinstance(read, Stated)]
    assert [line.reference for line in found] == ["ch_1", "re_1"]
    assert [line.effect for line in found] == ["exists", "exists"]
    assert all(line.money == made.amount for line in found)
    assert all(line.occurred_at == 1_800_000_000_123 for line in found)
    assert found[1].reverses == "ch_1"


TABLE = """
[settlement]
line_id = "id"
reference = "payment"
amount = {{ column = "gross", unit = "{unit}" }}
{currency}
type = "kind"
occurred_at = {{ column = "at", unit = "{written}" }}
[settlement.types]
sale = "{sale}"
"""


def declared(tmp_path: Path, **given: str) -> object:
    """What a description with this table declares."""
    path = tmp_path / "bank.toml"
    known = {"unit": "minor", "currency": 'currency = "=EUR"', "sale": "exists"}
    known |= {"written": "rfc3339"}
    path.write_text(TABLE.format(**{**known, **given}))
    return read_settlement(path)


def test_a_table_of_a_description_gives_its_columns(tmp_path: Path) -> None:
    """A currency that no column says is the one written behind the sign."""
    columns = declared(tmp_path)
    assert isinstance(columns, Columns)
    assert columns.fixed_currency == "EUR"
    assert columns.needed == {"id", "payment", "gross", "kind", "at"}


def test_a_description_without_a_table_declares_nothing(tmp_path: Path) -> None:
    """Then the file has to have our own columns."""
    path = tmp_path / "bank.toml"
    path.write_text("format = 1\n")
    assert read_settlement(path) is None


@pytest.mark.parametrize(
    ("given", "path", "said"),
    [
        ({"unit": "cents"}, "settlement.amount.unit", "must be"),
        ({"unit": 'minor", point = ",'}, "settlement.amount.point", "a minor unit"),
        ({"unit": 'decimal", groups = ".'}, "settlement.amount.groups", "say point as well"),
        ({"unit": 'decimal", point = ";'}, "settlement.amount.point", "must be"),
        ({"written": 'pattern", pattern = "%H %Z'}, "settlement.occurred_at.pattern", "no zone"),
        ({"currency": ""}, "settlement.currency", "is missing"),
        ({"currency": 'colour = "x"'}, "settlement.colour", "is not a known key"),
        ({"sale": "paid"}, "settlement.types.sale", "must be"),
        ({"sale": "reversed"}, "settlement.types.sale", "which effect was given back"),
    ],
)
def test_a_mistake_in_the_table_has_its_line(
    tmp_path: Path, given: dict[str, str], path: str, said: str
) -> None:
    """Every mistake is found before a line of a file is read."""
    found = declared(tmp_path, **given)
    assert isinstance(found, tuple)
    assert any(one.path == path and said in one.message and one.line > 1 for one in found)


EXAMPLE = Path(__file__).parents[2] / "examples" / "settlement" / "payouts.csv"


def test_the_example_is_read_to_its_last_line_and_known_by_its_header(tmp_path: Path) -> None:
    """It has our own columns, so that it can be brought for any provider, the simulated one too."""
    assert begins_as(EXAMPLE, OWN_FORM)
    assert not begins_as(EXAMPLE, SIMULATED)
    with EXAMPLE.open("rb") as file:
        found = list(read_file(file, OWN_FORM, "csv"))
    assert [type(one) for one in found] == [Stated] * 3
    report = tmp_path / "report.csv"
    for first, is_own in (
        (",".join(sorted(SIMULATED.needed)), False),
        ('{"line_id":"1","reference":"r","effect":"exists","occurred_at":1}', True),
        ("{bad", False),
        ("", False),
    ):
        report.write_text(first + "\n", encoding="utf-8")
        assert begins_as(report, OWN_FORM) is is_own, first
