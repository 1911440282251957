"""A decision table that cannot be meant: every mistake on its line, in a sentence."""

import pytest

from ledger.core.limits import MISTAKES_MAX, POLICY_BYTES_MAX, POLICY_ROWS_MAX
from ledger.core.policy import Mistake, Policy, parse_policy
from tests.policies import TABLE, policy, row


def mistakes(text: str) -> tuple[Mistake, ...]:
    """The mistakes of a text that has some."""
    parsed = parse_policy(text)
    assert not isinstance(parsed, Policy)
    assert parsed
    return parsed


def changed(old: str, new: str) -> str:
    """The table with one text replaced where it stands first."""
    assert old in TABLE
    return TABLE.replace(old, new, 1)


@pytest.mark.parametrize(
    ("old", "new", "line", "path", "said"),
    [
        # Shape.
        ("outcome =", "outcom =", 5, "row[0].outcom", "did you mean outcome?"),
        ("when.kind", "when.kinds", 3, "row[0].when.kinds", "did you mean kind?"),
        ("amount.at_most", "amount.atmost", 4, "row[0].when.amount.atmost", "at_most?"),
        ("when.kind", "if.kind", 3, "row[0].if", "not a known key"),
        ('"automatic"', '"auto"', 5, "row[0].outcome", "'people' or 'deny', not 'auto'"),
        ('"automatic"', '"Automatic"', 5, "row[0].outcome", "not 'Automatic'"),
        ('["money"]', '["cash"]', 3, "row[0].when.kind[0]", "'read', 'message', 'money'"),
        ('["money"]', '"money"', 3, "row[0].when.kind", "must be a list"),
        ('["money"]', "[]", 3, "row[0].when.kind", "at least 1 entries"),
        ('"small"', '"a b"', 2, "row[0].name", "not a component"),
        ('reason = "Little is at stake."\n', "", 1, "row[0].reason", "is missing"),
        ('"Little is at stake."', '""', 6, "row[0].reason", "must not be empty"),
        ("quorum = 2", "quorum = 0", 23, "row[2].quorum", "at least 1"),
        ("quorum = 2", "quorum = 17", 23, "row[2].quorum", "at most 16"),
        ("quorum = 2", "quorum = 2.0", 23, "row[2].quorum", "whole number"),
        ("quorum = 2", "quorum = true", 23, "row[2].quorum", "whole number"),
        ("900_000", "999", 14, "row[1].valid_ms", "at least 1000"),
        ("900_000", "604_800_001", 14, "row[1].valid_ms", "at most 604800000"),
        ("quorum = 2", 'groups = "finance"', 23, "row[2].groups", "such as ['finance']"),
        ('kind = ["money"]', 'risk = "low"', 3, "row[0].when.risk", "a table of irreversibility,"),
        (
            'kind = ["money"]',
            'risk.ambiguity = "low"',
            3,
            "row[0].when.risk.ambiguity",
            "a table of at_least, at_most",
        ),
        # Amounts.
        (
            "{ EUR = 50_00, USD = 60_00 }",
            "50_00",
            4,
            "row[0].when.amount.at_most",
            "such as { EUR = 50_00 }",
        ),
        ("EUR = 50_00", "EUR = -1", 4, "row[0].when.amount.at_most.EUR", "at least 0"),
        ("EUR = 50_00", "EUR = 50.0", 4, "row[0].when.amount.at_most.EUR", "whole number"),
        ("EUR = 50_00", 'EUR = "50"', 4, "row[0].when.amount.at_most.EUR", "whole number"),
        ("EUR = 50_00", "EURO = 1", 4, "row[0].when.amount.at_most.EURO", "not a currency"),
        ("EUR = 50_00", "XAU = 1", 4, "row[0].when.amount.at_most.XAU", "not a currency"),
        ("{ EUR = 50_00, USD = 60_00 }", "{}", 4, "row[0].when.amount.at_most", "at least 1"),
        ("above = { EUR = 50_00 }", "above = { USD = 1 }", 11, "row[1].when.amount", "both bounds"),
        (
            "above = { EUR = 50_00 }",
            "above = { EUR = 500_00 }",
            11,
            "row[1].when.amount.above.EUR",
            "no amount lies between",
        ),
        (
            'when.kind = ["money"]',
            'when.currency = ["GBP"]',
            3,
            "row[0].when.currency[0]",
            "no bound",
        ),
        # Contradictions.
        ('"small"', '"default"', 2, "row[0].name", "cannot be default"),
        # Under these names a right that was taken back would go unnoticed.
        ('"small"', '"principals"', 2, "row[0].name", "cannot be principals"),
        ('"small"', '"declaration"', 2, "row[0].name", "cannot be declaration"),
        ('"middle"', '"small"', 9, "row[1].name", "earlier row"),
        (
            'outcome = "automatic"',
            'outcome = "deny"\nquorum = 1',
            6,
            "row[0].quorum",
            "nobody is asked",
        ),
        (
            'outcome = "automatic"',
            'outcome = "automatic"\ngroups = []',
            6,
            "row[0].groups",
            "nobody is asked",
        ),
        ('groups = ["finance"]\n', "", 15, "row[1].escalate_to", "nothing without groups"),
        ('["board"]', "[]", 16, "row[1].escalate_to", "must name a group"),
        ('["board"]', '["finance"]', 16, "row[1].escalate_to[0]", "from the start"),
        ('["board"]', '["b", "b"]', 16, "row[1].escalate_to[1]", "twice"),
        ('["board"]', '["a b"]', 16, "row[1].escalate_to[0]", "not a component"),
        ('escalate_to = ["board"]\n', "", 15, "row[1].escalate_after_ms", "name the groups"),
        ("escalate_after_ms = 300_000\n", "", 15, "row[1].escalate_to", "after which time"),
        ("300_000", "900_000", 15, "row[1].escalate_after_ms", "less than valid_ms (900000)"),
        ('kind = ["money"]', "risk = {}", 3, "row[0].when.risk", "must name a fact"),
        (
            'kind = ["money"]',
            "risk.ambiguity = {}",
            3,
            "row[0].when.risk.ambiguity",
            "at_least or at_most",
        ),
        (
            'kind = ["money"]',
            'risk.ambiguity = { at_least = "high", at_most = "low" }',
            3,
            "row[0].when.risk.ambiguity.at_least",
            "higher than at_most (low)",
        ),
        ('kind = ["money"]', "parameters.to = {}", 3, "row[0].when.parameters.to", "bound"),
        (
            'kind = ["money"]',
            "parameters.n = { above = 3, at_most = 3 }",
            3,
            "row[0].when.parameters.n.above",
            "nothing lies between",
        ),
        ('["money"]', '["money"]\nwhen.target = ["a?"]', 4, "row[0].when.target[0]", "wildcard"),
        ('["money"]', '["money"]\nwhen.target = [""]', 4, "row[0].when.target[0]", "empty"),
    ],
)
def test_a_mistake_is_named_on_its_line(
    old: str, new: str, line: int, path: str, said: str
) -> None:
    """Whoever wrote the table is led to the line, and told what is wrong there."""
    found = mistakes(changed(old, new))
    assert any(
        one.line == line and one.path.startswith(path) and said in one.message for one in found
    ), "\n".join(map(str, found))


