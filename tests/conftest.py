"""What every test may ask for by name, and how properties are tried."""

import faulthandler
import gc
import os

import pytest
from hypothesis import settings

# The same examples on every run, so that a failure is a fact, however much or little is run; and no
# example is timed, which a busy machine would fail.
settings.register_profile("derandomized", derandomize=True, deadline=None, max_examples=200)
settings.load_profile("derandomized")

# How wide and how coloured commands tell is each test's own case. Whoever starts the tests may have
# been told otherwise, and some machines that run them for others always are.
TERMINAL = (
    *("COLUMNS", "LINES", "TERMINAL_WIDTH"),
    *("FORCE_COLOR", "NO_COLOR", "PY_COLORS", "GITHUB_ACTIONS"),
    *("TTY_COMPATIBLE", "TTY_INTERACTIVE"),
)
for variable in TERMINAL:
    os.environ.pop(variable, None)

pytest_plugins = ["tests.servers", "tests.order"]

# What is collected stays until the end: nobody looks for cycles in it meanwhile, a quarter of the
# time of collecting, nor later, whenever a test that computes has made enough objects.
gc.disable()


def pytest_collection_finish() -> None:
    """Look for cycles from here on, and only in what comes."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_runtest_call(item: pytest.Item) -> None:
    """A test that may take longer than all others tells no stacks in the middle of it: that it
    still works is no trouble, and at the end of its own time they are told anyway.
    """
    if item.get_closest_marker("timeout") is not None:
        faulthandler.cancel_dump_traceback_later()
