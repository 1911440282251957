"""Whole histories on the seeded log, judged by the invariants."""
