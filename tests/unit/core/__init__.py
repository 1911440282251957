"""Tests of the pure core: every rule on both sides of its limit."""
