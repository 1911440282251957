"""From one catalogue to another: everything is named, and what breaks a caller is called so."""

import pytest

from ledger.core import catalogue_changes as module
from ledger.core.catalogue_changes import CatalogueChange, catalogue_changes
from ledger.core.operation import Operation
from tests.unit.test_catalogue import SMALL, catalogue, changed


def changes(*replaced: tuple[str, str], begin: str = SMALL) -> tuple[CatalogueChange, ...]:
    """From a catalogue to the one with these lines replaced."""
    text = begin
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    return catalogue_changes(catalogue(begin), catalogue(text))


@pytest.mark.parametrize(
    ("old", "new", "path", "is_breaking"),
    [
        ('"agent:*", "user:anna"', '"agent:*"', "principals", True),
        ('"agent:*", "user:anna"', '"*"', "principals", False),
        ('"agent:*", "user:anna"', '"agent:*", "user:anna", "bot"', "principals", False),
        ('money = "required"', 'money = "optional"', "money", False),
        ('money = "required"', 'money = "forbidden"', "money", True),
        (
            "lookups =",
            "amount_multiple_of = { KWD = 10 }\nlookups =",
            "amount_multiple_of.KWD",
            True,
        ),
        ('provider = "psp"', 'provider = "bank"', "provider", True),
        ('account = "main"', 'account = "other"', "account", True),
        ('prefix = "order:"', 'prefix = "order-x:"', "target.prefix", True),
        ('prefix = "order:"\n', "", "target.prefix", False),
        ('prefix = "order:"', 'prefix = "order:"\nrequired = false', "target.required", False),
        ('description = "The order."', 'description = "Another."', "target.description", False),
        ("length_max = 10", "length_max = 9", "parameters.note.length_max", True),
        ("length_max = 10", "length_max = 11", "parameters.note.length_max", False),
        ("length_max = 10\n", "", "parameters.note.length_max", False),
        ("length_max = 10", "length_max = 10\nlength_min = 1", "parameters.note.length_min", True),
        ("length_max = 10", "length_max = 10\nrequired = false", "parameters.note.required", False),
        ("length_max = 10", 'length_max = 10\nvalues = ["a"]', "parameters.note.values", True),
        (
            "length_max = 10",
            'length_max = 10\ndescription = "d"',
            "parameters.note.description",
            False,
        ),
        ('type = "string"', 'type = "identifier"', "parameters.note.type", True),
        ("lookups = [1_000, 2_000]", "lookups = [1_000]", "lookups", False),
        ("step_ms = 60_000", "step_ms = 70_000", "deadlines.step_ms", False),
        ("attempts_max = 3", "attempts_max = 4", "retries.attempts_max", False),
        ('ambiguity = "low"', 'ambiguity = "high"', "risk.ambiguity", False),
        ("lookups =", 'kind = "money"\nlookups =', "kind", False),
        ("lookups =", 'personal = ["note"]\nlookups =', "personal", False),
        ("lookups =", 'performer = "either"\nlookups =', "performer", False),
        ("lookups =", 'target_parameters = ["note"]\nlookups =', "target_parameters", False),
        ("lookups =", 'performer = "caller"\nlookups =', "performer", True),
        (
            "lookups =",
            "provider_key.length_max = 40\nlookups =",
            "provider_key.length_max",
            True,
        ),
        ("lookups =", "look_alike_window_ms = 60_000\nlookups =", "look_alike_window_ms", False),
    ],
)
def test_a_difference_is_named_and_weighed(
    old: str,
    new: str,
    path: str,
    is_breaking: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """Each on its place, and breaking where a request may be refused or the effect moves."""
    (change,) = changes((old, new))
    assert (change.operation, change.path, change.is_breaking) == ("charge v1", path, is_breaking)
    assert change.was != change.now
    assert change.says


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ('prefix = "order:"\n', "", "target.prefix"),
        ('prefix = "order:"', 'prefix = "order:"\nrequired = false', "target.required"),
        ("length_max = 10\n", "", "parameters.note.length_max"),
        ("length_max = 10", "length_max = 10\nrequired = false", "parameters.note.required"),
        ("lookups =", 'personal = ["note"]\nlookups =', "personal"),
        ('money = "required"', 'money = "optional"', "money"),
    ],
)
def test_the_way_back_of_what_opens_breaks(old: str, new: str, path: str) -> None:
    """What gave more room cannot be taken back unnoticed."""
    (change,) = catalogue_changes(catalogue(changed((old, new))), catalogue(SMALL))
    assert (change.path, change.is_breaking) == (path, True)


def test_coarser_amounts_break_and_finer_ones_do_not() -> None:
    """An amount that was taken may be refused unless the new multiple divides the old one."""

    def multiple(of: int) -> str:
        return changed(("lookups =", f"amount_multiple_of = {{ KWD = {of} }}\nlookups ="))

    for was, now, is_breaking in ((10, 5, False), (10, 20, True), (10, 4, True)):
        (change,) = catalogue_changes(catalogue(multiple(was)), catalogue(multiple(now)))
        assert (change.path, change.is_breaking) == ("amount_multiple_of.KWD", is_breaking)
    (gone,) = catalogue_changes(catalogue(multiple(10)), catalogue(SMALL))
    assert (gone.now, gone.is_breaking) == ("(absent)", False)


def test_refusing_nothing_breaks_and_taking_it_does_not() -> None:
    """Whoever checked cards with 0 is refused; nobody else notices."""
    no, yes = SMALL, changed(("lookups =", "allows_zero = true\nlookups ="))
    for was, now, is_breaking in ((no, yes, False), (yes, no, True)):
        (change,) = catalogue_changes(catalogue(was), catalogue(now))
        assert (change.path, change.is_breaking) == ("allows_zero", is_breaking)


