"""The operation catalogue: whole, or refused with every mistake on its line."""

import hashlib
from importlib.resources import files

import pytest

from ledger.core.catalogue import Catalogue, Mistake, catalogue_hash, parse_catalogue
from ledger.core.ids import KeyAlphabet
from ledger.core.limits import (
    CATALOGUE_BYTES_MAX,
    CATALOGUE_OPERATIONS_MAX,
    MISTAKES_MAX,
)

SHIPPED = files("ledger").joinpath("catalogue.toml").read_text(encoding="utf-8")

SMALL = """\
[[operation]]
name = "charge"
version = 1
provider = "psp"
account = "main"
reliability = "keyed"
money = "required"
principals = ["agent:*", "user:anna"]
key_window_ms = 86_400_000
key_margin_ms = 600_000
settle_horizon_ms = 60_000
lookups = [1_000, 2_000]

[operation.target]
description = "The order."
prefix = "order:"

[operation.parameters.note]
type = "string"
length_max = 10

[operation.risk]
irreversibility = "low"
blast_radius = "low"
ambiguity = "low"
money_impact = "high"
security_impact = "none"

[operation.deadlines]
connect_ms = 2_000
response_ms = 10_000
step_ms = 60_000

[operation.retries]
attempts_max = 3
backoff_base_ms = 100
backoff_max_ms = 1_000
"""


def catalogue(text: str) -> Catalogue:
    """The catalogue of a text that has no mistakes."""
    parsed = parse_catalogue(text)
    assert isinstance(parsed, Catalogue), "\n".join(map(str, parsed))
    return parsed


def mistakes(text: str) -> tuple[Mistake, ...]:
    """The mistakes of a text that has some."""
    parsed = parse_catalogue(text)
    assert not isinstance(parsed, Catalogue)
    assert parsed
    return parsed


def changed(*changes: tuple[str, str]) -> str:
    """The small catalogue with lines replaced, each of which stands in it."""
    text = SMALL
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def test_the_shipped_catalogue_declares_what_the_tour_needs() -> None:
    """What is shipped is valid, has one operation of each class, and names what undoes each."""
    shipped = catalogue(SHIPPED)
    classes = {f"{one.name} v{one.version}": one.reliability for one in shipped.operations}
    assert classes == {
        "charge v1": "keyed",
        "refund v1": "keyed",
        "email v1": "none",
        "ticket v1": "lookup",
        "record.delete v1": "keyed",
        "record.restore v1": "keyed",
        "email.correction v1": "none",
    }
    assert {one.provider for one in shipped.operations} == {"simulated"}
    charge = shipped.operation("charge", 1)
    assert charge is not None
    assert charge.key_window_ms == 24 * 3_600_000
    undone = {one.name: one.compensation for one in shipped.operations if one.compensation}
    assert undone == {
        "charge": "refund",
        "email": "email.correction",
        "record.delete": "record.restore",
    }


def test_operations_are_found_by_name_and_version() -> None:
    """An operation or version that is not declared is not there."""
    small = catalogue(SMALL)
    assert small.operation("charge", 1) is small.operations[0]
    assert small.operation("charge", 2) is None
    assert small.operation("refund", 1) is None


def test_the_hash_is_of_the_text() -> None:
    """Every change of the text is another version of the configuration, comments included."""
    text = SMALL + "# a comment\n"
    domain = b"actionledger.catalogue.v1\n"
    expected = "sha256:" + hashlib.sha256(domain + text.encode()).hexdigest()
    assert catalogue(text).content_hash == catalogue_hash(text) == expected
    assert catalogue(SMALL).content_hash != expected


