"""The decision table: the first row that matches, the strictest where a fact is missing."""

import hashlib
from typing import Any

import pytest

from ledger.core.operation import Operation
from ledger.core.policy import (
    AUTOMATIC,
    AUTOMATIC_POLICY_HASH,
    Asks,
    Outcome,
    Policy,
    parse_policy,
    policy_hash,
)
from ledger.core.policy_tried import try_rows
from ledger.core.request import Request
from tests.policies import TABLE, TENANT, operation, policy, request, risk, row, ruled

TOKEN = {"$token": "hmac-sha256:" + "0" * 64}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (request(0), ("small", "automatic")),
        (request(50_00), ("small", "automatic")),
        (request(50_01), ("middle", "confirmation")),
        (request(500_00), ("middle", "confirmation")),
        (request(500_01), ("large", "people")),
    ],
)
def test_the_first_row_that_matches_decides(asked: Request, expected: tuple[str, str]) -> None:
    """`at_most` includes its bound and `above` does not, so that rows meet without a gap."""
    assert ruled(policy(TABLE), asked, operation()) == expected


def test_a_ruling_says_whom_it_asks() -> None:
    """What a row leaves out has its default; where nobody is asked there is nothing to say."""
    table = policy(TABLE)
    assert table.rule(operation(), request(1), TENANT).asks is None
    assert table.rule(operation(), request(60_00), TENANT).asks == Asks(
        quorum=1,
        groups=("finance",),
        valid_ms=900_000,
        escalate_after_ms=300_000,
        escalate_to=("board",),
    )
    assert table.rule(operation(), request(900_00), TENANT).asks == Asks(quorum=2, valid_ms=600_000)


def test_where_no_row_matches_one_person_is_asked() -> None:
    """The default needs no row: nothing goes ahead because a table forgot it."""
    ruling = policy(TABLE).rule(operation(kind="message"), request(), TENANT)
    assert (ruling.row, ruling.outcome) == ("default", Outcome.PEOPLE)
    assert ruling.asks == Asks()
    assert ruling.missing == ()


@pytest.mark.parametrize(
    ("asked", "declared", "row_name", "outcome", "missing"),
    [
        # No money where a row asks for an amount.
        (request(), operation(), "large", "people", ("amount",)),
        # A currency that no bound names, and one that only a laxer row names.
        (request(1, "SEK"), operation(), "large", "people", ("amount in SEK",)),
        (request(70_00, "USD"), operation(), "large", "people", ("amount in USD",)),
        # It is inside a row that does name it.
        (request(50_00, "USD"), operation(), "small", "automatic", ()),
        # An operation that does not say its kind, and one that nobody declared.
        (request(50_00), operation(kind=None), "large", "people", ("kind",)),
        (request(50_00), None, "large", "people", ("declaration", "kind")),
    ],
)
def test_where_a_fact_is_missing_the_strictest_row_rules(
    asked: Request, declared: Operation | None, row_name: str, outcome: str, missing: tuple[str]
) -> None:
    """Every row that could have matched counts, and the facts that were missing are named."""
    ruling = policy(TABLE).rule(declared, asked, TENANT)
    assert (ruling.row, ruling.outcome, ruling.missing) == (row_name, outcome, missing)


def test_an_unknown_currency_never_becomes_automatic() -> None:
    """Even where every row would let it go ahead, one person is asked."""
    lax = row("small", "when.amount.at_most.EUR = 1") + row("rest")
    ruling = policy(lax).rule(operation(), request(1, "JPY"), TENANT)
    assert (ruling.row, ruling.outcome) == ("default", Outcome.PEOPLE)
    assert ruling.missing == ("amount in JPY",)
    assert ruled(policy(lax), request(1), operation()) == ("small", "automatic")
    assert ruled(policy(lax), request(2), operation()) == ("rest", "automatic")


