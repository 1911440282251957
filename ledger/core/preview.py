"""What a person is shown before they decide: the dry run of an action, with its hash.

A preview is drawn from the recorded request; where the operation says so, the provider adds what it
foresees. It is a fact of its own and can cause nothing. `moved` compares what was shown with what
is read again just before acting.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue

from ledger.core.canonical import canonicalize
from ledger.core.excerpt import excerpt
from ledger.core.limits import CHECKS_MAX, DIFFERENCES_MAX, OBSERVED_MAX
from ledger.core.money import Money
from ledger.core.wire import Json, Text, Wire

_DOMAIN: Final = b"actionledger.preview.v1\n"
_ABSENT: Final = "(absent)"

Observed = Annotated[dict[Text, Json], Field(max_length=OBSERVED_MAX)]
"""Volatile facts by name, as they were read."""


class Foreseen(Wire):
    """What an adapter found out without causing anything: what exactly would be acted on, how far
    it reaches, what would happen, and the volatile facts that this holds for.
    """

    effect: Text | None = None
    target: Text | None = None
    scope: Text | None = None
    observed: Observed = Field(default_factory=dict)


class Check(Wire):
    """One rule that the action was held against, and how it came out, in words."""

    name: Text
    passed: bool
    detail: Text


class Change(Wire):
    """A field that is not what it was, as bounded text: a volatile fact that moved beyond its
    tolerance, or what a revision changes (`name` is its path then).
    """

    name: Text
    was: Text
    now: Text


class Revised(Wire):
    """The earlier action that this one revises: how it stands, and field by field what this one
    changes.
    """

    action: Text
    status: Text
    changes: Annotated[tuple[Change, ...], Field(max_length=DIFFERENCES_MAX)] = ()


class Undone(Wire):
    """The earlier action that this one undoes: how it stands, the provider's name for its effect,
    and on what and over how much it was.
    """

    action: Text
    status: Text
    reference: Text | None = None
    target: Text | None = None
    money: Money | None = None


class Preview(Wire):
    """What would be done if a person agreed. The payload itself is bound by its hash. `performer`
    is set where no executor but the caller itself would do it.
    """

    request_hash: Text
    provider: Text
    account: Text
    target: Text | None = None
    money: Money | None = None
    foreseen: Foreseen | None = None
    checks: Annotated[tuple[Check, ...], Field(max_length=CHECKS_MAX)] = ()
    revises: Revised | None = None
    undoes: Undone | None = None
    performer: Literal["caller"] | None = None


def preview_hash(preview: Preview) -> str:
    """`sha256:` and the hex digest of the domain and the preview's canonical bytes."""
    form = canonicalize(preview.model_dump(mode="json", exclude_none=True))
    return f"sha256:{hashlib.sha256(_DOMAIN + form).hexdigest()}"


def moved(
    was: Mapping[str, JsonValue], now: Mapping[str, JsonValue], tolerances: Mapping[str, int]
) -> tuple[Change, ...]:
    """The volatile facts that differ by more than their declared tolerance (absolute, for integers;
    anything else must be equal), at most OBSERVED_MAX.
    """
    return tuple(_moved(was, now, tolerances))[:OBSERVED_MAX]


def _moved(
    was: Mapping[str, JsonValue], now: Mapping[str, JsonValue], tolerances: Mapping[str, int]
) -> Iterator[Change]:
    for name in sorted(was.keys() | now.keys()):
        if name in was and name in now:
            before, after = was[name], now[name]
            # True is no number, and equals 1 in Python, at any depth: canonical bytes tell them.
            if type(before) is int and type(after) is int:
                if abs(before - after) <= tolerances.get(name, 0):
                    continue
            elif canonicalize(before) == canonicalize(after):
                continue
        yield Change(name=name, was=_shown(was, name), now=_shown(now, name))


def _shown(values: Mapping[str, JsonValue], name: str) -> str:
    return excerpt(canonicalize(values[name]).decode()) if name in values else _ABSENT
