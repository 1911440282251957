"""Money: an amount in minor units and its ISO 4217 currency. No floats, no rounding, no sign.

Guarantees that every amount has a known number of decimals, so a person is shown what the provider
is asked for. Direction is the operation's business (`charge`, `refund`), never a minus sign.
"""

from typing import Annotated, Final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from ledger.core.excerpt import excerpt
from ledger.core.limits import INTEGER_MAX
from ledger.core.wire import Wire

# ISO 4217 list one as of 2026-01-01, codes with a number of decimals. A code never leaves this
# table when ISO withdraws it: amounts recorded under it must be read for ever.
_CODES_BY_EXPONENT: Final = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    2: (
        "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN "
        "BZD CAD CDF CHE CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD "
        "FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW "
        "KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR "
        "MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG "
        "SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD "
        "USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW ZWG"
    ),
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
_EXPONENTS: Final = {
    code: digits for digits, codes in _CODES_BY_EXPONENT.items() for code in codes.split()
}


def exponent(currency: str) -> int:
    """How many decimals the currency's major unit has; raises ValueError for a code that has none
    or is unknown.
    """
    digits = _EXPONENTS.get(currency)
    if digits is None:
        raise ValueError(
            f"{excerpt(currency, chars_max=8)} is not a currency with minor units; "
            "use a code of ISO 4217 such as EUR"
        )
    return digits


def code_of(written: str) -> str:
    """The code of a currency from how others write it, in either case. What is not ASCII stays so,
    and is no currency: capitals of some other letters are ASCII.
    """
    return written.upper() if written.isascii() else written


def _known(currency: str) -> str:
    try:
        exponent(currency)
    except ValueError as unknown:
        message = {"message": str(unknown)}
        raise PydanticCustomError("unknown_currency", "{message}", message) from None
    return currency


def _declared(code: str) -> str:
    try:
        exponent(code)
    except ValueError:
        raise ValueError(
            "is not a currency with minor units; use a code of ISO 4217 such as EUR"
        ) from None
    return code


Currency = Annotated[str, AfterValidator(_declared)]
"""A code in a document of an operator; a refusal reads on from its path."""


class Money(Wire):
    """An amount of at least 0 minor units (cents of EUR, yen of JPY)."""

    minor: Annotated[int, Field(ge=0, le=INTEGER_MAX)]
    currency: Annotated[str, AfterValidator(_known)]


def format_money(money: Money) -> str:
    """The amount as people write it: `49.90 EUR`, `500 JPY`."""
    digits = exponent(money.currency)
    if digits == 0:
        return f"{money.minor} {money.currency}"
    major, minor = divmod(money.minor, 10**digits)
    return f"{major}.{minor:0{digits}d} {money.currency}"
