"""Doors of the gateway over a world that a test makes up: it is everything that they ask."""

from collections.abc import Callable
from typing import Any, cast

from gateway.http.doors import Doors
from ledger.log.published import Published


def doors_over(
    world: object,
    published: Callable[[], Published],
    **more: Any,  # noqa: ANN401 - as Doors has them
) -> Doors:
    """Doors for which `world` is ledger, read model and files in one; `more` as Doors has it."""
    this = cast("Any", world)
    return Doors(
        ledger=this,
        queries=this,
        webhooks=this,
        keys=this,
        webhook_secrets=this,
        partitions=1,
        published=published,
        **more,
    )