def test_what_is_not_declared_has_the_defaults_of_its_class() -> None:
    """Only who can tell a lost answer from no effect may try again, and only it is looked up."""
    keyed = catalogue(changed(("lookups = [1_000, 2_000]\n", ""))).operations[0]
    assert keyed.lookups == (30_000, 120_000, 600_000, 3_600_000, 21_600_000)
    shipped = catalogue(SHIPPED)
    email = shipped.operation("email", 1)
    assert email is not None
    assert (email.lookups, email.retries.attempts_max) == ((), 1)
    assert (email.look_alike_window_ms, email.second_attempt_after_absence) == (0, False)
    assert email.provider_key.alphabet is KeyAlphabet.PRINTABLE


def test_principals_are_matched_by_pattern() -> None:
    """A pattern allows what it spells, a star stands for any characters, case counts."""
    charge = catalogue(SMALL).operations[0]
    assert charge.allows("agent:billing")
    assert charge.allows("user:anna")
    assert not charge.allows("user:anna2")
    assert not charge.allows("Agent:billing")
    assert not charge.allows("user:agent:billing")


@pytest.mark.parametrize(
    ("old", "new", "line", "path", "said"),
    [
        # Shape.
        ("version = 1", 'version = "1"', 3, "version", "must be a whole number, not '1'"),
        ("version = 1", "version = 1.0", 3, "version", "must be a whole number"),
        ("version = 1", "version = true", 3, "version", "must be a whole number"),
        ("version = 1", "version = 0", 3, "version", "must be at least 1"),
        ("version = 1\n", "", 1, "version", "is missing"),
        ('name = "charge"', 'name = "Charge"', 2, "name", "is not the name of an operation"),
        ('provider = "psp"', 'provider = ""', 4, "provider", "is empty"),
        ('account = "main"', 'account = "a/b"', 5, "account", "not a component"),
        ('"keyed"', '"keyd"', 6, "reliability", "'keyed', 'reference', 'lookup' or 'none'"),
        ('money = "required"', "money = true", 7, "money", "'required', 'forbidden' or 'optional'"),
        ('["agent:*", "user:anna"]', "[]", 8, "principals", "at least 1 entries"),
        ('["agent:*", "user:anna"]', '"agent:*"', 8, "principals", "must be a list"),
        ('"user:anna"]', "3]", 8, "principals[1]", "must be a string"),
        ('"user:anna"]', '\n"user:?"]', 9, "principals[1]", "no other wildcard"),
        ("[1_000, 2_000]", "[1_000,\n 0]", 13, "lookups[1]", "must be at least 1"),
        ('prefix = "order:"', 'prefix = "order"', 16, "target.prefix", "end with a colon"),
        ("length_max = 10", "lenght_max = 10", 20, "parameters.note.lenght_max", "length_max?"),
        ('type = "string"', 'type = "float"', 19, "parameters.note.type", "'string', 'integer'"),
        ("parameters.note", 'parameters."a b"', 18, "parameters.a b", "not a component"),
        ('blast_radius = "low"\n', "", 22, "risk.blast_radius", "is missing"),
        ('ambiguity = "low"', 'ambiguity = "some"', 25, "risk.ambiguity", "'none', 'low'"),
        ("step_ms = 60_000", "step_ms = 60_000.5", 32, "deadlines.step_ms", "whole number"),
        ("attempts_max = 3", "attempts_max = 1000", 35, "retries.attempts_max", "at most 20"),
        ("money = ", 'colour = "red"\nmoney = ', 7, "colour", "is not a known key here"),
        ("money = ", "environments = []\nmoney = ", 7, "environments", "at least 1 entries"),
        ("money = ", 'environments = ["a?"]\nmoney = ', 7, "environments[0]", "wildcard"),
        ("money = ", 'api_key = "sk_1"\nmoney = ', 7, "api_key", "never goes into the log"),
        # Contradictions.
        ("connect_ms = 2_000", "connect_ms = 10_001", 30, "deadlines.connect_ms", "response_ms"),
        ("step_ms = 60_000", "step_ms = 9_999", 31, "deadlines.response_ms", "step_ms (9999)"),
        ("key_window_ms = 86_400_000\n", "", 1, "key_window_ms", "is missing"),
        ("600_000", "86_395_000", 10, "key_margin_ms", "leaves 5000 ms"),
        ("settle_horizon_ms = 60_000\n", "", 1, "settle_horizon_ms", "is missing"),
        ("[1_000, 2_000]", "[2_000, 2_000]", 12, "lookups[1]", "delays must grow"),
        ("[1_000, 2_000]", "[]", 12, "lookups", "cannot be empty"),
        ("backoff_base_ms = 100", "backoff_base_ms = 1_001", 36, "retries.backoff_base_ms", "1000"),
        ('money_impact = "high"', 'money_impact = "none"', 26, "risk.money_impact", "money"),
        (
            "lookups =",
            "second_attempt_after_absence = true\nlookups =",
            12,
            "second_attempt_after_absence",
            "class lookup only",
        ),
        ("lookups =", 'personal = ["to"]\nlookups =', 12, "personal[0]", "no parameter"),
        ("lookups =", 'volatile = ["to"]\nlookups =', 12, "volatile[0]", "read again"),
        # A parameter is part of what people sign: it never moves, and nobody reads it again.
        ("lookups =", 'volatile = ["note"]\nlookups =', 12, "volatile[0]", "never moves"),
        (
            "lookups =",
            'target_parameters = ["to"]\nlookups =',
            12,
            "target_parameters[0]",
            "no parameter",
        ),
        (
            "lookups =",
            'target_parameters = ["note"]\npersonal = ["note"]\nlookups =',
            12,
            "target_parameters[0]",
            "personal",
        ),
        ("lookups =", 'kind = "payment"\nlookups =', 12, "kind", "'read', 'message', 'money'"),
        (
            "lookups =",
            'preview = "provider"\nvolatile = ["b"]\nperformer = "caller"\nlookups =',
            13,
            "volatile",
            "read again by executors",
        ),
        ("lookups =", 'preview = "adapter"\nlookups =', 12, "preview", "'request' or 'provider'"),
        ("lookups =", "tolerances = { b = 1 }\nlookups =", 12, "tolerances.b", "does not name"),
        (
            "lookups =",
            'preview = "provider"\nvolatile = ["note"]\ntolerances = { note = 1 }\nlookups =',
            14,
            "tolerances.note",
            "no whole number",
        ),
        (
            "lookups =",
            'preview = "provider"\nvolatile = ["b"]\ntolerances = { b = -1 }\nlookups =',
            14,
            "tolerances.b",
            "at least 0",
        ),
        (
            "lookups =",
            "amount_multiple_of = { KWD = 1 }\nlookups =",
            12,
            "amount_multiple_of.KWD",
            "2",
        ),
        (
            "lookups =",
            "amount_multiple_of = { XXX = 10 }\nlookups =",
            12,
            "amount_multiple_of.XXX",
            "ISO 4217",
        ),
        ("lookups =", 'compensation = "undo"\nlookups =', 12, "compensation", "does not declare"),
        ("lookups =", 'compensation = "charge"\nlookups =', 12, "compensation", "itself"),
        (
            "lookups =",
            'compensation_target = "any"\nlookups =',
            12,
            "compensation_target",
            "no compensation is declared",
        ),
        ("length_max = 10", "minimum = 1", 20, "parameters.note.minimum", "the type string"),
        (
            "length_max = 10",
            "length_min = 5\nlength_max = 4",
            20,
            "parameters.note.length_min",
            "larger than length_max (4)",
        ),
    ],
)
def test_a_mistake_is_named_on_its_line(
    old: str, new: str, line: int, path: str, said: str
) -> None:
    """Whoever wrote the catalogue is led to the line, and told what is wrong there."""
    (mistake,) = mistakes(changed((old, new)))
    assert (mistake.line, mistake.path) == (line, f"operation[0].{path}"), mistake
    assert said in mistake.message
    assert str(mistake).startswith(f"line {line}: ")