def test_an_operation_that_nobody_declared_never_becomes_automatic() -> None:
    """Even where a row asks for nothing of the catalogue; what is stricter stays so."""
    small = policy(row("small", "when.amount.at_most.EUR = 1"))
    ruling = small.rule(None, request(1), TENANT)
    assert (ruling.row, ruling.outcome) == ("default", Outcome.PEOPLE)
    assert ruling.missing == ("declaration",)
    assert ruled(small, request(1), operation()) == ("small", "automatic")
    denied = policy(row("small", "when.amount.at_most.EUR = 1", "deny"))
    assert ruled(denied, request(1), None) == ("small", "deny")


def test_a_row_that_might_deny_denies() -> None:
    """The strictest row may be the one above the row that matches."""
    table = policy(row("never", "when.amount.above.EUR = 9", "deny") + row("rest"))
    assert ruled(table, request(10), operation()) == ("never", "deny")
    assert ruled(table, request(9), operation()) == ("rest", "automatic")
    assert ruled(table, request(9, "USD"), operation()) == ("never", "deny")


def test_between_equals_the_row_that_matches_comes_first() -> None:
    """Whoever reads the decision is led to what is certain; what only might be stricter is not."""
    might = row("might", 'when.target = ["a"]', "people")
    assert ruled(policy(might + row("rest", "", "people")), request(), operation()) == (
        "rest",
        "people",
    )
    more = row("two", 'when.target = ["a"]', "people", "quorum = 2")
    assert ruled(policy(more + row("rest", "", "people")), request(), operation())[0] == "two"
    named = row("named", 'when.target = ["a"]', "people", 'groups = ["g"]')
    assert ruled(policy(named + row("rest", "", "people")), request(), operation())[0] == "named"


def test_what_the_catalogue_rules_out_is_not_missing() -> None:
    """An operation without target, money or parameter is not about a row that asks for them."""
    bare = operation(
        target=None, money="forbidden", parameters={}, risk=risk(money_impact="none"), kind="read"
    )
    for when in (
        'when.target = ["*"]',
        "when.amount.above.EUR = 1",
        'when.currency = ["EUR"]',
        "when.parameters.to.items_above = 3",
    ):
        table = policy(row("asks", when, "deny") + row("rest"))
        assert ruled(table, request(), bare) == ("rest", "automatic")
        assert ruled(table, request(), operation()) == ("asks", "deny"), when


def test_money_that_may_hide_in_a_parameter_is_missing() -> None:
    """Forbidding the field of an amount says nothing about money that moves all the same."""
    table = policy(row("large", "when.amount.above.EUR = 9", "people") + row("rest"))
    hidden = operation(money="forbidden", risk=risk(money_impact="low"))
    assert ruled(table, request(), hidden) == ("large", "people")


