"""Money: whole minor units and a currency that has them."""

import iso4217
import pytest
from pydantic import ValidationError

from ledger.core.limits import INTEGER_MAX
from ledger.core.money import Money, exponent, format_money


def test_exponents_agree_with_iso_4217() -> None:
    """Every current currency has exactly the decimals that ISO 4217 gives it."""
    for currency in iso4217.Currency:
        if currency.exponent is None:
            with pytest.raises(ValueError, match="minor units"):
                exponent(currency.code)
        else:
            assert exponent(currency.code) == currency.exponent, currency.code


@pytest.mark.parametrize(
    "currency", ["XAU", "XTS", "XDR", "XXX", "eur", "EURO", "EU", "", "€", "ABC"]
)
def test_codes_without_minor_units_are_refused(currency: str) -> None:
    """Gold, test codes, no currency and whatever is not ISO 4217 cannot be an amount."""
    with pytest.raises(ValidationError) as refused:
        Money(minor=1, currency=currency)
    assert [error["type"] for error in refused.value.errors()] == ["unknown_currency"]


@pytest.mark.parametrize("minor", [-1, INTEGER_MAX + 1, 1.0, "1", True, None])
def test_amounts_are_whole_and_not_negative(minor: object) -> None:
    """Nothing is coerced into an amount, and direction is never a sign."""
    with pytest.raises(ValidationError):
        Money.model_validate({"minor": minor, "currency": "EUR"})


@pytest.mark.parametrize(
    ("minor", "currency", "shown"),
    [
        (4990, "EUR", "49.90 EUR"),
        (5, "EUR", "0.05 EUR"),
        (0, "USD", "0.00 USD"),
        (500, "JPY", "500 JPY"),
        (1234567, "KWD", "1234.567 KWD"),
        (12345, "CLF", "1.2345 CLF"),
        (INTEGER_MAX, "EUR", "90071992547409.91 EUR"),
    ],
)
def test_amounts_are_shown_with_their_decimals(minor: int, currency: str, shown: str) -> None:
    """A person sees the major unit with as many decimals as the currency has."""
    assert format_money(Money(minor=minor, currency=currency)) == shown


def test_money_does_not_change() -> None:
    """An amount that was hashed cannot be altered afterwards."""
    money = Money(minor=1, currency="EUR")
    with pytest.raises(ValidationError):
        money.minor = 2  # type: ignore[misc]