@pytest.mark.parametrize(
    ("value", "shown"), [("1.5", "1.5"), ("[1]", "[1]"), (f"{2**53}", f"{2**53}")]
)
def test_one_mistake_is_told_once(value: str, shown: str) -> None:
    """Not once for each type that it is not, and not that its list is empty then."""
    (mistake,) = mistakes(changed('kind = ["money"]', f"parameters.n.one_of = [{value}, 2]"))
    assert str(mistake) == (
        "line 3: row[0].when.parameters.n.one_of[0] must be a text, true, false or a whole number, "
        f"not {shown}"
    )
    (mistake,) = mistakes(changed('["money"]', '["cash"]'))
    assert mistake.path == "row[0].when.kind[0]"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("", 'when.kind = ["read"]'),
        ('when.tenant = ["*"]\nwhen.operation = ["*"]', 'when.target = ["a"]'),
        ('when.kind = ["read", "money"]', 'when.kind = ["money"]\nwhen.tenant = ["a"]'),
        ('when.target = ["order:*"]', 'when.target = ["order:A-*"]'),
        ('when.target = ["a*", "b"]', 'when.target = ["b", "a"]'),
        ('when.risk.ambiguity.at_most = "low"', 'when.risk.ambiguity.at_most = "none"'),
        ('when.risk.ambiguity.at_most = "high"', ""),
        ("when.amount.at_most.EUR = 9", "when.amount = { at_most.EUR = 9, above.EUR = 3 }"),
        ("when.amount.above.EUR = 3", "when.amount.above.EUR = 3"),
        ("when.parameters.n.at_most = 1", 'when.parameters.n.at_most = 1\nwhen.kind = ["read"]'),
    ],
)
def test_a_row_that_nothing_reaches_is_a_mistake(first: str, second: str) -> None:
    """Whatever matches the second row matches the first before: one of the two is not meant."""
    (mistake,) = mistakes(row("one", first) + row("two", second, "deny"))
    assert (mistake.line, mistake.path) == (row("one", first).count("\n") + 1, "row[1]")
    assert "is never reached" in mistake.message
    assert "row one" in mistake.message


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('when.kind = ["money"]', 'when.kind = ["read", "money"]'),
        ('when.target = ["*"]', ""),
        ('when.target = ["order:A-*"]', 'when.target = ["order:*"]'),
        ('when.risk.ambiguity.at_most = "low"', 'when.risk.ambiguity.at_least = "low"'),
        ("when.amount.at_most.EUR = 9", "when.amount.at_most = { EUR = 9, USD = 9 }"),
        ("when.amount.at_most.EUR = 9", "when.amount.above.EUR = 3"),
        ("when.amount.above.EUR = 9", "when.amount.above.EUR = 8"),
        ("when.parameters.n.at_most = 1", "when.parameters.n.at_most = 2"),
    ],
)
def test_a_row_that_something_reaches_is_none(first: str, second: str) -> None:
    """Rows that overlap are what a first match is for."""
    policy(row("one", first) + row("two", second, "deny"))


