"""The operations of the simulated world: a day of a real installation in half a minute.

Six operations, one for each way a provider can be trusted, and one whose provider breaks its word
(`fee`: it says that it honours keys and does not). Where actions belong together there are those
that undo two of them, one that only reads, one that its caller carries out, and another version.
Every duration is scaled, and of the bounds those that nobody would come to in half a minute.
"""

from typing import Final

from ledger.core.catalogue import catalogue_hash
from ledger.core.inputs import Publish

SKEW_MS: Final = 200
LEASE_MARGIN_MS: Final = 1_000
LOOKUP_ANSWER_MS: Final = 1_500
CONNECT_MS: Final = 200
RESPONSE_MS: Final = 600
STEP_MS: Final = 12_000
ATTEMPTS_MAX: Final = 4
KEY_WINDOW_MS: Final = 12_000
KEY_MARGIN_MS: Final = 4_000
SETTLE_MS: Final = 1_000
LAG_MS: Final = 400
LOOKUPS: Final = (300, 1_000, 3_000)
UNANSWERED: Final = 2
"""Questions without an answer before a person is asked, where a provider stays away for good."""
LOOK_ALIKE_MS: Final = 2_500
"""How long the same once more is suspected to be a duplicate, where a target is guarded."""

IDLE_MS: Final = 300
"""After which a provider closes a connection on which nothing comes; the margin of executors."""

PEOPLE_MS: Final = 9_000
"""How long an action may wait for people."""

SETTLED_BY_MS: Final = 45_000
"""V1 of what is in no doubt: after the last fault is healed it has an end or a person by then. What
is in doubt has until its own bound.
"""


def _operation(
    name: str,
    account: str,
    reliability: str,
    money: str,
    attempts: int,
    extra: str = "",
    *,
    version: int = 1,
) -> str:
    finding_out = f"""
settle_horizon_ms = {SETTLE_MS}
search_lag_ms = {LAG_MS}
lookups = {list(LOOKUPS)}
"""
    return f"""
[[operation]]
name = "{name}"
version = {version}
provider = "simulated"
account = "{account}"
reliability = "{reliability}"
money = "{money}"
principals = ["agent:*"]
{"" if reliability == "none" else finding_out}
{extra}
target_parameters = ["also"]
look_alike_window_ms = {LOOK_ALIKE_MS}
[operation.target]
description = "What it is about."
required = false
[operation.parameters.text]
type = "string"
required = false
[operation.parameters.also]
type = "string"
required = false
[operation.risk]
irreversibility = "low"
blast_radius = "low"
ambiguity = "low"
money_impact = "high"
security_impact = "none"
[operation.deadlines]
connect_ms = {CONNECT_MS}
response_ms = {RESPONSE_MS}
step_ms = {STEP_MS}
people_ms = {PEOPLE_MS}
[operation.retries]
attempts_max = {attempts}
backoff_base_ms = 100
backoff_max_ms = 1000
"""


_KEYED: Final = f"key_window_ms = {KEY_WINDOW_MS}\nkey_margin_ms = {KEY_MARGIN_MS}"
_FORESEEN: Final = 'preview = "provider"\nvolatile = ["balance"]'
_TIMING: Final = f"""
[timing]
skew_ms = {SKEW_MS}
lease_margin_ms = {LEASE_MARGIN_MS}
lookup_answer_ms = {LOOKUP_ANSWER_MS}
"""
_TABLES: Final = {
    "charge": _operation("charge", "main", "keyed", "required", ATTEMPTS_MAX, _KEYED),
    "fee": _operation("fee", "careless", "keyed", "required", ATTEMPTS_MAX, _KEYED),
    "payout": _operation("payout", "main", "reference", "required", ATTEMPTS_MAX, _FORESEEN),
    "ticket": _operation(
        "ticket", "main", "lookup", "optional", 2, "second_attempt_after_absence = true"
    ),
    "note": _operation("note", "main", "lookup", "forbidden", 1),
    "email": _operation("email", "main", "none", "forbidden", 1),
}
OPERATIONS: Final = tuple(_TABLES)
UNDOES: Final = {"charge": "refund", "note": "email"}
"""What undoes what, where actions belong together."""
_REFUND: Final = _operation("refund", "main", "reference", "optional", ATTEMPTS_MAX)
_QUOTE: Final = _operation("quote", "main", "lookup", "forbidden", 1, 'kind = "read"')
_ERRAND: Final = _operation("errand", "main", "none", "forbidden", 1, 'performer = "caller"')
_NOTE_ANEW: Final = _operation("note", "main", "lookup", "forbidden", 1, version=2)
TOGETHER: Final = ("charge", "note", "ticket", "quote")
"""What is asked for where actions belong together; more than this is what undoes some of it."""
OFFERED: Final = (*OPERATIONS, "refund", "quote")
"""What executors carry out there."""

STREAM_ACTIONS_ORDINARY: Final = 14
STREAM_ACTIONS: Final = 18
RESERVATIONS: Final = 3
"""Bounds there: of one business event, and of what one gate holds."""
STRAY: Final = "ef_stray"
"""How effects are called of which a provider speaks by mistake."""


def published(
    *, without: str | None = None, performer: str | None = None, together: bool = False
) -> Publish:
    """The catalogue, whole or with one operation withdrawn; carried out by executors, or by whom
    the first proposal says; with what undoes others where actions belong `together`.
    """
    tables = [table for name, table in _TABLES.items() if name != without]
    if together:
        tables = [_undone(name, table) for name, table in _TABLES.items() if name != without]
        tables += [_REFUND, _QUOTE, _ERRAND, _NOTE_ANEW]
    text = _TIMING + "".join(tables)
    if performer is not None:
        text = text.replace("[[operation]]\n", f'[[operation]]\nperformer = "{performer}"\n')
    return Publish(kind="catalogue", content=text, content_hash=catalogue_hash(text))


def _undone(name: str, table: str) -> str:
    """The declaration, with what undoes it if anything does."""
    if name not in UNDOES:
        return table
    line = "target_parameters"
    return table.replace(line, f'compensation = "{UNDOES[name]}"\n{line}', 1)


CLASSES: Final = {
    "charge": "keyed",
    "fee": "keyed",
    "payout": "reference",
    "ticket": "lookup",
    "note": "lookup",
    "email": "none",
    "refund": "reference",
    "quote": "lookup",
    "errand": "none",
}
WITH_MONEY: Final = frozenset({"charge", "fee", "payout"})
CARELESS: Final = "careless"
