"""What every test may ask for by name, and how properties are tried."""

import gc

from hypothesis import settings

# The same examples on every run, so that a failure is a fact, however much or little is run; and no
# example is timed, which a busy machine would fail.
settings.register_profile("derandomized", derandomize=True, deadline=None, max_examples=200)
settings.load_profile("derandomized")

pytest_plugins = ["tests.servers", "tests.order"]


def pytest_collection_finish() -> None:
    """Let nobody search for cycles again in what stays until the end: the thousands of tests and
    all modules were gone through whenever a test that computes had made enough objects.
    """
    gc.collect()
    gc.freeze()