@pytest.mark.parametrize(
    ("when", "holds", "fails"),
    [
        ('operation = ["act"]', request(), request(operation="act2")),
        ('operation = ["ac*", "x"]', request(), request(operation="bact")),
        ('tenant = ["acme"]', request(), None),
        ('principal = ["agent:*"]', request(), request(principal="user:agent:a")),
        ('environment = ["live", "eu-*"]', request(), request(environment="test")),
        ('target = ["order:*"]', request(target="order:1"), request(target="reorder:1")),
        ('currency = ["EUR"]', request(1), request(1, "USD")),
        ("amount.above.EUR = 9", request(10), request(9)),
        ("amount.at_most.JPY = 9", request(9, "JPY"), request(10, "JPY")),
        ('parameters.region.one_of = ["eu"]', {"region": "eu"}, {"region": "us"}),
        ('parameters.region.matches = ["eu-*"]', {"region": "eu-1"}, {"region": "us-eu-1"}),
        ("parameters.count.at_most = 3", {"count": 3}, {"count": 4}),
        ("parameters.count.above = -1", {"count": 0}, {"count": -1}),
        ("parameters.count.one_of = [1]", {"count": 1}, {"count": True}),
        ("parameters.body.length_at_most = 2", {"body": "é€"}, {"body": "abc"}),
        ("parameters.body.length_above = 1", {"body": "e\u0301x"}, {"body": "e\u0301"}),
        ("parameters.to.items_at_most = 2", {"to": ["a", "b"]}, {"to": ["a", "b", "c"]}),
        ("parameters.to.items_above = 1", {"to": ["a", TOKEN]}, {"to": "abc"}),
        ('parameters.to.matches = ["*@a.eu"]', {"to": ["x@a.eu"]}, {"to": ["x@a.eu", "x@b.eu"]}),
        ('parameters.to.some_match = ["*@a.eu"]', {"to": ["x@a.eu", TOKEN]}, {"to": ["x@b.eu"]}),
        ('parameters.region.some_match = ["eu"]', {"region": "eu"}, {"region": "us"}),
        (
            'parameters.region = { matches = ["eu-*"], length_at_most = 4 }',
            {"region": "eu-1"},
            {"region": "eu-11"},
        ),
    ],
)
def test_a_condition_holds_on_one_side_of_its_limit_only(
    when: str, holds: object, fails: object
) -> None:
    """One example inside and one outside of every condition on a request."""
    table = policy(row("it", f"when.{when}", "deny"))
    for given, expected in ((holds, "it"), (fails, "default")):
        asked = request(params=given) if isinstance(given, dict) else given
        if isinstance(asked, Request):
            declared = operation(name=asked.operation)
            ruling = table.rule(declared, asked, TENANT)
            assert (ruling.row, ruling.missing) == (expected, ()), given


@pytest.mark.parametrize(
    ("when", "holds", "fails"),
    [
        ('kind = ["money", "read"]', {"kind": "read"}, {"kind": "delete"}),
        ('provider = ["ps*"]', {}, {"provider": "bank"}),
        ('account = ["main"]', {}, {"account": "other"}),
        ('reliability = ["keyed"]', {}, {"reliability": "none"}),
        ('preview = ["provider"]', {"preview": "provider"}, {}),
        ('risk.ambiguity.at_most = "low"', {}, {"risk": risk(ambiguity="medium")}),
        ('risk.blast_radius.at_least = "low"', {}, {"risk": risk(blast_radius="none")}),
    ],
)
def test_a_condition_on_the_operation_holds_on_one_side_only(
    when: str, holds: dict[str, object], fails: dict[str, object]
) -> None:
    """One example inside and one outside of every condition on a declaration."""
    table = policy(row("it", f"when.{when}", "deny"))
    assert ruled(table, request(), operation(**holds)) == ("it", "deny")
    assert ruled(table, request(), operation(**fails)) == ("default", "people")


@pytest.mark.parametrize(
    ("when", "params"),
    [
        ("parameters.to.items_at_most = 2", {}),
        ("parameters.to.items_at_most = 2", {"to": TOKEN}),
        ('parameters.to.matches = ["*@a.eu"]', {"to": TOKEN}),
        ('parameters.to.matches = ["*@a.eu"]', {"to": ["x@a.eu", TOKEN]}),
        ('parameters.to.matches = ["*@a.eu"]', {"to": []}),
        ('parameters.to.some_match = ["*@a.eu"]', {"to": ["x@b.eu", TOKEN]}),
        ('parameters.region.one_of = ["eu"]', {"region": {"x": 1}}),
        ("parameters.count.at_most = 3", {"count": "3"}),
        ("parameters.count.at_most = 3", {"count": True}),
        ("parameters.body.length_at_most = 3", {"body": ["a"]}),
    ],
)
def test_a_value_that_cannot_be_compared_is_missing(when: str, params: dict[str, object]) -> None:
    """An absent parameter, a token, another type: nothing goes ahead on a guess."""
    table = policy(row("it", f"when.{when}"))
    ruling = table.rule(operation(), request(params=params), TENANT)
    name = when.split(".")[1]
    assert (ruling.outcome, ruling.missing) == (Outcome.PEOPLE, (f"parameters.{name}",))


