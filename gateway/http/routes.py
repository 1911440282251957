"""The kind of route that the door for machines has.

Guarantees that a request says nothing that is passed over: a route which takes no parameter in its
query refuses one, as the others refuse one that they do not know. Who asked a list to leave
something out would take all of it for what was asked. Built by the routers.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gateway.http.bodies import read_query
from gateway.http.problems import No


class _Nothing(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DoorRoute(APIRoute):
    """A route that reads its query by itself, or takes none."""

    def get_route_handler(self) -> Callable[[HttpRequest], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        handler = super().get_route_handler()
        if _takes_query(self.openapi_extra or {}):
            return handler

        async def without_query(http: HttpRequest) -> Response:
            if http.scope["query_string"]:
                asked = read_query(_Nothing, http)
                if isinstance(asked, No):
                    return asked.response()
            return await handler(http)

        return without_query


def _takes_query(described: Mapping[str, Any]) -> bool:
    return any(one["in"] == "query" for one in described.get("parameters", ()))
