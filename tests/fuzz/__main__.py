"""Feed every parser with mutated inputs for a while.

    python -m tests.fuzz [--seconds 60] [--seed N] [--parser NAME]

Ends with 1 where a parser broke its promise; the input is printed with the seed and the round that
make it again. Two parsers at a time: they share nothing.
"""

import argparse
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor

from tests.fuzz.mutating import Mutator
from tests.fuzz.parsers import targets


def fuzz(name: str, seconds: float, seed: int) -> tuple[str, int, str]:
    """One parser for so long: its name, how many inputs it was given, and what broke."""
    target = next(one for one in targets() if one.name == name)
    mutator, rounds, ends_s = Mutator(target.corpus, seed), 0, time.monotonic() + seconds
    while time.monotonic() < ends_s:
        case = mutator.draw()
        rounds += 1
        try:
            target.run(*case)
        except BaseException:  # noqa: BLE001 - whatever it is, it is what is looked for
            return name, rounds, f"seed {seed}, round {rounds}: {case!r}\n{traceback.format_exc()}"
    return name, rounds, ""


def main() -> int:
    """Run, tell each parser when it is done, and say whether all held."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--parser", action="append")
    given = parser.parse_args()
    names = [one.name for one in targets()]
    chosen = given.parser or names
    if unknown := set(chosen) - set(names):
        parser.error(f"no parser {sorted(unknown)}; there are {', '.join(names)}")
    broken = 0
    with ProcessPoolExecutor(2) as pool:
        runs = [pool.submit(fuzz, name, given.seconds, given.seed) for name in chosen]
        for run in runs:
            name, rounds, failure = run.result()
            broken += bool(failure)
            mark = "✗" if failure else "✓"
            print(f"{mark} {name:<24} {rounds:>9,} inputs", flush=True)  # noqa: T201
            if failure:
                print(failure, flush=True)  # noqa: T201
    print(f"seed {given.seed}: {broken} of {len(chosen)} parsers broke")  # noqa: T201
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
