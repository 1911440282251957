"""What a template of a description may name of a request.

Guarantees that the names which performers fill and those which descriptions are checked by are the
same. Must never hold a credential. Called by the kinds of adapter.
"""

from collections.abc import Iterator
from typing import Final

from reconciler.providers.http.templates import names_in

REQUEST_NAMES: Final = frozenset(
    {
        "action_key",
        "provider_key",
        "account",
        "operation",
        "version",
        "target",
        "request_hash",
        "original_reference",
        "params",
        "money.minor",
        "money.currency",
        "money.currency_lower",
        "money.decimal",
    }
)
_INSIDE: Final = "params"


def strangers_in(template: object, known: frozenset[str]) -> Iterator[str]:
    """The names in a template that are not known; what stands below `params` is the request's own.

    Raises BadTemplate.
    """
    for name in names_in(template):
        dotted = ".".join(name.path)
        is_inside = name.path[0] == _INSIDE and _INSIDE in known
        if dotted not in known and not is_inside:
            yield dotted
