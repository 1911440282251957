"""What metrics say of how it stands, and that they say nothing where nobody answered."""

import math

from prometheus_client.parser import text_string_to_metric_families

from gateway.http.metrics import Metrics
from projections.query_rows import UnknownAge
from reconciler.windows import Live, live_of

LIVE = Live(
    members=2,
    webhooks_per_s={"shop": {"matched": 3.5, "repeated": 0.5}},
    matched_p50_ms=30.0,
    matched_p99_ms=250.0,
    unmatched={"parked:reference_unknown": 7},
    attention={"became_unknown": 4},
)
AGES = (UnknownAge("shop", "1m", 3), UnknownAge("shop", "older", 1))


def told(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels, in the order of their names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }


def test_how_it_stands_is_told_by_provider_age_and_reason() -> None:
    """Each figure of the live windows is one gauge; times are seconds."""
    metrics = Metrics()
    metrics.seen(LIVE, AGES)
    samples = told(metrics)
    assert samples["actionledger_unknown_actions", "1m", "shop"] == 3
    assert samples["actionledger_unknown_actions", "older", "shop"] == 1
    assert samples["actionledger_webhooks_handled_per_second", "shop", "matched"] == 3.5
    assert samples["actionledger_webhook_match_seconds", "0.99"] == 0.25
    assert samples["actionledger_webhooks_unmatched", "parked:reference_unknown"] == 7
    assert samples["actionledger_attention_last_hour", "became_unknown"] == 4
    assert samples[("actionledger_reconcilers",)] == 2
    assert samples[("actionledger_read_model_answers",)] == 1


def test_what_is_over_is_not_told_any_more() -> None:
    """An age that nobody has left is gone, and so is all of it where nobody answers."""
    metrics = Metrics()
    metrics.seen(LIVE, AGES)
    metrics.seen(live_of(()), AGES[:1])
    samples = told(metrics)
    assert ("actionledger_unknown_actions", "older", "shop") not in samples
    assert ("actionledger_webhook_match_seconds", "0.5") not in samples
    metrics.not_seen()
    samples = told(metrics)
    assert ("actionledger_unknown_actions", "1m", "shop") not in samples
    assert samples[("actionledger_read_model_answers",)] == 0
    assert math.isnan(samples[("actionledger_reconcilers",)])
