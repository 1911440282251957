"""Names in a table that a catalogue does not know."""

import pytest

from ledger.core.policy_names import unknown_names
from tests.policies import policy, policy_of, row
from tests.tree import ROOT
from tests.unit.test_catalogue import SMALL, catalogue

SHIPPED = catalogue((ROOT / "ledger" / "catalogue.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("when", "condition"),
    [
        ('when.operation = ["chrage"]', "operation"),
        ('when.provider = ["simulate"]', "provider"),
        ('when.account = ["mian"]', "account"),
        ('when.kind = ["message"]\nwhen.parameters.too.items_above = 1', "parameters.too"),
        # Of charges nobody knows a recipient, whatever other operations have.
        ('when.operation = ["charge"]\nwhen.parameters.to.items_above = 1', "parameters.to"),
    ],
)
def test_a_slip_of_the_pen_is_told(when: str, condition: str) -> None:
    """The row would never match, and nothing else would say so."""
    (unknown,) = unknown_names(policy(row("it", when) + row("rest")), SHIPPED)
    assert (unknown.row, unknown.condition) == ("it", condition)
    assert "the row it" in str(unknown)


@pytest.mark.parametrize(
    "when",
    [
        "",
        'when.operation = ["char*"]',
        'when.kind = ["deploy"]',
        'when.kind = ["deploy"]\nwhen.parameters.replicas.at_most = 1',
        "when.parameters.to.items_above = 1",
        'when.risk.ambiguity.at_least = "high"',
        'when.target = ["nowhere:*"]',
    ],
)
def test_what_may_still_come_is_no_slip(when: str) -> None:
    """Kinds and risks that no operation has yet, and anything that a request says."""
    assert unknown_names(policy(row("it", when)), SHIPPED) == ()


def test_the_shipped_table_knows_the_shipped_catalogue() -> None:
    """And examples are about operations of their own."""
    assert unknown_names(policy_of(ROOT / "ledger" / "policy.toml"), SHIPPED) == ()
    examples = ROOT / "examples" / "policies"
    assert unknown_names(policy_of(examples / "email.toml"), SHIPPED) == ()
    told = unknown_names(policy_of(examples / "email.toml"), catalogue(SMALL))
    assert {one.condition for one in told} >= {"operation"}
