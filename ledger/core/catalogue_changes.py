"""What changes from one catalogue to another, as whoever asks or calls would notice it.

Guarantees that every declared difference is named, and that one is called breaking when a request
that was taken before may be refused, or an effect may come about another way. Decides nothing.
Called by the command line.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from ledger.core.catalogue import Catalogue
from ledger.core.excerpt import excerpt
from ledger.core.operation import Operation, Target
from ledger.core.parameters import Parameter
from ledger.core.patterns import covers

_ABSENT: Final = "(absent)"

_MOVES_THE_EFFECT: Final = ("provider", "account", "reliability", "provider_key")
"""The same action would come about another way: another place, another promise, another key."""
_TIMES: Final = (
    *("deadlines", "retries", "key_window_ms", "key_margin_ms", "settle_horizon_ms"),
    *("search_lag_ms", "lookups", "second_attempt_after_absence"),
)
_LOOK_ALIKES: Final = ("look_alike_window_ms",)
_WAITS: Final = ("target_parameters",)
"""What else an action acts on: one at a time where its row has it pass targets."""
_RULES: Final = ("kind", "risk", "preview", "volatile", "tolerances")
_OTHERS: Final = ("description", "compensation", "caller_attests_no_effect")


@dataclass(frozen=True, slots=True)
class CatalogueChange:
    """One difference: of which operation (empty for the whole catalogue), where in it, both values
    as text, whether it is breaking, and a sentence about who notices.
    """

    operation: str
    path: str
    was: str
    now: str
    is_breaking: bool
    says: str


def catalogue_changes(before: Catalogue, after: Catalogue) -> tuple[CatalogueChange, ...]:
    """Every difference, in the order of the earlier catalogue, what is new last."""
    return tuple(_changes(before, after))


def _changes(before: Catalogue, after: Catalogue) -> Iterator[CatalogueChange]:
    for name in type(before.timing).model_fields:
        was, now = getattr(before.timing, name), getattr(after.timing, name)
        if was != now:
            yield _change("", f"timing.{name}", was, now, says="every process waits otherwise")
    for one in before.operations:
        other = after.operation(one.name, one.version)
        if other is not None:
            yield from _between(one, other)
        else:
            yield _broken(_called(one), "", _called(one), None, "no longer may anybody ask for it")
    for one in after.operations:
        if before.operation(one.name, one.version) is None:
            yield _change(_called(one), "", None, _called(one), says="may be asked for")


def _called(operation: Operation) -> str:
    return f"{operation.name} v{operation.version}"


def _between(was: Operation, now: Operation) -> Iterator[CatalogueChange]:
    called = _called(was)
    yield from _who_and_where(called, was, now)
    yield from _money(called, was, now)
    yield from _target(called, was.target, now.target)
    yield from _parameters(called, was, now)
    yield from _performer(called, was, now)
    yield from _compensation_target(called, was, now)
    for names, is_breaking, says in (
        (_MOVES_THE_EFFECT, True, "the effect would come about another way"),
        (_RULES, False, "the policy may rule otherwise, and people are shown something else"),
        (_WAITS, False, "it may wait for others, and others for it"),
        (_TIMES, False, "it may take longer or shorter, and be tried more or less often"),
        (_LOOK_ALIKES, False, "the same under another key may wait for a person, or not any more"),
        (_OTHERS, False, "told, and nothing of a request"),
    ):
        for name in names:
            for path, before, after in _apart(name, getattr(was, name), getattr(now, name)):
                yield CatalogueChange(
                    called, path, _shown(before), _shown(after), is_breaking, says
                )


def _apart(path: str, was: object, now: object) -> Iterator[tuple[str, object, object]]:
    """Where two values differ: of a table each member by itself, with its path."""
    if was == now:
        return
    before, after = _members(was), _members(now)
    if before is None or after is None:
        yield path, was, now
        return
    for name in dict.fromkeys((*before, *after)):
        yield from _apart(f"{path}.{name}", before.get(name), after.get(name))


def _members(value: object) -> Mapping[str, object] | None:
    """What a table holds, or None for what is none."""
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    return value if isinstance(value, dict) else None


def _who_and_where(called: str, was: Operation, now: Operation) -> Iterator[CatalogueChange]:
    for name, lost, gained in (
        ("principals", "they may no longer ask", "they may ask"),
        ("environments", "requests for it are refused", "requests for it are taken"),
    ):
        before, after = getattr(was, name), getattr(now, name)
        for pattern in before:
            if not covers(after, (pattern,)):
                yield _broken(called, name, pattern, None, lost)
        for pattern in after:
            if not covers(before, (pattern,)):
                yield _change(called, name, None, pattern, says=gained)


def _money(called: str, was: Operation, now: Operation) -> Iterator[CatalogueChange]:
    if was.money != now.money and now.money == "optional":
        yield _change(called, "money", was.money, now.money, says="may be given or left out")
    elif was.money != now.money:
        said = "requests without it" if now.money == "required" else "requests with it"
        yield _broken(called, "money", was.money, now.money, f"{said} are refused")
    before, after = was.allows_zero, now.allows_zero
    if before and not after:
        yield _broken(called, "allows_zero", before, after, "an amount of 0 is refused")
    elif before != after:
        yield _change(called, "allows_zero", before, after, says="an amount of 0 is taken")
    for code in sorted(was.amount_multiple_of.keys() | now.amount_multiple_of.keys()):
        coarse, fine = was.amount_multiple_of.get(code), now.amount_multiple_of.get(code)
        path = f"amount_multiple_of.{code}"
        if (coarse or 1) % (fine or 1):
            yield _broken(called, path, coarse, fine, "other amounts are refused")
        elif coarse != fine:
            yield _change(called, path, coarse, fine, says="more amounts are taken")


def _target(called: str, was: Target | None, now: Target | None) -> Iterator[CatalogueChange]:
    if was == now:
        return
    if now is None:
        yield _broken(called, "target", was, None, "requests with one are refused")
    elif was is None:
        says = "requests without one are refused" if now.required else "may be given"
        yield CatalogueChange(called, "target", _ABSENT, _shown(now), now.required, says)
    else:
        if was.required != now.required:
            says = "requests without one are refused" if now.required else "may be left out"
            yield CatalogueChange(
                called,
                "target.required",
                _shown(was.required),
                _shown(now.required),
                now.required,
                says,
            )
        if was.prefix != now.prefix:
            is_wider = now.prefix is None or (was.prefix or "").startswith(now.prefix)
            says = "more targets are taken" if is_wider else "other targets are refused"
            yield CatalogueChange(
                called, "target.prefix", _shown(was.prefix), _shown(now.prefix), not is_wider, says
            )
        if was.description != now.description:
            yield _change(
                called, "target.description", was.description, now.description, says="told"
            )


def _performer(called: str, was: Operation, now: Operation) -> Iterator[CatalogueChange]:
    if was.performer == now.performer:
        return
    if now.performer == "either":
        yield _change(
            called, "performer", was.performer, now.performer, says="callers may act themselves too"
        )
    else:
        yield _broken(called, "performer", was.performer, now.performer, "somebody else acts")


def _compensation_target(called: str, was: Operation, now: Operation) -> Iterator[CatalogueChange]:
    before, after = was.compensation_target, now.compensation_target
    if (before, after) == ("any", "same"):
        says = "what undoes it on another target is refused"
        yield _broken(called, "compensation_target", before, after, says)
    elif before != after:
        says = "what undoes it may act on any target"
        yield _change(called, "compensation_target", before, after, says=says)


def _parameters(called: str, was: Operation, now: Operation) -> Iterator[CatalogueChange]:
    for name, one in was.parameters.items():
        other = now.parameters.get(name)
        path = f"parameters.{name}"
        if other is None:
            yield _broken(called, path, one.type, None, "requests with it are refused")
        else:
            yield from _parameter(called, path, one, other)
    for name, one in now.parameters.items():
        if name not in was.parameters:
            says = "requests without it are refused" if one.required else "may be given"
            yield CatalogueChange(
                called, f"parameters.{name}", _ABSENT, one.type, one.required, says
            )
    for name in was.personal:
        if name not in now.personal and name in now.parameters:
            yield _broken(called, "personal", name, None, "tokens for it are refused")
    for name in now.personal:
        if name not in was.personal:
            yield _change(called, "personal", None, name, says="a token may stand for it")


def _parameter(called: str, path: str, was: Parameter, now: Parameter) -> Iterator[CatalogueChange]:
    for name in Parameter.model_fields:
        before, after = getattr(was, name), getattr(now, name)
        if before != after:
            is_breaking = _narrows(name, before, after)
            says = "values may be refused" if is_breaking else "more values are taken"
            if name == "description":
                says = "told"
            elif name == "required":
                says = "requests without it are refused" if after else "may be left out"
            yield CatalogueChange(
                called, f"{path}.{name}", _shown(before), _shown(after), is_breaking, says
            )


def _narrows(name: str, was: Any, now: Any) -> bool:  # noqa: ANN401 - any field of a parameter
    """Whether a value that was taken may be refused now."""
    match name:
        case "description":
            return False
        case "required":
            return bool(now)
        case "type":
            return (was, now) != ("identifier", "string")
        case "items":
            return now is not None and (was, now) != ("identifier", "string")
        case "values":
            return now is not None and (was is None or not set(was) <= set(now))
        case "length_min" | "minimum":
            return now is not None and (was is None or now > was)
        case _:
            return now is not None and (was is None or now < was)


def _change(called: str, path: str, was: object, now: object, *, says: str) -> CatalogueChange:
    return CatalogueChange(called, path, _shown(was), _shown(now), is_breaking=False, says=says)


def _broken(called: str, path: str, was: object, now: object, says: str) -> CatalogueChange:
    return CatalogueChange(called, path, _shown(was), _shown(now), is_breaking=True, says=says)


def _shown(value: object) -> str:
    if value is None:
        return _ABSENT
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return excerpt(f"[{', '.join(map(str, value))}]")
    if isinstance(value, Target):
        given = value.model_dump(exclude_defaults=True)
        return excerpt(", ".join(f"{name}: {_shown(one)}" for name, one in given.items()))
    return excerpt(str(value))
