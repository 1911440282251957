"""Laws of the decision table: no missing fact makes an outcome laxer, and the table says what a
plain reading of its rows says.
"""

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.core.operation import Operation
from ledger.core.policy import AUTOMATIC, Outcome, Policy, Row, Ruling, parse_policy, policy_hash
from ledger.core.policy_when import RISKS, When
from ledger.core.request import Request
from tests.policies import TENANT, operation, request, risk

LEVELS = ("none", "low", "medium", "high")
TOKEN = {"$token": "hmac-sha256:" + "0" * 64}

levels = st.sampled_from(LEVELS)
amounts = st.dictionaries(st.sampled_from(["EUR", "USD"]), st.integers(0, 6), min_size=1)
pairs = st.lists(st.integers(0, 6), min_size=2, max_size=2, unique=True).map(sorted)
conditions = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.lists(st.sampled_from(["money", "read", "message"]), min_size=1, max_size=2),
        "operation": st.lists(st.sampled_from(["act", "a*", "pay"]), min_size=1, max_size=2),
        "principal": st.lists(st.sampled_from(["agent:*", "agent:a", "user:*"]), min_size=1),
        "target": st.lists(st.sampled_from(["order:*", "order:1", "host:*"]), min_size=1),
        "reliability": st.lists(st.sampled_from(["keyed", "none"]), min_size=1, max_size=1),
        "performer": st.lists(st.sampled_from(["executor", "caller"]), min_size=1, max_size=1),
        "currency": st.lists(st.sampled_from(["EUR", "USD"]), min_size=1, unique=True),
        "risk": st.dictionaries(
            st.sampled_from(RISKS),
            st.fixed_dictionaries({"at_most": levels})
            | st.fixed_dictionaries({"at_least": levels}),
            min_size=1,
            max_size=2,
        ),
        "amount": st.fixed_dictionaries({"at_most": amounts})
        | st.fixed_dictionaries({"above": amounts})
        | pairs.map(lambda pair: {"above": {"EUR": pair[0]}, "at_most": {"EUR": pair[1]}}),
        "parameters": st.dictionaries(
            st.sampled_from(["region", "count"]),
            st.fixed_dictionaries({"one_of": st.just(["eu", 1])})
            | st.fixed_dictionaries({"at_most": st.integers(0, 3)}),
            min_size=1,
        ),
    },
)
rows = st.lists(
    st.tuples(conditions, st.sampled_from(Outcome), st.integers(1, 3), st.booleans()),
    min_size=1,
    max_size=6,
)
performers = st.sampled_from(["caller", None])
declared = st.builds(
    lambda kind, name, reliability, facts: operation(
        kind=kind, name=name, reliability=reliability, risk=risk(**facts)
    ),
    st.sampled_from(["money", "read", "message", None]),
    st.sampled_from(["act", "pay"]),
    st.sampled_from(["keyed", "none"]),
    st.dictionaries(st.sampled_from(RISKS), levels),
)
asked = st.builds(
    lambda minor, currency, target, principal, params: request(
        minor, currency, target=target, principal=principal, params=params
    ),
    st.none() | st.integers(0, 7),
    st.sampled_from(["EUR", "USD", "SEK"]),
    st.sampled_from(["order:1", "order:2", "host:x", None]),
    st.sampled_from(["agent:a", "agent:b", "user:x"]),
    st.dictionaries(
        st.sampled_from(["region", "count"]), st.sampled_from(["eu", "us", 0, 1, 3, TOKEN])
    ),
)


def table(drawn: list[tuple[dict[str, object], Outcome, int, bool]]) -> Policy:
    """A policy of any rows, also of those that a parsed text would not be allowed."""
    made = []
    for number, (when, outcome, quorum, is_named) in enumerate(drawn):
        people: dict[str, object] = {"quorum": quorum, "groups": ["g"] if is_named else []}
        gates = {} if outcome is Outcome.DENY else {"ceilings": [f"c{number}"]}
        made.append(
            Row.model_validate(
                {"name": f"r{number}", "when": when, "outcome": outcome, "reason": "r"}
                | gates
                | (people if outcome.asks_people else {})
            )
        )
    return Policy(tuple(made), policy_hash(str(drawn)))


