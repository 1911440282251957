"""What is well-formed in a decision table and still cannot be meant: a row that no action reaches,
people named where nobody is asked, bounds that nothing lies between.

Called by `parse_policy` only.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ledger.core.ceilings import Ceiling, zone_of
from ledger.core.patterns import covers
from ledger.core.policy_when import LEVELS, RISKS, AmountBounds, LevelBounds, ParameterBounds, When
from ledger.core.toml_lines import TomlPath

if TYPE_CHECKING:
    from ledger.core.policy import Row

DEFAULT_ROW = "default"
PRINCIPALS_ROW = "principals"
DECLARATION_ROW = "declaration"
_TAKEN = {
    DEFAULT_ROW: "where no row matches",
    PRINCIPALS_ROW: "where the catalogue lets somebody ask no more",
    DECLARATION_ROW: "where a request does not fit its declaration any more",
}
"""What no row of a table may be called, as decisions have these names in the place of a row's, and
where they do.
"""

_ALWAYS_THERE = ("operation", "tenant", "principal", "environment")
_NAMES = ("operation", "provider", "account", "tenant", "principal", "environment", "target")
_CHOICES = ("kind", "reliability", "preview", "performer", "currency")


def contradictions(rows: "Sequence[tuple[int, Row]]") -> Iterator[tuple[int, TomlPath, str]]:
    """Every contradiction: the number of the table, the path within it, a sentence. Rows that could
    not be read are left out.
    """
    for index, row in rows:
        for rule in (_in_name, _in_people, _in_times, _in_conditions, _in_gates):
            for path, said in rule(row):
                yield index, path, said
    yield from _between(rows)


def contradictions_of_ceiling(
    ceiling: Ceiling, before: Sequence[Ceiling]
) -> Iterator[tuple[TomlPath, str]]:
    """Every contradiction of a ceiling with itself and with those before it."""
    if any(one.name == ceiling.name for one in before):
        yield ("name",), f"is taken: another ceiling is called {ceiling.name}"
    if not ceiling.limits:
        yield (), "limits nothing; give side_effects, spend, wall_clock_ms, steps …"
    has_window = ceiling.per in {"tenant", "target"}
    if has_window and ceiling.window is None:
        yield ("window",), f"must be given for a ceiling per {ceiling.per}"
    if not has_window and ceiling.window is not None:
        yield ("window",), f"means nothing for a ceiling per {ceiling.per}"
    if zone_of(ceiling.zone) is None:
        yield ("zone",), "is not a time zone; use a name of the IANA database such as Europe/Paris"
    if ceiling.window is None and "zone" in ceiling.model_fields_set:
        yield ("zone",), "means nothing without a window"
    if ceiling.per != "run":
        for name in ("wall_clock_ms", "steps", "tool_calls", "tokens"):
            if getattr(ceiling, name) is not None:
                yield (name,), "is counted per run only"
    if ceiling.per == "action" and ceiling.side_effects is not None:
        yield ("side_effects",), "means nothing for a single action; limit its spend"


def _in_gates(row: "Row") -> Iterator[tuple[TomlPath, str]]:
    if row.outcome == "deny":
        for key in ("ceilings", "block_target"):
            if getattr(row, key):
                yield (key,), "means nothing for the outcome deny: nothing starts"
    for place, name in enumerate(row.ceilings):
        if name in row.ceilings[:place]:
            yield ("ceilings", place), f"names {name} twice"


def _in_name(row: "Row") -> Iterator[tuple[TomlPath, str]]:
    where = _TAKEN.get(row.name)
    if where is not None:
        yield ("name",), f"cannot be {row.name}: decisions say it {where}; call it otherwise"


def _in_people(row: "Row") -> Iterator[tuple[TomlPath, str]]:
    if not row.outcome.asks_people:
        for key in ("quorum", "groups", "valid_ms", "escalate_after_ms", "escalate_to"):
            if key in row.model_fields_set:
                yield (
                    (key,),
                    (
                        f"means nothing for the outcome {row.outcome}: nobody is asked; "
                        "write confirmation or people"
                    ),
                )
        return
    for key in ("groups", "escalate_to"):
        names: tuple[str, ...] = getattr(row, key)
        for place, name in enumerate(names):
            if name in names[:place]:
                yield (key, place), f"names {name} twice"
    if not row.escalate_to and "escalate_to" not in row.model_fields_set:
        return
    if not row.groups:
        yield (
            ("escalate_to",),
            "means nothing without groups: anybody who is registered may decide from the start",
        )
    elif not row.escalate_to:
        yield ("escalate_to",), "must name a group"
    for place, name in enumerate(row.escalate_to):
        if name in row.groups:
            yield ("escalate_to", place), f"names {name}, whom groups asks from the start"


def _in_times(row: "Row") -> Iterator[tuple[TomlPath, str]]:
    asks = row.asks
    if asks is None:
        return
    if row.escalate_after_ms is not None and not row.escalate_to:
        yield (
            ("escalate_after_ms",),
            "means nothing without escalate_to: name the groups to turn to",
        )
    if row.escalate_to and row.escalate_after_ms is None:
        yield ("escalate_to",), "means nothing without escalate_after_ms: say after which time"
    if asks.escalate_after_ms is not None and asks.escalate_after_ms >= asks.valid_ms:
        yield (
            ("escalate_after_ms",),
            f"must be less than valid_ms ({asks.valid_ms}): by then nobody can decide any more",
        )


def _in_conditions(row: "Row") -> Iterator[tuple[TomlPath, str]]:
    when = row.when
    if when.risk is not None:
        if not when.risk.model_fields_set:
            yield ("when", "risk"), "must name a fact, such as ambiguity"
        for fact in RISKS:
            bounds: LevelBounds | None = getattr(when.risk, fact)
            if bounds is not None:
                yield from _in_levels(("when", "risk", fact), bounds)
    if when.amount is not None:
        yield from _in_amount(when, when.amount)
    for name, asked in (when.parameters or {}).items():
        yield from _in_parameter(("when", "parameters", name), asked)


def _in_levels(path: TomlPath, bounds: LevelBounds) -> Iterator[tuple[TomlPath, str]]:
    if not bounds.model_fields_set:
        yield path, "must have at_least or at_most"
    elif LEVELS[bounds.at_least or "none"] > LEVELS[bounds.at_most or "high"]:
        yield (*path, "at_least"), f"cannot be higher than at_most ({bounds.at_most})"


def _in_amount(when: When, amount: AmountBounds) -> Iterator[tuple[TomlPath, str]]:
    path = ("when", "amount")
    above, most = amount.above, amount.at_most
    if above is None and most is None:
        yield path, "must have above or at_most"
        return
    if above is not None and most is not None:
        for code, minor in above.items():
            if code not in most:
                yield (*path, "above", code), "has no at_most; give both bounds for each currency"
            elif minor >= most[code]:
                yield (
                    (*path, "above", code),
                    f"must be less than at_most ({most[code]}): no amount lies between",
                )
        # In the order of the text: what is told of it is recorded.
        for code in most:
            if code not in above:
                yield (*path, "at_most", code), "has no above; give both bounds for each currency"
    named = (above or {}) | (most or {})
    for place, code in enumerate(when.currency or ()):
        if code not in named:
            yield ("when", "currency", place), f"is {code}, for which amount has no bound"


def _in_parameter(path: TomlPath, asked: ParameterBounds) -> Iterator[tuple[TomlPath, str]]:
    if not asked.model_fields_set:
        yield path, "must have a bound, such as one_of or at_most"
    for low, high in (
        ("above", "at_most"),
        ("length_above", "length_at_most"),
        ("items_above", "items_at_most"),
    ):
        over, most = getattr(asked, low), getattr(asked, high)
        if over is not None and most is not None and over >= most:
            yield (*path, low), f"must be less than {high} ({most}): nothing lies between"


def _between(rows: "Sequence[tuple[int, Row]]") -> Iterator[tuple[int, TomlPath, str]]:
    """What is wrong between rows: a name given twice, a row that is never reached."""
    for place, (index, row) in enumerate(rows):
        earlier = [one for _, one in rows[:place]]
        if any(one.name == row.name for one in earlier):
            yield index, ("name",), f"is the name of an earlier row: {row.name}"
        wider = next((one for one in earlier if _covers(one.when, row.when)), None)
        if wider is not None:
            yield (
                index,
                (),
                f"is never reached: whatever matches it matches the row {wider.name} before it",
            )


def _covers(wider: When, narrower: When) -> bool:
    """Whether every action that matches the narrower conditions matches the wider ones; False where
    it is not plain.
    """
    for key in _NAMES:
        names, given = getattr(wider, key), getattr(narrower, key)
        if names is None or (key in _ALWAYS_THERE and "*" in names):
            continue
        if given is None or not covers(names, given):
            return False
    for key in _CHOICES:
        choices, given = getattr(wider, key), getattr(narrower, key)
        if choices is not None and (given is None or not set(given) <= set(choices)):
            return False
    if not _covers_risk(wider, narrower) or not _covers_amount(wider.amount, narrower.amount):
        return False
    asked = narrower.parameters or {}
    return all(asked.get(name) == bounds for name, bounds in (wider.parameters or {}).items())


def _covers_risk(wider: When, narrower: When) -> bool:
    for fact in RISKS:
        wide, narrow = getattr(wider.risk, fact, None), getattr(narrower.risk, fact, None)
        if wide is None:
            continue
        if narrow is None:
            narrow = LevelBounds()
        if LEVELS[narrow.at_least or "none"] < LEVELS[wide.at_least or "none"]:
            return False
        if LEVELS[narrow.at_most or "high"] > LEVELS[wide.at_most or "high"]:
            return False
    return True


def _covers_amount(wider: AmountBounds | None, narrower: AmountBounds | None) -> bool:
    if wider is None:
        return True
    if narrower is None:
        return False
    above, most = narrower.above or {}, narrower.at_most or {}
    for code in above.keys() | most.keys():
        floor, ceiling = (wider.above or {}).get(code), (wider.at_most or {}).get(code)
        if floor is None and ceiling is None:
            return False
        if floor is not None and above.get(code, -1) < floor:
            return False
        if ceiling is not None and (code not in most or most[code] > ceiling):
            return False
    return True
