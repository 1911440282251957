"""A sampling profiler for one process: where its CPU time goes, at almost no cost to it.

The kernel interrupts the process every few milliseconds of CPU time and the stack of the main
thread is counted. Time inside C counts for the Python line that called it. Nothing is counted while
the process waits, or imports modules. Called by `benchmarks.profiled`.
"""

import json
import resource
import signal
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Final, Self

from rich.console import Console
from rich.table import Table

EVERY_SECONDS: Final = 0.002
"""Of CPU time; the kernel rounds it up to its own clock."""

SHOWN_MAX: Final = 30
KEPT_MAX: Final = 400
_IMPORTING: Final = "<frozen importlib"
_LIBRARIES: Final = ("/site-packages/", f"/python{sys.version_info[0]}.{sys.version_info[1]}/")
_ROOT: Final = f"{Path(__file__).parents[1]}/"


@dataclass(frozen=True, slots=True)
class Profile:
    """Samples by place: in it (`own`), in it or in what it calls (`total`), by line (`lines`)."""

    cpu_seconds: float
    samples: int
    own: dict[str, int]
    total: dict[str, int]
    lines: dict[str, int]

    @classmethod
    def read(cls, path: Path) -> Self:
        """What a process has written."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def write(self, path: Path) -> None:
        """For the process that asked for it."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    def show(self, console: Console) -> None:
        """Print the places with the largest shares."""
        console.print(f"{self.cpu_seconds:.1f} s of CPU time, {self.samples} samples")
        for title, counted in (
            ("in the function itself", self.own),
            ("with what it calls", self.total),
            ("line", self.lines),
        ):
            table = Table("share", title)
            for place, count in list(counted.items())[:SHOWN_MAX]:
                table.add_row(f"{100 * count / max(1, self.samples):.1f} %", place)
            console.print(table)


class Sampler:
    """Counts from `start` to `stop`; one a process, in its main thread."""

    def __init__(self) -> None:
        self._samples = 0
        self._lines: Counter[tuple[CodeType, int]] = Counter()
        self._total: Counter[CodeType] = Counter()

    def start(self) -> None:
        """Begin to count."""
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, EVERY_SECONDS, EVERY_SECONDS)

    def stop(self) -> Profile:
        """What was counted."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        own: Counter[str] = Counter()
        lines: Counter[str] = Counter()
        for (code, line), count in self._lines.items():
            own[_place(code)] += count
            lines[f"{_place(code)}:{line}"] += count
        total: Counter[str] = Counter()
        for code, count in self._total.items():
            total[_place(code)] += count
        used = resource.getrusage(resource.RUSAGE_SELF)
        return Profile(
            round(used.ru_utime + used.ru_stime, 2),
            self._samples,
            *(dict(counted.most_common(KEPT_MAX)) for counted in (own, total, lines)),
        )

    def _sample(self, _number: int, frame: FrameType | None) -> None:
        seen = set()
        current = frame
        while current is not None:
            if current.f_code.co_filename.startswith(_IMPORTING):
                return
            seen.add(current.f_code)
            current = current.f_back
        if frame is not None:
            self._samples += 1
            self._lines[frame.f_code, frame.f_lineno] += 1
            self._total.update(seen)


def _place(code: CodeType) -> str:
    """File and function, from the root of the project or of the installed packages."""
    file = code.co_filename.removeprefix(_ROOT)
    for folder in _LIBRARIES:
        file = file.rpartition(folder)[2]
    return f"{file}:{code.co_qualname}"