def test_what_a_provider_observes_may_be_volatile() -> None:
    """Names that only the adapter knows need a dry run by the provider; they may have bounds."""
    more = 'kind = "money"\nvolatile = ["balance"]\ntolerances = { balance = 100 }\n'
    (mistake,) = mistakes(changed(("lookups =", f"{more}lookups =")))
    assert (mistake.line, mistake.path) == (13, "operation[0].volatile[0]")
    assert 'needs preview = "provider"' in mistake.message
    more += 'preview = "provider"\n'
    (operation,) = catalogue(changed(("lookups =", f"{more}lookups ="))).operations
    assert (operation.kind, operation.preview) == ("money", "provider")
    assert operation.tolerances == {"balance": 100}
    (plain,) = catalogue(SMALL).operations
    assert (plain.kind, plain.preview, plain.tolerances) == (None, "request", {})


def test_a_window_for_look_alikes_needs_a_target() -> None:
    """They are told at what they act on; without it nobody would ever look."""
    target = '[operation.target]\ndescription = "The order."\nprefix = "order:"\n'
    assert target in SMALL
    window = ("lookups =", "look_alike_window_ms = 60_000\nlookups =")
    (mistake,) = mistakes(changed((target, ""), window))
    assert (mistake.line, mistake.path) == (12, "operation[0].look_alike_window_ms")
    catalogue(changed(window))
    named = (window[0], f'target_parameters = ["note"]\n{window[1]}')
    catalogue(changed((target, ""), named))


