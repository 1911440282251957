"""What is used of a ceiling, reserved and left; and whose word it is."""

import pytest

from gateway.cli.runs import bar_lines
from gateway.console.runs import bars
from gateway.http.budgets import (
    BudgetView,
    budget_line,
    budgets_of_run,
    limits_words,
    measured,
    run_sentence,
)
from gateway.http.run_views import ceiling_list
from gateway.http.windows import gates_of_windows
from ledger.core.policy import Policy, parse_policy
from projections.query_rows import GateRow

NOW = 1_796_000_000_000
TEXT = """
[[ceiling]]
name = "run"
per = "run"
side_effects = 4
spend = { EUR = 10_000 }
wall_clock_ms = 60_000
tokens = 1_000

[[ceiling]]
name = "day"
per = "tenant"
window = "day"
spend = { EUR = 50_000 }

[[ceiling]]
name = "order"
per = "target"
window = "week"
side_effects = 2

[[row]]
name = "all"
outcome = "automatic"
ceilings = ["run", "day", "order"]
reason = "All counts."
"""


@pytest.fixture(scope="module")
def policy() -> Policy:
    """A table with ceilings of three kinds."""
    parsed = parse_policy(TEXT)
    assert isinstance(parsed, Policy)
    return parsed


def gate(key: str = "acme/run:r1", **changes: object) -> GateRow:
    """A gate that has counted something."""
    kind, _, name = key.partition("/")[2].partition(":")
    fields: dict[str, object] = {
        "tenant_id": key.partition("/")[0],
        "gate_key": key,
        "kind": kind,
        "name": name,
        "version": 3,
        "used": {},
        "reserved": {},
        "granted": 0,
        "queued": 0,
        "holder": None,
        "opened_at": NOW - 15_000,
        "updated_at": NOW,
        "partition": 0,
        "ledger_offset": 9,
    }
    return GateRow(**(fields | changes))  # type: ignore[arg-type] # as free as a row is


def by_dimension(found: tuple[BudgetView, ...]) -> dict[str, BudgetView]:
    """Budgets by their dimension."""
    return {one.dimension: one for one in found}


def test_what_is_used_reserved_and_left_is_told_of_every_limit(policy: Policy) -> None:
    """Also of what nobody has touched, and of time, which runs by itself."""
    counted = gate(used={"side_effects": 2, "tokens": 400}, reserved={"side_effects": 1})
    found = by_dimension(budgets_of_run(counted, policy, NOW))
    assert (found["side_effects"].used, found["side_effects"].reserved) == (2, 1)
    assert (found["side_effects"].left, found["side_effects"].is_reached) == (1, False)
    assert (found["spend.EUR"].used, found["spend.EUR"].left) == (0, 10_000)
    assert (found["wall_clock_ms"].used, found["wall_clock_ms"].left) == (15_000, 45_000)
    assert (found["tokens"].kind, found["side_effects"].kind) == ("self_reported", "enforced")


def test_before_anything_is_counted_everything_is_left(policy: Policy) -> None:
    """No gate is a gate that has counted nothing; its time has not begun."""
    found = budgets_of_run(None, policy, NOW)
    assert all(one.used == one.reserved == 0 and one.left == one.limit for one in found)


def test_a_currency_that_is_not_named_may_not_be_spent(policy: Policy) -> None:
    """Where it was all the same, by a signature, nothing of it is left."""
    found = by_dimension(budgets_of_run(gate(used={"spend.USD": 500}), policy, NOW))
    assert (found["spend.USD"].limit, found["spend.USD"].is_reached) == (0, True)


def test_what_nothing_limits_is_told_without_a_limit(policy: Policy) -> None:
    """Tool calls are counted though no ceiling names them."""
    found = by_dimension(budgets_of_run(gate(used={"tool_calls": 7}), policy, NOW))
    assert (found["tool_calls"].ceiling, found["tool_calls"].limit) == (None, None)
    assert budget_line(found["tool_calls"]) == "7 used, no ceiling"


def test_what_was_let_pass_leaves_nothing_rather_than_less(policy: Policy) -> None:
    """More than the limit is used once somebody has signed it."""
    found = by_dimension(budgets_of_run(gate(used={"side_effects": 6}), policy, NOW))
    assert (found["side_effects"].left, found["side_effects"].is_reached) == (0, True)


