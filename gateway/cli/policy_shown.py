"""How a decision table, an explanation and a comparison look: as JSON, and for a person.

Called by `policy`.
"""

from typing import TYPE_CHECKING, Any, Final

from ledger.core.conditions import conditions
from ledger.core.policy import AUTOMATIC, BEFORE_THE_TABLE, Asks, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from gateway.wiring.policy_desk import Explained
    from ledger.audit.whatif import Move, Said, WhatIf
    from ledger.core.policy import Gates, Policy, Row, Ruling
    from ledger.core.policy_tried import RowTried, Tried

_COLOURS: Final = {
    Outcome.AUTOMATIC: "green",
    Outcome.CONFIRMATION: "yellow",
    Outcome.PEOPLE: "magenta",
    Outcome.DENY: "red",
}
_MARKS: Final = {True: "[green]✓[/]", False: "[red]✗[/]", None: "[yellow]?[/]"}
WIDE_COLUMNS: Final = 100
_NARROW: Final = {"outcome": 16, "passes": 12}
"""How wide the columns are at most that give way to the names of conditions."""
_DEFAULT_REASON: Final = "No row matches: one person is asked."


def row_result(row: "Row") -> dict[str, Any]:
    """A row as JSON has it: conditions in words, so that they read as they are shown."""
    return {
        "name": row.name,
        "when": {one.name: one.wanted for one in conditions(row.when)},
        "outcome": row.outcome,
        "asks": row.asks,
        "ceilings": row.ceilings,
        "block_target": row.block_target,
        "reason": row.reason,
    }


def ceilings_result(policy: "Policy") -> list[dict[str, Any]]:
    """The ceilings as JSON."""
    from gateway.http.budgets import ceiling_view

    return [ceiling_view(one).model_dump(exclude_none=True) for one in policy.ceilings]