def test_a_multiple_of_no_money_means_nothing() -> None:
    """Who takes no money takes none in any multiple."""
    no_money = (('"required"', '"forbidden"'), ('money_impact = "high"', 'money_impact = "none"'))
    rule = ("lookups =", "amount_multiple_of = { KWD = 10 }\nlookups =")
    (mistake,) = mistakes(changed(*no_money, rule))
    assert (mistake.line, mistake.path) == (12, "operation[0].amount_multiple_of")


def test_nothing_is_an_amount_only_where_money_moves() -> None:
    """An operation that takes no money has no rule for none of it."""
    no_money = (('"required"', '"forbidden"'), ('money_impact = "high"', 'money_impact = "none"'))
    (mistake,) = mistakes(changed(*no_money, ("lookups =", "allows_zero = true\nlookups =")))
    assert (mistake.line, mistake.path) == (12, "operation[0].allows_zero")


def test_what_moves_money_has_an_impact() -> None:
    """The kind of an operation and its declared risk cannot contradict each other."""
    no_money = (('"required"', '"forbidden"'), ('money_impact = "high"', 'money_impact = "none"'))
    (mistake,) = mistakes(changed(*no_money, ("lookups =", 'kind = "money"\nlookups =')))
    assert (mistake.line, mistake.path) == (27, "operation[0].risk.money_impact")
    assert "of the kind money" in mistake.message
    catalogue(changed(*no_money))


KEYED_ONLY = (
    ("key_window_ms = 86_400_000\n", ""),
    ("key_margin_ms = 600_000\n", ""),
)
UNFINDABLE = (*KEYED_ONLY, ("settle_horizon_ms = 60_000\n", ""), ("lookups = [1_000, 2_000]\n", ""))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            (('"keyed"', '"reference"'),),
            [(9, "key_window_ms"), (10, "key_margin_ms")],
        ),
        (
            (('"keyed"', '"lookup"'), *KEYED_ONLY),
            [(33, "retries.attempts_max")],
        ),
        (
            (('"keyed"', '"none"'), *UNFINDABLE),
            [(31, "retries.attempts_max")],
        ),
        (
            (('"keyed"', '"none"'), *KEYED_ONLY, ("attempts_max = 3", "attempts_max = 1")),
            [(9, "settle_horizon_ms"), (10, "lookups")],
        ),
        (
            (
                ('"keyed"', '"lookup"'),
                *KEYED_ONLY,
                ("lookups =", "second_attempt_after_absence = true\nlookups ="),
            ),
            [(34, "retries.attempts_max")],
        ),
    ],
)
def test_a_class_cannot_promise_what_it_lacks(
    changes: tuple[tuple[str, str], ...], expected: list[tuple[int, str]]
) -> None:
    """Keys, lookups and second attempts belong to the classes that can bear them."""
    found = mistakes(changed(*changes))
    assert [(mistake.line, mistake.path) for mistake in found] == [
        (line, f"operation[0].{path}") for line, path in expected
    ]