def test_where_an_account_is_for_is_told_by_what_is_refused() -> None:
    """Fewer environments refuse requests for the others; more refuse nobody."""
    live = changed(("lookups =", 'environments = ["live", "eu-*"]\nlookups ='))
    lost, *came = catalogue_changes(catalogue(SMALL), catalogue(live))
    assert (lost.path, lost.was, lost.is_breaking) == ("environments", "*", True)
    assert came == []
    back = catalogue_changes(catalogue(live), catalogue(SMALL))
    assert [(one.now, one.is_breaking) for one in back] == [("*", False)]


def test_what_is_read_again_before_acting_is_named() -> None:
    """Whoever agrees is shown it from then on, and no request is refused for it."""
    told = 'preview = "provider"\nlookups ='
    was = changed(("lookups =", told))
    now = changed(("lookups =", f'volatile = ["stock"]\ntolerances = {{ stock = 2 }}\n{told}'))
    found = catalogue_changes(catalogue(was), catalogue(now))
    assert [(one.path, one.is_breaking) for one in found] == [
        ("volatile", False),
        ("tolerances.stock", False),
    ]
    assert (found[1].was, found[1].now) == ("(absent)", "2")


def test_no_value_is_shown_as_the_program_writes_it() -> None:
    """Of a table the one member that differs, and a target in words: nobody reads dictionaries."""
    (change,) = changes(("step_ms = 60_000", "step_ms = 70_000"))
    assert (change.was, change.now) == ("60000", "70000")
    (gone,) = changes(('[operation.target]\ndescription = "The order."\nprefix = "order:"\n', ""))
    assert gone.was == "description: The order., prefix: order:"


def test_who_notices_a_window_for_look_alikes_is_told() -> None:
    """It neither delays nor repeats anything: it has a second request held back."""
    (change,) = changes(("lookups =", "look_alike_window_ms = 60_000\nlookups ="))
    assert "under another key" in change.says


def test_operations_come_and_go() -> None:
    """What is new may be asked for; what is gone breaks whoever asked for it."""
    two = SMALL + SMALL.replace("version = 1", "version = 2")
    (came,) = catalogue_changes(catalogue(SMALL), catalogue(two))
    assert (came.operation, came.path, came.is_breaking) == ("charge v2", "", False)
    (went,) = catalogue_changes(catalogue(two), catalogue(SMALL))
    assert (went.operation, went.now, went.is_breaking) == ("charge v2", "(absent)", True)


def test_parameters_and_targets_come_and_go() -> None:
    """A required one breaks whoever does not send it, and one that is gone whoever does."""
    more = '[operation.parameters.more]\ntype = "string"\n\n[operation.risk]'
    (required,) = changes(("[operation.risk]", more))
    assert (required.path, required.is_breaking) == ("parameters.more", True)
    optional = more.replace('"string"', '"string"\nrequired = false')
    (change,) = changes(("[operation.risk]", optional))
    assert not change.is_breaking
    without = changed(
        ("[operation.parameters.note]\n", ""), ('type = "string"\n', ""), ("length_max = 10\n", "")
    )
    (gone,) = catalogue_changes(catalogue(SMALL), catalogue(without))
    assert (gone.path, gone.is_breaking) == ("parameters.note", True)
    target = '[operation.target]\ndescription = "The order."\nprefix = "order:"\n'
    (gone,) = changes((target, ""))
    assert (gone.path, gone.is_breaking) == ("target", True)
    (came,) = catalogue_changes(catalogue(changed((target, ""))), catalogue(SMALL))
    assert (came.path, came.is_breaking) == ("target", True)


def test_bounds_of_the_installation_are_named() -> None:
    """They are no operation's."""
    (change,) = changes(("[[operation]]", "[timing]\nskew_ms = 4_000\n\n[[operation]]"))
    assert (change.operation, change.path) == ("", "timing.skew_ms")
    assert (change.was, change.now, change.is_breaking) == ("5000", "4000", False)


def test_a_comment_is_no_difference() -> None:
    """Only what is declared counts."""
    assert changes(("[[operation]]", "# more\n[[operation]]")) == ()


def test_every_field_of_an_operation_is_compared() -> None:
    """A field that somebody adds to the declaration is not forgotten here."""
    tables = (
        *(module._MOVES_THE_EFFECT, module._WAITS, module._TIMES),
        *(module._RULES, module._OTHERS, module._LOOK_ALIKES),
    )
    own = {
        "name",
        "version",
        "money",
        "allows_zero",
        "amount_multiple_of",
        "target",
        "parameters",
        "personal",
        "principals",
        "environments",
        "performer",
        "compensation_target",
    }
    assert {name for table in tables for name in table} | own == set(Operation.model_fields)


def test_where_an_undo_may_act_is_told_by_who_is_refused() -> None:
    """To let it act anywhere refuses nobody; to bind it to the target again does."""
    anywhere = 'compensation_target = "any"\n'
    begin = SMALL.replace("lookups =", f'{anywhere}compensation = "undo"\nlookups =')
    begin += SMALL.replace('name = "charge"', 'name = "undo"')
    (narrower,) = changes((anywhere, ""), begin=begin)
    assert (narrower.path, narrower.is_breaking) == ("compensation_target", True)
    (wider,) = catalogue_changes(catalogue(begin.replace(anywhere, "")), catalogue(begin))
    assert (wider.path, wider.is_breaking) == ("compensation_target", False)
