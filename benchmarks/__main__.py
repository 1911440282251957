"""Measures the real processes and prints one table.

    python -m benchmarks [--seconds S] [--cases a,b] [--json] [--profile NAME]
    python -m benchmarks micro [--json]

The variables BENCH_OUT, BENCH_PASS, BENCH_SECONDS, BENCH_DIR, BENCH_POSTGRES_URL and
BENCH_POSTGRES_PID say the same as options, for a script that compares several systems.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from benchmarks import micro
from benchmarks.cases import ALONGSIDE, Case
from benchmarks.installation import LOAD, PROCESSES, Variant
from benchmarks.run import Options, run
from benchmarks.webhooks import OF_WEBHOOKS
from gateway.settings import PARTITIONS_MAX, process_environment
from ledger.core.errors import LedgerError

SECONDS_DEFAULT = 5.0
PARTITIONS_DEFAULT = 6
EXIT_TROUBLE = 1
EXIT_INTERRUPTED = 130


def main(arguments: list[str]) -> int:
    """Run what was asked for; the exit code says whether there is a result, not how good it is."""
    environment = process_environment()
    given = _parser(environment).parse_args(arguments)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    if given.what == "micro":
        costs = micro.costs()
        if given.json:
            print(json.dumps({"micro_us": costs}))
        else:
            micro.show(costs, console)
        return 0
    try:
        results, profile = asyncio.run(run(_options(given, environment)))
    except LedgerError as trouble:
        sys.stderr.write(f"{trouble.message}\n{trouble.hint}\n")
        return EXIT_TROUBLE
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.stderr.write("stopped\n")
        return EXIT_INTERRUPTED
    if given.json:
        for line in results.lines:
            print(json.dumps(line, ensure_ascii=False))
        return 0
    results.show(console)
    if profile is not None:
        console.print(f"\nprofile of {given.profile}")
        profile.show(console)
    return 0


def _options(given: argparse.Namespace, environment: Mapping[str, str]) -> Options:
    cases = frozenset(given.cases)
    variants = (Variant.DEFAULT,) if given.profile else tuple(given.systems)
    url, pid = environment.get("BENCH_POSTGRES_URL"), environment.get("BENCH_POSTGRES_PID")
    out = environment.get("BENCH_OUT")
    scratch = environment.get("BENCH_DIR")
    return Options(
        seconds=given.seconds,
        cases=cases or frozenset({Case.INFLIGHT_128} if given.profile else Case),
        variants=variants,
        partitions=given.partitions,
        number=int(environment.get("BENCH_PASS") or 1),
        out=Path(out) if out else None,
        scratch=Path(scratch) if scratch else None,
        database=(url, int(pid)) if url and pid else None,
        profiled=given.profile,
    )


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the real processes on real Kafka and Postgres.",
    )
    parser.add_argument("what", nargs="?", choices=["all", "micro"], default="all")
    parser.add_argument(
        "--seconds",
        type=float,
        default=float(environment.get("BENCH_SECONDS") or SECONDS_DEFAULT),
        help="length of a case (default: BENCH_SECONDS, else %(default)s)",
    )
    parser.add_argument(
        "--cases",
        type=_cases,
        default=[],
        help=f"some of {', '.join(Case)} (default: all)",
    )
    parser.add_argument(
        "--systems",
        type=_variants,
        default=list(Variant),
        help="default, fsync or default,fsync (default: both)",
    )
    parser.add_argument(
        "--partitions",
        type=int,
        choices=range(1, PARTITIONS_MAX + 1),
        metavar="N",
        default=PARTITIONS_DEFAULT,
        help="partitions of the stream topics (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print result lines, no table")
    parser.add_argument(
        "--profile",
        choices=[*(process.value for process in (*PROCESSES, *OF_WEBHOOKS)), LOAD],
        help="run one process under a sampling profiler and print where its CPU time goes",
    )
    return parser


def _cases(text: str) -> list[Case]:
    try:
        named = [Case(name.strip()) for name in text.split(",")]
    except ValueError as unknown:
        raise argparse.ArgumentTypeError(f"{unknown}; there are {', '.join(Case)}") from None
    return [*named, *(ALONGSIDE[case] for case in named if case in ALONGSIDE)]


def _variants(text: str) -> list[Variant]:
    by_name = {variant.name.lower(): variant for variant in Variant}
    try:
        return [by_name[name.strip()] for name in text.split(",")]
    except KeyError as unknown:
        raise argparse.ArgumentTypeError(f"{unknown} is none of {', '.join(by_name)}") from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
