"""The benchmark run as a comparison runs it: its lines have the agreed form, nothing is left."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import psutil
import pytest

from benchmarks import micro
from benchmarks.installation import PROCESSES
from tests.patience import CAMPAIGN_SECONDS, PATIENCE_SECONDS
from tests.tree import ROOT

LOOK_SECONDS = 0.05
RUN_SECONDS = CAMPAIGN_SECONDS / 3
"""Each starts whole installations."""
NUMBER = {"type": "number", "exclusiveMinimum": 0}
LINE = {
    "type": "object",
    "required": ["system", "case", "pass"],
    "properties": {
        "system": {"enum": ["product", "product, fsync"]},
        "case": {"enum": ["seq", "about"]},
        "pass": {"const": 7},
        "n": {"type": "integer", "minimum": 1},
        "p50_ms": NUMBER,
        "p99_ms": NUMBER,
        "versions": {"type": "object", "additionalProperties": {"type": "string"}},
        "partitions": {"const": 2},
        "replication": {"const": 1},
        "processes": {"const": len(PROCESSES)},
        "events_an_action": {"const": 5},
    },
    "allOf": [
        {
            "if": {"properties": {"case": {"const": "seq"}}},
            "then": {"required": ["n", "p50_ms", "p99_ms"]},
            "else": {"required": ["versions", "processes", "partitions", "events_an_action"]},
        }
    ],
}


FIGURES = {
    "lag": ("n", "p50_ms", "p99_ms"),
    "ruled": ("n", "plain_us", "ruled_us", "times"),
    "approved": ("n", "p50_ms", "p99_ms", "per_s"),
    "gated": ("n", "target_times_cpu", "budget_and_target_times_cpu", "target_times_p50"),
    "webhook": (
        *("n", "per_s", "matched_per_s", "matched_p50_ms", "matched_p99_ms", "settled_p99_ms"),
        *("gateway_us", "reconciler_us"),
    ),
}


@contextmanager
def interruptible() -> Iterator[None]:
    """What is started meanwhile can be interrupted, as at a terminal: a shell has what it starts
    in the background ignore that, and so do all that come of it, the tests too.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


async def start(folder: Path, *arguments: str) -> asyncio.subprocess.Process:
    """Start the benchmarks as a script that compares systems does."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks", *arguments),
        cwd=ROOT,
        env={
            **os.environ,
            "BENCH_OUT": str(folder / "lines"),
            "BENCH_PASS": "7",
            "BENCH_SECONDS": "0.2",
            "BENCH_DIR": str(folder / "scratch"),
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


def running_in(folder: Path) -> list[str]:
    """Processes that were started on anything below the folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        words = [*(process.info["cmdline"] or []), process.info["cwd"] or ""]
        if any(str(folder) in word for word in words):
            found.append(" ".join(words))
    return found


async def nothing_runs_in(folder: Path) -> None:
    """Wait until the kernel has ended whatever the run had told it to end with it."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while running_in(folder):
            await asyncio.sleep(LOOK_SECONDS)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A folder for a run, which the account of Postgres may enter."""
    (tmp_path / "scratch").mkdir()
    return tmp_path


@pytest.mark.timeout(CAMPAIGN_SECONDS)
async def test_both_columns_are_measured_and_written_in_the_agreed_form(scratch: Path) -> None:
    """A line says the product with or without flushing; the table is on stdout, nothing is left."""
    process = await start(scratch, "--cases", "seq", "--partitions", "2")
    async with asyncio.timeout(RUN_SECONDS):
        table, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    lines = [json.loads(line) for line in (scratch / "lines").read_text().splitlines()]
    for line in lines:
        jsonschema.validate(line, LINE)
    assert [(line["system"], line["case"]) for line in lines] == [
        ("product", "seq"),
        ("product", "about"),
        ("product, fsync", "seq"),
        ("product, fsync", "about"),
    ]
    assert "product, fsync" in table.decode()
    assert "Unfair to the product" in table.decode()
    assert list((scratch / "scratch").iterdir()) == []
    await nothing_runs_in(scratch)


@pytest.mark.timeout(CAMPAIGN_SECONDS)
async def test_every_case_of_deciding_and_following_has_its_figures(scratch: Path) -> None:
    """A person's signature, the decision table, webhooks and the lag of the tables are measured on
    the real processes, and come out by the names that the comparison knows.
    """
    process = await start(
        scratch,
        *("--cases", "lag,ruled,approved,gated,webhook"),
        *("--systems", "default", "--partitions", "2"),
    )
    async with asyncio.timeout(CAMPAIGN_SECONDS / 2):
        _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    lines = [json.loads(line) for line in (scratch / "lines").read_text().splitlines()]
    figures = {line["case"]: line for line in lines}
    for case, names in FIGURES.items():
        for name in names:
            assert figures[case][name] > 0, (case, name)
    await nothing_runs_in(scratch)


@pytest.mark.timeout(CAMPAIGN_SECONDS)
async def test_an_interrupted_run_leaves_nothing_behind(scratch: Path) -> None:
    """Ctrl-C in the middle ends every server and process that the run had started."""
    # Far longer than it takes to look around here: it must not end by itself meanwhile.
    far = ("--seconds", str(2 * RUN_SECONDS))
    with interruptible():
        process = await start(scratch, "--cases", "seq", "--systems", "default", *far)
    assert process.stderr is not None
    async with asyncio.timeout(RUN_SECONDS):
        while b"warm-up" not in (line := await process.stderr.readline()):
            assert line, "it has ended"
        assert running_in(scratch) != []
        process.send_signal(signal.SIGINT)
        await process.communicate()
    assert process.returncode == 130
    assert list((scratch / "scratch").iterdir()) == []
    await nothing_runs_in(scratch)


def test_the_small_costs_are_those_of_a_whole_action() -> None:
    """What is timed record by record are the five events of an action, from intent to the end."""
    world = micro.World()
    started, ended = world.start(), world.end()
    assert len(started) == len(ended) == micro.ACTIONS
    assert [fact.type for fact in (*started[0].facts, *ended[0].facts)] == [
        "intent.recorded",
        "policy.decided",
        "attempt.started",
        "attempt.succeeded",
        "action.completed",
    ]
