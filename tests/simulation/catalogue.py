"""The operations of the simulated world: a day of a real installation in half a minute.

Six operations, one for each way a provider can be trusted, and one whose provider breaks its word
(`fee`: it says that it honours keys and does not). Every duration is scaled, and nothing else.
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
LOOK_ALIKE_MS: Final = 2_500
"""How long the same once more is suspected to be a duplicate, where a target is guarded."""

IDLE_MS: Final = 300
"""After which a provider closes a connection on which nothing comes; the margin of executors."""

PEOPLE_MS: Final = 9_000
"""How long an action may wait for people."""

SETTLED_BY_MS: Final = 45_000
"""V1 in this world: after the last fault is healed everything has an end or a person by then."""


def _operation(
    name: str, account: str, reliability: str, money: str, attempts: int, extra: str = ""
) -> str:
    finding_out = f"""
settle_horizon_ms = {SETTLE_MS}
search_lag_ms = {LAG_MS}
lookups = {list(LOOKUPS)}
"""
    return f"""
[[operation]]
name = "{name}"
version = 1
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


def published(*, without: str | None = None, performer: str | None = None) -> Publish:
    """The catalogue, whole or with one operation withdrawn; carried out by executors, or by whom
    the first proposal says.
    """
    text = _TIMING + "".join(table for name, table in _TABLES.items() if name != without)
    if performer is not None:
        text = text.replace("[[operation]]\n", f'[[operation]]\nperformer = "{performer}"\n')
    return Publish(kind="catalogue", content=text, content_hash=catalogue_hash(text))


CLASSES: Final = {
    "charge": "keyed",
    "fee": "keyed",
    "payout": "reference",
    "ticket": "lookup",
    "note": "lookup",
    "email": "none",
}
WITH_MONEY: Final = frozenset({"charge", "fee", "payout"})
CARELESS: Final = "careless"
