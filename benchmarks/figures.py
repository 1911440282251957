"""What a case says: figures by the names that the comparison knows."""

from collections.abc import Mapping

from benchmarks.load import Measured

Figures = Mapping[str, object]


def latencies(measured: Measured) -> Figures:
    """What callers waited."""
    return {
        "n": measured.n,
        "p50_ms": measured.p50_ms,
        "p99_ms": measured.p99_ms,
        "max_ms": measured.max_ms,
    }


def per_s(count: int, seconds: float) -> float:
    """A rate with one decimal."""
    return round(count / seconds, 1)


def rate(measured: Measured) -> float:
    """How many a second, from the first call to the last answer."""
    return per_s(measured.n, measured.ended_s - measured.began_s)
