"""What the HTTP door counts, for Prometheus.

Guarantees that no label is ever a caller's text: routes, codes, statuses and configured providers
only, so that nobody can fill the memory with names. Called by the routes and the outermost layer.
"""

from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_UNKNOWN_PROVIDER: Final = "unknown"


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
        self._webhooks.labels(_UNKNOWN_PROVIDER if provider is None else provider, result).inc()

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Record how long one request took; `status` becomes its class, such as 2xx."""
        self._requests.labels(method, route, f"{status // 100}xx").observe(seconds)

    def text(self) -> bytes:
        """Everything in the text format of Prometheus."""
        return generate_latest(self.registry)