def test_every_mistake_is_named_at_once() -> None:
    """One round of mending is enough: mistakes of several operations come together, by line."""
    second = changed(("version = 1", "version = 2"), ('"psp"', '"p s p"'))
    third = changed(('name = "charge"', 'nome = "charge"'))
    found = mistakes(SMALL + second + third + "[stray]\n")
    assert [(mistake.line, mistake.path) for mistake in found] == [
        (41, "operation[1].provider"),
        (75, "operation[2].name"),
        (76, "operation[2].nome"),
        (112, "stray"),
    ]


def test_a_default_that_follows_from_a_mistake_is_none() -> None:
    """Nobody wrote `lookups` or `retries`, and nobody is told of a mistake in them."""
    text = changed(
        ('reliability = "keyed"', 'reliability = "maybe"'),
        ("lookups = [1_000, 2_000]\n", ""),
        ("[operation.retries]\n", ""),
        ("attempts_max = 3\nbackoff_base_ms = 100\nbackoff_max_ms = 1_000\n", ""),
    )
    (mistake,) = mistakes(text)
    assert mistake.path == "operation[0].reliability"


def test_a_misspelt_table_is_unknown_and_missing() -> None:
    """A slip in a table's name is told with the name that was meant, beside what is now missing."""
    missing, unknown = mistakes(changed(("[operation.risk]", "[operation.risks]")))
    assert (missing.line, missing.path) == (1, "operation[0].risk")
    assert (unknown.line, unknown.path) == (22, "operation[0].risks")
    assert "did you mean risk?" in unknown.message


def test_an_operation_is_declared_once() -> None:
    """Two declarations of one version are a mistake at the second; two versions are none."""
    (mistake,) = mistakes(SMALL + SMALL)
    assert (mistake.line, mistake.path) == (39, "operation[1].name")
    assert "charge v1 is declared twice" in mistake.message
    two = catalogue(SMALL + changed(("version = 1", "version = 2")))
    assert [operation.version for operation in two.operations] == [1, 2]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 1, "must be given"),
        ("operation = 1", 1, "must be given"),
        ("[operation]\na = 1", 1, "must be given"),
        ("operation = [1]", 1, "must be a table"),
        ("\n\na = ", 3, "not TOML"),
        ("a = 1\nb = 1\na = 2\nc = 3", 3, "not TOML"),
        ("a = '''\n\n", 3, "not TOML"),
        (f"a = {'[' * 5_000}", 1, "nested too deeply"),
        (f"a = {'1' * 5_000}", 1, "too long"),
        ("a = '\ud83d'", 1, "not Unicode"),
        ("a = '\0'", 1, "not TOML"),
        ("#" * (CATALOGUE_BYTES_MAX + 1), 1, f"{CATALOGUE_BYTES_MAX} bytes"),
        ("#" + "é" * (CATALOGUE_BYTES_MAX // 2), 1, f"{CATALOGUE_BYTES_MAX} bytes"),
        (f"operation = [{'{},' * (CATALOGUE_OPERATIONS_MAX + 1)}]", 1, "more than 512"),
    ],
)
def test_a_text_that_is_no_catalogue_is_refused_in_a_sentence(
    text: str, line: int, said: str
) -> None:
    """Whatever the file holds, the answer is a line and a sentence, never a trace."""
    found = mistakes(text)
    assert found[0].line == line
    assert said in found[0].message


def test_mistakes_are_bounded() -> None:
    """A file that is all wrong gets as many mistakes as a person can use."""
    assert len(mistakes(f"operation = [{'{},' * 100}]")) == MISTAKES_MAX
