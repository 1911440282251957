"""Runs and windows of ceilings as a caller sees them, made from the gates that count them.

Pure; called by the routes, the pages and the command line.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sized
from typing import Annotated, Final, Literal
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from gateway.http import views
from gateway.http.budgets import (
    BudgetView,
    CeilingView,
    budgets,
    budgets_of_run,
    ceiling_view,
    run_sentence,
)
from gateway.http.limits import RUN_ACTIONS_MAX
from gateway.http.problems import LedgerPlace
from ledger.core.ceilings import Ceiling
from ledger.core.ids import GateKind, gate_key
from ledger.core.money import Money, format_money
from ledger.core.policy import Policy
from ledger.core.state import Status
from projections.query_rows import ActionRow, GateRow

_ON_PAGE: Final = 200
"""Actions of a run that one answer lists; it counts all that were read."""


class RunAction(BaseModel):
    """One action of a run, as it stands."""

    model_config = ConfigDict(frozen=True)

    key: str
    href: str
    status: Status
    amount: str | None = None
    target: str | None = None
    review: str | None = None


class RunView(BaseModel):
    """A run: what it has used of each ceiling, and its actions by status. `sentence` can be given
    to a model. `opened_at` is when it was first counted; without it no gate has counted it so far.
    """

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "run": "run-7",
                    "tenant": "acme",
                    "href": "/v1/runs/run-7",
                    "now": 1_796_000_060_000,
                    "opened_at": 1_796_000_000_000,
                    "policy_hash": "sha256:9f…",
                    "budgets": [
                        {
                            "ceiling": "run",
                            "dimension": "side_effects",
                            "kind": "enforced",
                            "used": 2,
                            "reserved": 1,
                            "limit": 5,
                            "left": 2,
                        }
                    ],
                    "sentence": "The run run-7 has left: 2 of 5 side effects. You may go on within "
                    "that.",
                    "by_status": {"completed": 2, "attempting": 1},
                }
            ]
        },
    )

    run: str
    tenant: str
    href: str
    now: int
    opened_at: int | None = None
    updated_at: int | None = None
    policy_hash: str
    budgets: tuple[BudgetView, ...]
    sentence: str
    by_status: dict[str, int] = Field(default_factory=dict)
    actions: tuple[RunAction, ...] | None = None
    more: Literal[True] | None = None
    """Set where as many actions were read as one answer counts: there may be others."""


class StepView(RunView):
    """What came of a reported step, and how the run stands. `replayed`: the step, or a later one of
    this reporter, was reported before, and nothing was counted again. Without `budgets` the step is
    recorded, and how the run stands is not known just now.
    """

    reporter: str
    step: Annotated[int, Field(ge=1)]
    replayed: bool
    ledger: LedgerPlace | None = None


class RunList(BaseModel):
    """Runs that a ceiling or a report counts, the newest first."""

    model_config = ConfigDict(frozen=True)

    now: int
    policy_hash: str
    runs: tuple[RunView, ...]


class WindowView(BaseModel):
    """What counts in one window: of a tenant, or of one `target` in it. `gate` is its key."""

    model_config = ConfigDict(frozen=True)

    window: str
    gate: str
    target: str | None = None
    budgets: tuple[BudgetView, ...]


class CeilingState(CeilingView):
    """A ceiling, and the windows of now that have taken something of it."""

    windows: tuple[WindowView, ...] = ()


class CeilingList(BaseModel):
    """Every ceiling of the policy in force, and how its windows of now stand for a tenant."""

    model_config = ConfigDict(frozen=True)

    now: int
    tenant: str
    policy_hash: str
    ceilings: tuple[CeilingState, ...]


def name_in_path(name: str) -> str:
    """A name as it is written into a path: also one of dots alone, which a client would take for
    the folder above.
    """
    return name.replace(".", "%2E") if name in {".", ".."} else quote(name, safe="")


def run_href(run: str) -> str:
    """Where the run is found at this door."""
    return f"/v1/runs/{name_in_path(run)}"


def run_view(
    tenant: str,
    run: str,
    gate: GateRow | None,
    actions: Collection[ActionRow] | None,
    policy: Policy,
    now_ms: int,
    *,
    more: Literal[True] | None = None,
) -> RunView:
    """A run, with its actions where they were read; `more` is what `cut` says of those."""
    found = budgets_of_run(gate, policy, now_ms)
    counted = Counter(one.status for one in actions or ())
    listed = None if actions is None else tuple(map(run_action, list(actions)[:_ON_PAGE]))
    return RunView(
        run=run,
        tenant=tenant,
        href=run_href(run),
        now=now_ms,
        opened_at=None if gate is None else gate.opened_at,
        updated_at=None if gate is None else gate.updated_at,
        policy_hash=policy.content_hash,
        budgets=found,
        sentence=run_sentence(run, found),
        by_status=dict(sorted(counted.items())),
        actions=listed,
        more=more,
    )


def cut(rows: Sized) -> Literal[True] | None:
    """Whether as many actions of a run or a batch were read as are, so that there may be more."""
    return True if len(rows) >= RUN_ACTIONS_MAX else None


def run_action(row: ActionRow) -> RunAction:
    """One line of a run."""
    amount = None
    if row.amount_minor is not None and row.currency is not None:
        amount = format_money(Money(minor=row.amount_minor, currency=row.currency))
    return RunAction(
        key=row.action_key,
        href=views.href(row.action_key),
        status=Status(row.status),
        amount=amount,
        target=row.target,
        review=row.review,
    )


def run_list(rows: Iterable[GateRow], policy: Policy, now_ms: int) -> RunList:
    """Runs by their gates."""
    return RunList(
        now=now_ms,
        policy_hash=policy.content_hash,
        runs=tuple(run_view(one.tenant_id, one.name, one, None, policy, now_ms) for one in rows),
    )


def ceiling_list(
    tenant: str, gates: Mapping[str, GateRow], policy: Policy, now_ms: int
) -> CeilingList:
    """Every ceiling with its windows of now. `gates` are those of windows, by key."""
    return CeilingList(
        now=now_ms,
        tenant=tenant,
        policy_hash=policy.content_hash,
        ceilings=tuple(
            CeilingState(
                **ceiling_view(one).model_dump(),
                windows=tuple(_windows(tenant, one, gates, now_ms)),
            )
            for one in policy.ceilings
        ),
    )


def _windows(
    tenant: str, ceiling: Ceiling, gates: Mapping[str, GateRow], now_ms: int
) -> Iterator[WindowView]:
    window = ceiling.window_at(now_ms)
    if ceiling.per == "tenant":
        key = ceiling.gate(tenant, None, None, now_ms)
        if key is not None:
            found = budgets(gates.get(key), [ceiling], now_ms)
            yield WindowView(window=window, gate=key, budgets=found)
    elif ceiling.per == "target":
        begins = f"{ceiling.name}:{window}:"
        for gate in gates.values():
            if gate.tenant_id == tenant and gate.name.startswith(begins):
                yield WindowView(
                    window=window,
                    gate=gate.gate_key,
                    target=gate.name.removeprefix(begins),
                    budgets=budgets(gate, [ceiling], now_ms),
                )


def gate_of_run(tenant: str, run: str) -> str:
    """The key of the gate that counts a run; raises MalformedId."""
    return gate_key(tenant, GateKind.RUN, run)
