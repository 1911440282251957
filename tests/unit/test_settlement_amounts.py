"""Amounts in settlement files: exact, and as other countries write them only where that is said."""

from dataclasses import replace

import pytest

from ledger.core.money import Money
from reconciler.providers.settlement import AmountForm, Columns
from reconciler.settlement_files import BadLine
from tests.unit.test_settlement_files import BANK, DATE, one, stated


@pytest.mark.case("C073", "C077")
@pytest.mark.parametrize(
    ("amount", "currency", "minor"),
    [
        ("18.600", "KWD", 18_600),
        ("35", "KWD", 35_000),
        ("500", "JPY", 500),
        ("500.00", "JPY", 500),
        ("5." + "0" * 30, "EUR", 500),
        ("5.06", "USD", 506),
        ("0.00", "EUR", 0),
        ("90071992547409.91", "EUR", 2**53 - 1),
    ],
)
def test_amounts_are_exact(amount: str, currency: str, minor: int) -> None:
    """Every currency has its own decimals, and no float comes near an amount."""
    assert stated(f"1;p;;{amount};{currency};Sale;{DATE}").money == Money(
        minor=minor, currency=currency
    )


def written_as(how: dict[str, str]) -> Columns:
    """The bank, with amounts of another country."""
    amount = AmountForm.model_validate({"column": "Gross", "unit": "decimal", **how})
    return replace(BANK, amount=amount)


@pytest.mark.case("C073")
@pytest.mark.parametrize(
    ("amount", "currency", "how"),
    [
        ("1.000", "JPY", {}),
        ("1.230", "EUR", {}),
        ("-1.000", "EUR", {"sign": "ignored"}),
        ("1,000", "EUR", {}),
        ("1.234,56", "EUR", {}),
        ("1'234.56", "CHF", {}),
        ("1.234.56", "EUR", {"point": ",", "groups": "."}),
        ("12.34,56", "EUR", {"point": ",", "groups": "."}),
        ("1234.567,00", "EUR", {"point": ",", "groups": "."}),
        ("1,00,000", "INR", {"groups": ","}),
        (",50", "EUR", {"point": ","}),
        ("1.5", "EUR", {"point": ","}),
    ],
)
def test_c073_what_may_be_thousands_is_no_decimals(
    amount: str, currency: str, how: dict[str, str]
) -> None:
    """C073: thousand yen written as 1.000 were read as one, and 1.230 euro as 1.23. Such an amount
    is refused, and told what to say in the description.
    """
    columns = written_as(how)
    read = one(f"1;p;;{amount};{currency};Sale;{DATE}", columns)
    assert isinstance(read, BadLine), read
    assert read.code == "not_an_amount"
    assert "point and groups" in read.detail


@pytest.mark.parametrize(
    ("amount", "currency", "how", "minor"),
    [
        ("1.234,56", "EUR", {"point": ",", "groups": "."}, 123_456),
        ("1.000", "JPY", {"point": ",", "groups": "."}, 1_000),
        ("1.234.567", "EUR", {"point": ",", "groups": "."}, 123_456_700),
        ("999", "EUR", {"point": ",", "groups": "."}, 99_900),
        ("1234,5", "EUR", {"point": ",", "groups": "."}, 123_450),
        ("1,234.56", "USD", {"groups": ","}, 123_456),
        ("1'234.50", "CHF", {"groups": "'"}, 123_450),
        ("1\u2019234.50", "CHF", {"groups": "'"}, 123_450),
        ("1\u202f234,50", "EUR", {"point": ",", "groups": " "}, 123_450),
        ("-1 234,50", "EUR", {"point": ",", "groups": " ", "sign": "ignored"}, 123_450),
        ("18,600", "KWD", {"point": ","}, 18_600),
        ("49.900", "EUR", {"point": "."}, 4_990),
    ],
)
def test_a_description_says_how_another_country_writes_amounts(
    amount: str, currency: str, how: dict[str, str], minor: int
) -> None:
    """The decimal comma, and thousands that are parted; each group has three digits."""
    columns = written_as(how)
    line = stated(f"1;p;;{amount};{currency};Sale;{DATE}", columns)
    assert line.money == Money(minor=minor, currency=currency)
