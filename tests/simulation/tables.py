"""Who decides in the simulated world: decision tables, documents of people and holds, as texts that
an operator publishes.
"""

from functools import lru_cache
from typing import Final, Literal

from ledger.core.holds import Order, Scope, order_hash
from ledger.core.inputs import Publish
from ledger.core.people import people_hash
from ledger.core.policy import policy_hash
from tests.simulation.signatures import key_of


def _row(name: str, outcome: str, extra: str = "") -> str:
    return f"""
[[row]]
name = "{name}"
outcome = "{outcome}"
reason = "As the history wants it."
{extra}"""


_FINANCE: Final = 'groups = ["finance"]\nvalid_ms = 3000\n'
_ONE: Final = _row("one", "people", _FINANCE)
TABLES: Final = {
    "one": _ONE,
    "one, reviewed": f"# reviewed\n{_ONE}",
    "two": _row(
        "two",
        "people",
        'quorum = 2\ngroups = ["finance"]\nvalid_ms = 4000\nescalate_after_ms = 1000\n'
        'escalate_to = ["managers"]\n',
    ),
    "confirm": _row("confirm", "confirmation", "valid_ms = 1500\n"),
    "money": _row("money", "people", f'{_FINANCE}when.operation = ["charge", "fee", "payout"]\n')
    + _row("rest", "automatic"),
    "auto": _row("auto", "automatic"),
    "never": _row("never", "deny"),
}


def _ceiling(name: str, per: str, limits: str) -> str:
    return f"""
[[ceiling]]
name = "{name}"
per = "{per}"
{limits}
"""


ZONE: Final = "America/Los_Angeles"
"""Where a day begins in the very moment at which the simulated world does."""
_CEILINGS: Final = (
    _ceiling("run", "run", "side_effects = 2\nsteps = 3\ntokens = 5000\nwall_clock_ms = 9000")
    + _ceiling("day", "tenant", f'window = "day"\nzone = "{ZONE}"\nspend = {{ EUR = 10000 }}')
    + _ceiling("each", "action", "spend = { EUR = 4992 }")
    + _ceiling("thing", "target", 'window = "hour"\nside_effects = 1')
)
_WIDE: Final = (
    _ceiling("run", "run", "side_effects = 9\nspend = { EUR = 15000 }\ntool_calls = 9")
    + _ceiling("day", "tenant", f'window = "day"\nzone = "{ZONE}"\nside_effects = 4')
    + _ceiling("each", "action", "spend = { EUR = 9000 }")
    + _ceiling("thing", "target", 'window = "hour"\nside_effects = 3')
)
_ALL: Final = 'ceilings = ["run", "day", "each", "thing"]\nblock_target = true\n'
_TIMES: Final = 'ceilings = ["run", "day"]\n'
_PAY: Final = 'when.operation = ["charge", "fee", "payout"]\n'
GATED: Final = {
    "target": _row("target", "automatic", "block_target = true\n"),
    "budgets": _row("budgets", "automatic", _TIMES) + _CEILINGS,
    "budgets, wide": _row("budgets", "automatic", _TIMES) + _WIDE,
    "all": _row("all", "automatic", _ALL) + _CEILINGS,
    "all, wide": _row("all", "automatic", _ALL) + _WIDE,
    "all, asked": _row("asked", "people", f"{_FINANCE}{_ALL}") + _WIDE,
    "some": _row("pay", "automatic", f"{_PAY}{_ALL}")
    + _row("rest", "automatic", "block_target = true\n")
    + _WIDE,
}
"""Tables whose rows have actions pass gates."""
FIRST_GATED: Final = ("target", "target", "budgets", "budgets, wide", "all", "all, wide", "some")
IN_ORDER: Final = {
    "auto": TABLES["auto"],
    "one": TABLES["one"],
    "target": GATED["target"],
    "target, asked": _row("asked", "people", f"{_FINANCE}block_target = true\n"),
    "all, wide": GATED["all, wide"],
    "undoing asked": _row("undoing", "people", f'{_FINANCE}when.operation = ["refund", "email"]\n')
    + _row("rest", "automatic", "block_target = true\n"),
    "budgets, undoing asked": _row(
        "undoing", "people", f'{_FINANCE}{_TIMES}when.operation = ["refund"]\n'
    )
    + _row("rest", "automatic", _TIMES)
    + _WIDE,
    "nothing undone": _row("undoing", "deny", 'when.operation = ["email"]\n')
    + _row("rest", "automatic"),
}
"""Tables where actions belong together; some ask more of what undoes another, or refuse it."""
FIRST_TOGETHER: Final = ("auto", "auto", "target", *IN_ORDER)
_EVERY: Final = TABLES | GATED | IN_ORDER
FIRST: Final = ("one", "one", "two", "two", "confirm", "money", "auto")
"""Which table a history begins with."""


def _person(name: str, groups: str, extra: str = "", *keys: tuple[str, str]) -> str:
    written = "".join(
        f"""
[[person.keys]]
id = "{key_of(key).id}"
kind = "ed25519"
public = "{key_of(key).public}"
{more}"""
        for key, more in keys or ((name, ""),)
    )
    tenants = "" if "tenants" in extra else 'tenants = ["*"]\n'
    return f'\n[[person]]\nname = "{name}"\ngroups = {groups}\n{tenants}{extra}{written}'


_OTHERS: Final = (
    _person("cleo", '["managers"]')
    + _person("dan", '["finance", "managers"]', 'tenants = ["globex"]\n')
    + _person("eve", '["finance", "managers"]', 'principals = ["agent:billing"]\n')
)
_REVOKED: Final = "revoked = true\n"
_ADA_ANEW: Final = (("ada", _REVOKED), ("ada's second", ""))


@lru_cache
def documents() -> tuple[str, ...]:
    """Documents of people, each in the place of the one before: all of them; ada with another key;
    ben with none that counts.
    """
    first = _person("ada", '["finance"]') + _person("ben", '["finance"]') + _OTHERS
    lost_key = _person("ada", '["finance"]', "", *_ADA_ANEW)
    second = _replacing(first, lost_key + _person("ben", '["finance"]') + _OTHERS)
    gone = _person("ben", '["finance"]', _REVOKED)
    return first, second, _replacing(second, lost_key + gone + _OTHERS)


def _replacing(before: str, text: str) -> str:
    return f'replaces = "{people_hash(before)}"\n{text}'


def table(name: str) -> Publish:
    """A decision table as an operator publishes it."""
    return Publish(kind="policy", content=_EVERY[name], content_hash=policy_hash(_EVERY[name]))


def order(kind: Literal["hold", "release"], scope: dict[str, str]) -> Publish:
    """A hold, or its release, as an operator gives it."""
    content = Order(scope=Scope(**scope), by="ops").model_dump_json(exclude_none=True)
    return Publish(kind=kind, content=content, content_hash=order_hash(content))


def people(number: int) -> Publish:
    """A document of people as an operator publishes it."""
    text = documents()[number]
    return Publish(kind="people", content=text, content_hash=people_hash(text))
