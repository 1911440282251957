"""What a row of the decision table asks of an action, and how each question is answered.

Guarantees three answers: it holds, it does not, or a fact is missing, which is named. A fact is
missing when the action could have it and it is not there, or cannot be compared, as a text of an
agent's that differs by large and small letters alone; what the catalogue rules out (a target for an
operation that acts on none) is not missing: it does not hold. Must never guess. Called by the
policy only.
"""

import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from ledger.core.excerpt import excerpt
from ledger.core.limits import INTEGER_MAX
from ledger.core.money import Money, format_money
from ledger.core.operation import Level, Operation
from ledger.core.patterns import compared, matcher
from ledger.core.policy_when import (
    LEVELS,
    RISKS,
    AmountBounds,
    CarriedOut,
    LevelBounds,
    ParameterBounds,
    When,
)
from ledger.core.request import RecordedRequest

Answer = bool | str
"""Whether a condition holds, or the name of the fact that is missing."""

Check = Callable[[RecordedRequest, str, CarriedOut], Answer]
"""What is left to ask when the operation is known: of a request, its tenant, and by whom it is
carried out.
"""


@dataclass(frozen=True, slots=True)
class Condition:
    """One question of a row. `wanted` and `found` put it and its answer in words; `bind` answers it
    for an operation as far as it can be, None for one that is not declared.
    """

    name: str
    wanted: str
    bind: Callable[[Operation | None], Answer | Check]
    found: Callable[[Operation | None, RecordedRequest, str, CarriedOut], str | None]


def conditions(when: When) -> tuple[Condition, ...]:
    """The questions of a row, those about the operation first."""
    return tuple(_conditions(when))


def _conditions(when: When) -> Iterator[Condition]:
    yield from _of_operation(when)
    if when.risk is not None:
        for fact in RISKS:
            bounds: LevelBounds | None = getattr(when.risk, fact)
            if bounds is not None:
                yield _risk(fact, bounds)
    yield from _of_request(when)
    if when.currency is not None:
        yield _currencies(when.currency)
    if when.amount is not None:
        yield _amount(when.amount)
    for name, asked in (when.parameters or {}).items():
        yield _parameter(name, asked)


def _of_operation(when: When) -> Iterator[Condition]:
    if when.operation is not None:
        holds = matcher(when.operation)

        def bind(declared: Operation | None) -> Answer | Check:
            # Of an operation that nobody declared the request still says the name.
            return holds(declared.name) if declared else lambda asked, *_: holds(asked.operation)

        yield Condition(
            "operation", _either(when.operation), bind, lambda _, asked, *__: asked.operation
        )
    if when.kind is not None:
        yield _declared("kind", when.kind, frozenset(when.kind).__contains__)
    if when.provider is not None:
        yield _declared("provider", when.provider, matcher(when.provider))
    if when.account is not None:
        yield _declared("account", when.account, matcher(when.account))
    if when.reliability is not None:
        yield _declared("reliability", when.reliability, frozenset(when.reliability).__contains__)
    if when.preview is not None:
        yield _declared("preview", when.preview, frozenset(when.preview).__contains__)


def _declared(field: str, wanted: tuple[str, ...], holds: Callable[[str], bool]) -> Condition:
    def value(declared: Operation | None) -> str | None:
        return None if declared is None else getattr(declared, field)

    def bind(declared: Operation | None) -> Answer:
        given = value(declared)
        return field if given is None else holds(given)

    return Condition(field, _either(wanted), bind, lambda declared, *_: value(declared))


def _risk(fact: str, bounds: LevelBounds) -> Condition:
    least, most = LEVELS[bounds.at_least or "none"], LEVELS[bounds.at_most or "high"]

    def bind(declared: Operation | None) -> Answer:
        return f"risk.{fact}" if declared is None else least <= LEVELS[level(declared)] <= most

    def level(declared: Operation) -> Level:
        given: Level = getattr(declared.risk, fact)
        return given

    return Condition(
        f"risk.{fact}",
        _between(bounds),
        bind,
        lambda declared, *_: None if declared is None else level(declared),
    )