@pytest.mark.parametrize(
    ("when", "fact", "asked"),
    [
        ('target = ["vault:*"]', "target", {"target": "Vault:main"}),
        ('target = ["Vault:main"]', "target", {"target": "vault:main"}),
        ('environment = ["production"]', "environment", {"environment": "Production"}),
        (
            'parameters.to.some_match = ["press@*"]',
            "parameters.to",
            {"params": {"to": "PRESS@a.eu"}},
        ),
        (
            'parameters.to.some_match = ["*@press.eu"]',
            "parameters.to",
            {"params": {"to": ["a@a.eu", "a@Press.EU"]}},
        ),
        ('parameters.region.one_of = ["eu", 1]', "parameters.region", {"params": {"region": "EU"}}),
    ],
)
def test_large_letters_slip_past_no_row(when: str, fact: str, asked: dict[str, Any]) -> None:
    """Family canon, beside C185: what an agent writes cannot choose the row by its letters' size.
    Whether both are the same nobody can tell here, so the stricter of both rulings counts.
    """
    denying = policy(row("never", f"when.{when}", "deny") + row("rest"))
    ruling = denying.rule(operation(), request(**asked), TENANT)
    assert (ruling.row, ruling.outcome, ruling.missing) == ("never", Outcome.DENY, (fact,))
    lax = policy(row("free", f"when.{when}"))
    assert lax.rule(operation(), request(**asked), TENANT).outcome is Outcome.PEOPLE
    small = policy(row("never", f"when.{when.casefold()}", "deny") + row("rest"))
    other: dict[str, Any] = {
        name: {"to": "z", "region": "z"} if name == "params" else "z" for name in asked
    }
    assert small.rule(operation(), request(**other), TENANT).row == "rest"


@pytest.mark.parametrize(
    ("field", "denied", "other", "third"),
    [
        ("target", "customer:cus_AbC", "customer:cus_aBc", "customer:CUS_ABC"),
        ("environment", "Live", "live", "LIVE"),
        ("parameters.to.matches", "AbC", "aBc", "ABC"),
    ],
)
def test_a_row_above_that_spells_the_other_one_lets_it_go(
    field: str, denied: str, other: str, third: str
) -> None:
    """Names that their letters' size tells apart: the row that has one exactly is the first that
    matches, and what the row below denies stays denied, as does every third spelling. Two that may
    both go ahead stand in one row: the upper of two might match, and a person is asked.
    """

    def named(*texts: str) -> str:
        return f"when.{field} = {list(texts)}"

    def of(rows: str, text: str) -> tuple[str, str]:
        changed = {"params": {"to": text}} if "." in field else {field: text}
        return ruled(policy(rows), request(**changed), operation())

    never = row("never", named(denied), "deny") + row("rest")
    assert of(never, other) == ("never", "deny")
    mended = row("other", named(other)) + never
    assert of(mended, other) == ("other", "automatic")
    assert of(mended, denied) == of(mended, third) == ("never", "deny")
    assert of(row("both", named(other, denied)), denied) == ("both", "automatic")
    assert of(row("one", named(other)) + row("two", named(denied)), denied)[1] == "people"


def test_the_tenant_counts() -> None:
    """A row may be about one tenant only."""
    table = policy(row("ours", 'when.tenant = ["acme"]'))
    assert table.rule(operation(), request(), "acme").row == "ours"
    assert table.rule(operation(), request(), "globex").row == "default"