def strictness(ruling: Ruling) -> tuple[int, int, bool]:
    """How strict, by the published order and nothing of the code's own."""
    order = ["automatic", "confirmation", "people", "deny"]
    asks = ruling.asks
    return (
        order.index(ruling.outcome.value),
        0 if asks is None else asks.quorum,
        asks is not None and bool(asks.groups),
    )


def ceilings(ruling: Ruling) -> set[str]:
    """The ceilings that an action passes."""
    return set() if ruling.gates is None else set(ruling.gates.ceilings)


WITHOUT: list[Callable[[Request, Operation], tuple[Request, Operation | None]]] = [
    lambda one, other: (one.model_copy(update={"money": None}), other),
    lambda one, other: (one.model_copy(update={"target": None}), other),
    lambda one, other: (one.model_copy(update={"params": {}}), other),
    lambda one, other: (
        one.model_copy(update={"params": dict.fromkeys(one.params, TOKEN)}),
        other,
    ),
    lambda one, other: (one, other.model_copy(update={"kind": None})),
    lambda one, _: (one, None),
    lambda one, _: (one.model_copy(update={"money": None, "target": None, "params": {}}), None),
]


@settings(max_examples=400)
@given(rows, declared, asked, st.sampled_from(WITHOUT))
def test_no_missing_fact_makes_an_outcome_laxer(
    drawn: list[tuple[dict[str, object], Outcome, int, bool]],
    operation_: Operation,
    request_: Request,
    without: Callable[[Request, Operation], tuple[Request, Operation | None]],
) -> None:
    """Take any fact away, or all that can be: what the table says is as strict or stricter, and it
    passes every ceiling that it would have passed.
    """
    # The name that the request says and the one that the catalogue says are always the same.
    request_ = request_.model_copy(update={"operation": operation_.name})
    policy = table(drawn)
    whole = policy.rule(operation_, request_, TENANT)
    bare_request, bare_operation = without(request_, operation_)
    bare = policy.rule(bare_operation, bare_request, TENANT)
    assert strictness(bare) >= strictness(whole)
    assert ceilings(whole) <= ceilings(bare)


@settings(max_examples=200)
@given(rows, declared, asked)
def test_what_nobody_can_compare_never_goes_ahead_by_itself(
    drawn: list[tuple[dict[str, object], Outcome, int, bool]],
    operation_: Operation,
    request_: Request,
) -> None:
    """As soon as a fact was missing, a person is asked at least; and then it is named."""
    ruling = table(drawn).rule(operation_, request_, TENANT)
    if ruling.missing:
        assert ruling.outcome in {Outcome.PEOPLE, Outcome.DENY}
    money = request_.money
    asks_all = all("amount" in when for when, *_ in drawn)
    if asks_all and (money is None or money.currency == "SEK"):
        assert ruling.outcome is not Outcome.AUTOMATIC


@settings(max_examples=400)
@given(rows, declared | st.none(), asked, performers)
def test_the_ruling_is_that_of_a_plain_reading(
    drawn: list[tuple[dict[str, object], Outcome, int, bool]],
    operation_: Operation | None,
    request_: Request,
    performer: Literal["caller"] | None,
) -> None:
    """The compiled table agrees with the rule, spelled out row by row."""
    if operation_ is not None:
        request_ = request_.model_copy(update={"operation": operation_.name})
    policy = table(drawn)
    expected = None
    might: list[tuple[tuple[int, int, bool], str]] = []
    for row in policy.rows:
        answers = plainly(row.when, operation_, request_)
        by = "executor" if performer is None else "caller"
        answers.append(row.when.performer is None or by in row.when.performer)
        if False in answers:
            continue
        ruling = Ruling(row.name, row.outcome, row.asks)
        if None not in answers:
            expected = (strictness(ruling), row.name)
            break
        might.append((strictness(ruling), row.name))
    default = (strictness(Ruling("default", Outcome.PEOPLE, AUTOMATIC_ASKS)), "default")
    is_missing = bool(might) or operation_ is None
    if expected is None or is_missing:
        candidates = [*([] if expected is None else [expected]), *might, default]
        expected = max(candidates, key=lambda one: one[0])
    ruling = policy.rule(operation_, request_, TENANT, performer=performer)
    assert (strictness(ruling), ruling.row) == expected
    assert bool(ruling.missing) == is_missing