def _of_request(when: When) -> Iterator[Condition]:
    if when.tenant is not None:
        of_tenant = matcher(when.tenant)
        yield Condition(
            "tenant",
            _either(when.tenant),
            lambda _: lambda _, tenant, __: of_tenant(tenant),
            lambda _, __, tenant, ___: tenant,
        )
    if when.principal is not None:
        of_principal = matcher(when.principal)
        yield Condition(
            "principal",
            _either(when.principal),
            lambda _: lambda asked, *_: of_principal(asked.principal),
            lambda _, asked, *__: asked.principal,
        )
    if when.environment is not None:
        of_environment = compared(when.environment)

        def is_there(asked: RecordedRequest, _: str, __: CarriedOut) -> Answer:
            holds = of_environment(asked.environment)
            return "environment" if holds is None else holds

        yield Condition(
            "environment",
            _either(when.environment),
            lambda _: is_there,
            lambda _, asked, *__: asked.environment,
        )
    if when.target is not None:
        yield _target(when.target)
    if when.performer is not None:
        performs = frozenset(when.performer).__contains__
        # Asked of the action, whatever the catalogue says now: it goes on as it was recorded.
        yield Condition(
            "performer",
            _either(when.performer),
            lambda _: lambda _, __, performer: performs(performer),
            lambda _, __, ___, performer: performer,
        )


def _target(patterns: tuple[str, ...]) -> Condition:
    of_target = compared(patterns)

    def check(asked: RecordedRequest, _: str, __: CarriedOut) -> Answer:
        holds = None if asked.target is None else of_target(asked.target)
        return "target" if holds is None else holds

    def bind(declared: Operation | None) -> Answer | Check:
        return False if declared is not None and declared.target is None else check

    return Condition("target", _either(patterns), bind, lambda _, asked, *__: asked.target)


def _moves_no_money(declared: Operation | None) -> bool:
    """Whether the catalogue rules an amount out; one that hides in a parameter has its impact."""
    return (
        declared is not None
        and declared.money == "forbidden"
        and declared.risk.money_impact == "none"
    )


def _currencies(codes: tuple[str, ...]) -> Condition:
    known = frozenset(codes)

    def check(asked: RecordedRequest, _: str, __: CarriedOut) -> Answer:
        return "currency" if asked.money is None else asked.money.currency in known

    return Condition(
        "currency",
        _either(codes),
        lambda declared: False if _moves_no_money(declared) else check,
        lambda _, asked, *__: None if asked.money is None else asked.money.currency,
    )


def _amount(bounds: AmountBounds) -> Condition:
    above, most = bounds.above or {}, bounds.at_most or {}
    known = {code: (above.get(code, -1), most.get(code, INTEGER_MAX)) for code in above | most}

    def check(asked: RecordedRequest, _: str, __: CarriedOut) -> Answer:
        money = asked.money
        if money is None:
            return "amount"
        limits = known.get(money.currency)
        if limits is None:
            return f"amount in {money.currency}"
        return limits[0] < money.minor <= limits[1]

    return Condition(
        "amount",
        _amounts(above, most),
        lambda declared: False if _moves_no_money(declared) else check,
        lambda _, asked, *__: None if asked.money is None else format_money(asked.money),
    )


def _amounts(above: dict[str, int], most: dict[str, int]) -> str:
    if above and most:
        ranges = (
            f"above {_amount_of(code, above)} and at most {_amount_of(code, most)}"
            for code in above
        )
        return ", or ".join(ranges)
    words, amounts = ("above", above) if above else ("at most", most)
    return f"{words} {_either(tuple(_amount_of(code, amounts) for code in amounts))}"


def _amount_of(code: str, amounts: dict[str, int]) -> str:
    return format_money(Money(minor=amounts[code], currency=code))


def _parameter(name: str, bounds: ParameterBounds) -> Condition:
    fact = f"parameters.{name}"
    tests = tuple(_tests(bounds))

    def check(asked: RecordedRequest, _: str, __: CarriedOut) -> Answer:
        if name not in asked.params:
            return fact
        value = _normal(asked.params[name])
        answers = [test(value) for test in tests]
        if False in answers:
            return False
        return fact if None in answers else True

    def bind(declared: Operation | None) -> Answer | Check:
        return False if declared is not None and name not in declared.parameters else check

    return Condition(
        fact,
        " and ".join(_parameter_words(bounds)),
        bind,
        lambda _, asked, *__: excerpt(repr(asked.params[name])) if name in asked.params else None,
    )


