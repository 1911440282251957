"""Result lines for the comparison with other systems, and the table for a person.

A line is one JSON object; lines of several programs and passes go to one file, so each is appended
whole as soon as it is known. Called by `benchmarks.run`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.cases import Case
from benchmarks.installation import Variant

ABOUT: Final = "about"

WORDS: Final[Mapping[tuple[Case, str], str]] = {
    (Case.SEQ, "p50_ms"): "p50 ms",
    (Case.SEQ, "p99_ms"): "p99 ms",
    **{
        (case, figure): words
        for case in (Case.INFLIGHT_32, Case.INFLIGHT_128, Case.INFLIGHT_512)
        for figure, words in (
            ("per_s", "actions/s"),
            ("answered_per_s", "answered/s"),
            ("p50_ms", "p50 ms"),
            ("p99_ms", "p99 ms"),
        )
    },
    (Case.REPLAY, "p50_ms"): "p50 ms",
    (Case.REPLAY, "per_s"): "answers/s",
    (Case.APPROVED, "p50_ms"): "p50 ms",
    (Case.APPROVED, "p99_ms"): "p99 ms",
    (Case.APPROVED, "per_s"): "actions/s",
    (Case.RULED, "plain_us"): "own µs, all let pass",
    (Case.RULED, "ruled_us"): "own µs, default policy",
    (Case.RULED, "times"): "  times",
    (Case.GATED, "plain_us"): "own µs, no gate",
    (Case.GATED, "target_times_cpu"): "  times, with its target",
    (Case.GATED, "budget_and_target_times_cpu"): "  times, with a budget too",
    (Case.GATED, "plain_p50_ms"): "p50 ms, no gate",
    (Case.GATED, "target_times_p50"): "  times, with its target",
    (Case.GATED, "budget_and_target_times_p50"): "  times, with a budget too",
    (Case.PROJECT, "per_s"): "events/s",
    (Case.REBUILD, "per_s"): "events/s",
    (Case.LAG, "p50_ms"): "p50 ms",
    (Case.LAG, "p99_ms"): "p99 ms",
    (Case.WEBHOOK, "per_s"): "published/s",
    (Case.WEBHOOK, "matched_per_s"): "matched/s",
    (Case.WEBHOOK, "matched_p50_ms"): "  at half of it matched after p50 ms",
    (Case.WEBHOOK, "matched_p99_ms"): "  p99 ms",
    (Case.WEBHOOK, "settled_p50_ms"): "  settled after p50 ms",
    (Case.WEBHOOK, "settled_p99_ms"): "  p99 ms",
    (Case.WEBHOOK, "gateway_us"): "door µs a webhook",
    (Case.WEBHOOK, "reconciler_us"): "  reconciler",
    (Case.WEBHOOK, "processor_us"): "  processor",
    (Case.WEBHOOK, "executor_us"): "  executor, which follows",
    (Case.WEBHOOK, "projector_us"): "  projector",
    (Case.WEBHOOK, "broker_us"): "  broker",
    (Case.WEBHOOK, "postgres_us"): "  Postgres",
    (Case.WEBHOOK, "load_us"): "  load, not counted",
    (Case.CPU, "system_us"): "own µs an action",
    (Case.CPU, "processor_us"): "  processor",
    (Case.CPU, "executor_us"): "  executor",
    (Case.CPU, "projector_us"): "  projector",
    (Case.CPU, "broker_us"): "broker µs an action",
    (Case.CPU, "postgres_us"): "Postgres µs an action",
    (Case.CPU, "load_us"): "load, not counted",
    (Case.MEMORY, "rss_mb"): "own MB",
    (Case.MEMORY, "broker_mb"): "broker MB",
    (Case.MEMORY, "postgres_mb"): "Postgres MB",
}
"""The figures of the table, in its order."""

UNFAIR: Final = """\
Unfair to others: `product` answers when the broker has a record in memory, so where others flush \
compare `product, fsync`; the provider does nothing, and callers skip the HTTP door.
Unfair to the product: load, broker, Postgres and three processes share these cores, an action \
stores five events and its projection, and the clock runs until Postgres shows the last one."""


@dataclass
class Results:
    """What was measured so far, in this pass."""

    number: int
    out: Path | None
    lines: list[dict[str, object]] = field(default_factory=list)

    def add(self, variant: Variant, case: str, figures: Mapping[str, object]) -> None:
        """Keep a line, and append it to the file where there is one."""
        line = {"system": variant.value, "case": case, "pass": self.number, **figures}
        self.lines.append(line)
        if self.out is not None:
            with self.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def show(self, console: Console) -> None:
        """Print the table, what is unfair about it, and on what it was measured."""
        variants = list(dict.fromkeys(str(line["system"]) for line in self.lines))
        by_case = {(line["system"], line["case"]): line for line in self.lines}
        table = Table()
        table.add_column("case")
        table.add_column("figure")
        for variant in variants:
            table.add_column(variant, justify="right")
        before = ""
        for (case, figure), words in WORDS.items():
            cells = [shown(by_case.get((variant, case), {}).get(figure)) for variant in variants]
            if any(cells):
                table.add_row("" if case == before else case, words, *cells)
                before = case
        console.print(table)
        console.print(UNFAIR, soft_wrap=True)
        for variant in variants:
            about = by_case.get((variant, ABOUT))
            if about is not None:
                console.print(f"{variant}: {described(about)}", soft_wrap=True)


def shown(value: object) -> str:
    """A figure as a person reads it; a sum where it is by process."""
    match value:
        case dict():
            return shown(sum(value.values()))
        case int() | float():
            return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
        case _:
            return ""


def described(about: Mapping[str, object]) -> str:
    """What was measured, in one line."""
    versions = about["versions"]
    assert isinstance(versions, dict)
    facts = {key: value for key, value in about.items() if key not in _KEYS}
    return ", ".join(f"{name} {value}" for name, value in {**versions, **facts}.items())


_KEYS: Final = frozenset({"system", "case", "pass", "versions"})
