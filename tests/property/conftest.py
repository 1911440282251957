"""Settings of every property test: the same examples on every run, so that a failure is a fact."""

from hypothesis import settings

settings.register_profile("derandomized", derandomize=True, deadline=None, max_examples=200)
settings.load_profile("derandomized")