def test_the_sentence_tells_the_model_what_is_left_or_what_it_must_not_do(policy: Policy) -> None:
    """Amounts with what they are of, and whose word they are."""
    told = run_sentence("r1", budgets_of_run(gate(used={"tokens": 400}), policy, NOW))
    assert "4 of 4 side effects" in told
    assert "100.00 EUR of 100.00 EUR" in told
    assert "600 of 1,000 tokens (as you report)" in told
    told = run_sentence("r1", budgets_of_run(gate(used={"tokens": 1_200}), policy, NOW))
    assert told.startswith("The run r1 has reached run: 1,200 of 1,000 tokens (as you report).")
    assert "do not go on under the name of another run" in told
    assert run_sentence("r1", ()) == "No ceiling limits the run r1."


@pytest.mark.parametrize(
    ("dimension", "amount", "said"),
    [
        ("side_effects", 1, "1 side effect"),
        ("tool_calls", 2_000, "2,000 tool calls"),
        ("spend.JPY", 500, "500 JPY"),
        ("wall_clock_ms", 5_400_000, "1 h 30 min of time"),
    ],
)
def test_amounts_are_written_as_people_write_them(dimension: str, amount: int, said: str) -> None:
    """Each with what it is of."""
    assert measured(dimension, amount) == said
    assert limits_words({dimension: amount}) == said


def test_a_little_is_never_shown_as_nothing(policy: Policy) -> None:
    """At the terminal and on the page; and more than all is all."""
    found = budgets_of_run(gate(used={"spend.EUR": 1, "side_effects": 9}), policy, NOW)
    drawn = {line.plain.split("  ")[1].strip(): line.plain for line in bar_lines(found)}
    assert drawn["run EUR"].count("█") == 1
    assert drawn["run side effects"].count("█") == 24
    assert "reached" in drawn["run side effects"]
    widths = {one.name: (one.used, one.reserved) for one in bars(found)}
    assert (widths["EUR"], widths["side effects"]) == ((1, 0), (100, 0))


def test_windows_of_now_are_those_of_the_tenant(policy: Policy) -> None:
    """The window of the tenant, touched or not; of targets those that have taken something."""
    day = policy.ceilings[1].gate("acme", None, None, NOW)
    week = policy.ceilings[2].gate("acme", None, "order:A-1", NOW)
    assert day is not None
    assert week is not None
    gates = {
        one.gate_key: one
        for one in (
            gate(day, used={"spend.EUR": 700}),
            gate(week, used={"side_effects": 1}),
            gate(week.replace("acme", "globex"), used={"side_effects": 2}),
            gate(week.replace("W", "W0"), used={"side_effects": 2}),
        )
    }
    found = {one.name: one for one in ceiling_list("acme", gates, policy, NOW).ceilings}
    assert found["run"].windows == ()
    (window,) = found["day"].windows
    assert window.budgets[0].used == 700
    (target,) = found["order"].windows
    assert (target.target, target.budgets[0].used) == ("order:A-1", 1)
    assert (found["day"].zone, found["run"].window) == ("UTC", None)


class _Tables:
    """A read model whose newest windows leave out the one of the tenant."""

    def __init__(self, *gates: GateRow) -> None:
        self.gates = {one.gate_key: one for one in gates}

    async def gate(self, tenant: str, gate_key: str) -> GateRow | None:
        """A gate of the tenant."""
        found = self.gates.get(gate_key)
        return found if found is not None and found.tenant_id == tenant else None

    async def windows(self, tenant: str, *, limit: int) -> tuple[GateRow, ...]:
        """None of those that are asked for."""
        return ()


async def test_the_window_of_the_tenant_is_found_behind_any_number_of_others(
    policy: Policy,
) -> None:
    """It was opened first that day, and many targets since."""
    day = policy.ceilings[1].gate("acme", None, None, NOW)
    assert day is not None
    found = await gates_of_windows(_Tables(gate(day)), "acme", policy, NOW)
    assert set(found) == {day}
    assert await gates_of_windows(_Tables(gate(day)), "globex", policy, NOW) == {}