AUTOMATIC_ASKS = Row(name="x", outcome=Outcome.PEOPLE, reason="r").asks


def plainly(when: When, operation_: Operation | None, request_: Request) -> list[bool | None]:
    """Every condition of a row, read as it is written: True, False, or None for missing."""
    answers: list[bool | None] = []

    def one_of(value: str | None, names: tuple[str, ...] | None) -> None:
        if names is not None:
            answers.append(None if value is None else any(fnmatchcase(value, n) for n in names))

    one_of(request_.operation, when.operation)
    one_of(None if operation_ is None else operation_.kind, when.kind)
    one_of(None if operation_ is None else operation_.reliability, when.reliability)
    one_of(request_.principal, when.principal)
    one_of(request_.target, when.target)
    money = request_.money
    one_of(None if money is None else money.currency, when.currency)
    for fact in RISKS:
        bounds = getattr(when.risk, fact, None)
        if bounds is None:
            continue
        if operation_ is None:
            answers.append(None)
        else:
            level = LEVELS.index(getattr(operation_.risk, fact))
            answers.append(level <= LEVELS.index(bounds.at_most or "high"))
            answers.append(level >= LEVELS.index(bounds.at_least or "none"))
    if when.amount is not None:
        above, most = when.amount.above or {}, when.amount.at_most or {}
        if money is None or money.currency not in above | most:
            answers.append(None)
        else:
            answers.append(money.minor > above.get(money.currency, -1))
            answers.append(money.minor <= most.get(money.currency, 99))
    for name, asked_of in (when.parameters or {}).items():
        value = request_.params.get(name)
        if asked_of.one_of is not None:
            answers.append(None if value is None or value == TOKEN else value in ("eu", 1))
        if asked_of.at_most is not None:
            answers.append(value <= asked_of.at_most if type(value) is int else None)
    return answers


# Pieces of policies, so that some texts are valid and many are nearly so.
pieces = st.lists(
    st.sampled_from(
        [
            "\n[[row]]\n",
            "name = 'a'\n",
            "name = 'b'\n",
            "outcome = 'people'\n",
            "outcome = 'automatic'\n",
            "reason = 'r'\n",
            "quorum = 2\n",
            "when.kind = ['money']\n",
            "when.amount.at_most = { EUR = 1 }\n",
            "groups = ['g']\n",
            "when = 1\n",
            "[row.when.risk]\n",
            "ambiguity.at_most = 'low'\n",
            "= ",
            '"',
            "[",
        ]
    ),
    max_size=14,
).map("".join)


@given(pieces | st.text(max_size=80))
def test_any_text_is_a_policy_or_has_mistakes(text: str) -> None:
    """No text raises; every mistake has a line of that text and a sentence that can be read."""
    parsed = parse_policy(text)
    if isinstance(parsed, Policy):
        return
    assert parsed
    for mistake in parsed:
        assert 1 <= mistake.line <= text.count("\n") + 1
        assert str(mistake).isprintable()


@given(declared, asked)
def test_the_bootstrap_table_lets_everything_declared_go_ahead(
    operation_: Operation, request_: Request
) -> None:
    """Before a policy is adopted nothing waits for people."""
    assert AUTOMATIC.rule(operation_, request_, TENANT).outcome is Outcome.AUTOMATIC
