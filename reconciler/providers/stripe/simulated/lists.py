"""Lists and searches of the simulated Stripe.

Guarantees that a list shows everything, newest first, at once, and that a search is behind by what
the account's personality says: docs.stripe.com/search and docs.stripe.com/api/pagination. A test
can let searches show what does not match, or nothing (stripe/stripe-python#908). Used by the
server.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.providers.stripe.forms import Form, part_of, text_of
from reconciler.providers.stripe.names import PAGE_MAX
from reconciler.providers.stripe.simulated.errors import Refusal
from reconciler.providers.stripe.simulated.objects import PAYMENT, Shelf, Thing, metadata_of

_QUERY: Final = re.compile(
    r"""metadata\[(["'])(?P<name>[^"'\]]{1,40})\1\]:(["'])(?P<value>(?:[^"'\\]|\\.){0,1000})\3"""
)
_LIMIT_USUAL: Final = 10
_BOUNDS: Final[dict[str, Callable[[int, int], bool]]] = {
    "gte": lambda created, bound: created >= bound,
    "gt": lambda created, bound: created > bound,
    "lte": lambda created, bound: created <= bound,
    "lt": lambda created, bound: created < bound,
}


@dataclass(slots=True)
class SearchTrouble:
    """What searches do wrong: objects that do not match are shown, those that do are not."""

    also: tuple[str, ...] = ()
    shows_nothing: bool = False

    def clear(self) -> None:
        """Nothing any more."""
        self.also, self.shows_nothing = (), False


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list: ids, newest first."""

    ids: tuple[str, ...]
    has_more: bool


def page_of(ids: Sequence[str], created_of: Callable[[str], int], form: Form) -> Page:
    """One page of ids that stand oldest first; `created_of` in seconds. Raises Refusal."""
    bounds = _bounds(form)
    wanted = [
        one
        for one in reversed(ids)
        if all(_BOUNDS[name](created_of(one), bound) for name, bound in bounds.items())
    ]
    limit = _limit(form)
    after, before = _text(form, "starting_after"), _text(form, "ending_before")
    if after:
        start = _place(wanted, ids, after) + 1
        shown = wanted[start : start + limit]
        return Page(tuple(shown), start + limit < len(wanted))
    if before:
        end = _place(wanted, ids, before)
        start = max(end - limit, 0)
        return Page(tuple(wanted[start:end]), start > 0)
    return Page(tuple(wanted[:limit]), limit < len(wanted))


def searched(
    shelf: Shelf, account: str, form: Form, *, until_ms: int, trouble: SearchTrouble
) -> tuple[Thing, ...]:
    """Payments whose metadata holds a value, as far as the index is; raises Refusal."""
    query = _QUERY.fullmatch(_text(form, "query").strip())
    if query is None:
        raise Refusal(400, "We were unable to parse your search query.", param="query")
    value = re.sub(r"\\(.)", r"\1", query["value"])
    found = [
        thing
        for one in shelf.of_account(account, PAYMENT)
        if (thing := shelf.things[one]).created_ms <= until_ms
        and metadata_of(thing).get(query["name"]) == value
    ]
    if trouble.shows_nothing:
        found = []
    found += [shelf.things[one] for one in trouble.also if one in shelf.things]
    return tuple(reversed(found))[: _limit(form)]


def _bounds(form: Form) -> dict[str, int]:
    created = form.get("created", {})
    try:
        given = {"gte": created} if isinstance(created, str) else part_of(form, "created")
        bounds = {name: int(bound) for name, bound in given.items()}
    except ValueError:
        raise Refusal(400, "Invalid timestamp.", param="created") from None
    if not bounds.keys() <= _BOUNDS.keys():
        raise Refusal(400, "Invalid timestamp.", param="created")
    return bounds


def _limit(form: Form) -> int:
    text = _text(form, "limit") or str(_LIMIT_USUAL)
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= PAGE_MAX):
        raise Refusal(400, f"Invalid integer: limit is 1 to {PAGE_MAX}.", param="limit")
    return int(text)


def _place(wanted: Sequence[str], ids: Sequence[str], one: str) -> int:
    if one not in ids:
        raise Refusal(400, f"No such object: '{one}'", code="resource_missing")
    return wanted.index(one) if one in wanted else -1


def _text(form: Form, name: str) -> str:
    try:
        return text_of(form, name) or ""
    except ValueError as error:
        raise Refusal(400, f"Invalid string: {error}.", param=name) from None
