"""Many more orders of what people may say and do: `python -m tests.model --runs 2000 --steps 60`.

Each time others, drawn anew; an order that breaks a law is shrunk and told. Exit code 1 then.
"""

import argparse
import sys
import time

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.people_machine import Machine

RUNS_DEFAULT = 2_000
STEPS_DEFAULT = 60


def main() -> int:
    """Live so many runs of so many steps."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS_DEFAULT, help="how many orders")
    parser.add_argument("--steps", type=int, default=STEPS_DEFAULT, help="the longest of them")
    asked = parser.parse_args()
    began = time.monotonic()
    chosen = settings(
        deadline=None,
        max_examples=asked.runs,
        stateful_step_count=asked.steps,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    run_state_machine_as_test(Machine, settings=chosen)
    took = time.monotonic() - began
    sys.stdout.write(f"{asked.runs} runs of {asked.steps} steps in {took:.0f} s: every law holds\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
