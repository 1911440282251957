"""A business event for services that have none: derived from declared fields, inside one run.

Guarantees the same names as `actionledger.derived_event` in the SDK, which stands apart: for the
same run, operation and fields the same name, whose beginning `derived-` says that it holds inside
its run alone. Must never see free text. Called by services that are trusted with a tenant.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

from ledger.core.canonical import NotCanonical, canonicalize
from ledger.core.ids import MalformedId, check_component, check_identifier
from ledger.core.limits import COMPONENT_CHARS_MAX, PARAMETERS_MAX

_DOMAIN: Final = b"actionledger.derived.v1\n"
_HASH_CHARS: Final = 16
RUN_CHARS_MAX: Final = COMPONENT_CHARS_MAX - len("derived--") - _HASH_CHARS
CHANGES: Final = frozenset(
    {"attempt", "attempts", "retry", "retries", "nonce", "now", "timestamp"}
    | {"call_id", "tool_call_id", "request_id", "trace_id", "span_id"}
)
"""Names of what changes with every try. Under a hash nobody would see it any more."""


def derived_event(run: str, operation: str, fields: Mapping[str, str | int | bool]) -> str:
    """The business event `derived-RUN-HASH` of an effect that belongs to nothing with a name. A
    text among the fields is an identifier. Raises MalformedId.
    """
    check_component(run, "run")
    if len(run) > RUN_CHARS_MAX:
        raise MalformedId("run", f"has {len(run)} characters", f"use at most {RUN_CHARS_MAX}")
    if not 1 <= len(fields) <= PARAMETERS_MAX:
        raise MalformedId("fields", f"are {len(fields)}", f"name 1 to {PARAMETERS_MAX} of them")
    for name, value in fields.items():
        _check(name, value)
    try:
        form = canonicalize({"fields": dict(fields), "operation": operation, "run": run})
    except NotCanonical as refused:
        raise MalformedId("fields", f"have no canonical form: {refused}", "write a text") from None
    return f"derived-{run}-{hashlib.sha256(_DOMAIN + form).hexdigest()[:_HASH_CHARS]}"


def _check(name: str, value: object) -> None:
    check_component(name, "fields")
    if name.lower() in CHANGES:
        raise MalformedId(f"fields.{name}", "changes with every try", "leave it out")
    if isinstance(value, str):
        check_identifier(value, f"fields.{name}")
    elif type(value) not in {int, bool}:
        raise MalformedId(
            f"fields.{name}", "is no text, whole number or boolean", "write it as a text"
        )