@pytest.mark.law("S4")
def test_a_row_can_demand_a_real_executor() -> None:
    """What its caller carries out itself is another matter, whatever the catalogue lets it."""
    table = policy(row("ours", 'when.performer = ["executor"]') + row("theirs", outcome="deny"))
    for declared in (operation(performer=who) for who in ("executor", "caller", "either")):
        assert table.rule(declared, request(), TENANT).row == "ours"
        assert table.rule(declared, request(), TENANT, performer="caller").row == "theirs"
    assert table.rule(None, request(), TENANT, performer="caller").row == "theirs"
    callers = policy(row("theirs", 'when.performer = ["caller"]', "deny") + row("all"))
    assert callers.rule(operation(), request(), TENANT).row == "all"
    assert callers.rule(operation(), request(), TENANT, performer="caller").row == "theirs"
    both = policy(row("both", 'when.performer = ["executor", "caller"]'))
    assert both.rule(operation(), request(), TENANT, performer="caller").row == "both"
    (tried,) = try_rows(both, operation(), request(), TENANT, "caller")
    (told,) = tried.conditions
    assert (told.name, told.found, told.holds) == ("performer", "caller", True)
    assert told.wanted == "executor or caller"


def test_nobody_else_carries_anything_out() -> None:
    """Either of both is no performer of an action."""
    found = parse_policy(row("it", 'when.performer = ["either"]'))
    assert not isinstance(found, Policy)
    assert {one.path for one in found} >= {"row[0].when.performer[0]"}


def test_a_ruling_does_not_depend_on_what_was_ruled_before() -> None:
    """What is kept of an operation is never taken for another's, however many there are."""
    table = policy(TABLE)
    for _ in range(600):
        assert ruled(table, request(1), operation()) == ("small", "automatic")
        assert ruled(table, request(1), operation(kind="read")) == ("default", "people")


def test_outcomes_grow_stricter() -> None:
    """Automatic, confirmation, people, deny: in this order and no other."""
    assert [one.value for one in sorted(Outcome, key=lambda one: one.strictness)] == [
        "automatic",
        "confirmation",
        "people",
        "deny",
    ]
    assert [one for one in Outcome if one.asks_people] == [Outcome.CONFIRMATION, Outcome.PEOPLE]


def test_the_hash_is_of_the_text() -> None:
    """Every change of the text is another version of the policy, comments included."""
    text = TABLE + "# a comment\n"
    expected = hashlib.sha256(b"actionledger.policy.v1\n" + text.encode()).hexdigest()
    assert policy(text).content_hash == policy_hash(text) == f"sha256:{expected}"
    assert policy(TABLE).content_hash != policy(text).content_hash


def test_before_a_policy_is_adopted_everything_declared_goes_ahead() -> None:
    """The bootstrap table has one row and the hash that decisions have always recorded."""
    assert ruled(AUTOMATIC, request(9_999_99), operation(kind=None)) == ("automatic", "automatic")
    assert AUTOMATIC.content_hash == AUTOMATIC_POLICY_HASH
    domain = b"actionledger.policy.v1\nautomatic: every declared operation"
    assert f"sha256:{hashlib.sha256(domain).hexdigest()}" == AUTOMATIC_POLICY_HASH


def test_every_row_can_be_tried_in_words() -> None:
    """Whoever asks why is told what each row wants, what the action has, and what is missing."""
    small, middle, large = try_rows(policy(TABLE), operation(), request(60_00), TENANT)
    assert (small.matches, middle.matches, large.matches) == (False, True, True)
    kind, amount = small.conditions
    assert (kind.name, kind.wanted, kind.found, kind.holds) == ("kind", "money", "money", True)
    assert amount.wanted == "at most 50.00 EUR or 60.00 USD"
    assert (amount.found, amount.holds) == ("60.00 EUR", False)
    assert middle.conditions[1].wanted == "above 50.00 EUR and at most 500.00 EUR"
    long = policy(row("it", "when.parameters.body.length_above = 9"))
    body = "\u202e" + "b" * 20_000
    (tried_body,) = try_rows(long, operation(), request(params={"body": body}), TENANT)
    shown = tried_body.conditions[0].found
    assert shown is not None
    assert len(shown) == 200
    assert shown.isprintable()
    tried = try_rows(policy(TABLE), None, request(), TENANT)
    assert [one.matches for one in tried] == [None, None, None]
    assert [one.found for one in tried[0].conditions] == [None, None]