def test_every_mistake_is_named_at_once() -> None:
    """One round of mending is enough: mistakes of several rows come together, by line."""
    text = row("a", "when.kin = 1", "maybe") + row("b", "", "deny", "quorum = 0") + "[stray]\n"
    assert [(one.line, one.path) for one in mistakes(text)] == [
        (3, "row[0].outcome"),
        (6, "row[0].when.kin"),
        (11, "row[1].quorum"),
        (13, "stray"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 1, "must be given"),
        ("row = []", 1, "must be given"),
        ("[row]\nname = 'a'", 1, "must be given"),
        ("row = [1]", 1, "must be a table"),
        ("\na = ", 2, "not TOML"),
        ("#" * (POLICY_BYTES_MAX + 1), 1, f"The policy has more than {POLICY_BYTES_MAX} bytes"),
        (f"row = [{'{},' * (POLICY_ROWS_MAX + 1)}]", 1, "more than 256"),
    ],
)
def test_a_text_that_is_no_policy_is_refused_in_a_sentence(text: str, line: int, said: str) -> None:
    """Whatever the file holds, the answer is a line and a sentence, never a trace."""
    found = mistakes(text)
    assert found[0].line == line
    assert said in found[0].message


def test_mistakes_are_bounded() -> None:
    """A file that is all wrong gets as many mistakes as a person can use, and is told of more."""
    found = mistakes(f"row = [{'{},' * 100}]")
    assert len(found) == MISTAKES_MAX
    assert found[-1].message == f"And {300 - MISTAKES_MAX + 1} more from here on."


def test_the_desk_may_be_for_groups() -> None:
    """A table says who settles what needs a person; one that does not leaves it to everybody."""
    named = parse_policy(f'{TABLE}\n[review]\ngroups = ["finance", "managers"]\n')
    assert isinstance(named, Policy)
    assert named.review_groups == ("finance", "managers")
    unnamed = parse_policy(TABLE)
    assert isinstance(unnamed, Policy)
    assert unnamed.review_groups == ()


@pytest.mark.parametrize(
    ("review", "path"),
    [
        ("groups = []", "review.groups"),
        ('groups = "finance"', "review.groups"),
        ('groups = ["a b"]', "review.groups[0]"),
        ('groups = ["finance", "finance"]', "review.groups[1]"),
        ("group = []", "review.group"),
        ("", "review.groups"),
    ],
)
def test_a_desk_that_cannot_be_meant_is_refused(review: str, path: str) -> None:
    """Nobody, something that is no list, the same twice, a slip of the pen."""
    found = mistakes(f"{TABLE}\n[review]\n{review}\n")
    assert path in {mistake.path for mistake in found}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'{TABLE}\n[[row]]\n"[key]" = 1\n', "is not a known key here"),
        (f'"[key]" = 1\n{TABLE}', "is not a known key here"),
        (f'{TABLE}\n[[ceiling]]\nspend = {{ "[key]" = 1 }}\n', "currency"),
        (f'{TABLE}\n[review]\n"[key]" = []\n', "is not a known key here"),
    ],
)
def test_a_key_may_have_any_name_and_is_refused_under_it(text: str, said: str) -> None:
    """A name that a library uses for its own marks is named like any other."""
    found = mistakes(text)
    (named,) = (one for one in found if "[key]" in one.path)
    assert said in named.message


def test_a_character_that_cannot_be_kept_is_named_where_it_stands() -> None:
    """The name of a row stands in every decision under it, so it must fit into the database."""
    found = mistakes(TABLE.replace('reason = "', 'reason = "\\u0000', 1))
    assert [one.path for one in found if "U+0000" in one.message] == ["row[0].reason"]
    assert isinstance(parse_policy(TABLE.replace('reason = "', 'reason = "\\\\u0000', 1)), Policy)


def test_what_is_told_of_currencies_is_in_the_order_of_the_text() -> None:
    """In every process: what is told of a table that nobody adopts is recorded by each owner."""
    codes = ("USD", "CHF", "GBP", "JPY", "SEK", "NOK", "DKK")
    most = ", ".join(f"{code} = 9" for code in codes)
    text = changed(
        "amount.at_most = { EUR = 50_00, USD = 60_00 }",
        f"amount.above = {{ EUR = 1 }}\nwhen.amount.at_most = {{ EUR = 9, {most} }}",
    )
    told = [one.path.rpartition(".")[2] for one in mistakes(text) if "has no above" in one.message]
    assert told == list(codes)
