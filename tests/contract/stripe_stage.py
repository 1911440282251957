"""The simulated Stripe before the contract suite, through the adapter `stripe`."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import httpx

from reconciler.providers.port import IMPOSSIBLE, Capabilities
from reconciler.providers.registry import ProviderSettings
from reconciler.providers.stripe.adapter import capabilities_of as promised
from reconciler.providers.stripe.simulated.requests import API_KEY_PREFIX
from tests.contract.stage import Behaviour, ProviderProcess, SimulatedStage, running
from tests.patience import PATIENCE_SECONDS

MODULE: Final = "reconciler.providers.stripe.simulated"
DESCRIPTION: Final = """
format = 1
kind = "stripe"
settle_horizon_ms = 2_000
replay_proven = "possible"

[perform.charge]
makes = "payment"

[perform.charge.parameters]
payment_method = "pm_card_visa"
description = "{params.description}"
metadata = { order = "{params.order}" }

[perform.pay]
makes = "payment"

[perform.pay.parameters]
payment_method = "{params.payment_method}"
customer = "{params.customer}"
capture_method = "{params.capture_method}"

[perform.refund]
makes = "refund"

[perform.refund.parameters]
reason = "requested_by_customer"
"""
WORDS: Final[Mapping[str, str]] = {
    "in_progress": "idempotency_key_in_use",
    "internal_error": "api_error",
    "key_reused": "idempotency_error",
    "moved": "http_307",
    "rate_limited": "rate_limit",
    "search_not_offered": "permission_missing",
    "search_unavailable": "service_unavailable",
}


_NO_REFERENCE: Final = "Stripe has no reference of ours that it would keep unique"
NOT_ASKED: Final[Mapping[str, str]] = {
    Behaviour.UNIQUE_REFERENCES.value: _NO_REFERENCE,
    "test_an_effect_without_a_key_is_found_by_its_marker": _NO_REFERENCE,
    "test_a_unique_reference_holds_where_there_are_no_keys": _NO_REFERENCE,
    "test_previewing": "nobody says what a payment would come to; test_stripe_previews has refunds",
}
"""What of the suite is no question to Stripe: behaviours, tests and files of tests, each with the
reason."""


class StripeStage(SimulatedStage):
    """The simulated Stripe, in its own process. Its accounts need no unique reference: there is
    none at Stripe that could be one.
    """

    def __init__(self, process: ProviderProcess) -> None:
        """Use a process that runs."""
        super().__init__(process)
        self.adapter_file = process.folder / "stripe.toml"
        self.adapter_file.write_text(DESCRIPTION)

    def account(self, behaviour: Behaviour) -> str:
        """Name a fresh account that behaves so."""
        assert behaviour is not Behaviour.UNIQUE_REFERENCES, "there is no such account at Stripe"
        account = super().account(behaviour)
        self._api_keys[account] = API_KEY_PREFIX + account
        return account

    def capabilities(self, behaviour: Behaviour) -> Capabilities:
        """Say what is true of such an account: what Stripe promises, less what it does not keep."""
        natural = super().capabilities(behaviour)
        if not natural.finds_by_marker:
            return dataclasses.replace(natural, previews=IMPOSSIBLE)
        return dataclasses.replace(
            promised(natural.settle_horizon_ms, natural.replay_proven),
            reliability=natural.reliability,
            key_window_ms=natural.key_window_ms,
            search_lag_ms=0,
            remembers=natural.remembers,
        )

    def word(self, code: str) -> str:
        """Say what Stripe calls it."""
        return WORDS.get(code, code)

    def strange_effect(self, account: str) -> None:
        """Let somebody take a payment past the ledger."""
        answer = httpx.post(
            f"{self.process.url}/v1/payment_intents",
            headers={"Authorization": f"Bearer {API_KEY_PREFIX}{account}"},
            data={
                "amount": "4990",
                "currency": "usd",
                "payment_method": "pm_card_visa",
                "confirm": "true",
            },
            trust_env=False,
            timeout=PATIENCE_SECONDS,
        )
        assert answer.status_code == 200, answer.text

    def settings(self) -> ProviderSettings:
        """Configure the adapter for every account named so far."""
        return ProviderSettings(
            "simulated",
            "stripe",
            self.process.url,
            self._api_keys,
            adapter_file=self.adapter_file,
        )


@contextlib.contextmanager
def stripe_stage(folder: Path) -> Iterator[StripeStage]:
    """A running simulated Stripe with an empty book."""
    with running(folder, module=MODULE) as process:
        yield StripeStage(process)