def show_rows(console: "Console", policy: "Policy", notes: "Sequence[object]" = ()) -> None:
    """Every row in order, with what it asks for; then what is hardly meant."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    has_gates = any(row.gates is not None for row in policy.rows)
    for name in ("row", "when", "outcome", *(("passes",) if has_gates else ())):
        # The longest name of a condition stays whole, also where the terminal is narrow.
        most = _NARROW.get(name) if console.width < WIDE_COLUMNS else None
        table.add_column(name, overflow="fold", max_width=most)
    for row in policy.rows:
        when = "\n".join(f"{one.name}: {one.wanted}" for one in conditions(row.when))
        passes = (escape(passed(row.gates)),) if has_gates else ()
        outcome = _outcome(row.outcome, row.asks)
        table.add_row(escape(row.name), escape(when or "always"), outcome, *passes)
    console.print(table)
    _show_ceilings(console, policy)
    reviewers = ", ".join(policy.review_groups) or "anybody registered for the tenant"
    console.print(f"Cases are settled by {escape(reviewers)}.", soft_wrap=True)
    if policy.content_hash == AUTOMATIC.content_hash:
        console.print("[dim]No policy has been published.[/]")
    for one in notes:
        console.print(f"[yellow]?[/] {escape(str(one))}", soft_wrap=True)
    console.print(f"[dim]{policy.content_hash}[/]")


def passed(gates: "Gates | None") -> str:
    """What a row has an action pass, in words."""
    if gates is None:
        return ""
    ceilings = f"ceilings {', '.join(gates.ceilings)}" if gates.ceilings else ""
    target = "one at a time on its target" if gates.target else ""
    return "; ".join(part for part in (ceilings, target) if part)


def _show_ceilings(console: "Console", policy: "Policy") -> None:
    from rich.markup import escape

    from gateway.http.budgets import ceiling_view, limits_words

    for one in map(ceiling_view, policy.ceilings):
        window = "" if one.window is None else f" and {one.window} ({one.zone})"
        told = f"Ceiling {one.name}, per {one.per}{window}: {limits_words(one.limits)}"
        console.print(escape(told), soft_wrap=True)


def _outcome(outcome: Outcome, asks: Asks | None) -> str:
    from rich.markup import escape

    said = f"[{_COLOURS[outcome]}]{outcome}[/]"
    return said if asks is None else f"{said}: {escape(asked(asks))}"


def asked(asks: Asks) -> str:
    """Whose signatures an action waits for, in words."""
    whom = " or ".join(asks.groups)
    who = f"{asks.quorum} of {whom}" if whom else f"{asks.quorum} of anybody registered"
    minutes = asks.valid_ms / 60_000
    later = ""
    if asks.escalate_after_ms is not None:
        after = asks.escalate_after_ms / 60_000
        later = f", after {after:g} min {' or '.join(asks.escalate_to)} too"
    return f"{who}, within {minutes:g} min{later}"


def explained_result(found: "Explained") -> dict[str, Any]:
    """An explanation as JSON."""
    action, ruling = found.action, found.ruling
    decides = found.policy.row(ruling.row)
    return {
        "key": action.key,
        "policy_hash": found.policy.content_hash,
        "in_force": found.in_force,
        "row": ruling.row,
        "outcome": ruling.outcome,
        "asks": ruling.asks,
        "missing": ruling.missing,
        "gates": ruling.gates,
        "reason": _reason_of_no_row(ruling) if decides is None else decides.reason,
        "declared": found.is_declared,
        "problems": found.problems,
        "recorded": {
            "policy_hash": action.policy_hash,
            "row": action.policy_row,
            "asks": action.asks,
            "status": action.status.value,
        },
        "rows": [
            {
                "name": one.row.name,
                "outcome": one.row.outcome,
                "matches": one.matches,
                "conditions": one.conditions,
            }
            for one in found.rows
        ],
    }


def _reason_of_no_row(ruling: "Ruling") -> str:
    return BEFORE_THE_TABLE.get(ruling.row, _DEFAULT_REASON)


def _by_the_catalogue(found: "Explained") -> "Iterator[str]":
    """What the catalogue in force has against the action, whatever the table says."""
    request = found.action.request
    if not found.is_declared:
        yield (
            f"{request.operation} v{request.version} is not in the catalogue in force: nothing of "
            "it starts, and whatever the catalogue would say of it is missing"
        )
    yield from (f"does not fit its declaration in force: {one}" for one in found.problems)


def show_explained(console: "Console", found: "Explained") -> None:
    """The ruling first, then row by row why."""
    from rich.markup import escape

    action, ruling = found.action, found.ruling
    decides = found.policy.row(ruling.row)
    reason = _reason_of_no_row(ruling) if decides is None else decides.reason
    console.print(f"[bold]{escape(action.key)}[/]", soft_wrap=True)
    console.print(f"  {_outcome(ruling.outcome, ruling.asks)}", soft_wrap=True)
    console.print(f"  by the row {ruling.row}: {reason}", markup=False, soft_wrap=True)
    for told in _by_the_catalogue(found):
        console.print(f"  {told}", style="yellow", markup=False, soft_wrap=True)
    if action.revises is not None:
        told = f"  it revises {action.revises}, so people have to agree whatever the row says"
        console.print(told, markup=False, soft_wrap=True)
    if ruling.gates is not None:
        console.print(f"  passes {passed(ruling.gates)}", markup=False, soft_wrap=True)
    if ruling.missing:
        console.print(
            f"  missing: {', '.join(ruling.missing)}; so the strictest row that could apply rules",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )
    table = "the policy in force" if found.in_force else "an earlier policy"
    console.print(f"  [dim]{table}, {found.policy.content_hash}[/]", soft_wrap=True)
    if action.policy_hash != found.policy.content_hash or action.policy_row != ruling.row:
        console.print(
            f"  recorded: the row {action.policy_row} of {action.policy_hash}",
            markup=False,
            soft_wrap=True,
        )
    if ruling.row in BEFORE_THE_TABLE and decides is None:
        console.print("[dim]No row is asked: the catalogue comes before the table.[/]")
        return
    console.print()
    for one in found.rows:
        _show_row(console, one, is_ruling=one.row.name == ruling.row)
        if one.matches:
            break
    left = len(found.rows) - 1 - found.rows.index(one)
    if left:
        console.print(f"[dim]{left} more rows are not reached.[/]")


def _show_row(console: "Console", tried: "RowTried", *, is_ruling: bool) -> None:
    from rich.markup import escape

    said = {True: "matches", False: "does not match", None: "might match"}[tried.matches]
    rules = ", and rules" if is_ruling else ""
    console.print(
        f"{_MARKS[tried.matches]} [bold]{escape(tried.row.name)}[/] {said}{rules} "
        f"[dim]({tried.row.outcome})[/]",
        soft_wrap=True,
    )
    for one in tried.conditions:
        console.print(f"    {_MARKS[one.holds]} {escape(_said(one))}", soft_wrap=True)


def _said(tried: "Tried") -> str:
    found = "missing" if tried.found is None else tried.found
    if tried.holds is None and tried.found is not None:
        found = f"{found}, which cannot be compared"
    if tried.holds is False and tried.found is None:
        found = "none, as its operation is declared"
    return f"{tried.name}: {tried.wanted}; it is {found}"


def whatif_result(found: "WhatIf") -> dict[str, Any]:
    """A comparison as JSON."""
    return {
        "policy_hash": found.policy.content_hash,
        "catalogue_hash": found.catalogue.content_hash,
        "since": found.since,
        "intents": found.intent_count,
        "differences": found.difference_count,
        "not_ruled_yet": found.unruled_count,
        "missing": dict(found.missing.most_common()),
        "undeclared": dict(found.undeclared.most_common()),
        "moves": [
            {
                "was": _said_result(one.was),
                "would_be": _said_result(one.would_be),
                "differs": one.is_difference,
                "count": one.count,
                "keys": one.keys,
            }
            for one in found.moves
        ],
    }


def _said_result(said: "Said") -> dict[str, Any]:
    return {"row": said.row, "outcome": said.outcome, "asks": said.asks, "gates": said.gates}


def show_whatif(console: "Console", found: "WhatIf") -> None:
    """Counts from row to row, differences first, each with one of its actions."""
    console.print(
        f"Intents: {found.intent_count:,}; otherwise would have gone {found.difference_count:,}."
    )
    if found.unruled_count:
        told = "steps of plans, and what waits for another action"
        console.print(f"Not ruled yet, and not counted: {found.unruled_count:,} ({told}).")
    width = max((len(f"{one.count:,}") for one in found.moves), default=0)
    for one in found.moves:
        _move(console, one, width)
    for called, counted in (
        ("Not in that catalogue, so that all it would say was missing", found.undeclared),
        ("Facts that were missing", found.missing),
    ):
        told = ", ".join(f"{name} ({count:,})" for name, count in counted.most_common(10))
        if told:
            console.print(f"{called}: {told}", markup=False, soft_wrap=True)


def _move(console: "Console", one: "Move", width: int) -> None:
    """How many went from where to where, and whole, to be copied, the key of one of them."""
    from rich.markup import escape

    style = "" if one.is_difference else "dim"
    line = f"{one.count:{width},}  {_place(one.was)}"
    if one.is_difference:
        line += f"  [dim]→[/]  {_place(one.would_be)}"
    console.print(line, style=style, soft_wrap=True)
    if one.is_difference:
        console.print(f"{'':{width}}  [dim]such as[/] {escape(one.keys[0])}", soft_wrap=True)


def _place(said: "Said") -> str:
    from rich.markup import escape

    outcome = Outcome(said.outcome)
    whom = "" if said.asks is None else f": {asked(said.asks)}"
    gates = "" if outcome is Outcome.DENY else passed(said.gates)
    passes = f"; passes {gates}" if gates else ""
    return f"[{_COLOURS[outcome]}]{outcome}[/]{escape(f'{whom}{passes} ({said.row})')}"
