"""A request held against its operation: every problem is named, nothing is changed."""

import pytest

from ledger.core.limits import DIFFERENCES_MAX
from ledger.core.operation import Deadlines, Operation, Risk, Target
from ledger.core.parameters import Parameter, ProblemCode
from ledger.core.request import Request

TOKEN = {"$token": "hmac-sha256:" + "0" * 64}
PARAMETERS = {
    "amount": Parameter(type="integer", minimum=1, maximum=10),
    "body": Parameter(type="string", required=False, length_min=2, length_max=5),
    "gift": Parameter(type="boolean", required=False),
    "kind": Parameter(type="string", required=False, values=("a", "b")),
    "extra": Parameter(type="object", required=False, length_max=1),
    "customer": Parameter(type="identifier", required=False, length_max=8),
    "to": Parameter(type="list", items="identifier", required=False, length_min=1, length_max=2),
    "any": Parameter(type="list", required=False),
}


def operation(**changed: object) -> Operation:
    """An operation with one parameter of each kind, with some declarations changed."""
    declared: dict[str, object] = {
        "name": "order",
        "version": 1,
        "provider": "shop",
        "account": "main",
        "reliability": "none",
        "money": "optional",
        "parameters": PARAMETERS,
        "personal": ("to", "body"),
        "principals": ("*",),
        "risk": Risk(
            irreversibility="low",
            blast_radius="low",
            ambiguity="low",
            money_impact="low",
            security_impact="none",
        ),
        "deadlines": Deadlines(connect_ms=1, response_ms=2, step_ms=3),
        "target": Target(description="The shelf.", prefix="shelf:"),
    }
    return Operation.model_validate(declared | changed)


def request(**changed: object) -> Request:
    """A request without a problem, with some fields changed."""
    fields: dict[str, object] = {
        "operation": "order",
        "version": 1,
        "target": "shelf:9",
        "params": {"amount": 1},
        "principal": "agent:a",
        "environment": "test",
    }
    return Request.model_validate(fields | changed)


def found(declared: Operation, asked: Request) -> list[tuple[str, str]]:
    """Where and what, for every problem."""
    problems = declared.check(asked)
    return [(problem.path, problem.code.value) for problem in problems]


@pytest.mark.parametrize(
    "params",
    [
        {"amount": 1},
        {"amount": 10, "body": "ab", "gift": False, "kind": "b", "extra": {"x": [1]}},
        {"amount": 2, "customer": "cus-12_3", "to": ["a@b.c", "東京"], "any": [1, "a", None, {}]},
        {"amount": 3, "to": [TOKEN, "a"], "body": TOKEN},
        {"amount": 3, "to": TOKEN},
    ],
)
def test_what_keeps_to_the_declaration_has_no_problem(params: dict[str, object]) -> None:
    """Values at their bounds, any JSON where nothing is declared, tokens where they may stand."""
    assert found(operation(), request(params=params)) == []


@pytest.mark.parametrize(
    ("name", "value", "path", "code"),
    [
        ("amount", 0, "/params/amount", ProblemCode.TOO_SMALL),
        ("amount", 11, "/params/amount", ProblemCode.TOO_LARGE),
        ("amount", True, "/params/amount", ProblemCode.WRONG_TYPE),
        ("amount", "1", "/params/amount", ProblemCode.WRONG_TYPE),
        ("amount", None, "/params/amount", ProblemCode.WRONG_TYPE),
        ("amount", TOKEN, "/params/amount", ProblemCode.TOKEN_NOT_ALLOWED),
        ("body", "a", "/params/body", ProblemCode.TOO_SHORT),
        ("body", "abcdef", "/params/body", ProblemCode.TOO_LONG),
        ("gift", 1, "/params/gift", ProblemCode.WRONG_TYPE),
        ("kind", "c", "/params/kind", ProblemCode.NOT_A_CHOICE),
        ("extra", {"x": 1, "y": 2}, "/params/extra", ProblemCode.TOO_LONG),
        ("extra", [], "/params/extra", ProblemCode.WRONG_TYPE),
        ("extra", {"x": [TOKEN]}, "/params/extra", ProblemCode.TOKEN_NOT_ALLOWED),
        ("any", [{"x": TOKEN}], "/params/any", ProblemCode.TOKEN_NOT_ALLOWED),
        ("customer", "123456789", "/params/customer", ProblemCode.TOO_LONG),
        ("customer", "Re\u0301", "/params/customer", ProblemCode.MALFORMED_IDENTIFIER),
        ("customer", "a\u202eb", "/params/customer", ProblemCode.MALFORMED_IDENTIFIER),
        ("to", [], "/params/to", ProblemCode.TOO_SHORT),
        ("to", ["a", "b", "c"], "/params/to", ProblemCode.TOO_LONG),
        ("to", ["a", 1], "/params/to/1", ProblemCode.WRONG_TYPE),
        ("to", ["a", " b"], "/params/to/1", ProblemCode.MALFORMED_IDENTIFIER),
        ("to", "a", "/params/to", ProblemCode.WRONG_TYPE),
        ("other", 1, "/params/other", ProblemCode.PARAMETER_UNKNOWN),
    ],
)
def test_a_value_outside_its_declaration_is_named(
    name: str, value: object, path: str, code: ProblemCode
) -> None:
    """A problem says where it is and what is wrong; nothing is coerced to fit."""
    assert (path, code) in found(operation(), request(params={"amount": 1, name: value}))