_Test = Callable[[Any], bool | None]
"""Whether a value passes; None where it cannot be compared."""


def _tests(bounds: ParameterBounds) -> Iterator[_Test]:
    if bounds.one_of is not None:
        # True equals 1 in Python and means something else in JSON.
        choices = frozenset((type(choice), _normal(choice)) for choice in bounds.one_of)
        plain = frozenset(value.casefold() for _, value in choices if isinstance(value, str))

        def is_chosen(item: str | int | bool) -> bool | None:  # noqa: FBT001 - a JSON value
            if (type(item), item) in choices:
                return True
            return None if isinstance(item, str) and item.casefold() in plain else False

        yield _of_each({str, int, bool}, is_chosen)
    if bounds.matches is not None:
        yield _of_each({str}, compared(bounds.matches))
    if bounds.some_match is not None:
        yield _of_some(compared(bounds.some_match))
    above, most = bounds.above, bounds.at_most
    if above is not None or most is not None:
        yield _within(above, most, lambda value: value if type(value) is int else None)
    above, most = bounds.length_above, bounds.length_at_most
    if above is not None or most is not None:
        yield _within(above, most, lambda value: len(value) if isinstance(value, str) else None)
    above, most = bounds.items_above, bounds.items_at_most
    if above is not None or most is not None:
        yield _within(above, most, _items)


def _of_each(kinds: set[type], holds: Callable[[Any], bool | None]) -> _Test:
    def test(value: JsonValue) -> bool | None:
        items = value if isinstance(value, list) else [value]
        answers = [holds(item) if type(item) in kinds else None for item in items]
        if False in answers:
            return False
        # Of no item nothing can be said: an empty list of recipients is not "all of them inside".
        return None if None in answers or not answers else True

    return test


def _of_some(holds: Callable[[str], bool | None]) -> _Test:
    def test(value: JsonValue) -> bool | None:
        items = value if isinstance(value, list) else [value]
        answers = [holds(item) if isinstance(item, str) else None for item in items]
        if True in answers:
            return True
        return None if None in answers else False

    return test


def _within(above: int | None, most: int | None, measure: Callable[[Any], int | None]) -> _Test:
    def test(value: JsonValue) -> bool | None:
        size = measure(value)
        if size is None:
            return None
        return (above is None or size > above) and (most is None or size <= most)

    return test


def _items(value: JsonValue) -> int | None:
    # A token, or another object, may stand for a list.
    if isinstance(value, dict):
        return None
    return len(value) if isinstance(value, list) else 1


def _normal(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Texts as they are hashed and sent: another spelling does not slip past."""
    match value:
        case str():
            return value if value.isascii() else unicodedata.normalize("NFC", value)
        case list():
            return [_normal(item) for item in value]
        case _:
            return value


def _either(names: tuple[str, ...]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def _between(bounds: LevelBounds) -> str:
    if bounds.at_most == "none":
        return "none"
    said = (("at least", bounds.at_least), ("at most", bounds.at_most))
    return " and ".join(f"{words} {bound}" for words, bound in said if bound is not None)


def _parameter_words(bounds: ParameterBounds) -> Iterator[str]:
    if bounds.one_of is not None:
        yield _either(tuple(map(repr, bounds.one_of)))
    if bounds.matches is not None:
        yield f"like {_either(bounds.matches)}"
    if bounds.some_match is not None:
        yield f"in part like {_either(bounds.some_match)}"
    for words, bound, unit in (
        ("above", bounds.above, ""),
        ("at most", bounds.at_most, ""),
        ("more than", bounds.length_above, " characters"),
        ("at most", bounds.length_at_most, " characters"),
        ("more than", bounds.items_above, " items"),
        ("at most", bounds.items_at_most, " items"),
    ):
        if bound is not None:
            yield f"{words} {bound}{unit}"
