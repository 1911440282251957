"""What every test may ask for by name."""

import gc

pytest_plugins = ["tests.servers", "tests.order"]


def pytest_collection_finish() -> None:
    """Let nobody search for cycles again in what stays until the end: the thousands of tests and
    all modules were gone through whenever a test that computes had made enough objects.
    """
    gc.collect()
    gc.freeze()
