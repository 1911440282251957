"""A business event for callers that have none: derived from declared fields, inside one run.

Guarantees that the same run, operation and fields make the same name, in every process and in
whichever order the fields come, and that the name says by its beginning `derived-` that it holds
inside its run alone: another run that does the same is another action. Must never see a model's
wording or free text: the code around an agent names the fields. Called by that code.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Final

_DOMAIN: Final = b"actionledger.derived.v1\n"
_COMPONENT: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
_RUN_CHARS_MAX: Final = 103
"""What is left of 128 beside the mark and the hash."""
_TEXT_CHARS_MAX: Final = 256
_FIELDS_MAX: Final = 64
_INTEGER_MAX: Final = 2**53 - 1
_CHANGES: Final = frozenset(
    {"attempt", "attempts", "retry", "retries", "nonce", "now", "timestamp"}
    | {"call_id", "tool_call_id", "request_id", "trace_id", "span_id"}
)
"""Names of what changes with every try. Under a hash nobody would see it any more."""


def derived_event(run: str, operation: str, fields: Mapping[str, str | int | bool]) -> str:
    """The business event `derived-RUN-HASH` of an effect that belongs to nothing with a name.

    `run` is your own id of the agent's run, the same when the run is resumed. `fields` are the few
    facts that make the effect this one and no other: a recipient, a record, an amount in minor
    units. A text is a name, at most 256 visible characters. Raises ValueError.
    """
    if _COMPONENT.fullmatch(run) is None or len(run) > _RUN_CHARS_MAX:
        raise ValueError(
            f"run: use 1 to {_RUN_CHARS_MAX} letters A-Z a-z, digits, dots, underscores, hyphens"
        )
    if not 1 <= len(fields) <= _FIELDS_MAX:
        raise ValueError(f"fields: name 1 to {_FIELDS_MAX} of them")
    for name, value in fields.items():
        problem = _problem(name, value)
        if problem is not None:
            raise ValueError(f"fields: {name!r:.80} {problem}")
    named = {"fields": dict(sorted(fields.items())), "operation": operation, "run": run}
    # RFC 8785: every name here is ASCII, so their order by characters is its order by code units.
    form = json.dumps(named, ensure_ascii=False, separators=(",", ":"))
    return f"derived-{run}-{hashlib.sha256(_DOMAIN + form.encode()).hexdigest()[:16]}"


def _problem(name: str, value: object) -> str | None:
    """Why a field cannot be a part of an identity, or None."""
    if _COMPONENT.fullmatch(name) is None:
        return "is no name of a field: use letters, digits, dots, underscores, hyphens"
    if name.lower() in _CHANGES:
        return "changes with every try, so the next try would be another action; leave it out"
    match value:
        case bool():
            return None
        case int():
            return None if abs(value) <= _INTEGER_MAX else "is beyond 2^53-1; write it as a text"
        case str():
            return None if _is_name(value) else _NO_NAME
        case _:
            return "is no text, whole number or boolean; write it as a text"


_NO_NAME: Final = (
    f"is no name: 1 to {_TEXT_CHARS_MAX} visible characters in Unicode normal form C, without a "
    "blank at either end; free text is no part of an identity"
)


def _is_name(text: str) -> bool:
    return (
        0 < len(text) <= _TEXT_CHARS_MAX
        and text.isprintable()
        and text.strip(" ") == text
        and unicodedata.is_normalized("NFC", text)
    )
