"""The decision table on a running installation, as an operator uses it: shown, explained, tried on
what was asked before, published. One installation for all, from the first test to the last.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.command import Installation, running
from tests.patience import PATIENCE_SECONDS
from tests.tree import ROOT

pytestmark = pytest.mark.servers

CHARGE = "charge:v1:acme:invoice-1"
REFUND = "refund:v1:acme:return-1"
LOOK_S = 0.05


def intent(operation: str, event: str, minor: int, currency: str = "EUR") -> str:
    """An intent as a file holds it."""
    params = {"charge": "ch_1"} if operation == "refund" else {}
    return json.dumps(
        {
            "operation": operation,
            "version": 1,
            "business_event": event,
            "target": "order:A-1842",
            "params": params,
            "money": {"minor": minor, "currency": currency},
            "environment": "test",
        }
    )


@pytest.fixture(scope="module")
def here() -> Iterator[Installation]:
    """An installation that runs under the shipped policy, with a charge that went ahead by itself
    and two refunds that wait for people.
    """
    with running("policy") as installation:
        charge = intent("charge", "invoice-1", 49_90)
        done = installation.json("propose", "--file", "-", "--wait", given=charge)
        assert (done.code, done.result["status"]) == (0, "completed"), done.out + done.err
        for event, currency in (("return-1", "EUR"), ("return-2", "SEK")):
            refund = intent("refund", event, 120_00, currency)
            waits = installation.json("propose", "--file", "-", given=refund)
            assert waits.code == 0, waits.out + waits.err
            assert waits.result["status"] == "awaiting_approval"
            explained(installation, f"refund:v1:acme:{event}")
        explained(installation, CHARGE)
        yield installation


def explained(here: Installation, *arguments: str) -> Any:  # noqa: ANN401 - as free as JSON is
    """What `policy explain` says, once the projector has got there."""
    deadline_s = time.monotonic() + PATIENCE_SECONDS
    while (said := here.json("policy", "explain", *arguments)).code != 0:
        assert time.monotonic() < deadline_s, said.out + said.err
        time.sleep(LOOK_S)
    return said.result


def test_the_shipped_policy_is_in_force(here: Installation) -> None:
    """Its rows are shown, and its text comes back as it was shipped, comments included."""
    shipped = (ROOT / "ledger" / "policy.toml").read_text(encoding="utf-8")
    assert here.run("policy", "show", "--source").out == shipped
    rows = here.json("policy", "show").result["rows"]
    assert "small-payment" in [one["name"] for one in rows]
    shipped = (ROOT / "ledger" / "catalogue.toml").read_text(encoding="utf-8")
    assert here.run("catalogue", "show", "--source").out == shipped


def test_an_action_is_explained_row_by_row(here: Installation) -> None:
    """Which row ruled, which conditions held and which did not, and what was missing."""
    refund = explained(here, REFUND)
    assert (refund["row"], refund["outcome"], refund["missing"]) == ("payment", "confirmation", [])
    assert refund["in_force"]
    assert refund["recorded"]["row"] == "payment"
    small = next(one for one in refund["rows"] if one["name"] == "small-payment")
    amount = next(one for one in small["conditions"] if one["name"] == "amount")
    assert (amount["found"], amount["holds"]) == ("120.00 EUR", False)
    swedish = explained(here, "refund:v1:acme:return-2")
    assert (swedish["row"], swedish["outcome"]) == ("large-payment", "people")
    assert swedish["missing"] == ["amount in SEK"]
    told = here.run("policy", "explain", "refund:v1:acme:return-2").out
    assert "missing: amount in SEK" in told
    assert "120.00 SEK, which cannot be compared" in told
    assert explained(here, CHARGE)["row"] == "small-payment"
    assert here.json("policy", "explain", "refund:v1:acme:none").code == 1


def test_another_policy_is_tried_on_what_was_asked(here: Installation) -> None:
    """What would have gone otherwise is counted from row to row, and nothing changes."""
    payments = str(ROOT / "examples" / "policies" / "payments.toml")
    tried = here.json("policy", "whatif", "--policy", payments, "--since", "1h")
    assert tried.code == 3, tried.out + tried.err
    assert (tried.result["intents"], tried.result["missing"]) == (3, {"amount in SEK": 1})
    would_be = {one["would_be"]["row"] for one in tried.result["moves"]}
    assert would_be == {"payment", "refund", "large"}
    assert (
        "3; otherwise would have gone 3" in here.run("policy", "whatif", "--policy", payments).out
    )
    same = str(ROOT / "ledger" / "policy.toml")
    assert here.json("policy", "whatif", "--policy", same).code == 0
    assert explained(here, REFUND)["recorded"]["row"] == "payment"


def test_a_published_policy_rules_from_then_on(here: Installation, tmp_path: Path) -> None:
    """It is adopted everywhere before the command returns; an earlier ruling can still be told."""
    shipped = (ROOT / "ledger" / "policy.toml").read_text(encoding="utf-8")
    lower = tmp_path / "policy.toml"
    lower.write_text(shipped.replace("EUR = 500_00", "EUR = 100_00"), encoding="utf-8")
    published = here.json("policy", "publish", str(lower))
    assert published.code == 0, published.out + published.err
    assert (published.result["published"], published.result["adopted"]) == (True, True)
    again = here.json("policy", "publish", str(lower))
    assert (again.code, again.result["published"]) == (0, False)
    assert explained(here, REFUND)["row"] == "large-payment"
    charge = explained(here, CHARGE, "--as-decided")
    assert (charge["row"], charge["in_force"]) == ("small-payment", False)


def test_a_catalogue_is_compared_with_the_one_in_force(here: Installation, tmp_path: Path) -> None:
    """The shipped one is no difference; a narrower parameter breaks whoever asks."""
    shipped = ROOT / "ledger" / "catalogue.toml"
    assert here.json("catalogue", "diff", str(shipped)).code == 0
    narrower = tmp_path / "catalogue.toml"
    text = shipped.read_text(encoding="utf-8")
    narrower.write_text(text.replace("length_max = 64", "length_max = 32", 1), encoding="utf-8")
    compared = here.json("catalogue", "diff", str(narrower))
    assert (compared.code, compared.result["breaking"]) == (3, 1)
    assert here.json("catalogue", "show", "charge").result["operations"][0]["kind"] == "money"
