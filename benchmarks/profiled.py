"""Any of the programs under the sampling profiler.

    python -m benchmarks.profiled FILE MODULE [ARGUMENT...]

Runs `MODULE.main(arguments)` and writes what was found to FILE when it returns, however it does.
Started by `benchmarks.installation` in place of the program itself.
"""

import sys
from importlib import import_module
from pathlib import Path

from benchmarks.sampling import Sampler


def main(file: Path, module: str, arguments: list[str]) -> int:
    """Run the program; its exit code."""
    program = import_module(module)
    sampler = Sampler()
    sampler.start()
    try:
        return int(program.main(arguments) or 0)
    finally:
        sampler.stop().write(file)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
