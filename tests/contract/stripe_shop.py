"""An account at the simulated Stripe, and what is asked for on it."""

import asyncio
import dataclasses

import httpx
from pydantic import JsonValue, TypeAdapter

from ledger.core.money import Money
from reconciler.providers.contract.stage import DEADLINES, always
from reconciler.providers.port import Lookup, Outcome, ProviderRequest, Succeeded
from tests.contract.calls import finding, performing
from tests.contract.stage import Behaviour
from tests.contract.stripe_stage import StripeStage
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS

OBJECT: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])


class Shop:
    """One account, and requests of fresh actions on it."""

    def __init__(self, stage: StripeStage, search_lag_ms: int = 0) -> None:
        """Name a fresh account of documented behaviour."""
        self.stage = stage
        self.account = stage.account(Behaviour.HONOURS_KEYS)
        personality = {
            "server_errors": "remembered",
            "refusals": "remembered",
            "search_lag_ms": search_lag_ms,
        }
        stage.process.control("personality", {"account": self.account, "personality": personality})
        self._actions = 0

    def request(
        self, operation: str, minor: int, currency: str = "USD", **params: str
    ) -> ProviderRequest:
        """A request of a fresh action."""
        self._actions += 1
        return ProviderRequest(
            action_key=f"{operation}:v1:{self.account}:event-{self._actions}",
            operation=operation,
            version=1,
            target=None,
            params=params,
            money=Money(minor=minor, currency=currency),
            account=self.account,
            request_hash=f"sha256:{self._actions:064x}",
        )

    def payment(
        self,
        method: str = "pm_card_visa",
        minor: int = 4_990,
        currency: str = "USD",
        capture: str = "automatic",
    ) -> ProviderRequest:
        """A payment by one of Stripe's test payment methods."""
        return self.request("pay", minor, currency, payment_method=method, capture_method=capture)

    def refund(self, payment: str, minor: int) -> ProviderRequest:
        """A refund of a payment."""
        return dataclasses.replace(self.request("refund", minor), original_reference=payment)

    async def perform(self, request: ProviderRequest) -> Outcome:
        """Make one attempt under the action's key."""
        async with performing(self.stage) as performer:
            return await performer.perform(
                request,
                provider_key=request.action_key,
                deadlines=DEADLINES,
                before_first_byte=always,
            )

    async def paid(self, method: str = "pm_card_visa") -> str:
        """Take a payment, and say its name."""
        outcome = await self.perform(self.payment(method))
        assert isinstance(outcome, Succeeded), outcome
        return outcome.reference

    async def find(self, request: ProviderRequest, reference: str | None = None) -> Lookup:
        """Look an action up."""
        async with finding(self.stage) as finder:
            return await finder.find(
                account=self.account,
                provider_key=request.action_key,
                action_key=request.action_key,
                reference=reference,
                timeout_ms=PATIENCE_MS,
            )

    async def control(self, path: str, **body: object) -> str:
        """Let something happen at Stripe, and name the object that it made, if it made one."""
        answer = await asyncio.to_thread(self.stage.process.control, path, body)
        return str(OBJECT.validate_python(answer).get("id", ""))

    async def fetch(self, path: str) -> dict[str, JsonValue]:
        """Read an object as the API shows it."""
        return OBJECT.validate_json(await self.raw(path))

    async def raw(self, path: str) -> bytes:
        """Read the bytes of an answer of the API."""
        headers = {"Authorization": f"Bearer sk_test_{self.account}"}
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_SECONDS) as client:
            answer = await client.get(f"{self.stage.process.url}{path}", headers=headers)
        return answer.content

    async def listed(self, path: str) -> list[dict[str, JsonValue]]:
        """Read the first page of a list as the API shows it."""
        data = (await self.fetch(path))["data"]
        return TypeAdapter(list[dict[str, JsonValue]]).validate_python(data)
