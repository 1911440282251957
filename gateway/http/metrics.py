"""What the HTTP door counts, and how it stands with what is uncertain, for Prometheus.

Guarantees that no label is ever a caller's text: routes, codes, statuses and configured providers
only, so that nobody can fill the memory with names. Called by the routes and the outermost layer.
"""

from collections.abc import Sequence
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from projections.query_rows import UnknownAge
from reconciler.windows import Live

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_UNKNOWN_PROVIDER: Final = "unknown"


class _Standing:
    """How it stands with what is uncertain, as it was told last."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._unknown = Gauge(
            "actionledger_unknown_actions",
            "Actions whose effect may have happened, by provider and age: below 1m, 10m, 1h, 6h, "
            "1d, or older. Each is counted once.",
            ["provider", "age"],
            registry=registry,
        )
        self._handled = Gauge(
            "actionledger_webhooks_handled_per_second",
            "Webhooks that the reconciler handled over the last 5 minutes, by what became of them.",
            ["provider", "result"],
            registry=registry,
        )
        self._matched = Gauge(
            "actionledger_webhook_match_seconds",
            "From the append of a webhook to its evidence, over the last 5 minutes: the bound "
            "within which half, and 99 in 100, of those that matched lie.",
            ["quantile"],
            registry=registry,
        )
        self._unmatched = Gauge(
            "actionledger_webhooks_unmatched",
            "Webhooks that belong to no known action, by reason, as counted within half a minute.",
            ["reason"],
            registry=registry,
        )
        self._attention = Gauge(
            "actionledger_attention_last_hour",
            "What needed eyes in the last hour, by kind.",
            ["kind"],
            registry=registry,
        )
        self._members = Gauge(
            "actionledger_reconcilers",
            "Members of the reconciler that have told what they see within 20 seconds.",
            registry=registry,
        )
        self._is_known = Gauge(
            "actionledger_read_model_answers",
            "1 if the read model answered for what is asked of it here, else 0: then gauges of "
            "unknown actions, matches and reconcilers are missing.",
            registry=registry,
        )

    def seen(self, live: Live, ages: Sequence[UnknownAge]) -> None:
        """Take over how it stands now. Reasons and kinds are of closed sets."""
        self._not_seen()
        self._is_known.set(1)
        self._members.set(live.members)
        for one in ages:
            self._unknown.labels(one.provider, one.below).set(one.actions)
        for provider, counts in live.webhooks_per_s.items():
            for became, per_s in counts.items():
                self._handled.labels(provider, became).set(per_s)
        for quantile, bound_ms in (("0.5", live.matched_p50_ms), ("0.99", live.matched_p99_ms)):
            if bound_ms is not None:
                self._matched.labels(quantile).set(bound_ms / 1_000)
        for reason, count in live.unmatched.items():
            self._unmatched.labels(reason).set(count)
        for kind, count in live.attention.items():
            self._attention.labels(kind).set(count)

    def not_seen(self) -> None:
        """Nobody answered how it stands: no old figure is told in its place."""
        self._not_seen()
        self._is_known.set(0)
        self._members.set(float("nan"))

    def _not_seen(self) -> None:
        for gauge in (
            self._unknown,
            self._handled,
            self._matched,
            self._unmatched,
            self._attention,
        ):
            gauge.clear()


class Metrics:
    """The door's own registry: two doors in one process do not add up."""

    def __init__(self) -> None:
        # A second series for each one, with the time of its first count, helps nobody here.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._intents = Counter(
            "actionledger_intents",
            "Intents by what was answered: new, replayed, undecided, or the code of a refusal.",
            ["result"],
            registry=self.registry,
        )
        self._outcomes = Counter(
            "actionledger_caller_outcomes",
            "What callers said of their own attempts, by kind; or the code of a refusal.",
            ["result"],
            registry=self.registry,
        )
        self._decisions = Counter(
            "actionledger_decisions",
            "What people signed: approve, deny, withdraw; or the code of a refusal.",
            ["result"],
            registry=self.registry,
        )
        self._webhooks = Counter(
            "actionledger_webhooks",
            "Webhooks by provider and what was answered: accepted, or why not.",
            ["provider", "result"],
            registry=self.registry,
        )
        self._requests = Histogram(
            "actionledger_http_request_seconds",
            "Time from the head of a request to the end of its answer; waiting included.",
            ["method", "route", "status"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        # Looking a series up by its labels costs more than counting in it.
        self._webhooks_of: dict[tuple[str | None, str], Counter] = {}
        self._requests_of: dict[tuple[str, str, int], Histogram] = {}
        self._standing = _Standing(self.registry)
        self.waiters = Gauge(
            "actionledger_http_waiters",
            "Requests that wait for an action to move.",
            registry=self.registry,
        )

    def intent(self, result: str) -> None:
        """Count one intent; `result` is one of a closed set."""
        self._intents.labels(result).inc()

    def outcome(self, result: str) -> None:
        """Count one caller's word; `result` is one of a closed set."""
        self._outcomes.labels(result).inc()

    def decision(self, result: str) -> None:
        """Count what a person handed in; `result` is one of a closed set."""
        self._decisions.labels(result).inc()

    def webhook(self, provider: str | None, result: str) -> None:
        """Count one webhook; a provider that is not configured has no name here."""
        series = self._webhooks_of.get((provider, result))
        if series is None:
            name = _UNKNOWN_PROVIDER if provider is None else provider
            series = self._webhooks_of[provider, result] = self._webhooks.labels(name, result)
        series.inc()

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Record how long one request took; `status` becomes its class, such as 2xx."""
        which = (method, route, status // 100)
        series = self._requests_of.get(which)
        if series is None:
            series = self._requests_of[which] = self._requests.labels(*which[:2], f"{which[2]}xx")
        series.observe(seconds)

    def seen(self, live: Live, ages: Sequence[UnknownAge]) -> None:
        """Take over how it stands now. Reasons and kinds are of closed sets."""
        self._standing.seen(live, ages)

    def not_seen(self) -> None:
        """Nobody answered how it stands: no old figure is told in its place."""
        self._standing.not_seen()

    def text(self) -> bytes:
        """Everything in the text format of Prometheus."""
        return generate_latest(self.registry)