@pytest.mark.parametrize(
    ("environments", "environment", "fits"),
    [
        (("*",), "anything", True),
        (("live", "eu-*"), "live", True),
        (("live", "eu-*"), "eu-west", True),
        (("live", "eu-*"), "test", False),
        (("live",), "Live", False),
    ],
)
def test_what_is_said_of_the_environment_has_to_fit_the_account(
    environments: tuple[str, ...], environment: str, *, fits: bool
) -> None:
    """An agent cannot call a test what happens at the account for what is live."""
    asked = request(params={"amount": 1}, environment=environment)
    expected = [] if fits else [("/environment", "environment_not_allowed")]
    assert found(operation(environments=environments), asked) == expected


def test_every_problem_is_named_at_once() -> None:
    """A caller mends a request in one round: target, money, values, missing and unknown fields."""
    declared = operation(money="required")
    asked = request(target="9", params={"kind": "c", "gift": 1, "b": 1, "a": 2})
    assert found(declared, asked) == [
        ("/target", "target_prefix"),
        ("/money", "money_missing"),
        ("/params/amount", "parameter_missing"),
        ("/params/gift", "wrong_type"),
        ("/params/kind", "not_a_choice"),
        ("/params/a", "parameter_unknown"),
        ("/params/b", "parameter_unknown"),
    ]


@pytest.mark.parametrize(
    ("target", "declared", "expected"),
    [
        (None, Target(description="x"), ["target_missing"]),
        (None, Target(description="x", required=False), []),
        (None, None, []),
        ("shelf:9", None, ["target_not_allowed"]),
        ("anything", Target(description="x"), []),
        ("shelf:", Target(description="x", prefix="shelf:"), ["target_prefix"]),
        ("shelf:9", Target(description="x", prefix="shelf:"), []),
    ],
)
def test_targets_are_required_allowed_or_refused(
    target: str | None, declared: Target | None, expected: list[str]
) -> None:
    """An operation says whether it acts on a target, and of which kind."""
    problems = operation(target=declared).check(request(target=target))
    assert [problem.code.value for problem in problems] == expected


@pytest.mark.parametrize(
    ("declared", "given", "expected"),
    [
        ("required", None, ["money_missing"]),
        ("forbidden", {"minor": 0, "currency": "EUR"}, ["money_not_allowed"]),
        ("optional", None, []),
        ("optional", {"minor": 1, "currency": "EUR"}, []),
        ("required", {"minor": 1, "currency": "EUR"}, []),
    ],
)
def test_money_is_required_allowed_or_refused(
    declared: str, given: dict[str, object] | None, expected: list[str]
) -> None:
    """An operation says whether it moves money; even nothing is an amount."""
    problems = operation(money=declared).check(request(money=given))
    assert [problem.code.value for problem in problems] == expected


@pytest.mark.case("C083")
def test_c083_nothing_is_no_amount_where_money_moves() -> None:
    """C083: a refund of 0 is a mistake, unless its operation says that 0 means something."""
    nothing, one = ({"minor": minor, "currency": "EUR"} for minor in (0, 1))
    refused = [("/money/minor", "amount_zero")]
    for declared, given, expected in (
        (operation(kind="money"), nothing, refused),
        (operation(kind="money"), one, []),
        (operation(kind="money", allows_zero=True), nothing, []),
        (operation(kind="message"), nothing, []),
        (operation(kind="other", money="required"), nothing, refused),
    ):
        assert found(declared, request(money=given)) == expected


def test_an_amount_is_a_multiple_where_its_currency_has_one() -> None:
    """Nought is one of all; a currency that is not named has none."""
    declared = operation(amount_multiple_of={"KWD": 10})
    for minor, currency, expected in (
        (0, "KWD", []),
        (18_600, "KWD", []),
        (18_605, "KWD", [("/money/minor", "amount_not_a_multiple")]),
        (18_605, "EUR", []),
    ):
        assert found(declared, request(money={"minor": minor, "currency": currency})) == expected
    assert found(declared, request()) == []


def test_problems_are_bounded_in_number_and_length() -> None:
    """A request of nothing but unknown fields gets a bounded answer."""
    params = {f"{n:04}{'k' * 400}\u202e": n for n in range(100)} | {"amount": 1}
    problems = operation().check(request(params=params))
    assert len(problems) == DIFFERENCES_MAX
    assert all(len(problem.message) < 200 for problem in problems)
    assert all(problem.message.isprintable() for problem in problems)


def test_checking_changes_nothing() -> None:
    """A request that was checked is the request that was made."""
    asked = request(params={"amount": 1, "body": "Re\u0301"})
    before = asked.model_dump_json()
    operation().check(asked)
    assert asked.model_dump_json() == before
