"""A network between the SDK and a ledger that fails as it is told, request by request."""

from collections.abc import Iterable

import httpx


class FlakyTransport(httpx.AsyncBaseTransport):
    """Plays one step a request, then lets everything through; remembers every request's bytes.

    Steps: `refuse` (no connection), `lose` (the request arrives, its answer does not), or a status
    that some proxy answers in the ledger's place.
    """

    def __init__(self, behind: httpx.AsyncBaseTransport, steps: Iterable[str | int]) -> None:
        self._behind = behind
        self._steps = list(steps)
        self.seen: list[tuple[str, str, bytes]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Play the next step."""
        raw = await request.aread()
        self.seen.append((request.method, str(request.url), raw))
        step = self._steps.pop(0) if self._steps else "pass"
        match step:
            case "refuse":
                raise httpx.ConnectError("refused", request=request)
            case "lose":
                response = await self._behind.handle_async_request(request)
                await response.aclose()
                raise httpx.ReadError("lost", request=request)
            case int():
                return httpx.Response(step, headers={"Retry-After": "0"}, text="proxy")
            case _:
                return await self._behind.handle_async_request(request)
