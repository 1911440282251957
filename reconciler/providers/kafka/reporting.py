"""Telling the ledger what a consumer has made: a webhook of the outbox, signed like any other.

Guarantees that a report that the ledger did not take is an error, which the consumer logs: a lookup
finds out what no report told. Called by `consumer`.
"""

from datetime import UTC, datetime
from typing import Final

import httpx
from standardwebhooks import Webhook

from reconciler.providers.kafka.consumer import Report
from reconciler.providers.kafka.mapping import EffectReport

REPORT_SECONDS_MAX: Final = 10.0


def reporter(http: httpx.AsyncClient, url: str, secret: str) -> Report:
    """A function for `OutboxConsumer` that posts to `url`, the ledger's own
    `/v1/webhooks/PROVIDER?account=…`, with the secret that the ledger has for that account.

    Raises ValueError for a secret that is none; what it returns raises httpx.HTTPError.
    """
    signer = Webhook(secret)

    async def report(made: EffectReport) -> None:
        body, now = made.model_dump_json(), datetime.now(UTC)
        headers = {
            "content-type": "application/json",
            "webhook-id": made.event_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": signer.sign(made.event_id, now, body),
        }
        answer = await http.post(
            url,
            params={"account": made.account},
            content=body,
            headers=headers,
            timeout=REPORT_SECONDS_MAX,
        )
        answer.raise_for_status()

    return report
